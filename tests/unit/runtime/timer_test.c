/* Timers of a thread: which fire, in what order, and that one may arm itself again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/timer.h"
#include "tests/unit/runtime/plan_sample.h"

static struct weir_plan plan;
static struct weir_thread thread;
static struct weir_timer timers[3];
static char fired[16];
static bool again, ended;

static void fire(struct weir_thread *at, struct weir_timer *timer, bool ends)
{
    fired[strlen(fired)] = (char)('0' + (timer - timers));
    ended |= ends;
    assert_int_equal(timer->due_ns, 0);
    if (again)
        weir_timer_arm(at, timer, weir_clock_ns() + 3600000000000);
    again = false;
}

static int set_up(void **state)
{
    (void)state;
    plan = sample_plan(WEIR_FULL_BLOCK, 4, 1 << 20);
    weir_thread_start(&thread, &plan, 1);
    memset(fired, 0, sizeof fired);
    again = ended = false;
    for (int i = 0; i < 3; i++)
        timers[i] = (struct weir_timer){ .fire = fire };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_thread_stop(&thread);
    return 0;
}

static void those_that_are_due_fire_in_their_order(void **state)
{
    (void)state;
    uint64_t now = weir_clock_ns();
    weir_timer_arm(&thread, &timers[0], now - 10);
    weir_timer_arm(&thread, &timers[1], now + 3600000000000);
    weir_timer_arm(&thread, &timers[2], now - 20);
    assert_int_equal(thread.due_ns, now - 20);
    weir_timers_fire(&thread, WEIR_TIMERS_DUE);
    assert_string_equal(fired, "20");
    assert_int_equal(thread.due_ns, now + 3600000000000);
    weir_timers_fire(&thread, WEIR_TIMERS_DUE);
    assert_string_equal(fired, "20");
    weir_timers_fire(&thread, WEIR_TIMERS_ALL);
    assert_string_equal(fired, "201");
    assert_int_equal(thread.due_ns, 0);
    assert_false(ended);
}

static void armed_anew_it_is_armed_once(void **state)
{
    (void)state;
    uint64_t now = weir_clock_ns();
    weir_timer_arm(&thread, &timers[0], now + 3600000000000);
    weir_timer_arm(&thread, &timers[1], now + 7200000000000);
    weir_timer_arm(&thread, &timers[0], now - 1);
    again = true;
    weir_timers_fire(&thread, WEIR_TIMERS_DUE);
    assert_string_equal(fired, "0");
    assert_true(timers[0].due_ns > now && timers[1].due_ns > now);
    weir_timer_disarm(&thread, &timers[0]);
    weir_timer_disarm(&thread, &timers[0]);
    weir_timers_fire(&thread, WEIR_TIMERS_END);
    assert_string_equal(fired, "01");
    assert_true(ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(those_that_are_due_fire_in_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(armed_anew_it_is_armed_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
