/* sync: one round trip at a time, with the same outcomes as the pipelined client; and the datagram client, which has no answers.
 */
#include "tests/unit/client/promises.h"

static struct weir_riemann *open_sync(const struct mock_server *server)
{
    return open_client(server, (struct weir_riemann_options){ .kind = WEIR_RIEMANN_SYNC, .in_flight = 3,
                                                              .backoff_first_ns = 50 * MS, .backoff_most_ns = 100 * MS });
}

static const struct weir_message nothing;

static void the_answer_is_there_on_return(void **state)
{
    (void)state;
    struct mock_server server = { .by_bytes = true };
    mock_start(&server);
    struct weir_riemann *client = open_sync(&server);
    for (int i = 0; i < 100; i++) {
        struct weir_promise *promise = send_small(client);
        assert_true(weir_promise_done(promise));
        expect(promise, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
        assert_int_equal(atomic_load(&server.seen), i + 1);
    }
    assert_int_equal(counts_of(client).writes, 100);
    weir_riemann_close(client, 0);
    mock_stop(&server);
}

struct caller {
    struct weir_riemann *client;
    int good;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    for (int i = 0; i < 200; i++)
        caller->good += weir_riemann_call(caller->client, &nothing, 10ull * S, NULL, NULL) == 0;
    return NULL;
}

static void threads_take_turns(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct caller callers[4];
    pthread_t threads[4];
    mock_start(&server);
    struct weir_riemann *client = open_sync(&server);
    for (int i = 0; i < 4; i++) {
        callers[i] = (struct caller){ client, 0 };
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(callers[i].good, 200);
    }
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], 800);
    weir_riemann_close(client, 0);
    mock_stop(&server);
}

/* Each way in which one call ends, and what the server must have done for it. */
static void each_failure_has_its_result(void **state)
{
    (void)state;
    static const struct {
        struct mock_server server;
        enum weir_client_result result;
        int call;
    } cases[] = {
        { { .frames = 1, .reply = "", .then = MOCK_FIN }, WEIR_CLIENT_CLOSED, -EPIPE },
        { { .frames = 1, .reply = "", .then = MOCK_FIN, .half_reply = 5 }, WEIR_CLIENT_CLOSED, -EPIPE },
        { { .frames = 1, .reply = "", .then = MOCK_RESET }, WEIR_CLIENT_RESET, -ECONNRESET },
        { { .reply = "\0\0\0\2\0\1", .reply_size = 6 }, WEIR_CLIENT_BAD_REPLY, -EBADMSG },
        { { .reply = "\xff\xff\xff\xff", .reply_size = 4 }, WEIR_CLIENT_BAD_REPLY, -EBADMSG },
        { { .reply = refusal, .reply_size = sizeof refusal - 1 }, WEIR_CLIENT_REFUSED, -EREMOTEIO },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mock_server server = cases[i].server;
        struct weir_error error = WEIR_ERROR_INIT;
        mock_start(&server);
        struct weir_riemann *client = open_sync(&server);
        expect(send_small(client), cases[i].result, WEIR_REACH_WHOLE);
        assert_int_equal(counts_of(client).connections_lost, cases[i].result != WEIR_CLIENT_REFUSED);
        if (cases[i].result != WEIR_CLIENT_REFUSED) {
            assert_int_equal(weir_riemann_call(client, &nothing, S, NULL, &error), -ENOTCONN);
            usleep(120000); /* it may connect again now */
        }
        assert_int_equal(weir_riemann_call(client, &nothing, S, NULL, &error), cases[i].call);
        assert_true(error.text[0] != '\0');
        weir_riemann_close(client, 0);
        mock_stop(&server);
    }
}

/* S11, and the late reply: the next call swallows it and gets its own. */
static void a_timeout_leaves_its_answer_to_be_swallowed(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    mock_start(&server);
    struct weir_riemann *client = open_sync(&server);
    atomic_store(&server.paused, true);
    for (int i = 0; i < 3; i++) {
        uint64_t before = weir_clock_ns();
        assert_int_equal(weir_riemann_call(client, &nothing, 50 * MS, NULL, &error), -ETIMEDOUT);
        assert_in_range(weir_clock_ns() - before, 50 * MS, 400 * MS);
    }
    assert_int_equal(weir_riemann_call(client, &nothing, 50 * MS, NULL, &error), -EAGAIN); /* the bound */
    atomic_store(&server.paused, false);
    assert_int_equal(weir_riemann_call(client, &nothing, 50 * MS, NULL, &error), -EAGAIN);
    weir_riemann_close(client, 0);

    client = open_sync(&server);
    atomic_store(&server.paused, true);
    assert_int_equal(weir_riemann_call(client, &nothing, 50 * MS, NULL, &error), -ETIMEDOUT);
    atomic_store(&server.paused, false);
    assert_int_equal(weir_riemann_call(client, &nothing, 5ull * S, NULL, &error), 0);
    assert_int_equal(counts_of(client).late, 1);
    assert_int_equal(counts_of(client).connections, 1);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], 1);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_UNANSWERED], 1);
    weir_riemann_close(client, 0);
    mock_stop(&server);
}

static void silence_ends_the_connection(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    atomic_store(&server.paused, true);
    struct weir_riemann *client = open_client(
        &server, (struct weir_riemann_options){ .kind = WEIR_RIEMANN_SYNC, .silence_ns = 50 * MS, .backoff_first_ns = 10 * MS });
    expect(send_small(client), WEIR_CLIENT_UNANSWERED, WEIR_REACH_WHOLE);
    assert_int_equal(counts_of(client).connections_lost, 1);
    atomic_store(&server.paused, false);
    usleep(20000);
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    assert_int_equal(counts_of(client).connections, 2);
    assert_int_equal(counts_of(client).late, 0);
    weir_riemann_close(client, 0);
    mock_stop(&server);
}

static void a_timeout_amid_a_frame_ends_the_connection(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    size_t size = (size_t)16 << 20;
    uint8_t *large = calloc(1, size);
    struct weir_event event = { .host = { large, size } };
    struct weir_message message = { .events = &event, .event_count = 1 };
    mock_start(&server);
    atomic_store(&server.paused, true);
    struct weir_riemann *client =
        open_client(&server, (struct weir_riemann_options){ .kind = WEIR_RIEMANN_SYNC, .send_buffer_bytes = 16384 });
    assert_int_equal(weir_riemann_call(client, &message, 100 * MS, NULL, &error), -ETIMEDOUT);
    assert_int_equal(counts_of(client).connections_lost, 1);
    assert_int_equal(counts_of(client).lost_part, 1);
    weir_riemann_close(client, 0);
    mock_stop(&server);
    free(large);
}

/* --- datagrams ------------------------------------------------------------------------------------------------------------ */

static void a_datagram_is_sent_and_has_no_answer(void **state)
{
    (void)state;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    struct mock_server server = { 0 };
    snprintf(server.address, sizeof server.address, "127.0.0.1:%u", ntohs(address.sin_port));
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ .kind = WEIR_RIEMANN_DATAGRAM });
    struct weir_promise *promise = NULL;
    assert_int_equal(send_event(client, &promise), 0);
    expect(promise, WEIR_CLIENT_SENT, WEIR_REACH_WHOLE);
    char got[128];
    ssize_t size = recv(fd, got, sizeof got, 0);
    assert_true(size > 2 && got[0] == 0x32); /* a bare message, no frame */

    uint8_t large[20000] = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    weir_frame_header(large, 16385);
    assert_int_equal(weir_riemann_send_frame(client, large, 16385 + 4, NULL, NULL, NULL, &error), -EMSGSIZE);
    weir_frame_header(large, 16384);
    assert_int_equal(weir_riemann_send_frame(client, large, 16384 + 4, NULL, NULL, NULL, &error), 0);
    struct weir_message query = { .query = BYTES("true") };
    assert_int_equal(weir_riemann_send(client, &query, NULL, NULL, NULL, &error), -EINVAL);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_SENT], 2);
    close(fd);
    weir_riemann_close(client, 0);
}

static void what_is_no_frame_is_not_taken(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_riemann *client = open_client(&server, (struct weir_riemann_options){ 0 });
    assert_int_equal(weir_riemann_send_frame(client, small_frame, 5, NULL, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(weir_riemann_send_frame(client, "\0\0\0\1xx", 6, NULL, NULL, NULL, NULL), -EINVAL);
    assert_int_equal(counts_of(client).sent, 0);
    weir_riemann_close(client, 0);
    mock_stop(&server);
    struct weir_riemann *none = NULL;
    struct weir_riemann_options large = { .queue = SIZE_MAX / 2 };
    assert_int_equal(weir_riemann_open(&none, "127.0.0.1:1", &large, NULL), -EINVAL);
    assert_int_equal(weir_riemann_open(&none, "nowhere", &(struct weir_riemann_options){ .may_start_down = true }, NULL),
                     -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_is_there_on_return),
        cmocka_unit_test(threads_take_turns),
        cmocka_unit_test(each_failure_has_its_result),
        cmocka_unit_test(a_timeout_leaves_its_answer_to_be_swallowed),
        cmocka_unit_test(silence_ends_the_connection),
        cmocka_unit_test(a_timeout_amid_a_frame_ends_the_connection),
        cmocka_unit_test(a_datagram_is_sent_and_has_no_answer),
        cmocka_unit_test(what_is_no_frame_is_not_taken),
    };
    return cmocka_run_group_tests_name("sync", tests, NULL, NULL);
}
