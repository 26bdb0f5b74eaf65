#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <unistd.h>

#include "base/clock.h"

static void clocks_go_forward(void **state)
{
    (void)state;
    uint64_t ns = weir_clock_ns(), ticks = weir_clock_ticks(), cpu = weir_clock_thread_cpu_ns();
    usleep(2000);
    assert_true(weir_clock_ns() - ns >= 2000000);
    assert_true(weir_clock_ticks() > ticks);
    assert_true(weir_clock_thread_cpu_ns() >= cpu);
}

static void ticks_become_ns_by_a_straight_line(void **state)
{
    (void)state;
    struct weir_clock_pair a = { .ns = 1000000000, .ticks = 5000 }, b = { .ns = 1010000000, .ticks = 5000 + 30000000 };
    assert_int_equal(weir_clock_to_ns(a, b, 5000), 1000000000);
    assert_int_equal(weir_clock_to_ns(a, b, 5000 + 15000000), 1005000000);
    assert_int_equal(weir_clock_to_ns(a, b, 5000 + 60000000), 1020000000);
    assert_true(fabs(weir_clock_ns_per_tick(a, b) - 1.0 / 3) < 1e-12);
}

/* A stamp read between two pairs agrees with the clock that was read beside it. */
static void real_pairs_agree_with_the_clock(void **state)
{
    (void)state;
    struct weir_clock_pair a = weir_clock_pair();
    usleep(20000);
    uint64_t ns = weir_clock_ns(), ticks = weir_clock_ticks();
    usleep(20000);
    struct weir_clock_pair b = weir_clock_pair();
    double off = (double)weir_clock_to_ns(a, b, ticks) - (double)ns;
    assert_true(fabs(off) < 200000); /* a preemption between the two readings counts, too */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(clocks_go_forward), cmocka_unit_test(ticks_become_ns_by_a_straight_line),
                                        cmocka_unit_test(real_pairs_agree_with_the_clock) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
