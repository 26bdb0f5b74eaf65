/*
 * clock: the two clocks that weir measures with.
 * Stamps on a hot path are raw ticks; everything that is stored or shown is nanoseconds of CLOCK_MONOTONIC.
 *
 * Units: ns of CLOCK_MONOTONIC; ticks of the processor's time stamp counter (elsewhere than x86-64: ns).
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_BASE_CLOCK_H
#define WEIR_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t weir_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CPU time of the calling thread, ns. Costs a system call: 0.6 us. */
static inline uint64_t weir_clock_thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t weir_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return weir_clock_ns();
#endif
}

/* A pair of readings taken together; two pairs give the scale from ticks to ns. */
struct weir_clock_pair {
    uint64_t ns;
    uint64_t ticks;
};

/* The tightest of several tries: ticks read between two readings of the ns clock. */
struct weir_clock_pair weir_clock_pair(void);

/* The ns at `ticks`, by the straight line through `a` and `b` (taken at least 1 ms apart; else ticks count as ns). */
uint64_t weir_clock_to_ns(struct weir_clock_pair a, struct weir_clock_pair b, uint64_t ticks);

/* How many ns one tick lasts, by the same line. */
double weir_clock_ns_per_tick(struct weir_clock_pair a, struct weir_clock_pair b);

#endif
