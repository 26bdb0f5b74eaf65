/*
 * thread: one pool thread as a tracer sees it: its slot, its counters, its item log.
 * Every crossing from one stage to the next goes through here, so this is the one file whose nanoseconds count.
 *
 * Units: ticks of base/clock.h.
 * Owns: its slot, from weir_thread_start() to weir_thread_stop().
 * Threads: owner only.
 * Errors: a thread that finds no free slot counts in the contract's thread_overflow and works unseen.
 */
#ifndef WEIR_RUNTIME_THREAD_H
#define WEIR_RUNTIME_THREAD_H

#include "base/arena.h"
#include "base/clock.h"
#include "pipeline_dsl/runtime/mutex.h"
#include "pipeline_dsl/runtime/plan.h"
#include "pipeline_dsl/runtime/trace_point.h"

struct weir_loop;
struct weir_queue;
struct weir_timer;
struct weir_slots;

/* Empty arenas that a thread keeps for the next messages that it decodes: a worker one, an event loop many, since its items
 * are far away for long. */
#define WEIR_SPARE_ARENAS 128u
#define WEIR_SPARE_BYTES ((size_t)16 << 20)

/* Which items of one way in are stamped in light mode: every skip-th, where skip is drawn anew with the mean `weight`. Each way
 * has its own, so that a quiet one is seen beside a busy one. */
struct weir_thinner {
    uint32_t weight, skip;
    uint32_t births; /* items in this slice */
    uint64_t slice_ticks;
};

/* Begins a piece of memory that a stage keeps for one thread; given back by free() when that ends. */
struct weir_kept {
    struct weir_kept *next;
};

struct weir_thread {
    struct weir_contract_thread *slot;
    struct weir_contract_cell *cells; /* [tag_count] */
    struct weir_contract_log *log;
    uint32_t index; /* of its slot */
    uint32_t tag;   /* what the slot says */
    bool exact;     /* ticks are being added up since last_ticks */
    uint64_t last_ticks;
    struct weir_thinner *thinners; /* [way_count] */
    uint64_t random;
    struct weir_loop *loop;     /* null: a worker */
    bool defers;                      /* pushes to one queue follow each other closely: their wakeups may wait a little */
    uint32_t owed_wakes, owed_items;  /* wakeups not sent yet, and pushes since the first of them */
    struct weir_queue *queues;  /* [queue_count]: all of the server's */
    struct weir_slots *slots;   /* [slots_count]: likewise */
    struct weir_timer *timers;  /* armed */
    uint64_t due_ns;            /* when the first of them is due; 0: there is none */
    struct weir_kept *kept;     /* what stages keep for this thread */
    struct weir_arena spares[WEIR_SPARE_ARENAS];
    uint32_t spare_count;
    size_t spare_bytes;
};

/* Fills in the exported contract; `magic` last, so that a tracer sees it whole or not at all. */
void weir_contract_publish(const struct weir_plan *plan);
extern struct weir_contract weir_contract;

/* Takes a slot for the calling thread, and says so at the point thread_start. */
void weir_thread_start(struct weir_thread *thread, const struct weir_plan *plan, uint32_t pool);
/* Hands over what its log holds and frees the slot. */
void weir_thread_stop(struct weir_thread *thread);

/* The slow side of a crossing: adds the ticks since the last one to the tag that is being left. */
void weir_thread_account(struct weir_thread *thread);

/* The thread is at `tag` (WEIR_TAG) from now on. */
static inline void weir_thread_at(struct weir_thread *thread, uint32_t tag)
{
    /* Where it is already its ticks just go on. */
    if (__builtin_expect(weir_trace_exact_semaphore | thread->exact, 0) && (tag != thread->tag || !thread->exact))
        weir_thread_account(thread);
    thread->tag = tag;
    __atomic_store_n(&thread->slot->tag, tag, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void weir_thread_count(struct weir_thread *thread, uint32_t stage)
{
    weir_u64 *entries = &thread->cells[WEIR_TAG(stage, WEIR_PART_NONE)].entries;
    __atomic_store_n(entries, *entries + 1, __ATOMIC_RELAXED);
}

/* It has taken an item from a queue: what it was woken for was not for nothing. */
static inline void weir_thread_took(struct weir_thread *thread)
{
    __atomic_store_n(&thread->slot->takes, thread->slot->takes + 1, __ATOMIC_RELAXED);
}

/* Counters that a stage keeps about itself. */
void weir_thread_add_events(struct weir_thread *thread, uint32_t stage, uint64_t events);
void weir_thread_add_own_cpu(struct weir_thread *thread, uint32_t stage, uint64_t cpu_ns);

/* Around a call that may sleep. sleep_begin hands the log over when 8 records wait in it or the oldest is 10 ms old, so it must
 * not be called with a lock held: whoever holds one asks weir_thread_should_flush(), lets go of the lock to flush, and then
 * only sets the word. */
void weir_thread_sleep_begin(struct weir_thread *thread, enum weir_wait kind, uint32_t object);
static inline void weir_thread_wait(struct weir_thread *thread, enum weir_wait kind, uint32_t object)
{
    __atomic_store_n(&thread->slot->wait, WEIR_WAIT_WORD(kind, object), __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void weir_thread_sleep_end(struct weir_thread *thread)
{
    __atomic_store_n(&thread->slot->wait, WEIR_WAIT_NONE, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
/* Takes a queue's lock; the thread is seen to wait for it, if it must. */
static inline void weir_thread_lock(struct weir_thread *thread, struct weir_mutex *mutex, uint32_t queue) WEIR_ACQUIRES(*mutex)
{
    if (weir_mutex_try(mutex))
        return;
    weir_thread_wait(thread, WEIR_WAIT_LOCK, queue);
    weir_mutex_lock(mutex);
    weir_thread_sleep_end(thread);
}
bool weir_thread_should_flush(const struct weir_thread *thread);
void weir_thread_flush(struct weir_thread *thread);

/* For how many items the one that is born now on this way in stands in the item log; 0: it is not stamped. */
uint32_t weir_thread_choose_traced(struct weir_thread *thread, uint32_t way);
static inline uint32_t weir_thread_choose(struct weir_thread *thread, uint32_t way)
{
    return __builtin_expect(weir_trace_on_semaphore | weir_trace_exact_semaphore, 0) ? weir_thread_choose_traced(thread, way) : 0;
}

/* Appends a record to the item log. */
void weir_thread_log(struct weir_thread *thread, const struct weir_contract_record *record);

#endif
