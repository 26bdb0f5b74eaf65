/* message: what is decoded, what is encoded, and that both estimators agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include <riemann.pb-c.h>

#include "pipeline_dsl/wire/message.h"

#define BYTES(text) ((struct weir_bytes){ (const uint8_t *)(text), sizeof(text) - 1 })
#define assert_bytes(bytes, text) \
    do { \
        assert_non_null((bytes).data); \
        assert_int_equal((bytes).size, sizeof(text) - 1); \
        assert_memory_equal((bytes).data, text, sizeof(text) - 1); \
    } while (0)

static struct weir_arena arena;

static int setup(void **state)
{
    (void)state;
    weir_arena_init(&arena, 0, SIZE_MAX);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    weir_arena_release(&arena);
    return 0;
}

static struct weir_message decode(const void *data, size_t size)
{
    struct weir_message message;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_message_decode(&message, &arena, data, size, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(error.exit, 0);
    return message;
}

#define DECODE(literal) decode(literal, sizeof(literal) - 1)

/* A message of the one event that `fill` sets up, packed by protobuf-c itself. */
static struct weir_event through(WeirRiemann__Event *raw)
{
    WeirRiemann__Msg msg = WEIR_RIEMANN__MSG__INIT;
    msg.n_events = 1;
    msg.events = &raw;
    uint8_t packed[512];
    assert_true(weir_riemann__msg__get_packed_size(&msg) <= sizeof packed);
    struct weir_message message = decode(packed, weir_riemann__msg__pack(&msg, packed));
    assert_int_equal(message.event_count, 1);
    return message.events[0];
}

static void an_empty_message_is_valid(void **state)
{
    (void)state;
    struct weir_message message = decode("", 0);
    assert_false(message.has_ok);
    assert_null(message.error.data);
    assert_null(message.query.data);
    assert_int_equal(message.event_count, 0);
}

static void fields_are_decoded(void **state)
{
    (void)state;
    /* host "h", service "", state "a\0b", description c3 28 (no UTF-8), tags "x" and "", ttl 2.5 */
    struct weir_message message = DECODE("\x32\x1a\x22\x01h\x1a\x00\x12\x03"
                                         "a\0b\x2a\x02\xc3\x28\x3a\x01x\x3a\x00\x45\x00\x00\x20\x40\x08\x07");
    assert_int_equal(message.event_count, 1);
    const struct weir_event *event = &message.events[0];
    assert_bytes(event->host, "h");
    assert_bytes(event->service, "");
    assert_bytes(event->state, "a\0b");
    assert_bytes(event->description, "\xc3\x28");
    assert_int_equal(event->tag_count, 2);
    assert_bytes(event->tags[0], "x");
    assert_bytes(event->tags[1], "");
    assert_true(event->has_ttl);
    assert_float_equal(event->ttl, 2.5f, 0);
    assert_true(event->has_time);
    assert_int_equal(event->time_us, 7000000);
    assert_int_equal(event->metric_kind, WEIR_METRIC_NIL);
}

static void nil_is_not_the_empty_string(void **state)
{
    (void)state;
    struct weir_message message = DECODE("\x32\x02\x22\x00");
    assert_bytes(message.events[0].host, "");
    assert_null(message.events[0].service.data);
    assert_false(message.events[0].has_time);
    assert_false(message.events[0].has_ttl);
}

static void metrics_have_a_precedence(void **state)
{
    (void)state;
    WeirRiemann__Event raw = WEIR_RIEMANN__EVENT__INIT;
    raw.has_metric_f = true;
    raw.metric_f = 0.5f;
    struct weir_event event = through(&raw);
    assert_int_equal(event.metric_kind, WEIR_METRIC_FLOAT);
    assert_true(event.metric_double == 0.5);
    raw.has_metric_d = true;
    raw.metric_d = 0.1;
    event = through(&raw);
    assert_int_equal(event.metric_kind, WEIR_METRIC_DOUBLE);
    assert_true(event.metric_double == 0.1);
    raw.has_metric_sint64 = true;
    raw.metric_sint64 = INT64_MIN;
    event = through(&raw);
    assert_int_equal(event.metric_kind, WEIR_METRIC_INT);
    assert_true(event.metric_int == INT64_MIN);
}

static void microseconds_beat_seconds(void **state)
{
    (void)state;
    WeirRiemann__Event raw = WEIR_RIEMANN__EVENT__INIT;
    raw.has_time = true;
    raw.time = -3;
    assert_int_equal(through(&raw).time_us, -3000000);
    raw.has_time_micros = true;
    raw.time_micros = 5;
    assert_int_equal(through(&raw).time_us, 5);
    raw.has_time_micros = false;
    raw.time = INT64_MAX / 10;
    assert_true(through(&raw).time_us == INT64_MAX);
    raw.time = INT64_MIN;
    assert_true(through(&raw).time_us == INT64_MIN);
}

static void attributes_overwrite_fixed_fields(void **state)
{
    (void)state;
    static const char *const keys[] = { "host", "k", "service", "state", "description", "tags", "time", "ttl", "metric", "", "hosts" };
    WeirRiemann__Attribute attributes[11], *pointers[11];
    for (size_t i = 0; i < 11; i++) {
        weir_riemann__attribute__init(&attributes[i]);
        attributes[i].key = (ProtobufCBinaryData){ strlen(keys[i]), (uint8_t *)(uintptr_t)keys[i] };
        attributes[i].has_value = true;
        attributes[i].value = (ProtobufCBinaryData){ 1, (uint8_t *)(uintptr_t)"v" };
        pointers[i] = &attributes[i];
    }
    WeirRiemann__Event raw = WEIR_RIEMANN__EVENT__INIT;
    raw.has_host = true;
    raw.host = (ProtobufCBinaryData){ 3, (uint8_t *)(uintptr_t)"old" };
    raw.n_attributes = 11;
    raw.attributes = pointers;
    struct weir_event event = through(&raw);
    assert_bytes(event.host, "v");
    assert_bytes(event.service, "v");
    assert_bytes(event.state, "v");
    assert_bytes(event.description, "v");
    assert_int_equal(event.tag_count, 0);
    assert_false(event.has_time);
    assert_false(event.has_ttl);
    assert_int_equal(event.metric_kind, WEIR_METRIC_NIL);
    assert_int_equal(event.attribute_count, 3);
    assert_bytes(event.attributes[0].key, "k");
    assert_bytes(event.attributes[1].key, "");
    assert_bytes(event.attributes[2].key, "hosts");
    assert_bytes(event.attributes[2].value, "v");
}

static void unknown_and_dead_fields_are_skipped(void **state)
{
    (void)state;
    /* states (field 4) with 2 bytes, an unknown field 31, then query "true" */
    struct weir_message message = DECODE("\x22\x02\x08\x01\xf8\x01\x05\x2a\x06\x0a\x04true");
    assert_int_equal(message.event_count, 0);
    assert_bytes(message.query, "true");
    assert_int_equal(weir_message_size_typed(&message), weir_message_size_reflect(&message));
}

static void garbage_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const struct { const char *data; size_t size; } bad[] = {
        { "\x32\x7f\x1a\x02\x61\x62", 6 },     /* a length beyond the end */
        { "\x00\x01", 2 },                     /* tag zero */
        { "\x32\x04\x4a\x02\x12\x00", 6 },     /* an attribute without its key */
        { "\x32\xff\xff\xff\xff\x0f", 6 },     /* 4 GiB claimed */
        { "GET / HTTP/1.1\r\n\r\n", 18 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weir_message message;
        struct weir_error error = WEIR_ERROR_INIT;
        assert_int_equal(weir_message_decode(&message, &arena, bad[i].data, bad[i].size, &error), -EBADMSG);
        assert_string_not_equal(error.text, "");
    }
}

static void the_arena_limit_holds(void **state)
{
    (void)state;
    /* 50,000 empty events: 100 kB of frame, 84 times as much in memory. */
    size_t size = 100000;
    uint8_t *data = malloc(size);
    for (size_t i = 0; i < size; i += 2) {
        data[i] = 0x32;
        data[i + 1] = 0;
    }
    struct weir_arena small;
    weir_arena_init(&small, 0, 1 << 20);
    struct weir_message message;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_message_decode(&message, &small, data, size, &error), -ENOMEM);
    assert_non_null(strstr(error.text, "1048576 bytes"));
    assert_true(small.used_bytes <= 1 << 20);
    weir_arena_release(&small);
    assert_int_equal(decode(data, size).event_count, 50000);
    free(data);
}

static struct weir_message once_around(const struct weir_message *message)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode(message, &out, NULL), 0);
    struct weir_message again = decode(out.data, out.length);
    weir_buffer_release(&out);
    return again;
}

static void invalid_utf8_is_replaced_when_encoded(void **state)
{
    (void)state;
    struct weir_event event = { .host = BYTES("a\xc3\x28"), .service = BYTES("n\0l"), .state = BYTES("gr\xc3\xbc\xc3\x9f") };
    struct weir_message message = { .events = &event, .event_count = 1 };
    struct weir_message again = once_around(&message);
    assert_bytes(again.events[0].host, "a\xef\xbf\xbd(");
    assert_bytes(again.events[0].service, "n\0l");
    assert_bytes(again.events[0].state, "gr\xc3\xbc\xc3\x9f");
}

/* What protobuf-c's own view of the one event's metric and time is. */
static WeirRiemann__Event *packed_event(const struct weir_event *event, WeirRiemann__Msg **msg)
{
    struct weir_message message = { .events = (struct weir_event *)(uintptr_t)event, .event_count = 1 };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode(&message, &out, NULL), 0);
    *msg = weir_riemann__msg__unpack(NULL, out.length, (const uint8_t *)out.data);
    weir_buffer_release(&out);
    assert_non_null(*msg);
    return (*msg)->events[0];
}

static void every_metric_field_says_the_same(void **state)
{
    (void)state;
    static const struct { struct weir_event event; bool i, d, f; } cases[] = {
        { { .metric_kind = WEIR_METRIC_INT, .metric_int = -42 }, true, false, true },
        { { .metric_kind = WEIR_METRIC_INT, .metric_int = 16777217 }, true, false, true },
        { { .metric_kind = WEIR_METRIC_INT, .metric_int = INT64_MAX }, true, false, true },
        { { .metric_kind = WEIR_METRIC_INT, .metric_int = INT64_MIN }, true, false, true },
        { { .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = 1.5 }, false, true, true },
        { { .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = 0.1 }, false, true, true },
        { { .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = 1e300 }, false, true, false },
        { { .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = -INFINITY }, false, true, true },
        { { .metric_kind = WEIR_METRIC_FLOAT, .metric_double = 0.25 }, false, false, true },
        { { .metric_kind = WEIR_METRIC_NIL }, false, false, false },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        WeirRiemann__Msg *msg;
        const WeirRiemann__Event *raw = packed_event(&cases[k].event, &msg);
        assert_int_equal(raw->has_metric_sint64, cases[k].i);
        assert_int_equal(raw->has_metric_d, cases[k].d);
        assert_int_equal(raw->has_metric_f, cases[k].f);
        if (cases[k].i)
            assert_true(raw->metric_sint64 == cases[k].event.metric_int);
        if (cases[k].i && cases[k].f)
            assert_true(raw->metric_f == (float)cases[k].event.metric_int);
        if (cases[k].d && cases[k].f)
            assert_true(raw->metric_f == (float)raw->metric_d);
        weir_riemann__msg__free_unpacked(msg, NULL);
    }
}

static void time_goes_in_both_fields(void **state)
{
    (void)state;
    struct weir_event event = { .has_time = true, .time_us = -1 };
    WeirRiemann__Msg *msg;
    const WeirRiemann__Event *raw = packed_event(&event, &msg);
    assert_int_equal(raw->time, -1);
    assert_int_equal(raw->time_micros, -1);
    weir_riemann__msg__free_unpacked(msg, NULL);
    event.time_us = 1700000000999999;
    raw = packed_event(&event, &msg);
    assert_int_equal(raw->time, 1700000000);
    weir_riemann__msg__free_unpacked(msg, NULL);
}

static void the_acknowledgement_is_what_encode_gives(void **state)
{
    (void)state;
    struct weir_message message = { .has_ok = true, .ok = true };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode_framed(&message, &out, NULL), 0);
    assert_int_equal(out.length, sizeof weir_message_ack);
    assert_memory_equal(out.data, weir_message_ack, sizeof weir_message_ack);
    weir_buffer_release(&out);
}

static void a_refusal_carries_its_reason(void **state)
{
    (void)state;
    struct weir_message message = { .has_ok = true, .ok = false, .error = BYTES("overloaded") };
    struct weir_message again = once_around(&message);
    assert_true(again.has_ok);
    assert_false(again.ok);
    assert_bytes(again.error, "overloaded");
}

/* --- random messages --- */

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static struct weir_bytes random_bytes(void)
{
    if (draw(4) == 0)
        return (struct weir_bytes){ NULL, 0 };
    size_t size = draw(20);
    char *text = weir_arena_alloc(&arena, size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)draw(128);
    return (struct weir_bytes){ (uint8_t *)text, size };
}

static struct weir_bytes some_bytes(void)
{
    struct weir_bytes bytes = random_bytes();
    return bytes.data ? bytes : BYTES("");
}

static void random_event(struct weir_event *event)
{
    struct weir_bytes *tags = weir_arena_alloc(&arena, 4 * sizeof *tags);
    struct weir_attribute *attributes = weir_arena_alloc(&arena, 4 * sizeof *attributes);
    *event = (struct weir_event){ .host = random_bytes(), .service = random_bytes(), .state = random_bytes(),
        .description = random_bytes(), .tags = tags, .attributes = attributes, .tag_count = draw(4), .attribute_count = draw(4),
        .has_time = draw(2), .has_ttl = draw(2), .metric_kind = (enum weir_metric_kind)draw(4) };
    for (uint32_t i = 0; i < event->tag_count; i++)
        tags[i] = some_bytes();
    for (uint32_t i = 0; i < event->attribute_count; i++)
        attributes[i] = (struct weir_attribute){ some_bytes(), random_bytes() };
    if (event->has_time)
        event->time_us = (int64_t)draw(1u << 24) * 1000003 - 5000000;
    if (event->has_ttl)
        event->ttl = (float)draw(1000) / 7;
    if (event->metric_kind == WEIR_METRIC_INT)
        event->metric_int = (int64_t)((uint64_t)draw(1u << 24) << draw(40)) - 77;
    if (event->metric_kind == WEIR_METRIC_DOUBLE)
        event->metric_double = (double)draw(1u << 24) / 3;
    if (event->metric_kind == WEIR_METRIC_FLOAT)
        event->metric_double = (double)((float)draw(1u << 24) / 3);
}

static void same_bytes(struct weir_bytes a, struct weir_bytes b)
{
    assert_int_equal(a.data == NULL, b.data == NULL);
    assert_int_equal(a.size, b.size);
    if (a.size)
        assert_memory_equal(a.data, b.data, a.size);
}

static void same_event(const struct weir_event *a, const struct weir_event *b)
{
    same_bytes(a->host, b->host);
    same_bytes(a->service, b->service);
    same_bytes(a->state, b->state);
    same_bytes(a->description, b->description);
    assert_int_equal(a->tag_count, b->tag_count);
    for (uint32_t i = 0; i < a->tag_count; i++)
        same_bytes(a->tags[i], b->tags[i]);
    assert_int_equal(a->attribute_count, b->attribute_count);
    for (uint32_t i = 0; i < a->attribute_count; i++) {
        same_bytes(a->attributes[i].key, b->attributes[i].key);
        same_bytes(a->attributes[i].value, b->attributes[i].value);
    }
    assert_int_equal(a->has_time, b->has_time);
    assert_int_equal(a->time_us, b->time_us);
    assert_int_equal(a->has_ttl, b->has_ttl);
    assert_true(a->ttl == b->ttl);
    assert_int_equal(a->metric_kind, b->metric_kind);
    assert_int_equal(a->metric_int, b->metric_int);
    assert_true(a->metric_double == b->metric_double);
}

static void random_messages_come_back_and_have_one_size(void **state)
{
    (void)state;
    for (seed = 1; seed < 2000; seed += 7) {
        uint32_t kept = seed;
        struct weir_event events[20];
        struct weir_message message = { .has_ok = draw(2), .error = random_bytes(), .query = random_bytes(), .events = events,
                                        .event_count = draw(20) };
        message.ok = message.has_ok && draw(2);
        for (size_t i = 0; i < message.event_count; i++)
            random_event(&events[i]);
        struct weir_message again = once_around(&message);
        assert_int_equal(message.has_ok, again.has_ok);
        assert_int_equal(message.ok, again.ok);
        same_bytes(message.error, again.error);
        same_bytes(message.query, again.query);
        assert_int_equal(message.event_count, again.event_count);
        for (size_t i = 0; i < message.event_count; i++)
            same_event(&events[i], &again.events[i]);
        assert_int_equal(weir_message_size_typed(&again), weir_message_size_reflect(&again));
        assert_true(weir_message_size_typed(&again) <= arena.used_bytes);
        weir_arena_reset(&arena);
        seed = kept;
    }
}

static void the_size_is_what_the_tree_holds(void **state)
{
    (void)state;
    struct weir_bytes tags[2] = { BYTES("one"), BYTES("three") };
    struct weir_attribute attribute = { BYTES("key"), BYTES("value") };
    struct weir_event event = { .host = BYTES("host"), .tags = tags, .tag_count = 2, .attributes = &attribute, .attribute_count = 1 };
    struct weir_message message = { .events = &event, .event_count = 1 };
    struct weir_message again = once_around(&message);
    size_t want = sizeof(WeirRiemann__Msg) + sizeof(void *) + sizeof(WeirRiemann__Event) + 4 + 2 * sizeof(ProtobufCBinaryData) + 8 +
                  sizeof(void *) + sizeof(WeirRiemann__Attribute) + 8;
    assert_int_equal(weir_message_size_reflect(&again), want);
    assert_int_equal(weir_message_size_typed(&again), want);
    assert_int_equal(weir_message_size_typed(&message), 0);
    assert_int_equal(weir_message_size_reflect(&message), 0);
}

/* The copy lives when the original's memory is gone, absent differs from empty in it, and its own limit holds. */
static void a_copy_stands_alone(void **state)
{
    (void)state;
    struct weir_arena from, to;
    struct weir_bytes tags[] = { { (const uint8_t *)"x", 1 }, { (const uint8_t *)"", 0 } };
    struct weir_attribute attributes[] = { { { (const uint8_t *)"k\0", 2 }, { (const uint8_t *)"v", 1 } } };
    struct weir_event event = { .host = { (const uint8_t *)"h", 1 }, .state = { (const uint8_t *)"", 0 }, .tags = tags, .tag_count = 2,
                                .attributes = attributes, .attribute_count = 1, .metric_kind = WEIR_METRIC_INT, .metric_int = -7 };
    struct weir_message message = { .query = { (const uint8_t *)"true", 4 }, .events = &event, .event_count = 1 }, copy;
    struct weir_buffer before = WEIR_BUFFER_INIT, after = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode(&message, &before, NULL), 0);
    weir_arena_init(&from, 0, SIZE_MAX);
    weir_arena_init(&to, 0, SIZE_MAX);
    struct weir_message decoded = { .raw = NULL };
    assert_int_equal(weir_message_decode(&decoded, &from, before.data, before.length, NULL), 0);
    assert_int_equal(weir_message_copy(&copy, &decoded, &to), 0);
    weir_arena_release(&from);
    assert_null(copy.raw);
    assert_int_equal(weir_message_encode(&copy, &after, NULL), 0);
    assert_int_equal(after.length, before.length);
    assert_memory_equal(after.data, before.data, before.length);
    weir_arena_release(&to);
    /* Wherever memory ends the target stays as it was. */
    for (size_t limit = 0; limit < 512; limit += 16) {
        struct weir_message target = { .event_count = 99 };
        weir_arena_init(&to, 0, limit);
        int rc = weir_message_copy(&target, &message, &to);
        assert_int_equal(target.event_count, rc == 0 ? 1 : 99);
        assert_true(rc == 0 || rc == -ENOMEM);
        weir_arena_release(&to);
    }
    weir_buffer_release(&before);
    weir_buffer_release(&after);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_stands_alone),
        TEST(an_empty_message_is_valid),
        TEST(fields_are_decoded),
        TEST(nil_is_not_the_empty_string),
        TEST(metrics_have_a_precedence),
        TEST(microseconds_beat_seconds),
        TEST(attributes_overwrite_fixed_fields),
        TEST(unknown_and_dead_fields_are_skipped),
        TEST(garbage_is_refused_with_a_sentence),
        TEST(the_arena_limit_holds),
        TEST(invalid_utf8_is_replaced_when_encoded),
        TEST(every_metric_field_says_the_same),
        TEST(time_goes_in_both_fields),
        TEST(the_acknowledgement_is_what_encode_gives),
        TEST(a_refusal_carries_its_reason),
        TEST(random_messages_come_back_and_have_one_size),
        TEST(the_size_is_what_the_tree_holds),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
