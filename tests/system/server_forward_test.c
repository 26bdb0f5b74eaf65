/* `forward` between two servers, and to a downstream that the test plays itself: slots, losses, restarts, the order of replies. */
#include <netinet/in.h>
#include <poll.h>
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

#include "base/clock.h"
#include "tests/system/harness.h"

#define STAGE "up.forward"

static const char down_text[] =
    "pool io threads 1\npool workers threads 1\n"
    "pipeline down {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
    "    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n";

/* A server that forwards to `port`. */
static void build_up(struct harness_server *server, int port, unsigned connections, unsigned in_flight)
{
    char text[1024];
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 2\n"
             "pipeline up {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
             "    handoff workers limit 64MiB full block\n    decode riemann\n"
             "    forward riemann 127.0.0.1:%d connections %u in_flight %u\n    encode riemann\n    reply\n}\n",
             port, connections, in_flight);
    harness_build(server, text, NULL, NULL);
}

static void run_up(struct harness_server *server, int port, unsigned connections, unsigned in_flight)
{
    build_up(server, port, connections, in_flight);
    harness_start(server, NULL);
}

/* A socket that listens, as the downstream that this test plays. */
static int listen_here(int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 16) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int accept_here(int listener)
{
    struct timeval timeout = { 20, 0 };
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    return fd;
}

static void read_request(int fd)
{
    uint8_t header[4], body[4096];
    assert_true(harness_receive(fd, header, sizeof header));
    size_t size = (size_t)header[2] << 8 | header[3];
    assert_true(size <= sizeof body && harness_receive(fd, body, size));
}

static const uint8_t ack[] = { 0, 0, 0, 2, 0x10, 1 };

static void send_messages(int fd, int count)
{
    uint8_t frame[128];
    size_t size = harness_message(frame, sizeof frame, 1, "forwarded");
    for (int i = 0; i < count; i++)
        assert_true(harness_send(fd, frame, size));
}

static uint64_t slots(struct harness_server *server, const char *field)
{
    harness_counters_refresh(server);
    harness_check_conservation(server);
    return harness_counter(server, "slots", STAGE, field);
}

/* Until a counter has that value; at most 20 s. */
static void await(struct harness_server *server, const char *field, uint64_t value)
{
    for (int i = 0; i < 2000 && slots(server, field) != value; i++)
        usleep(10000);
    assert_int_equal(slots(server, field), value);
}

static void what_comes_in_reaches_the_other_server_once(void **state)
{
    (void)state;
    enum { CLIENTS = 4 };
    const int each = (int)harness_count(500, 5000);
    struct harness_server up, down;
    int fds[CLIENTS];
    harness_run(&down, down_text);
    run_up(&up, down.port, 2, 8);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = harness_connect(up.port);
        send_messages(fds[i], each);
    }
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < each; k++)
            assert_int_equal(harness_reply(fds[i], NULL, 0), 1);
        close(fds[i]);
    }
    uint64_t all = (uint64_t)each * CLIENTS;
    assert_int_equal(slots(&up, "finished"), all);
    assert_int_equal(slots(&up, "taken"), all);
    assert_int_equal(slots(&up, "open"), 2);
    assert_int_equal(slots(&up, "unfilled"), 0);
    assert_int_equal(harness_counter(&up, "queues", STAGE, "out"), all);
    harness_counters_refresh(&down);
    assert_int_equal(harness_counter(&down, "ways_in", "down", "events"), all);
    harness_stop(&up);
    harness_stop(&down);
}

/* The second request is answered first, and refused; the first client sees its replies in its own order. */
static void replies_leave_in_order_whatever_the_slots_do(void **state)
{
    (void)state;
    static const uint8_t refused[] = { 0, 0, 0, 6, 0x10, 0, 0x1a, 2, 'n', 'o' };
    struct harness_server up;
    char error[128];
    int port, listener = listen_here(&port);
    run_up(&up, port, 2, 4);
    int first = accept_here(listener), second = accept_here(listener);
    int fd = harness_connect(up.port);
    send_messages(fd, 1);
    struct pollfd fds[2] = { { .fd = first, .events = POLLIN }, { .fd = second, .events = POLLIN } };
    assert_true(poll(fds, 2, 20000) == 1);
    int early = fds[0].revents ? first : second, late = fds[0].revents ? second : first;
    send_messages(fd, 1); /* goes to the connection with the fewest in flight */
    read_request(early);
    read_request(late);
    assert_true(harness_send(late, refused, sizeof refused));
    await(&up, "failed", 1);
    assert_true(harness_send(early, ack, sizeof ack));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(harness_reply(fd, error, sizeof error), 0);
    assert_string_equal(error, "up.forward: no");
    close(fd);
    harness_stop(&up);
    close(first), close(second), close(listener);
}

static void a_full_pool_stops_the_workers_and_nothing_else(void **state)
{
    (void)state;
    struct harness_server up;
    int port, listener = listen_here(&port);
    run_up(&up, port, 1, 3);
    int down = accept_here(listener), fd = harness_connect(up.port);
    send_messages(fd, 20);
    await(&up, "in_use", 3);
    usleep(50000);
    assert_int_equal(slots(&up, "taken"), 3); /* both workers wait, and the io thread still takes what comes */
    uint64_t before = slots(&up, "full_ns");
    usleep(20000);
    assert_true(slots(&up, "full_ns") - before >= 15000000);
    harness_counters_refresh(&up);
    assert_int_equal(harness_counter(&up, "ways_in", "up", "accepted"), 20);
    for (int i = 0; i < 20; i++) {
        read_request(down);
        assert_true(slots(&up, "in_use") <= 3);
        assert_true(harness_send(down, ack, sizeof ack));
    }
    /* Two workers may have sent them in another order than that of the replies. */
    for (int i = 0; i < 20; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    await(&up, "finished", 20);
    assert_true(slots(&up, "waits") >= 2);
    assert_true(slots(&up, "waited_ns") >= 2 * 50000000u);
    uint64_t full = slots(&up, "full_ns");
    usleep(10000);
    assert_int_equal(slots(&up, "full_ns"), full);
    close(fd);
    harness_stop(&up);
    close(down), close(listener);
}

static void what_a_connection_takes_along_is_lost_and_said(void **state)
{
    (void)state;
    struct harness_server up;
    char error[128];
    int port, listener = listen_here(&port);
    run_up(&up, port, 1, 8);
    int down = accept_here(listener), fd = harness_connect(up.port);
    send_messages(fd, 3);
    for (int i = 0; i < 3; i++)
        read_request(down);
    close(down);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(harness_reply(fd, error, sizeof error), 0);
        assert_non_null(strstr(error, "lost"));
    }
    down = accept_here(listener); /* it comes again by itself */
    await(&up, "open", 1);
    send_messages(fd, 1);
    read_request(down);
    assert_true(harness_send(down, ack, sizeof ack));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(slots(&up, "lost"), 3);
    assert_int_equal(slots(&up, "finished"), 1);
    assert_int_equal(slots(&up, "reconnects"), 1);
    close(fd);
    harness_stop(&up);
    close(down), close(listener);
}

/* Field case S14. */
static void it_resumes_after_the_other_server_has_restarted(void **state)
{
    (void)state;
    struct harness_server up, down;
    char error[128], where[64];
    const char *options[] = { "--listen", where, NULL };
    harness_run(&down, down_text);
    snprintf(where, sizeof where, "down=127.0.0.1:%d", down.port);
    run_up(&up, down.port, 2, 8);
    int fd = harness_connect(up.port);
    send_messages(fd, 1);
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(harness_wait(&down, SIGKILL), 128 + SIGKILL);
    await(&up, "open", 0);
    uint64_t failed = slots(&up, "failed") + slots(&up, "lost");
    uint64_t begin = weir_clock_ns();
    send_messages(fd, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(harness_reply(fd, error, sizeof error), 0);
        assert_non_null(strstr(error, "no connection"));
    }
    assert_true(weir_clock_ns() - begin < 5000000000u); /* nobody waited for a connection */
    assert_int_equal(slots(&up, "failed"), failed + 5);
    assert_int_equal(slots(&up, "unfilled"), 16);
    harness_start(&down, options);
    await(&up, "open", 2);
    send_messages(fd, 1);
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(slots(&up, "finished"), 2);
    assert_int_equal(slots(&up, "reconnects"), 2);
    close(fd);
    harness_stop(&up);
    harness_stop(&down);
}

static void a_downstream_that_never_answers_does_not_hang_the_end(void **state)
{
    (void)state;
    struct harness_server up;
    const char *options[] = { "--drain", "200ms", NULL };
    int port, listener = listen_here(&port);
    build_up(&up, port, 1, 2);
    harness_start(&up, options);
    int down = accept_here(listener), fd = harness_connect(up.port);
    send_messages(fd, 10); /* 2 in flight, 2 with the workers that wait, 6 in the queue */
    await(&up, "in_use", 2);
    assert_int_equal(harness_wait(&up, SIGTERM), 0);
    harness_check_conservation(&up);
    assert_int_equal(harness_counter(&up, "slots", STAGE, "lost"), 2);
    assert_int_equal(harness_counter(&up, "slots", STAGE, "in_use"), 0);
    assert_int_equal(harness_counter(&up, "ways_in", "up", "in_flight"), 0);
    close(fd), close(down), close(listener);
    harness_remove(&up);
}

/* Event loops may wait for slots, too, and all their connections with them (W102): what comes back goes on there. */
static void event_loops_forward_themselves(void **state)
{
    (void)state;
    enum { CLIENTS = 4 };
    const int each = (int)harness_count(300, 3000);
    struct harness_server up, down;
    int fds[CLIENTS];
    char text[512];
    harness_run(&down, down_text);
    snprintf(text, sizeof text,
             "pool io threads 2\npipeline up {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    decode riemann\n"
             "    forward riemann 127.0.0.1:%d connections 2 in_flight 3\n    encode riemann\n    reply\n}\n",
             down.port);
    harness_run(&up, text);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = harness_connect(up.port);
        send_messages(fds[i], each);
    }
    for (int i = 0; i < CLIENTS; i++) {
        for (int k = 0; k < each; k++)
            assert_int_equal(harness_reply(fds[i], NULL, 0), 1);
        close(fds[i]);
    }
    uint64_t all = (uint64_t)each * CLIENTS;
    assert_int_equal(slots(&up, "finished"), all);
    assert_int_equal(harness_counter(&up, "queues", STAGE, "in"), all);
    assert_int_equal(harness_counter(&up, "queues", STAGE, "out"), all);
    /* A downstream that rests. */
    assert_int_equal(kill(down.pid, SIGSTOP), 0);
    int fd = harness_connect(up.port);
    send_messages(fd, 4);
    await(&up, "in_use", 4);
    assert_int_equal(kill(down.pid, SIGCONT), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    harness_stop(&up);
    harness_stop(&down);
}

/* What comes back to an event loop may have to wait for room in a queue, several items of one connection at once; and copies, which
 * belong to no connection, come back there too. */
static void event_loops_get_back_more_than_a_queue_takes(void **state)
{
    (void)state;
    enum { CLIENTS = 3 };
    const int each = (int)harness_count(200, 2000);
    struct harness_server up, down;
    int fds[CLIENTS];
    char text[1024];
    harness_run(&down, down_text);
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 1\n"
             "pipeline up {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    decode riemann max 1MiB\n"
             "    tee copies\n    forward riemann 127.0.0.1:%d connections 2 in_flight 8\n"
             "    handoff workers limit 1MiB items 1 full block\n    busy 100us\n    encode riemann\n    reply\n}\n"
             "pipeline copies {\n    forward riemann 127.0.0.1:%d connections 1 in_flight 4\n    drop\n}\n",
             down.port, down.port);
    harness_run(&up, text);
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = harness_connect(up.port);
        send_messages(fds[i], each);
    }
    /* The last one doesn't wait for its replies. */
    close(fds[CLIENTS - 1]);
    for (int i = 0; i < CLIENTS - 1; i++) {
        for (int k = 0; k < each; k++)
            assert_int_equal(harness_reply(fds[i], NULL, 0), 1);
        close(fds[i]);
    }
    await(&up, "in_use", 0);
    assert_true(slots(&up, "finished") >= (uint64_t)each * (CLIENTS - 1));
    assert_true(harness_counter(&up, "slots", "copies.forward", "taken") >= (uint64_t)each * (CLIENTS - 1));
    harness_stop(&up); /* which checks that nothing is left */
    harness_stop(&down);
}

static void it_starts_before_the_other_server_does(void **state)
{
    (void)state;
    struct harness_server up, down;
    char where[64];
    const char *options[] = { "--listen", where, NULL };
    int port, listener = listen_here(&port);
    close(listener);
    run_up(&up, port, 1, 1);
    harness_build(&down, down_text, NULL, NULL);
    snprintf(where, sizeof where, "down=127.0.0.1:%d", port);
    harness_start(&down, options);
    await(&up, "open", 1);
    int fd = harness_connect(up.port);
    send_messages(fd, 1);
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(slots(&up, "reconnects"), 0);
    close(fd);
    harness_stop(&up);
    harness_stop(&down);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_comes_in_reaches_the_other_server_once),
        cmocka_unit_test(replies_leave_in_order_whatever_the_slots_do),
        cmocka_unit_test(a_full_pool_stops_the_workers_and_nothing_else),
        cmocka_unit_test(what_a_connection_takes_along_is_lost_and_said),
        cmocka_unit_test(it_resumes_after_the_other_server_has_restarted),
        cmocka_unit_test(a_downstream_that_never_answers_does_not_hang_the_end),
        cmocka_unit_test(it_starts_before_the_other_server_does),
        cmocka_unit_test(event_loops_forward_themselves),
        cmocka_unit_test(event_loops_get_back_more_than_a_queue_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
