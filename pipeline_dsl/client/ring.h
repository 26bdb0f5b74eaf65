/*
 * ring: a bounded queue of pointers that any number of threads push into without a lock.
 * It is the write queue of the pipelined client: many callers push, its writer pops.
 *
 * DESIGN: Vyukov's bounded queue: each cell carries a number that says whose turn it is, so that pushing is one compare-and-swap
 * on the tail and popping touches no word that pushers write but the cell itself. Concurrency Kit's many-producer ring was
 * looked at and not taken: there a pusher waits in a loop for those who reserved before it, and with more threads than CPUs one
 * that lost its CPU in between holds up all others; here only the popper finds "nothing yet", and it has a place to sleep.
 *
 * Units: pointers.
 * Owns: its cells, until weir_ring_release(); not what they point to.
 * Threads: any push, one pops.
 * Errors: full and empty are return values.
 */
#ifndef WEIR_CLIENT_RING_H
#define WEIR_CLIENT_RING_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct weir_ring_cell {
    atomic_uint_fast64_t turn; /* == position: free for that push; == position + 1: filled, for that pop */
    void *item;
};

struct weir_ring {
    struct weir_ring_cell *cells;
    uint64_t mask;
    _Alignas(64) atomic_uint_fast64_t tail; /* of the pushers */
    _Alignas(64) uint64_t head;             /* of the popper */
};

/* Room for `least` pointers, rounded up to a power of two. */
static inline int weir_ring_init(struct weir_ring *ring, size_t least)
{
    uint64_t size = 2;
    while (size < least)
        size *= 2;
    ring->cells = malloc(size * sizeof *ring->cells);
    if (!ring->cells)
        return -ENOMEM;
    for (uint64_t i = 0; i < size; i++)
        atomic_init(&ring->cells[i].turn, i);
    ring->mask = size - 1;
    atomic_init(&ring->tail, 0);
    ring->head = 0;
    return 0;
}

static inline void weir_ring_release(struct weir_ring *ring)
{
    free(ring->cells);
    ring->cells = NULL;
}

static inline bool weir_ring_push(struct weir_ring *ring, void *item)
{
    uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        struct weir_ring_cell *cell = &ring->cells[at & ring->mask];
        uint64_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        if (turn < at)
            return false; /* the cell still holds what was pushed one round before */
        if (turn > at) {
            at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(&ring->tail, &at, at + 1, memory_order_relaxed, memory_order_relaxed)) {
            cell->item = item;
            atomic_store(&cell->turn, at + 1); /* sequentially consistent: before a look for sleepers */
            return true;
        }
    }
}

/* Is there something to pop now? */
static inline bool weir_ring_ready(const struct weir_ring *ring)
{
    return atomic_load(&ring->cells[ring->head & ring->mask].turn) == ring->head + 1;
}

/* Null: empty, or the next pusher is not done yet. */
static inline void *weir_ring_pop(struct weir_ring *ring)
{
    struct weir_ring_cell *cell = &ring->cells[ring->head & ring->mask];
    if (!weir_ring_ready(ring))
        return NULL;
    void *item = cell->item;
    atomic_store_explicit(&cell->turn, ring->head + ring->mask + 1, memory_order_release);
    ring->head++;
    return item;
}

#endif
