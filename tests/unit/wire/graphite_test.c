/* Graphite's lines: what is one, what is none and why, and that a bad one costs only itself. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/wire/graphite.h"

static struct weir_arena arena;
static struct weir_message message;
static struct weir_error reason;

static size_t decode_bytes(const char *text, size_t size)
{
    size_t bad = 99;
    weir_arena_release(&arena);
    weir_arena_init(&arena, 4096, 64 << 20);
    reason = (struct weir_error)WEIR_ERROR_INIT;
    /* A copy of its own, so that a sanitizer sees a read behind the end. */
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    assert_int_equal(weir_graphite_decode(&message, &arena, copy, size, &bad, &reason), 0);
    free(copy);
    return bad;
}

static size_t decode(const char *text)
{
    return decode_bytes(text, strlen(text));
}

static void good_lines(void **state)
{
    (void)state;
    assert_int_equal(decode("a.b.c 1.5 1700000000\nx\t-2 \t 0\r\nlast 3e2 -1"), 0);
    assert_int_equal(message.event_count, 3);
    const struct weir_event *event = message.events;
    assert_int_equal(event->service.size, 5);
    assert_memory_equal(event->service.data, "a.b.c", 5);
    assert_null(event->host.data);
    assert_null(event->state.data);
    assert_false(event->has_ttl);
    assert_int_equal(event->metric_kind, WEIR_METRIC_DOUBLE);
    assert_true(event->metric_double == 1.5);
    assert_true(event->has_time);
    assert_int_equal(event->time_us, 1700000000000000);
    assert_true(event[1].metric_double == -2);
    assert_int_equal(event[1].time_us, 0);
    assert_true(event[2].metric_double == 300);
    assert_int_equal(event[2].time_us, -1000000);
}

static void one_bad_line_costs_only_itself(void **state)
{
    (void)state;
    assert_int_equal(decode("a 1 1\nb nan 1\nc 1 1\n"), 1);
    assert_int_equal(message.event_count, 2);
    assert_memory_equal(message.events[1].service.data, "c", 1);
    assert_non_null(strstr(reason.text, "NaN metric: \"b nan 1\""));
}

static void why_a_line_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *line, *why;
    } rows[] = {
        { "a 1 1 1", "too many fields" },  { "", "blank line" },          { " ", "blank line" },
        { " a 1 1", "a blank before" },    { "a", "no metric" },          { "a ", "no metric" },
        { "a 1", "no timestamp" },         { "a NaN 1", "NaN metric" },   { "a x 1", "invalid metric" },
        { "a inf 1", "invalid metric" },   { "a 0x10 1", "invalid metric" }, { "a 1.2.3 1", "invalid metric" },
        { "a . 1", "invalid metric" },     { "a 1e 1", "invalid metric" },   { "a - 1", "invalid metric" },
        { "a 1dd 1", "invalid metric" },   { "a infinity 1", "invalid metric" }, { "a 1 1.5", "invalid timestamp" },
        { "a 1 x", "invalid timestamp" },  { "a 1 -", "invalid timestamp" }, { "a 1 9223372036854775807", "invalid timestamp" },
        { "a 1 99999999999999999999", "invalid timestamp" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s\n", rows[i].line);
        if (decode(text) != 1 || message.event_count || !strstr(reason.text, rows[i].why))
            fail_msg("'%s': %s", rows[i].line, reason.text);
    }
    assert_int_equal(decode("\x1b[31m\x07 x 1\n"), 1); /* nothing of it reaches a terminal */
    assert_null(strpbrk(reason.text, "\x1b\x07"));
}

static void values_are_what_strtod_says(void **state)
{
    (void)state;
    static const char *const values[] = { "0", "-0", "+1", "1.", ".5", "0.1", "1e22", "1e23", "123456789012345", "1234567890123456789",
        "0.000000000000000000000001", "1e-400", "1e400", "2.2250738585072011e-308", "9007199254740993", "3.14159265358979323846",
        "1e5", "-1E-5", "00012.500", "100000000000000000000000000000", "0.30000000000000004", "999999999999999e22" };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[128];
        snprintf(text, sizeof text, "a %s 1", values[i]);
        if (decode(text) != 0)
            fail_msg("%s: %s", values[i], reason.text);
        double expected = strtod(values[i], NULL), got = message.events[0].metric_double;
        if (memcmp(&expected, &got, sizeof got) != 0)
            fail_msg("%s: %.17g", values[i], got);
    }
    assert_int_equal(decode("a 1d 1\na Infinity 1\na -Infinity 1\n"), 0);
    assert_true(message.events[0].metric_double == 1);
    assert_true(message.events[1].metric_double == INFINITY);
    assert_true(message.events[2].metric_double == -INFINITY);
}

static void blank_lines_take_no_room(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    char *text = malloc(SIZE);
    memset(text, '\n', SIZE);
    assert_int_equal(decode_bytes(text, SIZE), SIZE);
    assert_int_equal(message.event_count, 0);
    assert_true(arena.used_bytes < 32u * SIZE);
    free(text);
    assert_int_equal(decode(""), 0);
    assert_int_equal(message.event_count, 0);
}

static void the_arena_has_a_limit(void **state)
{
    (void)state;
    size_t bad;
    weir_arena_release(&arena);
    weir_arena_init(&arena, 64, 100);
    assert_int_equal(weir_graphite_decode(&message, &arena, "a 1 1\na 1 1\n", 12, &bad, &reason), -ENOMEM);
}

static int tear_down(void **state)
{
    (void)state;
    weir_arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_lines),
        cmocka_unit_test(one_bad_line_costs_only_itself),
        cmocka_unit_test(why_a_line_is_none),
        cmocka_unit_test(values_are_what_strtod_says),
        cmocka_unit_test(blank_lines_take_no_room),
        cmocka_unit_test(the_arena_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
