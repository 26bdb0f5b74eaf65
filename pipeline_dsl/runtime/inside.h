/*
 * inside: items that are born inside the server: events that an index expired, what the server tells about itself, copies.
 * It stands beside the listeners: an item enters the segment of its source, on a thread of that segment's pool, and ends without
 * a reply.
 *
 * How to bear one, on any thread, without a lock held:
 *     item = weir_inside_bear(source);               null: the source has `limit` of them under way; try again later
 *     item->message = …                              made in item->arena
 *     weir_inside_send(item);                        or weir_inside_end(NULL, item), when it is not wanted after all
 *
 * Units: items, events.
 * Owns: an item from bear to send, and what is counted; in between and afterwards whoever has it.
 * Threads: any, but for init, close and release, which are for the server's main thread. Its mutex is innermost.
 * Errors: null from bear; a sent item that comes after the end is discarded.
 *
 * Counted as the way in behind the last one: accepted = discarded + in_flight in every snapshot.
 */
#ifndef WEIR_RUNTIME_INSIDE_H
#define WEIR_RUNTIME_INSIDE_H

#include "pipeline_dsl/runtime/item.h"
#include "pipeline_dsl/runtime/mutex.h"

struct weir_inside;
struct weir_intake;

/* A place where items are born, one for each stage that bears them; in the generated file. */
struct weir_source {
    const char *name;    /* of that stage */
    weir_driver *run;    /* the segment that its items enter */
    uint32_t run_stage;  /* id of the first stage there */
    uint32_t pool;       /* whose threads run it */
    uint32_t limit;      /* items between birth and end, at most */
    uint32_t outstanding; /* items between birth and end. Requires: inside->mutex */
    uint64_t refused;    /* births that `limit`, memory or the end did not allow. Requires: inside->mutex */
    struct weir_inside *inside;
    /* Called by the main thread every tick_ns while the server runs; null: never. */
    void (*tick)(struct weir_source *source);
    uint64_t tick_ns;
    void *object;        /* the stage's own */
};

struct weir_inside {
    const struct weir_plan *plan;
    struct weir_intake *intakes;     /* [pool_count] */
    struct weir_loop *loops;         /* [loop_count] */
    uint32_t loop_count;
    struct weir_mutex mutex;
    struct weir_contract_way *block; /* Requires: mutex */
    uint32_t next_loop;              /* Requires: mutex */
    bool closed;                     /* Requires: mutex */
};

/* Takes charge of the plan's sources. `loops` need not run yet. */
void weir_inside_init(struct weir_inside *inside, const struct weir_plan *plan, struct weir_intake *intakes, struct weir_loop *loops,
                      uint32_t loop_count);
void weir_inside_release(struct weir_inside *inside);
/* Nothing is born any more. */
void weir_inside_close(struct weir_inside *inside);
/* Items between birth and end. */
uint64_t weir_inside_count(struct weir_inside *inside);

struct weir_item *weir_inside_bear(struct weir_source *source);
void weir_inside_send(struct weir_item *item);
/* The item ends. `thread`: the caller's, or null where it is no pool's. */
void weir_inside_end(struct weir_thread *thread, struct weir_item *item);

/* On a thread of the source's pool: runs the segment. */
void weir_inside_run(struct weir_thread *thread, struct weir_item *item);

#endif
