/* Item logs: each record counts once, whatever way it comes; what can't be is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tracer/synthetic.h"
#include "tracer/items.h"

static struct weir_topology topology;
static struct weir_items items;

static int start(void **state)
{
    (void)state;
    synthetic_topology(&topology);
    if (weir_items_init(&items, &topology) != 0)
        return -1;
    items.ns_per_tick = 0.5;
    items.begin_ticks = 1000;
    weir_items_begin(&items, 3, 1000);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    weir_items_release(&items);
    return 0;
}

/* A worker's segment: popped at `pop` after `wait` ticks, then `work` and `reply`. */
static struct weir_contract_record record_at(uint64_t pop, uint64_t wait)
{
    return (struct weir_contract_record){
        .push_ticks = pop - wait, .bytes = 100, .weight = 1, .queue = 0, .first = INSTANCE(WORK), .tick_count = 3, .way = 0,
        .ticks = { pop, pop + 40, pop + 60 },
    };
}

static void counts_once_from_two_sources(void **state)
{
    (void)state;
    struct weir_contract_record records[8];
    for (uint32_t i = 0; i < 8; i++)
        records[i] = record_at(2000 + i, 20);
    weir_items_add(&items, 3, 1, 100, records, 5);     /* read from outside */
    weir_items_add(&items, 3, 1, 100, records, 8);     /* then handed over, with three more */
    weir_items_add(&items, 3, 1, 100, records, 8);
    weir_items_add(&items, 3, 1, 102, records + 2, 1);
    assert_int_equal(items.stages[WORK].stamped, 8);
    assert_int_equal(items.kept, 8);
    assert_int_equal(items.lost, 0);
    assert_int_equal(items.queues[0].wait.count, 8);
    assert_int_equal(items.queues[0].wait.max, 10);
    assert_int_equal(items.stages[WORK].service->max, 20);
    /* A gap of 4, then the next thread in that slot begins anew. */
    assert_true(weir_items_gap(&items, 3, 1, 112));
    weir_items_add(&items, 3, 1, 112, records, 1);
    assert_int_equal(items.lost, 4);
    assert_false(weir_items_gap(&items, 3, 2, 500));
    weir_items_add(&items, 3, 2, 0, records, 2);
    assert_int_equal(items.lost, 4);
    assert_int_equal(items.stages[WORK].stamped, 11);
}

/* A log that is read while it is empty says how many records came before: what was lost of them is none of the next window's. */
static void lost_before_the_window(void **state)
{
    (void)state;
    struct weir_contract_record record = record_at(2000, 20);
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        weir_items_begin(&items, i, UINT64_MAX);
    weir_items_add(&items, 5, 1, 0, &record, 1);
    weir_items_add(&items, 5, 1, 40, NULL, 0);
    weir_items_begin(&items, 5, 1000);
    weir_items_add(&items, 5, 1, 40, &record, 1);
    assert_int_equal(items.lost, 0);
    assert_int_equal(items.kept, 1);
    weir_items_add(&items, 5, 1, 50, NULL, 0);
    assert_int_equal(items.lost, 9);
}

static void only_what_the_window_holds(void **state)
{
    (void)state;
    struct weir_contract_record records[] = { record_at(990, 20), record_at(1000, 20), record_at(4000, 20), record_at(4990, 20),
                                              record_at(5000, 20) };
    weir_items_add(&items, 3, 1, 0, records, 3);
    weir_items_end(&items, 3, 5000);
    items.end_ticks = 5000;
    weir_items_add(&items, 3, 1, 3, records + 3, 2);
    /* Of the first, `work` was entered before the window and `reply` (40 ticks later) within it; of the fourth the other way. */
    assert_int_equal(items.stages[WORK].stamped, 3);
    assert_int_equal(items.stages[REPLY].stamped, 3);
    assert_int_equal(items.queues[0].wait.count, 3);
    /* Held within the window: 0 + 0 + 20 + 20 + 20 ticks; the last one left after the end. */
    assert_true(items.queues[0].held_ns > 29.9 && items.queues[0].held_ns < 30.1);
}

static void weights_and_chains(void **state)
{
    (void)state;
    struct weir_contract_record first = record_at(2000, 10), second = record_at(2060, 0);
    first.weight = second.weight = 7;
    first.flags = WEIR_RECORD_CHAINED;
    first.tick_count = 2;
    second.flags = WEIR_RECORD_CONTINUES;
    second.queue = WEIR_NO_QUEUE;
    second.push_ticks = 0;
    second.first = INSTANCE(REPLY);
    second.tick_count = 2;
    struct weir_contract_record records[] = { first, second };
    weir_items_add(&items, 3, 1, 0, records, 2);
    assert_int_equal(items.stages[WORK].stamped, 7);
    assert_int_equal(items.stages[REPLY].stamped, 7);
    assert_int_equal(items.queues[0].wait.count, 7);
    assert_true(items.stages[WORK].bytes_weight == 7 && items.stages[WORK].bytes == 700);
}

/* The server counts a reply where a worker finishes it; its time and size are those of the sending. */
static void a_reply_counts_once(void **state)
{
    (void)state;
    struct weir_contract_record finished = record_at(2000, 10);
    struct weir_contract_record sent = { .push_ticks = 2060,
                                         .bytes = 6,
                                         .weight = 1,
                                         .queue = 1,
                                         .first = INSTANCE(REPLY),
                                         .tick_count = 2,
                                         .ticks = { 2100, 2300 } };
    weir_items_add(&items, 3, 1, 0, &finished, 1);
    weir_items_add(&items, 3, 1, 1, &sent, 1);
    assert_int_equal(items.stages[REPLY].stamped, 1);
    assert_int_equal(items.stages[REPLY].service->count, 1);
    assert_int_equal(items.stages[REPLY].service->max, 100);
    assert_true(items.stages[REPLY].bytes == 6);
    assert_int_equal(items.queues[1].wait.count, 1);
}

/* The ring holds a reply until it is written, a handoff an item until it is popped: the mean depth hangs on both. */
static void a_ring_holds_until_written(void **state)
{
    (void)state;
    struct weir_contract_record popped = record_at(2000, 10);
    struct weir_contract_record sent = { .push_ticks = 2060, .bytes = 6, .weight = 1, .queue = 1, .first = INSTANCE(REPLY),
                                         .tick_count = 2, .ticks = { 2100, 2300 } };
    weir_items_end(&items, 3, 2200);
    items.end_ticks = 2200;
    weir_items_add(&items, 3, 1, 0, &popped, 1);
    weir_items_add(&items, 3, 1, 1, &sent, 1);
    assert_true(items.queues[0].held_ns == 5);
    assert_true(items.queues[1].held_ns == 70); /* 2060 to the window's end */
    assert_int_equal(items.queues[1].across_end, 1);
    assert_int_equal(items.queues[1].wait.count, 0); /* an item belongs to the window in which it is written */
    sent.push_ticks = 2050;
    sent.ticks[0] = 2080, sent.ticks[1] = 2150;
    weir_items_add(&items, 3, 1, 2, &sent, 1);
    assert_int_equal(items.queues[1].wait.max, 50);
    assert_int_equal(items.stages[REPLY].service->max, 100);
}

static void lies_are_left_out(void **state)
{
    (void)state;
    struct weir_contract_record bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = record_at(2000, 10);
    bad[0].tick_count = 0;
    bad[1].tick_count = WEIR_RECORD_TICKS + 1;
    bad[2].first = 0;
    bad[3].first = INSTANCE(STAGES);
    bad[4].first = UINT16_MAX;
    bad[5].queue = 2;
    bad[6].ticks[1] = 1;
    bad[7].push_ticks = 3000;
    bad[8].weight = 0;
    bad[9].weight = UINT32_MAX;
    weir_items_add(&items, 3, 1, 0, bad, 10);
    assert_int_equal(items.hostile, 10);
    assert_int_equal(items.kept, 0);
    for (uint32_t i = 0; i < STAGES; i++)
        assert_int_equal(items.stages[i].stamped, 0);
    weir_items_add(&items, WEIR_THREAD_SLOTS, 1, 0, bad, 1);
    weir_items_add(&items, 3, 1, UINT64_MAX, bad, 2);
    weir_items_add(&items, 3, 1, 0, bad, WEIR_LOG_RECORDS + 1);
    assert_int_equal(items.hostile, 13);
    weir_items_add(&items, 3, 1, UINT64_MAX - 5, bad, 1); /* a gap of 2^64 is no loss */
    assert_int_equal(items.lost, 0);
}

/* Two ways in share a reply, each with a ring: what one's ring brings is sent for that one. A third is owed nothing. */
static void each_way_in_has_its_ring(void **state)
{
    (void)state;
    struct weir_topology_instance instances[STAGES + 2];
    struct weir_topology_queue queues[3];
    struct weir_topology_way ways[3] = { { "a", 0, LISTEN, true }, { "b", 0, LISTEN, true }, { "u", 0, LISTEN, false } };
    memcpy(instances, topology.instances, STAGES * sizeof *instances);
    memcpy(queues, topology.queues, 2 * sizeof *queues);
    queues[2] = queues[1];
    queues[2].way = 1;
    for (uint32_t i = 1; i < 3; i++)
        instances[STAGES + i - 1] = (struct weir_topology_instance){ "p.reply", REPLY, i, 0 };
    topology.instances = instances;
    topology.instance_count = STAGES + 2;
    topology.queues = queues;
    topology.queue_count = 3;
    topology.ways = ways;
    topology.way_count = 3;
    weir_items_release(&items);
    assert_int_equal(weir_items_init(&items, &topology), 0);
    items.ns_per_tick = 0.5;
    items.begin_ticks = 1000;
    weir_items_begin(&items, 3, 1000);
    struct weir_contract_record finished = { .weight = 1, .queue = 0, .first = INSTANCE(STAGES), .tick_count = 2, .way = 1,
                                             .ticks = { 2000, 2010 } };
    struct weir_contract_record sent = { .push_ticks = 2010, .weight = 1, .queue = 2, .first = INSTANCE(STAGES), .tick_count = 2, .way = 1,
                                         .ticks = { 2100, 2140 } };
    struct weir_contract_record unanswered = { .weight = 1, .queue = 0, .first = INSTANCE(STAGES + 1), .tick_count = 2, .way = 2,
                                               .ticks = { 2000, 2010 } };
    weir_items_add(&items, 3, 1, 0, &finished, 1);
    weir_items_add(&items, 3, 1, 1, &sent, 1);
    weir_items_add(&items, 3, 1, 2, &unanswered, 1);
    assert_int_equal(items.hostile, 0);
    assert_int_equal(items.stages[STAGES].stamped, 1);
    assert_int_equal(items.stages[STAGES].service->count, 1);
    assert_int_equal(items.stages[STAGES].service->max, 20);
    assert_int_equal(items.queues[2].wait.count, 1);
    assert_int_equal(items.stages[STAGES + 1].stamped, 1);
    assert_null(items.stages[STAGES + 1].service);
    assert_null(items.stages[REPLY].service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_way_in_has_its_ring, start, stop),
        cmocka_unit_test_setup_teardown(counts_once_from_two_sources, start, stop),
        cmocka_unit_test_setup_teardown(lost_before_the_window, start, stop),
        cmocka_unit_test_setup_teardown(only_what_the_window_holds, start, stop),
        cmocka_unit_test_setup_teardown(weights_and_chains, start, stop),
        cmocka_unit_test_setup_teardown(a_reply_counts_once, start, stop),
        cmocka_unit_test_setup_teardown(a_ring_holds_until_written, start, stop),
        cmocka_unit_test_setup_teardown(lies_are_left_out, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
