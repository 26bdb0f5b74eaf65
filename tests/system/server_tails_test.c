/* Tails that several ways in share: what each brought is counted apart and in total, answered where it came in, and copied. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/harness.h"

static const char three_ways[] = "pool io threads 2\npool other threads 1\npool workers threads 2\n"
                                 "pipeline a {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    then core\n}\n"
                                 "pipeline b {\n    listen tcp 127.0.0.1:0 on other\n    frame length32 max 1MiB\n    then core\n}\n"
                                 "pipeline u {\n    listen udp 127.0.0.1:0 on io\n    then core\n}\n"
                                 "pipeline core {\n    handoff workers limit 64MiB full block\n    decode riemann\n    index\n"
                                 "    encode riemann\n    reply\n}\n";

static uint64_t entries(const struct harness_server *server, const char *stage)
{
    return harness_counter(server, "stages", stage, "entries");
}

static uint64_t events(const struct harness_server *server, const char *stage)
{
    return harness_counter(server, "stages", stage, "events");
}

/* One TCP client's life: so many requests, several at once; the replies must be as many, and good. */
static void talk(int port, unsigned requests, unsigned in_message)
{
    uint8_t message[65536];
    size_t size = harness_message(message, sizeof message, in_message, "s");
    int fd = harness_connect(port);
    assert_true(fd >= 0);
    for (unsigned sent = 0, answered = 0; answered < requests;) {
        while (sent < requests && sent - answered < 64) {
            assert_true(harness_send(fd, message, size));
            sent++;
        }
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
        answered++;
    }
    close(fd);
}

static void send_datagrams(int port, unsigned count, unsigned in_message)
{
    uint8_t message[16384];
    size_t size = harness_message(message, sizeof message, in_message, "u");
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sendto(fd, message + 4, size - 4, 0, (struct sockaddr *)&address, sizeof address), size - 4);
        usleep(200); /* so that the kernel needs to drop none */
    }
    close(fd);
}

/* Waits until nothing is under way any more, with the laws held at every look. */
static void settle(struct harness_server *server, const char *const *ways)
{
    for (int i = 0; i < 500; i++) {
        uint64_t in_flight = 0;
        harness_counters_refresh(server);
        harness_check_conservation(server);
        for (const char *const *way = ways; *way; way++)
            in_flight += harness_counter(server, "ways_in", *way, "in_flight");
        if (!in_flight)
            return;
        usleep(10000);
    }
    fail_msg("something never ends");
}

static void each_way_in_is_counted_apart(void **state)
{
    (void)state;
    enum { A = 3000, B = 500, U = 100 };
    struct harness_server server;
    harness_run(&server, three_ways);
    talk(harness_port(&server, "a"), A, 3);
    talk(harness_port(&server, "b"), B, 5);
    send_datagrams(harness_port(&server, "u"), U, 7);
    settle(&server, (const char *const[]){ "a", "b", "u", NULL });
    uint64_t u = harness_counter(&server, "ways_in", "u", "accepted");
    assert_int_equal(u + harness_counter(&server, "ways_in", "u", "kernel_drops"), U);
    assert_int_equal(harness_counter(&server, "ways_in", "a", "answered"), A);
    assert_int_equal(harness_counter(&server, "ways_in", "b", "answered"), B);
    assert_int_equal(harness_counter(&server, "ways_in", "u", "discarded"), u);
    static const char *const stages[] = { "handoff", "decode", "index", "encode", "reply" };
    for (size_t i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "core.%s@a", stages[i]);
        assert_int_equal(entries(&server, name), A);
        snprintf(name, sizeof name, "core.%s@b", stages[i]);
        assert_int_equal(entries(&server, name), B);
        snprintf(name, sizeof name, "core.%s@u", stages[i]);
        assert_int_equal(entries(&server, name), u);
        snprintf(name, sizeof name, "core.%s@(inside)", stages[i]);
        assert_int_equal(entries(&server, name), 0);
    }
    assert_int_equal(events(&server, "core.decode@a"), 3 * A);
    assert_int_equal(events(&server, "core.decode@b"), 5 * B);
    assert_int_equal(events(&server, "core.decode@u"), 7 * u);
    /* One queue for all, one ring for each that is answered. */
    assert_int_equal(harness_counter(&server, "queues", "core.handoff", "in"), A + B + u);
    assert_int_equal(harness_counter(&server, "queues", "core.reply@a", "out"), A);
    assert_int_equal(harness_counter(&server, "queues", "core.reply@b", "out"), B);
    harness_stop(&server);
}

static void a_bad_message_is_refused_where_it_came_in(void **state)
{
    (void)state;
    static const uint8_t garbage[] = { 0, 0, 0, 3, 0xff, 0xff, 0xff };
    struct harness_server server;
    char error[256];
    harness_run(&server, three_ways);
    int fd = harness_connect(harness_port(&server, "b"));
    assert_true(harness_send(fd, garbage, sizeof garbage));
    assert_int_equal(harness_reply(fd, error, sizeof error), 0);
    close(fd);
    settle(&server, (const char *const[]){ "a", "b", "u", NULL });
    assert_int_equal(harness_counter(&server, "ways_in", "b", "malformed"), 1);
    assert_int_equal(entries(&server, "core.decode@b"), 1);
    assert_int_equal(entries(&server, "core.index@b"), 0);
    assert_int_equal(entries(&server, "core.reply@b"), 1);
    assert_int_equal(entries(&server, "core.reply@a"), 0);
    harness_stop(&server);
}

#define TEE "pool io threads 1\npool workers threads 2\npool slow threads 1\n" \
            "pipeline a {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n%s    then core\n}\n" \
            "pipeline core {\n    handoff workers limit 64MiB full block\n    decode riemann\n%s    index\n    encode riemann\n    reply\n}\n" \
            "pipeline log {\n    handoff slow limit 64MiB items %d full %s\n%s    busy 0ns pause %s\n    drop\n}\n"

/* Whatever becomes of the copies each request is answered, and each copy ends or is counted where it was refused. */
static void copies(const char *at_frame, const char *at_message, int items, const char *full, const char *pause, bool some_are_refused)
{
    enum { SENT = 400 };
    char text[1024];
    struct harness_server server;
    snprintf(text, sizeof text, TEE, at_frame, at_message, items, full, *at_frame ? "    decode riemann\n" : "", pause);
    harness_run(&server, text);
    talk(server.port, SENT, 4);
    settle(&server, (const char *const[]){ "a", "(inside)", NULL });
    uint64_t refused = harness_counter(&server, "queues", "log.handoff", "rejected") + harness_counter(&server, "queues", "log.handoff", "dropped");
    assert_int_equal(harness_counter(&server, "ways_in", "a", "answered"), SENT);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "accepted"), SENT);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "discarded"), SENT);
    assert_int_equal(harness_counter(&server, "queues", "log.handoff", "in"), SENT);
    assert_int_equal(entries(&server, "log.drop"), SENT - refused);
    assert_int_equal(events(&server, "core.decode"), 4 * SENT);
    if (*at_frame)
        assert_int_equal(events(&server, "log.decode"), 4 * (SENT - refused));
    if (some_are_refused)
        assert_true(refused > 0);
    else
        assert_int_equal(refused, 0);
    harness_stop(&server);
}

static void copies_of_messages(void **state)
{
    (void)state;
    copies("", "    tee log\n", 1000, "block", "0ns", false);
    copies("", "    tee log\n", 4, "reject", "5ms", true);
    copies("", "    tee log\n", 4, "drop oldest", "5ms", true);
    copies("", "    tee log\n", 4, "block", "5ms", true); /* a copy never waits */
}

static void copies_of_bytes(void **state)
{
    (void)state;
    copies("    tee log\n", "", 1000, "block", "0ns", false);
    copies("    tee log\n", "", 4, "block", "5ms", true); /* nor does it park its original's connection */
}

/* SIGTERM comes while copies wait behind a slow stage: they are worked off. */
static void a_drain_waits_for_copies(void **state)
{
    (void)state;
    enum { SENT = 100 };
    char text[1024];
    struct harness_server server;
    snprintf(text, sizeof text, TEE, "", "    tee log\n", 1000, "block", "", "5ms");
    harness_run(&server, text);
    talk(server.port, SENT, 1);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_int_equal(entries(&server, "log.drop"), SENT);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "discarded"), SENT);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "in_flight"), 0);
    harness_check_conservation(&server);
    harness_remove(&server);
}

/* And at the end of the drain's time they are discarded, in good order. */
static void the_end_of_a_drain_discards_copies(void **state)
{
    (void)state;
    enum { SENT = 200 };
    char text[1024];
    struct harness_server server;
    snprintf(text, sizeof text, TEE, "", "    tee log\n", 1000, "block", "", "50ms");
    harness_build(&server, text, NULL, NULL);
    harness_start(&server, (const char *const[]){ "--drain", "100ms", NULL });
    talk(server.port, SENT, 1);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_true(entries(&server, "log.drop") < SENT);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "discarded"), SENT);
    harness_check_conservation(&server);
    harness_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_in_is_counted_apart),
        cmocka_unit_test(a_bad_message_is_refused_where_it_came_in),
        cmocka_unit_test(copies_of_messages),
        cmocka_unit_test(copies_of_bytes),
        cmocka_unit_test(a_drain_waits_for_copies),
        cmocka_unit_test(the_end_of_a_drain_discards_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
