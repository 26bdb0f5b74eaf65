/* message_encode: byte for byte what protobuf-c packs from what it reads of it, over events of every shape. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <riemann.pb-c.h>

#include "pipeline_dsl/wire/frame.h"
#include "pipeline_dsl/wire/message.h"

/* Nothing but known fields, in their order, none twice. */
static void check_packed(const uint8_t *data, size_t size)
{
    WeirRiemann__Msg *raw = weir_riemann__msg__unpack(NULL, size, data);
    assert_non_null(raw);
    assert_int_equal(weir_riemann__msg__get_packed_size(raw), size);
    uint8_t *again = malloc(size + 1);
    assert_int_equal(weir_riemann__msg__pack(raw, again), size);
    if (size)
        assert_memory_equal(again, data, size);
    free(again);
    weir_riemann__msg__free_unpacked(raw, NULL);
}

static void check_bytes(struct weir_bytes is, struct weir_bytes want)
{
    assert_int_equal(is.data != NULL, want.data != NULL);
    assert_int_equal(is.size, want.data ? want.size : 0);
    if (is.size)
        assert_memory_equal(is.data, want.data, is.size);
}

static void check_event(const struct weir_event *is, const struct weir_event *want)
{
    check_bytes(is->host, want->host);
    check_bytes(is->service, want->service);
    check_bytes(is->state, want->state);
    check_bytes(is->description, want->description);
    assert_int_equal(is->tag_count, want->tag_count);
    for (uint32_t i = 0; i < want->tag_count; i++)
        check_bytes(is->tags[i], want->tags[i]);
    assert_int_equal(is->has_ttl, want->has_ttl);
    assert_true(!want->has_ttl || is->ttl == want->ttl);
    assert_int_equal(is->has_time, want->has_time);
    assert_true(!want->has_time || is->time_us == want->time_us);
    assert_int_equal(is->metric_kind, want->metric_kind);
    if (want->metric_kind == WEIR_METRIC_INT)
        assert_true(is->metric_int == want->metric_int);
    else if (want->metric_kind != WEIR_METRIC_NIL)
        assert_memory_equal(&is->metric_double, &want->metric_double, sizeof want->metric_double);
}

/* Encodes both ways, behind other bytes; what comes back is what went in. */
static void check(const struct weir_message *message)
{
    struct weir_buffer bare = WEIR_BUFFER_INIT, framed = WEIR_BUFFER_INIT;
    struct weir_arena arena;
    struct weir_message again;
    weir_buffer_puts(&bare, "x");
    assert_int_equal(weir_message_encode(message, &bare, NULL), 0);
    assert_int_equal(weir_message_encode_framed(message, &framed, NULL), 0);
    struct weir_frame cut = weir_frame_cut(framed.data, framed.length, UINT32_MAX);
    assert_int_equal(cut.kind, WEIR_FRAME_WHOLE);
    assert_int_equal(cut.total, framed.length);
    assert_int_equal(cut.length, bare.length - 1);
    if (cut.length)
        assert_memory_equal(framed.data + cut.offset, bare.data + 1, cut.length);
    check_packed((const uint8_t *)bare.data + 1, bare.length - 1);
    weir_arena_init(&arena, 0, SIZE_MAX);
    assert_int_equal(weir_message_decode(&again, &arena, bare.data + 1, bare.length - 1, NULL), 0);
    assert_int_equal(again.has_ok, message->has_ok);
    assert_int_equal(again.ok, message->ok);
    check_bytes(again.error, message->error);
    check_bytes(again.query, message->query);
    assert_int_equal(again.event_count, message->event_count);
    for (size_t i = 0; i < message->event_count; i++)
        check_event(&again.events[i], &message->events[i]);
    weir_arena_release(&arena);
    weir_buffer_release(&bare);
    weir_buffer_release(&framed);
}

static struct weir_bytes some_bytes(unsigned *seed, const uint8_t *pool)
{
    static const size_t sizes[] = { 0, 1, 7, 8, 9, 127, 128, 300, 17000 };
    if (rand_r(seed) % 4 == 0)
        return (struct weir_bytes){ NULL, 0 };
    return (struct weir_bytes){ pool + rand_r(seed) % 64, sizes[(unsigned)rand_r(seed) % (sizeof sizes / sizeof *sizes)] };
}

static void events_of_every_shape_come_back(void **state)
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
        check(&message);
    }
    free(pool);
}

static void a_reply_in_pieces_is_the_same_reply(void **state)
{
    (void)state;
    struct weir_event events[] = {
        { .host = { (const uint8_t *)"h", 1 }, .has_time = true, .time_us = 1 },
        { .service = { (const uint8_t *)"\xff", 1 }, .metric_kind = WEIR_METRIC_INT, .metric_int = 9007199254740993 },
        { .state = { (const uint8_t *)"", 0 } },
    };
    for (size_t count = 0; count <= 3; count++) {
        struct weir_message message = { .has_ok = true, .ok = true, .events = events, .event_count = count };
        struct weir_buffer whole = WEIR_BUFFER_INIT, pieces = WEIR_BUFFER_INIT;
        assert_int_equal(weir_message_encode_framed(&message, &whole, NULL), 0);
        weir_message_reply_begin(&pieces);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(weir_message_reply_add(&pieces, &events[i], NULL), 0);
        weir_message_reply_end(&pieces);
        assert_false(pieces.failed);
        assert_int_equal(pieces.length, whole.length);
        assert_memory_equal(pieces.data, whole.data, whole.length);
        weir_buffer_release(&whole);
        weir_buffer_release(&pieces);
    }
}

static void what_is_no_utf8_is_repaired_wherever_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repaired;
    } cases[] = {
        { "gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f" },
        { "\xc3\x28", "\xef\xbf\xbd(" },
        { "\xff", "\xef\xbf\xbd" },
        { "plain, and then \xe2\x82", "plain, and then \xef\xbf\xbd" },
        { "\xf0\x9f\x98\x80 and on", "\xf0\x9f\x98\x80 and on" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_bytes bytes = { (const uint8_t *)cases[i].text, strlen(cases[i].text) };
        struct weir_bytes want = { (const uint8_t *)cases[i].repaired, strlen(cases[i].repaired) };
        struct weir_attribute attribute = { bytes, bytes };
        struct weir_event event = { .host = bytes, .service = bytes, .state = bytes, .description = bytes, .tags = &bytes,
                                    .tag_count = 1, .attributes = &attribute, .attribute_count = 1 };
        struct weir_message message = { .has_ok = true, .error = bytes, .query = bytes, .events = &event, .event_count = 1 }, again;
        struct weir_buffer out = WEIR_BUFFER_INIT;
        struct weir_arena arena;
        weir_arena_init(&arena, 0, SIZE_MAX);
        assert_int_equal(weir_message_encode(&message, &out, NULL), 0);
        check_packed((const uint8_t *)out.data, out.length);
        assert_int_equal(weir_message_decode(&again, &arena, out.data, out.length, NULL), 0);
        const struct weir_event *got = &again.events[0];
        const struct weir_bytes all[] = { again.error, again.query, got->host, got->service, got->state, got->description,
                                          got->tags[0], got->attributes[0].key, got->attributes[0].value };
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            check_bytes(all[k], want);
        assert_ptr_equal(event.tags, &bytes); /* the caller's message is left alone */
        weir_buffer_release(&out);
        weir_arena_release(&arena);
    }
}

static void what_a_reply_holds_is_kept(void **state)
{
    (void)state;
    struct weir_message message = { .has_ok = true, .ok = true };
    check(&message);
    message = (struct weir_message){ .has_ok = true, .error = { (const uint8_t *)"no", 2 } };
    check(&message);
    message = (struct weir_message){ .error = { (const uint8_t *)"", 0 } };
    check(&message);
}

/* Lists can't hold what is absent: it goes as empty. */
static void absent_members_of_lists_are_empty(void **state)
{
    (void)state;
    struct weir_bytes tag = { NULL, 7 };
    struct weir_attribute attribute = { { NULL, 7 }, { NULL, 7 } };
    struct weir_event event = { .tags = &tag, .tag_count = 1, .attributes = &attribute, .attribute_count = 1 };
    struct weir_message message = { .events = &event, .event_count = 1 };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    static const uint8_t want[] = { 0x32, 6, 0x3a, 0, 0x4a, 2, 0x0a, 0 };
    assert_int_equal(weir_message_encode(&message, &out, NULL), 0);
    assert_int_equal(out.length, sizeof want);
    assert_memory_equal(out.data, want, sizeof want);
    check_packed(want, sizeof want);
    weir_buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_of_every_shape_come_back),
        cmocka_unit_test(a_reply_in_pieces_is_the_same_reply),
        cmocka_unit_test(what_is_no_utf8_is_repaired_wherever_it_stands),
        cmocka_unit_test(what_a_reply_holds_is_kept),
        cmocka_unit_test(absent_members_of_lists_are_empty),
    };
    return cmocka_run_group_tests_name("message_encode", tests, NULL, NULL);
}
