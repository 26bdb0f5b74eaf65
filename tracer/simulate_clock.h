/*
 * simulate_clock: the time of a simulation: events at their moments, and bursts of CPU time that share the CPUs evenly.
 * It stands below simulate.
 *
 * Units: ns.
 * Owns: its two heaps, weir_clock_release().
 * Threads: owner only.
 * Errors: memory that is missing sets `failed`; nothing happens from then on.
 */
#ifndef WEIR_TRACER_SIMULATE_CLOCK_H
#define WEIR_TRACER_SIMULATE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "tracer/simulate.h"

struct weir_clock_event {
    double key;     /* when; of a burst the virtual time of its end */
    uint64_t order; /* of events at the same moment the older one comes first */
    uint32_t kind, id;
};

struct weir_clock_heap {
    struct weir_clock_event *events;
    uint32_t count, capacity;
};

struct weir_clock {
    double now_ns, cpus;
    double work_ns; /* virtual time: the work that a burst which always ran has done */
    uint64_t order, random;
    struct weir_clock_heap timed, bursts;
    bool failed;
};

void weir_clock_init(struct weir_clock *clock, double cpus, uint64_t seed);
void weir_clock_release(struct weir_clock *clock);

void weir_clock_after(struct weir_clock *clock, double delay_ns, uint32_t kind, uint32_t id);
/* Needs `work_ns` of CPU time, at an even share of the CPUs. */
void weir_clock_burst(struct weir_clock *clock, double work_ns, uint32_t kind, uint32_t id);
/* How fast a burst proceeds now: 1 where each has a CPU. */
double weir_clock_rate(const struct weir_clock *clock);
/* The moment of the next event; INFINITY: none is left. */
double weir_clock_peek(const struct weir_clock *clock);
/* Goes there. False: none is left. */
bool weir_clock_next(struct weir_clock *clock, struct weir_clock_event *event);

/* 0 to 1, both excluded. */
double weir_clock_uniform(struct weir_clock *clock);
double weir_clock_draw(struct weir_clock *clock, const struct weir_simulate_time *time);

#endif
