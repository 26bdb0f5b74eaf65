/* load: sent = acknowledged + failed, whatever the server does, and the report says what happened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline_dsl/client/driver.h"
#include "pipeline_dsl/client/load.h"
#include "tests/unit/client/mock_server.h"

static struct weir_load_options small(const struct mock_server *server)
{
    return (struct weir_load_options){ .address = server->address, .clients = 2, .events = 3, .in_flight = 8, .threads = 1,
                                       .wait_ns = 5000000000u, .stop_fd = -1 };
}

/* What must hold of every report. The slices are let go; nothing here looks at them but sums. */
static struct weir_load_report run(const struct weir_load_options *options)
{
    struct weir_load_report report;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_load_run(options, &report, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(report.sent,
                     report.results[WEIR_CLIENT_ACKED] + report.results[WEIR_CLIENT_SENT] + weir_load_failed(&report));
    if (options->mode != WEIR_LOAD_BATCH && !options->datagram && !options->ramp_ns)
        assert_int_equal(report.latency.count + report.query_latency.count, report.results[WEIR_CLIENT_ACKED]);
    uint64_t messages = 0, failed = 0;
    for (size_t i = 0; i < report.slice_count; i++) {
        messages += report.slices[i].messages;
        failed += report.slices[i].failed;
    }
    assert_int_equal(messages, report.results[WEIR_CLIENT_ACKED] + report.results[WEIR_CLIENT_SENT]);
    assert_int_equal(failed, weir_load_failed(&report));
    weir_load_report_release(&report);
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
            options.clients = 5;
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
    options.duration_ns = options.wait_ns = 400000000; /* in which a busy machine runs the server too */
    struct weir_load_report report = run(&options);
    assert_int_equal(report.results[WEIR_CLIENT_ACKED], 6);
    assert_int_equal(report.results[WEIR_CLIENT_UNANSWERED], report.sent - 6);
    assert_true(report.sent > 6 && report.sent <= 6 + 16);
    assert_true(report.duration_ns >= options.duration_ns); /* the time without answers counts too */
    assert_true(report.in_flight > 1);                       /* so does what has none */
    mock_stop(&server);
}

/* With loops alone there is no time at which sending ends: silence ends it, whether all has been sent or not. */
static void silence_ends_what_no_duration_does(void **state)
{
    (void)state;
    for (int in_flight = 4; in_flight <= 64; in_flight += 60) {
        struct mock_server server = { .frames = 3, .then = MOCK_MUTE };
        mock_start(&server);
        struct weir_load_options options = small(&server);
        options.clients = 1;
        options.loops = 20;
        options.in_flight = in_flight;
        options.wait_ns = 300000000;
        struct weir_load_report report = run(&options);
        assert_int_equal(report.results[WEIR_CLIENT_ACKED], 3);
        assert_int_equal(report.sent, in_flight < 20 ? 3 + 4 : 20);
        assert_int_equal(report.results[WEIR_CLIENT_UNANSWERED], report.sent - 3);
        mock_stop(&server);
    }
}

/* The wait is for the next answer: a server that is slow and at work is waited for as long as it takes. */
static void a_slow_server_is_waited_for(void **state)
{
    (void)state;
    struct mock_server server = { .delay_us = 200000 }; /* before it reads any of its connections */
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.clients = 8;
    options.threads = 1;
    options.in_flight = 1;
    options.duration_ns = 150000000; /* in which a busy machine lets all send, and no answer comes */
    options.wait_ns = 1000000000;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_true(report.sent >= 8);
    assert_true(report.duration_ns > 1000000000u);
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
    const struct mock_server *seen; /* waits until this one has seen a message; null: doesn't */
};

static void *stop_later(void *argument)
{
    const struct stopper *stopper = argument;
    while (stopper->seen && !atomic_load(&stopper->seen->seen))
        usleep(1000);
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
    struct stopper stopper = { eventfd(0, EFD_NONBLOCK), 50000, 1, &server };
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
    stopper.seen = NULL; /* it looks at none */
    stopper.after_us = 300000;
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

/* Somebody listens, but accepts nobody: each connection would wait for seconds. */
static void the_stop_descriptor_ends_the_connecting(void **state)
{
    (void)state;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), waiting[3];
    assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
    for (int i = 0; i < 3; i++) {
        waiting[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(waiting[i], (struct sockaddr *)&address, length);
    }
    struct mock_server server = { 0 };
    snprintf(server.address, sizeof server.address, "127.0.0.1:%u", ntohs(address.sin_port));
    struct weir_load_options options = small(&server);
    struct stopper stopper = { eventfd(0, EFD_NONBLOCK), 50000, 1, NULL };
    options.stop_fd = stopper.fd;
    options.clients = 20;
    options.loops = 1;
    struct weir_load_report report;
    struct weir_error error = WEIR_ERROR_INIT;
    pthread_t thread;
    pthread_create(&thread, NULL, stop_later, &stopper);
    assert_int_equal(weir_load_run(&options, &report, &error), -ECANCELED);
    pthread_join(thread, NULL);
    assert_non_null(strstr(error.text, "stopped before 127.0.0.1:"));
    for (int i = 0; i < 3; i++)
        close(waiting[i]);
    close(stopper.fd);
    close(listener);
}

static void a_rate_is_kept(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.clients = 3;
    options.threads = 2;
    options.duration_ns = 300000000;
    options.rate = 1000;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_in_range(report.sent + report.unsent, 299, 301);
    assert_true(report.sent > 0); /* a busy machine may not run us in time for many */
    mock_stop(&server);
}

/* A server that reads 20 ms late: with one message in flight, what is due meanwhile waits, and its latency says so. */
static void a_rate_that_runs_out_of_messages_took_no_longer(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.rate = 1000;
    options.loops = 5;
    options.duration_ns = 60000000000u;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.results[WEIR_CLIENT_ACKED], 10);
    assert_int_equal(report.end, WEIR_LOAD_LOOPS);
    assert_true(report.duration_ns < 30000000000u);
    mock_stop(&server);
}

static void a_stall_shows_in_the_latency_of_what_was_due(void **state)
{
    (void)state;
    struct mock_server server = { .delay_us = 20000 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.clients = options.in_flight = 1;
    options.duration_ns = 300000000;
    options.rate = 500;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_true(report.sent < 50);
    assert_int_equal(report.sent + report.unsent, 150); /* what was due in the time of sending */
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

/* --- modes and clients ---------------------------------------------------------------------------------------------------- */

static void sync_has_one_message_under_way_on_each_connection(void **state)
{
    (void)state;
    struct mock_server server = { .delay_us = 2000 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.mode = WEIR_LOAD_SYNC;
    options.clients = 6;
    options.share = 3;
    options.loops = 10;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.connections, 2);
    assert_int_equal(report.sent, 60);
    assert_int_equal(report.client_least, 10);
    assert_int_equal(report.client_most, 10);
    assert_true(report.in_flight > 3 && report.in_flight <= 6); /* the wait for their turn included */
    assert_true(report.latency.min >= 2000000);
    mock_stop(&server);
}

static void clients_that_share_a_pipelined_connection_are_served_alike(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.clients = 50;
    options.share = 25;
    options.duration_ns = 200000000;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_int_equal(report.connections, 2);
    assert_true(report.client_least > 0);
    assert_true((double)report.client_least >= 0.5 * report.client_mean);
    mock_stop(&server);
}

static void batches_are_full_in_a_closed_loop(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.mode = WEIR_LOAD_BATCH;
    options.events = 10;
    options.in_flight = 2;
    options.loops = 7;
    options.linger_ns = 1000000000;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.sent, 14);
    assert_int_equal(report.measured_events, 140);
    assert_int_equal(report.latency.count, 140);
    mock_stop(&server);
}

/* 200 events/s on one connection and a linger time of 25 ms: about five go together, though ten would fit. */
static void a_batch_goes_when_its_linger_time_is_over(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.mode = WEIR_LOAD_BATCH;
    options.clients = 1;
    options.events = 10;
    options.rate = 200;
    options.linger_ns = 25000000;
    options.duration_ns = 500000000;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_in_range(report.measured_events, 10, 101);
    assert_in_range(report.sent, 1, 26);
    assert_true(report.latency.max >= 25000000);
    mock_stop(&server);
}

static void queries_are_their_share(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct weir_workload workload;
    mock_start(&server);
    assert_int_equal(weir_workload_init(&workload, &weir_workload_usual, 3, 0, NULL), 0);
    assert_int_equal(weir_workload_query(&workload, "true", NULL), 0);
    struct weir_load_options options = small(&server);
    options.workload = &workload;
    options.query_share = 0.25;
    options.loops = 100;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.sent, 200);
    assert_int_equal(report.queries, 50);
    assert_int_equal(report.queries_acked, 50);
    assert_int_equal(report.query_latency.count, 50);
    assert_int_equal(report.measured_events, 450);
    weir_workload_release(&workload);
    mock_stop(&server);
}

static void the_ramp_is_not_measured(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server);
    struct weir_load_options options = small(&server);
    options.clients = 10;
    options.ramp_ns = 400000000;
    options.duration_ns = 100000000;
    struct weir_load_report report = run(&options);
    assert_int_equal(weir_load_failed(&report), 0);
    assert_true(report.measured > 0 && report.measured < report.sent);
    assert_float_equal(report.client_mean * 10, (double)report.measured, .5); /* who starts late is not slow */
    assert_true(report.duration_ns < options.ramp_ns);
    mock_stop(&server);
}

static void datagrams_are_sent_and_not_answered(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(server.address, sizeof server.address, "127.0.0.1:%u", ntohs(address.sin_port));
    struct weir_load_options options = small(&server);
    options.datagram = true;
    options.loops = 20;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.sent, 40);
    assert_int_equal(report.results[WEIR_CLIENT_SENT], 40);
    assert_int_equal(report.measured_events, 120);
    options.loops = 0;
    options.duration_ns = 100000000;
    options.rate = 500;
    report = run(&options);
    assert_in_range(report.sent, 1, 51); /* of 50; a busy machine may not run us in time for most */
    close(fd);
}

static void a_datagram_that_nobody_takes_says_why(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    mock_start(&server); /* on TCP, so the port of that number is free on UDP, or nearly always */
    struct weir_load_options options = small(&server);
    options.datagram = true;
    options.clients = 1;
    options.loops = 20;
    struct weir_load_report report = run(&options);
    assert_int_equal(report.sent, 20);
    assert_true(report.results[WEIR_CLIENT_BROKEN] > 0);
    assert_string_equal(report.refusal, "Connection refused");

    options.events = 1000;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_load_run(&options, &report, &error), -EMSGSIZE);
    assert_int_equal(error.exit, WEIR_EXIT_USAGE);
    assert_non_null(strstr(error.text, "doesn't fit into a datagram, which takes 65507; put fewer than 1000 events into one"));
    mock_stop(&server);
}

/* What is longer than all slices together is told in wider ones. */
static void slices_widen_with_time(void **state)
{
    (void)state;
    struct weir_load_report part = { .slice_ns = 100, .slice_count = WEIR_LOAD_SLICES };
    part.slices = calloc(WEIR_LOAD_SLICES, sizeof *part.slices);
    for (size_t i = 0; i < WEIR_LOAD_SLICES; i++) {
        part.slices[i].messages = i;
        weir_histogram_add(&part.slices[i].latency, i, 1);
    }
    weir_driver_halve(&part);
    assert_int_equal(part.slice_count, WEIR_LOAD_SLICES / 2);
    assert_int_equal(part.slice_ns, 200);
    for (size_t i = 0; i < WEIR_LOAD_SLICES / 2; i++) {
        assert_int_equal(part.slices[i].messages, 4 * i + 1);
        assert_int_equal(part.slices[i].latency.count, 2);
    }
    assert_int_equal(part.slices[WEIR_LOAD_SLICES / 2].messages, 0);
    weir_load_report_release(&part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_are_sent_exactly),
        cmocka_unit_test(a_duration_ends_it),
        cmocka_unit_test(no_answer_fails_after_the_wait),
        cmocka_unit_test(silence_ends_what_no_duration_does),
        cmocka_unit_test(a_slow_server_is_waited_for),
        cmocka_unit_test(refusals_are_failures_with_their_text),
        cmocka_unit_test(a_server_that_closes_midway_is_counted),
        cmocka_unit_test(garbage_is_counted),
        cmocka_unit_test(the_stop_descriptor_ends_it),
        cmocka_unit_test(the_stop_descriptor_ends_the_connecting),
        cmocka_unit_test(a_rate_is_kept),
        cmocka_unit_test(a_rate_that_runs_out_of_messages_took_no_longer),
        cmocka_unit_test(a_stall_shows_in_the_latency_of_what_was_due),
        cmocka_unit_test(a_refused_connection_is_a_sentence),
        cmocka_unit_test(sync_has_one_message_under_way_on_each_connection),
        cmocka_unit_test(clients_that_share_a_pipelined_connection_are_served_alike),
        cmocka_unit_test(batches_are_full_in_a_closed_loop),
        cmocka_unit_test(a_batch_goes_when_its_linger_time_is_over),
        cmocka_unit_test(queries_are_their_share),
        cmocka_unit_test(the_ramp_is_not_measured),
        cmocka_unit_test(datagrams_are_sent_and_not_answered),
        cmocka_unit_test(a_datagram_that_nobody_takes_says_why),
        cmocka_unit_test(slices_widen_with_time),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
