/* What a server with an index answers to queries, through the wire. */
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <riemann.pb-c.h>

#include "pipeline_dsl/wire/message.h"
#include "tests/query_table.h"
#include "tests/system/harness.h"

static struct harness_server server;
static struct weir_arena arena;
static int fd;

static int start(void **state)
{
    (void)state;
    harness_run_riemann(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_stop(&server);
    return 0;
}

/* Each test has a connection of its own, and finds an index without events. */
static int set_up(void **state)
{
    (void)state;
    weir_arena_init(&arena, 0, SIZE_MAX);
    fd = harness_connect(server.port);
    return fd < 0 ? -1 : 0;
}

static struct weir_bytes text(const char *string)
{
    return string ? (struct weir_bytes){ (const uint8_t *)string, strlen(string) } : (struct weir_bytes){ NULL, 0 };
}

static void send_message(const struct weir_message *message)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode_framed(message, &out, NULL), 0);
    assert_true(harness_send(fd, out.data, out.length));
    weir_buffer_release(&out);
}

/* The bytes of the next reply. */
static const uint8_t *receive(size_t *size)
{
    uint8_t header[4];
    assert_true(harness_receive(fd, header, sizeof header));
    *size = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    uint8_t *payload = weir_arena_alloc(&arena, *size);
    assert_true(harness_receive(fd, payload, *size));
    return payload;
}

static struct weir_message reply(void)
{
    size_t size;
    struct weir_message message;
    const uint8_t *payload = receive(&size);
    assert_int_equal(weir_message_decode(&message, &arena, payload, size, NULL), 0);
    assert_true(message.has_ok);
    return message;
}

static struct weir_message ask(const char *query)
{
    struct weir_message message = { .query = text(query) };
    send_message(&message);
    return reply();
}

static void put(const struct weir_event *events, size_t count)
{
    struct weir_message message = { .events = (struct weir_event *)(uintptr_t)events, .event_count = count };
    send_message(&message);
    assert_true(reply().ok);
}

/* Deletes what the events of this reply are. */
static void forget(const struct weir_message *found)
{
    for (size_t i = 0; i < found->event_count; i++) {
        struct weir_event gone = { .host = found->events[i].host, .service = found->events[i].service, .state = text("expired") };
        put(&gone, 1);
    }
}

static int tear_down(void **state)
{
    (void)state;
    struct weir_message all = ask("true");
    assert_true(all.ok);
    forget(&all);
    all = ask("true");
    int rc = all.event_count ? -1 : 0;
    close(fd);
    weir_arena_release(&arena);
    return rc;
}

static void expect(const char *query, size_t events)
{
    struct weir_message found = ask(query);
    if (!found.ok || found.event_count != events)
        fail_msg("%s: %zu events, %.*s", query, found.event_count, (int)found.error.size, (const char *)found.error.data);
}

static void expect_error(const struct weir_message *found, const char *start, const char *words)
{
    assert_false(found->ok);
    assert_int_equal(found->event_count, 0);
    char *sentence = weir_arena_dup(&arena, found->error.data, found->error.size);
    if (strncmp(sentence, start, strlen(start)) != 0 || !strstr(sentence, words))
        fail_msg("%s", sentence);
}

/* --- the tables of tests/cases/query --------------------------------------------------------------------------------------- */

static bool same(struct weir_bytes a, struct weir_bytes b)
{
    return !a.data == !b.data && a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}

/* Which events of the table the reply has; hosts and services of the tables come back as they went. */
static uint64_t set_of(const struct query_table *table, const struct weir_message *found)
{
    uint64_t set = 0;
    for (size_t i = 0; i < found->event_count; i++)
        for (size_t k = 0; k < table->event_count; k++)
            if (same(found->events[i].host, table->events[k].host) && same(found->events[i].service, table->events[k].service))
                set |= (uint64_t)1 << k;
    return set;
}

static bool holds(const struct query_table *table, const struct query_table_case *one)
{
    struct weir_message message = { .events = (struct weir_event *)(uintptr_t)table->events, .event_count = table->event_count,
                                    .query = text(one->expression) };
    send_message(&message);
    struct weir_message found = reply();
    if (one->error) {
        char place[64] = "";
        if (one->error_line)
            snprintf(place, sizeof place, "parse error: line %u, column %u: ", one->error_line, one->error_column);
        char *sentence = weir_arena_dup(&arena, found.error.data, found.error.size);
        return !found.ok && strncmp(sentence, place, strlen(place)) == 0 && strstr(sentence, one->error);
    }
    return found.ok && set_of(table, &found) == one->matching && found.event_count == (size_t)__builtin_popcountll(one->matching);
}

/* Every message brings the table's events again: one whose time is long ago may be taken out between two messages. It may even be
 * between the events of a message and its query, and so what does not hold is asked once more. */
static void every_case_of_the_tables_holds(void **state)
{
    (void)state;
    glob_t found;
    size_t cases = 0, wrong = 0;
    assert_int_equal(glob("tests/cases/query/*.table", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct query_table *table = malloc(sizeof *table);
        query_table_load(table, found.gl_pathv[i]);
        for (size_t k = 0; k < table->case_count; k++, cases++)
            if (!holds(table, &table->cases[k]) && !holds(table, &table->cases[k])) {
                print_error("%s:%u: %s\n", table->path, table->cases[k].line, table->cases[k].expression);
                wrong++;
            }
        struct weir_message all = { .events = table->events, .event_count = table->event_count };
        forget(&all);
        query_table_release(table);
        free(table);
    }
    globfree(&found);
    assert_int_equal(wrong, 0);
    assert_true(cases >= 150);
}

/* --- requests and replies ------------------------------------------------------------------------------------------------- */

static void events_of_a_message_come_before_its_query(void **state)
{
    (void)state;
    struct weir_event events[] = { { .host = text("h"), .service = text("s"), .metric_kind = WEIR_METRIC_INT, .metric_int = 1 },
                                   { .host = text("h"), .service = text("s"), .metric_kind = WEIR_METRIC_INT, .metric_int = 2 } };
    struct weir_message message = { .events = events, .event_count = 2, .query = text("host = \"h\" and service = \"s\"") };
    send_message(&message);
    struct weir_message found = reply();
    assert_true(found.ok);
    assert_int_equal(found.event_count, 1);
    assert_int_equal(found.events[0].metric_int, 2);
}

static void nothing_found_is_ok_without_events(void **state)
{
    (void)state;
    static const char *const queries[] = { "false", "host = \"no\" and service = \"such\"", "host = \"no\"" };
    for (size_t i = 0; i < 3; i++) {
        struct weir_message message = { .query = text(queries[i]) };
        size_t size;
        send_message(&message);
        const uint8_t *bytes = receive(&size);
        assert_int_equal(size, 2);
        assert_memory_equal(bytes, "\x10\x01", 2);
    }
}

static void what_is_no_query_is_told_and_the_connection_lives(void **state)
{
    (void)state;
    struct weir_event event = { .host = text("h"), .service = text("s") };
    struct weir_message found = ask("metric == 1"), message = { .events = &event, .event_count = 1, .query = text("(((") };
    expect_error(&found, "parse error: line 1, column 8: ", "`==` is no operator");
    found = ask("");
    expect_error(&found, "parse error: ", "");
    send_message(&message);
    found = reply();
    expect_error(&found, "parse error: ", "");
    expect("true", 1); /* its events came in all the same */
    assert_true(harness_send(fd, "\0\0\0\2\x2a\0", 6)); /* a query without a text */
    found = reply();
    expect_error(&found, "parse error: ", "");
    expect("true", 1);
}

static void without_an_index_a_query_is_an_error(void **state)
{
    (void)state;
    char error[200];
    struct harness_server bare;
    harness_run(&bare, "pool io threads 1\npipeline bare {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                       "    decode riemann\n    encode riemann\n    reply\n}\n");
    int other = harness_connect(bare.port);
    assert_true(harness_send(other, "\0\0\0\10\x2a\6\12\4true", 12));
    assert_int_equal(harness_reply(other, error, sizeof error), 0);
    assert_string_equal(error, "no index");
    close(other);
    harness_stop(&bare);
}

static void all_of_many_events_come_back(void **state)
{
    (void)state;
    enum { EVENTS = 30000, EACH = 1000 };
    static char names[EACH][16];
    static struct weir_event events[EACH];
    static uint8_t met[EVENTS];
    for (int at = 0; at < EVENTS; at += EACH) {
        for (int i = 0; i < EACH; i++) {
            snprintf(names[i], sizeof *names, "s%d", at + i);
            events[i] = (struct weir_event){ .host = text("many"), .service = text(names[i]), .metric_kind = WEIR_METRIC_INT,
                                             .metric_int = at + i };
        }
        put(events, EACH);
    }
    struct weir_message found = ask("host = \"many\" and metric >= 100");
    assert_true(found.ok);
    assert_int_equal(found.event_count, EVENTS - 100);
    memset(met, 0, sizeof met);
    for (size_t i = 0; i < found.event_count; i++) {
        assert_true(found.events[i].metric_int >= 100 && found.events[i].metric_int < EVENTS);
        met[found.events[i].metric_int]++;
    }
    for (int i = 0; i < EVENTS; i++)
        assert_int_equal(met[i], i >= 100);
    for (int at = 0; at < EVENTS; at += EACH) {
        for (int i = 0; i < EACH; i++) {
            snprintf(names[i], sizeof *names, "s%d", at + i);
            events[i] = (struct weir_event){ .host = text("many"), .service = text(names[i]), .state = text("expired") };
        }
        put(events, EACH);
    }
}

static void a_reply_beyond_64_mib_is_an_error(void **state)
{
    (void)state;
    enum { EVENTS = 66, BYTES = 1 << 20 };
    char *description = malloc(BYTES), name[16];
    memset(description, 'd', BYTES);
    struct weir_event event = { .host = text("large"), .description = { (const uint8_t *)description, BYTES } };
    for (int i = 0; i < EVENTS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        event.service = text(name);
        put(&event, 1);
    }
    struct weir_message found = ask("host = \"large\"");
    expect_error(&found, "query error: ", "larger than 64 MiB");
    found = ask("host = \"large\" and service =~ \"s1%\"");
    assert_true(found.ok);
    assert_int_equal(found.event_count, 11);
    event.description = text(NULL);
    event.state = text("expired");
    for (int i = 0; i < EVENTS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        event.service = text(name);
        put(&event, 1);
    }
    free(description);
}

/* --- fields --------------------------------------------------------------------------------------------------------------- */

/* The one event of the next reply, as protobuf has it. */
static WeirRiemann__Msg *raw_reply(void)
{
    size_t size;
    const uint8_t *bytes = receive(&size);
    WeirRiemann__Msg *raw = weir_riemann__msg__unpack(NULL, size, bytes);
    assert_non_null(raw);
    assert_int_equal(raw->n_events, 1);
    return raw;
}

static WeirRiemann__Msg *put_and_find(struct weir_event event)
{
    struct weir_message message = { .events = &event, .event_count = 1, .query = text("true") };
    event.host = text("h");
    event.service = text("s");
    send_message(&message);
    return raw_reply();
}

static void metrics_come_back_as_they_went(void **state)
{
    (void)state;
    static const int64_t integers[] = { 0, -1, 42, 16777217, 9007199254740993, -9007199254740993, INT64_MAX, INT64_MIN };
    static const double doubles[] = { 0, -0.0, 1.5, 0.1, 1e300, NAN, INFINITY, -INFINITY, 5e-324 };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        WeirRiemann__Msg *raw = put_and_find((struct weir_event){ .metric_kind = WEIR_METRIC_INT, .metric_int = integers[i] });
        assert_true(raw->events[0]->has_metric_sint64 && raw->events[0]->metric_sint64 == integers[i]);
        assert_true(raw->events[0]->has_metric_f && raw->events[0]->metric_f == (float)integers[i]);
        assert_false(raw->events[0]->has_metric_d);
        weir_riemann__msg__free_unpacked(raw, NULL);
    }
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        WeirRiemann__Msg *raw = put_and_find((struct weir_event){ .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = doubles[i] });
        assert_true(raw->events[0]->has_metric_d);
        assert_memory_equal(&raw->events[0]->metric_d, &doubles[i], sizeof doubles[i]);
        assert_int_equal(raw->events[0]->has_metric_f, doubles[i] != 1e300);
        assert_false(raw->events[0]->has_metric_sint64);
        weir_riemann__msg__free_unpacked(raw, NULL);
    }
    WeirRiemann__Msg *raw = put_and_find((struct weir_event){ .metric_kind = WEIR_METRIC_FLOAT, .metric_double = (double)0.1f });
    assert_true(raw->events[0]->has_metric_f && raw->events[0]->metric_f == 0.1f);
    assert_false(raw->events[0]->has_metric_d || raw->events[0]->has_metric_sint64);
    weir_riemann__msg__free_unpacked(raw, NULL);
    raw = put_and_find((struct weir_event){ .metric_kind = WEIR_METRIC_NIL });
    assert_false(raw->events[0]->has_metric_f || raw->events[0]->has_metric_d || raw->events[0]->has_metric_sint64);
    weir_riemann__msg__free_unpacked(raw, NULL);
}

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void an_event_without_a_time_gets_the_servers_in_microseconds(void **state)
{
    (void)state;
    bool whole_ms = true;
    for (int i = 0; i < 5; i++) {
        int64_t before = clock_us();
        WeirRiemann__Msg *raw = put_and_find((struct weir_event){ .has_time = false });
        assert_true(raw->events[0]->has_time_micros && raw->events[0]->has_time);
        assert_true(raw->events[0]->time_micros >= before && raw->events[0]->time_micros <= clock_us());
        assert_int_equal(raw->events[0]->time, raw->events[0]->time_micros / 1000000);
        whole_ms &= raw->events[0]->time_micros % 1000 == 0;
        weir_riemann__msg__free_unpacked(raw, NULL);
    }
    assert_false(whole_ms);
}

static void absent_and_empty_are_two_keys(void **state)
{
    (void)state;
    static const char *const values[] = { NULL, "", "x" };
    static const char *const words[] = { "nil", "\"\"", "\"x\"" };
    char query[80];
    for (int h = 0; h < 3; h++)
        for (int s = 0; s < 3; s++) {
            struct weir_event event = { .host = text(values[h]), .service = text(values[s]), .metric_kind = WEIR_METRIC_INT,
                                        .metric_int = h * 3 + s, .description = text("") };
            put(&event, 1);
        }
    expect("true", 9);
    expect("host = nil", 3);
    expect("service = \"\"", 3);
    expect("description = nil", 0);
    for (int h = 0; h < 3; h++)
        for (int s = 0; s < 3; s++) {
            snprintf(query, sizeof query, "service = %s and host = %s", words[s], words[h]);
            struct weir_message found = ask(query);
            assert_true(found.ok);
            assert_int_equal(found.event_count, 1);
            assert_int_equal(found.events[0].metric_int, h * 3 + s);
            assert_int_equal(!found.events[0].host.data, !values[h]);
            assert_int_equal(!found.events[0].service.data, !values[s]);
            assert_non_null(found.events[0].description.data);
            assert_null(found.events[0].state.data);
        }
}

static void a_nul_is_a_byte_of_a_key(void **state)
{
    (void)state;
    struct weir_event events[] = { { .host = { (const uint8_t *)"a\0b", 3 }, .service = text("s") },
                                   { .host = { (const uint8_t *)"a\0c", 3 }, .service = text("s") },
                                   { .host = text("a"), .service = text("s") } };
    put(events, 3);
    expect("true", 3);
    expect("host = \"a\" and service = \"s\"", 1);
    struct weir_message found = ask("host = \"a\\u0000c\"");
    assert_int_equal(found.event_count, 1);
    assert_int_equal(found.events[0].host.size, 3);
    assert_memory_equal(found.events[0].host.data, "a\0c", 3);
}

static void send_event_bytes(const char *bytes, size_t size)
{
    const uint8_t head[] = { 0, 0, 0, (uint8_t)(size + 2), 0x32, (uint8_t)size };
    assert_true(harness_send(fd, head, sizeof head));
    assert_true(harness_send(fd, bytes, size));
}

static void what_is_no_utf8_comes_back_as_utf8(void **state)
{
    (void)state;
    static const char repaired[] = "x\xef\xbf\xbd(";
    /* As a client in C sends it; the encoder here would repair it: host h; service, state, a tag, an attribute's key and value. */
    static const char event_bytes[] = "\x22\1h" "\x1a\3x\xc3(" "\x12\3x\xc3(" "\x3a\3x\xc3(" "\x4a\x0a\x0a\3x\xc3(\x12\3x\xc3(";
    send_event_bytes(event_bytes, sizeof event_bytes - 1);
    assert_true(reply().ok);
    struct weir_message found = ask("host = \"h\"");
    assert_true(found.ok);
    assert_int_equal(found.event_count, 1);
    const struct weir_event *e = &found.events[0];
    struct weir_bytes all[] = { e->service, e->state, e->tags[0], e->attributes[0].key, e->attributes[0].value };
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(all[i].size, sizeof repaired - 1);
        assert_memory_equal(all[i].data, repaired, sizeof repaired - 1);
    }
    /* The index has the key as it came. */
    static const char expired_bytes[] = "\x22\1h" "\x1a\3x\xc3(" "\x12\7expired";
    send_event_bytes(expired_bytes, sizeof expired_bytes - 1);
    assert_true(reply().ok);
    expect("true", 0);
}

static void attributes_overwrite_fields(void **state)
{
    (void)state;
    struct weir_attribute attributes[] = { { text("host"), text("other") }, { text("description"), text("words") },
                                           { text("ttl"), text("1") }, { text("metric"), text("1") }, { text("x"), text("y") } };
    struct weir_event event = { .host = text("h"), .service = text("s"), .attributes = attributes, .attribute_count = 5 };
    put(&event, 1);
    expect("host = \"h\"", 0);
    struct weir_message found = ask("host = \"other\" and service = \"s\"");
    assert_int_equal(found.event_count, 1);
    assert_memory_equal(found.events[0].description.data, "words", 5);
    assert_int_equal(found.events[0].metric_kind, WEIR_METRIC_NIL);
    assert_false(found.events[0].has_ttl);
    assert_int_equal(found.events[0].attribute_count, 1);
    expect("x = \"y\"", 1);
    expect("ttl = nil and metric = nil", 1);
}

static void expired_deletes(void **state)
{
    (void)state;
    struct weir_event event = { .host = text("h"), .service = text("s"), .state = text("Expired") };
    put(&event, 1);
    expect("true", 1);
    event.state = text("expired");
    put(&event, 1);
    expect("true", 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_case_of_the_tables_holds),
        TEST(events_of_a_message_come_before_its_query),
        TEST(nothing_found_is_ok_without_events),
        TEST(what_is_no_query_is_told_and_the_connection_lives),
        TEST(without_an_index_a_query_is_an_error),
        TEST(all_of_many_events_come_back),
        TEST(a_reply_beyond_64_mib_is_an_error),
        TEST(metrics_come_back_as_they_went),
        TEST(an_event_without_a_time_gets_the_servers_in_microseconds),
        TEST(absent_and_empty_are_two_keys),
        TEST(a_nul_is_a_byte_of_a_key),
        TEST(what_is_no_utf8_comes_back_as_utf8),
        TEST(attributes_overwrite_fields),
        TEST(expired_deletes),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
