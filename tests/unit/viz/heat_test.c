#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "viz/heat.h"

/* Relative luminance, WCAG 2.1. */
static double luminance(const char *color)
{
    unsigned long rgb = strtoul(color + 1, NULL, 16);
    static const double weights[] = { 0.2126, 0.7152, 0.0722 };
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        double part = (double)(rgb >> (16 - 8 * i) & 0xff) / 255;
        sum += weights[i] * (part <= 0.03928 ? part / 12.92 : pow((part + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(const char *a, const char *b)
{
    double x = luminance(a), y = luminance(b);
    return (fmax(x, y) + 0.05) / (fmin(x, y) + 0.05);
}

static void text_can_be_read_on_every_step(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WEIR_HEAT_STEPS; i++) {
        const struct weir_heat *heat = weir_heat_step(i);
        assert_true(contrast(heat->paper, heat->ink) >= 4.5);
        assert_true(contrast(heat->paper, heat->faint) >= 4.5);
        assert_true(contrast(heat->bar, heat->track) >= 2.5);
    }
    assert_true(contrast("#ffffff", WEIR_HEAT_QUEUE) >= 4.5);
    assert_true(contrast("#ffffff", WEIR_HEAT_FAINT) >= 4.5);
}

/* In print and to whoever sees no hue, lightness alone tells more from less. */
static void lightness_falls_from_step_to_step(void **state)
{
    (void)state;
    for (unsigned i = 1; i < WEIR_HEAT_STEPS; i++)
        assert_true(contrast(weir_heat_step(i - 1)->paper, weir_heat_step(i)->paper) >= 1.1 &&
                    luminance(weir_heat_step(i)->paper) < luminance(weir_heat_step(i - 1)->paper));
}

static void shares_find_their_step(void **state)
{
    (void)state;
    assert_ptr_equal(weir_heat_of(0), weir_heat_step(0));
    assert_ptr_equal(weir_heat_of(NAN), weir_heat_step(0));
    assert_ptr_equal(weir_heat_of(0.01), weir_heat_step(1));
    assert_ptr_equal(weir_heat_of(0.3499), weir_heat_step(4));
    assert_ptr_equal(weir_heat_of(1), weir_heat_step(WEIR_HEAT_STEPS - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text_can_be_read_on_every_step),
                                        cmocka_unit_test(lightness_falls_from_step_to_step), cmocka_unit_test(shares_find_their_step) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
