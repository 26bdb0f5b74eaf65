/* pipelined, when something goes wrong: each promise has one exact outcome, and it says how far the request got. */
#include "tests/unit/client/promises.h"

static void refusals_carry_their_text_and_the_connection_lives(void **state)
{
    (void)state;
    struct mock_server server = { .reply = refusal, .reply_size = sizeof refusal - 1 };
    struct weir_error error = WEIR_ERROR_INIT;
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    struct weir_promise *promise = send_small(client);
    assert_int_equal(weir_promise_wait(promise, 5ull * S), 0);
    assert_int_equal(weir_promise_outcome(promise)->result, WEIR_CLIENT_REFUSED);
    assert_memory_equal(weir_promise_outcome(promise)->reply->error.data, "overloaded", 10);
    weir_promise_release(promise);
    struct weir_message message = { 0 };
    assert_int_equal(weir_riemann_call(client, &message, 5ull * S, NULL, &error), -EREMOTEIO);
    assert_non_null(strstr(error.text, "overloaded"));
    assert_int_equal(counts_of(client).connections, 1);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

/* S12: what came before the end is delivered; the others fail at once, though all was written. */
static void a_clean_end_closes_the_rest_within_100_ms(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 2, .then = MOCK_FIN, .delay_us = 100000 };
    struct weir_promise *promises[7];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    for (int i = 0; i < 7; i++)
        promises[i] = send_small(client);
    expect(promises[0], WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    expect(promises[1], WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    uint64_t before = weir_clock_ns();
    for (int i = 2; i < 7; i++)
        expect(promises[i], WEIR_CLIENT_CLOSED, WEIR_REACH_WHOLE);
    assert_true(weir_clock_ns() - before < 100 * MS);
    struct weir_riemann_counts counts = counts_of(client);
    assert_int_equal(counts.connections_lost, 1);
    assert_int_equal(counts.lost_whole, 5);
    assert_int_equal(counts.lost_nothing + counts.lost_part, 0);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void half_a_reply_is_none(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 1, .half_reply = 5, .then = MOCK_FIN, .delay_us = 100000 };
    struct weir_promise *promises[3];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    for (int i = 0; i < 3; i++)
        promises[i] = send_small(client);
    expect(promises[0], WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    expect(promises[1], WEIR_CLIENT_CLOSED, WEIR_REACH_WHOLE);
    expect(promises[2], WEIR_CLIENT_CLOSED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void a_reset_resets_the_rest(void **state)
{
    (void)state;
    /* It gives no answer, so that none can be overtaken. */
    struct mock_server server = { .frames = 1, .then = MOCK_RESET, .reply = "", .reply_size = 0, .delay_us = 100000 };
    struct weir_promise *promises[5];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    for (int i = 0; i < 5; i++)
        promises[i] = send_small(client);
    for (int i = 0; i < 5; i++)
        expect(promises[i], WEIR_CLIENT_RESET, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void what_is_no_reply_fails_all_behind_it(void **state)
{
    (void)state;
    static const struct { const char *reply; size_t size; } cases[] = { { "\0\0\0\2\0\1", 6 }, { "\xff\xff\xff\xff", 4 } };
    for (size_t i = 0; i < 2; i++) {
        struct mock_server server = { .reply = cases[i].reply, .reply_size = cases[i].size, .delay_us = 100000 };
        struct weir_promise *promises[3];
        mock_start(&server);
        struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
        for (int k = 0; k < 3; k++)
            promises[k] = send_small(client);
        for (int k = 0; k < 3; k++)
            expect(promises[k], WEIR_CLIENT_BAD_REPLY, WEIR_REACH_WHOLE);
        weir_riemann_close(client, S);
        mock_stop(&server);
    }
}

static void one_reply_too_many_ends_the_connection(void **state)
{
    (void)state;
    struct mock_server server = { .replies_each = 2 };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    for (int i = 0; i < 5000 && !counts_of(client).connections_lost; i++)
        usleep(1000);
    assert_int_equal(counts_of(client).connections_lost, 1);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

/* A server that takes the first bytes, then ends without having read the rest. */
struct taker {
    int listen_fd;
    atomic_bool go;
};

static void *take_little(void *argument)
{
    struct taker *taker = argument;
    int fd = accept(taker->listen_fd, NULL, NULL);
    char byte;
    while (!atomic_load(&taker->go))
        usleep(1000);
    ssize_t got = recv(fd, &byte, 1, 0);
    (void)got;
    close(fd); /* with unread bytes: a reset */
    return NULL;
}

static void a_half_written_frame_says_so(void **state)
{
    (void)state;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    struct taker taker = { .listen_fd = socket(AF_INET, SOCK_STREAM, 0) };
    assert_int_equal(bind(taker.listen_fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(taker.listen_fd, 1), 0);
    assert_int_equal(getsockname(taker.listen_fd, (struct sockaddr *)&address, &length), 0);
    struct mock_server server = { 0 };
    snprintf(server.address, sizeof server.address, "127.0.0.1:%u", ntohs(address.sin_port));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_little, &taker), 0);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .send_buffer_bytes = 16384 });
    size_t size = (size_t)32 << 20;
    uint8_t *large = calloc(1, size);
    weir_frame_header(large, (uint32_t)size - 4);
    struct weir_promise *first = send_small(client), *second = NULL;
    assert_int_equal(weir_riemann_send_frame(client, large, size, NULL, NULL, &second, NULL), 0);
    usleep(200000); /* the writer is in it now */
    struct weir_promise *third = send_small(client);
    atomic_store(&taker.go, true);
    expect(first, WEIR_CLIENT_RESET, WEIR_REACH_WHOLE);
    expect(second, WEIR_CLIENT_RESET, WEIR_REACH_PART);
    expect(third, WEIR_CLIENT_RESET, WEIR_REACH_NOTHING);
    struct weir_riemann_counts counts = counts_of(client);
    assert_int_equal(counts.lost_whole, 1);
    assert_int_equal(counts.lost_part, 1);
    assert_int_equal(counts.lost_nothing, 1);
    pthread_join(thread, NULL);
    close(taker.listen_fd);
    weir_riemann_close(client, 0);
    free(large);
}

static void a_late_reply_still_fulfils_or_is_swallowed(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    atomic_store(&server.paused, true);
    struct weir_promise *kept = send_small(client), *dropped = send_small(client);
    assert_int_equal(weir_promise_wait(kept, 50 * MS), -ETIMEDOUT);
    assert_false(weir_promise_done(kept));
    assert_int_equal(weir_promise_wait(dropped, 0), -ETIMEDOUT);
    weir_promise_release(dropped);
    struct weir_promise *after = send_small(client);
    atomic_store(&server.paused, false);
    expect(kept, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    expect(after, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    assert_int_equal(counts_of(client).late, 1);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], 3);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void silence_ends_the_connection(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 0, .then = MOCK_MUTE };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .silence_ns = 50 * MS });
    usleep(200000); /* nothing is owed: no reason to end it */
    assert_int_equal(counts_of(client).connections_lost, 0);
    uint64_t before = weir_clock_ns();
    struct weir_promise *a = send_small(client), *b = send_small(client);
    expect(a, WEIR_CLIENT_UNANSWERED, WEIR_REACH_WHOLE);
    expect(b, WEIR_CLIENT_UNANSWERED, WEIR_REACH_WHOLE);
    assert_true(weir_clock_ns() - before >= 50 * MS);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void closing_answers_for_what_is_outstanding(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 0, .then = MOCK_MUTE };
    struct weir_promise *promises[5];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .queue = 8, .in_flight = 3 });
    for (int i = 0; i < 5; i++)
        promises[i] = send_small(client);
    for (int i = 0; i < 5000 && counts_of(client).written_bytes < 3 * sizeof small_frame; i++)
        usleep(1000);
    uint64_t before = weir_clock_ns();
    weir_riemann_close(client, 100 * MS);
    assert_in_range(weir_clock_ns() - before, 100 * MS, 1000 * MS);
    for (int i = 0; i < 5; i++)
        expect(promises[i], WEIR_CLIENT_UNANSWERED, i < 3 ? WEIR_REACH_WHOLE : WEIR_REACH_NOTHING);
    mock_stop(&server);
}

static void closing_waits_for_answers(void **state)
{
    (void)state;
    struct mock_server server = { .delay_us = 50000 };
    struct weir_promise *promises[5];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    for (int i = 0; i < 5; i++)
        promises[i] = send_small(client);
    weir_riemann_close(client, 10ull * S);
    for (int i = 0; i < 5; i++)
        expect(promises[i], WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    weir_riemann_close(NULL, 0);
    mock_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_carry_their_text_and_the_connection_lives),
        cmocka_unit_test(a_clean_end_closes_the_rest_within_100_ms),
        cmocka_unit_test(half_a_reply_is_none),
        cmocka_unit_test(a_reset_resets_the_rest),
        cmocka_unit_test(what_is_no_reply_fails_all_behind_it),
        cmocka_unit_test(one_reply_too_many_ends_the_connection),
        cmocka_unit_test(a_half_written_frame_says_so),
        cmocka_unit_test(a_late_reply_still_fulfils_or_is_swallowed),
        cmocka_unit_test(silence_ends_the_connection),
        cmocka_unit_test(closing_answers_for_what_is_outstanding),
        cmocka_unit_test(closing_waits_for_answers),
    };
    return cmocka_run_group_tests_name("pipelined_end", tests, NULL, NULL);
}
