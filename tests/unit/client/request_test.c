/* request: byte for byte what wire's encoder makes, over events of every shape. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/client/request.h"

static void same(const struct weir_message *message)
{
    for (int framed = 0; framed < 2; framed++) {
        struct weir_buffer ours = WEIR_BUFFER_INIT, wires = WEIR_BUFFER_INIT;
        weir_buffer_puts(&ours, "x");
        assert_int_equal(weir_request_encode(message, framed, &ours, NULL), 0);
        assert_int_equal(framed ? weir_message_encode_framed(message, &wires, NULL) : weir_message_encode(message, &wires, NULL),
                         0);
        assert_int_equal(ours.length, wires.length + 1);
        if (wires.length)
            assert_memory_equal(ours.data + 1, wires.data, wires.length);
        weir_buffer_release(&ours);
        weir_buffer_release(&wires);
    }
}

static struct weir_bytes some_bytes(unsigned *seed, const uint8_t *pool)
{
    static const size_t sizes[] = { 0, 1, 7, 8, 9, 127, 128, 300, 17000 };
    if (rand_r(seed) % 4 == 0)
        return (struct weir_bytes){ NULL, 0 };
    return (struct weir_bytes){ pool + rand_r(seed) % 64, sizes[(unsigned)rand_r(seed) % (sizeof sizes / sizeof *sizes)] };
}

static void events_of_every_shape_give_the_same_bytes(void **state)
{
    (void)state;
    static const int64_t times[] = { 0, 1, -1, 999999, 1000000, -1000001, 1700000000123456, INT64_MAX, INT64_MIN };
    static const int64_t numbers[] = { 0, 1, -1, 63, 64, -65, 16777216, 16777217, 9007199254740993, INT64_MAX, INT64_MIN };
    static const double doubles[] = { 0, -0.0, 0.1, 0.25, 1e300, -1e300, 3.4028234e38, 16777217, NAN, INFINITY, -INFINITY };
    uint8_t *pool = malloc(17100);
    unsigned seed = 11;
    for (size_t i = 0; i < 17100; i++)
        pool[i] = (uint8_t)(' ' + i % 90);
    for (int round = 0; round < 3000; round++) {
        struct weir_bytes tags[3];
        struct weir_attribute attributes[3];
        struct weir_event events[3] = { 0 };
        for (int i = 0; i < 3; i++) {
            tags[i] = some_bytes(&seed, pool);
            if (!tags[i].data)
                tags[i] = (struct weir_bytes){ pool, 0 };
            attributes[i] = (struct weir_attribute){ some_bytes(&seed, pool), some_bytes(&seed, pool) };
            if (!attributes[i].key.data)
                attributes[i].key = (struct weir_bytes){ pool, 3 };
        }
        for (int i = 0; i < 3; i++)
            events[i] = (struct weir_event){ .host = some_bytes(&seed, pool),
                                             .service = some_bytes(&seed, pool),
                                             .state = some_bytes(&seed, pool),
                                             .description = some_bytes(&seed, pool),
                                             .tags = tags,
                                             .tag_count = (unsigned)rand_r(&seed) % 4,
                                             .attributes = attributes,
                                             .attribute_count = (unsigned)rand_r(&seed) % 4,
                                             .has_time = rand_r(&seed) % 2,
                                             .time_us = times[rand_r(&seed) % 9],
                                             .has_ttl = rand_r(&seed) % 2,
                                             .ttl = (float)doubles[rand_r(&seed) % 4],
                                             .metric_kind = (enum weir_metric_kind)(rand_r(&seed) % 4),
                                             .metric_int = numbers[rand_r(&seed) % 11],
                                             .metric_double = doubles[rand_r(&seed) % 11] };
        for (int i = 0; i < 3; i++)
            if (events[i].metric_kind == WEIR_METRIC_FLOAT)
                events[i].metric_double = (double)(float)doubles[rand_r(&seed) % 4];
        struct weir_message message = { .events = events, .event_count = (size_t)rand_r(&seed) % 4 };
        if (rand_r(&seed) % 4 == 0)
            message.query = some_bytes(&seed, pool);
        same(&message);
    }
    free(pool);
}

static void what_is_no_utf8_is_repaired_as_ever(void **state)
{
    (void)state;
    static const char *const texts[] = { "gr\xc3\xbc\xc3\x9f", "\xc3\x28", "\xff", "plain, and then \xe2\x82",
                                         "\xf0\x9f\x98\x80 and on" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct weir_bytes bytes = { (const uint8_t *)texts[i], strlen(texts[i]) };
        struct weir_attribute attribute = { { (const uint8_t *)"k", 1 }, bytes };
        struct weir_event event = {
            .host = bytes, .tags = &bytes, .tag_count = 1, .attributes = &attribute, .attribute_count = 1
        };
        struct weir_message message = { .events = &event, .event_count = 1 };
        same(&message);
        message = (struct weir_message){ .query = bytes };
        same(&message);
    }
}

static void what_a_reply_holds_is_kept(void **state)
{
    (void)state;
    struct weir_message message = { .has_ok = true, .ok = true };
    same(&message);
    message = (struct weir_message){ .error = { (const uint8_t *)"no", 2 } };
    same(&message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_every_shape_give_the_same_bytes),
        cmocka_unit_test(what_is_no_utf8_is_repaired_as_ever),
        cmocka_unit_test(what_a_reply_holds_is_kept),
    };
    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
