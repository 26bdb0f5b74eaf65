/*
 * split: divides one thread's exact CPU time over the tags it was at.
 * It stands inside aggregate: the scheduler says how much, samples or tick counters say where.
 *
 * Units: ns.
 * Owns: nothing.
 * Threads: any.
 * Errors: none. Every result is >= 0 and they sum to `on_cpu_ns`.
 */
#ifndef WEIR_TRACER_SPLIT_H
#define WEIR_TRACER_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#include "probes/contract.h"

/* By CPU samples, [tag_count]. False, and nothing written, when there are none. */
bool weir_split_by_samples(double on_cpu_ns, const uint64_t *samples, uint32_t tag_count, double *cpu_ns);

/* By tick counters: time at a tag minus what the thread was off a CPU there, scaled to the thread's CPU time. Returns by how
 * much the two disagreed, as a share of `on_cpu_ns`; negative, and nothing written, when the counters say nothing. */
double weir_split_by_ticks(double on_cpu_ns, double ns_per_tick, const struct weir_contract_cell *begin,
                           const struct weir_contract_cell *end, const uint64_t *off_begin, const uint64_t *off_end,
                           uint32_t tag_count, double *cpu_ns);

/* One row of a share table, as its strata (threads) show it: 95 % interval of the realised share. Agresti and Coull's rule, two
 * successes and two failures added, spread over the strata by their weight. */
struct weir_split_interval {
    double center, variance;
};
void weir_split_interval_add(struct weir_split_interval *interval, double weight, uint64_t hits, uint64_t samples);
void weir_split_interval_end(const struct weir_split_interval *interval, double share, double *low, double *high);

#endif
