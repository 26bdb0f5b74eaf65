/* How a server starts and ends: its command line, its addresses, SIGTERM with and without load. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/system/harness.h"

#define MS 1000000u

static const char plain[] =
    "pool io threads 1\npool workers threads 2\n"
    "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
    "    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n";

static const char slow[] =
    "pool io threads 1\npool workers threads 1\n"
    "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
    "    handoff workers limit 64MiB full block\n    decode riemann\n    busy 0ns pause 50ms\n    encode riemann\n    reply\n}\n";

static size_t fill(uint8_t *out, size_t room, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += harness_message(out + size, room - size, 1, "end");
    return size;
}

/* Sends without end and counts the answers until the stream ends. */
struct sender {
    pthread_t handle;
    int port;
    long answered;
    bool broken; /* something came that is no reply, or half a reply */
};

static void *sender_run(void *argument)
{
    struct sender *sender = argument;
    uint8_t many[32 * 64], ack[6];
    size_t size = fill(many, sizeof many, 32);
    int fd = harness_connect(sender->port);
    sender->broken = fd < 0;
    while (fd >= 0 && harness_send(fd, many, size))
        for (int i = 0; i < 32; i++) {
            size_t got = 0;
            while (got < sizeof ack) {
                ssize_t n = recv(fd, ack + got, sizeof ack - got, 0);
                if (n <= 0)
                    break;
                got += (size_t)n;
            }
            if (got != sizeof ack) {
                sender->broken = sender->broken || got != 0;
                goto out;
            }
            sender->broken = sender->broken || memcmp(ack, "\0\0\0\2\20\1", 6) != 0;
            sender->answered++;
        }
out:
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void sigterm_at_full_load_answers_what_it_took(void **state)
{
    (void)state;
    enum { SENDERS = 8 };
    struct harness_server server;
    struct sender senders[SENDERS] = { 0 };
    harness_run(&server, plain);
    for (int i = 0; i < SENDERS; i++) {
        senders[i].port = server.port;
        assert_int_equal(pthread_create(&senders[i].handle, NULL, sender_run, &senders[i]), 0);
    }
    usleep(300000);
    uint64_t start_ns = weir_clock_ns();
    int rc = harness_wait(&server, SIGTERM);
    uint64_t took_ns = weir_clock_ns() - start_ns;
    uint64_t answered = 0;
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].handle, NULL);
        assert_false(senders[i].broken);
        answered += (uint64_t)senders[i].answered;
    }
    assert_int_equal(rc, 0);
    assert_true(took_ns < 3000 * (uint64_t)MS);
    harness_check_conservation(&server);
    assert_true(answered > 0);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "in_flight"), 0);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "answered"), answered);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "abandoned"), 0);
    harness_remove(&server);
}

static void a_client_that_never_reads_does_not_hang_the_drain(void **state)
{
    (void)state;
    struct harness_server server;
    const char *options[] = { "--drain", "300ms", NULL };
    harness_build(&server, plain, NULL, NULL);
    harness_start(&server, options);
    int deaf = harness_deaf_client(&server, "riemann");
    uint64_t start_ns = weir_clock_ns();
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    uint64_t took_ns = weir_clock_ns() - start_ns;
    assert_in_range(took_ns / MS, 250, 2500);
    harness_check_conservation(&server);
    assert_true(harness_counter(&server, "ways_in", "riemann", "abandoned") > 0);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "in_flight"), 0);
    close(deaf);
    harness_remove(&server);
}

static void a_drain_waits_for_what_is_in_the_queue(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t many[10 * 64];
    harness_run(&server, slow);
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, many, fill(many, sizeof many, 10)));
    usleep(100000);
    kill(server.pid, SIGTERM);
    for (int i = 0; i < 10; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(harness_drain(fd), 0);
    close(fd);
    assert_int_equal(harness_wait(&server, 0), 0);
    harness_check_conservation(&server);
    harness_remove(&server);
}

/* Items are on their way from the middle pool to the last one when the time is up: none may be lost, nobody may hang. */
static void time_is_up_while_items_go_from_pool_to_pool(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t many[200 * 64];
    const char *options[] = { "--drain", "100ms", NULL };
    harness_build(&server, "pool io threads 1\npool middle threads 2\npool last threads 1\n"
                           "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                           "    handoff middle limit 64MiB items 4 full block as first\n    decode riemann\n    busy 0ns pause 20ms as a\n"
                           "    handoff last limit 64MiB items 1 full block as second\n    busy 0ns pause 30ms as b\n"
                           "    encode riemann\n    reply\n}\n", NULL, NULL);
    harness_start(&server, options);
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, many, fill(many, sizeof many, 200)));
    usleep(200000);
    uint64_t start_ns = weir_clock_ns();
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_true(weir_clock_ns() - start_ns < 1900 * (uint64_t)MS);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "in_flight"), 0);
    assert_int_equal(harness_counter(&server, "queues", "riemann.second", "queued"), 0);
    assert_true(harness_counter(&server, "ways_in", "riemann", "abandoned") > 0);
    close(fd);
    harness_remove(&server);
}

static bool says(const char *path, const char *part)
{
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        found = found || strstr(line, part);
    fclose(file);
    return found;
}

static void a_stage_that_does_not_return_does_not_hang_the_end(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t many[3 * 64];
    const char *options[] = { "--drain", "100ms", NULL };
    harness_build(&server, "pool io threads 1\npool workers threads 1\n"
                           "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                           "    handoff workers limit 64MiB full block\n    decode riemann\n    busy 0ns pause 60s\n    encode riemann\n"
                           "    reply\n}\n", NULL, NULL);
    harness_start(&server, options);
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, many, fill(many, sizeof many, 3)));
    usleep(100000);
    uint64_t start_ns = weir_clock_ns();
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_true(weir_clock_ns() - start_ns < 5000 * (uint64_t)MS);
    assert_true(says(server.errors, "a stage did not return"));
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "in_flight"), 3);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "queued"), 2);
    close(fd);
    harness_remove(&server);
}

static void a_second_signal_ends_it(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t many[100 * 64];
    harness_run(&server, slow);
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, many, fill(many, sizeof many, 100)));
    usleep(100000);
    kill(server.pid, SIGTERM);
    usleep(100000);
    uint64_t start_ns = weir_clock_ns();
    assert_int_equal(harness_wait(&server, SIGTERM), 128 + SIGTERM);
    assert_true(weir_clock_ns() - start_ns < 1000 * (uint64_t)MS);
    close(fd);
    harness_remove(&server);
}

/* Runs the server's binary with a bad command line; returns its exit code, and its stderr in `text`. */
static int run_badly(const struct harness_server *server, const char *first, const char *second, char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], 2);
        execl(server->binary, server->binary, first, second, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length + 1 < size && (got = read(ends[0], text + length, size - length - 1)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_bad_command_line_gets_one_sentence(void **state)
{
    (void)state;
    struct harness_server server;
    char text[1024], taken[64];
    harness_run(&server, plain);
    assert_int_equal(run_badly(&server, "--self-metrics", "1ms", text, sizeof text), 2);
    assert_non_null(strstr(text, "--self-metrics"));
    assert_int_equal(run_badly(&server, "--drain", "soon", text, sizeof text), 2);
    assert_non_null(strstr(text, "'soon'"));
    assert_int_equal(run_badly(&server, "--drain", NULL, text, sizeof text), 2);
    assert_int_equal(run_badly(&server, "--listen", "nobody=127.0.0.1:0", text, sizeof text), 2);
    assert_non_null(strstr(text, "nobody"));
    assert_int_equal(run_badly(&server, "--listen", "riemann=nowhere", text, sizeof text), 2);
    assert_non_null(strstr(text, "nowhere"));
    assert_int_equal(run_badly(&server, "--frobnicate", "1", text, sizeof text), 2);
    snprintf(taken, sizeof taken, "riemann=127.0.0.1:%d", server.port);
    assert_int_equal(run_badly(&server, "--listen", taken, text, sizeof text), 2);
    assert_non_null(strstr(text, "in use"));
    assert_null(strchr(strchr(text, '\n') + 1, '\n')); /* one line */
    harness_stop(&server);
}

static void two_pipelines_listen_and_share_a_pool(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t message[128];
    size_t size = harness_message(message, sizeof message, 2, "two");
    harness_run(&server, "pool io threads 2\npool workers threads 2\n"
                         "pipeline one {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 8MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n"
                         "pipeline two {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    decode riemann\n"
                         "    handoff workers limit 64MiB sized typed full reject\n    index\n    encode riemann\n    reply\n}\n");
    for (int i = 0; i < 50; i++) {
        int fd = harness_connect(server.port);
        assert_true(harness_send(fd, message, size));
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
        close(fd);
    }
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "one", "events"), 100);
    assert_int_equal(harness_counter(&server, "ways_in", "two", "accepted"), 0);
    harness_remove(&server);
}

/* Everything on the event loop's own thread, and a `call` of the user's beside it. */
static void a_pipeline_needs_no_handoff(void **state)
{
    (void)state;
    static const char c[] =
        "#include <weir/call.h>\n#include <string.h>\n"
        "int check(struct weir_item *item, struct weir_call *call)\n{\n"
        "    struct weir_call_bytes s = weir_item_service(item, 0);\n"
        "    if (s.size == 4 && memcmp(s.data, \"drop\", 4) == 0)\n        return 1;\n"
        "    if (s.size == 4 && memcmp(s.data, \"fail\", 4) == 0)\n        return weir_call_fail(call, \"no such service\");\n"
        "    if (s.size == 4 && memcmp(s.data, \"code\", 4) == 0)\n        return -7;\n"
        "    if (s.size == 4 && memcmp(s.data, \"some\", 4) == 0) {\n"
        "        char *text = weir_call_alloc(call, 30);\n"
        "        return text ? (memcpy(text, \"from memory of its own\", 23), weir_call_fail(call, text)) : 0;\n    }\n"
        "    if (s.size == 4 && memcmp(s.data, \"much\", 4) == 0)\n"
        "        return weir_call_alloc(call, 70000) ? 0 : weir_call_fail(call, \"no room\");\n"
        "    return 0;\n}\n";
    enum { COUNT = 7 };
    static const char *const services[COUNT] = { "pass", "drop", "fail", "code", "some", "much", "pass" };
    static const char *const errors[COUNT] = { "", "dropped at riemann.check", "riemann.check: no such service",
                                               "riemann.check failed with code -7", "riemann.check: from memory of its own",
                                               "riemann.check: no room", "" };
    struct harness_server server;
    uint8_t message[128];
    char error[200];
    harness_build(&server,
                  "pool io threads 1\npipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n"
                  "    decode riemann max 64KiB\n    call \"check.c\" check as check\n    index\n    encode riemann\n    reply\n}\n", "check.c", c);
    harness_start(&server, NULL);
    int fd = harness_connect(server.port);
    for (int i = 0; i < COUNT; i++) {
        assert_true(harness_send(fd, message, harness_message(message, sizeof message, 1, services[i])));
        assert_int_equal(harness_reply(fd, error, sizeof error), *errors[i] == '\0');
        assert_string_equal(error, errors[i]);
    }
    close(fd);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "stages", "riemann.check", "entries"), COUNT);
    assert_int_equal(harness_counter(&server, "stages", "riemann.index", "entries"), 2);
    harness_remove(&server);
}

/* Those that find no slot for the tracer work all the same, and are counted. */
static void more_threads_than_slots_serve(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t many[200 * 64];
    char text[65536];
    harness_run(&server, "pool io threads 2\npool workers threads 300\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB full block\n    decode riemann\n    busy 0ns pause 5ms\n    index\n"
                         "    encode riemann\n    reply\n}\n");
    int fd = harness_connect(server.port);
    for (int round = 0; round < 5; round++) {
        assert_true(harness_send(fd, many, fill(many, sizeof many, 200)));
        for (int i = 0; i < 200; i++)
            assert_int_equal(harness_reply(fd, NULL, 0), 1);
    }
    close(fd);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "answered"), 1000);
    FILE *file = fopen(server.counters, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "\"thread_overflow\":46,")); /* 302 of 256 */
    harness_remove(&server);
}

static void busy_burns_what_it_says(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t many[100 * 64];
    harness_run(&server, "pool io threads 1\npool workers threads 1\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB full block\n    decode riemann\n    busy 1ms as long\n    busy 20us as short\n    encode riemann\n    reply\n}\n");
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, many, fill(many, sizeof many, 100)));
    for (int i = 0; i < 100; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    uint64_t burned = harness_counter(&server, "stages", "riemann.long", "own_cpu_ns");
    assert_in_range(burned, 99 * MS, 115 * MS);
    assert_in_range(harness_counter(&server, "stages", "riemann.short", "own_cpu_ns"), 1900000, 4000000);
    harness_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigterm_at_full_load_answers_what_it_took),
        cmocka_unit_test(a_client_that_never_reads_does_not_hang_the_drain),
        cmocka_unit_test(a_drain_waits_for_what_is_in_the_queue),
        cmocka_unit_test(time_is_up_while_items_go_from_pool_to_pool),
        cmocka_unit_test(a_stage_that_does_not_return_does_not_hang_the_end),
        cmocka_unit_test(a_second_signal_ends_it),
        cmocka_unit_test(a_bad_command_line_gets_one_sentence),
        cmocka_unit_test(two_pipelines_listen_and_share_a_pool),
        cmocka_unit_test(a_pipeline_needs_no_handoff),
        cmocka_unit_test(more_threads_than_slots_serve),
        cmocka_unit_test(busy_burns_what_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
