/*
 * slots: the connections of one `forward` or `store`, each with so many requests in flight, and the threads that serve them.
 * It ends a segment, as a handoff does: a worker waits for a free slot and for nothing else; the answer brings the item back to
 * the worker's pool by a queue, and there the next segment begins.
 *
 *     worker -> [ inbox ] -> connection -> answer -> [ queue ] -> worker
 *
 * What happens                          what becomes of the item
 *   an answer                           goes on: finished, or failed with the reason as its own answer
 *   its connection is lost              goes on as lost, answered with an error; or keeps its slot and is sent again (`retries`)
 *   no connection is up                 goes on as failed, at once; or waits for one (`retries`)
 *   the server ends                     goes on as lost
 *
 * Units: ns; a slot is one message.
 * Owns: its threads and connections; an item from weir_slots_send() until it enters the queue.
 * Threads: send: any worker; what a kind calls: the connections' own thread.
 * Errors: an item's are its answer; starting says why a first connection is out of the question.
 */
#ifndef WEIR_RUNTIME_SLOTS_H
#define WEIR_RUNTIME_SLOTS_H

#include "base/backoff.h"
#include "pipeline_dsl/runtime/queue.h"

struct weir_slots;

/* One connection. */
struct weir_slots_line {
    struct weir_slots *slots;
    uint32_t number;
    void *link;         /* the kind's own; null: down */
    uint32_t in_flight; /* by the connections' thread */
    uint32_t events;    /* that epoll waits for; 0: not watched */
    bool unsent;        /* was given something since its last weir_slots_kind.attend */
    bool down;          /* to be opened. Requires: slots->mutex */
    bool was_up;        /* likewise */
    struct weir_slots_line *next_open; /* likewise: in the list of those just opened */
};

/* What a kind of downstream knows how to do. */
struct weir_slots_kind {
    /* Opens line->link; may wait, until `cancel_fd` is readable. error->exit WEIR_EXIT_USAGE: trying again won't help. */
    int (*open)(struct weir_slots_line *line, int cancel_fd, struct weir_error *error);
    /* Takes an item with its request; there is room. */
    void (*send)(struct weir_slots_line *line, struct weir_item *item);
    /* Writes what the socket takes, and reads what has come where `readable`. Ends items. */
    void (*attend)(struct weir_slots_line *line, bool readable);
    int (*fd)(const struct weir_slots_line *line); /* -1: the connection has ended */
    bool (*wants_write)(const struct weir_slots_line *line);
    /* Closes it; everything in flight is lost, oldest first. */
    void (*close)(struct weir_slots_line *line);
};

struct weir_slots {
    const struct weir_plan_slots *plan;
    const struct weir_plan *server;
    struct weir_queue *queue;
    struct weir_slots_line *lines; /* [plan->connections] */
    uint64_t capacity;

    struct weir_mutex mutex; /* innermost */
    pthread_cond_t free;     /* a slot, or the end */
    pthread_cond_t opener;   /* a connection is down, or the end */
    uint32_t waiting;        /* workers in `free`. Requires: mutex, for all below */
    struct weir_contract_slots *block;
    struct weir_item_list inbox;
    struct weir_slots_line *opened;
    bool awake;              /* the connections' thread will look at inbox and opened before it sleeps */
    bool loses;              /* a connection was lost since one was opened last */
    bool stopping;

    struct weir_contract_slot_times *times; /* `wait` requires mutex; `service` is written by the connections' thread */

    /* of the connections' thread */
    pthread_t handle;
    struct weir_thread thread;
    int epoll_fd, wake_fd;
    struct weir_item_list pending; /* that no connection has room for */
    struct weir_item_list orphans; /* of a connection that is being closed, to be sent again */
    const char *how_lost;          /* why, while a connection is being closed */
    uint32_t up;

    /* of the thread that opens */
    pthread_t opener_handle;
    int cancel_fd;
    struct weir_backoff backoff;
    uint64_t complained_ns;
    bool answered; /* atomic: a connection has worked since the last delay, so that the next one is short again */
    bool started[WEIR_SLOT_THREADS], ended[WEIR_SLOT_THREADS]; /* atomic */
};

/* Tries each connection once, and starts the threads. Only what no later try can mend is an error. */
int weir_slots_start(struct weir_slots *slots, const struct weir_plan *plan, uint32_t index, struct weir_queue *queues,
                     struct weir_error *error);
/* Ends everything in flight as lost; later items fail at once. */
void weir_slots_stop(struct weir_slots *slots);
bool weir_slots_ended(const struct weir_slots *slots);
/* Joins the threads, which weir_slots_stop() has told to end. */
void weir_slots_release(struct weir_slots *slots);

/* The end of a segment: hands over the item, whose `request` is filled, as soon as a slot is free. */
void weir_slots_send(struct weir_thread *thread, struct weir_slots *slots, struct weir_item *item);
/* The same for an item that has nothing to send, or can't be sent (then with its answer): it takes no slot. */
void weir_slots_pass(struct weir_thread *thread, struct weir_slots *slots, struct weir_item *item);

/* --- for kinds ------------------------------------------------------------------------------------------------------------- */

/* The item's answer becomes an error, "NAME: …". */
void weir_slots_fail(const struct weir_slots *slots, struct weir_item *item, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum weir_slots_end { WEIR_SLOTS_FINISHED, WEIR_SLOTS_FAILED, WEIR_SLOTS_LOST };
/* An item is done with its connection. */
void weir_slots_end(struct weir_slots_line *line, struct weir_item *item, enum weir_slots_end end);
/* Its connection has gone: it ends as lost, or is sent again. */
void weir_slots_lose(struct weir_slots_line *line, struct weir_item *item);

/* --- between slots.c and slots_opener.c -------------------------------------------------------------------------------------- */

enum { WEIR_SLOTS_SERVES, WEIR_SLOTS_OPENS }; /* a stage's threads */
void weir_slots_begin_thread(struct weir_slots *slots, struct weir_thread *thread, int which);
/* A connection has been opened. */
void weir_slots_up(struct weir_slots_line *line);
/* As many as come up at the first try; only what no later try can mend is an error. */
int weir_slots_open_first(struct weir_slots *slots, struct weir_error *error);
/* The thread that opens: struct weir_slots. */
void *weir_slots_open_lines(void *slots);

#endif
