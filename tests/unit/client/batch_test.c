/* batch: events go out together, when there are enough or when time is up, and each has its own promise. */
#include "tests/unit/client/promises.h"

static struct weir_riemann *open_batching(const struct mock_server *server, size_t events, uint64_t linger_ns)
{
    return open_client(server, (struct weir_riemann_options){ .kind = WEIR_RIEMANN_BATCHING, .batch_events = events,
                                                              .linger_ns = linger_ns });
}

/* S13: a batch that never fills goes out when the linger time is over, and not before. */
static void a_lone_event_goes_after_the_linger_time(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_promise *promise = NULL;
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 10, 100 * MS);
    for (int i = 0; i < 3; i++) {
        uint64_t before = weir_clock_ns();
        assert_int_equal(send_event(client, &promise), 0);
        expect(promise, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
        assert_in_range(weir_clock_ns() - before, 100 * MS, 600 * MS);
    }
    assert_int_equal(atomic_load(&server.seen), 3);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void a_full_batch_goes_at_once(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_promise *promises[30];
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 10, 60ull * S);
    for (int i = 0; i < 30; i++)
        assert_int_equal(send_event(client, &promises[i]), 0);
    for (int i = 0; i < 30; i++)
        expect(promises[i], WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    assert_int_equal(atomic_load(&server.seen), 3);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], 30);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void flush_and_close_send_what_was_gathered(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_promise *a = NULL, *b = NULL;
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 10, 60ull * S);
    assert_int_equal(weir_riemann_flush(client), 0); /* nothing: sends nothing */
    assert_int_equal(send_event(client, &a), 0);
    assert_int_equal(weir_riemann_flush(client), 0);
    expect(a, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    assert_int_equal(send_event(client, &b), 0);
    weir_riemann_close(client, 5ull * S);
    expect(b, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    assert_int_equal(atomic_load(&server.seen), 2);
    mock_stop(&server);
}

/* A message sends off what was gathered before it, so that it overtakes nothing. */
static void a_message_does_not_overtake_events(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_message query = { .query = BYTES("true") };
    struct weir_promise *event = NULL;
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 10, 60ull * S);
    assert_int_equal(send_event(client, &event), 0);
    assert_int_equal(weir_riemann_call(client, &query, 5ull * S, NULL, NULL), 0);
    assert_true(weir_promise_done(event));
    expect(event, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void the_answer_to_the_batch_is_the_answer_to_each(void **state)
{
    (void)state;
    struct mock_server server = { .reply = refusal, .reply_size = sizeof refusal - 1 };
    struct weir_promise *promises[5];
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 5, 60ull * S);
    for (int i = 0; i < 5; i++)
        assert_int_equal(send_event(client, &promises[i]), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(weir_promise_wait(promises[i], 5ull * S), 0);
        assert_int_equal(weir_promise_outcome(promises[i])->result, WEIR_CLIENT_REFUSED);
        assert_memory_equal(weir_promise_outcome(promises[i])->reply->error.data, "overloaded", 10);
        weir_promise_release(promises[i]);
    }
    weir_riemann_close(client, S);
    mock_stop(&server);
}

/* What was written fails with the connection; what was only gathered fails with it too, and says that nothing left. */
static void a_lost_connection_fails_every_event(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 1, .reply = "", .then = MOCK_FIN, .delay_us = 100000 };
    struct weir_promise *promises[7];
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 5, 60ull * S);
    for (int i = 0; i < 7; i++)
        assert_int_equal(send_event(client, &promises[i]), 0);
    for (int i = 0; i < 7; i++)
        expect(promises[i], WEIR_CLIENT_CLOSED, i < 5 ? WEIR_REACH_WHOLE : WEIR_REACH_NOTHING);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

static void events_are_refused_at_the_bound(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){
        .kind = WEIR_RIEMANN_BATCHING, .batch_events = 4, .queue = 2, .in_flight = 2, .linger_ns = 60ull * S });
    atomic_store(&server.paused, true);
    int taken = 0;
    for (int tries = 0; tries < 500; tries++) {
        taken += send_event(client, NULL) == 0;
        usleep(500);
    }
    assert_int_equal(taken, (2 + 2) * 4);
    atomic_store(&server.paused, false);
    weir_riemann_close(client, 5ull * S);
    mock_stop(&server);
}

struct adder {
    struct weir_riemann *client;
    int acked;
};

static void *add_many(void *argument)
{
    struct adder *adder = argument;
    struct weir_promise *promises[1000];
    for (int i = 0; i < 1000; i++)
        while (send_event(adder->client, &promises[i]) != 0)
            usleep(100);
    for (int i = 0; i < 1000; i++) {
        adder->acked +=
            weir_promise_wait(promises[i], 10ull * S) == 0 && weir_promise_outcome(promises[i])->result == WEIR_CLIENT_ACKED;
        weir_promise_release(promises[i]);
    }
    return NULL;
}

static void many_threads_fill_one_batch(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct adder adders[4];
    pthread_t threads[4];
    mock_start(&server);
    struct weir_riemann *client = open_batching(&server, 50, 5 * MS);
    for (int i = 0; i < 4; i++) {
        adders[i] = (struct adder){ client, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &adders[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(adders[i].acked, 1000);
    }
    assert_int_equal(counts_of(client).sent, 4000);
    assert_true(atomic_load(&server.seen) >= 80);
    weir_riemann_close(client, S);
    mock_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_event_goes_after_the_linger_time),
        cmocka_unit_test(a_full_batch_goes_at_once),
        cmocka_unit_test(flush_and_close_send_what_was_gathered),
        cmocka_unit_test(a_message_does_not_overtake_events),
        cmocka_unit_test(the_answer_to_the_batch_is_the_answer_to_each),
        cmocka_unit_test(a_lost_connection_fails_every_event),
        cmocka_unit_test(events_are_refused_at_the_bound),
        cmocka_unit_test(many_threads_fill_one_batch),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
