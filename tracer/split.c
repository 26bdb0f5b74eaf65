#include "tracer/split.h"

#include <math.h>

bool weir_split_by_samples(double on_cpu_ns, const uint64_t *samples, uint32_t tag_count, double *cpu_ns)
{
    double all = 0;
    for (uint32_t i = 0; i < tag_count; i++)
        all += (double)samples[i];
    if (all <= 0)
        return false;
    for (uint32_t i = 0; i < tag_count; i++)
        cpu_ns[i] = on_cpu_ns * (double)samples[i] / all;
    return true;
}

static double at_tag(double ns_per_tick, const struct weir_contract_cell *begin, const struct weir_contract_cell *end,
                     uint64_t off_begin, uint64_t off_end)
{
    double there = end->ticks > begin->ticks ? (double)(end->ticks - begin->ticks) * ns_per_tick : 0;
    double off = off_end > off_begin ? (double)(off_end - off_begin) : 0;
    return there > off ? there - off : 0;
}

double weir_split_by_ticks(double on_cpu_ns, double ns_per_tick, const struct weir_contract_cell *begin,
                           const struct weir_contract_cell *end, const uint64_t *off_begin, const uint64_t *off_end,
                           uint32_t tag_count, double *cpu_ns)
{
    double all = 0;
    for (uint32_t i = 0; i < tag_count; i++)
        all += at_tag(ns_per_tick, &begin[i], &end[i], off_begin[i], off_end[i]);
    if (all <= 0)
        return -1;
    for (uint32_t i = 0; i < tag_count; i++)
        cpu_ns[i] = on_cpu_ns * at_tag(ns_per_tick, &begin[i], &end[i], off_begin[i], off_end[i]) / all;
    return on_cpu_ns > 0 ? fabs(all - on_cpu_ns) / on_cpu_ns : 0;
}

void weir_split_interval_add(struct weir_split_interval *interval, double weight, uint64_t hits, uint64_t samples)
{
    if (weight <= 0)
        return;
    double n = (double)samples + 4 * weight;
    double p = ((double)(hits < samples ? hits : samples) + 2 * weight) / n;
    interval->center += weight * p;
    interval->variance += weight * weight * p * (1 - p) / n;
}

void weir_split_interval_end(const struct weir_split_interval *interval, double share, double *low, double *high)
{
    double half = 1.96 * sqrt(interval->variance);
    *low = fmin(fmax(interval->center - half, 0), share);
    *high = fmax(fmin(interval->center + half, 1), share);
}
