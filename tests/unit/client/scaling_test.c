/* scaling: the law's own curves give back their parameters, and each shape is told from the others. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline_dsl/client/scaling.h"

static struct weir_scaling fit_law(double lambda, double sigma, double kappa, size_t count, const double *clients)
{
    struct weir_scaling_point points[16];
    struct weir_scaling scaling;
    for (size_t i = 0; i < count; i++)
        points[i] = (struct weir_scaling_point){
            clients[i], lambda * clients[i] / (1 + sigma * (clients[i] - 1) + kappa * clients[i] * (clients[i] - 1)) };
    assert_int_equal(weir_scaling_fit(&scaling, points, count), 0);
    return scaling;
}

static struct weir_scaling fit_points(const struct weir_scaling_point *points, size_t count)
{
    struct weir_scaling scaling;
    assert_int_equal(weir_scaling_fit(&scaling, points, count), 0);
    return scaling;
}

static void near(double is, double should, double part)
{
    if (!(fabs(is - should) <= part * fabs(should)))
        fail_msg("%g, not %g", is, should);
}

static void the_laws_own_curve_gives_its_parameters(void **state)
{
    (void)state;
    static const double clients[] = { 1, 2, 4, 8, 16, 32, 64 };
    struct weir_scaling scaling = fit_law(1000, 0.05, 0.001, 7, clients);
    near(scaling.lambda, 1000, 1e-6);
    near(scaling.sigma, 0.05, 1e-6);
    near(scaling.kappa, 0.001, 1e-6);
    near(scaling.peak, sqrt(0.95 / 0.001), 1e-6);
    assert_true(scaling.worst < 1e-6);
    assert_int_equal(scaling.shape, WEIR_SCALING_KNEE);
    near(weir_scaling_at(&scaling, 8), 1000 * 8 / (1 + 0.05 * 7 + 0.001 * 56), 1e-6);
}

static void a_straight_line_has_no_knee(void **state)
{
    (void)state;
    static const double clients[] = { 1, 10, 100, 1000 };
    struct weir_scaling scaling = fit_law(50, 0, 0, 4, clients);
    assert_int_equal(scaling.shape, WEIR_SCALING_NO_KNEE);
    near(scaling.lambda, 50, 1e-6);
    assert_true(isinf(scaling.peak));
    static const struct weir_scaling_point noisy[] = { { 1, 100 }, { 2, 197 }, { 4, 402 }, { 8, 790 } };
    assert_int_equal(fit_points(noisy, 4).shape, WEIR_SCALING_NO_KNEE);
}

static void what_is_linear_and_then_flat_has_a_knee_between(void **state)
{
    (void)state;
    static const struct weir_scaling_point points[] = { { 100, 10000 },  { 200, 19800 },  { 400, 37000 },  { 800, 52000 },
                                                        { 1600, 54000 }, { 3200, 54500 } };
    struct weir_scaling scaling = fit_points(points, 6);
    assert_int_equal(scaling.shape, WEIR_SCALING_KNEE);
    assert_true(scaling.knee > 200 && scaling.knee < 1600);
    assert_true(scaling.worst < 0.25);
}

static void what_is_flat_from_the_start_has_its_knee_below(void **state)
{
    (void)state;
    static const struct weir_scaling_point flat[] = { { 100, 5000 }, { 1000, 5050 }, { 2000, 4990 } };
    struct weir_scaling scaling = fit_points(flat, 3);
    assert_int_equal(scaling.shape, WEIR_SCALING_FLAT);
    near(scaling.most, 5000, 0.05);
    static const struct weir_scaling_point falling[] = { { 100, 5000 }, { 1000, 4000 }, { 2000, 3300 }, { 4000, 2500 } };
    assert_int_equal(fit_points(falling, 4).shape, WEIR_SCALING_FLAT);
}

static void what_the_law_does_not_fit_is_unclear(void **state)
{
    (void)state;
    static const struct weir_scaling_point wild[] = { { 1, 100 }, { 2, 20 }, { 4, 900 }, { 8, 60 }, { 16, 500 } };
    assert_int_equal(fit_points(wild, 5).shape, WEIR_SCALING_UNCLEAR);
}

static void too_little_is_refused(void **state)
{
    (void)state;
    struct weir_scaling scaling;
    static const struct weir_scaling_point points[] = { { 1, 10 }, { 2, 20 }, { 2, 21 }, { 4, 0 } };
    assert_int_equal(weir_scaling_fit(&scaling, points, 0), -EINVAL);
    assert_int_equal(weir_scaling_fit(&scaling, points, 3), -EINVAL);
    assert_int_equal(weir_scaling_fit(&scaling, points, 4), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_laws_own_curve_gives_its_parameters),
        cmocka_unit_test(a_straight_line_has_no_knee),
        cmocka_unit_test(what_is_linear_and_then_flat_has_a_knee_between),
        cmocka_unit_test(what_is_flat_from_the_start_has_its_knee_below),
        cmocka_unit_test(what_the_law_does_not_fit_is_unclear),
        cmocka_unit_test(too_little_is_refused),
    };
    return cmocka_run_group_tests_name("scaling", tests, NULL, NULL);
}
