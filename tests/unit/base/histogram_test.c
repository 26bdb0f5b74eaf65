#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/histogram.h"

/* Every value lies in its bucket, buckets ascend without a gap, and none is wider than 1/16 of its values. */
static void buckets_cover_all_values(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 1 < WEIR_HISTOGRAM_BUCKETS; i++) {
        unsigned long long low = weir_histogram_low(i), next = weir_histogram_low(i + 1);
        assert_true(next > low);
        assert_int_equal(weir_histogram_bucket(low), i);
        assert_int_equal(weir_histogram_bucket(next - 1), i);
        assert_true(next - low == 1 || (next - low) * 16 <= low);
    }
    assert_int_equal(weir_histogram_bucket(0), 0);
    assert_int_equal(weir_histogram_bucket((1ull << WEIR_HISTOGRAM_TOP) - 1), WEIR_HISTOGRAM_BUCKETS - 1);
    assert_int_equal(weir_histogram_bucket(UINT64_MAX), WEIR_HISTOGRAM_BUCKETS - 1);
}

static void logarithms(void **state)
{
    (void)state;
    assert_int_equal(weir_histogram_log2(0), 0);
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(weir_histogram_log2(1ull << i), i);
        assert_int_equal(weir_histogram_log2((1ull << i) + ((1ull << i) - 1)), i);
    }
}

static void quantiles_are_within_a_bucket(void **state)
{
    (void)state;
    struct weir_histogram histogram = { 0 };
    for (uint64_t i = 1; i <= 100000; i++)
        weir_histogram_add(&histogram, i, 1);
    const double qs[] = { 0.001, 0.1, 0.5, 0.9, 0.99, 0.999 };
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        double got = (double)weir_histogram_quantile(&histogram, qs[i]), want = qs[i] * 100000;
        assert_true(fabs(got - want) <= want / 16 + 1);
    }
    assert_int_equal(weir_histogram_quantile(&histogram, 1), 100000); /* the middle of its bucket lies above the largest */
    assert_int_equal(histogram.max, 100000);
    assert_true(fabs(weir_histogram_mean(&histogram) - 50000.5) < 1e-6);
}

static void a_quantile_never_leaves_what_was_seen(void **state)
{
    (void)state;
    struct weir_histogram histogram = { 0 };
    weir_histogram_add(&histogram, 1000003, 5);
    for (double q = 0; q <= 1; q += 0.25)
        assert_int_equal(weir_histogram_quantile(&histogram, q), 1000003);
    weir_histogram_add(&histogram, UINT64_MAX, 1);
    assert_true(weir_histogram_quantile(&histogram, 1) >= 1000003);
    assert_int_equal(histogram.max, UINT64_MAX);
}

static void weights_and_merges_count_alike(void **state)
{
    (void)state;
    struct weir_histogram a = { 0 }, b = { 0 }, both = { 0 }, none = { 0 };
    for (uint64_t i = 0; i < 1000; i++) {
        weir_histogram_add(i % 2 ? &a : &b, i * 37, 1 + i % 3);
        weir_histogram_add(&both, i * 37, 1 + i % 3);
    }
    weir_histogram_merge(&a, &b);
    weir_histogram_merge(&a, &none);
    assert_memory_equal(&a, &both, sizeof a);
    weir_histogram_merge(&none, &both);
    assert_memory_equal(&none, &both, sizeof none);
    weir_histogram_add(&both, 1, 0);
    assert_memory_equal(&a, &both, sizeof a);
}

static void nothing_is_nothing(void **state)
{
    (void)state;
    const struct weir_histogram none = { 0 };
    assert_int_equal(weir_histogram_quantile(&none, 0.5), 0);
    assert_true(weir_histogram_mean(&none) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_cover_all_values), cmocka_unit_test(logarithms), cmocka_unit_test(quantiles_are_within_a_bucket),
        cmocka_unit_test(a_quantile_never_leaves_what_was_seen), cmocka_unit_test(weights_and_merges_count_alike),
        cmocka_unit_test(nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
