/*
 * histogram: how often which value came, with the exact sum and extremes beside the buckets.
 *
 * Units: whatever the values have; ns everywhere today. Counts may be weighted.
 * Owns: nothing; it is a plain value of 5 KiB, all zero when empty.
 * Threads: owner only.
 * Errors: none. Of an empty histogram `count` is 0 and no statistic is defined: ask `count` first.
 */
#ifndef WEIR_BASE_HISTOGRAM_H
#define WEIR_BASE_HISTOGRAM_H

#include <stdint.h>

#include "base/histogram_bucket.h"

struct weir_histogram {
    uint64_t count; /* weighted */
    double sum;
    uint64_t min, max;
    uint64_t buckets[WEIR_HISTOGRAM_BUCKETS];
};

void weir_histogram_add(struct weir_histogram *histogram, uint64_t value, uint64_t weight);
void weir_histogram_merge(struct weir_histogram *into, const struct weir_histogram *from);
/* The value at quantile `q` in 0..1: the middle of its bucket, kept within min and max. 0 when empty. */
uint64_t weir_histogram_quantile(const struct weir_histogram *histogram, double q);
double weir_histogram_mean(const struct weir_histogram *histogram);

#endif
