#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>

#include "viz/figure.h"

static void times(void **state)
{
    (void)state;
    assert_string_equal(weir_figure_ns(0).text, "0 ns");
    assert_string_equal(weir_figure_ns(812).text, "812 ns");
    assert_string_equal(weir_figure_ns(999.4).text, "999 ns");
    assert_string_equal(weir_figure_ns(999.6).text, "1.0 µs");
    assert_string_equal(weir_figure_ns(41234).text, "41 µs");
    assert_string_equal(weir_figure_ns(9999).text, "10 µs");
    assert_string_equal(weir_figure_ns(999600).text, "1.0 ms");
    assert_string_equal(weir_figure_ns(1.9e6).text, "1.9 ms");
    assert_string_equal(weir_figure_ns(1e10).text, "10 s");
    assert_string_equal(weir_figure_ns(NAN).text, "–");
    assert_string_equal(weir_figure_ns(INFINITY).text, "–");
}

static void sizes(void **state)
{
    (void)state;
    assert_string_equal(weir_figure_bytes(0).text, "0 B");
    assert_string_equal(weir_figure_bytes(512).text, "512 B");
    assert_string_equal(weir_figure_bytes(64u << 20).text, "64 MiB");
    assert_string_equal(weir_figure_bytes(7.6 * 1048576).text, "7.6 MiB");
    assert_string_equal(weir_figure_bytes(1023.9).text, "1 KiB");
    assert_string_equal(weir_figure_bytes(1.8e19).text, "16 EiB");
}

static void shares(void **state)
{
    (void)state;
    assert_string_equal(weir_figure_percent(0).text, "0.0 %");
    assert_string_equal(weir_figure_percent(0.0004).text, "<0.1 %");
    assert_string_equal(weir_figure_percent(0.382).text, "38.2 %");
    assert_string_equal(weir_figure_percent(1).text, "100.0 %");
    assert_string_equal(weir_figure_whole_percent(0.004).text, "<1 %");
    assert_string_equal(weir_figure_whole_percent(0.382).text, "38 %");
}

static void rates_and_counts(void **state)
{
    (void)state;
    assert_string_equal(weir_figure_rate(0).text, "0 /s");
    assert_string_equal(weir_figure_rate(0.3).text, "0.3 /s");
    assert_string_equal(weir_figure_rate(12100).text, "12.1 k/s");
    assert_string_equal(weir_figure_rate(1.21e6).text, "1.21 M/s");
    assert_string_equal(weir_figure_rate(999.6).text, "1.00 k/s");
    assert_string_equal(weir_figure_byte_rate(139e6).text, "139 MB/s");
    assert_string_equal(weir_figure_count(0).text, "0");
    assert_string_equal(weir_figure_count(999).text, "999");
    assert_string_equal(weir_figure_count(1000).text, "1,000");
    assert_string_equal(weir_figure_count(UINT64_MAX).text, "18,446,744,073,709,551,615");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(times), cmocka_unit_test(sizes), cmocka_unit_test(shares),
                                        cmocka_unit_test(rates_and_counts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
