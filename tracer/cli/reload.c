/* weir reload FILE TARGET: checks and builds a pipeline file, and has a running server become it. */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/control.h"
#include "tracer/cli/server_cache.h"
#include "tracer/cli/verb.h"
#include "tracer/target.h"

#define ANSWER_MS 40000
#define ARRIVAL_MS 30000
#define LOOK_US 5000

/* The socket, or -errno. */
static int try_to_connect(const struct weir_target *target)
{
    struct sockaddr_un address;
    socklen_t length = weir_control_address(&address, target->contract.start_ns);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0)
        return fd;
    int code = -errno;
    if (fd >= 0)
        close(fd);
    return code;
}

static int connect_to(const struct weir_target *target, struct weir_error *error)
{
    int fd = try_to_connect(target), code = -fd;
    if (fd >= 0)
        return fd;
    return weir_error_set(error, WEIR_EXIT_CANNOT, code,
                          "%s (PID %d) does not listen for requests here: %s; it may lie in another network namespace, or come "
                          "from an older weir",
                          target->process.name, target->process.pid, strerror(code));
}

/* Asks, and waits for the server to have tried the program. */
static int ask(int fd, const char *program, const char *file, struct weir_error *error)
{
    struct weir_buffer packet = WEIR_BUFFER_INIT;
    char reply[1200] = "";
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    weir_buffer_add(&packet, WEIR_CONTROL_RELOAD, sizeof WEIR_CONTROL_RELOAD);
    weir_buffer_add(&packet, program, strlen(program) + 1);
    weir_buffer_add(&packet, file, strlen(file) + 1);
    int rc = 0;
    if (packet.failed || packet.length > WEIR_CONTROL_PACKET || send(fd, packet.data, packet.length, MSG_NOSIGNAL) < 0)
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, EPIPE, "can't ask the server to reload: %s", strerror(errno));
    else if (poll(&ready, 1, ANSWER_MS) <= 0 || recv(fd, reply, sizeof reply - 1, 0) <= 0)
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, ETIMEDOUT,
                            "the server did not answer: it ends, or is reloading already; nothing is known to have changed");
    else if (strcmp(reply, "ok") != 0)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s; the server goes on as before",
                            strncmp(reply, "error ", 6) == 0 ? reply + 6 : reply);
    weir_buffer_release(&packet);
    return rc;
}

/* The server is another one as soon as the process has a contract with another start; it is up when it listens for requests. */
static int wait_for_arrival(const char *pid, uint64_t start_ns, struct weir_error *error)
{
    struct weir_error unseen = WEIR_ERROR_INIT;
    for (int waited_us = 0; waited_us < ARRIVAL_MS * 1000; waited_us += LOOK_US) {
        struct weir_target target;
        if (weir_target_open(&target, pid, &unseen) == 0) {
            int fd = target.contract.start_ns != start_ns ? try_to_connect(&target) : -EAGAIN;
            bool arrived = fd >= 0;
            if (arrived)
                close(fd);
            weir_target_close(&target);
            if (arrived)
                return 0;
        }
        if (kill(atoi(pid), 0) != 0 && errno == ESRCH)
            return weir_error_set(error, WEIR_EXIT_CANNOT, ESRCH, "the server ended while it was reloading; its stderr says why");
        usleep(LOOK_US);
    }
    return weir_error_set(error, WEIR_EXIT_CANNOT, ETIMEDOUT,
                          "the server accepted the new program, but still finishes requests after %d s; --drain bounds that",
                          ARRIVAL_MS / 1000);
}

static int reload(const char *program, const char *file, const char *name, struct weir_error *error)
{
    struct weir_target target;
    char path[PATH_MAX], pid[16];
    int rc = weir_target_open(&target, name, error);
    if (rc != 0)
        return rc;
    uint64_t start_ns = target.contract.start_ns;
    snprintf(pid, sizeof pid, "%d", target.process.pid);
    int fd = connect_to(&target, error);
    weir_target_close(&target);
    if (fd < 0)
        return fd;
    rc = ask(fd, program, realpath(file, path) ? path : file, error);
    close(fd);
    if (rc == 0)
        rc = wait_for_arrival(pid, start_ns, error);
    if (rc == 0)
        fprintf(stderr, "weir reload: PID %s runs %s now\n", pid, file);
    return rc;
}

static int run(int argc, char **argv)
{
    if (argc != 3 || argv[1][0] == '-')
        return weir_cli_usage(&weir_verb_reload, "which pipeline file, and which server?");
    struct weir_buffer program = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = weir_cli_cached_server("reload", argv[1], &program);
    if (exit == WEIR_EXIT_DONE && reload(weir_buffer_text(&program), argv[1], argv[2], &error) != 0)
        exit = weir_cli_fail("reload", &error);
    weir_buffer_release(&program);
    return exit;
}

const struct weir_verb weir_verb_reload = {
    .name = "reload",
    .usage = "FILE TARGET",
    .summary = "checks and builds a pipeline file, and has a running server become it",
    .run = run,
    .manual = "The process, its listening sockets and its connections stay; no connection is refused and no request is lost. The\n"
              "server finishes the requests that it has, becomes the new program, and goes on with what its connections sent\n"
              "meanwhile. A file with errors, or one that can't be started (an address in use), changes nothing.\n"
              "\n"
              "Clients notice a pause: some milliseconds more than the slowest request under way takes, and about 40 ms for each\n"
              "100,000 events of an index that has the same name in both files and takes them along. A request that takes longer than\n"
              "the server's --drain is given up, with its connection. What was counted begins anew.\n"
              "\n"
              "A connection ends, when its replies are written, where it can't go on: with TLS, or where its pipeline listens\n"
              "no more, has got TLS or another protocol, or does not allow its address any more.\n"
              "\n"
              "A signal that comes in the pause is followed after it.\n"
              "\n"
              "SIGHUP does the same with the file that `weir run` was given, or with the program that `weir build` wrote, which\n"
              "may have been written anew since.\n",
};
