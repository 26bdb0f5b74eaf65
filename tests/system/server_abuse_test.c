/* Queries that are meant to hurt: each gets its error, memory stays bounded, and others are served meanwhile. */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "pipeline_dsl/wire/message.h"
#include "tests/system/harness.h"

#define MIB ((size_t)1 << 20)

static struct harness_server server;

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

/* `unit` again and again up to `size` bytes, `last` behind it. */
static char *repeat(const char *unit, size_t size, const char *last)
{
    size_t step = strlen(unit), count = size / step;
    char *text = malloc(count * step + strlen(last) + 1);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * step, unit, step);
    strcpy(text + count * step, last);
    return text;
}

/* harness_reply()'s answer to a message of this query, with an event of this description where there is one. */
static int exchange(int fd, const char *query, const char *description, char *error, size_t size)
{
    struct weir_event event = { .host = { (const uint8_t *)"h", 1 }, .service = { (const uint8_t *)"abuse", 5 } };
    struct weir_message message = { .events = &event, .event_count = description ? 1 : 0 };
    if (description)
        event.description = (struct weir_bytes){ (const uint8_t *)description, strlen(description) };
    if (query)
        message.query = (struct weir_bytes){ (const uint8_t *)query, strlen(query) };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    int rc = -1;
    if (weir_message_encode_framed(&message, &out, NULL) == 0 && harness_send(fd, out.data, out.length))
        rc = harness_reply(fd, error, size);
    weir_buffer_release(&out);
    return rc;
}

static void the_right_error_comes_and_memory_stays(void **state)
{
    (void)state;
    static const struct {
        const char *unit;
        size_t bytes;
        const char *last, *error;
    } rows[] = {
        { "(", MIB, "", "parse error: line 1, column 1: the query has 1048576 bytes, and 65536 are the most" },
        { "a = 1 or ", 15 * MIB, "b", "parse error: line 1, column 1: the query has" },
        { "(", 100000, "true", "parse error: line 1, column 1: the query has 100004 bytes" },
        { "(", 50000, "true", "parse error: line 1, column 201: more than 200 parentheses are open here" },
        { "not(", 60000, "true", "parse error: line 1, column 804: more than 200 parentheses are open here" },
        { "a=1 or ", 60000, "b", "parse error: line 1, column 7169: the query has more than 1024 comparisons" },
        { "\"\\u0041\" ", 60000, "", "parse error: line 1, column 10: `\"\\u0041\"` stands where an operator" },
        { "x ~= \"", 6, "((a{999}b){999}){999}\"", "parse error: line 1, column 6: the regular expression can't be used: regular expression is too large" },
        { "not ", 65000, "false", NULL },
    };
    int fd = harness_connect(server.port);
    size_t before = harness_resident(&server);
    for (int round = 0; round < 10; round++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char *query = repeat(rows[i].unit, rows[i].bytes, rows[i].last), error[512] = "";
            int rc = exchange(fd, query, NULL, error, sizeof error);
            if (rc != (rows[i].error ? 0 : 1) || (rows[i].error && strncmp(error, rows[i].error, strlen(rows[i].error)) != 0))
                fail_msg("%zu: %d, %s", i, rc, error);
            free(query);
        }
    close(fd);
    assert_true(harness_resident(&server) < before + harness_memory(96 * MIB)); /* a few frames of 15 MiB and what they decode to */
}

struct attack {
    const char *query;
    int answers[10]; /* harness_reply()'s */
    char error[512];
};

static void *attack(void *argument)
{
    struct attack *of = argument;
    int fd = harness_connect(server.port);
    for (size_t i = 0; i < 10; i++)
        of->answers[i] = exchange(fd, of->query, NULL, of->error, sizeof of->error);
    close(fd);
    return NULL;
}

static void an_exploding_expression_is_told_and_others_are_served(void **state)
{
    (void)state;
    int fd = harness_connect(server.port);
    char *text = repeat("a", 60, "b");
    assert_int_equal(exchange(fd, NULL, text, NULL, 0), 1);
    struct attack attacks[2] = { { .query = "description ~= \"(a+)+$\"" },
                                 { .query = "true and not description ~= \"^(([a-z])+.)+[A-Z]([a-z])+$\"" } };
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, attack, &attacks[i]), 0);
    int served = 0, refused = 0;
    char error[512];
    for (size_t i = 0; i < 50; i++)
        served += exchange(fd, "host = \"h\" and service = \"abuse\"", text, error, sizeof error) == 1;
    for (size_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 10; k++)
            refused += attacks[i].answers[k] == 0;
        assert_non_null(strstr(attacks[i].error, "query error: the regular expression"));
        assert_non_null(strstr(attacks[i].error, "takes too many steps"));
    }
    assert_int_equal(served, 50);
    assert_int_equal(refused, 20);
    assert_int_equal(exchange(fd, "description ~= \"^a+b$\"", NULL, NULL, 0), 1);
    free(text);
    close(fd);
}

/* 256 events of 3 KiB: a reply to `true` has 0.75 MiB, of which 85 fit. */
static void fill_with_large_events(int fd)
{
    char service[32], *text = repeat("x", (size_t)3 << 10, "");
    for (int i = 0; i < 256; i++) {
        snprintf(service, sizeof service, "large %d", i);
        struct weir_event event = { .host = { (const uint8_t *)"h", 1 }, .service = { (const uint8_t *)service, strlen(service) },
                                    .description = { (const uint8_t *)text, strlen(text) } };
        struct weir_message message = { .events = &event, .event_count = 1 };
        struct weir_buffer out = WEIR_BUFFER_INIT;
        assert_int_equal(weir_message_encode_framed(&message, &out, NULL), 0);
        assert_true(harness_send(fd, out.data, out.length));
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
        weir_buffer_release(&out);
    }
    free(text);
}

/* Until all but a few answers to so many requests wait to be read; the few are in the socket. */
static void await_answers(uint64_t count)
{
    for (int i = 0; i < 6000; i++) {
        harness_counters_refresh(&server);
        uint64_t queued = harness_counter(&server, "queues", "riemann.reply", "queued");
        if (queued <= count && queued >= count - count / 10)
            return;
        usleep(10000);
    }
    fail_msg("%" PRIu64 " answers never wait", count);
}

/* What it is refused holds no memory, and is not worked out first: the replies to 1,000 queries would have 750 MiB. */
static void large_replies_that_nobody_reads_are_not_made(void **state)
{
    (void)state;
    enum { QUERIES = 1000 };
    static const char query[] = "\0\0\0\10\x2a\6\12\4true"; /* with its NUL behind it */
    int fd = harness_connect(server.port), deaf = harness_connect(server.port);
    int made = 0, refused = 0, untouched = 0;
    char error[512];
    fill_with_large_events(fd);
    size_t before = harness_resident(&server);
    for (int i = 0; i < QUERIES; i++)
        assert_true(harness_send(deaf, query, sizeof query - 1));
    await_answers(QUERIES);
    assert_int_equal(exchange(fd, "host = \"h\" and service = \"large 7\"", NULL, error, sizeof error), 1);
    assert_true(harness_resident(&server) < before + harness_memory(160 * MIB)); /* the ring, and one in the making a worker */
    for (int i = 0; i < QUERIES; i++) {
        int rc = harness_reply(deaf, error, sizeof error);
        made += rc == 1;
        refused += rc == 0 && strncmp(error, "overloaded: ", 12) == 0;
        untouched += rc == 0 && strcmp(error, "overloaded: replies wait for this connection to read them") == 0;
    }
    assert_int_equal(made + refused, QUERIES);
    assert_in_range(made, 60, QUERIES - 1);
    assert_true(untouched > 0);
    /* All has been read: the connection is like any other. */
    assert_int_equal(exchange(deaf, "true", NULL, error, sizeof error), 1);
    /* What one leaves behind goes back to the machine. */
    for (int i = 0; i < QUERIES; i++)
        assert_true(harness_send(deaf, query, sizeof query - 1));
    await_answers(QUERIES);
    close(deaf);
    await_answers(0);
    assert_true(harness_resident(&server) < before + harness_memory(32 * MIB));
    close(fd);
}

static uint64_t server_cpu_ns(void)
{
    clockid_t clock;
    struct timespec now;
    assert_int_equal(clock_getcpuclockid(server.pid, &clock), 0);
    assert_int_equal(clock_gettime(clock, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A frame with a query that takes milliseconds, and then gets an error. */
static const char exploding[] = "\0\0\0\33\x2a\31\12\27description ~= \"(a+)+$\"";

/* What one of them takes, with the event that it explodes on. */
static uint64_t cost_of_exploding(int fd)
{
    enum { ASKED = 4 };
    char *text = repeat("a", 60, "b"), error[512];
    assert_int_equal(exchange(fd, NULL, text, NULL, 0), 1);
    free(text);
    uint64_t start = server_cpu_ns();
    for (int i = 0; i < ASKED; i++) {
        assert_true(harness_send(fd, exploding, sizeof exploding - 1));
        assert_int_equal(harness_reply(fd, error, sizeof error), 0);
        assert_non_null(strstr(error, "takes too many steps"));
    }
    return (server_cpu_ns() - start) / ASKED;
}

/* Others wait behind a few that explode, not behind all that one client has asked. */
static void exploding_expressions_count_together_until_they_are_answered(void **state)
{
    (void)state;
    enum { ASKED = 200 };
    static const char plain[] = "\0\0\0\21\x2a\17\12\15host = \"none\"";
    int fd = harness_connect(server.port), refused = 0;
    char error[512];
    uint64_t each = cost_of_exploding(fd), start = server_cpu_ns();
    for (int i = 0; i < ASKED; i++)
        assert_true(harness_send(fd, exploding, sizeof exploding - 1));
    assert_true(harness_send(fd, plain, sizeof plain - 1));
    for (int i = 0; i < ASKED; i++) {
        assert_int_equal(harness_reply(fd, error, sizeof error), 0);
        refused += strstr(error, "are not answered yet take too many steps; wait for the answers") != NULL;
    }
    assert_int_equal(harness_reply(fd, NULL, 0), 1); /* no expression */
    assert_in_range(refused, 1, ASKED - 1);
    if (server_cpu_ns() - start > each * ASKED / 2)
        fail_msg("%d queries took %" PRIu64 " ns of CPU, and one takes %" PRIu64, ASKED, server_cpu_ns() - start, each);
    assert_int_equal(exchange(fd, "description ~= \"^a+b$\"", NULL, NULL, 0), 1);
    close(fd);
}

/* Others need not wait until the queries of a client that has gone have been asked. */
static void a_client_that_goes_takes_its_queries_along(void **state)
{
    (void)state;
    enum { ASKED = 4, LEFT = 200 };
    struct linger at_once = { 1, 0 };
    int fd = harness_connect(server.port), gone = harness_connect(server.port);
    char *query = repeat("description =~ \"%z%\" or ", 16384, "false"), error[512];
    struct weir_message message = { .query = { (const uint8_t *)query, strlen(query) } };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    fill_with_large_events(fd);
    uint64_t start = server_cpu_ns();
    for (int i = 0; i < ASKED; i++)
        assert_int_equal(exchange(fd, query, NULL, error, sizeof error), 1);
    uint64_t each = (server_cpu_ns() - start) / ASKED;
    assert_int_equal(weir_message_encode_framed(&message, &out, NULL), 0);
    harness_counters_refresh(&server);
    uint64_t accepted = harness_counter(&server, "ways_in", "riemann", "accepted");
    start = server_cpu_ns();
    for (int i = 0; i < LEFT; i++)
        assert_true(harness_send(gone, out.data, out.length));
    for (int i = 0; i < 1000 && harness_counter(&server, "ways_in", "riemann", "accepted") < accepted + LEFT; i++)
        harness_counters_refresh(&server);
    assert_int_equal(setsockopt(gone, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(gone);
    assert_int_equal(exchange(fd, "host = \"h\" and service = \"large 7\"", NULL, error, sizeof error), 1);
    if (server_cpu_ns() - start > each * LEFT / 2)
        fail_msg("%d queries took %" PRIu64 " ns of CPU, and one takes %" PRIu64, LEFT, server_cpu_ns() - start, each);
    weir_buffer_release(&out);
    free(query);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_right_error_comes_and_memory_stays),
        cmocka_unit_test(an_exploding_expression_is_told_and_others_are_served),
        cmocka_unit_test(large_replies_that_nobody_reads_are_not_made),
        cmocka_unit_test(exploding_expressions_count_together_until_they_are_answered),
        cmocka_unit_test(a_client_that_goes_takes_its_queries_along),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
