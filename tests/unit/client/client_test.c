/* client: whatever the server does, each request has exactly one outcome, in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <netdb.h>

#include "base/clock.h"
#include "pipeline_dsl/client/client.h"
#include "tests/unit/client/mock_server.h"

#define BYTES(text) { (const uint8_t *)(text), sizeof(text) - 1 }

/* What one client was told. */
struct told {
    struct weir_client *client;
    uint64_t next; /* the tag that must come next */
    uint64_t results[WEIR_CLIENT_RESULTS];
    size_t reply_events;
    char refusal[64];
    uint64_t push_more; /* from within the callback */
};

static const uint8_t frame[] = { 0, 0, 0, 2, 0x32, 0 }; /* one empty event */

static void done(void *context, const struct weir_client_outcome *outcome)
{
    struct told *told = context;
    assert_int_equal(outcome->tag, told->next);
    told->next++;
    told->results[outcome->result]++;
    if (outcome->reply)
        told->reply_events += outcome->reply->event_count;
    if (outcome->result == WEIR_CLIENT_REFUSED)
        snprintf(told->refusal, sizeof told->refusal, "%.*s", (int)outcome->reply->error.size,
                 (const char *)outcome->reply->error.data);
    if (told->push_more) {
        uint64_t tag = told->next + weir_client_outstanding(told->client);
        told->push_more -= weir_client_push(told->client, frame, sizeof frame, tag);
    }
}

static void connect_to(struct told *told, const struct mock_server *server, size_t in_flight)
{
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_client_options options = { .in_flight = in_flight, .done = done, .context = told };
    *told = (struct told){ 0 };
    if (weir_client_connect(&told->client, server->address, &options, &error) != 0)
        fail_msg("%s", error.text);
}

static void push(struct told *told, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        assert_true(weir_client_push(told->client, frame, sizeof frame, told->next + weir_client_outstanding(told->client)));
}

/* Writes and reads until nothing is outstanding, or for `most_ms`. */
static void drive(struct told *told, unsigned most_ms)
{
    uint64_t until = weir_clock_ns() + (uint64_t)most_ms * 1000000u;
    while (weir_client_outstanding(told->client) && weir_clock_ns() < until) {
        weir_client_write(told->client);
        struct pollfd fd = { weir_client_fd(told->client), (short)(POLLIN | (weir_client_unwritten(told->client) ? POLLOUT : 0)),
                             0 };
        poll(&fd, 1, 10);
        if (fd.revents & ~POLLOUT)
            weir_client_read(told->client);
    }
}

/* Reads until the connection has ended. */
static void drive_to_end(struct told *told)
{
    uint64_t until = weir_clock_ns() + 5000000000u;
    while (!weir_client_ended(told->client) && weir_clock_ns() < until) {
        struct pollfd fd = { weir_client_fd(told->client), POLLIN, 0 };
        poll(&fd, 1, 10);
        weir_client_write(told->client);
        weir_client_read(told->client);
    }
    assert_true(weir_client_ended(told->client));
    assert_int_equal(weir_client_outstanding(told->client), 0);
    assert_int_equal(weir_client_room(told->client), 0);
    assert_false(weir_client_push(told->client, frame, sizeof frame, 0));
}

static void requests_are_acknowledged_in_order(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 64);
    assert_int_equal(weir_client_room(told.client), 64);
    push(&told, 64);
    assert_int_equal(weir_client_outstanding(told.client), 64);
    assert_false(weir_client_push(told.client, frame, sizeof frame, 99));
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 64);
    for (int round = 0; round < 50; round++) {
        push(&told, (uint64_t)round % 64 + 1);
        drive(&told, 5000);
    }
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], told.next);
    assert_false(weir_client_ended(told.client));
    weir_client_free(told.client);
    mock_stop(&server);
}

static void replies_may_come_byte_by_byte(void **state)
{
    (void)state;
    struct mock_server server = { .by_bytes = true };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 100);
    push(&told, 100);
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 100);
    weir_client_free(told.client);
    mock_stop(&server);
}

static void a_callback_may_push(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 2);
    told.push_more = 500;
    push(&told, 2);
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 502);
    weir_client_free(told.client);
    mock_stop(&server);
}

static void refusals_carry_their_text(void **state)
{
    (void)state;
    static const char no[] = "\0\0\0\x0e\x10\0\x1a\x0aoverloaded";
    struct mock_server server = { .reply = no, .reply_size = sizeof no - 1 };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 8);
    push(&told, 8);
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_REFUSED], 8);
    assert_string_equal(told.refusal, "overloaded");
    assert_false(weir_client_ended(told.client));
    weir_client_free(told.client);
    mock_stop(&server);
}

static void a_reply_that_does_not_say_ok_is_a_refusal(void **state)
{
    (void)state;
    struct mock_server server = { .reply = "\0\0\0", .reply_size = 4 };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 3);
    push(&told, 3);
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_REFUSED], 3);
    weir_client_free(told.client);
    mock_stop(&server);
}

static void a_large_reply_is_read_whole(void **state)
{
    (void)state;
    static struct weir_event events[5000];
    for (size_t i = 0; i < 5000; i++)
        events[i] = (struct weir_event){ .host = BYTES("a host of some length"), .service = BYTES("and a service") };
    struct weir_message message = { .has_ok = true, .ok = true, .events = events, .event_count = 5000 };
    struct weir_buffer reply = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode_framed(&message, &reply, NULL), 0);
    struct mock_server server = { .reply = reply.data, .reply_size = reply.length };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 5);
    push(&told, 5);
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 5);
    assert_int_equal(told.reply_events, 25000);
    weir_client_free(told.client);
    mock_stop(&server);
    weir_buffer_release(&reply);
}

static void a_clean_end_fails_what_is_unanswered(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 2, .then = MOCK_FIN };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 5);
    push(&told, 5);
    uint64_t before = weir_clock_ns();
    weir_client_write(told.client);
    drive_to_end(&told);
    assert_true(weir_clock_ns() - before < 1000000000u);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 2);
    assert_int_equal(told.results[WEIR_CLIENT_CLOSED], 3);
    assert_int_equal(weir_client_end(told.client), WEIR_CLIENT_CLOSED);
    weir_client_free(told.client);
    mock_stop(&server);
}

static void a_reset_fails_what_is_unanswered(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 1, .then = MOCK_RESET };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 5);
    push(&told, 5);
    weir_client_write(told.client);
    drive_to_end(&told);
    assert_true(told.results[WEIR_CLIENT_ACKED] <= 1); /* a reset may overtake the reply before it */
    assert_int_equal(told.results[WEIR_CLIENT_RESET] + told.results[WEIR_CLIENT_ACKED], 5);
    weir_client_free(told.client);
    mock_stop(&server);
}

/* The first write after the server's end fails with EPIPE or brings a reset; nothing is lost from the count. */
static void a_failed_write_is_counted(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 0, .then = MOCK_CLOSE };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 1000);
    usleep(20000);
    for (int i = 0; i < 5; i++) {
        push(&told, 10);
        weir_client_write(told.client);
        usleep(2000);
        if (!weir_client_room(told.client))
            break;
    }
    assert_int_equal(weir_client_room(told.client), 0);
    drive_to_end(&told);
    assert_true(told.next >= 10);
    assert_int_equal(told.results[WEIR_CLIENT_RESET] + told.results[WEIR_CLIENT_CLOSED], told.next);
    weir_client_free(told.client);
    mock_stop(&server);
}

static void what_is_no_reply_ends_the_connection(void **state)
{
    (void)state;
    static const struct { const char *reply; size_t size, each; } cases[] = {
        { "\0\0\0\2\0\1", 6, 1 },      /* no message */
        { "\xff\xff\xff\xff", 4, 1 },  /* a length beyond all bounds */
        { "\0\0\0\2\x10\1", 6, 2 },    /* one reply too many */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mock_server server = { .reply = cases[i].reply, .reply_size = cases[i].size, .replies_each = cases[i].each };
        struct told told;
        mock_start(&server);
        connect_to(&told, &server, 1);
        push(&told, 1);
        weir_client_write(told.client);
        drive_to_end(&told);
        assert_int_equal(weir_client_end(told.client), WEIR_CLIENT_BAD_REPLY);
        assert_int_equal(told.next, 1);
        assert_int_equal(told.results[i == 2 ? WEIR_CLIENT_ACKED : WEIR_CLIENT_BAD_REPLY], 1);
        weir_client_free(told.client);
        mock_stop(&server);
    }
}

static void a_reply_before_its_request_is_none(void **state)
{
    (void)state;
    size_t size = (size_t)64 << 20;
    uint8_t *large = calloc(1, size);
    weir_frame_header(large, (uint32_t)size - 4);
    struct mock_server server = { .at_header = true, .delay_us = 20000 };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 4);
    assert_true(weir_client_push(told.client, large, size, 0));
    weir_client_write(told.client);
    assert_true(weir_client_unwritten(told.client));
    struct pollfd fd = { weir_client_fd(told.client), POLLIN, 0 };
    assert_int_equal(poll(&fd, 1, 5000), 1);
    weir_client_read(told.client);
    assert_int_equal(told.results[WEIR_CLIENT_BAD_REPLY], 1);
    weir_client_free(told.client);
    mock_stop(&server);
    free(large);
}

static void a_slow_server_gets_everything_in_pieces(void **state)
{
    (void)state;
    size_t size = (size_t)1 << 20;
    uint8_t *large = calloc(1, size);
    weir_frame_header(large, (uint32_t)size - 4);
    struct mock_server server = { .delay_us = 500 };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 16);
    for (uint64_t i = 0; i < 16; i++)
        assert_true(weir_client_push(told.client, large, size, i));
    weir_client_write(told.client);
    assert_true(weir_client_unwritten(told.client));
    drive(&told, 20000);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 16);
    weir_client_free(told.client);
    mock_stop(&server);
    free(large);
}

static void freeing_answers_for_what_is_outstanding(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 0, .then = MOCK_MUTE };
    struct told told;
    mock_start(&server);
    connect_to(&told, &server, 10);
    push(&told, 7);
    drive(&told, 50);
    assert_int_equal(weir_client_outstanding(told.client), 7);
    weir_client_free(told.client);
    assert_int_equal(told.results[WEIR_CLIENT_UNANSWERED], 7);
    weir_client_free(NULL);
    mock_stop(&server);
}

static void connecting_fails_with_a_sentence(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    char gone[32];
    strcpy(gone, server.address);
    mock_stop(&server);
    const struct { const char *address; int rc, exit;
    } cases[] = {
        { gone, -ECONNREFUSED, WEIR_EXIT_FOUND },    { "localhost", -EINVAL, WEIR_EXIT_USAGE },
        { "localhost:0", -EINVAL, WEIR_EXIT_USAGE }, { "h:65536", -EINVAL, WEIR_EXIT_USAGE },
        { "::1:5555", -EINVAL, WEIR_EXIT_USAGE },    { "[::1:5555", -EINVAL, WEIR_EXIT_USAGE },
        { ":5555", -EINVAL, WEIR_EXIT_USAGE },       { "[]:5555", -EINVAL, WEIR_EXIT_USAGE },
        { "h:5x", -EINVAL, WEIR_EXIT_USAGE },        { "h: 5", -EINVAL, WEIR_EXIT_USAGE },
        { "h:-5", -EINVAL, WEIR_EXIT_USAGE },        { "", -EINVAL, WEIR_EXIT_USAGE },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_client *client = NULL;
        struct weir_error error = WEIR_ERROR_INIT;
        assert_int_equal(weir_client_connect(&client, cases[i].address, &(struct weir_client_options){ .done = done }, &error),
                         cases[i].rc);
        assert_int_equal(error.exit, cases[i].exit);
        assert_non_null(strstr(error.text, cases[i].address));
        assert_null(client);
    }
}

static void a_name_is_resolved(void **state)
{
    (void)state;
    struct addrinfo *found = NULL;
    if (getaddrinfo("localhost", NULL, &(struct addrinfo){ .ai_family = AF_INET }, &found) != 0)
        skip(); /* a root without /etc/hosts knows no name at all */
    freeaddrinfo(found);
    struct mock_server server = { 0 };
    struct told told;
    mock_start(&server);
    char by_name[32];
    snprintf(by_name, sizeof by_name, "localhost%s", strchr(server.address, ':'));
    strcpy(server.address, by_name);
    connect_to(&told, &server, 1);
    push(&told, 1);
    drive(&told, 5000);
    assert_int_equal(told.results[WEIR_CLIENT_ACKED], 1);
    weir_client_free(told.client);
    mock_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_acknowledged_in_order),
        cmocka_unit_test(replies_may_come_byte_by_byte),
        cmocka_unit_test(a_callback_may_push),
        cmocka_unit_test(refusals_carry_their_text),
        cmocka_unit_test(a_reply_that_does_not_say_ok_is_a_refusal),
        cmocka_unit_test(a_large_reply_is_read_whole),
        cmocka_unit_test(a_clean_end_fails_what_is_unanswered),
        cmocka_unit_test(a_reset_fails_what_is_unanswered),
        cmocka_unit_test(a_failed_write_is_counted),
        cmocka_unit_test(what_is_no_reply_ends_the_connection),
        cmocka_unit_test(a_reply_before_its_request_is_none),
        cmocka_unit_test(a_slow_server_gets_everything_in_pieces),
        cmocka_unit_test(freeing_answers_for_what_is_outstanding),
        cmocka_unit_test(connecting_fails_with_a_sentence),
        cmocka_unit_test(a_name_is_resolved),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
