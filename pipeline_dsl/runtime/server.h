/*
 * server: a plan at work: its listeners, event loops, queues and workers, started and ended in the right order.
 * Everything else in this room is a part of it.
 *
 * Units: ns.
 * Owns: all of that.
 * Threads: the main thread.
 * Errors: what can't be bound or started, with a sentence; then nothing is left running.
 */
#ifndef WEIR_RUNTIME_SERVER_H
#define WEIR_RUNTIME_SERVER_H

#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/runtime/listener.h"
#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/queue.h"
#include "pipeline_dsl/runtime/reload.h"
#include "pipeline_dsl/runtime/self.h"
#include "pipeline_dsl/runtime/slots.h"
#include "pipeline_dsl/runtime/takeover.h"
#include "pipeline_dsl/runtime/worker.h"

enum weir_server_state { WEIR_SERVER_RUNNING, WEIR_SERVER_DRAINING, WEIR_SERVER_ENDING, WEIR_SERVER_ENDED };

struct weir_acceptor {
    uv_poll_t poll;
    uv_timer_t retry; /* after the process ran out of descriptors */
    struct weir_server *server;
    uint32_t way;
    uint64_t complained_ns; /* when it last said that it can't accept */
};

/* Ticks a source. */
struct weir_ticker {
    uv_timer_t timer;
    struct weir_source *source;
};

struct weir_server {
    const struct weir_plan *plan;
    struct weir_listener *listeners; /* [way_count] */
    struct weir_acceptor *acceptors; /* [way_count] */
    struct weir_intake *intakes;     /* [pool_count] */
    struct weir_queue **intake_queues;
    struct weir_queue *queues;       /* [queue_count]; those of reply rings are unused */
    struct weir_inside inside;
    struct weir_loop *loops;
    struct weir_worker *workers;
    struct weir_slots *slots;
    uint32_t loop_count, worker_count, slots_count; /* started */
    uv_loop_t uv;
    uv_signal_t signals[4];
    uv_async_t reloads; /* a new program was found good */
    struct weir_reload reload;
    struct weir_self self;
    struct weir_takeover takeover; /* what the server before this one left */
    uv_timer_t tick;
    struct weir_ticker *tickers;     /* [source_count] */
    enum weir_server_state state;
    uint64_t drain_ns, deadline_ns;
    const char *counters_path; /* null: none */
    bool timed_out;            /* replies were still owed when the drain's time was up */
    bool stuck;                /* threads did not end */
    bool leaves;               /* it ends to become another program */
};

/* Binds every way in; `addresses[way]` is null where the plan's own holds. */
int weir_server_bind(struct weir_server *server, const struct weir_plan *plan, const char *const *addresses,
                     struct weir_error *error);
/* Starts all threads, and takes over the connections of the server before this one. */
int weir_server_start(struct weir_server *server, struct weir_error *error);
/* Accepts until a signal ends it: SIGTERM and SIGINT drain, a second one kills. */
void weir_server_run(struct weir_server *server);
void weir_server_release(struct weir_server *server);
/* The least loaded loop of the way's pool gets the connection. `arrival`: what is known of it; null: it is a fresh one. */
void weir_server_adopt(struct weir_server *server, int fd, uint32_t way, struct weir_arrival *arrival);
/* Blocks or unblocks the signals that the server handles (SIG_BLOCK, SIG_UNBLOCK), for the calling thread. */
void weir_server_mask_signals(int how);

/* What the server counted, as JSON: ways in, queues, slots, stages. `path` null: to stderr. Any thread, at any moment. */
int weir_counters_write(const struct weir_plan *plan, const char *path, struct weir_error *error);

/* All event loops' shares of one way in, or of one queue, summed. Any thread. */
void weir_counters_way(const struct weir_plan *plan, uint32_t way, struct weir_contract_way *sum);
void weir_counters_queue(const struct weir_plan *plan, uint32_t queue, struct weir_contract_queue *sum);

/* main() of every generated server: reads the command line, serves, returns the exit code. */
int weir_server_main(const struct weir_plan *plan, int argc, char **argv);

#endif
