/* What goes from one server to the next, in the corners: half lines, parked requests, signals in the pause, programs that are none. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/system/harness.h"
#include "tests/system/reloading.h"

/* %s: the path of a socket, stages of the tail. */
static const char all_ways[] = "pool io threads 2\n"
                               "pool workers threads 2\n"
                               "pipeline tcp {\n"
                               "    listen tcp 127.0.0.1:0 on io\n"
                               "    frame length32 max 16MiB\n"
                               "    handoff workers limit 64MiB full block\n"
                               "    decode riemann\n"
                               "    then core\n"
                               "}\n"
                               "pipeline local {\n"
                               "    listen unix \"%s\" on io\n"
                               "    frame length32 max 16MiB\n"
                               "    handoff workers limit 64MiB full block\n"
                               "    decode riemann\n"
                               "    then core\n"
                               "}\n"
                               "pipeline udp {\n"
                               "    listen udp 127.0.0.1:0 on io\n"
                               "    handoff workers limit 16MiB full drop oldest\n"
                               "    decode riemann\n"
                               "    then core\n"
                               "}\n"
                               "pipeline graphite {\n"
                               "    listen tcp 127.0.0.1:0 on io\n"
                               "    frame lines max 1KiB\n"
                               "    handoff workers limit 16MiB full block\n"
                               "    decode graphite\n"
                               "    then core\n"
                               "}\n"
                               "pipeline core {\n"
                               "%s"
                               "    index\n"
                               "    encode riemann\n"
                               "    reply\n"
                               "}\n";

/* %s: the handoff's bounds, more stages. */
static const char one_way[] = "pool io threads 1\n"
                              "pool workers threads 1\n"
                              "pipeline riemann {\n"
                              "    listen tcp 127.0.0.1:0 on io\n"
                              "    frame length32 max 1MiB\n"
                              "    handoff workers limit 4MiB %s full block\n"
                              "    decode riemann\n"
                              "%s"
                              "    encode riemann\n"
                              "    reply\n"
                              "}\n";

static const char only_lines[] = "pool io threads 1\n"
                                 "pool workers threads 1\n"
                                 "pipeline graphite {\n"
                                 "    listen tcp 127.0.0.1:0 on io\n"
                                 "    frame lines max 1KiB\n"
                                 "    handoff workers limit 4MiB full block\n"
                                 "    decode graphite\n"
                                 "    index\n"
                                 "    drop\n"
                                 "}\n";

/* Starts the server that the text describes; `own` is its file. */
static void begin(struct harness_server *server, const char *text, char *own, size_t size)
{
    harness_run(server, text);
    snprintf(own, size, "%s/x.weir", server->folder);
}

static unsigned entries(const struct harness_server *server, const char *of)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", server->pid, of);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Until something is true, at most 20 s. */
#define WAIT_FOR(condition)                              \
    do {                                                 \
        int waited = 0;                                  \
        while (!(condition) && waited++ < 4000)          \
            usleep(5000);                                \
        assert_true(condition);                          \
    } while (0)

static uint64_t seen(struct harness_server *server, const char *way, const char *field)
{
    harness_counters_refresh(server);
    return harness_counter(server, "ways_in", way, field);
}

/* --- all ways in under load ---------------------------------------------------------------------------------------------- */

struct load {
    struct harness_server *server;
    atomic_bool *stop;
    const char *path;
    uint64_t sent, answered;
    bool failed;
};

/* Graphite lines, in pieces that end anywhere. */
static void *send_lines(void *argument)
{
    struct load *load = argument;
    char text[4096];
    int fd = harness_connect(harness_port(load->server, "graphite"));
    unsigned piece = 1;
    while (!load->failed && !atomic_load(load->stop)) {
        size_t length = 0;
        for (int i = 0; i < 40; i++, load->sent++)
            length += (size_t)snprintf(text + length, sizeof text - length, "some.path.%llu %llu 1700000000\n",
                                       (unsigned long long)(load->sent % 100), (unsigned long long)load->sent);
        for (size_t at = 0; at < length && !load->failed; at += piece) {
            piece = piece * 7 % 401 + 50;
            load->failed |= !harness_send(fd, text + at, at + piece < length ? piece : length - at);
        }
        usleep(500);
    }
    close(fd);
    return NULL;
}

static void *send_datagrams(void *argument)
{
    struct load *load = argument;
    uint8_t message[512];
    size_t size = harness_message(message, sizeof message, 1, "udp");
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)harness_port(load->server, "udp")),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    while (!atomic_load(load->stop)) {
        for (int i = 0; i < 20; i++)
            load->sent += sendto(fd, message + 4, size - 4, 0, (struct sockaddr *)&address, sizeof address) > 0;
        usleep(1000);
    }
    close(fd);
    return NULL;
}

static int connect_local(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* One round trip a connection: what connects in the pause waits. */
static void *connect_and_ask(void *argument)
{
    struct load *load = argument;
    uint8_t message[512];
    size_t size = harness_message(message, sizeof message, 1, "short");
    while (!load->failed && !atomic_load(load->stop)) {
        int fd = load->path ? connect_local(load->path) : harness_connect(harness_port(load->server, "tcp"));
        load->sent++;
        load->failed |= fd < 0 || !harness_send(fd, message, size) || harness_reply(fd, NULL, 0) != 1;
        load->answered++;
        close(fd);
        usleep(1000);
    }
    return NULL;
}

static void every_way_in_goes_on_under_load(void **state)
{
    (void)state;
    static void *(*const runs[4])(void *) = { send_lines, send_datagrams, connect_and_ask, connect_and_ask };
    struct harness_server server;
    struct load loads[4];
    pthread_t threads[4];
    atomic_bool stop = false;
    struct stat before, after;
    uint64_t lines = 0, datagrams = 0;
    char path[64] = "/tmp/weir-succession-XXXXXX", text[2048], own[128];
    assert_non_null(mkdtemp(path));
    strcat(path, "/s");
    snprintf(text, sizeof text, all_ways, path, "");
    begin(&server, text, own, sizeof own);
    assert_int_equal(stat(path, &before), 0);
    for (int i = 0; i < 4; i++) {
        loads[i] = (struct load){ .server = &server, .stop = &stop, .path = i == 3 ? path : NULL };
        assert_int_equal(pthread_create(&threads[i], NULL, runs[i], &loads[i]), 0);
    }
    long count = harness_count(20, 200);
    for (long i = 0; i <= count; i++) {
        usleep(20000);
        if (i < count) {
            assert_int_equal(reloading_reload(&server, own), 0);
        } else {
            atomic_store(&stop, true);
            for (int k = 0; k < 4; k++)
                pthread_join(threads[k], NULL);
            assert_int_equal(stat(path, &after), 0);
            assert_int_equal(after.st_ino, before.st_ino); /* nobody has replaced it */
            assert_int_equal(harness_wait(&server, SIGTERM), 0);
        }
        /* What the server that has just ended wrote. */
        harness_check_conservation(&server);
        lines += harness_counter(&server, "ways_in", "graphite", "events");
        assert_int_equal(harness_counter(&server, "ways_in", "graphite", "malformed"), 0);
        datagrams += harness_counter(&server, "ways_in", "udp", "accepted") + harness_counter(&server, "ways_in", "udp", "kernel_drops");
    }
    for (int i = 0; i < 4; i++)
        assert_false(loads[i].failed);
    assert_int_equal(lines, loads[0].sent);
    assert_int_equal(datagrams, loads[1].sent);
    assert_true(loads[2].answered > 10 && loads[3].answered > 10);
    assert_int_equal(access(path, F_OK), -1); /* the last one has removed it */
    *strrchr(path, '/') = '\0';
    rmdir(path);
    harness_remove(&server);
}

/* --- what a connection remembers ----------------------------------------------------------------------------------------- */

static void a_line_that_is_skipped_stays_skipped(void **state)
{
    (void)state;
    struct harness_server server;
    char own[128], line[2048];
    begin(&server, only_lines, own, sizeof own);
    int skipped = harness_connect(server.port), half = harness_connect(server.port);
    memset(line, 'a', sizeof line);
    assert_true(harness_send(skipped, line, sizeof line));
    assert_true(harness_send(half, "first 1 1\nhal", 13));
    WAIT_FOR(seen(&server, "graphite", "bad_lengths") == 1 && seen(&server, "graphite", "events") == 1);
    assert_int_equal(reloading_reload(&server, own), 0);
    assert_true(harness_send(skipped, "b 1 1\nok 1 1\n", 13));
    assert_true(harness_send(half, "f 2 2\n", 6));
    WAIT_FOR(seen(&server, "graphite", "events") == 2);
    assert_int_equal(seen(&server, "graphite", "malformed"), 0);
    assert_int_equal(seen(&server, "graphite", "bad_lengths"), 0);
    close(skipped);
    close(half);
    harness_stop(&server);
}

/* Requests that were received, but wait in front of a full queue; they lie in the middle of what the connection keeps. */
static void requests_before_a_full_queue_go_along(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct harness_server server;
    uint8_t message[512], *all;
    char text[1024], own[128];
    snprintf(text, sizeof text, one_way, "items 2", "    busy 2ms\n");
    begin(&server, text, own, sizeof own);
    size_t size = harness_message(message, sizeof message, 1, "parked");
    all = malloc(size * COUNT);
    assert_non_null(all);
    for (int i = 0; i < COUNT; i++)
        memcpy(all + (size_t)i * size, message, size);
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, all, size * COUNT));
    free(all);
    WAIT_FOR(seen(&server, "riemann", "answered") > 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(reloading_reload(&server, own), 0);
    assert_true(seen(&server, "riemann", "answered") < COUNT); /* or this shows nothing */
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    harness_stop(&server);
}

/* A client that has said all and not read yet finds every reply, and then the end. */
static void a_half_closed_connection_goes_along(void **state)
{
    (void)state;
    struct harness_server server;
    char text[2048], own[128];
    snprintf(text, sizeof text, one_way, "", "    index\n");
    begin(&server, text, own, sizeof own);
    uint64_t before = reloading_started(&server, NULL);
    int deaf = harness_deaf_client(&server, "riemann");
    assert_int_equal(shutdown(deaf, SHUT_WR), 0);
    assert_int_equal(reloading_reload(&server, own), 0);
    assert_true(reloading_started(&server, NULL) != before);
    long replies = 0;
    while (harness_reply(deaf, NULL, 0) >= 0)
        replies++;
    assert_true(replies > 100);
    close(deaf);
    harness_stop(&server);
}

static void a_connection_of_another_protocol_ends(void **state)
{
    (void)state;
    struct harness_server server;
    char text[1024], own[128], changed[2048];
    uint8_t message[512];
    size_t size = harness_message(message, sizeof message, 1, "before");
    snprintf(text, sizeof text, one_way, "", "");
    begin(&server, text, own, sizeof own);
    int before = harness_connect(server.port), after;
    assert_true(harness_send(before, message, size));
    assert_int_equal(harness_reply(before, NULL, 0), 1);
    snprintf(changed, sizeof changed, "%s/lines.weir", server.folder);
    FILE *file = fopen(changed, "w");
    assert_non_null(file);
    assert_true(fputs(only_lines, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(reloading_reload(&server, changed), 0);
    assert_int_equal(harness_drain(before), 0);
    after = harness_connect(server.port);
    assert_true(harness_send(after, "a 1 1\n", 6));
    WAIT_FOR(seen(&server, "graphite", "events") == 1);
    close(before);
    close(after);
    harness_stop(&server);
}

/* --- signals ------------------------------------------------------------------------------------------------------------- */

/* While a request holds up the pause: the end is put off, not brought forward, and comes all the same. */
static void an_end_in_the_pause_comes_after_it(void **state)
{
    (void)state;
    struct harness_server server;
    char text[1024], own[128], answer[1200];
    uint8_t message[512];
    size_t size = harness_message(message, sizeof message, 1, "slow");
    snprintf(text, sizeof text, one_way, "", "    busy 1us pause 1s\n");
    begin(&server, text, own, sizeof own);
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, message, size));
    WAIT_FOR(seen(&server, "riemann", "accepted") == 1);
    assert_true(reloading_ask(&server, server.binary, answer, sizeof answer));
    usleep(20000);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(harness_drain(fd), 0);
    close(fd);
    harness_check_conservation(&server);
    harness_remove(&server);
}

/* Each thread has its own list. */
static unsigned children(const struct harness_server *server)
{
    char path[320];
    int pid;
    unsigned count = 0;
    snprintf(path, sizeof path, "/proc/%d/task", server->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", server->pid, entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fscanf(file, "%d", &pid) == 1)
            count++;
        if (file)
            fclose(file);
    }
    closedir(folder);
    return count;
}

/* Hangups one upon the other, as an editor's hooks send them, while the tool still builds: all are followed, nothing is left. */
static void hangups_in_a_row_leave_nothing(void **state)
{
    (void)state;
    struct harness_server server;
    char text[1024], own[128];
    uint8_t message[512];
    uint32_t workers = 0;
    size_t size = harness_message(message, sizeof message, 1, "hangup");
    snprintf(text, sizeof text, one_way, "", "");
    harness_build(&server, text, NULL, NULL);
    snprintf(own, sizeof own, "%s/x.weir", server.folder);
    setenv("WEIR_RELOAD_TOOL", harness_weir(), 1);
    setenv("WEIR_RELOAD_FILE", own, 1);
    setenv("XDG_CACHE_HOME", server.folder, 1);
    harness_start(&server, NULL);
    unsetenv("WEIR_RELOAD_TOOL");
    unsetenv("WEIR_RELOAD_FILE");
    unsetenv("XDG_CACHE_HOME");
    int fd = harness_connect(server.port);
    uint64_t before = reloading_started(&server, NULL);
    for (int i = 0; i < 20; i++) {
        kill(server.pid, SIGHUP);
        usleep(i < 15 ? 1000 : 50000);
    }
    /* The last of them sees the last text. */
    FILE *file = fopen(own, "r+");
    assert_non_null(file);
    *strstr(text, "workers threads 1") = '\0';
    fprintf(file, "%sworkers threads 7\n", text);
    fclose(file);
    kill(server.pid, SIGHUP);
    reloading_wait(&server, before);
    for (int i = 0; i < 4000 && workers != 7; i++) {
        struct harness_server *now = &server;
        usleep(5000);
        assert_int_equal(kill(now->pid, 0), 0);
        before = reloading_started(now, &workers);
    }
    assert_int_equal(workers, 7);
    WAIT_FOR(children(&server) == 0);
    assert_true(harness_send(fd, message, size));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    harness_stop(&server);
}

/* --- programs ------------------------------------------------------------------------------------------------------------ */

static void write_script(const struct harness_server *server, const char *text, mode_t mode, char *path, size_t size)
{
    snprintf(path, size, "%s/script", server->folder);
    unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fchmod(fileno(file), mode), 0);
    assert_int_equal(fclose(file), 0);
}

struct asking {
    const struct harness_server *server;
    const char *program;
    char answer[1200];
};

static void *ask(void *argument)
{
    struct asking *asking = argument;
    reloading_ask(asking->server, asking->program, asking->answer, sizeof asking->answer);
    return NULL;
}

static void a_program_that_is_no_server_changes_nothing(void **state)
{
    (void)state;
    struct harness_server server;
    pthread_t thread;
    char text[1024], own[128], path[128], answer[1200];
    snprintf(text, sizeof text, one_way, "", "");
    begin(&server, text, own, sizeof own);
    uint64_t before = reloading_started(&server, NULL);
    write_script(&server, "#!/bin/sh\nexit 0\n", 0644, path, sizeof path);
    assert_false(reloading_ask(&server, path, answer, sizeof answer));
    assert_non_null(strstr(answer, "Permission denied"));
    write_script(&server, "#!/bin/sh\nexit 0\n", 0755, path, sizeof path);
    assert_false(reloading_ask(&server, path, answer, sizeof answer));
    assert_non_null(strstr(answer, "ended before it said"));
    assert_int_equal(reloading_started(&server, NULL), before);
    assert_int_equal(children(&server), 0);
    /* One that says nothing does not hold up the end. */
    write_script(&server, "#!/bin/sh\nexec sleep 1000\n", 0755, path, sizeof path);
    const struct harness_server asked = server; /* the thread's own */
    struct asking asking = { .server = &asked, .program = path };
    assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
    WAIT_FOR(children(&server) == 1);
    harness_stop(&server);
    pthread_join(thread, NULL);
    assert_non_null(strstr(asking.answer, "the server ends"));
}

static void reloads_leave_no_descriptors(void **state)
{
    (void)state;
    struct harness_server server;
    char text[1024], own[128], answer[1200];
    snprintf(text, sizeof text, one_way, "", "");
    begin(&server, text, own, sizeof own);
    int fd = harness_connect(server.port);
    unsigned first = 0;
    long count = harness_count(30, 500);
    for (long i = 0; i < count; i++) {
        uint64_t before = reloading_started(&server, NULL);
        assert_true(reloading_ask(&server, server.binary, answer, sizeof answer));
        reloading_wait(&server, before);
        WAIT_FOR(seen(&server, "riemann", "accepted") == 0);
        if (i == 0)
            first = entries(&server, "fd");
    }
    assert_int_equal(entries(&server, "fd"), first);
    assert_int_equal(children(&server), 0);
    close(fd);
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_in_goes_on_under_load),
        cmocka_unit_test(a_line_that_is_skipped_stays_skipped),
        cmocka_unit_test(requests_before_a_full_queue_go_along),
        cmocka_unit_test(a_half_closed_connection_goes_along),
        cmocka_unit_test(a_connection_of_another_protocol_ends),
        cmocka_unit_test(an_end_in_the_pause_comes_after_it),
        cmocka_unit_test(hangups_in_a_row_leave_nothing),
        cmocka_unit_test(a_program_that_is_no_server_changes_nothing),
        cmocka_unit_test(reloads_leave_no_descriptors),
    };
    return cmocka_run_group_tests_name("server_succession", tests, NULL, NULL);
}
