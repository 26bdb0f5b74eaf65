/*
 * DESIGN: a ring of item pointers under a mutex. Lock-free rings were considered and left: all policies, two limits, the
 * conservation law and a snapshot that is never torn need one moment at which everything changes together, and a message of 100
 * events costs some 30 us, a lock 20 ns.
 *
 * Wakeups are sent only when somebody waits, after the lock is let go, and never twice for the same sleeper. An event loop that
 * cuts many small frames from one read defers them by a few items: a worker that is woken for each would handle it and be asleep
 * again before the next one comes, and a pair of sleep and wakeup costs more than such an item.
 *
 * Lock order: an intake's mutex is the innermost; nothing is locked under it, and nobody waits under it but on its own
 * conditions.
 *
 * Parking: an event loop that meets a full queue counts its item as parked and is entered in `waiting`, in the same critical
 * section that found the queue full, so that no wakeup is lost. While anything is parked, new items of event loops park too,
 * even where there is room: otherwise those who come would overtake those who wait.
 *
 * What slots have finished is taken before anything new, or finished items would pile up behind new ones that wait for a slot.
 * It also bounds their queue without a limit: a worker takes a new item only while none is finished, and adds that one item to
 * those in flight, which are at most as many as there are slots. So slots + workers is the most that can come together, and
 * the ring has that room from the start.
 */
#include "pipeline_dsl/runtime/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/seqlock.h"

#define FIRST_CAPACITY ((size_t)64)
#define WAKE_AT_ONCE 16u
#define WAKE_WITH_ITEMS 64u /* a deferred wakeup waits for no more items than these */

void weir_intake_init(struct weir_intake *intake, struct weir_queue **queues, uint32_t queue_count)
{
    *intake = (struct weir_intake){ .queues = queues, .queue_count = queue_count };
    while (intake->handoff_count < queue_count && queues[intake->handoff_count]->plan->kind == WEIR_QUEUE_HANDOFF)
        intake->handoff_count++;
    weir_mutex_init(&intake->mutex);
    weir_condition_init(&intake->not_empty);
}

void weir_intake_release(struct weir_intake *intake)
{
    weir_mutex_release(&intake->mutex);
    pthread_cond_destroy(&intake->not_empty);
}

void weir_intake_hurry(struct weir_intake *intake)
{
    weir_mutex_lock(&intake->mutex);
    __atomic_store_n(&intake->hurries, true, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&intake->not_empty);
    weir_mutex_unlock(&intake->mutex);
}

void weir_intake_discard(struct weir_intake *intake)
{
    __atomic_store_n(&intake->discards, true, __ATOMIC_RELAXED);
}

void weir_intake_close(struct weir_intake *intake)
{
    weir_mutex_lock(&intake->mutex);
    intake->closed = true;
    pthread_cond_broadcast(&intake->not_empty);
    weir_mutex_unlock(&intake->mutex);
}

void weir_queue_init(struct weir_queue *queue, const struct weir_plan *plan, uint32_t index, struct weir_intake *intake,
                     uint32_t loop_count)
{
    *queue = (struct weir_queue){
        .plan = &plan->queues[index],
        .index = index,
        .intake = intake,
        .capacity = FIRST_CAPACITY,
        .block = &plan->queue_blocks[(size_t)index * plan->shards],
    };
    while (queue->plan->kind == WEIR_QUEUE_SLOTS && queue->capacity < queue->plan->limit_items)
        queue->capacity *= 2;
    pthread_cond_init(&queue->not_full, NULL);
    queue->ring = malloc(queue->capacity * sizeof *queue->ring);
    queue->waiting = calloc(loop_count ? loop_count : 1, sizeof *queue->waiting);
    if (!queue->ring || !queue->waiting)
        weir_bug("no memory for queue %s", queue->plan->name);
}

void weir_queue_release(struct weir_queue *queue)
{
    pthread_cond_destroy(&queue->not_full);
    free(queue->ring);
    free(queue->waiting);
}

/* --- lock held in all of these ------------------------------------------------------------------------------------------ */

static bool fits(const struct weir_queue *queue, size_t size) WEIR_REQUIRES(queue->intake->mutex)
{
    return queue->block->queued_items < queue->plan->limit_items &&
           queue->block->queued_bytes <= queue->plan->limit_bytes - size;
}

static bool grow(struct weir_queue *queue) WEIR_REQUIRES(queue->intake->mutex)
{
    struct weir_item **ring = malloc(2 * queue->capacity * sizeof *ring);
    if (!ring)
        return false;
    for (size_t i = 0; i < queue->capacity; i++)
        ring[i] = queue->ring[(queue->head + i) & (queue->capacity - 1)];
    free(queue->ring);
    queue->ring = ring;
    queue->head = 0;
    queue->capacity *= 2;
    return true;
}

static void admit(struct weir_queue *queue, struct weir_item *item, bool resumes) WEIR_REQUIRES(queue->intake->mutex)
{
    struct weir_contract_queue *block = queue->block;
    queue->ring[(queue->head + block->queued_items) & (queue->capacity - 1)] = item;
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->in, 1);
    weir_word_add(&block->in_bytes, item->size_bytes);
    weir_word_add(&block->queued_items, 1);
    weir_word_add(&block->queued_bytes, item->size_bytes);
    weir_word_sub(&block->parked, resumes);
    weir_seqlock_end(&block->sequence);
    weir_item_stamp_push(item, block->queued_items, block->queued_bytes);
}

/* Takes the head off; it counts in `word`: out or dropped. */
static struct weir_item *remove_head(struct weir_queue *queue, weir_u64 *word) WEIR_REQUIRES(queue->intake->mutex)
{
    struct weir_contract_queue *block = queue->block;
    struct weir_item *item = queue->ring[queue->head];
    queue->head = (queue->head + 1) & (queue->capacity - 1);
    weir_seqlock_begin(&block->sequence);
    weir_word_add(word, 1);
    weir_word_sub(&block->queued_items, 1);
    weir_word_sub(&block->queued_bytes, item->size_bytes);
    weir_seqlock_end(&block->sequence);
    return item;
}

static enum weir_push refuse(struct weir_queue *queue, struct weir_item *item, bool resumes, weir_u64 *word, enum weir_push outcome)
    WEIR_REQUIRES(queue->intake->mutex)
{
    struct weir_contract_queue *block = queue->block;
    weir_seqlock_begin(&block->sequence);
    weir_word_add(&block->in, 1);
    weir_word_add(&block->in_bytes, item->size_bytes);
    weir_word_add(word, 1);
    weir_word_sub(&block->parked, resumes);
    weir_seqlock_end(&block->sequence);
    return outcome;
}

static void count_parked(struct weir_queue *queue, int change) WEIR_REQUIRES(queue->intake->mutex)
{
    weir_seqlock_begin(&queue->block->sequence);
    weir_word_add(&queue->block->parked, (weir_u64)(int64_t)change);
    weir_seqlock_end(&queue->block->sequence);
}

static enum weir_push park(struct weir_queue *queue, struct weir_loop *loop, bool resumes) WEIR_REQUIRES(queue->intake->mutex)
{
    if (!resumes)
        count_parked(queue, 1);
    for (uint32_t i = 0; i < queue->waiting_count; i++)
        if (queue->waiting[i] == loop)
            return WEIR_PUSH_PARK;
    queue->waiting[queue->waiting_count++] = loop;
    return WEIR_PUSH_PARK;
}

static void wait_for_room(struct weir_queue *queue, struct weir_thread *thread, size_t size) WEIR_REQUIRES(queue->intake->mutex)
{
    while (!fits(queue, size)) {
        if (weir_thread_should_flush(thread)) {
            weir_mutex_unlock(&queue->intake->mutex);
            weir_thread_flush(thread);
            weir_mutex_lock(&queue->intake->mutex);
            continue;
        }
        queue->pushers++;
        weir_thread_wait(thread, WEIR_WAIT_FULL, queue->index);
        weir_mutex_wait(&queue->intake->mutex, &queue->not_full);
        weir_thread_sleep_end(thread);
        queue->pushers--;
    }
}

/* One taker who sleeps and has not been woken yet is to be woken. */
static bool claim_sleeper(struct weir_intake *intake) WEIR_REQUIRES(intake->mutex)
{
    if (intake->sleeping <= intake->signalled)
        return false;
    intake->signalled++;
    return true;
}

/* --- the lock is taken here ---------------------------------------------------------------------------------------------- */

/* There is no room. ADMITTED: now there is. `block` may let go of the lock meanwhile. */
static enum weir_push when_full(struct weir_queue *queue, struct weir_thread *thread, struct weir_item *item, bool resumes,
                                struct weir_item **evicted) WEIR_REQUIRES(queue->intake->mutex)
{
    switch (queue->plan->full) {
    case WEIR_FULL_BLOCK:
        if (item->never_waits)
            return refuse(queue, item, resumes, &queue->block->rejected, WEIR_PUSH_REJECTED);
        if (thread->loop)
            return park(queue, thread->loop, resumes);
        wait_for_room(queue, thread, item->size_bytes);
        break;
    case WEIR_FULL_REJECT:
        return refuse(queue, item, resumes, &queue->block->rejected, WEIR_PUSH_REJECTED);
    case WEIR_FULL_DROP_NEWEST:
        return refuse(queue, item, resumes, &queue->block->dropped, WEIR_PUSH_DROPPED);
    case WEIR_FULL_DROP_OLDEST:
        for (struct weir_item **tail = evicted; !fits(queue, item->size_bytes); tail = &(*tail)->next) {
            *tail = remove_head(queue, &queue->block->dropped);
            (*tail)->next = NULL;
        }
        break;
    }
    return WEIR_PUSH_ADMITTED;
}

/* Behind an item that was admitted; `wake`: a sleeper was claimed for it. */
static void owe_wake(struct weir_intake *intake, struct weir_thread *thread, bool wake)
{
    thread->owed_wakes += wake;
    if (thread->owed_wakes && (!thread->defers || ++thread->owed_items == WAKE_WITH_ITEMS))
        weir_intake_wake(intake, thread);
}

enum weir_push weir_queue_push(struct weir_queue *queue, struct weir_thread *thread, struct weir_item *item, bool resumes,
                               struct weir_item **evicted)
{
    struct weir_contract_queue *block = queue->block;
    enum weir_push outcome = WEIR_PUSH_ADMITTED;
    *evicted = NULL;
    /* The language has made sure that the largest item fits into an empty queue; an estimate may overshoot. */
    if (item->size_bytes > queue->plan->limit_bytes)
        item->size_bytes = queue->plan->limit_bytes;
    weir_thread_lock(thread, &queue->intake->mutex, queue->index);
    bool waits_its_turn = thread->loop && !resumes && block->parked;
    if (waits_its_turn || !fits(queue, item->size_bytes))
        outcome = when_full(queue, thread, item, resumes, evicted);
    bool wake = false;
    if (outcome == WEIR_PUSH_ADMITTED) {
        if (block->queued_items == queue->capacity && !grow(queue))
            outcome = refuse(queue, item, resumes, &block->rejected, WEIR_PUSH_REJECTED);
        else
            admit(queue, item, resumes);
        wake = outcome == WEIR_PUSH_ADMITTED && claim_sleeper(queue->intake);
    }
    weir_mutex_unlock(&queue->intake->mutex);
    owe_wake(queue->intake, thread, wake);
    return outcome;
}

void weir_queue_return(struct weir_queue *queue, struct weir_thread *thread, struct weir_item *item)
{
    weir_thread_lock(thread, &queue->intake->mutex, queue->index);
    /* Only where one tail leads to another that stands above it in the file: then the later one's turn may come second. */
    if (queue->block->queued_items == queue->capacity && !grow(queue))
        weir_bug("no memory for what comes back to %s", queue->plan->name);
    admit(queue, item, false);
    bool wake = claim_sleeper(queue->intake);
    weir_mutex_unlock(&queue->intake->mutex);
    owe_wake(queue->intake, thread, wake);
}

void weir_intake_wake(struct weir_intake *intake, struct weir_thread *thread)
{
    for (; thread->owed_wakes; thread->owed_wakes--)
        pthread_cond_signal(&intake->not_empty);
    thread->owed_items = 0;
}

/* The queue whose turn it is; null when all are empty. Among handoffs the turn passes on. */
static struct weir_queue *first_with_items(struct weir_intake *intake) WEIR_REQUIRES(intake->mutex)
{
    for (uint32_t i = intake->queue_count; i-- > intake->handoff_count;)
        if (intake->queues[i]->block->queued_items)
            return intake->queues[i];
    for (uint32_t i = 0; i < intake->handoff_count; i++) {
        uint32_t at = (intake->next + i) % intake->handoff_count;
        if (intake->queues[at]->block->queued_items) {
            intake->next = (at + 1) % intake->handoff_count;
            return intake->queues[at];
        }
    }
    return NULL;
}

/* The lock is let go while the thread sleeps. */
static void sleep_until_item(struct weir_intake *intake, struct weir_thread *thread) WEIR_REQUIRES(intake->mutex)
{
    if (weir_thread_should_flush(thread)) {
        weir_mutex_unlock(&intake->mutex);
        weir_thread_flush(thread);
        weir_mutex_lock(&intake->mutex);
        return;
    }
    intake->sleeping++;
    weir_thread_wait(thread, WEIR_WAIT_IDLE, intake->queues[intake->next]->index);
    if (thread->due_ns)
        weir_mutex_wait_until(&intake->mutex, &intake->not_empty, thread->due_ns);
    else
        weir_mutex_wait(&intake->mutex, &intake->not_empty);
    weir_thread_sleep_end(thread);
    intake->sleeping--;
    if (intake->signalled)
        intake->signalled--;
}

/* At 3/4 fill those who were stopped may go on: a worker for each item taken, event loops all. Hands out at most WAKE_AT_ONCE
 * loops to wake after the lock is let go. */
static uint32_t claim_loops(struct weir_queue *queue, struct weir_loop **loops) WEIR_REQUIRES(queue->intake->mutex)
{
    const struct weir_contract_queue *block = queue->block;
    if (!queue->waiting_count || block->queued_items > queue->plan->limit_items * 3 / 4 ||
        block->queued_bytes > queue->plan->limit_bytes / 4 * 3)
        return 0;
    uint32_t count = queue->waiting_count < WAKE_AT_ONCE ? queue->waiting_count : WAKE_AT_ONCE;
    queue->waiting_count -= count;
    memcpy(loops, queue->waiting + queue->waiting_count, count * sizeof *loops);
    return count;
}

static void wake_loops(struct weir_queue *queue, struct weir_loop **loops, uint32_t count)
{
    while (count) {
        for (uint32_t i = 0; i < count; i++)
            weir_loop_resume(loops[i]);
        if (count < WAKE_AT_ONCE)
            return;
        weir_mutex_lock(&queue->intake->mutex);
        count = claim_loops(queue, loops);
        weir_mutex_unlock(&queue->intake->mutex);
    }
}

void weir_queue_unpark(struct weir_queue *queue)
{
    struct weir_loop *loops[WAKE_AT_ONCE];
    weir_mutex_lock(&queue->intake->mutex);
    count_parked(queue, -1);
    /* Other loops may have parked behind this item alone, and no take may ever come to wake them. */
    uint32_t count = claim_loops(queue, loops);
    weir_mutex_unlock(&queue->intake->mutex);
    wake_loops(queue, loops, count);
}

/* A queue of the intake that is locked: its lock is the same one. */
static void same_lock(const struct weir_queue *queue) WEIR_HOLDS(queue->intake->mutex)
{
    (void)queue;
}

void weir_intake_enter(struct weir_intake *intake, struct weir_item *item)
{
    weir_mutex_lock(&intake->mutex);
    weir_item_list_add(&intake->inside, item);
    bool wake = claim_sleeper(intake);
    weir_mutex_unlock(&intake->mutex);
    if (wake)
        pthread_cond_signal(&intake->not_empty);
}

/* Of the items that were born inside the next one, unless it is the turn of `queue`, whose turn comes next then. */
static struct weir_item *take_inside(struct weir_intake *intake, const struct weir_queue *queue) WEIR_REQUIRES(intake->mutex)
{
    intake->inside_next = queue && !intake->inside_next;
    if (intake->inside_next)
        return NULL;
    if (queue)
        intake->next = (intake->next + intake->handoff_count - 1) % intake->handoff_count;
    return weir_item_list_take(&intake->inside);
}

/* Is there something that the thread does when nothing comes? */
static bool has_to_fire(struct weir_intake *intake, const struct weir_thread *thread) WEIR_REQUIRES(intake->mutex)
{
    return thread->due_ns && (intake->hurries || thread->due_ns <= weir_clock_ns());
}

struct weir_item *weir_intake_take(struct weir_intake *intake, struct weir_thread *thread, struct weir_queue **from)
{
    struct weir_loop *loops[WAKE_AT_ONCE];
    struct weir_queue *queue;
    weir_thread_at(thread, WEIR_TAG(intake->queues[0]->plan->stage, WEIR_PART_POP));
    weir_thread_lock(thread, &intake->mutex, intake->queues[0]->index);
    while (!(queue = first_with_items(intake)) && !intake->inside.first && !intake->closed && !has_to_fire(intake, thread))
        sleep_until_item(intake, thread);
    bool finished = queue && queue->plan->kind == WEIR_QUEUE_SLOTS;
    if (__builtin_expect(intake->inside.first != NULL, 0) && !finished) {
        struct weir_item *inside = take_inside(intake, queue);
        if (inside) {
            weir_mutex_unlock(&intake->mutex);
            *from = NULL;
            return inside;
        }
    }
    if (!queue) {
        weir_mutex_unlock(&intake->mutex);
        return NULL;
    }
    same_lock(queue);
    struct weir_item *item = remove_head(queue, &queue->block->out);
    if (queue != intake->queues[0] || item->lane)
        weir_thread_at(thread, WEIR_TAG(queue->plan->stage + item->lane, WEIR_PART_POP));
    weir_thread_took(thread);
    if (queue->pushers)
        pthread_cond_signal(&queue->not_full);
    uint32_t count = claim_loops(queue, loops);
    weir_mutex_unlock(&intake->mutex);
    wake_loops(queue, loops, count);
    *from = queue;
    return item;
}
