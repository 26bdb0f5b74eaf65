/*
 * DESIGN: free promises are a stack (Treiber's, with a count of changes against the ABA problem), not a queue, so that the ones
 * used last, whose memory is still in a cache, are used next; of a large pool only as much is ever touched as was out at once.
 *
 * The state is one word that waiters sleep on: PENDING -> WAITED by a waiter, -> DONE by whoever fulfils, who wakes somebody
 * only if it was WAITED. Everything else is written before DONE and read after it.
 *
 * A small frame buffer stays with its slot, so that a steady stream of small requests takes no memory from malloc.
 */
#include "pipeline_dsl/client/promise.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pipeline_dsl/client/inbox.h"

#define FRAME_KEPT ((size_t)1 << 10)
#define REPLY_FIRST ((size_t)512)

enum { PENDING, WAITED, DONE };

int weir_promise_pool_make(struct weir_promise_pool **pool, size_t count, size_t replies_max_bytes)
{
    struct weir_promise_pool *made = aligned_alloc(64, sizeof *made);
    if (made) {
        *made = (struct weir_promise_pool){ .count = count, .replies_max_bytes = replies_max_bytes, .holders = 1 };
        made->slots = calloc(count, sizeof *made->slots);
    }
    if (!made || !made->slots) {
        free(made);
        return -ENOMEM;
    }
    *pool = made;
    return 0;
}

static void pool_drop(struct weir_promise_pool *pool)
{
    if (atomic_fetch_sub(&pool->holders, 1) != 1)
        return;
    size_t used = atomic_load(&pool->fresh);
    for (size_t i = 0; i < used && i < pool->count; i++) {
        weir_buffer_release(&pool->slots[i].frame);
        weir_arena_release(&pool->slots[i].arena);
    }
    free(pool->slots);
    free(pool);
}

void weir_promise_pool_leave(struct weir_promise_pool *pool)
{
    pool_drop(pool);
}

static struct weir_promise *pop_free(struct weir_promise_pool *pool)
{
    uint64_t top = atomic_load(&pool->free);
    while ((uint32_t)top) {
        struct weir_promise *promise = &pool->slots[(uint32_t)top - 1];
        uint64_t next = ((top >> 32) + 1) << 32 | atomic_load_explicit(&promise->next_free, memory_order_relaxed);
        if (atomic_compare_exchange_weak(&pool->free, &top, next))
            return promise;
    }
    size_t fresh = atomic_load(&pool->fresh);
    while (fresh < pool->count)
        if (atomic_compare_exchange_weak(&pool->fresh, &fresh, fresh + 1))
            return &pool->slots[fresh];
    return NULL;
}

static void push_free(struct weir_promise_pool *pool, struct weir_promise *promise)
{
    uint32_t number = (uint32_t)(promise - pool->slots) + 1;
    uint64_t top = atomic_load_explicit(&pool->free, memory_order_relaxed);
    do
        atomic_store_explicit(&promise->next_free, (uint32_t)top, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(&pool->free, &top, ((top >> 32) + 1) << 32 | number));
}

struct weir_promise *weir_promise_take(struct weir_promise_pool *pool, weir_riemann_done *done, void *context, bool wanted)
{
    struct weir_promise *promise = pop_free(pool);
    if (!promise)
        return NULL;
    atomic_fetch_add(&pool->holders, 1);
    promise->pool = pool;
    promise->done = done;
    promise->context = context;
    promise->wanted = wanted;
    promise->member = NULL;
    promise->outcome = (struct weir_outcome){ 0 };
    atomic_store_explicit(&promise->holders, wanted ? 2 : 1, memory_order_relaxed);
    atomic_store_explicit(&promise->state, PENDING, memory_order_relaxed);
    return promise;
}

void weir_promise_count(struct weir_promise *promise)
{
    atomic_fetch_add_explicit(&promise->pool->sent, 1, memory_order_relaxed);
}

static void recycle(struct weir_promise *promise)
{
    struct weir_promise_pool *pool = promise->pool;
    if (promise->frame.capacity > FRAME_KEPT)
        weir_buffer_release(&promise->frame);
    else
        weir_buffer_clear(&promise->frame);
    if (promise->reply_bytes) {
        weir_arena_release(&promise->arena);
        atomic_fetch_sub(&pool->replies_bytes, promise->reply_bytes);
        promise->reply_bytes = 0;
    }
    push_free(pool, promise);
    weir_wake_all(&pool->room);
    pool_drop(pool);
}

void weir_promise_undo(struct weir_promise *promise)
{
    recycle(promise);
}

static void let_go(struct weir_promise *promise)
{
    if (atomic_fetch_sub(&promise->holders, 1) == 1)
        recycle(promise);
}

void weir_promise_fulfil(struct weir_promise *promise)
{
    struct weir_promise_pool *pool = promise->pool;
    atomic_fetch_add_explicit(&pool->results[promise->outcome.result], 1, memory_order_relaxed);
    bool alone = promise->wanted && atomic_load(&promise->holders) == 1;
    if (alone && (promise->outcome.result == WEIR_CLIENT_ACKED || promise->outcome.result == WEIR_CLIENT_REFUSED))
        atomic_fetch_add_explicit(&pool->late, 1, memory_order_relaxed);
    if (promise->done)
        promise->done(promise->context, &promise->outcome);
    if (atomic_exchange(&promise->state, DONE) == WAITED)
        weir_futex_wake(&promise->state);
    let_go(promise);
}

bool weir_promise_judge(struct weir_promise *promise, uint64_t connection, const uint8_t *payload, size_t size)
{
    struct weir_promise_pool *pool = promise->pool;
    bool decoded, good;
    promise->outcome.reach = WEIR_REACH_WHOLE;
    promise->outcome.connection = connection;
    size_t kept = atomic_load_explicit(&pool->replies_bytes, memory_order_relaxed);
    size_t limit = kept < pool->replies_max_bytes ? pool->replies_max_bytes - kept : 0;
    weir_arena_init(&promise->arena, REPLY_FIRST, limit);
    good = weir_inbox_judge(payload, size, &promise->arena, &promise->reply, &decoded, &promise->outcome.result);
    if (!promise->arena.used_bytes)
        return good;
    if (!decoded) {
        weir_arena_release(&promise->arena);
        return good;
    }
    promise->outcome.reply = &promise->reply;
    promise->reply_bytes = promise->arena.used_bytes > REPLY_FIRST ? promise->arena.used_bytes : REPLY_FIRST;
    atomic_fetch_add(&pool->replies_bytes, promise->reply_bytes);
    return good;
}

bool weir_promise_answer(struct weir_promise *promise, uint64_t connection, const uint8_t *payload, size_t size)
{
    bool good = false;
    while (promise) {
        struct weir_promise *next = promise->member;
        good = weir_promise_judge(promise, connection, payload, size);
        weir_promise_fulfil(promise);
        promise = next;
    }
    return good;
}

void weir_promise_fail(struct weir_promise *promise, enum weir_client_result result, enum weir_reach reach, uint64_t connection)
{
    while (promise) {
        struct weir_promise *next = promise->member;
        promise->outcome = (struct weir_outcome){ .result = result, .reach = reach, .connection = connection };
        if (connection && weir_client_result_failed(result))
            atomic_fetch_add_explicit(&promise->pool->lost[reach], 1, memory_order_relaxed);
        weir_promise_fulfil(promise);
        promise = next;
    }
}

int weir_promise_wait(struct weir_promise *promise, uint64_t timeout_ns)
{
    uint64_t until = WEIR_WAKE_NEVER;
    if (!weir_promise_done(promise) && timeout_ns != UINT64_MAX) {
        uint64_t now = weir_clock_ns();
        until = timeout_ns > UINT64_MAX - 1 - now ? WEIR_WAKE_NEVER : now + timeout_ns;
    }
    for (;;) {
        unsigned state = atomic_load(&promise->state);
        if (state == DONE)
            return 0;
        if (until != WEIR_WAKE_NEVER && weir_clock_ns() >= until)
            return -ETIMEDOUT;
        if (state == WAITED || atomic_compare_exchange_strong(&promise->state, &state, WAITED))
            weir_futex_sleep(&promise->state, WAITED, until);
    }
}

bool weir_promise_done(const struct weir_promise *promise)
{
    return atomic_load_explicit(&promise->state, memory_order_acquire) == DONE;
}

const struct weir_outcome *weir_promise_outcome(const struct weir_promise *promise)
{
    return &promise->outcome;
}

void weir_promise_release(struct weir_promise *promise)
{
    if (promise)
        let_go(promise);
}
