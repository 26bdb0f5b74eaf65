/*
 * loop: one event loop, a thread of a pool that listens: it owns connections, and the items that were born on them.
 * It stands at both ends of an item's way: behind the acceptor, and behind the completion list.
 *
 * Units: none.
 * Owns: its connections, its free items and blocks.
 * Threads: the loop's own thread, but for the functions marked "any thread".
 * Errors: running out of memory for an item closes its connection.
 */
#ifndef WEIR_RUNTIME_LOOP_H
#define WEIR_RUNTIME_LOOP_H

#include <pthread.h>
#include <uv.h>

#include "base/histogram.h"
#include "pipeline_dsl/runtime/item.h"
#include "pipeline_dsl/runtime/mutex.h"

#define WEIR_LOOP_SCRATCH ((size_t)256 << 10)
#define WEIR_LOOP_ACKS 1024u /* acknowledgements that one send() may carry */

struct weir_conn;

/* A connection on its way from the acceptor to its loop; or one that leaves for the server that takes over. */
struct weir_arrival {
    struct weir_arrival *next;
    int fd;
    uint32_t way;
    void *tls_context; /* null: in the clear */
    bool inherited; /* a socket of datagrams that an earlier server read */
    struct weir_block *input; /* bytes that were received and not cut yet; null: none */
    size_t input_bytes;
    struct weir_buffer output; /* replies that the client has not read yet */
    bool skips, ended; /* in the middle of an overlong line; no more requests will come */
};
/* Null: no memory. */
struct weir_arrival *weir_arrival_new(int fd, uint32_t way);
void weir_arrival_free(struct weir_arrival *arrival);

/* First in, first out. */
struct weir_conn_list {
    struct weir_conn *first, *last;
};

struct weir_loop {
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t before_sleep;
    uv_check_t after_sleep;
    uv_timer_t watch; /* while there are handshakes */
    uv_timer_t timer; /* for the thread's timers */
    pthread_t handle;
    struct weir_thread thread;
    const struct weir_plan *plan;
    struct weir_queue *queues;
    struct weir_slots *slots;
    uint32_t pool;
    uint32_t shard; /* which of a way's and a ring's blocks are this loop's */
    uint32_t load;  /* connections, those on their way included; atomic */

    struct weir_mutex mutex;
    struct weir_item_list done;          /* finished items. Requires: mutex */
    struct weir_item_list back;          /* from their slots, to go on here. Requires: mutex */
    struct weir_item_list inside;        /* born inside, not run yet. Requires: mutex */
    struct weir_arrival *arrivals;       /* newest first. Requires: mutex */
    bool resumes, drains, leaves, stops; /* what else the wakeup means. Requires: mutex */
    bool gone;                           /* takes no more items. Requires: mutex */
    /* This loop's share of each reply ring, and of each queue of what slots have finished here, requires mutex too: plan->queue_blocks[queue][shard]. */

    struct weir_conn *connections;
    struct weir_item_list *parked; /* [queue_count]: items that wait for room in that queue */
    struct weir_conn_list dirty;   /* connections with replies to send before the loop sleeps */
    struct weir_item *free_items;
    uint32_t free_count;
    struct weir_block_cache blocks;
    uint32_t time_every, time_left;  /* of so many messages one is measured for `latencies`; 0: none. Atomic */
    struct weir_histogram *latencies; /* [way_count], ns; null: nobody asks. Requires: mutex */
    struct weir_arrival *left;     /* connections that wait for the server that takes over */
    bool draining, leaving, stopping;
    bool hurries; /* what is held for later is not held any longer */
    bool started, ended; /* atomic: the thread has its slot; the thread is done */
    uint8_t *scratch; /* [WEIR_LOOP_SCRATCH]: what one recv() brings */
    uint8_t *acks;    /* [WEIR_LOOP_ACKS] acknowledgements in a row */
    uint64_t complained_ns; /* when it last told of a bad length */
};

/* Starts the thread. */
int weir_loop_start(struct weir_loop *loop, const struct weir_plan *plan, struct weir_queue *queues, struct weir_slots *slots,
                    uint32_t pool, uint32_t shard, struct weir_error *error);
/* Any thread: hands over a connection; the loop owns it from now on. */
void weir_loop_adopt(struct weir_loop *loop, struct weir_arrival *arrival);
/* Any thread: a queue in front of which items are parked has room again. */
void weir_loop_resume(struct weir_loop *loop);
/* Any thread: no more requests; each connection closes when its replies are written. */
void weir_loop_drain(struct weir_loop *loop);
/* Any thread: no more requests; each connection goes into `left` when none of its requests is being worked on. */
void weir_loop_leave(struct weir_loop *loop);
/* Any thread: closes what is left; the thread ends when all of its items are back. */
void weir_loop_stop(struct weir_loop *loop);
/* Waits for the end of the thread. Nobody may send it anything any more. */
void weir_loop_release(struct weir_loop *loop);

/* A connection has begun a handshake, which must come to an end. */
void weir_loop_watch(struct weir_loop *loop);
/* Any thread: an item that was born inside comes to be run here. */
void weir_loop_enter(struct weir_loop *loop, struct weir_item *item);
/* The loop's own thread: wakes up then, and fires its timers. */
void weir_loop_wake_at(struct weir_loop *loop, uint64_t due_ns);
/* Any thread: an item that has entered its `reply` stage is finished and comes back. Counts it in the ring. Where no reply is
 * owed it is discarded. */
void weir_loop_finish(struct weir_thread *thread, struct weir_item *item);
/* Any thread: an item that was refused, with weir_item_refuse(), enters its `reply` stage at once, and is finished. Where no
 * reply is owed it is discarded. */
void weir_loop_refuse(struct weir_thread *thread, struct weir_item *item);
/* Any thread: an item to which no reply is owed ends: it goes back to where it was born, and counts there as discarded. */
void weir_loop_discard(struct weir_thread *thread, struct weir_item *item);

/* Any thread: an item has given its slot back, and the segment behind `queue` runs on item->slots_loop. */
void weir_loop_return(struct weir_item *item, uint32_t queue);

/* This loop's share of a reply ring, or of a queue of kind SLOTS; guarded by its mutex. */
static inline struct weir_contract_queue *weir_loop_ring(const struct weir_loop *loop, uint32_t queue)
{
    return &loop->plan->queue_blocks[(size_t)queue * loop->plan->shards + loop->shard];
}

struct weir_item *weir_loop_item_new(struct weir_loop *loop);
/* Takes from a finished item everything but its reply. */
void weir_loop_item_shed(struct weir_loop *loop, struct weir_item *item);
void weir_loop_item_free(struct weir_loop *loop, struct weir_item *item);

#endif
