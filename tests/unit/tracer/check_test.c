#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sample.h"
#include "tracer/check.h"

enum { HANDOFF = 3, DECODE = 2, IO = 0 }; /* of sample_before() */

static struct weir_topology_term term(enum weir_metric metric, uint32_t stage, enum weir_statistic statistic,
                                      enum weir_comparison comparison, double value, enum weir_value_unit unit)
{
    return (struct weir_topology_term){ .metric = metric, .pool = WEIR_NONE, .pipeline = WEIR_NONE, .stage = stage,
                                        .statistic = statistic, .comparison = comparison, .value = value, .unit = unit };
}

static struct weir_topology_term of_pool(struct weir_topology_term one, uint32_t pool)
{
    one.stage = WEIR_NONE;
    one.pool = pool;
    return one;
}

static struct weir_topology_term of_pipeline(struct weir_topology_term one)
{
    one.stage = WEIR_NONE;
    one.pipeline = 0;
    return one;
}

static struct weir_check evaluate(struct weir_profile *profile, struct weir_topology_term *terms, uint32_t count)
{
    struct weir_topology_expectation expectation = { .text = "x", .terms = terms, .term_count = count };
    struct weir_check check;
    assert_int_equal(weir_check_evaluate(profile, &expectation, &profile->arena, &check, NULL), 0);
    return check;
}

static struct weir_check_measure one(struct weir_profile *profile, struct weir_topology_term only)
{
    struct weir_check check = evaluate(profile, &only, 1);
    assert_int_equal(check.result, check.measures[0].result);
    return check.measures[0];
}

static void an_interval_decides(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before(); /* cpu(handoff) is 0.401, 0.395 to 0.407 */
    const struct {
        enum weir_comparison comparison;
        double limit;
        enum weir_check_result want;
    } cases[] = {
        { WEIR_LT, 0.05, WEIR_CHECK_MISSED }, { WEIR_LT, 0.42, WEIR_CHECK_OK },     { WEIR_LT, 0.40, WEIR_CHECK_INCONCLUSIVE },
        { WEIR_LE, 0.42, WEIR_CHECK_OK },     { WEIR_LE, 0.394, WEIR_CHECK_MISSED }, { WEIR_GT, 0.30, WEIR_CHECK_OK },
        { WEIR_GT, 0.50, WEIR_CHECK_MISSED }, { WEIR_GE, 0.402, WEIR_CHECK_INCONCLUSIVE }, { WEIR_GE, 0.39, WEIR_CHECK_OK },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_check_measure got =
            one(profile, term(WEIR_METRIC_CPU, HANDOFF, WEIR_MEAN, cases[i].comparison, cases[i].limit, WEIR_SHARE));
        if (got.result != cases[i].want)
            fail_msg("case %zu: %s", i, weir_check_result_name(got.result));
    }
    weir_profile_free(profile);
}

static void each_metric_is_measured(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    struct weir_check_measure got = one(profile, term(WEIR_METRIC_WAIT, HANDOFF, WEIR_P99, WEIR_LT, 20e6, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    assert_true(got.low <= got.value && got.value <= got.high);
    got = one(profile, term(WEIR_METRIC_WAKEUP, HANDOFF, WEIR_P50, WEIR_LT, 50e3, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    got = one(profile, term(WEIR_METRIC_SERVICE, DECODE, WEIR_MEAN, WEIR_LT, 1e6, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    got = one(profile, term(WEIR_METRIC_DEPTH, HANDOFF, WEIR_MEAN, WEIR_LT, 13, WEIR_PLAIN));
    assert_true(got.value == 12);
    got = one(profile, term(WEIR_METRIC_DEPTH, HANDOFF, WEIR_P90, WEIR_LT, 20.0 * 1048576, WEIR_BYTES));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    got = one(profile, term(WEIR_METRIC_FILL, HANDOFF, WEIR_MEAN, WEIR_LT, 0.5, WEIR_SHARE));
    assert_true(fabs(got.value - 7.6 / 64) < 1e-9);
    got = one(profile, of_pipeline(term(WEIR_METRIC_THROUGHPUT, 0, WEIR_MEAN, WEIR_GT, 11000, WEIR_PER_S)));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    if (!(got.value == 12100 && got.low < 12100 && got.high >= 12100 && got.high - got.low < 1000))
        fail_msg("%f: %f to %f", got.value, got.low, got.high);
    got = one(profile, of_pool(term(WEIR_METRIC_CPU, 0, WEIR_MEAN, WEIR_LT, 0.6, WEIR_SHARE), IO));
    assert_true(fabs(got.value - 9.7 / 18) < 1e-9);
    got = one(profile, of_pipeline(term(WEIR_METRIC_CPU, 0, WEIR_MEAN, WEIR_LT, 0.99, WEIR_SHARE)));
    assert_true(fabs(got.value - 0.958) < 1e-9);
    got = one(profile, of_pool(term(WEIR_METRIC_STARVED, 0, WEIR_MEAN, WEIR_LT, 0.1, WEIR_SHARE), IO));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    got = one(profile, term(WEIR_METRIC_DROPS, HANDOFF, WEIR_MEAN, WEIR_LE, 0, WEIR_PLAIN));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    got = one(profile, term(WEIR_METRIC_UNDER, DECODE, WEIR_MEAN, WEIR_LT, 0.5, WEIR_SHARE));
    assert_false(got.measured);
    assert_int_equal(got.result, WEIR_CHECK_INCONCLUSIVE);
    weir_profile_free(profile);
}

static void the_same_profile_gives_the_same_answer(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    struct weir_topology_term rate = term(WEIR_METRIC_THROUGHPUT, DECODE, WEIR_MEAN, WEIR_GT, 1, WEIR_PER_S);
    struct weir_check_measure a = one(profile, rate), b = one(profile, rate);
    assert_true(a.low == b.low && a.high == b.high);
    profile->slice_count = 4;
    rate.value = 12000;
    assert_int_equal(one(profile, rate).result, WEIR_CHECK_INCONCLUSIVE);
    weir_profile_free(profile);
}

/* Too few values for a far quantile: its upper end is not bounded by what was seen. */
static void a_far_quantile_needs_enough_values(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    profile->mode = WEIR_MODE_EXACT;
    struct weir_histogram *wait = &profile->queues[0].wait;
    *wait = (struct weir_histogram){ 0 };
    for (unsigned i = 0; i < 100; i++)
        weir_histogram_add(wait, 1000, 1);
    struct weir_check_measure got = one(profile, term(WEIR_METRIC_WAIT, HANDOFF, WEIR_P99, WEIR_LT, 20e6, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_INCONCLUSIVE);
    assert_false(isfinite(got.high));
    got = one(profile, term(WEIR_METRIC_WAIT, HANDOFF, WEIR_P99, WEIR_LT, 500, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_MISSED);
    got = one(profile, term(WEIR_METRIC_WAIT, HANDOFF, WEIR_MAX, WEIR_LE, 1000, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_OK);
    weir_profile_free(profile);
}

static void a_time_below_the_floor_is_not_believed(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    profile->probe_floor_ns = 1e9;
    struct weir_check_measure got = one(profile, term(WEIR_METRIC_SERVICE, DECODE, WEIR_P50, WEIR_LT, 1e6, WEIR_NS));
    assert_int_equal(got.result, WEIR_CHECK_INCONCLUSIVE);
    weir_profile_free(profile);
}

static void and_takes_the_lowest_or_the_highest(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    struct weir_topology_term yes = term(WEIR_METRIC_CPU, HANDOFF, WEIR_MEAN, WEIR_LT, 0.9, WEIR_SHARE), no = yes, maybe = yes;
    no.value = 0.05;
    maybe.value = 0.4;
    struct weir_topology_term terms[3] = { yes, no, maybe };
    assert_int_equal(evaluate(profile, terms, 3).result, WEIR_CHECK_MISSED);
    terms[1] = maybe;
    assert_int_equal(evaluate(profile, terms, 3).result, WEIR_CHECK_INCONCLUSIVE);
    terms[1] = no;
    terms[2] = yes;
    terms[2].group = 1; /* (yes and no) or yes */
    assert_int_equal(evaluate(profile, terms, 3).result, WEIR_CHECK_OK);
    terms[0].group = 0;
    terms[1].group = terms[2].group = 1;
    terms[0] = no; /* no or (no and yes) */
    assert_int_equal(evaluate(profile, terms, 3).result, WEIR_CHECK_MISSED);
    weir_profile_free(profile);
}

static void lossy_and_empty_profiles_tell_nothing(void **state)
{
    (void)state;
    struct weir_profile *(*const makers[])(void) = { sample_lossy, sample_empty };
    for (size_t i = 0; i < 2; i++) {
        struct weir_profile *profile = makers[i]();
        struct weir_topology_term no = term(WEIR_METRIC_CPU, HANDOFF, WEIR_MEAN, WEIR_LT, 0.05, WEIR_SHARE);
        struct weir_check check = evaluate(profile, &no, 1);
        assert_int_equal(check.result, WEIR_CHECK_INCONCLUSIVE);
        assert_non_null(check.reason);
        assert_int_equal(weir_check_exit(&check, 1), WEIR_EXIT_INCONCLUSIVE);
        weir_profile_free(profile);
    }
}

static void a_definite_miss_beats_the_inconclusive(void **state)
{
    (void)state;
    struct weir_check checks[3] = { { .result = WEIR_CHECK_OK }, { .result = WEIR_CHECK_INCONCLUSIVE }, { .result = WEIR_CHECK_MISSED } };
    assert_int_equal(weir_check_exit(checks, 0), WEIR_EXIT_DONE);
    assert_int_equal(weir_check_exit(checks, 1), WEIR_EXIT_DONE);
    assert_int_equal(weir_check_exit(checks, 2), WEIR_EXIT_INCONCLUSIVE);
    assert_int_equal(weir_check_exit(checks, 3), WEIR_EXIT_FOUND);
}

/* A metric asked of what has none is inconclusive, whatever the file says. */
static void nonsense_is_survived(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    for (unsigned metric = 0; metric <= WEIR_METRIC_DROPS; metric++) {
        for (unsigned statistic = 0; statistic <= WEIR_MAX; statistic++) {
            struct weir_topology_term base =
                term((enum weir_metric)metric, 0, (enum weir_statistic)statistic, WEIR_LT, 1, WEIR_PLAIN);
            one(profile, base);
            one(profile, of_pool(base, IO));
            one(profile, of_pipeline(base));
        }
    }
    weir_profile_free(profile);
}

/* Of a stage with slots wait, depth and fill are those of its slots. */
static void slots_are_measured(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    profile->topology.stages[HANDOFF].verb = WEIR_STORE;
    profile->topology.stages[HANDOFF].connections = 2;
    profile->topology.stages[HANDOFF].in_flight = 5;
    profile->slots = sample_zalloc(profile, sizeof *profile->slots);
    profile->slots_count = 1;
    struct weir_profile_slots *slots = &profile->slots[0];
    slots->stage = HANDOFF;
    for (int i = 0; i < 1000; i++) {
        weir_histogram_add(&slots->in_use, i % 2 ? 10 : 8, 1000000);
        weir_histogram_add(&slots->wait, 5000000, 1);
    }
    slots->in_use_mean = 9;
    struct weir_check_measure depth = one(profile, term(WEIR_METRIC_DEPTH, HANDOFF, WEIR_MEAN, WEIR_GT, 8, WEIR_PLAIN));
    assert_true(depth.value == 9 && depth.result == WEIR_CHECK_OK);
    struct weir_check_measure fill = one(profile, term(WEIR_METRIC_FILL, HANDOFF, WEIR_MEAN, WEIR_LT, 0.5, WEIR_SHARE));
    assert_true(fill.value == 0.9 && fill.result == WEIR_CHECK_MISSED);
    assert_int_equal(one(profile, term(WEIR_METRIC_WAIT, HANDOFF, WEIR_P50, WEIR_LT, 20e6, WEIR_NS)).result, WEIR_CHECK_OK);
    assert_int_equal(one(profile, term(WEIR_METRIC_WAIT, HANDOFF, WEIR_P50, WEIR_LT, 1e6, WEIR_NS)).result, WEIR_CHECK_MISSED);
    assert_int_equal(one(profile, term(WEIR_METRIC_DEPTH, HANDOFF, WEIR_MEAN, WEIR_LT, 1e6, WEIR_BYTES)).result, WEIR_CHECK_INCONCLUSIVE);
    profile->slots_count = 0;
    assert_int_equal(one(profile, term(WEIR_METRIC_FILL, HANDOFF, WEIR_MEAN, WEIR_LT, 0.5, WEIR_SHARE)).result, WEIR_CHECK_INCONCLUSIVE);
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interval_decides), cmocka_unit_test(each_metric_is_measured),
        cmocka_unit_test(the_same_profile_gives_the_same_answer), cmocka_unit_test(a_far_quantile_needs_enough_values),
        cmocka_unit_test(a_time_below_the_floor_is_not_believed), cmocka_unit_test(and_takes_the_lowest_or_the_highest),
        cmocka_unit_test(lossy_and_empty_profiles_tell_nothing), cmocka_unit_test(a_definite_miss_beats_the_inconclusive),
        cmocka_unit_test(nonsense_is_survived), cmocka_unit_test(slots_are_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
