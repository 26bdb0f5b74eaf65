/*
 * simulate: a server as a network of queues, played event by event: what a file would do, if its stages cost what they did.
 * It knows no profile and no file; predict.c makes its model from those.
 *
 * Pools are threads that run steps of items; all that run at once share the CPUs evenly. A pool that listens has a queue for each of
 * its threads, since a connection stays on one; others share the queues that lead to them. Between stages items sleep (a pause), wait
 * for room in a queue, for a slot, or with their thread for a lock. Answers leave in the order of their connection's requests.
 *
 * Units: ns, items; rates are per second.
 * Owns: nothing outlives the call; the model is the caller's.
 * Threads: any, each with its own result.
 * Errors: -ENOMEM. The same model and seed give the same result.
 */
#ifndef WEIR_TRACER_SIMULATE_H
#define WEIR_TRACER_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"

enum weir_simulate_shape { WEIR_SIMULATE_CONSTANT, WEIR_SIMULATE_EXPONENTIAL, WEIR_SIMULATE_TABLE };

/* A time, drawn anew for each item. */
struct weir_simulate_time {
    enum weir_simulate_shape shape;
    double mean_ns;
    const double *factors; /* TABLE: multiples of the mean, equally likely; their mean is 1 */
    uint32_t factor_count;
};

enum weir_simulate_full { WEIR_SIMULATE_BLOCK, WEIR_SIMULATE_REFUSE_NEW, WEIR_SIMULATE_REFUSE_OLD };

struct weir_simulate_pool {
    uint32_t threads;
    bool listens;
};

struct weir_simulate_queue {
    uint32_t to_pool;
    uint64_t limit; /* items */
    enum weir_simulate_full full;
    uint32_t label;  /* whose CPU time these are: */
    double wake_ns;  /* of whoever pushes, if a thread of that pool sleeps */
    double woken_ns; /* of that thread, */
    double late_ns;  /* which runs that much later */
};

/* A pool of slots: each of `connections`, or all together, serves its requests one after the other, `serial` each, and answers `delay`
 * later. */
struct weir_simulate_slots {
    uint32_t pool; /* whose threads take them */
    uint32_t connections, in_flight;
    bool shared; /* all connections are served by one */
    struct weir_simulate_time serial, delay;
};

enum weir_simulate_kind {
    WEIR_SIMULATE_WORK, WEIR_SIMULATE_PUSH, WEIR_SIMULATE_SLOT, WEIR_SIMULATE_LOCK, WEIR_SIMULATE_UNLOCK, WEIR_SIMULATE_ANSWER,
};

/* One thing that happens to an item. PUSH ends the work of this pool's thread, ANSWER that of the last one. */
struct weir_simulate_step {
    enum weir_simulate_kind kind;
    uint32_t label;                       /* whose CPU time it is: below `labels` */
    struct weir_simulate_time cpu, sleep; /* WORK */
    uint32_t queue;                       /* PUSH */
    uint32_t slots;                       /* SLOT */
    uint32_t lock;                        /* LOCK, UNLOCK: both in one pool, and nothing but WORK between them */
    struct weir_simulate_time send;       /* ANSWER: CPU of the listening thread for it */
    uint32_t send_label;
    double wake_ns, late_ns;              /* ANSWER: as of a queue */
};

/* One way in, from the listening pool to the answer. */
struct weir_simulate_way {
    uint32_t pool;
    const struct weir_simulate_step *steps;
    uint32_t step_count;
    uint32_t connections;
    uint32_t window;      /* closed: requests that a connection has under way; 0: open */
    struct weir_simulate_time think; /* closed: answer to next request */
    double rate_per_s;    /* open: of all connections */
};

struct weir_simulate_model {
    double cpus;
    const struct weir_simulate_pool *pools;
    const struct weir_simulate_queue *queues;
    const struct weir_simulate_slots *slots;
    const struct weir_simulate_way *ways;
    uint32_t pool_count, queue_count, slots_count, way_count, lock_count, labels;
};

struct weir_simulate_run {
    uint64_t seed;
    uint64_t warmup_items, items; /* answered before measuring, and then */
    double most_ns;               /* of simulated time; where fewer items come, the run ends there */
};

/* Shares of the measured time of all threads of the pool. */
struct weir_simulate_use {
    double running, runnable, asleep, blocked, starved; /* the rest was idle */
};

struct weir_simulate_way_result {
    uint64_t answered, refused;
    struct weir_histogram latency; /* request sent to answer sent, of those that were not refused */
    double in_flight_mean;
};

struct weir_simulate_result {
    double duration_ns;                    /* measured */
    struct weir_simulate_way_result *ways; /* [way_count] */
    struct weir_simulate_use *pools;       /* [pool_count] */
    double *depth_mean;                    /* [queue_count] */
    double *slots_full;                    /* [slots_count]: share of the time at capacity */
    double *lock_held;                     /* [lock_count]: share of the time */
    double *label_cpu_ns;                  /* [labels] */
    double cpu_ns;                         /* of all */
};

int weir_simulate(const struct weir_simulate_model *model, const struct weir_simulate_run *run, struct weir_simulate_result *result);
void weir_simulate_release(struct weir_simulate_result *result);

#endif
