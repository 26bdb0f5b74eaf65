/*
 * DESIGN: one libuv loop a thread; libuv waits, the sockets are read and written here. Other threads reach a loop by three lists
 * under its mutex and one uv_async wakeup: arrivals, finished items, items born inside; and by what else there is to do. A wakeup is sent only when
 * the list was empty before: whoever finds it filled knows that one is under way.
 *
 * Order within one turn: libuv reports sockets and the wakeup; then, once for all of them, the replies that became complete are
 * written (after_sleep), so that those of one turn share their sends.
 *
 * Lock order: the loop's mutex is innermost.
 */
#include "pipeline_dsl/runtime/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/conn.h"
#include "pipeline_dsl/runtime/handoff.h"
#include "pipeline_dsl/runtime/tls.h"
#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/runtime/timer.h"
#include "pipeline_dsl/runtime/way.h"

#define FREE_ITEMS_KEPT 8192u
#define WATCH_MS 1000

/* --- items --------------------------------------------------------------------------------------------------------------- */

struct weir_item *weir_loop_item_new(struct weir_loop *loop)
{
    struct weir_item *item = loop->free_items;
    if (item) {
        loop->free_items = item->next;
        loop->free_count--;
        return item;
    }
    item = calloc(1, sizeof *item);
    if (!item)
        return NULL;
    item->loop = loop;
    weir_arena_init(&item->arena, 0, SIZE_MAX);
    return item;
}

void weir_loop_item_shed(struct weir_loop *loop, struct weir_item *item)
{
    weir_block_give(&loop->blocks, item->block);
    item->block = NULL;
    weir_item_shed_arena(&loop->thread, item);
    weir_arena_release(&item->arena);
}

void weir_loop_item_free(struct weir_loop *loop, struct weir_item *item)
{
    weir_loop_item_shed(loop, item);
    weir_buffer_release(&item->reply);
    weir_buffer_release(&item->request);
    if (loop->free_count == FREE_ITEMS_KEPT) {
        free(item);
        return;
    }
    item->decoded = item->answer_failed = false;
    item->events = item->malformed = 0;
    item->lane = 0;
    item->reply_kind = WEIR_REPLY_NONE;
    item->weight = 0;
    item->born_ns = 0;
    item->record.tick_count = 0;
    item->next = loop->free_items;
    loop->free_items = item;
    loop->free_count++;
}

/* --- from other threads -------------------------------------------------------------------------------------------------- */

struct weir_arrival *weir_arrival_new(int fd, uint32_t way)
{
    struct weir_arrival *arrival = malloc(sizeof *arrival);
    if (arrival)
        *arrival = (struct weir_arrival){ .fd = fd, .way = way, .output = WEIR_BUFFER_INIT };
    return arrival;
}

void weir_arrival_free(struct weir_arrival *arrival)
{
    free(arrival->input);
    weir_buffer_release(&arrival->output);
    free(arrival);
}

void weir_loop_adopt(struct weir_loop *loop, struct weir_arrival *arrival)
{
    __atomic_fetch_add(&loop->load, 1, __ATOMIC_RELAXED);
    weir_mutex_lock(&loop->mutex);
    arrival->next = loop->arrivals;
    loop->arrivals = arrival;
    weir_mutex_unlock(&loop->mutex);
    uv_async_send(&loop->wake);
}

void weir_loop_enter(struct weir_loop *loop, struct weir_item *item)
{
    weir_mutex_lock(&loop->mutex);
    bool gone = loop->gone, was_empty = !loop->inside.first;
    if (!gone)
        weir_item_list_add(&loop->inside, item);
    weir_mutex_unlock(&loop->mutex);
    if (gone)
        weir_inside_end(NULL, item);
    else if (was_empty)
        uv_async_send(&loop->wake);
}

static void ask(struct weir_loop *loop, bool *what)
{
    weir_mutex_lock(&loop->mutex);
    *what = true;
    weir_mutex_unlock(&loop->mutex);
    uv_async_send(&loop->wake);
}

void weir_loop_resume(struct weir_loop *loop)
{
    ask(loop, &loop->resumes);
}

void weir_loop_drain(struct weir_loop *loop)
{
    ask(loop, &loop->drains);
}

void weir_loop_leave(struct weir_loop *loop)
{
    ask(loop, &loop->leaves);
}

void weir_loop_stop(struct weir_loop *loop)
{
    ask(loop, &loop->stops);
}

static void ring_enter(struct weir_loop *loop, struct weir_item *item, uint32_t queue) WEIR_REQUIRES(loop->mutex)
{
    struct weir_contract_queue *block = weir_loop_ring(loop, queue);
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->in, 1);
    weir_word_add(&block->in_bytes, item->size_bytes);
    weir_word_add(&block->queued_items, 1);
    weir_word_add(&block->queued_bytes, item->size_bytes);
    weir_seqlock_end(&block->sequence);
    weir_item_stamp_push(item, block->queued_items, block->queued_bytes);
}

void weir_loop_return(struct weir_item *item, uint32_t queue)
{
    struct weir_loop *loop = item->slots_loop;
    item->slots_queue = queue;
    weir_mutex_lock(&loop->mutex);
    bool gone = loop->gone, was_empty = !loop->back.first;
    if (!gone) {
        ring_enter(loop, item, queue);
        weir_item_list_add(&loop->back, item);
    }
    weir_mutex_unlock(&loop->mutex);
    if (gone)
        weir_inside_end(NULL, item); /* the others are all back when a loop goes */
    else if (was_empty)
        uv_async_send(&loop->wake);
}

/* An item to which no reply was owed is back on its loop. */
static void end_discarded(struct weir_item *item)
{
    struct weir_loop *loop = item->loop;
    struct weir_conn *conn = item->conn;
    struct weir_contract_way *block = &loop->plan->way_blocks[(size_t)item->way_index * loop->plan->shards + loop->shard];
    if (item->events)
        weir_way_count(block, &block->events, item->events);
    if (item->malformed)
        weir_way_count(block, &block->malformed, item->malformed);
    weir_way_end(block, &block->discarded, 1);
    weir_loop_item_free(loop, item);
    if (!conn)
        return;
    conn->send_sequence++;
    weir_conn_update(conn);
}

static void take_back(struct weir_item *item)
{
    if (weir_item_owes_reply(item))
        weir_conn_complete(item->conn, item);
    else
        end_discarded(item);
}

/* The item goes back to its loop: through the list of finished items, or, where this is that loop's thread, at once. */
static void go_back(struct weir_thread *thread, struct weir_item *item)
{
    struct weir_loop *loop = item->loop;
    struct weir_contract_record record;
    weir_item_shed_arena(thread, item);
    item->record.events = item->events;
    record = item->record;
    item->record.tick_count = 0;

    weir_thread_lock(thread, &loop->mutex, item->way->reply_queue);
    if (weir_item_owes_reply(item))
        ring_enter(loop, item, item->way->reply_queue);
    bool was_empty = false;
    if (thread->loop != loop) {
        was_empty = !loop->done.first;
        weir_item_list_add(&loop->done, item);
    }
    weir_mutex_unlock(&loop->mutex);
    if (was_empty)
        uv_async_send(&loop->wake);
    weir_item_segment_end(thread, &record);
    if (thread->loop == loop)
        take_back(item);
}

void weir_loop_discard(struct weir_thread *thread, struct weir_item *item)
{
    if (item->loop)
        go_back(thread, item);
    else
        weir_inside_end(thread, item);
}

void weir_loop_finish(struct weir_thread *thread, struct weir_item *item)
{
    if (!weir_item_owes_reply(item)) {
        weir_loop_discard(thread, item);
        return;
    }
    weir_thread_at(thread, WEIR_TAG(item->way->reply_stage, WEIR_PART_PUSH));
    if (item->reply_kind == WEIR_REPLY_NONE)
        weir_item_encode_reply(item);
    item->size_bytes = item->reply_kind == WEIR_REPLY_ACK ? sizeof weir_message_ack : item->reply.length;
    go_back(thread, item);
}

void weir_loop_refuse(struct weir_thread *thread, struct weir_item *item)
{
    if (weir_item_owes_reply(item))
        weir_item_enter(thread, item, item->way->reply_stage);
    weir_loop_finish(thread, item);
}

/* --- the loop's own thread ----------------------------------------------------------------------------------------------- */

static void take_arrivals(struct weir_loop *loop, struct weir_arrival *arrivals)
{
    while (arrivals) {
        struct weir_arrival *arrival = arrivals;
        arrivals = arrival->next;
        weir_conn_open(loop, arrival);
        weir_arrival_free(arrival);
    }
}

static void take_finished(struct weir_item *item)
{
    while (item) {
        struct weir_item *next = item->next;
        take_back(item);
        item = next;
    }
}

static void run_inside(struct weir_loop *loop, struct weir_item *item)
{
    while (item) {
        struct weir_item *next = item->next;
        weir_inside_run(&loop->thread, item);
        item = next;
    }
}

/* An item that has given its slot back leaves its queue. */
static void ring_leave(struct weir_loop *loop, const struct weir_item *item)
{
    struct weir_contract_queue *block = weir_loop_ring(loop, item->slots_queue);
    weir_mutex_lock(&loop->mutex);
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->out, 1);
    weir_word_sub(&block->queued_items, 1);
    weir_word_sub(&block->queued_bytes, item->size_bytes);
    weir_seqlock_end(&block->sequence);
    weir_mutex_unlock(&loop->mutex);
}

/* The loop takes nothing any more. What it still has, or holds back, was born inside. */
static void leave(struct weir_loop *loop)
{
    struct weir_item *item;
    weir_timers_fire(&loop->thread, WEIR_TIMERS_END);
    weir_mutex_lock(&loop->mutex);
    struct weir_item_list inside = loop->inside, back = loop->back;
    loop->inside.first = loop->back.first = NULL;
    loop->gone = true;
    weir_mutex_unlock(&loop->mutex);
    while ((item = weir_item_list_take(&inside)))
        weir_inside_end(&loop->thread, item);
    while ((item = weir_item_list_take(&back))) {
        ring_leave(loop, item);
        weir_inside_end(&loop->thread, item);
    }
}

/* Each item that is parked at the queue gets its turn once, as long as there is room; what its connection brings then waits at
 * the end. */
static void resume_parked(struct weir_loop *loop, struct weir_queue *queue)
{
    struct weir_item_list *list = &loop->parked[queue->index];
    const struct weir_item *last = list->last;
    while (list->first) {
        struct weir_item *item = list->first, *next = item->next;
        struct weir_conn *conn = item->conn;
        bool at_end = item == last, closing = conn->closing;
        conn->parked--;
        if (!weir_handoff_push(&loop->thread, queue, item, true)) {
            conn->parked++;
            return;
        }
        list->first = next;
        if (!closing) /* or else it may have gone with its item */
            weir_conn_continue(conn);
        if (at_end)
            break;
    }
    if (list->first)
        weir_loop_resume(loop);
}

static void each_connection(struct weir_loop *loop, void (*what)(struct weir_conn *))
{
    for (struct weir_conn *conn = loop->connections, *next; conn; conn = next) {
        next = conn->next;
        what(conn);
    }
}

/* Items that have given their slots back go on. */
static void run_returned(struct weir_loop *loop, struct weir_item *item)
{
    for (struct weir_item *next; item; item = next) {
        const struct weir_plan_queue *queue = &loop->plan->queues[item->slots_queue];
        next = item->next;
        weir_thread_at(&loop->thread, WEIR_TAG(queue->stage + item->lane, WEIR_PART_POP));
        ring_leave(loop, item);
        weir_item_segment_begin(&loop->thread, item, item->slots_queue, queue->run_stage + item->lane);
        queue->run(&loop->thread, item);
    }
}

static void on_wake(uv_async_t *async)
{
    struct weir_loop *loop = async->data;
    weir_thread_sleep_end(&loop->thread);
    weir_mutex_lock(&loop->mutex);
    struct weir_item *finished = loop->done.first, *inside = loop->inside.first, *returned = loop->back.first;
    struct weir_arrival *arrivals = loop->arrivals;
    bool resumes = loop->resumes, drains = loop->drains, leaves = loop->leaves, stops = loop->stops;
    loop->done.first = loop->inside.first = loop->back.first = NULL;
    loop->arrivals = NULL;
    loop->resumes = false;
    weir_mutex_unlock(&loop->mutex);

    take_finished(finished);
    run_returned(loop, returned);
    take_arrivals(loop, arrivals);
    run_inside(loop, inside);
    if (resumes)
        for (uint32_t i = 0; i < loop->plan->queue_count; i++)
            if (loop->parked[i].first)
                resume_parked(loop, &loop->queues[i]);
    loop->hurries |= drains || leaves || stops;
    if (drains && !loop->draining) {
        loop->draining = true;
        each_connection(loop, weir_conn_end);
    }
    if (leaves && !loop->leaving) {
        loop->leaving = true;
        each_connection(loop, weir_conn_leave);
    }
    if (stops && !loop->stopping) {
        loop->stopping = true;
        each_connection(loop, weir_conn_close);
    }
    weir_thread_at(&loop->thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
}

/* Items that were born here are all back. */
static bool all_back(const struct weir_loop *loop)
{
    const struct weir_plan *plan = loop->plan;
    for (uint32_t i = 0; i < plan->way_count; i++)
        if (plan->ways[i].pool == loop->pool && plan->way_blocks[(size_t)i * plan->shards + loop->shard].in_flight)
            return false;
    return true;
}

static void on_timer(uv_timer_t *timer)
{
    struct weir_loop *loop = timer->data;
    weir_thread_sleep_end(&loop->thread);
    weir_timers_fire(&loop->thread, WEIR_TIMERS_DUE);
}

void weir_loop_wake_at(struct weir_loop *loop, uint64_t due_ns)
{
    uint64_t now = weir_clock_ns();
    uv_update_time(&loop->uv);
    uv_timer_start(&loop->timer, on_timer, due_ns > now ? (due_ns - now + 999999) / 1000000 : 0, 0);
}

static void on_before_sleep(uv_prepare_t *prepare)
{
    struct weir_loop *loop = prepare->data;
    if (loop->thread.due_ns && loop->hurries)
        weir_timers_fire(&loop->thread, loop->stopping ? WEIR_TIMERS_END : WEIR_TIMERS_ALL);
    if (loop->stopping && !loop->connections && all_back(loop))
        uv_stop(&loop->uv);
    /* With an item parked it would have work, if only there were room. */
    for (uint32_t i = 0; i < loop->plan->queue_count; i++) {
        if (loop->parked[i].first) {
            weir_thread_sleep_begin(&loop->thread, WEIR_WAIT_FULL, i);
            return;
        }
    }
    weir_thread_sleep_begin(&loop->thread, WEIR_WAIT_IDLE, WEIR_WAIT_LOOP);
}

static void on_after_sleep(uv_check_t *check)
{
    struct weir_loop *loop = check->data;
    weir_thread_sleep_end(&loop->thread);
    while (loop->dirty.first) {
        struct weir_conn *conn = loop->dirty.first;
        loop->dirty.first = conn->next_dirty;
        if (!loop->dirty.first)
            loop->dirty.last = NULL;
        conn->dirty = false;
        if (!conn->closing && !conn->blocked) {
            weir_thread_at(&loop->thread, WEIR_TAG(conn->way->reply_stage, WEIR_PART_NONE));
            conn->way->send(conn);
            weir_thread_at(&loop->thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
        }
        weir_conn_continue(conn);
    }
}

static void on_watch(uv_timer_t *timer)
{
    struct weir_loop *loop = timer->data;
    uint64_t now = weir_clock_ns();
    bool some = false;
    weir_thread_sleep_end(&loop->thread);
    for (struct weir_conn *conn = loop->connections; conn; conn = conn->next) {
        if (!conn->tls || !conn->tls->since_ns)
            continue;
        if (now - conn->tls->since_ns < WEIR_TLS_HANDSHAKE_NS)
            some = true;
        else
            weir_conn_no_handshake(conn, "it took more than 10 s");
    }
    if (!some)
        uv_timer_stop(&loop->watch);
}

void weir_loop_watch(struct weir_loop *loop)
{
    if (!uv_is_active((uv_handle_t *)&loop->watch))
        uv_timer_start(&loop->watch, on_watch, WATCH_MS, WATCH_MS);
}

static void *run(void *argument)
{
    struct weir_loop *loop = argument;
    char name[16];
    snprintf(name, sizeof name, "%s-%u", loop->plan->pools[loop->pool].name, loop->shard);
    pthread_setname_np(pthread_self(), name);
    weir_thread_start(&loop->thread, loop->plan, loop->pool);
    loop->thread.loop = loop;
    loop->thread.queues = loop->queues;
    loop->thread.slots = loop->slots;
    __atomic_store_n(&loop->started, true, __ATOMIC_RELEASE);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    leave(loop);
    weir_thread_stop(&loop->thread);
    __atomic_store_n(&loop->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static int init_handles(struct weir_loop *loop)
{
    if (uv_loop_init(&loop->uv) != 0 || uv_async_init(&loop->uv, &loop->wake, on_wake) != 0)
        return -ENOMEM;
    uv_timer_init(&loop->uv, &loop->watch);
    loop->watch.data = loop;
    uv_prepare_init(&loop->uv, &loop->before_sleep);
    uv_check_init(&loop->uv, &loop->after_sleep);
    uv_timer_init(&loop->uv, &loop->timer);
    loop->wake.data = loop->before_sleep.data = loop->after_sleep.data = loop->timer.data = loop;
    uv_prepare_start(&loop->before_sleep, on_before_sleep);
    uv_check_start(&loop->after_sleep, on_after_sleep);
    return 0;
}

int weir_loop_start(struct weir_loop *loop, const struct weir_plan *plan, struct weir_queue *queues, struct weir_slots *slots,
                    uint32_t pool, uint32_t shard, struct weir_error *error)
{
    *loop = (struct weir_loop){ .plan = plan, .queues = queues, .slots = slots, .pool = pool, .shard = shard };
    weir_mutex_init(&loop->mutex);
    loop->scratch = malloc(WEIR_LOOP_SCRATCH);
    loop->acks = malloc(WEIR_LOOP_ACKS * sizeof weir_message_ack);
    loop->parked = calloc(plan->queue_count + 1, sizeof *loop->parked);
    if (!loop->scratch || !loop->acks || !loop->parked || init_handles(loop) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "can't set up an event loop of pool %s: no memory or descriptors",
                              plan->pools[pool].name);
    for (uint32_t i = 0; i < WEIR_LOOP_ACKS; i++)
        memcpy(loop->acks + i * sizeof weir_message_ack, weir_message_ack, sizeof weir_message_ack);
    int code = pthread_create(&loop->handle, NULL, run, loop);
    if (code)
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't start a thread of pool %s: %s", plan->pools[pool].name,
                              strerror(code));
    return 0;
}

void weir_loop_release(struct weir_loop *loop)
{
    pthread_join(loop->handle, NULL);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->watch, NULL);
    uv_close((uv_handle_t *)&loop->before_sleep, NULL);
    uv_close((uv_handle_t *)&loop->after_sleep, NULL);
    uv_close((uv_handle_t *)&loop->timer, NULL);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_loop_close(&loop->uv);
    while (loop->free_items) {
        struct weir_item *item = loop->free_items;
        loop->free_items = item->next;
        free(item);
    }
    weir_block_cache_release(&loop->blocks);
    weir_mutex_release(&loop->mutex);
    free(loop->latencies);
    free(loop->scratch);
    free(loop->acks);
    free(loop->parked);
}
