/*
 * DESIGN: the payload is copied into the arena once, and the paths are views of that copy. There is room for as many events as the
 * payload can hold lines that are good, so that blank lines can't blow it up.
 *
 * Most values have few digits: up to 15 of them and a small power of ten are exact in one division or multiplication of doubles
 * (Clinger's fast path); strtod() gets the rest.
 */
#include "pipeline_dsl/wire/graphite.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHORTEST_LINE 6u /* "a 1 1\n" */
#define FIELDS 3
#define EXACT_DIGITS 15
#define EXACT_POWER 22
#define NUMBER_MOST 400 /* characters of a value */
#define SHOWN 64        /* characters of a bad line in a message */

struct field {
    const char *text;
    size_t size;
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The fields of a line; FIELDS + 1 when there are more. */
static int split(const char *line, size_t size, struct field fields[FIELDS])
{
    const char *end = line + size;
    int count = 0;
    while (line < end) {
        const char *start = line;
        while (line < end && !is_blank(*line))
            line++;
        if (count == FIELDS)
            return FIELDS + 1;
        fields[count++] = (struct field){ start, (size_t)(line - start) };
        while (line < end && is_blank(*line))
            line++;
    }
    return count;
}

/* --- numbers ------------------------------------------------------------------------------------------------------------- */

struct decimal {
    uint64_t digits;
    int digit_count; /* significant ones */
    int power;       /* of ten */
    bool negative;
};

static const char *scan_digits(const char *at, const char *end, struct decimal *decimal, bool fraction, bool *any)
{
    for (; at < end && isdigit((unsigned char)*at); at++) {
        *any = true;
        if (decimal->digit_count || *at != '0')
            decimal->digit_count++;
        if (decimal->digit_count <= EXACT_DIGITS)
            decimal->digits = decimal->digits * 10 + (uint64_t)(*at - '0');
        decimal->power -= fraction;
    }
    return at;
}

static const char *scan_exponent(const char *at, const char *end, struct decimal *decimal)
{
    bool negative = false, any = false;
    int exponent = 0;
    if (at == end || (*at != 'e' && *at != 'E'))
        return at;
    if (++at < end && (*at == '+' || *at == '-'))
        negative = *at++ == '-';
    for (; at < end && isdigit((unsigned char)*at); at++) {
        any = true;
        if (exponent < 100000)
            exponent = exponent * 10 + (*at - '0');
    }
    decimal->power += negative ? -exponent : exponent;
    return any ? at : NULL;
}

/* [sign] digits [. digits] [exponent] [d or f], one digit at least. */
static bool scan_decimal(struct field field, struct decimal *decimal)
{
    const char *at = field.text, *end = at + field.size;
    bool any = false;
    if (at < end && (*at == '+' || *at == '-'))
        decimal->negative = *at++ == '-';
    at = scan_digits(at, end, decimal, false, &any);
    if (at < end && *at == '.')
        at = scan_digits(at + 1, end, decimal, true, &any);
    if (any)
        at = scan_exponent(at, end, decimal);
    if (any && at && at < end && strchr("dDfF", *at))
        at++;
    return any && at == end;
}

static bool is_infinity(struct field field, double *value)
{
    bool sign = field.size && (*field.text == '-' || *field.text == '+');
    if (field.size - sign != 8 || memcmp(field.text + sign, "Infinity", 8) != 0)
        return false;
    *value = sign && *field.text == '-' ? -INFINITY : INFINITY;
    return true;
}

static bool parse_value(struct field field, double *value)
{
    static const double powers[EXACT_POWER + 1] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    struct decimal decimal = { 0 };
    char copy[NUMBER_MOST + 1];
    if (is_infinity(field, value))
        return true;
    if (field.size > NUMBER_MOST || !scan_decimal(field, &decimal))
        return false;
    if (decimal.digit_count <= EXACT_DIGITS && abs(decimal.power) <= EXACT_POWER) {
        double whole = (double)decimal.digits;
        whole = decimal.power < 0 ? whole / powers[-decimal.power] : whole * powers[decimal.power];
        *value = decimal.negative ? -whole : whole;
        return true;
    }
    memcpy(copy, field.text, field.size);
    copy[field.size] = '\0';
    *value = strtod(copy, NULL);
    return true;
}

static bool parse_time(struct field field, int64_t *time_us)
{
    const char *at = field.text, *end = at + field.size;
    bool negative = at < end && *at == '-';
    int64_t seconds = 0;
    if (at < end && (*at == '-' || *at == '+'))
        at++;
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (!isdigit((unsigned char)*at) || seconds > INT64_MAX / 1000000 / 10 - 1)
            return false;
        seconds = seconds * 10 + (*at - '0');
    }
    *time_us = (negative ? -seconds : seconds) * 1000000;
    return true;
}

/* --- lines --------------------------------------------------------------------------------------------------------------- */

/* Null, or what is wrong with the line. */
static const char *parse_line(const char *line, size_t size, struct weir_event *event)
{
    struct field fields[FIELDS];
    int count = split(line, size, fields);
    if (count == 0 || (fields[0].size == 0 && count == 1))
        return "blank line";
    if (fields[0].size == 0)
        return "a blank before the path";
    if (count > FIELDS)
        return "too many fields";
    if (count == 1)
        return "no metric";
    if (count == 2)
        return "no timestamp";
    *event = (struct weir_event){ .service = { (const uint8_t *)fields[0].text, fields[0].size }, .has_time = true,
                                  .metric_kind = WEIR_METRIC_DOUBLE };
    if (fields[1].size == 3 && strncasecmp(fields[1].text, "nan", 3) == 0)
        return "NaN metric";
    if (!parse_value(fields[1], &event->metric_double))
        return "invalid metric";
    return parse_time(fields[2], &event->time_us) ? NULL : "invalid timestamp";
}

/* A bad line as it may be shown: control bytes would reach a terminal. */
static void tell(struct weir_error *reason, const char *what, const char *line, size_t size)
{
    char shown[SHOWN + 1];
    size_t count = size < SHOWN ? size : SHOWN;
    for (size_t i = 0; i < count; i++)
        shown[i] = line[i] >= 0x20 && line[i] < 0x7f ? line[i] : '?';
    shown[count] = '\0';
    weir_error_set(reason, WEIR_EXIT_USAGE, EBADMSG, "a line is passed over: %s: \"%s%s\"", what, shown, size > SHOWN ? "…" : "");
}

int weir_graphite_decode(struct weir_message *message, struct weir_arena *arena, const void *data, size_t size, size_t *bad,
                         struct weir_error *reason)
{
    size_t lines = 1, good_most = size / SHORTEST_LINE + 1;
    const char *line = weir_arena_dup(arena, data, size);
    for (size_t i = 0; line && i < size; i++)
        lines += line[i] == '\n';
    struct weir_event *events = weir_arena_alloc(arena, (lines < good_most ? lines : good_most) * sizeof *events);
    if (!line || !events)
        return weir_error_set(reason, WEIR_EXIT_USAGE, ENOMEM, "the lines take more memory than a message may");
    size_t count = 0;
    *bad = 0;
    for (const char *end = line + size, *next; line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        size_t length = (size_t)((stop ? stop : end) - line);
        if (length && line[length - 1] == '\r')
            length--;
        const char *wrong = parse_line(line, length, &events[count]);
        if (!wrong)
            count++;
        else if ((*bad)++ == 0)
            tell(reason, wrong, line, length);
    }
    *message = (struct weir_message){ .events = events, .event_count = count };
    return 0;
}
