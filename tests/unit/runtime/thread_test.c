#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/item.h"
#include "tests/unit/runtime/plan_sample.h"

static struct weir_plan plan;
static struct weir_thread thread;

static int set_up(void **state)
{
    (void)state;
    plan = sample_plan(WEIR_FULL_BLOCK, 4, 1 << 20);
    plan.way_count = 2;
    weir_thread_start(&thread, &plan, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_trace_on_semaphore = weir_trace_exact_semaphore = weir_items_flush_semaphore = 0;
    weir_thread_stop(&thread);
    return 0;
}

static struct weir_contract_log *log_of(void)
{
    return thread.log;
}

static void a_slot_tells_who_and_where(void **state)
{
    (void)state;
    assert_true(thread.slot->tid != 0);
    assert_int_equal(thread.slot->pool, 1);
    weir_thread_at(&thread, WEIR_TAG(HANDOFF, WEIR_PART_PUSH));
    assert_int_equal(thread.slot->tag, WEIR_TAG(HANDOFF, WEIR_PART_PUSH));
    weir_thread_sleep_begin(&thread, WEIR_WAIT_FULL, 7);
    assert_int_equal(thread.slot->wait, WEIR_WAIT_FULL | 7 << 8);
    weir_thread_sleep_end(&thread);
    assert_int_equal(thread.slot->wait, WEIR_WAIT_NONE);
}

static void more_threads_than_slots_are_counted(void **state)
{
    (void)state;
    static struct weir_thread more[WEIR_THREAD_SLOTS];
    uint32_t before = weir_contract.thread_overflow;
    for (unsigned i = 0; i < WEIR_THREAD_SLOTS; i++)
        weir_thread_start(&more[i], &plan, 0);
    assert_int_equal(weir_contract.thread_overflow, before + 1); /* ours has one */
    assert_int_equal(more[WEIR_THREAD_SLOTS - 1].index, WEIR_NONE);
    weir_thread_count(&more[WEIR_THREAD_SLOTS - 1], DECODE); /* works unseen */
    for (unsigned i = 0; i < WEIR_THREAD_SLOTS; i++)
        weir_thread_stop(&more[i]);
    uint32_t generation = more[5].slot->generation;
    weir_thread_start(&more[0], &plan, 0);
    assert_true(more[0].slot->generation > 1 || generation > 0);
    weir_thread_stop(&more[0]);
}

static void untraced_nothing_is_stamped(void **state)
{
    (void)state;
    struct weir_item item = { .way = plan.ways };
    assert_int_equal(weir_thread_choose(&thread, 0), 0);
    weir_item_segment_begin(&thread, &item, WEIR_NO_QUEUE, FRAME);
    weir_item_enter(&thread, &item, DECODE);
    weir_item_segment_end(&thread, &item.record);
    assert_int_equal(log_of()->count, 0);
    assert_int_equal(thread.cells[WEIR_TAG(DECODE, 0)].entries, 1);
    assert_int_equal(thread.cells[WEIR_TAG(DECODE, 0)].ticks, 0);
}

static void exact_ticks_add_up_to_the_time(void **state)
{
    (void)state;
    weir_trace_exact_semaphore = 1;
    weir_thread_at(&thread, WEIR_TAG(FRAME, 0));
    uint64_t first = thread.last_ticks, sum = 0;
    for (int i = 0; i < 1000; i++) {
        weir_thread_at(&thread, WEIR_TAG(DECODE, 0));
        weir_thread_at(&thread, WEIR_TAG(HANDOFF, WEIR_PART_PUSH));
    }
    weir_trace_exact_semaphore = 0;
    weir_thread_at(&thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0)); /* the last stretch still counts */
    for (uint32_t tag = 0; tag < weir_plan_tag_count(&plan); tag++)
        sum += thread.cells[tag].ticks;
    assert_int_equal(sum, thread.last_ticks - first);
    assert_true(thread.cells[WEIR_TAG(DECODE, 0)].ticks > 0);
    weir_thread_at(&thread, WEIR_TAG(DECODE, 0));
    uint64_t after = 0;
    for (uint32_t tag = 0; tag < weir_plan_tag_count(&plan); tag++)
        after += thread.cells[tag].ticks;
    assert_int_equal(after, sum);
}

static void a_record_holds_each_crossing(void **state)
{
    (void)state;
    struct weir_item item = { .way = plan.ways, .way_index = 0, .weight = 3, .payload_bytes = 77, .events = 5 };
    weir_item_segment_begin(&thread, &item, WEIR_NO_QUEUE, FRAME);
    weir_item_enter(&thread, &item, FRAME); /* begins where the segment does */
    weir_item_enter(&thread, &item, HANDOFF);
    weir_item_segment_end(&thread, &item.record);
    assert_int_equal(log_of()->count, 1);
    const struct weir_contract_record *record = &log_of()->records[0];
    assert_int_equal(record->tick_count, 3);
    assert_int_equal(record->first, FRAME);
    assert_int_equal(record->weight, 3);
    assert_int_equal(record->bytes, 77);
    assert_int_equal(record->queue, WEIR_NO_QUEUE);
    assert_int_equal(record->events, 5);
    assert_true(record->ticks[0] <= record->ticks[1] && record->ticks[1] <= record->ticks[2]);
}

/* 25 stages do not fit a record of 10 stamps: each stage must still be between two stamps exactly once. */
static void long_segments_chain(void **state)
{
    (void)state;
    struct weir_item item = { .way = plan.ways, .weight = 1 };
    struct weir_thread wide = thread;
    static struct weir_contract_cell cells[64 << WEIR_TAG_PART_BITS];
    wide.cells = cells;
    weir_item_segment_begin(&wide, &item, 0, 10);
    for (uint32_t stage = 10; stage < 35; stage++)
        weir_item_enter(&wide, &item, stage);
    weir_item_segment_end(&wide, &item.record);
    unsigned stages = 0, next = 10;
    const struct weir_contract_log *log = wide.log;
    for (unsigned i = 0; i < log->count; i++) {
        const struct weir_contract_record *record = &log->records[i];
        assert_int_equal(record->first, next);
        assert_int_equal(!!(record->flags & WEIR_RECORD_CONTINUES), i > 0);
        assert_int_equal(!!(record->flags & WEIR_RECORD_CHAINED), i + 1 < log->count);
        assert_int_equal(record->queue, i ? WEIR_NO_QUEUE : 0);
        next += record->tick_count - 1u;
        stages += record->tick_count - 1u;
        if (i)
            assert_int_equal(record->ticks[0], log->records[i - 1].ticks[log->records[i - 1].tick_count - 1]);
    }
    assert_int_equal(stages, 25);
}

/* One that fails to decode goes on at `reply`; no stage between may be credited with it. */
static void a_refused_item_leaves_stages_out(void **state)
{
    (void)state;
    struct weir_item item = { .way = plan.ways, .weight = 2 };
    weir_item_segment_begin(&thread, &item, 0, HANDOFF);
    weir_item_enter(&thread, &item, REPLY); /* DECODE left out */
    weir_item_segment_end(&thread, &item.record);
    assert_int_equal(log_of()->count, 2);
    const struct weir_contract_record *records = log_of()->records;
    assert_int_equal(records[0].first, HANDOFF);
    assert_int_equal(records[0].tick_count, 2);
    assert_int_equal(records[0].flags, WEIR_RECORD_CHAINED);
    assert_int_equal(records[1].first, REPLY);
    assert_int_equal(records[1].tick_count, 2);
    assert_int_equal(records[1].flags, WEIR_RECORD_CONTINUES);
    assert_int_equal(records[1].weight, 2);
}

static void a_full_log_moves_its_base(void **state)
{
    (void)state;
    struct weir_contract_record record = { .tick_count = 1 };
    uint64_t base = log_of()->base;
    for (unsigned i = 0; i < WEIR_LOG_RECORDS - 1; i++)
        weir_thread_log(&thread, &record);
    assert_int_equal(log_of()->count, WEIR_LOG_RECORDS - 1);
    assert_int_equal(log_of()->base, base);
    weir_thread_log(&thread, &record);
    assert_int_equal(log_of()->count, 0);
    assert_int_equal(log_of()->base, base + WEIR_LOG_RECORDS);
}

static void a_log_is_handed_over_before_a_sleep_when_it_is_worth_it(void **state)
{
    (void)state;
    struct weir_contract_record record = { .tick_count = 1 };
    weir_thread_log(&thread, &record);
    usleep(30000);
    assert_false(weir_thread_should_flush(&thread)); /* nobody looks: it is read from outside, or not at all */
    weir_items_flush_semaphore = 1;
    assert_true(weir_thread_should_flush(&thread)); /* older than 10 ms */
    weir_thread_sleep_begin(&thread, WEIR_WAIT_IDLE, 0);
    weir_thread_sleep_end(&thread);
    assert_int_equal(log_of()->count, 0);
    for (int i = 0; i < 8; i++)
        weir_thread_log(&thread, &record);
    assert_true(weir_thread_should_flush(&thread));
    weir_thread_flush(&thread);
    assert_false(weir_thread_should_flush(&thread));
    weir_items_flush_semaphore = 0;
}

/* Weights stand for all items, whatever the rhythm; their sum is within 4 sigma of the truth. */
static void light_weights_add_up_to_the_items(void **state)
{
    (void)state;
    weir_trace_on_semaphore = 1;
    double sum = 0, variance = 0;
    unsigned born = 0, chosen = 0;
    uint64_t start = weir_clock_ns();
    while (weir_clock_ns() - start < 300000000) {
        uint32_t weight = weir_thread_choose(&thread, 0);
        born++;
        sum += weight;
        chosen += weight != 0;
        variance += weight ? (double)weight * (weight - 1) : 0;
    }
    assert_true(fabs(sum - born) <= 4 * sqrt(variance) + 1);
    /* 30 slices: the first takes everything, the others about 10 each. */
    assert_true(thread.thinners[0].weight > 1 || born < 1000);
    assert_true(chosen < born);
}

/* A busy way in takes no stamps from a quiet one. */
static void a_quiet_way_is_seen_beside_a_busy_one(void **state)
{
    (void)state;
    weir_trace_on_semaphore = 1;
    unsigned quiet = 0, seen = 0;
    uint64_t start = weir_clock_ns(), next = start;
    for (uint64_t now; (now = weir_clock_ns()) - start < 200000000;) {
        weir_thread_choose(&thread, 0);
        if (now >= next) { /* 500 a second: half as many as would be thinned */
            quiet++;
            seen += weir_thread_choose(&thread, 1);
            next += 2000000;
        }
    }
    assert_true(thread.thinners[0].weight > 10);
    assert_true(quiet > 20);
    assert_int_equal(seen, quiet); /* each stands for itself */
}

static void exact_chooses_every_item(void **state)
{
    (void)state;
    weir_trace_on_semaphore = weir_trace_exact_semaphore = 1;
    for (int i = 0; i < 100; i++)
        assert_int_equal(weir_thread_choose(&thread, 0), 1);
    struct weir_item item = { .way = plan.ways };
    weir_item_segment_begin(&thread, &item, 0, DECODE); /* pushed before the attach */
    assert_int_equal(thread.slot->unstamped, 1);
    weir_item_stamp_push(&item, 4, 400); /* from the next queue on it is stamped */
    assert_int_equal(item.weight, 1);
    assert_int_equal(item.depth_items, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_slot_tells_who_and_where, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_threads_than_slots_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(untraced_nothing_is_stamped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exact_ticks_add_up_to_the_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_record_holds_each_crossing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_segments_chain, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_item_leaves_stages_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_log_moves_its_base, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_log_is_handed_over_before_a_sleep_when_it_is_worth_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(light_weights_add_up_to_the_items, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_quiet_way_is_seen_beside_a_busy_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exact_chooses_every_item, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
