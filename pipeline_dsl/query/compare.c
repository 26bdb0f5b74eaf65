#include "pipeline_dsl/query/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool same_text(struct weir_bytes a, struct weir_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool weir_query_equal(struct weir_query_value a, struct weir_query_value b)
{
    if (a.kind != b.kind)
        return false;
    switch (a.kind) {
    case WEIR_QUERY_BOOL:
        return a.boolean == b.boolean;
    case WEIR_QUERY_INT:
        return a.integer == b.integer;
    case WEIR_QUERY_DOUBLE:
        return a.real == b.real;
    case WEIR_QUERY_TEXT:
    case WEIR_QUERY_BIG:
        return same_text(a.text, b.text);
    case WEIR_QUERY_NIL:
    case WEIR_QUERY_LIST:
        break;
    }
    return true;
}

static enum weir_query_order order(bool before, bool behind)
{
    return before ? WEIR_QUERY_BEFORE : behind ? WEIR_QUERY_BEHIND : WEIR_QUERY_SAME;
}

static enum weir_query_order reversed(enum weir_query_order order_of_b)
{
    return order_of_b == WEIR_QUERY_BEFORE ? WEIR_QUERY_BEHIND : order_of_b == WEIR_QUERY_BEHIND ? WEIR_QUERY_BEFORE : order_of_b;
}

static enum weir_query_order integer_to_double(int64_t a, double b)
{
    if (b >= 0x1p63)
        return WEIR_QUERY_BEFORE;
    if (b < -0x1p63)
        return WEIR_QUERY_BEHIND;
    int64_t whole = (int64_t)b; /* towards 0, exact */
    if (a != whole)
        return order(a < whole, true);
    double rest = b - (double)whole; /* exact: where it isn't 0, `whole` has no more than 53 bits */
    return order(rest > 0, rest < 0);
}

/* Decimal digits without leading zeros, a `-` in front or not. */
static enum weir_query_order digits_to_digits(struct weir_bytes a, struct weir_bytes b)
{
    bool a_below = a.data[0] == '-', b_below = b.data[0] == '-';
    if (a_below != b_below)
        return order(a_below, true);
    int difference = a.size != b.size ? (a.size < b.size ? -1 : 1) : memcmp(a.data, b.data, a.size);
    return a_below ? order(difference > 0, difference < 0) : order(difference < 0, difference > 0);
}

/* `big` is beyond every int64_t, so that whatever is not is left at its side. */
static enum weir_query_order big_to(struct weir_bytes big, struct weir_query_value b)
{
    bool below = big.data[0] == '-';
    if (b.kind == WEIR_QUERY_BIG)
        return digits_to_digits(big, b.text);
    if (b.kind == WEIR_QUERY_INT || fabs(b.real) < 0x1p63)
        return order(below, true);
    if (isinf(b.real))
        return order(b.real > 0, true);
    char digits[320]; /* the largest double has 309 */
    int size = snprintf(digits, sizeof digits, "%.0f", b.real); /* exact: so large a double is whole */
    return digits_to_digits(big, (struct weir_bytes){ (const uint8_t *)digits, (size_t)size });
}

static bool is_number(struct weir_query_value value)
{
    return value.kind == WEIR_QUERY_INT || value.kind == WEIR_QUERY_BIG || (value.kind == WEIR_QUERY_DOUBLE && !isnan(value.real));
}

enum weir_query_order weir_query_compare(struct weir_query_value a, struct weir_query_value b)
{
    if (!is_number(a) || !is_number(b))
        return WEIR_QUERY_UNORDERED;
    if (a.kind == WEIR_QUERY_BIG)
        return big_to(a.text, b);
    if (b.kind == WEIR_QUERY_BIG)
        return reversed(big_to(b.text, a));
    if (a.kind == WEIR_QUERY_INT && b.kind == WEIR_QUERY_INT)
        return order(a.integer < b.integer, a.integer > b.integer);
    if (a.kind == WEIR_QUERY_INT)
        return integer_to_double(a.integer, b.real);
    if (b.kind == WEIR_QUERY_INT)
        return reversed(integer_to_double(b.integer, a.real));
    return order(a.real < b.real, a.real > b.real);
}
