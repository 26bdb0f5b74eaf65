/*
 * check: does a profile keep an expectation? Each measured value comes with its 95 % interval, and the answer is "inconclusive"
 * where the limit lies inside of it, rather than a guess.
 * It stands after record, before the command line, which parses `--expect` and prints.
 *
 * Intervals: a CPU share has the profile's own; a quantile that of its order statistic (binomial: Hollander, Wolfe and Chicken,
 * "Nonparametric Statistical Methods", 3.6), widened to the edges of its histogram buckets; a throughput the percentile bootstrap
 * over the profile's slices (Efron and Tibshirani, "An Introduction to the Bootstrap", 13); counters and thread states are exact.
 *
 * Units: as the term's: shares 0 to 1, ns, bytes, items, per second.
 * Owns: nothing; results lie in the arena given.
 * Threads: any.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_TRACER_CHECK_H
#define WEIR_TRACER_CHECK_H

#include "base/arena.h"
#include "base/error.h"
#include "base/profile.h"

/* In the order in which "and" takes the lowest and "or" the highest. */
enum weir_check_result { WEIR_CHECK_MISSED, WEIR_CHECK_INCONCLUSIVE, WEIR_CHECK_OK };
const char *weir_check_result_name(enum weir_check_result result); /* "MISSED", "INCONCLUSIVE", "ok" */

struct weir_check_measure {
    bool measured;
    double value;
    double low, high;    /* the interval; high may be INFINITY: not bounded by what was seen */
    const char *missing; /* what the profile lacks, when not measured */
    enum weir_check_result result;
};

struct weir_check {
    enum weir_check_result result;
    const char *reason; /* why it can't be told: lossy, empty; null where the measures say it */
    struct weir_check_measure *measures; /* one for each term */
    uint32_t measure_count;
};

int weir_check_evaluate(const struct weir_profile *profile, const struct weir_topology_expectation *expectation,
                           struct weir_arena *arena, struct weir_check *check, struct weir_error *error);

/* The exit code that several results lead to: a definite miss beats what can't be told. */
enum weir_exit weir_check_exit(const struct weir_check *checks, uint32_t count);

#endif
