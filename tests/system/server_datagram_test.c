/* A way in by UDP: sizes at the edge, bursts, full queues, what is no message, queries that nobody hears the answer of. */
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
#include "tests/system/recording.h"

#define MAX 16384u

static const char direct[] = "pool io threads 1\n"
                             "pipeline udp {\n    listen udp 127.0.0.1:0 on io\n    decode riemann\n    index\n    drop\n}\n";

static int dial(const struct harness_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)server->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* A message of exactly `size` bytes, with one event. */
static void send_sized(int fd, size_t size)
{
    static uint8_t message[65536];
    size_t head[2] = { size - 4, size - 8 }, at = 0;
    for (int i = 0; i < 2; i++) { /* events, then description; lengths in three bytes each, however small */
        message[at++] = i ? 0x2a : 0x32;
        message[at++] = (uint8_t)(head[i] & 0x7f) | 0x80;
        message[at++] = (uint8_t)(head[i] >> 7 & 0x7f) | 0x80;
        message[at++] = (uint8_t)(head[i] >> 14);
    }
    memset(message + at, 'x', size - at);
    assert_int_equal(send(fd, message, size, 0), size);
}

static uint64_t way(const struct harness_server *server, const char *field)
{
    return harness_counter(server, "ways_in", "udp", field);
}

/* Waits until the way has seen `count` datagrams, one way or another. */
static void wait_for(struct harness_server *server, uint64_t count)
{
    for (int i = 0; i < 200; i++) {
        harness_counters_refresh(server);
        uint64_t seen = way(server, "accepted") + way(server, "truncated") + way(server, "kernel_drops");
        if (seen >= count && way(server, "in_flight") == 0)
            return;
        usleep(20000);
    }
}

static void sizes_at_the_edge(void **state)
{
    (void)state;
    static const size_t sizes[] = { 16, 2047, 2048, 2049, MAX - 1, MAX, MAX + 1, MAX + 2, 60000, 16 };
    struct harness_server server;
    harness_run(&server, direct);
    int fd = dial(&server);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        send_sized(fd, sizes[i]);
        wait_for(&server, i + 1); /* so that the kernel needs to drop none */
    }
    assert_int_equal(way(&server, "accepted"), 7);
    assert_int_equal(way(&server, "events"), 7);
    assert_int_equal(way(&server, "truncated"), 3);
    assert_int_equal(way(&server, "malformed"), 0);
    assert_int_equal(way(&server, "discarded"), 7);
    close(fd);
    harness_stop(&server);
}

static void what_is_no_message_costs_only_itself(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, direct);
    int fd = dial(&server);
    static const uint8_t framed[] = { 0, 0, 0, 2, 0x32, 0 }, query[] = { 0x2a, 6, 0x0a, 4, 't', 'r', 'u', 'e' };
    assert_int_equal(send(fd, "GET / HTTP/1.1\r\n", 16, 0), 16);
    assert_int_equal(send(fd, framed, sizeof framed, 0), sizeof framed);
    assert_int_equal(send(fd, "", 0, 0), 0); /* an empty message, which is one */
    assert_int_equal(send(fd, query, sizeof query, 0), sizeof query);
    send_sized(fd, 100);
    wait_for(&server, 5);
    assert_int_equal(way(&server, "accepted"), 5);
    assert_int_equal(way(&server, "malformed"), 2);
    assert_int_equal(way(&server, "events"), 1);
    uint8_t byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1); /* nothing comes back */
    close(fd);
    harness_stop(&server);
}

static void a_burst_is_received_or_dropped_and_counted(void **state)
{
    (void)state;
    enum { BURST = 10000 };
    struct harness_server server;
    harness_run(&server, direct);
    int fd = dial(&server);
    kill(server.pid, SIGSTOP); /* so that some must be dropped */
    for (int i = 0; i < BURST; i++) {
        send_sized(fd, 1400);
        if (i == BURST * 9 / 10)
            kill(server.pid, SIGCONT);
    }
    wait_for(&server, BURST);
    assert_int_equal(way(&server, "accepted") + way(&server, "kernel_drops"), BURST);
    assert_true(way(&server, "kernel_drops") > 0);
    assert_true(way(&server, "accepted") > 0);
    assert_int_equal(way(&server, "events"), way(&server, "accepted"));
    close(fd);
    harness_stop(&server);
}

/* A queue of 4 behind a worker that is slow: what the policy gives up is counted there, what `block` holds up in the kernel. */
static void a_full_queue(const char *policy, bool kernel_may_drop)
{
    enum { SENT = 300 };
    char text[512];
    struct harness_server server;
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 1\n"
             "pipeline udp {\n    listen udp 127.0.0.1:0 on io\n    handoff workers limit 1MiB items 4 full %s\n"
             "    decode riemann\n    busy 0ns pause 2ms\n    encode riemann\n    reply\n}\n", policy);
    harness_run(&server, text);
    int fd = dial(&server);
    for (int i = 0; i < SENT; i++)
        send_sized(fd, 200);
    wait_for(&server, SENT);
    uint64_t gone = harness_counter(&server, "queues", "udp.handoff", "dropped") + harness_counter(&server, "queues", "udp.handoff", "rejected");
    assert_int_equal(way(&server, "accepted") + way(&server, "kernel_drops"), SENT);
    assert_int_equal(harness_counter(&server, "queues", "udp.handoff", "in"), way(&server, "accepted"));
    assert_int_equal(harness_counter(&server, "stages", "udp.decode", "entries") + gone, way(&server, "accepted"));
    if (kernel_may_drop)
        assert_int_equal(gone, 0);
    else
        assert_true(gone > 0);
    close(fd);
    harness_stop(&server);
}

static void full_queues(void **state)
{
    (void)state;
    a_full_queue("block", true);
    a_full_queue("drop newest", false);
    a_full_queue("drop oldest", false);
    a_full_queue("reject", false);
}

/* What waits in the socket at the end is taken, though the worker is slow and the queue is full. */
static void the_end_loses_nothing_unseen(void **state)
{
    (void)state;
    enum { SENT = 200 };
    struct harness_server server;
    harness_run(&server, direct);
    int fd = dial(&server);
    kill(server.pid, SIGSTOP);
    for (int i = 0; i < SENT; i++)
        send_sized(fd, 100);
    kill(server.pid, SIGTERM);
    kill(server.pid, SIGCONT);
    assert_int_equal(harness_wait(&server, 0), 0);
    assert_int_equal(way(&server, "accepted"), SENT);
    harness_check_conservation(&server);
    close(fd);
    harness_remove(&server);
}

/* A recording of what is owed no reply: `reply` passes over it, and yet counts it; what the kernel dropped is in the profile. */
static void a_recording_adds_up(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    harness_run(&server, "pool io threads 1\npool workers threads 1\n"
                         "pipeline udp {\n    listen udp 127.0.0.1:0 on io\n    handoff workers limit 1MiB full drop oldest\n"
                         "    decode riemann\n    index\n    encode riemann\n    reply\n}\n");
    int fd = dial(&server);
    pid_t sender = fork();
    assert_true(sender >= 0);
    if (sender == 0) {
        for (;;) {
            for (int i = 0; i < 20; i++)
                send(fd, "\x32\0", 2, 0);
            usleep(1000);
        }
    }
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_EXACT, (unsigned)harness_count(1000, 5000));
    const struct weir_profile_row *decode = recording_row(profile, "udp.decode"), *reply = recording_row(profile, "udp.reply");
    assert_true(decode->items > 0);
    assert_int_equal(reply->stamped, reply->items);
    assert_int_equal(profile->ways[0].end.accepted, profile->ways[0].end.discarded + profile->ways[0].end.in_flight);
    assert_int_equal(profile->topology.queue_count, 1); /* no ring */
    weir_profile_free(profile);
    kill(sender, SIGKILL);
    recording_wait(sender);
    close(fd);
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_at_the_edge),
        cmocka_unit_test(what_is_no_message_costs_only_itself),
        cmocka_unit_test(a_burst_is_received_or_dropped_and_counted),
        cmocka_unit_test(full_queues),
        cmocka_unit_test(the_end_loses_nothing_unseen),
        cmocka_unit_test(a_recording_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
