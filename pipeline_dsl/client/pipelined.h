/*
 * pipelined: one connection, its writer thread and its reader thread.
 * It stands behind the write queue: riemann.c pushes promises with their frames, this fulfils each of them.
 *
 * Units: ns, bytes.
 * Owns: its threads, its socket, and promises from the push on until they are fulfilled.
 * Threads: push, up: any; start, stop: one at a time, with no push under way.
 * Errors: connecting says why; afterwards every failure is a promise's result.
 */
#ifndef WEIR_CLIENT_PIPELINED_H
#define WEIR_CLIENT_PIPELINED_H

#include <pthread.h>

#include "base/backoff.h"
#include "pipeline_dsl/client/batch.h"
#include "pipeline_dsl/client/inbox.h"
#include "pipeline_dsl/client/promise.h"
#include "pipeline_dsl/client/ring.h"

struct weir_pipelined {
    const char *address;
    struct weir_riemann_options options;
    struct weir_batch *batch; /* null: not batching */
    struct weir_ring queue;
    struct weir_wake writer_wake;  /* something to write, room in flight, the connection's end, closing */
    struct weir_wake up_wake;      /* connected, or finished */
    atomic_size_t queued_bytes;
    atomic_bool up, closing, given_up, finished;
    pthread_t writer, reader;
    struct weir_backoff backoff;
    int cancel_fd;           /* readable once closing must not wait any more */
    pthread_mutex_t fd_mutex; /* of fd, between the writer that closes it and whoever shuts it down */
    int fd;

    /* of the connection */
    struct weir_promise **in_flight; /* [options.in_flight]: [answered, handed) are outstanding */
    _Alignas(64) atomic_uint_fast64_t handed; /* by the writer */
    uint64_t stream;                          /* bytes up to the end of the last one handed */
    uint64_t taken;                           /* bytes that the socket took */
    uint8_t *out;                             /* small frames side by side, one write for many */
    size_t out_length;
    struct weir_buffer large;                 /* a frame that goes out from where it is, behind `out` */
    _Alignas(64) atomic_uint_fast64_t answered; /* by the reader */
    atomic_bool wants_room;                     /* the writer sleeps until enough of the window is free */
    atomic_int reason;                          /* why it ends: 0: it lives; else 1 + enum weir_client_result */
    atomic_bool reader_done;
    struct weir_inbox inbox;

    atomic_uint_fast64_t connections, connections_lost, writes, written_bytes;
};

/* Is this one of the client's own threads? They never wait for room, which only they can make. */
extern _Thread_local bool weir_pipelined_thread;

/* `options` with all defaults filled in; `fd` is the first connection, or -1. */
int weir_pipelined_start(struct weir_pipelined *pipelined, const char *address, const struct weir_riemann_options *options,
                         struct weir_batch *batch, int fd, struct weir_error *error);
/* Hands over a promise whose frame is filled. -EAGAIN: no room in the queue, nothing happened. */
int weir_pipelined_push(struct weir_pipelined *pipelined, struct weir_promise *promise);
/* The batch's time has changed: the writer looks at it. */
void weir_pipelined_nudge(struct weir_pipelined *pipelined);
/* Flushes, waits up to `wait_ns` for answers, ends everything. */
void weir_pipelined_stop(struct weir_pipelined *pipelined, uint64_t wait_ns);

#endif
