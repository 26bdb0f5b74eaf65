/* Items that are born inside: how many, where they go, and that each is counted until its end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/queue.h"
#include "tests/unit/runtime/plan_sample.h"

static struct weir_plan plan;
static struct weir_source sources[2];
static struct weir_inside inside;
static struct weir_intake intakes[2];
static struct weir_queue queue, *queues[] = { &queue };
static struct weir_loop loop;
static struct weir_thread thread;
static uint32_t runs; /* atomic */

static void run_and_end(struct weir_thread *at, struct weir_item *item)
{
    __atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
    assert_true(item->decoded && !item->loop && !weir_item_owes_reply(item));
    weir_loop_discard(at, item);
}

static const struct weir_contract_way *block(void)
{
    return &sample_way_blocks[plan.way_count * plan.shards];
}

static int set_up(void **state)
{
    (void)state;
    plan = sample_plan(WEIR_FULL_BLOCK, 4, 1 << 20);
    sources[0] = (struct weir_source){ .name = "p.index", .run = run_and_end, .run_stage = DECODE, .pool = 1, .limit = 3 };
    sources[1] = (struct weir_source){ .name = "p.index", .run = run_and_end, .run_stage = FRAME, .pool = 0, .limit = 1000 };
    plan.sources = sources;
    plan.source_count = 2;
    runs = 0;
    weir_thread_start(&thread, &plan, 1);
    weir_queue_init(&queue, &plan, 0, &intakes[1], 1);
    weir_intake_init(&intakes[1], queues, 1);
    weir_inside_init(&inside, &plan, intakes, &loop, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_inside_release(&inside);
    weir_queue_release(&queue);
    weir_intake_release(&intakes[1]);
    weir_thread_stop(&thread);
    return 0;
}

static void no_more_than_the_limit_are_under_way(void **state)
{
    (void)state;
    struct weir_item *items[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(items[i] = weir_inside_bear(&sources[0]));
    assert_null(weir_inside_bear(&sources[0]));
    assert_int_equal(sources[0].refused, 1);
    assert_true(block()->accepted == 3 && block()->in_flight == 3 && block()->discarded == 0);
    weir_inside_end(NULL, items[0]);
    assert_true(block()->accepted == 3 && block()->in_flight == 2 && block()->discarded == 1);
    assert_non_null(items[0] = weir_inside_bear(&sources[0]));
    for (int i = 0; i < 3; i++)
        weir_inside_end(&thread, items[i]);
    assert_int_equal(weir_inside_count(&inside), 0);
    weir_inside_close(&inside);
    assert_null(weir_inside_bear(&sources[0]));
}

/* Neither what was born inside nor what comes through a queue waits for the other's end. */
static void workers_take_turns(void **state)
{
    (void)state;
    struct weir_item received[3] = { 0 }, *item, *evicted;
    struct weir_queue *from;
    char order[7] = "";
    for (int i = 0; i < 3; i++) {
        received[i].way = &plan.ways[0];
        received[i].size_bytes = 1;
        assert_int_equal(weir_queue_push(&queue, &thread, &received[i], false, &evicted), WEIR_PUSH_ADMITTED);
        weir_inside_send(weir_inside_bear(&sources[0]));
    }
    for (int i = 0; i < 6; i++) {
        item = weir_intake_take(&intakes[1], &thread, &from);
        order[i] = from ? 'q' : 'i';
        if (!from)
            weir_inside_run(&thread, item);
    }
    assert_true(strcmp(order, "qiqiqi") == 0 || strcmp(order, "iqiqiq") == 0);
    assert_int_equal(runs, 3);
    assert_int_equal(block()->discarded, 3);
}

/* It has no connection that could be stopped. */
static void an_item_that_never_waits_is_rejected(void **state)
{
    (void)state;
    struct weir_item received[4] = { 0 }, *evicted;
    for (int i = 0; i < 4; i++) {
        received[i].size_bytes = 1;
        weir_queue_push(&queue, &thread, &received[i], false, &evicted);
    }
    struct weir_item *item = weir_inside_bear(&sources[0]);
    item->never_waits = true;
    item->size_bytes = 1;
    assert_int_equal(weir_queue_push(&queue, &thread, item, false, &evicted), WEIR_PUSH_REJECTED);
    assert_int_equal(queue.block->rejected, 1);
    weir_inside_end(&thread, item);
    struct weir_queue *from;
    for (int i = 0; i < 4; i++)
        weir_intake_take(&intakes[1], &thread, &from);
}

static void an_event_loop_runs_what_is_sent_until_it_ends(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_loop_start(&loop, &plan, &queue, NULL, 0, 0, &error), 0);
    for (int i = 0; i < 100; i++)
        weir_inside_send(weir_inside_bear(&sources[1]));
    for (int i = 0; i < 5000 && __atomic_load_n(&runs, __ATOMIC_RELAXED) < 100; i++)
        usleep(1000);
    assert_int_equal(__atomic_load_n(&runs, __ATOMIC_RELAXED), 100);
    weir_loop_stop(&loop);
    struct weir_item *late = weir_inside_bear(&sources[1]);
    weir_loop_release(&loop);
    assert_int_equal(weir_inside_count(&inside), 1);
    /* In a server nothing is sent any more when the mutex goes. */
    weir_mutex_init(&loop.mutex);
    weir_inside_send(late);
    assert_int_equal(weir_inside_count(&inside), 0);
    assert_true(block()->accepted == 101 && block()->discarded == 101);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_more_than_the_limit_are_under_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(workers_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_item_that_never_waits_is_rejected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_loop_runs_what_is_sent_until_it_ends, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
