/*
 * backoff: how long to wait before the next try to connect: doubling up to a bound, with jitter, so that clients that lost one
 * server together don't come back together.
 *
 * Units: ns.
 * Owns: nothing.
 * Threads: owner only.
 * Errors: none.
 */
#ifndef WEIR_BASE_BACKOFF_H
#define WEIR_BASE_BACKOFF_H

#include <stdint.h>

#include "base/clock.h"

struct weir_backoff {
    uint64_t first_ns, most_ns;
    uint64_t next_ns; /* 0: first_ns */
    uint64_t seed;
};

static inline void weir_backoff_reset(struct weir_backoff *backoff)
{
    backoff->next_ns = 0;
}

/* Between half of the delay and all of it. */
static inline uint64_t weir_backoff_delay(struct weir_backoff *backoff)
{
    uint64_t delay = backoff->next_ns ? backoff->next_ns : backoff->first_ns;
    if (delay > backoff->most_ns)
        delay = backoff->most_ns;
    backoff->next_ns = delay > backoff->most_ns / 2 ? backoff->most_ns : delay * 2;
    if (!backoff->seed)
        backoff->seed = weir_clock_ns() ^ (uint64_t)(uintptr_t)backoff << 20 ^ 0x9e3779b97f4a7c15u;
    backoff->seed ^= backoff->seed << 13; /* xorshift64, Marsaglia 2003 */
    backoff->seed ^= backoff->seed >> 7;
    backoff->seed ^= backoff->seed << 17;
    return delay - delay / 2 + (delay / 2 ? backoff->seed % (delay / 2 + 1) : 0);
}

#endif
