/*
 * promise: a request on its way and what becomes of it, from a pool of fixed size.
 * It stands between whoever sends and the threads of the client; what applications see of it is in riemann.h.
 *
 * Units: bytes, ns.
 * Owns: the pool owns all promises. One has up to two holders, the client until its result and the caller until it releases it;
 *       it goes back to the pool when both are gone. The pool goes when its client is closed and all promises are back.
 * Threads: any.
 * Errors: an empty pool is null.
 */
#ifndef WEIR_CLIENT_PROMISE_H
#define WEIR_CLIENT_PROMISE_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "pipeline_dsl/client/riemann.h"
#include "pipeline_dsl/client/wake.h"

struct weir_promise_pool {
    struct weir_promise *slots;
    size_t count;
    size_t replies_max_bytes;
    struct weir_wake room; /* those who wait for a promise */
    _Alignas(64) atomic_uint_fast64_t free; /* stack: a count of changes above, 1 + index of the first below; 0: empty */
    atomic_size_t fresh;                    /* slots from here on were never used */
    _Alignas(64) atomic_size_t holders;     /* 1 for the client + promises out of the pool */
    atomic_uint_fast64_t sent;
    _Alignas(64) atomic_uint_fast64_t results[WEIR_CLIENT_RESULTS];
    atomic_uint_fast64_t late, lost[3];
    atomic_size_t replies_bytes;
};

struct weir_promise {
    atomic_uint state;   /* enum in promise.c; slept on */
    atomic_uint holders;
    struct weir_outcome outcome;
    struct weir_promise_pool *pool;
    weir_riemann_done *done;
    void *context;
    bool wanted;                 /* the caller was given it */
    struct weir_promise *member; /* of a batch: the next one whose answer this is too */
    struct weir_buffer frame;    /* until it is written */
    uint64_t end;                /* in the stream of its connection: behind its last byte */
    size_t size;                 /* of its frame */
    struct weir_arena arena;     /* of the reply */
    size_t reply_bytes;
    struct weir_message reply;
    atomic_uint next_free;
};

int weir_promise_pool_make(struct weir_promise_pool **pool, size_t count, size_t replies_max_bytes);
/* The client is gone: the pool goes with the last promise. */
void weir_promise_pool_leave(struct weir_promise_pool *pool);

/* A promise to fill, held by the client, and by the caller too if `wanted`. Null: all are out. */
struct weir_promise *weir_promise_take(struct weir_promise_pool *pool, weir_riemann_done *done, void *context, bool wanted);
/* Counts it as sent. From here on it must be fulfilled. */
void weir_promise_count(struct weir_promise *promise);
/* Puts back one that was never sent, whoever holds it. */
void weir_promise_undo(struct weir_promise *promise);

/* Judges a reply (without its frame header) and sets the promise's outcome by it, keeping what it holds within the bound on all
 * replies. False when it is none: BAD_REPLY, and no later one can be matched. */
bool weir_promise_judge(struct weir_promise *promise, uint64_t connection, const uint8_t *payload, size_t size);
/* Makes the outcome known, and lets the promise go. */
void weir_promise_fulfil(struct weir_promise *promise);

/* Both, for a promise and the members of its batch. */
bool weir_promise_answer(struct weir_promise *promise, uint64_t connection, const uint8_t *payload, size_t size);
/* Ends a promise and the members of its batch without a reply. */
void weir_promise_fail(struct weir_promise *promise, enum weir_client_result result, enum weir_reach reach, uint64_t connection);

#endif
