/* pipelined: requests of many threads share one connection, within their bounds; what goes wrong is in pipelined_end_test. */
#include <malloc.h>

#include "tests/unit/client/promises.h"

/* --- the way it should go ------------------------------------------------------------------------------------------------- */

static void each_promise_is_acknowledged(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_promise *promises[500];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 500; i++)
            promises[i] = send_small(client);
        for (int i = 0; i < 500; i++)
            expect(promises[i], WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    }
    struct weir_riemann_counts counts = counts_of(client);
    assert_int_equal(counts.sent, 2500);
    assert_int_equal(counts.results[WEIR_CLIENT_ACKED], 2500);
    assert_int_equal(counts.written_bytes, 2500 * sizeof small_frame);
    assert_true(counts.writes < 2500); /* few, large writes */
    for (int i = 0; i < 5000 && counts_of(client).held; i++)
        usleep(1000); /* the reader lets the last one go a moment after it has woken us */
    assert_int_equal(counts_of(client).held, 0);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

struct caller {
    struct weir_riemann *client;
    int calls, good;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    struct weir_event event = { .host = BYTES("h"), .service = BYTES("s") };
    struct weir_message message = { .events = &event, .event_count = 1 };
    for (int i = 0; i < caller->calls; i++)
        caller->good += weir_riemann_call(caller->client, &message, 10ull * S, NULL, NULL) == 0;
    return NULL;
}

/* Eight threads in a call each: all eight requests are under way at once on one connection. */
static void callers_share_the_connection_without_knowing(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct caller callers[8];
    pthread_t threads[8];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    atomic_store(&server.paused, true);
    for (int i = 0; i < 8; i++) {
        callers[i] = (struct caller){ client, 20, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 5000 && counts_of(client).outstanding < 8; i++)
        usleep(1000);
    assert_int_equal(counts_of(client).outstanding, 8);
    atomic_store(&server.paused, false);
    for (int i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].good, 20);
    }
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], 160);
    assert_int_equal(counts_of(client).connections, 1);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

struct pushing {
    struct weir_riemann *client;
    int count;
    uint64_t taken, refused;
};

static void *push_without_waiting(void *argument)
{
    struct pushing *pushing = argument;
    while (pushing->taken < (uint64_t)pushing->count)
        if (weir_riemann_send_frame(pushing->client, small_frame, sizeof small_frame, NULL, NULL, NULL, NULL) == 0)
            pushing->taken++;
        else
            pushing->refused += usleep(100) == 0;
    return NULL;
}

static void many_threads_push_and_forget(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct pushing pushing[4];
    pthread_t threads[4];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .queue = 64, .in_flight = 64 });
    for (int i = 0; i < 4; i++) {
        pushing[i] = (struct pushing){ client, 5000, 0, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, push_without_waiting, &pushing[i]), 0);
    }
    uint64_t refused = 0;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        refused += pushing[i].refused;
    }
    assert_int_equal(counts_of(client).refused_overloaded, refused);
    while (counts_of(client).outstanding)
        usleep(1000);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], 20000);
    weir_riemann_close(client, S);
    assert_int_equal(atomic_load(&server.seen), 20000);
    mock_stop(&server);
}

struct calls {
    struct weir_riemann *client;
    atomic_int count, failed, more;
};

static void called(void *context, const struct weir_outcome *outcome)
{
    struct calls *calls = context;
    if (outcome->result != WEIR_CLIENT_ACKED)
        atomic_fetch_add(&calls->failed, 1);
    if (atomic_fetch_sub(&calls->more, 1) > 0)
        weir_riemann_send_frame(calls->client, small_frame, sizeof small_frame, called, calls, NULL, NULL);
    atomic_fetch_add(&calls->count, 1);
}

static void a_callback_is_called_once_and_may_send(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct calls calls = { 0 };
    mock_start(&server);
    calls.client = open_client(&server, (struct weir_riemann_options){ 0 });
    atomic_store(&calls.more, 300);
    struct weir_promise *promise = NULL;
    assert_int_equal(weir_riemann_send_frame(calls.client, small_frame, sizeof small_frame, called, &calls, &promise, NULL), 0);
    expect(promise, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    for (int i = 0; i < 5000 && atomic_load(&calls.count) < 301; i++)
        usleep(1000);
    weir_riemann_close(calls.client, S);
    assert_int_equal(atomic_load(&calls.count), 301);
    assert_int_equal(atomic_load(&calls.failed), 0);
    mock_stop(&server);
}

static void a_query_gives_its_events(void **state)
{
    (void)state;
    struct weir_event events[2] = { { .host = BYTES("a") }, { .host = BYTES("b"), .service = BYTES("s") } };
    struct weir_message answer = { .has_ok = true, .ok = true, .events = events, .event_count = 2 };
    struct weir_buffer reply = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode_framed(&answer, &reply, NULL), 0);
    struct mock_server server = { .reply = reply.data, .reply_size = reply.length };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    struct weir_message query = { .query = BYTES("true") };
    struct weir_promise *promise = NULL;
    assert_int_equal(weir_riemann_call(client, &query, 5ull * S, &promise, NULL), 0);
    const struct weir_message *got = weir_promise_outcome(promise)->reply;
    assert_int_equal(got->event_count, 2);
    assert_memory_equal(got->events[1].host.data, "b", 1);
    weir_riemann_close(client, S);
    assert_int_equal(got->event_count, 2); /* the promise outlives the client */
    weir_promise_release(promise);
    mock_stop(&server);
    weir_buffer_release(&reply);
}

/* --- down and up again ---------------------------------------------------------------------------------------------------- */

/* S10: nothing is used up by sends that fail. */
static void ten_thousand_sends_fail_while_down_and_the_next_is_good(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    mock_start(&server);
    mock_stop(&server);
    struct weir_riemann *client = NULL;
    struct weir_riemann_options options = { .queue = 16, .in_flight = 16, .backoff_most_ns = 200 * MS };
    assert_int_equal(weir_riemann_open(&client, server.address, &options, &error), -ECONNREFUSED);
    assert_null(client);
    options.may_start_down = true;
    assert_int_equal(weir_riemann_open(&client, server.address, &options, &error), 0);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(weir_riemann_send_frame(client, small_frame, sizeof small_frame, NULL, NULL, NULL, &error), -ENOTCONN);
    assert_non_null(strstr(error.text, "not connected"));
    assert_int_equal(counts_of(client).refused_down, 10000);
    assert_int_equal(counts_of(client).sent, 0);
    assert_int_equal(weir_riemann_wait_up(client, 20 * MS), -ETIMEDOUT);
    mock_start(&server);
    assert_int_equal(weir_riemann_wait_up(client, 5ull * S), 0);
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

/* S14: after a restart on the same port it resumes by itself; what was lost meanwhile is counted. */
static void it_resumes_after_a_restart(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .backoff_most_ns = 300 * MS });
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    atomic_store(&server.paused, true);
    struct weir_promise *lost = send_small(client);
    usleep(20000);
    mock_stop(&server);
    struct weir_outcome outcome = finish(lost);
    assert_true(outcome.result == WEIR_CLIENT_CLOSED || outcome.result == WEIR_CLIENT_RESET);
    assert_int_equal(outcome.reach, WEIR_REACH_WHOLE);
    assert_int_equal(outcome.connection, 1);
    usleep(100000);
    uint64_t before = weir_clock_ns();
    assert_int_equal(send_event(client, NULL), -ENOTCONN);
    assert_true(weir_clock_ns() - before < 50 * MS);
    atomic_store(&server.paused, false);
    mock_start(&server);
    before = weir_clock_ns();
    assert_int_equal(weir_riemann_wait_up(client, 5ull * S), 0);
    outcome = finish(send_small(client));
    assert_int_equal(outcome.result, WEIR_CLIENT_ACKED);
    assert_int_equal(outcome.connection, 2);
    assert_true(weir_clock_ns() - before < 1300 * MS);
    struct weir_riemann_counts counts = counts_of(client);
    assert_int_equal(counts.connections_lost, 1);
    assert_int_equal(counts.lost_whole, 1);
    assert_int_equal(counts.refused_down, 1);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

/* --- bounds --------------------------------------------------------------------------------------------------------------- */

/* S11: a stalled server costs a caller its deadline, and the others an answer at once, once the bound is reached. */
static void a_stall_ends_in_timeouts_and_refusals_at_the_bound(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_message message = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .queue = 8, .in_flight = 4 });
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    atomic_store(&server.paused, true);
    uint64_t before = weir_clock_ns();
    assert_int_equal(weir_riemann_call(client, &message, 200 * MS, NULL, &error), -ETIMEDOUT);
    assert_in_range(weir_clock_ns() - before, 200 * MS, 400 * MS);
    int taken = 1; /* its place is kept for the late reply */
    for (int tries = 0; tries < 300; tries++) { /* the queue alone is full until the writer has moved some on */
        taken += weir_riemann_send_frame(client, small_frame, sizeof small_frame, NULL, NULL, NULL, &error) == 0;
        usleep(1000);
    }
    assert_int_equal(taken, 8 + 4);
    before = weir_clock_ns();
    assert_int_equal(weir_riemann_call(client, &message, 10ull * S, NULL, &error), -EAGAIN);
    assert_non_null(strstr(error.text, "overloaded"));
    assert_true(weir_clock_ns() - before < S);
    atomic_store(&server.paused, false);
    for (int i = 0; i < 5000 && counts_of(client).outstanding; i++)
        usleep(1000);
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void a_send_may_wait_for_room(void **state)
{
    (void)state;
    struct mock_server server = { .delay_us = 5000 };
    mock_start(&server);
    struct weir_riemann *client =
        open_client(&server, (struct weir_riemann_options){ .queue = 2, .in_flight = 2, .room_wait_ns = 5ull * S });
    for (int i = 0; i < 100; i++)
        assert_int_equal(weir_riemann_send_frame(client, small_frame, sizeof small_frame, NULL, NULL, NULL, NULL), 0);
    weir_riemann_close(client, 5ull * S);
    assert_int_equal(atomic_load(&server.seen), 100);
    mock_stop(&server);
}

/* A caller that keeps its promises and never looks at them: refused at the bound, and memory stays where it was. */
static void promises_that_nobody_waits_for_do_not_grow(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_promise *promises[128];
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .queue = 64, .in_flight = 64 });
    int held = 0;
    for (int tries = 0; held < 128 && tries < 100000; tries++) {
        int rc = send_event(client, &promises[held]);
        assert_true(rc == 0 || rc == -EAGAIN);
        held += rc == 0;
    }
    assert_int_equal(held, 128);
    struct weir_promise *promise;
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 100000; i++)
        assert_int_equal(send_event(client, &promise), -EAGAIN);
    assert_true(mallinfo2().uordblks < before + ((size_t)1 << 20));
    for (int i = 0; i < 128; i++)
        weir_promise_release(promises[i]);
    while (counts_of(client).outstanding)
        usleep(1000);
    before = mallinfo2().uordblks;
    for (int sent = 0; sent < 100000;)
        sent += send_event(client, NULL) == 0;
    assert_true(mallinfo2().uordblks < before + ((size_t)1 << 20));
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void queued_bytes_and_kept_replies_are_bounded(void **state)
{
    (void)state;
    size_t size = (size_t)1 << 20;
    uint8_t *large = calloc(1, size);
    weir_frame_header(large, (uint32_t)size - 4);
    struct mock_server server = { 0 };
    mock_start(&server);
    atomic_store(&server.paused, true);
    struct weir_riemann *client =
        open_client(&server, (struct weir_riemann_options){ .queue_max_bytes = 3 << 20, .send_buffer_bytes = 16384 });
    int taken = 0;
    while (taken < 100 && weir_riemann_send_frame(client, large, size, NULL, NULL, NULL, NULL) == 0) {
        taken++;
        usleep(20000); /* until the writer is stuck */
    }
    assert_in_range(taken, 3, 10); /* three wait, one is with the writer, some are in the sockets */
    atomic_store(&server.paused, false);
    weir_riemann_close(client, 10ull * S);
    assert_int_equal(atomic_load(&server.seen), taken);
    mock_stop(&server);
    free(large);

    struct mock_server refusing = { .reply = refusal, .reply_size = sizeof refusal - 1 };
    struct weir_promise *promises[50];
    mock_start(&refusing);
    client = open_client(&refusing, (struct weir_riemann_options){ .replies_max_bytes = 8192 });
    for (int i = 0; i < 50; i++)
        promises[i] = send_small(client);
    int results[WEIR_CLIENT_RESULTS] = { 0 };
    for (int i = 0; i < 50; i++) {
        assert_int_equal(weir_promise_wait(promises[i], 5ull * S), 0);
        results[weir_promise_outcome(promises[i])->result]++;
    }
    assert_int_equal(results[WEIR_CLIENT_REFUSED] + results[WEIR_CLIENT_BAD_REPLY], 50);
    assert_in_range(results[WEIR_CLIENT_REFUSED], 1, 49);
    for (int i = 0; i < 50; i++)
        weir_promise_release(promises[i]);
    expect(send_small(client), WEIR_CLIENT_REFUSED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    mock_stop(&refusing);
}

/* --- S15 ------------------------------------------------------------------------------------------------------------------ */

#define LARGE ((size_t)4 << 20)

struct slow_reader {
    int listen_fd;
    uint8_t *got;
    size_t size;
};

/* Takes 4 KiB at a time through a small window, then answers once. */
static void *read_slowly(void *argument)
{
    struct slow_reader *reader = argument;
    int fd = accept(reader->listen_fd, NULL, NULL);
    while (reader->size < LARGE) {
        size_t left = LARGE - reader->size;
        ssize_t got = recv(fd, reader->got + reader->size, left < 4096 ? left : 4096, 0);
        if (got <= 0)
            break;
        reader->size += (size_t)got;
        usleep(200);
    }
    ssize_t sent = send(fd, weir_message_ack, sizeof weir_message_ack, MSG_NOSIGNAL);
    char more;
    ssize_t rest = recv(fd, &more, 1, 0);
    reader->size += rest > 0 ? 1 : 0;
    (void)sent;
    close(fd);
    return NULL;
}

static void a_large_frame_goes_through_small_buffers_unharmed(void **state)
{
    (void)state;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    struct slow_reader reader = { .listen_fd = socket(AF_INET, SOCK_STREAM, 0), .got = malloc(LARGE) };
    int small = 4096;
    setsockopt(reader.listen_fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(bind(reader.listen_fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(reader.listen_fd, 1), 0);
    assert_int_equal(getsockname(reader.listen_fd, (struct sockaddr *)&address, &length), 0);
    struct mock_server server = { 0 };
    snprintf(server.address, sizeof server.address, "127.0.0.1:%u", ntohs(address.sin_port));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    uint8_t *sent = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        sent[i] = (uint8_t)(i * 31 + i / 4096);
    weir_frame_header(sent, (uint32_t)LARGE - 4);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .send_buffer_bytes = 4096 });
    struct weir_promise *promise = NULL;
    assert_int_equal(weir_riemann_send_frame(client, sent, LARGE, NULL, NULL, &promise, NULL), 0);
    assert_int_equal(weir_promise_wait(promise, 60ull * S), 0);
    expect(promise, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    pthread_join(thread, NULL);
    assert_int_equal(reader.size, LARGE);
    assert_memory_equal(reader.got, sent, LARGE);
    close(reader.listen_fd);
    free(reader.got);
    free(sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_promise_is_acknowledged),
        cmocka_unit_test(callers_share_the_connection_without_knowing),
        cmocka_unit_test(many_threads_push_and_forget),
        cmocka_unit_test(a_callback_is_called_once_and_may_send),
        cmocka_unit_test(a_query_gives_its_events),
        cmocka_unit_test(ten_thousand_sends_fail_while_down_and_the_next_is_good),
        cmocka_unit_test(it_resumes_after_a_restart),
        cmocka_unit_test(a_stall_ends_in_timeouts_and_refusals_at_the_bound),
        cmocka_unit_test(a_send_may_wait_for_room),
        cmocka_unit_test(promises_that_nobody_waits_for_do_not_grow),
        cmocka_unit_test(queued_bytes_and_kept_replies_are_bounded),
        cmocka_unit_test(a_large_frame_goes_through_small_buffers_unharmed),
    };
    return cmocka_run_group_tests_name("pipelined", tests, NULL, NULL);
}
