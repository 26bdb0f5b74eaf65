/*
 * queue: a handoff, the bounded queue through which items go from one pool to another; and the intake where a pool takes.
 * It stands between two segments of a pipeline.
 *
 * When it is full, `full` says what happens:
 *   block        an event loop parks the item (its connection is not read meanwhile) and is woken at 3/4 fill; a worker waits;
 *                an item that never waits (a copy, or one that was born inside and has no connection) is rejected
 *   reject       the new item is refused
 *   drop newest  the new item is dropped
 *   drop oldest  items at the head are dropped until the new one fits
 * An item is admitted when used + size <= limit, for bytes and for items. in = out + dropped + rejected + queued holds at every
 * moment; a parked item has not been offered yet.
 *
 * Units: bytes, items.
 * Owns: the items that are in it.
 * Threads: any number that push and take. All queues into one pool share the lock of that pool's intake. No lock is held while
 *          a thread waits, and none while an item is finished.
 * Errors: none; refusals are outcomes and counters.
 */
#ifndef WEIR_RUNTIME_QUEUE_H
#define WEIR_RUNTIME_QUEUE_H

#include <pthread.h>

#include "pipeline_dsl/runtime/item.h"
#include "pipeline_dsl/runtime/mutex.h"

/* Where a pool takes its items: one lock and one condition for all the queues that lead there. The handoffs stand in front, and
 * behind them the queues of what slots have finished, which are taken from first, the last one before all. */
struct weir_intake {
    struct weir_mutex mutex;
    pthread_cond_t not_empty;
    struct weir_queue **queues; /* [queue_count] */
    uint32_t queue_count;
    uint32_t handoff_count;
    uint32_t next;                /* where the next take starts to look */
    struct weir_item_list inside; /* born inside, bounded by their sources */
    bool inside_next;             /* whose turn it is, where both have items */
    uint32_t sleeping;            /* takers that wait */
    uint32_t signalled;           /* of those: already woken, not yet running */
    bool closed;
    bool hurries;                 /* atomic: the server drains: what takers hold for later is not held any longer */
    bool discards;                /* atomic */
};

struct weir_queue {
    const struct weir_plan_queue *plan;
    uint32_t index;
    struct weir_intake *intake; /* Requires: intake->mutex, for all below */
    struct weir_item **ring;
    size_t capacity, head; /* capacity is a power of 2 and grows up to limit_items */
    pthread_cond_t not_full;
    uint32_t pushers;           /* workers that wait in not_full */
    struct weir_contract_queue *block; /* count and bytes queued are kept there, nowhere else */
    struct weir_loop **waiting; /* [loop_count]: loops to wake at 3/4 fill */
    uint32_t waiting_count;
};

/* The queues have been made. */
void weir_intake_init(struct weir_intake *intake, struct weir_queue **queues, uint32_t queue_count);
void weir_intake_release(struct weir_intake *intake);
/* Takers that hold something for later, by a timer, are to let it go when nothing else comes. */
void weir_intake_hurry(struct weir_intake *intake);
/* Time is up: what is taken from now on is only sent back. */
void weir_intake_discard(struct weir_intake *intake);
/* Sends the wakeups that weir_queue_push() owes while thread->defers is set; all of them are for this intake. */
void weir_intake_wake(struct weir_intake *intake, struct weir_thread *thread);
/* No more items will come: takers get null once the queues are empty. */
void weir_intake_close(struct weir_intake *intake);

/* `loop_count`: event loops that may push. */
void weir_queue_init(struct weir_queue *queue, const struct weir_plan *plan, uint32_t index, struct weir_intake *intake,
                     uint32_t loop_count);
/* The queue must be empty. */
void weir_queue_release(struct weir_queue *queue);

enum weir_push {
    WEIR_PUSH_ADMITTED, /* the queue owns the item now */
    WEIR_PUSH_REJECTED, /* still the caller's, as in the two below */
    WEIR_PUSH_DROPPED,
    WEIR_PUSH_PARK,     /* event loops only: counted as parked, and the loop will be woken */
};

/* Offers item->size_bytes. `resumes`: the item was parked before. `evicted` receives the chain of items that had to go. Blocks
 * only a worker, and only with `full block`. */
enum weir_push weir_queue_push(struct weir_queue *queue, struct weir_thread *thread, struct weir_item *item, bool resumes,
                               struct weir_item **evicted);
/* An item that has given its slot back returns to its pool: never refused, never waits. For a queue of kind WEIR_QUEUE_SLOTS. */
void weir_queue_return(struct weir_queue *queue, struct weir_thread *thread, struct weir_item *item);
/* A parked item will not come after all: its connection has gone. */
void weir_queue_unpark(struct weir_queue *queue);

/* Any thread: an item that was born inside comes in beside the queues. */
void weir_intake_enter(struct weir_intake *intake, struct weir_item *item);

/* The next item of any of the queues, first in first out in each, taking turns between them and with what was born inside, of
 * which `*from` is null; waits for one. Null when closed and empty, or when a timer of
 * the thread has to fire. The caller owns the item. */
struct weir_item *weir_intake_take(struct weir_intake *intake, struct weir_thread *thread, struct weir_queue **from);

#endif
