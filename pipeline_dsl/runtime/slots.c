/*
 * DESIGN: a slot is given back by the connections' own thread, which waits for no worker and holds no lock while anybody waits:
 * workers that all wait for slots never hold up what frees them. The item enters the queue first, then its slot is free. So
 * whoever gets that slot finds the item when it comes back for its next one, and no finished item is left behind by workers that
 * all wait for slots: the other way round, the worker could be back, take a new item and wait again, before the finished one is
 * in the queue.
 *
 * Two threads serve a stage. One moves the bytes of all its connections (epoll); with one thread nothing about a connection needs
 * a lock. The other opens connections, which may wait for a name, a handshake or a log-in, and hands each over when it is up.
 *
 * A worker counts its slot, puts the item into the inbox and wakes the thread only when that sleeps, in one critical section; the
 * thread picks the connection with the fewest in flight. Slots are counted over all connections that are up: with those of a
 * connection that is down nothing can be sent. Where lost items are sent again, they keep their slots while nothing is up, and so
 * may new ones.
 *
 * Time at capacity is measured between the two moments at which it begins and ends; no clock is read while slots are free.
 */
#include "pipeline_dsl/runtime/slots.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/seqlock.h"

#define EVENTS_AT_ONCE 64
#define BACKOFF_FIRST_NS 50000000u
#define BACKOFF_MOST_NS 1000000000u

static void poke(int fd)
{
    uint64_t one = 1;
    ssize_t written = write(fd, &one, sizeof one);
    (void)written; /* an eventfd takes it */
}

/* --- counting ------------------------------------------------------------------------------------------------------------- */

/* How many slots can be in use now. */
static uint64_t usable(const struct weir_slots *slots) WEIR_REQUIRES(slots->mutex)
{
    return slots->plan->retries ? slots->capacity : slots->block->open * slots->plan->in_flight;
}

/* After any change of what is in use or usable, within the same write of the block. */
static void note_capacity(struct weir_slots *slots) WEIR_REQUIRES(slots->mutex)
{
    struct weir_contract_slots *block = slots->block;
    uint64_t most = usable(slots);
    bool full = most && block->in_use >= most;
    if (full == (block->full_since_ns != 0))
        return;
    uint64_t now = weir_clock_ns();
    if (!full)
        weir_word_add(&block->full_ns, now - block->full_since_ns);
    __atomic_store_n(&block->full_since_ns, full ? now : 0, __ATOMIC_RELEASE);
}

static void count_taken(struct weir_slots *slots) WEIR_REQUIRES(slots->mutex)
{
    struct weir_contract_slots *block = slots->block;
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->taken, 1);
    weir_word_add(&block->in_use, 1);
    note_capacity(slots);
    weir_seqlock_end(&block->sequence);
}

/* An item that found no connection. */
static void count_refused(struct weir_slots *slots) WEIR_REQUIRES(slots->mutex)
{
    struct weir_contract_slots *block = slots->block;
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->taken, 1);
    weir_word_add(&block->failed, 1);
    weir_seqlock_end(&block->sequence);
}

static void count_wait(struct weir_slots *slots, uint64_t ns) WEIR_REQUIRES(slots->mutex)
{
    struct weir_contract_slots *block = slots->block;
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->waits, 1);
    weir_word_add(&block->waited_ns, ns);
    weir_seqlock_end(&block->sequence);
    weir_word_add(&slots->times->wait[weir_histogram_bucket(ns)], 1);
}

static void count_open(struct weir_slots *slots, int change, bool again) WEIR_REQUIRES(slots->mutex)
{
    struct weir_contract_slots *block = slots->block;
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->open, (weir_u64)(int64_t)change);
    weir_word_sub(&block->unfilled, (weir_u64)(int64_t)change * slots->plan->in_flight);
    weir_word_add(&block->reconnects, again);
    note_capacity(slots);
    weir_seqlock_end(&block->sequence);
    if (slots->waiting)
        pthread_cond_broadcast(&slots->free);
}

/* --- a worker's side ------------------------------------------------------------------------------------------------------- */

void weir_slots_fail(const struct weir_slots *slots, struct weir_item *item, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *said = weir_arena_printf(&item->arena, "%s: %s", slots->plan->name, text);
    item->answer_failed = true;
    item->answer_error = said ? said : "a downstream failed, and there is no memory to say how";
}

/* The item goes on in its pool; its record of this segment has been closed, or is closed by the caller from its copy. */
static void give_back(struct weir_thread *thread, struct weir_slots *slots, struct weir_item *item)
{
    weir_buffer_release(&item->request);
    item->size_bytes = item->decoded ? item->arena.used_bytes : item->payload_bytes;
    if (item->slots_loop)
        weir_loop_return(item, slots->plan->queue);
    else
        weir_queue_return(slots->queue, thread, item);
}

static struct weir_contract_record take_record(struct weir_item *item)
{
    struct weir_contract_record record = { .tick_count = 0 };
    if (item->record.tick_count) {
        item->record.events = item->events;
        record = item->record;
        item->record.tick_count = 0;
    }
    return record;
}

void weir_slots_pass(struct weir_thread *thread, struct weir_slots *slots, struct weir_item *item)
{
    struct weir_contract_record record = take_record(item);
    item->slots_loop = thread->loop;
    weir_thread_at(thread, WEIR_TAG(slots->plan->stage + item->lane, WEIR_PART_PUSH));
    give_back(thread, slots, item);
    weir_item_segment_end(thread, &record);
}

/* Waits while every slot is taken. False: nothing can be sent. */
static bool wait_for_slot(struct weir_slots *slots, struct weir_thread *thread) WEIR_REQUIRES(slots->mutex)
{
    uint64_t since = 0, most;
    while (!slots->stopping && (most = usable(slots)) && slots->block->in_use >= most) {
        if (weir_thread_should_flush(thread)) {
            weir_mutex_unlock(&slots->mutex);
            weir_thread_flush(thread);
            weir_mutex_lock(&slots->mutex);
            continue;
        }
        since = since ? since : weir_clock_ns();
        slots->waiting++;
        weir_thread_wait(thread, WEIR_WAIT_SLOT, slots->plan->topology_stage);
        weir_mutex_wait(&slots->mutex, &slots->free);
        weir_thread_sleep_end(thread);
        slots->waiting--;
    }
    if (since)
        count_wait(slots, weir_clock_ns() - since);
    return !slots->stopping && usable(slots);
}

void weir_slots_send(struct weir_thread *thread, struct weir_slots *slots, struct weir_item *item)
{
    bool wake = false;
    weir_mutex_lock(&slots->mutex);
    if (!wait_for_slot(slots, thread)) {
        bool stopping = slots->stopping;
        count_refused(slots);
        weir_mutex_unlock(&slots->mutex);
        weir_slots_fail(slots, item, "%s", stopping ? "the server ends" : "no connection is up; nothing was sent");
        weir_slots_pass(thread, slots, item);
        return;
    }
    /* Once it is in the inbox the item is another thread's. */
    struct weir_contract_record record = take_record(item);
    item->slots_loop = thread->loop;
    item->slot_ns = item->weight ? weir_clock_ns() : 0;
    count_taken(slots);
    weir_item_list_add(&slots->inbox, item);
    wake = !slots->awake;
    slots->awake = true;
    weir_mutex_unlock(&slots->mutex);
    if (wake)
        poke(slots->wake_fd);
    weir_item_segment_end(thread, &record);
}

/* --- the connections' thread ------------------------------------------------------------------------------------------------ */

static void end_item(struct weir_slots *slots, struct weir_item *item, enum weir_slots_end end)
{
    struct weir_contract_slots *block = slots->block;
    if (item->slot_ns)
        weir_word_add(&slots->times->service[weir_histogram_bucket(weir_clock_ns() - item->slot_ns)], item->weight);
    weir_thread_at(&slots->thread, WEIR_TAG(slots->plan->stage, WEIR_PART_PUSH));
    give_back(&slots->thread, slots, item);
    weir_mutex_lock(&slots->mutex);
    weir_seqlock_begin(&block->sequence);
    weir_word_add(end == WEIR_SLOTS_FINISHED ? &block->finished : end == WEIR_SLOTS_FAILED ? &block->failed : &block->lost, 1);
    weir_word_sub(&block->in_use, 1);
    note_capacity(slots);
    weir_seqlock_end(&block->sequence);
    bool wanted = slots->waiting != 0;
    weir_mutex_unlock(&slots->mutex);
    if (wanted)
        pthread_cond_signal(&slots->free);
    weir_thread_at(&slots->thread, WEIR_TAG(slots->plan->stage, WEIR_PART_NONE));
}

/* What a request takes when it has its connection to itself tells one that serves them one by one from one that is far away. */
static void note_alone(struct weir_slots *slots, const struct weir_item *item)
{
    struct weir_contract_slots *block = slots->block;
    uint64_t took_ns = weir_clock_ns() - item->alone_ns;
    weir_mutex_lock(&slots->mutex);
    if (!block->alone_ns || took_ns < block->alone_ns) {
        weir_seqlock_begin(&block->sequence);
        __atomic_store_n(&block->alone_ns, took_ns ? took_ns : 1, __ATOMIC_RELEASE);
        weir_seqlock_end(&block->sequence);
    }
    weir_mutex_unlock(&slots->mutex);
}

void weir_slots_end(struct weir_slots_line *line, struct weir_item *item, enum weir_slots_end end)
{
    line->in_flight--;
    if (item->alone_ns && end == WEIR_SLOTS_FINISHED)
        note_alone(line->slots, item);
    __atomic_store_n(&line->slots->answered, true, __ATOMIC_RELAXED);
    end_item(line->slots, item, end);
}

void weir_slots_lose(struct weir_slots_line *line, struct weir_item *item)
{
    struct weir_slots *slots = line->slots;
    line->in_flight--;
    if (slots->plan->retries && !slots->how_lost) {
        weir_item_list_add(&slots->orphans, item);
        return;
    }
    weir_slots_fail(slots, item, "%s", slots->how_lost ? slots->how_lost : "the connection was lost before it was answered");
    end_item(slots, item, WEIR_SLOTS_LOST);
}

static void watch(struct weir_slots *slots, struct weir_slots_line *line)
{
    uint32_t wanted = EPOLLIN | (slots->plan->kind->wants_write(line) ? EPOLLOUT : 0);
    if (wanted == line->events)
        return;
    struct epoll_event event = { .events = wanted, .data.ptr = line };
    epoll_ctl(slots->epoll_fd, line->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, slots->plan->kind->fd(line), &event);
    line->events = wanted;
}

/* A connection has ended. What it leaves is sent again before anything newer, or is lost. */
static void line_down(struct weir_slots *slots, struct weir_slots_line *line)
{
    slots->plan->kind->close(line);
    line->events = 0;
    line->unsent = false;
    slots->up--;
    uint64_t again = 0;
    for (struct weir_item *item = slots->orphans.first; item; item = item->next)
        again++;
    weir_item_list_append(&slots->orphans, &slots->pending);
    weir_item_list_append(&slots->pending, &slots->orphans);
    weir_mutex_lock(&slots->mutex);
    count_open(slots, -1, false);
    weir_seqlock_begin(&slots->block->sequence);
    weir_word_add(&slots->block->retried, again);
    weir_seqlock_end(&slots->block->sequence);
    line->down = slots->loses = true;
    pthread_cond_signal(&slots->opener);
    weir_mutex_unlock(&slots->mutex);
}

/* Writes, and reads where there is something. */
static void attend(struct weir_slots *slots, struct weir_slots_line *line, bool readable)
{
    line->unsent = false;
    slots->plan->kind->attend(line, readable);
    if (slots->plan->kind->fd(line) < 0)
        line_down(slots, line);
    else
        watch(slots, line);
}

static struct weir_slots_line *least_loaded(struct weir_slots *slots)
{
    struct weir_slots_line *best = NULL;
    uint32_t least = slots->plan->in_flight;
    for (uint32_t i = 0; i < slots->plan->connections && least; i++)
        if (slots->lines[i].events && slots->lines[i].in_flight < least) {
            best = &slots->lines[i];
            least = best->in_flight;
        }
    return best;
}

/* Hands out what waits, then writes it, so that what goes by one connection shares its writes. */
static void send_pending(struct weir_slots *slots)
{
    struct weir_slots_line *line;
    while (slots->pending.first && (line = least_loaded(slots))) {
        do {
            struct weir_item *item = weir_item_list_take(&slots->pending);
            item->alone_ns = line->in_flight++ ? 0 : weir_clock_ns();
            line->unsent = true;
            slots->plan->kind->send(line, item);
        } while (slots->pending.first && (line = least_loaded(slots)));
        for (uint32_t i = 0; i < slots->plan->connections; i++)
            if (slots->lines[i].unsent)
                attend(slots, &slots->lines[i], false);
    }
    if (slots->up || slots->plan->retries)
        return;
    /* The last connection went while these were on their way to it. */
    struct weir_item *item;
    while ((item = weir_item_list_take(&slots->pending))) {
        weir_slots_fail(slots, item, "the connection was lost before it was sent");
        end_item(slots, item, WEIR_SLOTS_LOST);
    }
}

static void lines_up(struct weir_slots *slots, struct weir_slots_line *line)
{
    for (struct weir_slots_line *next; line; line = next) {
        next = line->next_open;
        slots->up++;
        watch(slots, line);
    }
}

/* Everything in flight is lost. */
static void finish(struct weir_slots *slots)
{
    struct weir_item *item;
    slots->how_lost = "the server ends";
    for (uint32_t i = 0; i < slots->plan->connections; i++)
        if (slots->lines[i].events)
            line_down(slots, &slots->lines[i]);
    while ((item = weir_item_list_take(&slots->pending))) {
        weir_slots_fail(slots, item, "%s", slots->how_lost);
        end_item(slots, item, WEIR_SLOTS_LOST);
    }
}

/* Waits for the sockets, unless a worker has been here meanwhile. */
static int sleep_until_event(struct weir_slots *slots, struct epoll_event *events)
{
    weir_mutex_lock(&slots->mutex);
    slots->awake = slots->inbox.first || slots->opened || slots->stopping;
    bool awake = slots->awake;
    weir_mutex_unlock(&slots->mutex);
    if (awake)
        return epoll_wait(slots->epoll_fd, events, EVENTS_AT_ONCE, 0);
    weir_thread_sleep_begin(&slots->thread, WEIR_WAIT_IDLE, WEIR_WAIT_LOOP);
    int got = epoll_wait(slots->epoll_fd, events, EVENTS_AT_ONCE, -1);
    weir_thread_sleep_end(&slots->thread);
    return got;
}

/* One round. False: the server ends, and nothing is in flight any more. */
static bool turn(struct weir_slots *slots)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    weir_mutex_lock(&slots->mutex);
    weir_item_list_append(&slots->pending, &slots->inbox);
    struct weir_slots_line *opened = slots->opened;
    bool stopping = slots->stopping;
    slots->opened = NULL;
    weir_mutex_unlock(&slots->mutex);
    lines_up(slots, opened);
    if (stopping) {
        finish(slots);
        return false;
    }
    send_pending(slots);
    int got = sleep_until_event(slots, events);
    slots->thread.defers = true; /* answers come in bundles, and so may the workers' wakeups */
    for (int i = 0; i < got; i++) {
        struct weir_slots_line *line = events[i].data.ptr;
        uint64_t count;
        if (line && line->events)
            attend(slots, line, events[i].events & ~(uint32_t)EPOLLOUT);
        else if (!line && read(slots->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
            weir_bug("the wakeup of %s can't be read: %s", slots->plan->name, strerror(errno));
    }
    slots->thread.defers = false;
    if (slots->thread.owed_wakes)
        weir_intake_wake(slots->queue->intake, &slots->thread);
    return true;
}

void weir_slots_begin_thread(struct weir_slots *slots, struct weir_thread *thread, int which)
{
    char name[16];
    snprintf(name, sizeof name, "%.13s-%d", strchr(slots->plan->name, '.') ? strchr(slots->plan->name, '.') + 1 : "slots", which);
    pthread_setname_np(pthread_self(), name);
    weir_thread_start(thread, slots->server, slots->plan->pool);
    weir_thread_at(thread, WEIR_TAG(slots->plan->stage, WEIR_PART_NONE));
    __atomic_store_n(&slots->started[which], true, __ATOMIC_RELEASE);
}

static void *serve(void *argument)
{
    struct weir_slots *slots = argument;
    weir_slots_begin_thread(slots, &slots->thread, WEIR_SLOTS_SERVES);
    while (turn(slots))
        ;
    weir_thread_stop(&slots->thread);
    __atomic_store_n(&slots->ended[WEIR_SLOTS_SERVES], true, __ATOMIC_RELEASE);
    return NULL;
}

void weir_slots_up(struct weir_slots_line *line)
{
    struct weir_slots *slots = line->slots;
    weir_mutex_lock(&slots->mutex);
    count_open(slots, 1, line->was_up);
    line->was_up = true;
    line->down = false;
    line->next_open = slots->opened;
    slots->opened = line;
    bool wake = !slots->awake;
    slots->awake = true;
    weir_mutex_unlock(&slots->mutex);
    if (wake)
        poke(slots->wake_fd);
}

/* --- from the server --------------------------------------------------------------------------------------------------------- */

static void init(struct weir_slots *slots, const struct weir_plan *plan, uint32_t index, struct weir_queue *queues)
{
    const struct weir_plan_slots *own = &plan->slots[index];
    *slots = (struct weir_slots){
        .plan = own,
        .server = plan,
        .queue = &queues[own->queue],
        .lines = calloc(own->connections, sizeof *slots->lines),
        .capacity = (uint64_t)own->connections * own->in_flight,
        .block = &plan->slot_blocks[index],
        .times = &plan->slot_times[index],
        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
        .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
        .backoff = { .first_ns = BACKOFF_FIRST_NS, .most_ns = BACKOFF_MOST_NS },
    };
    struct epoll_event wake = { .events = EPOLLIN, .data.ptr = NULL };
    if (!slots->lines || slots->epoll_fd < 0 || slots->wake_fd < 0 || slots->cancel_fd < 0 ||
        epoll_ctl(slots->epoll_fd, EPOLL_CTL_ADD, slots->wake_fd, &wake) != 0)
        weir_bug("no memory or descriptors for the connections of %s", own->name);
    weir_mutex_init(&slots->mutex);
    pthread_cond_init(&slots->free, NULL);
    pthread_cond_init(&slots->opener, NULL);
    slots->block->stage = own->topology_stage;
    slots->block->unfilled = slots->capacity;
    slots->block->times = (uintptr_t)slots->times;
    for (uint32_t i = 0; i < own->connections; i++)
        slots->lines[i] = (struct weir_slots_line){ .slots = slots, .number = i, .down = true };
}

int weir_slots_start(struct weir_slots *slots, const struct weir_plan *plan, uint32_t index, struct weir_queue *queues,
                     struct weir_error *error)
{
    init(slots, plan, index, queues);
    int rc = weir_slots_open_first(slots, error);
    if (rc != 0)
        return rc;
    int code = pthread_create(&slots->handle, NULL, serve, slots);
    if (!code)
        code = pthread_create(&slots->opener_handle, NULL, weir_slots_open_lines, slots);
    if (code)
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't start the threads of %s: %s", slots->plan->name, strerror(code));
    for (int i = WEIR_SLOTS_SERVES; i <= WEIR_SLOTS_OPENS; i++)
        while (!__atomic_load_n(&slots->started[i], __ATOMIC_ACQUIRE))
            usleep(50);
    return 0;
}

void weir_slots_stop(struct weir_slots *slots)
{
    weir_mutex_lock(&slots->mutex);
    slots->stopping = true;
    pthread_cond_broadcast(&slots->free);
    pthread_cond_broadcast(&slots->opener);
    weir_mutex_unlock(&slots->mutex);
    poke(slots->cancel_fd);
    poke(slots->wake_fd);
}

bool weir_slots_ended(const struct weir_slots *slots)
{
    return __atomic_load_n(&slots->ended[WEIR_SLOTS_SERVES], __ATOMIC_ACQUIRE) && __atomic_load_n(&slots->ended[WEIR_SLOTS_OPENS], __ATOMIC_ACQUIRE);
}

void weir_slots_release(struct weir_slots *slots)
{
    pthread_join(slots->handle, NULL);
    pthread_join(slots->opener_handle, NULL);
    for (uint32_t i = 0; i < slots->plan->connections; i++)
        if (slots->lines[i].link)
            slots->plan->kind->close(&slots->lines[i]);
    close(slots->epoll_fd);
    close(slots->wake_fd);
    close(slots->cancel_fd);
    weir_mutex_release(&slots->mutex);
    pthread_cond_destroy(&slots->free);
    pthread_cond_destroy(&slots->opener);
    free(slots->lines);
}
