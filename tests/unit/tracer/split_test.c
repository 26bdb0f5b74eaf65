/* Dividing CPU time: sums hold, nothing is negative, intervals cover. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tracer/split.h"

static void by_samples(void **state)
{
    (void)state;
    uint64_t samples[] = { 1, 0, 3 };
    double cpu_ns[3];
    assert_true(weir_split_by_samples(400, samples, 3, cpu_ns));
    assert_true(cpu_ns[0] == 100 && cpu_ns[1] == 0 && cpu_ns[2] == 300);
    memset(samples, 0, sizeof samples);
    assert_false(weir_split_by_samples(400, samples, 3, cpu_ns));
}

static void by_ticks(void **state)
{
    (void)state;
    struct weir_contract_cell begin[3] = { { .ticks = 50 }, { .ticks = 0 }, { .ticks = 10 } };
    struct weir_contract_cell end[3] = { { .ticks = 250 }, { .ticks = 2000 }, { .ticks = 10 } };
    uint64_t off_begin[3] = { 0, 100, 0 }, off_end[3] = { 0, 1000, 0 };
    double cpu_ns[3];
    /* At 0: 100 ns, at 1: 1000 ns of which 900 off a CPU; the thread ran 180 ns. */
    double error = weir_split_by_ticks(180, 0.5, begin, end, off_begin, off_end, 3, cpu_ns);
    assert_true(fabs(cpu_ns[0] - 90) < 1e-9 && fabs(cpu_ns[1] - 90) < 1e-9 && cpu_ns[2] == 0);
    assert_true(fabs(error - 20.0 / 180) < 1e-9);
    /* Off for longer than it was there: 0, never negative. Counters that run backwards: 0 too. */
    off_end[1] = 100000;
    end[2].ticks = 0;
    assert_true(weir_split_by_ticks(180, 0.5, begin, end, off_begin, off_end, 3, cpu_ns) >= 0);
    assert_true(cpu_ns[0] == 180 && cpu_ns[1] == 0 && cpu_ns[2] == 0);
    assert_true(weir_split_by_ticks(180, 0.5, begin, begin, off_begin, off_begin, 3, cpu_ns) < 0);
    assert_true(weir_split_by_ticks(0, 0.5, begin, end, off_begin, off_end, 3, cpu_ns) == 0);
}

static void interval(double weight_of_first, uint64_t hits, uint64_t samples, double *low, double *high)
{
    struct weir_split_interval sum = { 0, 0 };
    weir_split_interval_add(&sum, weight_of_first, hits, samples);
    weir_split_interval_add(&sum, 1 - weight_of_first, 0, 0);
    weir_split_interval_end(&sum, samples ? weight_of_first * (double)hits / (double)samples : 0, low, high);
}

static void sensible_at_0_and_1(void **state)
{
    (void)state;
    double low, high;
    interval(1, 0, 1000, &low, &high);
    assert_true(low == 0 && high > 0.001 && high < 0.01);
    interval(1, 1000, 1000, &low, &high);
    assert_true(high == 1 && low < 0.999 && low > 0.99);
    interval(1, 0, 0, &low, &high); /* nothing seen: nothing known */
    assert_true(low == 0 && high > 0.9);
    interval(1, 300, 1000, &low, &high);
    assert_true(low > 0.26 && low < 0.28 && high > 0.32 && high < 0.34);
}

/* Three threads with different habits: the interval covers the realised share in at least 93 % of the windows. */
static void coverage(void **state)
{
    (void)state;
    static const double weights[] = { 0.6, 0.3, 0.1 }, shares[] = { 0.02, 0.5, 0.9 };
    static const uint64_t samples[] = { 360, 180, 60 };
    double truth = 0.6 * 0.02 + 0.3 * 0.5 + 0.1 * 0.9;
    unsigned covered = 0, windows = 2000;
    srand(11);
    for (unsigned w = 0; w < windows; w++) {
        struct weir_split_interval sum = { 0, 0 };
        double share = 0, low, high;
        for (int k = 0; k < 3; k++) {
            uint64_t hits = 0;
            for (uint64_t i = 0; i < samples[k]; i++)
                hits += (double)rand() / RAND_MAX < shares[k];
            share += weights[k] * (double)hits / (double)samples[k];
            weir_split_interval_add(&sum, weights[k], hits, samples[k]);
        }
        weir_split_interval_end(&sum, share, &low, &high);
        assert_true(low >= 0 && low <= share && share <= high && high <= 1);
        covered += low <= truth && truth <= high;
    }
    assert_true(covered > windows * 0.93);
    assert_true(covered < windows * 0.99);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_samples),
        cmocka_unit_test(by_ticks),
        cmocka_unit_test(sensible_at_0_and_1),
        cmocka_unit_test(coverage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
