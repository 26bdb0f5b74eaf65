/* A running server becomes another one: by `weir reload`, by SIGHUP, or not at all. */
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

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "pipeline_dsl/client/riemann.h"
#include "pipeline_dsl/runtime/control.h"
#include "tests/system/harness.h"
#include "tests/system/reloading.h"

#define MS 1000000ull
#define SENDERS 3

/* %s: threads of the workers, more stages, more pipelines. */
static const char pipeline[] = "pool io threads 2\n"
                               "pool workers threads %s\n"
                               "pipeline riemann {\n"
                               "    listen tcp 127.0.0.1:0 on io\n"
                               "    frame length32 max 16MiB\n"
                               "    handoff workers limit 64MiB full block\n"
                               "    decode riemann\n"
                               "%s"
                               "    index\n"
                               "    encode riemann\n"
                               "    reply\n"
                               "}\n"
                               "%s";

static const char beside[] = "pipeline beside {\n"
                             "    listen tcp 127.0.0.1:%d on io\n"
                             "    frame length32 max 1MiB\n"
                             "    decode riemann\n"
                             "    encode riemann\n"
                             "    reply\n"
                             "}\n";

static void write_pipeline(const char *path, const char *threads, const char *stages, const char *more)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, pipeline, threads, stages, more);
    assert_int_equal(fclose(file), 0);
}

/* `server` runs the pipeline with 2 workers; `path` is another file beside its own. */
static void begin(struct harness_server *server, char *path, size_t size)
{
    char text[2048];
    snprintf(text, sizeof text, pipeline, "2", "", "");
    harness_run(server, text);
    snprintf(path, size, "%s/next.weir", server->folder);
}

struct sender {
    struct weir_riemann *client;
    atomic_bool *stop;
    uint64_t taken;
    atomic_uint_fast64_t acked, failed;
};

static void ended(void *context, const struct weir_outcome *outcome)
{
    struct sender *sender = context;
    atomic_fetch_add(outcome->result == WEIR_CLIENT_ACKED ? &sender->acked : &sender->failed, 1);
}

static void *send_on(void *argument)
{
    static const struct weir_event event = { .host = { (const uint8_t *)"host", 4 }, .service = { (const uint8_t *)"reload", 6 },
                                             .metric_kind = WEIR_METRIC_INT, .metric_int = 1 };
    struct sender *sender = argument;
    while (!atomic_load(sender->stop)) {
        int rc = weir_riemann_send_event(sender->client, &event, ended, sender, NULL, NULL);
        if (rc == 0)
            sender->taken++;
        else if (rc != -EAGAIN)
            atomic_fetch_add(&sender->failed, 1);
        else
            usleep(100);
    }
    return NULL;
}

static void reloads_under_load_fail_nothing(void **state)
{
    (void)state;
    struct harness_server server;
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    atomic_bool stop = false;
    char path[128], own[128], address[64];
    begin(&server, path, sizeof path);
    snprintf(own, sizeof own, "%s/x.weir", server.folder);
    write_pipeline(path, "3", "    busy 10us\n", "");
    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){ .stop = &stop };
        assert_int_equal(weir_riemann_open(&senders[i].client, address, &(struct weir_riemann_options){ .in_flight = 256 }, NULL), 0);
        assert_int_equal(pthread_create(&threads[i], NULL, send_on, &senders[i]), 0);
    }
    uint64_t before = reloading_started(&server, NULL);
    long count = harness_count(50, 500);
    for (long i = 0; i < count; i++) {
        uint32_t workers;
        usleep(20000);
        assert_int_equal(reloading_reload(&server, i % 2 ? own : path), 0);
        uint64_t now = reloading_started(&server, &workers);
        assert_true(now > before);
        assert_int_equal(workers, i % 2 ? 2 : 3);
        before = now;
    }
    atomic_store(&stop, true);
    for (int i = 0; i < SENDERS; i++) {
        struct weir_riemann_counts counts;
        pthread_join(threads[i], NULL);
        weir_riemann_counts(senders[i].client, &counts);
        weir_riemann_close(senders[i].client, 10000 * MS);
        assert_int_equal(atomic_load(&senders[i].failed), 0);
        assert_int_equal(senders[i].taken, atomic_load(&senders[i].acked));
        assert_true(senders[i].taken > 1000);
        assert_int_equal(counts.connections, 1); /* it is the same one all the time */
    }
    harness_stop(&server);
}

/* What was received and not worked on, and what was answered and not read, goes along. */
static void half_a_frame_and_unread_replies_go_along(void **state)
{
    (void)state;
    struct harness_server server;
    uint8_t message[512], *flood;
    char path[128];
    begin(&server, path, sizeof path);
    write_pipeline(path, "1", "", "");
    size_t size = harness_message(message, sizeof message, 1, "half");
    int half = harness_connect(server.port), deaf = harness_connect(server.port);
    assert_true(harness_send(half, message, size / 2));
    size_t count = 200;
    flood = malloc(size * count);
    assert_non_null(flood);
    for (size_t i = 0; i < count; i++)
        memcpy(flood + i * size, message, size);
    assert_true(harness_send(deaf, flood, size * count));
    free(flood);
    usleep(50000);
    assert_int_equal(reloading_reload(&server, path), 0);
    assert_true(harness_send(half, message + size / 2, size - size / 2));
    assert_int_equal(harness_reply(half, NULL, 0), 1);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(harness_reply(deaf, NULL, 0), 1);
    close(half);
    close(deaf);
    harness_stop(&server);
}

/* A client that reads nothing at all holds up neither the reload nor the others, and finds every reply in the end. */
static void what_was_indexed_is_found_afterwards(void **state)
{
    (void)state;
    enum { MESSAGES = 100 };
    static const uint8_t query[] = "\0\0\0\10\x2a\6\12\4true";
    struct harness_server server;
    char path[128];
    uint8_t message[256], header[4];
    begin(&server, path, sizeof path);
    int fd = harness_connect(server.port);
    size_t lengths[2];
    for (int after = 0; after < 2; after++) {
        for (int i = 0; !after && i < MESSAGES; i++) {
            char service[16];
            snprintf(service, sizeof service, "key %02d", i);
            assert_true(harness_send(fd, message, harness_message(message, sizeof message, 1, service)));
            assert_int_equal(harness_reply(fd, NULL, 0), 1);
        }
        assert_true(harness_send(fd, query, sizeof query - 1));
        assert_true(harness_receive(fd, header, sizeof header));
        lengths[after] = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
        uint8_t *reply = malloc(lengths[after]);
        assert_true(harness_receive(fd, reply, lengths[after]));
        free(reply);
        assert_true(lengths[after] > MESSAGES * 10); /* all of them, with their names and times */
        if (after)
            break;
        write_pipeline(path, "3", "", "");
        assert_int_equal(reloading_reload(&server, path), 0);
    }
    assert_int_equal(lengths[0], lengths[1]);
    close(fd);
    harness_stop(&server);
}

static void a_deaf_client_holds_nobody_up(void **state)
{
    (void)state;
    struct harness_server server;
    char path[128];
    uint8_t message[512];
    begin(&server, path, sizeof path);
    write_pipeline(path, "1", "", "");
    size_t size = harness_message(message, sizeof message, 1, "other");
    int deaf = harness_deaf_client(&server, "riemann"), other = harness_connect(server.port);
    assert_int_equal(reloading_reload(&server, path), 0);
    assert_true(harness_send(other, message, size));
    assert_int_equal(harness_reply(other, NULL, 0), 1);
    for (int i = 0; i < 1000; i++)
        assert_true(harness_reply(deaf, NULL, 0) >= 0);
    close(deaf);
    close(other);
    harness_stop(&server);
}

/* A socket that listens on a port of its own. */
static int hold_port(int *port)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* One that nobody has just now: others on this machine have many. */
static int free_port(void)
{
    int port;
    close(hold_port(&port));
    return port;
}

static void a_listener_comes_and_goes(void **state)
{
    (void)state;
    struct harness_server server;
    char path[128], own[128], more[512];
    uint8_t message[512];
    begin(&server, path, sizeof path);
    snprintf(own, sizeof own, "%s/x.weir", server.folder);
    int port = free_port();
    snprintf(more, sizeof more, beside, port);
    write_pipeline(path, "2", "", more);
    assert_int_equal(reloading_reload(&server, path), 0);
    size_t size = harness_message(message, sizeof message, 1, "beside");
    int first = harness_connect(server.port), second = harness_connect(port);
    assert_true(first >= 0 && second >= 0);
    assert_true(harness_send(second, message, size));
    assert_int_equal(harness_reply(second, NULL, 0), 1);
    assert_int_equal(reloading_reload(&server, own), 0);
    assert_int_equal(harness_drain(second), 0); /* its listener is gone, and so is it */
    assert_true(harness_send(first, message, size));
    assert_int_equal(harness_reply(first, NULL, 0), 1);
    assert_int_equal(harness_connect(port), -1);
    close(first);
    close(second);
    harness_stop(&server);
}

static void what_can_not_start_changes_nothing(void **state)
{
    (void)state;
    struct harness_server server;
    char path[128], more[512];
    int port;
    uint8_t message[512];
    begin(&server, path, sizeof path);
    uint64_t before = reloading_started(&server, NULL);
    int fd = harness_connect(server.port);
    write_pipeline(path, "2", "    indecks\n", "");
    assert_int_equal(reloading_reload(&server, path), 2);
    /* An address that somebody else has. */
    int holder = hold_port(&port);
    snprintf(more, sizeof more, beside, port);
    write_pipeline(path, "2", "", more);
    assert_int_equal(reloading_reload(&server, path), 2);
    assert_true(reloading_said(&server, "can't listen on"));
    assert_true(reloading_said(&server, "the server goes on as before"));
    assert_int_equal(reloading_started(&server, NULL), before);
    size_t size = harness_message(message, sizeof message, 1, "still");
    assert_true(harness_send(fd, message, size));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(holder);
    close(fd);
    harness_stop(&server);
}

/* A program that `weir build` wrote anew over the running one is what SIGHUP starts. */
static void a_hangup_starts_the_program_anew(void **state)
{
    (void)state;
    struct harness_server server;
    char path[128], command[512];
    uint8_t message[512];
    uint32_t workers = 0;
    begin(&server, path, sizeof path);
    write_pipeline(path, "5", "", "");
    uint64_t before = reloading_started(&server, NULL);
    int fd = harness_connect(server.port);
    snprintf(command, sizeof command, "%s build %s -o %s", harness_weir(), path, server.binary);
    assert_int_equal(system(command), 0);
    assert_int_equal(kill(server.pid, SIGHUP), 0);
    size_t size = harness_message(message, sizeof message, 1, "hangup");
    reloading_wait(&server, before);
    reloading_started(&server, &workers);
    assert_int_equal(workers, 5);
    assert_true(harness_send(fd, message, size));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    harness_stop(&server);
}

static size_t open_files(const struct harness_server *server)
{
    char path[64];
    size_t count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)server->pid);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* Whoever asks may be anybody: what he adds to his request must not stay with the server. */
static void descriptors_sent_with_a_request_are_not_taken(void **state)
{
    (void)state;
    struct harness_server server;
    struct sockaddr_un address;
    char path[128], reply[1024];
    begin(&server, path, sizeof path);
    socklen_t length = weir_control_address(&address, reloading_started(&server, NULL));
    size_t before = open_files(&server);
    for (int i = 0; i < 20; i++) {
        union {
            char bytes[CMSG_SPACE(2 * sizeof(int))];
            struct cmsghdr header;
        } control = { .header = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int)) } };
        const int sent[2] = { STDIN_FILENO, STDIN_FILENO };
        struct iovec piece = { .iov_base = "nonsense", .iov_len = 9 };
        struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes };
        memcpy(CMSG_DATA(&control.header), sent, sizeof sent);
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
        assert_true(sendmsg(fd, &message, MSG_NOSIGNAL) > 0);
        assert_true(recv(fd, reply, sizeof reply, 0) > 6 && memcmp(reply, "error ", 6) == 0);
        close(fd);
    }
    for (int i = 0; i < 1000 && open_files(&server) != before; i++) /* the last connection may still be closed */
        usleep(10000);
    assert_int_equal(open_files(&server), before);
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reloads_under_load_fail_nothing),
        cmocka_unit_test(half_a_frame_and_unread_replies_go_along),
        cmocka_unit_test(what_was_indexed_is_found_afterwards),
        cmocka_unit_test(a_deaf_client_holds_nobody_up),
        cmocka_unit_test(a_listener_comes_and_goes),
        cmocka_unit_test(what_can_not_start_changes_nothing),
        cmocka_unit_test(a_hangup_starts_the_program_anew),
        cmocka_unit_test(descriptors_sent_with_a_request_are_not_taken),
    };
    return cmocka_run_group_tests_name("server_reload", tests, NULL, NULL);
}
