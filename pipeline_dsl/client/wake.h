/*
 * wake: a place to sleep until some condition, kept in atomics elsewhere, holds. Nobody sleeping costs the waker one load.
 *
 *     sleeper: ticket = weir_wake_prepare(w); if (condition) weir_wake_cancel(w); else weir_wake_sleep(w, ticket, until);
 *     waker:   make the condition true by a sequentially consistent store; weir_wake_all(w);
 *
 * Either the sleeper sees the condition or the waker sees the sleeper, since both orders are sequentially consistent.
 *
 * Units: ns of CLOCK_MONOTONIC.
 * Owns: nothing.
 * Threads: any.
 * Errors: none; a sleep may end for no reason.
 */
#ifndef WEIR_CLIENT_WAKE_H
#define WEIR_CLIENT_WAKE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WEIR_WAKE_NEVER UINT64_MAX

struct weir_wake {
    atomic_uint epoch;
    atomic_uint sleepers;
};

/* Sleeps while `*word` is `value`, until `until_ns`. */
static inline void weir_futex_sleep(atomic_uint *word, unsigned value, uint64_t until_ns)
{
    struct timespec until = { (time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u) };
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until_ns == WEIR_WAKE_NEVER ? NULL : &until, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static inline void weir_futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline unsigned weir_wake_prepare(struct weir_wake *wake)
{
    atomic_fetch_add(&wake->sleepers, 1);
    return atomic_load(&wake->epoch);
}

static inline void weir_wake_cancel(struct weir_wake *wake)
{
    atomic_fetch_sub(&wake->sleepers, 1);
}

static inline void weir_wake_sleep(struct weir_wake *wake, unsigned ticket, uint64_t until_ns)
{
    weir_futex_sleep(&wake->epoch, ticket, until_ns);
    atomic_fetch_sub(&wake->sleepers, 1);
}

static inline void weir_wake_all(struct weir_wake *wake)
{
    if (!atomic_load(&wake->sleepers))
        return;
    atomic_fetch_add(&wake->epoch, 1);
    weir_futex_wake(&wake->epoch);
}

#endif
