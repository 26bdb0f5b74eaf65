#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/queue.h"
#include "pipeline_dsl/runtime/seqlock.h"
#include "tests/unit/runtime/plan_sample.h"

struct bench {
    struct weir_plan plan;
    struct weir_intake intake;
    struct weir_queue queue;
    struct weir_queue *queues[1];
    struct weir_thread thread;
};

static void set_up(struct bench *bench, enum weir_full full, uint64_t limit_items, uint64_t limit_bytes)
{
    bench->plan = sample_plan(full, limit_items, limit_bytes);
    bench->queues[0] = &bench->queue;
    weir_queue_init(&bench->queue, &bench->plan, 0, &bench->intake, 2);
    weir_intake_init(&bench->intake, bench->queues, 1);
    weir_thread_start(&bench->thread, &bench->plan, 1);
}

static void tear_down(struct bench *bench)
{
    weir_thread_stop(&bench->thread);
    weir_queue_release(&bench->queue);
    weir_intake_release(&bench->intake);
}

static enum weir_push push(struct bench *bench, struct weir_item *item, size_t size, struct weir_item **evicted)
{
    item->size_bytes = size;
    return weir_queue_push(&bench->queue, &bench->thread, item, false, evicted);
}

static struct weir_item *take(struct bench *bench)
{
    struct weir_queue *from;
    return weir_intake_take(&bench->intake, &bench->thread, &from);
}

static void expect_law(const struct weir_contract_queue *block)
{
    assert_int_equal(block->in, block->out + block->dropped + block->rejected + block->queued_items);
}

static void items_leave_in_order_and_give_their_bytes_back(void **state)
{
    (void)state;
    struct bench bench;
    static struct weir_item items[300];
    struct weir_item *evicted;
    set_up(&bench, WEIR_FULL_REJECT, 1000, 1 << 20);
    for (int round = 0; round < 3; round++) { /* the ring grows, and wraps */
        for (int i = 0; i < 300; i++)
            assert_int_equal(push(&bench, &items[i], 100, &evicted), WEIR_PUSH_ADMITTED);
        assert_int_equal(bench.queue.block->queued_bytes, 30000);
        for (int i = 0; i < 300; i++) {
            struct weir_item *item = take(&bench);
            assert_ptr_equal(item, &items[i]);
        }
        assert_int_equal(bench.queue.block->queued_bytes, 0);
    }
    expect_law(bench.queue.block);
    tear_down(&bench);
}

static void used_plus_size_may_reach_the_limit(void **state)
{
    (void)state;
    struct bench bench;
    struct weir_item items[4] = { 0 }, *evicted;
    set_up(&bench, WEIR_FULL_REJECT, 100, 1000);
    assert_int_equal(push(&bench, &items[0], 400, &evicted), WEIR_PUSH_ADMITTED);
    assert_int_equal(push(&bench, &items[1], 601, &evicted), WEIR_PUSH_REJECTED);
    assert_int_equal(push(&bench, &items[2], 600, &evicted), WEIR_PUSH_ADMITTED);
    assert_int_equal(push(&bench, &items[3], 1, &evicted), WEIR_PUSH_REJECTED);
    assert_int_equal(bench.queue.block->rejected, 2);
    expect_law(bench.queue.block);
    take(&bench);
    take(&bench);
    /* An estimate above the limit is clamped: it can always be admitted alone. */
    assert_int_equal(push(&bench, &items[0], 5000, &evicted), WEIR_PUSH_ADMITTED);
    take(&bench);
    tear_down(&bench);
}

static void drop_oldest_evicts_until_it_fits(void **state)
{
    (void)state;
    struct bench bench;
    struct weir_item items[5] = { 0 }, *evicted;
    set_up(&bench, WEIR_FULL_DROP_OLDEST, 100, 1000);
    for (int i = 0; i < 4; i++)
        push(&bench, &items[i], 250, &evicted);
    assert_null(evicted);
    assert_int_equal(push(&bench, &items[4], 600, &evicted), WEIR_PUSH_ADMITTED);
    assert_ptr_equal(evicted, &items[0]);
    assert_ptr_equal(evicted->next, &items[1]);
    assert_ptr_equal(evicted->next->next, &items[2]);
    assert_null(evicted->next->next->next);
    assert_int_equal(bench.queue.block->dropped, 3);
    expect_law(bench.queue.block);
    assert_ptr_equal(take(&bench), &items[3]);
    assert_ptr_equal(take(&bench), &items[4]);
    tear_down(&bench);
}

static void drop_newest_refuses_the_new_one(void **state)
{
    (void)state;
    struct bench bench;
    struct weir_item items[2] = { 0 }, *evicted;
    set_up(&bench, WEIR_FULL_DROP_NEWEST, 1, 1000);
    assert_int_equal(push(&bench, &items[0], 1, &evicted), WEIR_PUSH_ADMITTED);
    assert_int_equal(push(&bench, &items[1], 1, &evicted), WEIR_PUSH_DROPPED);
    expect_law(bench.queue.block);
    assert_ptr_equal(take(&bench), &items[0]);
    tear_down(&bench);
}

static void a_closed_intake_is_emptied_and_then_null(void **state)
{
    (void)state;
    struct bench bench;
    struct weir_item item = { 0 }, *evicted;
    set_up(&bench, WEIR_FULL_BLOCK, 10, 1000);
    push(&bench, &item, 1, &evicted);
    weir_intake_close(&bench.intake);
    assert_ptr_equal(take(&bench), &item);
    assert_null(take(&bench));
    tear_down(&bench);
}

/* --- parked items -------------------------------------------------------------------------------------------------------- */

/* An event loop that nobody runs: it only notes that it was woken. */
static void idle_loop_init(struct weir_loop *loop, struct weir_thread *thread, const struct weir_plan *plan)
{
    *loop = (struct weir_loop){ .plan = plan };
    weir_mutex_init(&loop->mutex);
    uv_loop_init(&loop->uv);
    uv_async_init(&loop->uv, &loop->wake, NULL);
    weir_thread_start(thread, plan, 0);
    thread->loop = loop;
}

static void idle_loop_release(struct weir_loop *loop, struct weir_thread *thread)
{
    weir_thread_stop(thread);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    weir_mutex_release(&loop->mutex);
}

/* The second loop parks only because the first one did. The queue is empty when the first one's connection goes: nobody will
 * ever take from it, so that loop must be woken now. */
static void a_parked_item_that_goes_wakes_those_behind_it(void **state)
{
    (void)state;
    struct bench bench;
    static struct weir_loop loops[2];
    static struct weir_thread threads[2];
    struct weir_item items[3] = { { .size_bytes = 1 }, { .size_bytes = 1 }, { .size_bytes = 1 } }, *evicted;
    set_up(&bench, WEIR_FULL_BLOCK, 1, 1000);
    for (int i = 0; i < 2; i++)
        idle_loop_init(&loops[i], &threads[i], &bench.plan);
    push(&bench, &items[0], 1, &evicted);
    assert_int_equal(weir_queue_push(&bench.queue, &threads[0], &items[1], false, &evicted), WEIR_PUSH_PARK);
    take(&bench);
    assert_true(loops[0].resumes);
    assert_int_equal(weir_queue_push(&bench.queue, &threads[1], &items[2], false, &evicted), WEIR_PUSH_PARK);
    assert_false(loops[1].resumes);
    weir_queue_unpark(&bench.queue);
    assert_true(loops[1].resumes);
    assert_int_equal(weir_queue_push(&bench.queue, &threads[1], &items[2], true, &evicted), WEIR_PUSH_ADMITTED);
    assert_int_equal(bench.queue.block->parked, 0);
    take(&bench);
    for (int i = 0; i < 2; i++)
        idle_loop_release(&loops[i], &threads[i]);
    tear_down(&bench);
}

static void parked_loops_are_woken_once_at_three_quarters(void **state)
{
    (void)state;
    struct bench bench;
    static struct weir_loop loop;
    static struct weir_thread thread;
    struct weir_item items[9] = { 0 }, *evicted;
    set_up(&bench, WEIR_FULL_BLOCK, 8, 1000);
    idle_loop_init(&loop, &thread, &bench.plan);
    for (int i = 0; i < 8; i++)
        push(&bench, &items[i], 1, &evicted);
    assert_int_equal(weir_queue_push(&bench.queue, &thread, &items[8], false, &evicted), WEIR_PUSH_PARK);
    assert_int_equal(bench.queue.block->in, 8); /* not offered yet */
    take(&bench);
    assert_false(loop.resumes);
    take(&bench);
    assert_true(loop.resumes);
    loop.resumes = false;
    take(&bench);
    assert_false(loop.resumes);
    assert_int_equal(weir_queue_push(&bench.queue, &thread, &items[8], true, &evicted), WEIR_PUSH_ADMITTED);
    assert_int_equal(bench.queue.block->parked, 0);
    for (int i = 3; i < 9; i++)
        assert_ptr_equal(take(&bench), &items[i]);
    idle_loop_release(&loop, &thread);
    tear_down(&bench);
}

/* However it comes to that: one that is refused when it resumes must not hold up those behind it for ever. */
static void a_parked_item_that_is_refused_is_parked_no_more(void **state)
{
    (void)state;
    struct bench bench;
    struct weir_item items[2] = { { .size_bytes = 1 }, { .size_bytes = 1 } }, *evicted;
    set_up(&bench, WEIR_FULL_REJECT, 1, 1000);
    push(&bench, &items[0], 1, &evicted);
    bench.queue.block->parked = 1;
    assert_int_equal(weir_queue_push(&bench.queue, &bench.thread, &items[1], true, &evicted), WEIR_PUSH_REJECTED);
    assert_int_equal(bench.queue.block->parked, 0);
    expect_law(bench.queue.block);
    take(&bench);
    tear_down(&bench);
}

/* --- many threads -------------------------------------------------------------------------------------------------------- */

struct crowd {
    struct bench bench;
    int number;
    long each;
    long taken, sum;
    bool torn, stop;
};

static void *crowd_push(void *argument)
{
    struct crowd *crowd = argument;
    struct weir_thread thread;
    struct weir_item *evicted;
    weir_thread_start(&thread, &crowd->bench.plan, 1);
    for (long i = 0; i < crowd->each; i++) {
        struct weir_item *item = calloc(1, sizeof *item);
        item->size_bytes = 1 + (size_t)i % 7;
        item->sequence = 1;
        if (weir_queue_push(&crowd->bench.queue, &thread, item, false, &evicted) != WEIR_PUSH_ADMITTED)
            abort();
    }
    weir_thread_stop(&thread);
    return NULL;
}

static void *crowd_take(void *argument)
{
    struct crowd *crowd = argument;
    struct weir_thread thread;
    struct weir_queue *from;
    struct weir_item *item;
    weir_thread_start(&thread, &crowd->bench.plan, 1);
    while ((item = weir_intake_take(&crowd->bench.intake, &thread, &from))) {
        __atomic_fetch_add(&crowd->taken, (long)item->sequence, __ATOMIC_RELAXED);
        free(item);
    }
    weir_thread_stop(&thread);
    return NULL;
}

static long taken_within_ms(const struct crowd *crowd, long expected, unsigned ms)
{
    for (unsigned i = 0; i < ms && __atomic_load_n(&crowd->taken, __ATOMIC_RELAXED) != expected; i++)
        usleep(1000);
    return __atomic_load_n(&crowd->taken, __ATOMIC_RELAXED);
}

static struct weir_item *item_new(void)
{
    struct weir_item *item = calloc(1, sizeof *item);
    item->size_bytes = item->sequence = 1;
    return item;
}

static void deferred_wakeups_come_in_the_end_or_with_many_items(void **state)
{
    (void)state;
    static struct crowd crowd;
    struct weir_item *evicted;
    pthread_t taker;
    set_up(&crowd.bench, WEIR_FULL_REJECT, 1000, 1000);
    pthread_create(&taker, NULL, crowd_take, &crowd);
    usleep(50000); /* until it sleeps */
    crowd.bench.thread.defers = true;
    for (int i = 0; i < 3; i++)
        weir_queue_push(&crowd.bench.queue, &crowd.bench.thread, item_new(), false, &evicted);
    assert_int_equal(taken_within_ms(&crowd, 3, 50), 0);
    weir_intake_wake(&crowd.bench.intake, &crowd.bench.thread);
    assert_int_equal(taken_within_ms(&crowd, 3, 5000), 3);
    usleep(50000);
    for (int i = 0; i < 100; i++)
        weir_queue_push(&crowd.bench.queue, &crowd.bench.thread, item_new(), false, &evicted);
    /* 64 wake it; it may be asleep again before the rest comes. */
    assert_in_range(taken_within_ms(&crowd, 103, 100), 3 + 64, 103);
    weir_intake_wake(&crowd.bench.intake, &crowd.bench.thread);
    assert_int_equal(taken_within_ms(&crowd, 103, 5000), 103);
    weir_intake_close(&crowd.bench.intake);
    pthread_join(taker, NULL);
    tear_down(&crowd.bench);
}

static void *crowd_read(void *argument)
{
    struct crowd *crowd = argument;
    while (!__atomic_load_n(&crowd->stop, __ATOMIC_RELAXED)) {
        struct weir_contract_queue copy;
        weir_seqlock_read(crowd->bench.queue.block, &copy, sizeof copy);
        if (copy.in != copy.out + copy.queued_items || copy.queued_items > 3 || copy.queued_bytes > 12)
            crowd->torn = true;
    }
    return NULL;
}

static void nothing_is_lost_among_many_threads_and_no_snapshot_is_torn(void **state)
{
    (void)state;
    static struct crowd crowd;
    pthread_t pushers[3], takers[3], reader;
    crowd.each = 20000;
    set_up(&crowd.bench, WEIR_FULL_BLOCK, 3, 12);
    pthread_create(&reader, NULL, crowd_read, &crowd);
    for (int i = 0; i < 3; i++) {
        pthread_create(&pushers[i], NULL, crowd_push, &crowd);
        pthread_create(&takers[i], NULL, crowd_take, &crowd);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(pushers[i], NULL);
    weir_intake_close(&crowd.bench.intake);
    for (int i = 0; i < 3; i++)
        pthread_join(takers[i], NULL);
    __atomic_store_n(&crowd.stop, true, __ATOMIC_RELAXED);
    pthread_join(reader, NULL);
    assert_false(crowd.torn);
    assert_int_equal(crowd.taken, 3 * crowd.each);
    assert_int_equal(crowd.bench.queue.block->in, 3 * crowd.each);
    assert_int_equal(crowd.bench.queue.block->queued_bytes, 0);
    expect_law(crowd.bench.queue.block);
    tear_down(&crowd.bench);
}

/* A pool that takes from two queues serves both, though one is never empty. */
static void two_queues_take_turns(void **state)
{
    (void)state;
    static struct weir_plan_queue plans[2];
    struct weir_plan plan = sample_plan(WEIR_FULL_BLOCK, 100, 1000);
    plans[0] = plans[1] = plan.queues[0];
    plan.queues = plans;
    struct weir_queue queues[2], *list[2] = { &queues[0], &queues[1] }, *from;
    struct weir_intake intake;
    struct weir_thread thread;
    struct weir_item items[6] = { 0 }, *evicted;
    weir_queue_init(&queues[0], &plan, 0, &intake, 1);
    weir_queue_init(&queues[1], &plan, 1, &intake, 1);
    weir_intake_init(&intake, list, 2);
    weir_thread_start(&thread, &plan, 1);
    for (int i = 0; i < 6; i++)
        weir_queue_push(&queues[i < 4 ? 0 : 1], &thread, &items[i], false, &evicted);
    static const int order[] = { 0, 4, 1, 5, 2, 3 };
    for (int i = 0; i < 6; i++) {
        assert_ptr_equal(weir_intake_take(&intake, &thread, &from), &items[order[i]]);
        assert_ptr_equal(from, &queues[order[i] < 4 ? 0 : 1]);
    }
    weir_thread_stop(&thread);
    weir_queue_release(&queues[0]);
    weir_queue_release(&queues[1]);
    weir_intake_release(&intake);
}

/* What slots have finished comes before anything new, the last stage's first; it needs no limit. */
static void what_is_finished_comes_first(void **state)
{
    (void)state;
    static struct weir_plan_queue plans[3];
    static struct weir_contract_queue blocks[6];
    struct weir_plan plan = sample_plan(WEIR_FULL_BLOCK, 100, 1000);
    plans[0] = plan.queues[0];
    plans[1] = plans[2] = (struct weir_plan_queue){ .name = "p.store", .kind = WEIR_QUEUE_SLOTS, .stage = HANDOFF, .to_pool = 1,
                                                    .limit_items = 130 };
    plan.queues = plans;
    plan.queue_blocks = blocks;
    struct weir_queue queues[3], *list[3] = { &queues[0], &queues[1], &queues[2] }, *from;
    struct weir_intake intake;
    struct weir_thread thread;
    static struct weir_item items[3][130];
    struct weir_item *evicted;
    for (uint32_t i = 0; i < 3; i++)
        weir_queue_init(&queues[i], &plan, i, &intake, 1);
    weir_intake_init(&intake, list, 3);
    weir_thread_start(&thread, &plan, 1);
    for (int i = 0; i < 2; i++)
        weir_queue_push(&queues[0], &thread, &items[0][i], false, &evicted);
    for (int i = 0; i < 130; i++) {
        items[1][i].size_bytes = items[2][i].size_bytes = 1 << 20;
        weir_queue_return(&queues[1], &thread, &items[1][i]);
        weir_queue_return(&queues[2], &thread, &items[2][i]);
    }
    for (int k = 2; k >= 0; k--)
        for (int i = 0; i < (k ? 130 : 2); i++) {
            assert_ptr_equal(weir_intake_take(&intake, &thread, &from), &items[k][i]);
            assert_ptr_equal(from, &queues[k]);
            expect_law(from->block);
        }
    weir_thread_stop(&thread);
    for (int i = 0; i < 3; i++)
        weir_queue_release(&queues[i]);
    weir_intake_release(&intake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_leave_in_order_and_give_their_bytes_back),
        cmocka_unit_test(used_plus_size_may_reach_the_limit),
        cmocka_unit_test(drop_oldest_evicts_until_it_fits),
        cmocka_unit_test(drop_newest_refuses_the_new_one),
        cmocka_unit_test(a_closed_intake_is_emptied_and_then_null),
        cmocka_unit_test(a_parked_item_that_goes_wakes_those_behind_it),
        cmocka_unit_test(parked_loops_are_woken_once_at_three_quarters),
        cmocka_unit_test(a_parked_item_that_is_refused_is_parked_no_more),
        cmocka_unit_test(deferred_wakeups_come_in_the_end_or_with_many_items),
        cmocka_unit_test(nothing_is_lost_among_many_threads_and_no_snapshot_is_torn),
        cmocka_unit_test(two_queues_take_turns),
        cmocka_unit_test(what_is_finished_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
