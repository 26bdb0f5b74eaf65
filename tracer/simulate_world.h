/*
 * simulate_world: the state of a simulation, between its two halves: simulate.c builds, plays and measures it, simulate_flow.c says what
 * happens in it.
 *
 * Units: ns.
 * Owns: everything, until simulate.c releases it.
 * Threads: owner only.
 * Errors: memory that is missing sets `failed`.
 */
#ifndef WEIR_TRACER_SIMULATE_WORLD_H
#define WEIR_TRACER_SIMULATE_WORLD_H

#include "tracer/simulate.h"
#include "tracer/simulate_clock.h"

#define NONE UINT32_MAX

enum { EVENT_CPU, EVENT_SLEPT, EVENT_WOKEN, EVENT_SERVED, EVENT_REQUEST, EVENT_ARRIVAL }; /* of a thread (3 times), item, connection, way */
enum phase { WOKEN, WAKING, WORKED, SENT };
enum use { IDLE, RUNNING, ASLEEP, BLOCKED, STARVED, USES };

/* Indexes that are linked through an array of next ones. */
struct list {
    uint32_t first, last, count;
};

struct item {
    uint32_t connection, step, later; /* later: the next request of its connection */
    uint32_t slot;                    /* the connection of the slots that serves it */
    double sent_ns;
    bool done, refused;
};

struct thread {
    uint32_t pool, item;
    enum phase phase;
    enum use use;
    bool woke;         /* has paid for waking somebody, in this step */
    bool comes;        /* was woken, and does not run yet */
    double burst_ns;
    uint32_t label;    /* of the burst */
    struct list tasks; /* of a listening thread: items to receive, or to send back */
};

struct connection {
    uint32_t way, thread;
    bool parked;
    struct list unread;      /* requests that were sent and are not received yet */
    uint32_t oldest, newest; /* received and not sent back yet, in order */
};

struct queue {
    struct list items, blocked, parked; /* blocked: threads that wait for room; parked: items that do */
    double depth_ns;                    /* integral */
};

struct pool {
    uint32_t first_thread;
    struct list idle, served; /* threads; items that are back from their slots */
    uint32_t turn;            /* the queue that is asked first */
    uint32_t count[USES];
    double use_ns[USES], runnable_ns;
};

struct slots {
    uint32_t *in_use;    /* [connections] */
    double *free_at_ns;  /* [connections]: when what it has is served */
    uint32_t total;
    struct list starved; /* threads */
    double full_ns;
};

struct lock {
    bool held;
    struct list waiting; /* threads */
    double held_ns;
};

struct world {
    const struct weir_simulate_model *model;
    struct weir_clock clock;
    struct weir_simulate_result *result;
    struct pool *pools;
    struct queue *queues;
    struct slots *slots;
    struct lock *locks;
    struct thread *threads;
    struct connection *connections;
    struct item *items;
    uint32_t *item_next, *thread_next;
    uint32_t thread_count, connection_count, item_count, item_capacity;
    struct list free_items, ready; /* ready: threads */
    uint32_t *first_connection, *turn; /* [way_count] */
    double *under_way_ns;              /* [way_count], integrals */
    uint32_t *under_way;
    uint64_t answered;
    double began_ns;
    bool failed;
};

/* Indexes that wait in `list`, linked through `next`. */
void weir_world_append(struct list *list, uint32_t *next, uint32_t index);
/* What the event of the clock leads to, until time has to pass. */
void weir_world_handle(struct world *world, const struct weir_clock_event *event);
/* How many slots there are. */
uint32_t weir_world_capacity(const struct weir_simulate_slots *slots);

#endif
