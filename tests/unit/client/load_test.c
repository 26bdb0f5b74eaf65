/* load: sent = acknowledged + failed, whatever the server does, and the report says what happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline_dsl/client/load.h"
#include "tests/unit/client/mock_server.h"

static struct weir_load_options small(const struct mock_server *server)
{
    return (struct weir_load_options){ .address = server->address, .connections = 2, .events = 3, .in_flight = 8, .threads = 1,
                                       .wait_ns = 5000000000u, .stop_fd = -1 };
}

static struct weir_load_report run(const struct weir_load_options *options)
{
    struct weir_load_report report;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_load_run(options, &report, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(report.sent, report.results[WEIR_CLIENT_ACKED] + weir_load_failed(&report));
    assert_int_equal(report.latency.count, report.results[WEIR_CLIENT_ACKED]);
    assert_true(report.duration_ns > 0);
    assert_true(report.cpu_ns > 0);
    return report;
}

static void loops_are_sent_exactly(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= 8; threads += 3) {
        for (size_t in_flight = 1; in_flight <= 64; in_flight *= 4) {
            struct mock_server server = { 0 };
            mock_start(&server);
            struct weir_load_options options = small(&server);
            options.connections = 5;
            options.threads = threads;
            options.in_flight = in_flight;
            options.loops = 101;
            struct weir_load_report report = run(&options);
            assert_int_equal(report.results[WEIR_CLIENT_ACKED], 505);
            assert_int_equal(report.connections_lost, 0);
            assert_int_equal(report.end, WEIR_LOAD_LOOPS);
            mock_stop(&server);
            assert_int_equal(atomic_load(&server.seen), 505);
        }
    }
}

static void a_duration_ends_it(void **state)
{
    (void)state;
    struct mock_server server = { .by_bytes = true };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.duration_ns = 100000000;
    uint64_t before = weir_clock_ns();
    struct weir_load_report report = run(&options);
    assert_true(weir_clock_ns() - before < 4000000000u);
    assert_int_equal(report.end, WEIR_LOAD_DURATION);
    assert_true(report.results[WEIR_CLIENT_ACKED] > 0);
    assert_int_equal(weir_load_failed(&report), 0);
    mock_stop(&server);
    assert_int_equal(atomic_load(&server.seen), report.sent);
}

static void no_answer_fails_after_the_wait(void **state)
{
    (void)state;
    struct mock_server server = { .frames = 3, .then = MOCK_MUTE };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.duration_ns = 50000000;
    options.wait_ns = 50000000;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.results[WEIR_CLIENT_ACKED], 6);
    assert_int_equal(report.results[WEIR_CLIENT_UNANSWERED], report.sent - 6);
    assert_true(report.sent > 6 && report.sent <= 6 + 16);
    mock_stop(&server);
}

static void refusals_are_failures_with_their_text(void **state)
{
    (void)state;
    static const char no[] = "\0\0\0\x0e\x10\0\x1a\x0aover\x1bo\x9b" "ded";
    struct mock_server server = { .reply = no, .reply_size = sizeof no - 1 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.loops = 10;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.results[WEIR_CLIENT_REFUSED], 20);
    assert_int_equal(report.latency.count, 0);
    assert_string_equal(report.refusal, "over?o?ded");
    assert_int_equal(report.connections_lost, 0);
    mock_stop(&server);
}

static void a_server_that_closes_midway_is_counted(void **state)
{
    (void)state;
    static const enum mock_then ways[] = { MOCK_FIN, MOCK_CLOSE, MOCK_RESET };
    for (uint64_t round = 0; round < 51; round++) {
        struct mock_server server = { .frames = round * 7, .then = ways[round % 3] };
        mock_start(&server);
        struct weir_load_options options = small(&server);
        options.threads = 1 + round % 2;
        options.loops = 100000;
        struct weir_load_report report = run(&options);
        assert_int_equal(report.end, WEIR_LOAD_LOST);
        assert_int_equal(report.connections_lost, 2);
        assert_true(report.results[WEIR_CLIENT_ACKED] <= 2 * round * 7);
        if (server.then == MOCK_FIN)
            assert_int_equal(report.results[WEIR_CLIENT_ACKED], 2 * round * 7);
        mock_stop(&server);
    }
}

static void garbage_is_counted(void **state)
{
    (void)state;
    struct mock_server server = { .reply = "\0\0\0\2\0\1", .reply_size = 6 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.loops = 100;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.results[WEIR_CLIENT_BAD_REPLY], report.sent);
    assert_int_equal(report.connections_lost, 2);
    mock_stop(&server);
}

struct stopper {
    int fd;
    unsigned after_us, times;
};

static void *stop_later(void *argument)
{
    const struct stopper *stopper = argument;
    for (unsigned i = 0; i < stopper->times; i++) {
        uint64_t one = 1;
        usleep(stopper->after_us);
        mock_require(write(stopper->fd, &one, sizeof one) == sizeof one, "write");
    }
    return NULL;
}

static void the_stop_descriptor_ends_it(void **state)
{
    (void)state;
    struct mock_server server = { 0 }, mute = { .then = MOCK_MUTE };
    mock_start(&server);
    mock_start(&mute);
    struct stopper stopper = { eventfd(0, EFD_NONBLOCK), 50000, 1 };
    struct weir_load_options options = small(&server);
    options.threads = 2;
    options.duration_ns = 60000000000u;
    options.stop_fd = stopper.fd;
    pthread_t thread;
    pthread_create(&thread, NULL, stop_later, &stopper);
    struct weir_load_report report = run(&options);
    pthread_join(thread, NULL);
    assert_int_equal(report.end, WEIR_LOAD_STOPPED);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_true(report.duration_ns < 10000000000u);

    /* Nothing answers: the second time ends the wait too. */
    stopper.times = 2;
    options.address = mute.address;
    options.wait_ns = 60000000000u;
    uint64_t before = weir_clock_ns();
    pthread_create(&thread, NULL, stop_later, &stopper);
    report = run(&options);
    pthread_join(thread, NULL);
    assert_true(weir_clock_ns() - before < 10000000000u);
    assert_int_equal(report.results[WEIR_CLIENT_UNANSWERED], 16);
    close(stopper.fd);
    mock_stop(&mute);
    mock_stop(&server);
}

static void a_rate_is_kept(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.connections = 3;
    options.threads = 2;
    options.duration_ns = 300000000;
    options.rate = 1000;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    /* 300 are due; the last may come due when time is up, and a busy machine may not run us in time for a few. */
    assert_in_range(report.sent, 200, 301);
    mock_stop(&server);
}

/* A server that reads 20 ms late: with one message in flight, what is due meanwhile waits, and its latency says so. */
static void a_stall_shows_in_the_latency_of_what_was_due(void **state)
{
    (void)state;
    struct mock_server server = { .delay_us = 20000 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.connections = options.in_flight = 1;
    options.duration_ns = 300000000;
    options.rate = 500;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_true(report.sent < 50);
    assert_true(report.latency.max > 100000000u);
    mock_stop(&server);
}

static void a_refused_connection_is_a_sentence(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    mock_stop(&server);
    options.loops = 1;
    struct weir_load_report report;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_load_run(&options, &report, &error), -ECONNREFUSED);
    assert_int_equal(error.exit, WEIR_EXIT_FOUND);
    assert_non_null(strstr(error.text, "connection refused"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_are_sent_exactly),
        cmocka_unit_test(a_duration_ends_it),
        cmocka_unit_test(no_answer_fails_after_the_wait),
        cmocka_unit_test(refusals_are_failures_with_their_text),
        cmocka_unit_test(a_server_that_closes_midway_is_counted),
        cmocka_unit_test(garbage_is_counted),
        cmocka_unit_test(the_stop_descriptor_ends_it),
        cmocka_unit_test(a_rate_is_kept),
        cmocka_unit_test(a_stall_shows_in_the_latency_of_what_was_due),
        cmocka_unit_test(a_refused_connection_is_a_sentence),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
