/* Many connections at once, most of them idle; many short ones after each other; clients that send as slowly as they can. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/harness.h"

#define CROWD 10000
#define KIB ((size_t)1024)

static const char both[] = "pool io threads 1\npool workers threads 1\n"
                           "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 16MiB\n"
                           "    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n";

/* As many as this process may have open. */
static int crowd(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    long most = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > CROWD + 100 ? CROWD : (long)limit.rlim_max - 100;
    return (int)harness_count(most, most);
}

static uint64_t way(struct harness_server *server, const char *field)
{
    harness_counters_refresh(server);
    return harness_counter(server, "ways_in", "riemann", field);
}

static void wait_for(struct harness_server *server, const char *field, uint64_t count)
{
    for (int i = 0; i < 500 && way(server, field) != count; i++)
        usleep(20000);
    assert_int_equal(way(server, field), count);
}

static void one_request(int fd)
{
    uint8_t message[256];
    size_t size = harness_message(message, sizeof message, 1, "crowd");
    assert_true(harness_send(fd, message, size));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
}

static void an_idle_connection_costs_little(void **state)
{
    (void)state;
    int count = crowd();
    int *fds = malloc((size_t)count * sizeof *fds);
    struct harness_server server;
    harness_run(&server, both);
    int hot = harness_connect(server.port);
    one_request(hot);
    size_t before = harness_resident(&server);
    for (int i = 0; i < count; i++) {
        fds[i] = harness_connect(server.port);
        assert_true(fds[i] >= 0);
        one_request(fds[i]); /* each has been used, and is idle now */
    }
    wait_for(&server, "connections", (uint64_t)count + 1);
    size_t each = (harness_resident(&server) - before) / (size_t)count;
    print_message("%d idle connections: %zu bytes of memory each\n", count, each);
    assert_true(each <= harness_memory(8 * KIB));
    for (int i = 0; i < 1000; i++)
        one_request(hot);
    for (int i = 0; i < count; i += count / 100 + 1)
        one_request(fds[i]);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(hot);
    free(fds);
    wait_for(&server, "connections", 0);
    harness_stop(&server);
}

/* Sockets of the server in this state of /proc/net/tcp. */
static int count_state(int port, unsigned wanted)
{
    char line[512];
    unsigned local, code;
    int count = 0;
    FILE *file = fopen("/proc/net/tcp", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x", &local, &code) == 2 && local == (unsigned)port && code == wanted)
            count++;
    fclose(file);
    return count;
}

static void short_connections_leave_nothing_behind(void **state)
{
    (void)state;
    enum { CLOSE_WAIT = 8 };
    int count = (int)harness_count(10000, 10000), many = 0;
    uint8_t message[256];
    struct harness_server server;
    harness_run(&server, both);
    size_t size = harness_message(message, sizeof message, 1, "short");
    for (int i = 0; i < count; i++) {
        int fd = harness_connect(server.port);
        assert_true(fd >= 0);
        int requests = i % 3 + 1;
        for (int k = 0; k < requests; k++)
            assert_true(harness_send(fd, message, size));
        shutdown(fd, SHUT_WR);
        assert_int_equal(harness_drain(fd), 6 * requests); /* what is owed comes, and then the end */
        many += requests;
        close(fd);
    }
    sleep(1);
    assert_int_equal(count_state(server.port, CLOSE_WAIT), 0);
    assert_int_equal(way(&server, "connections"), 0);
    assert_int_equal(way(&server, "opened"), count);
    assert_int_equal(way(&server, "answered"), many);
    assert_int_equal(way(&server, "abandoned"), 0);
    harness_stop(&server);
}

/* Each claims a frame of 16 MiB and brings a byte now and then: only what came takes memory, and the others go on. */
static void slow_senders_cost_what_they_sent(void **state)
{
    (void)state;
    enum { SLOW = 1000, BYTES = 40 };
    static int fds[SLOW];
    struct harness_server server;
    crowd();
    harness_run(&server, both);
    int hot = harness_connect(server.port);
    one_request(hot);
    size_t before = harness_resident(&server);
    for (int i = 0; i < SLOW; i++) {
        fds[i] = harness_connect(server.port);
        assert_true(harness_send(fds[i], i % 2 ? "\1\0\0\0" : "\1\0", i % 2 ? 4 : 2)); /* some not even a whole header */
    }
    for (int k = 0; k < BYTES; k++) {
        for (int i = 1; i < SLOW; i += 2)
            assert_true(harness_send(fds[i], "x", 1));
        one_request(hot);
    }
    wait_for(&server, "connections", SLOW + 1);
    size_t each = (harness_resident(&server) - before) / SLOW;
    print_message("%d slow senders: %zu bytes of memory each\n", SLOW, each);
    assert_true(each <= harness_memory(8 * KIB));
    assert_int_equal(way(&server, "accepted"), BYTES + 1);
    for (int i = 0; i < SLOW; i++)
        close(fds[i]);
    close(hot);
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_connection_costs_little),
        cmocka_unit_test(short_connections_leave_nothing_behind),
        cmocka_unit_test(slow_senders_cost_what_they_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
