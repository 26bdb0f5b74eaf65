/* What a message becomes for the database. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/stages/stages.h"

static struct weir_bytes bytes(const char *text, size_t size)
{
    return (struct weir_bytes){ (const uint8_t *)text, size };
}
#define TEXT(text) bytes(text, sizeof text - 1)

static void expect(const struct weir_event *events, size_t count, const char *json)
{
    struct weir_message message = { .events = (struct weir_event *)(uintptr_t)events, .event_count = count };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_store_request(&message, 42, &out);
    assert_string_equal(weir_buffer_text(&out), json);
    weir_buffer_release(&out);
}

static void an_event_is_an_object(void **state)
{
    (void)state;
    const struct weir_bytes tags[] = { TEXT("a"), TEXT("b") };
    const struct weir_attribute attributes[] = { { TEXT("k"), TEXT("v") }, { TEXT("n"), { NULL, 0 } } };
    const struct weir_event all = { .host = TEXT("h"), .service = TEXT("s"), .state = TEXT(""), .description = TEXT("d"), .tags = tags,
                                    .tag_count = 2, .attributes = attributes, .attribute_count = 2, .has_time = true, .time_us = -1,
                                    .has_ttl = true, .ttl = 0.5f, .metric_kind = WEIR_METRIC_INT, .metric_int = INT64_MIN };
    const struct weir_event none = { .metric_kind = WEIR_METRIC_NIL };
    expect(&all, 1,
           "[{\"time\":-1,\"host\":\"h\",\"service\":\"s\",\"state\":\"\",\"description\":\"d\",\"metric\":-9223372036854775808,"
           "\"metric_int\":-9223372036854775808,\"ttl\":0.5,\"tags\":[\"a\",\"b\"],\"attributes\":{\"k\":\"v\",\"n\":null}}]");
    const struct weir_event two[] = { none, none };
    expect(two, 2, "[{\"time\":42},{\"time\":42}]");
}

static void numbers_keep_their_value(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } rows[] = {
        { 0.1, "0.10000000000000001" }, { 1e300, "1.0000000000000001e+300" }, { -0.0, "-0" },
        { (double)INFINITY, "\"Infinity\"" }, { -(double)INFINITY, "\"-Infinity\"" }, { (double)NAN, "\"NaN\"" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[96];
        const struct weir_event event = { .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = rows[i].number };
        snprintf(json, sizeof json, "[{\"time\":42,\"metric\":%s}]", rows[i].text);
        expect(&event, 1, json);
    }
    const struct weir_event single = { .metric_kind = WEIR_METRIC_FLOAT, .metric_double = (double)0.1f };
    expect(&single, 1, "[{\"time\":42,\"metric\":0.100000001}]");
}

static void texts_stay_within_their_quotes(void **state)
{
    (void)state;
    static const struct {
        struct weir_bytes text;
        const char *json;
    } rows[] = {
        { { (const uint8_t *)"\"", 1 }, "\\u0022" },
        { { (const uint8_t *)"\\", 1 }, "\\u005c" },
        { { (const uint8_t *)"a\nb\x7f", 4 }, "a\\u000ab\x7f" },
        { { (const uint8_t *)"\0x", 2 }, "\xef\xbf\xbdx" },
        { { (const uint8_t *)"\xff\xc3", 2 }, "\xef\xbf\xbd\xef\xbf\xbd" },
        { { (const uint8_t *)"\xc3\xa9\xf0\x9f\x8c\x8a", 6 }, "\xc3\xa9\xf0\x9f\x8c\x8a" },
        { { (const uint8_t *)"\xed\xa0\x80", 3 }, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char json[96];
        const struct weir_event event = { .host = rows[i].text };
        snprintf(json, sizeof json, "[{\"time\":42,\"host\":\"%s\"}]", rows[i].json);
        expect(&event, 1, json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_an_object),
        cmocka_unit_test(numbers_keep_their_value),
        cmocka_unit_test(texts_stay_within_their_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
