/* Graphite over TCP and UDP, and Riemann over a local socket: lines that are none, too long, cut anywhere; files in the way. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/harness.h"

static const char stream[] = "pool io threads 1\npool workers threads 2\n"
                             "pipeline graphite {\n    listen tcp 127.0.0.1:0 on io\n    frame lines max 64B\n"
                             "    handoff workers limit 16KiB full block\n    decode graphite\n    index\n    drop\n}\n";
static const char datagram[] = "pool io threads 1\n"
                               "pipeline graphite {\n    listen udp 127.0.0.1:0 on io\n    decode graphite\n    index\n    reply\n}\n";
static const char local[] = "pool io threads 1\n"
                            "pipeline local {\n    listen unix \"s.sock\" on io\n    frame length32 max 1MiB\n    decode riemann\n    index\n"
                            "    encode riemann\n    reply\n}\n"
                            "pipeline beside {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    decode riemann\n"
                            "    encode riemann\n    reply\n}\n";

static uint64_t way(const struct harness_server *server, const char *field)
{
    return harness_counter(server, "ways_in", "graphite", field);
}

/* Waits until so many lines are accounted for. */
static void wait_for_lines(struct harness_server *server, uint64_t lines)
{
    for (int i = 0; i < 200; i++) {
        harness_counters_refresh(server);
        if (way(server, "events") + way(server, "malformed") + way(server, "bad_lengths") >= lines && way(server, "in_flight") == 0)
            return;
        usleep(20000);
    }
}

static void send_text(int fd, const char *text)
{
    assert_true(harness_send(fd, text, strlen(text)));
}

static void a_bad_line_costs_only_itself(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, stream);
    int fd = harness_connect(server.port);
    send_text(fd, "a 1 1\nb nan 1\nc 1 1\n");
    wait_for_lines(&server, 3);
    assert_int_equal(way(&server, "events"), 2);
    assert_int_equal(way(&server, "malformed"), 1);
    assert_int_equal(harness_counter(&server, "stages", "graphite.index", "entries"), way(&server, "accepted"));
    /* An overlong one too, and the connection lives. */
    for (int i = 0; i < 2000; i++)
        send_text(fd, "a line without end, of 38 bytes a piece");
    send_text(fd, "\nd 1 1\r\n\ne 2 2\nlast 3 3");
    wait_for_lines(&server, 7);
    assert_int_equal(way(&server, "events"), 4);
    assert_int_equal(way(&server, "malformed"), 2);
    assert_int_equal(way(&server, "bad_lengths"), 1);
    assert_int_equal(way(&server, "connections"), 1);
    shutdown(fd, SHUT_WR);
    assert_int_equal(harness_drain(fd), 0); /* no reply of any kind */
    close(fd);
    harness_counters_refresh(&server);
    assert_int_equal(way(&server, "events"), 4);
    assert_int_equal(way(&server, "truncated"), 1);
    assert_int_equal(way(&server, "answered"), 0);
    harness_stop(&server);
}

static void lines_come_in_any_pieces(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, stream);
    int fd = harness_connect(server.port);
    const char *bytewise = "one.by.one 1.25 1700000000\r\ntwo 2 2\n";
    for (const char *at = bytewise; *at; at++)
        assert_true(harness_send(fd, at, 1));
    enum { MANY = 20000 };
    char *text = malloc(MANY * 40), *end = text;
    for (int i = 0; i < MANY; i++)
        end += sprintf(end, "host%d.cpu.load %d.5 17000%05d\n", i % 1000, i, i);
    assert_true(harness_send(fd, text, (size_t)(end - text)));
    size_t bytes = (size_t)(end - text) + strlen(bytewise);
    wait_for_lines(&server, MANY + 2);
    assert_int_equal(way(&server, "events"), MANY + 2);
    assert_int_equal(way(&server, "accepted_bytes"), bytes);
    assert_true(way(&server, "accepted") < MANY / 10); /* lines share items */
    assert_int_equal(way(&server, "discarded"), way(&server, "accepted"));
    free(text);
    close(fd);
    harness_stop(&server);
}

static void a_datagram_holds_lines(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, datagram);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)server.port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    send_text(fd, "u 1 1\nv nan 2\r\nw 3 3");
    send_text(fd, "x 4 4\n");
    wait_for_lines(&server, 4);
    assert_int_equal(way(&server, "accepted"), 2);
    assert_int_equal(way(&server, "events"), 3);
    assert_int_equal(way(&server, "malformed"), 1);
    close(fd);
    harness_stop(&server);
}

static int connect_local(const struct harness_server *server)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s.sock", server->folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static void riemann_over_a_local_socket(void **state)
{
    (void)state;
    char path[128];
    uint8_t message[256];
    struct stat found;
    struct harness_server server;
    harness_build(&server, local, NULL, NULL);
    mode_t mask = umask(027);
    harness_start(&server, NULL);
    umask(mask);
    snprintf(path, sizeof path, "%s/s.sock", server.folder);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0640);
    int fd = connect_local(&server);
    assert_true(fd >= 0);
    size_t size = harness_message(message, sizeof message, 1, "local");
    for (int i = 0; i < 100; i++)
        assert_true(harness_send(fd, message, size));
    for (int i = 0; i < 100; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(stat(path, &found), -1); /* gone with the server */
    harness_remove(&server);
}

/* A server that was killed leaves its file behind; the next one replaces it. A file that is no socket stays. */
static void files_in_the_way(void **state)
{
    (void)state;
    char path[128], command[256];
    struct stat found;
    struct harness_server server;
    harness_run(&server, local);
    snprintf(path, sizeof path, "%s/s.sock", server.folder);
    snprintf(command, sizeof command, "%s 2>/dev/null", server.binary);
    assert_int_equal(WEXITSTATUS(system(command)), 2); /* it answers there: left alone */
    int fd = connect_local(&server);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(harness_wait(&server, SIGKILL), 128 + SIGKILL);
    assert_int_equal(stat(path, &found), 0);
    harness_start(&server, NULL);
    fd = connect_local(&server);
    assert_true(fd >= 0);
    close(fd);
    /* Somebody else's file in that place is not removed at the end. */
    unlink(path);
    FILE *file = fopen(path, "w");
    fputs("mine", file);
    fclose(file);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_size, 4);
    assert_int_equal(WEXITSTATUS(system(command)), 2);
    assert_int_equal(stat(path, &found), 0);
    harness_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_line_costs_only_itself),
        cmocka_unit_test(lines_come_in_any_pieces),
        cmocka_unit_test(a_datagram_holds_lines),
        cmocka_unit_test(riemann_over_a_local_socket),
        cmocka_unit_test(files_in_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
