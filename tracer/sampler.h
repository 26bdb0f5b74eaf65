/*
 * sampler: looks at random moments at what each CPU is running.
 * It stands beside the other probes: it starts the BPF timers, or the perf events that stand in for them.
 *
 * Units: ns.
 * Owns: the perf events, until weir_sampler_stop(); the timers belong to their map.
 * Threads: owner only; starting moves the calling thread from CPU to CPU and back.
 * Errors: WEIR_EXIT_CANNOT and a sentence.
 */
#ifndef WEIR_TRACER_SAMPLER_H
#define WEIR_TRACER_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct weir_sampler {
    uint32_t period_ns;    /* mean, of one CPU */
    uint32_t cpus;         /* sampled */
    uint32_t cpus_left_out; /* online, but not open to us */
    int *events;           /* perf events, -1 where there is none; null with timers */
    int event_count;
    uint64_t redraw_ns;    /* when the perf events get new periods */
    uint64_t seed;
};

/* `timer_program`: start_samplers, run once on each CPU. */
int weir_sampler_start_timers(struct weir_sampler *sampler, int timer_program, uint32_t period_ns, struct weir_error *error);
/* `perf_program`: on_perf, attached to one event a CPU. */
int weir_sampler_start_events(struct weir_sampler *sampler, int perf_program, uint32_t period_ns, struct weir_error *error);
/* To be called about every 10 ms: gives perf events a new random period every ten periods. Nothing to do for timers. */
void weir_sampler_tick(struct weir_sampler *sampler, uint64_t now_ns);
void weir_sampler_stop(struct weir_sampler *sampler);

#endif
