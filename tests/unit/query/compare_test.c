/* compare: integers, doubles and integers of any size, next to each other where a conversion would lose them. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/query/compare.h"

static struct weir_query_value big(const char *digits)
{
    return (struct weir_query_value){ .kind = WEIR_QUERY_BIG, .text = { (const uint8_t *)digits, strlen(digits) } };
}

/* In ascending order; what stands in one line is equal in order, but not of one kind. */
static struct weir_query_value ascending[64];
static unsigned rank[64];
static size_t count;

static void add(struct weir_query_value value, unsigned of_rank)
{
    rank[count] = of_rank;
    ascending[count++] = value;
}

static int set_up(void **state)
{
    (void)state;
    unsigned r = 0;
    count = 0;
    add(weir_query_real(-(double)INFINITY), r++);
    add(big("-99999999999999999999999999999999999999999999999999"), r++);
    add(weir_query_real(-1e30), r++);
    add(big("-9223372036854777856"), r), add(weir_query_real(-0x1.0000000000001p63), r++);
    add(big("-9223372036854775809"), r++);
    add(weir_query_integer(INT64_MIN), r), add(weir_query_real(-0x1p63), r++);
    add(weir_query_integer(INT64_MIN + 1), r++);
    add(weir_query_real(-0x1.fffffffffffffp62), r), add(weir_query_integer(-9223372036854774784), r++);
    add(weir_query_integer(-9007199254740993), r++);
    add(weir_query_integer(-9007199254740992), r), add(weir_query_real(-9007199254740992.0), r++);
    add(weir_query_real(-1.5), r++);
    add(weir_query_integer(-1), r), add(weir_query_real(-1.0), r++);
    add(weir_query_real(-0.5), r++);
    add(weir_query_real(-0x1p-1074), r++);
    add(weir_query_integer(0), r), add(weir_query_real(0.0), r), add(weir_query_real(-0.0), r++);
    add(weir_query_real(0x1p-1074), r++);
    add(weir_query_real(0.5), r++);
    add(weir_query_integer(1), r), add(weir_query_real(1.0), r++);
    add(weir_query_real(1.5), r++);
    add(weir_query_integer(9007199254740992), r), add(weir_query_real(9007199254740992.0), r++);
    add(weir_query_integer(9007199254740993), r++);
    add(weir_query_real(9007199254740994.0), r++);
    add(weir_query_integer(INT64_MAX - 1024), r++);
    add(weir_query_real(0x1.fffffffffffffp62), r), add(weir_query_integer(9223372036854774784), r++);
    add(weir_query_integer(INT64_MAX), r++);
    add(weir_query_real(0x1p63), r), add(big("9223372036854775808"), r++);
    add(big("9223372036854775809"), r++);
    add(weir_query_real(0x1.0000000000001p63), r), add(big("9223372036854777856"), r++);
    add(big("18446744073709551615"), r++);
    add(weir_query_real(0x1p64), r++);
    add(big("99999999999999999999999999999999999999999999999999"), r++);
    add(weir_query_real(1.7976931348623157e308), r++);
    add(weir_query_real((double)INFINITY), r++);
    return 0;
}

static void all_pairs_are_in_order(void **state)
{
    (void)state;
    for (size_t a = 0; a < count; a++)
        for (size_t b = 0; b < count; b++) {
            enum weir_query_order wanted = rank[a] < rank[b] ? WEIR_QUERY_BEFORE : rank[a] > rank[b] ? WEIR_QUERY_BEHIND : WEIR_QUERY_SAME;
            if (weir_query_compare(ascending[a], ascending[b]) != wanted)
                fail_msg("%zu to %zu: %d, not %d", a, b, weir_query_compare(ascending[a], ascending[b]), wanted);
            bool one_kind = ascending[a].kind == ascending[b].kind;
            assert_int_equal(weir_query_equal(ascending[a], ascending[b]), rank[a] == rank[b] && one_kind);
        }
}

static void what_is_no_number_has_no_order(void **state)
{
    (void)state;
    const struct weir_query_value others[] = {
        weir_query_nil(), weir_query_real((double)NAN), weir_query_text((struct weir_bytes){ (const uint8_t *)"1", 1 }),
        weir_query_tags(1), { .kind = WEIR_QUERY_BOOL, .boolean = true },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (size_t b = 0; b < count; b++) {
            assert_int_equal(weir_query_compare(others[i], ascending[b]), WEIR_QUERY_UNORDERED);
            assert_int_equal(weir_query_compare(ascending[b], others[i]), WEIR_QUERY_UNORDERED);
            assert_false(weir_query_equal(others[i], ascending[b]));
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (size_t k = 0; k < sizeof others / sizeof *others; k++)
            assert_int_equal(weir_query_equal(others[i], others[k]), i == k && i != 1);
}

static void a_time_is_an_integer_where_it_is_whole(void **state)
{
    (void)state;
    assert_true(weir_query_equal(weir_query_time(5000000), weir_query_integer(5)));
    assert_true(weir_query_equal(weir_query_time(-5000000), weir_query_integer(-5)));
    assert_true(weir_query_equal(weir_query_time(0), weir_query_integer(0)));
    assert_true(weir_query_equal(weir_query_time(1500000), weir_query_real(1.5)));
    assert_true(weir_query_equal(weir_query_time(-1), weir_query_real(-1e-6)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(all_pairs_are_in_order, set_up),
        cmocka_unit_test_setup(what_is_no_number_has_no_order, set_up),
        cmocka_unit_test(a_time_is_an_integer_where_it_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
