#include "base/histogram.h"

void weir_histogram_add(struct weir_histogram *histogram, uint64_t value, uint64_t weight)
{
    if (!weight)
        return;
    if (!histogram->count || value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->count += weight;
    histogram->sum += (double)value * (double)weight;
    histogram->buckets[weir_histogram_bucket(value)] += weight;
}

void weir_histogram_merge(struct weir_histogram *into, const struct weir_histogram *from)
{
    if (!from->count)
        return;
    if (!into->count || from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    into->count += from->count;
    into->sum += from->sum;
    for (unsigned i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t weir_histogram_quantile(const struct weir_histogram *histogram, double q)
{
    if (!histogram->count)
        return 0;
    double target = q * (double)histogram->count;
    double seen = 0;
    for (unsigned i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++) {
        seen += (double)histogram->buckets[i];
        if (!histogram->buckets[i] || seen < target)
            continue;
        uint64_t low = weir_histogram_low(i);
        uint64_t high = i + 1 < WEIR_HISTOGRAM_BUCKETS ? weir_histogram_low(i + 1) - 1 : histogram->max;
        uint64_t middle = low + (high > low ? (high - low) / 2 : 0);
        if (middle < histogram->min)
            return histogram->min;
        return middle > histogram->max ? histogram->max : middle;
    }
    return histogram->max;
}

double weir_histogram_mean(const struct weir_histogram *histogram)
{
    return histogram->count ? histogram->sum / (double)histogram->count : 0;
}
