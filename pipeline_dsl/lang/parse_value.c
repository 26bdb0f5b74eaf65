/* The numbers of the language: INT, SIZE, DUR and the value of an expectation. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/lang/parser.h"

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit sizes[] = {
    { "B", 1 }, { "KiB", 1u << 10 }, { "MiB", 1u << 20 }, { "GiB", 1u << 30 }, { NULL, 0 },
};
static const struct unit durations[] = {
    { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "min", 60000000000 }, { "h", 3600000000000 },
    { NULL, 0 },
};
/* What people write instead. */
static const struct {
    const char *written, *meant;
} habits[] = {
    { "K", "KiB" },   { "KB", "KiB" },  { "kB", "KiB" },  { "kb", "KiB" },    { "k", "KiB" },   { "M", "MiB" },
    { "MB", "MiB" },  { "mb", "MiB" },  { "m", "MiB" },   { "G", "GiB" },     { "GB", "GiB" },  { "gb", "GiB" },
    { "g", "GiB" },   { "b", "B" },     { "bytes", "B" }, { "kib", "KiB" },   { "mib", "MiB" }, { "gib", "GiB" },
    { "KIB", "KiB" }, { "MIB", "MiB" }, { "GIB", "GiB" }, { "sec", "s" },     { "secs", "s" },  { "msec", "ms" },
    { "usec", "us" }, { "nsec", "ns" }, { "m", "min" },   { "mins", "min" },  { "hr", "h" },    { "S", "s" },
    { "MS", "ms" },   { "US", "us" },   { "hours", "h" }, { "seconds", "s" },
};

static const struct unit *find_unit(const struct unit *units, const char *name, size_t length)
{
    for (; units->name; units++)
        if (strlen(units->name) == length && memcmp(units->name, name, length) == 0)
            return units;
    return NULL;
}

static const char *habit(const struct unit *units, const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strlen(habits[i].written) == length && memcmp(habits[i].written, name, length) == 0 &&
            find_unit(units, habits[i].meant, strlen(habits[i].meant)))
            return habits[i].meant;
    return NULL;
}

static size_t digits_of(const char *text, size_t length)
{
    size_t count = 0;
    while (count < length && text[count] >= '0' && text[count] <= '9')
        count++;
    return count;
}

/* False when it doesn't fit. */
static bool read_digits(const char *text, size_t count, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_mul_overflow(*value, (uint64_t)10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(text[i] - '0'), value))
            return false;
    return true;
}

bool weir_parser_int(struct weir_parser *parser, const char *what, uint64_t least, uint64_t most, struct weir_tree_number *number)
{
    struct weir_span span = parser->token.span;
    const char *text = weir_parser_text(parser, span);
    if (parser->token.kind != WEIR_TOKEN_NUMBER) {
        weir_parser_unexpected(parser, what);
        return false;
    }
    size_t digits = digits_of(text, span.length);
    if (digits != span.length) {
        struct weir_diag *diag =
            weir_diag_add(parser->bag, WEIR_E017_BAD_NUMBER, span, "%s is a whole number without a unit", what);
        weir_diag_hint(parser->bag, diag, "write %.*s", (int)digits, text);
        return false;
    }
    uint64_t value;
    bool fits = read_digits(text, digits, &value);
    if (!fits || value < least || value > most) {
        bool small = fits && value < least;
        struct weir_diag *diag =
            weir_diag_add(parser->bag, WEIR_E017_BAD_NUMBER, span, "%s is between %" PRIu64 " and %" PRIu64, what, least, most);
        weir_diag_hint(parser->bag, diag, "write %" PRIu64 " or %s", small ? least : most, small ? "more" : "less");
        return false;
    }
    *number = (struct weir_tree_number){ span, value };
    weir_parser_take(parser);
    return true;
}

/* What is wrong with the NUMBER at hand, whose suffix is none of `units`. Moves behind it to look for a unit that stands apart. */
static void complain_about_unit(struct weir_parser *parser, const char *noun, const struct unit *units, enum weir_code code)
{
    bool is_size = units == sizes;
    const char *names = is_size ? "B, KiB, MiB or GiB" : "ns, us, ms, s, min or h";
    struct weir_span span = parser->token.span;
    const char *text = weir_parser_text(parser, span);
    int digits = (int)digits_of(text, span.length);
    const char *suffix = text + digits;
    size_t suffix_length = span.length - (size_t)digits;
    if (suffix_length == 0) {
        struct weir_diag *diag = weir_diag_add(parser->bag, code, span, "a %s needs its unit: %s", noun, names);
        weir_parser_skip(parser);
        const char *next = weir_parser_text(parser, parser->token.span);
        if (parser->token.kind == WEIR_TOKEN_WORD && find_unit(units, next, parser->token.span.length))
            weir_diag_hint(parser->bag, diag, "write `%.*s%.*s`, without a blank", digits, text, (int)parser->token.span.length,
                           next);
        else
            weir_diag_hint(parser->bag, diag, "write `%.*s%s`, if that is meant", digits, text, is_size ? "B" : "ms");
    } else if (suffix[0] == '.') {
        struct weir_diag *diag = weir_diag_add(parser->bag, code, span, "a %s is a whole number of its unit", noun);
        weir_diag_hint(parser->bag, diag, "use a smaller unit");
    } else {
        const char *meant = habit(units, suffix, suffix_length);
        struct weir_span at = { span.offset + (size_t)digits, suffix_length };
        struct weir_diag *diag = weir_diag_add(parser->bag, code, at, "'%.*s' is no unit of a %s; use %s",
                                               suffix_length < 20 ? (int)suffix_length : 20, suffix, noun, names);
        if (meant)
            weir_diag_hint(parser->bag, diag, "write `%.*s%s`", digits, text, meant);
    }
}

/* An integer with one of `units` behind it. */
static bool parse_with_unit(struct weir_parser *parser, const char *what, const char *noun, const struct unit *units,
                            enum weir_code code, struct weir_tree_number *number)
{
    struct weir_span span = parser->token.span;
    const char *text = weir_parser_text(parser, span);
    if (parser->token.kind != WEIR_TOKEN_NUMBER) {
        struct weir_diag *diag = weir_parser_unexpected(parser, what);
        weir_diag_hint(parser->bag, diag, "a %s is written like %s", noun, units == sizes ? "64KiB or 16MiB" : "250us or 10ms");
        return false;
    }
    size_t digits = digits_of(text, span.length);
    const struct unit *unit = find_unit(units, text + digits, span.length - digits);
    if (!unit) {
        complain_about_unit(parser, noun, units, code);
        return false;
    }
    uint64_t value;
    if (!read_digits(text, digits, &value) || __builtin_mul_overflow(value, unit->factor, &value)) {
        struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E017_BAD_NUMBER, span, "%s doesn't fit 64 bits", what);
        weir_diag_hint(parser->bag, diag, "write less than %s", units == sizes ? "17179869184GiB" : "5124096h");
        return false;
    }
    *number = (struct weir_tree_number){ span, value };
    weir_parser_take(parser);
    return true;
}

bool weir_parser_size(struct weir_parser *parser, const char *what, struct weir_tree_number *number)
{
    return parse_with_unit(parser, what, "size", sizes, WEIR_E015_BAD_SIZE, number);
}

bool weir_parser_duration(struct weir_parser *parser, const char *what, struct weir_tree_number *number)
{
    return parse_with_unit(parser, what, "duration", durations, WEIR_E016_BAD_DURATION, number);
}

/* value = NUMBER [ "%" | a DUR unit | a SIZE unit | "/s" ] ; NUMBER = INT [ "." INT ] */
bool weir_parser_value(struct weir_parser *parser, struct weir_tree_term *term)
{
    struct weir_span span = parser->token.span;
    const char *text = weir_parser_text(parser, span);
    if (parser->token.kind != WEIR_TOKEN_NUMBER) {
        weir_diag_hint(parser->bag, weir_parser_unexpected(parser, "a value"),
                       "a value is written like 5%%, 20ms, 1MiB, 1000/s or 100");
        return false;
    }
    size_t digits = digits_of(text, span.length);
    if (digits + 1 < span.length && text[digits] == '.')
        digits += 1 + digits_of(text + digits + 1, span.length - digits - 1);
    char number[64];
    const char *suffix = text + digits;
    size_t suffix_length = span.length - digits;
    const struct unit *size = find_unit(sizes, suffix, suffix_length), *duration = find_unit(durations, suffix, suffix_length);
    if (digits >= sizeof number) {
        weir_diag_add(parser->bag, WEIR_E017_BAD_NUMBER, span, "a value has at most %zu digits", sizeof number - 1);
        return false;
    }
    memcpy(number, text, digits);
    number[digits] = '\0';
    /* Not strtod: its decimal point is the locale's. */
    double value = 0, place = 1;
    bool fraction = false;
    for (const char *at = number; *at; at++) {
        if (*at == '.')
            fraction = true;
        else
            value = value * 10 + (*at - '0');
        if (fraction && *at != '.')
            place *= 10;
    }
    value /= place;
    if (value > 1e18) {
        weir_diag_add(parser->bag, WEIR_E017_BAD_NUMBER, span, "a value is at most 1 followed by 18 zeros");
        return false;
    }
    double factor = 1;
    if (suffix_length == 0) {
        term->unit = WEIR_PLAIN;
    } else if (suffix_length == 1 && suffix[0] == '%') {
        term->unit = WEIR_SHARE;
        value /= 100;
    } else if (suffix_length == 2 && memcmp(suffix, "/s", 2) == 0) {
        term->unit = WEIR_PER_S;
    } else if (duration) {
        term->unit = WEIR_NS;
        factor = (double)duration->factor;
    } else if (size) {
        term->unit = WEIR_BYTES;
        factor = (double)size->factor;
    } else {
        struct weir_diag *diag =
            weir_diag_add(parser->bag, WEIR_E081_BAD_UNIT, (struct weir_span){ span.offset + digits, suffix_length },
                          "'%.*s' is not a unit; there are %%, /s, ns to h, and B to GiB",
                          suffix_length < 20 ? (int)suffix_length : 20, suffix);
        const char *meant = habit(durations, suffix, suffix_length);
        if (!meant)
            meant = habit(sizes, suffix, suffix_length);
        if (meant)
            weir_diag_hint(parser->bag, diag, "write `%s%s`", number, meant);
        return false;
    }
    term->value = value * factor;
    term->value_span = span;
    weir_parser_take(parser);
    return true;
}
