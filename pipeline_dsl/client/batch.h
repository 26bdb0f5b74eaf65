/*
 * batch: events gathered into one message, up to a number of them or for a time.
 * It stands between a caller's event and the write queue of a batching client.
 *
 * A message of several events is the concatenation of messages of one each (protobuf merges repeated fields), so each event is
 * encoded by the thread that brings it, outside the lock, and only its bytes are copied inside.
 *
 * Units: bytes, ns of CLOCK_MONOTONIC.
 * Owns: its bytes; promises in it are on their way to the writer.
 * Threads: any that holds `mutex`; `due` may be read without.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_CLIENT_BATCH_H
#define WEIR_CLIENT_BATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "pipeline_dsl/client/promise.h"

#define WEIR_BATCH_MAX_BYTES ((size_t)4 << 20) /* a message is full at this size, too */

struct weir_batch {
    pthread_mutex_t mutex;
    struct weir_promise *first, *last; /* chained as members */
    size_t count, most;
    struct weir_buffer bytes; /* framed, the header still blank */
    uint64_t linger_ns;
    atomic_uint_fast64_t due; /* when it must go, WEIR_WAKE_NEVER while empty */
};

void weir_batch_init(struct weir_batch *batch, size_t most, uint64_t linger_ns);
void weir_batch_release(struct weir_batch *batch);
/* Adds a promise whose frame holds one encoded event, without a header. */
int weir_batch_add(struct weir_batch *batch, struct weir_promise *promise);
static inline bool weir_batch_full(const struct weir_batch *batch)
{
    return batch->count >= batch->most || batch->bytes.length >= WEIR_BATCH_MAX_BYTES;
}
/* Takes all as one request: the first promise, with the framed message, the others as its members. Null when empty. */
struct weir_promise *weir_batch_take(struct weir_batch *batch);
/* Puts back what was just taken, with no change in between; it is due at once. */
void weir_batch_untake(struct weir_batch *batch, struct weir_promise *first);

#endif
