/*
 * sync: a mutex around one round trip on one connection; the caller's own thread does all of it.
 * It stands behind riemann.c, as the baseline that the pipelined client is compared with.
 *
 * A call that times out leaves its answer owed: the next calls swallow it first. One that times out amid its own frame ends the
 * connection, since nothing behind half a frame can be understood.
 *
 * Units: ns, bytes.
 * Owns: its socket.
 * Threads: any; one at a time gets the connection, in no particular order.
 * Errors: -ENOTCONN and -EAGAIN: not taken; else 0, and the promise has its result.
 */
#ifndef WEIR_CLIENT_SYNC_H
#define WEIR_CLIENT_SYNC_H

#include <pthread.h>

#include "base/backoff.h"
#include "pipeline_dsl/client/inbox.h"
#include "pipeline_dsl/client/promise.h"

struct weir_sync {
    const char *address;
    struct weir_riemann_options options;
    pthread_mutex_t mutex;
    int fd;               /* -1: down */
    struct weir_inbox inbox;
    uint64_t owed;        /* replies to calls that have timed out */
    uint64_t timeout_ns;  /* that the socket is set to */
    uint64_t retry_at;    /* when down: not before */
    struct weir_backoff backoff;
    atomic_uint_fast64_t connections, connections_lost, writes, written_bytes;
};

int weir_sync_start(struct weir_sync *sync, const char *address, const struct weir_riemann_options *options, int fd,
                    struct weir_error *error);
void weir_sync_stop(struct weir_sync *sync);
/* Sends the promise's frame and fulfils it. -ETIMEDOUT: also fulfilled, as UNANSWERED. */
int weir_sync_call(struct weir_sync *sync, struct weir_promise *promise, uint64_t timeout_ns);

#endif
