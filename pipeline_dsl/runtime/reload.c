/*
 * DESIGN: the new program runs in the same process, so that a supervisor, a shell and `kill -HUP` keep their PID. What can go
 * wrong in its start is found out before, by starting it once beside the running server: it inherits the listening sockets,
 * binds what is missing, and hands those back. What is left to fail in the real start is running out of memory.
 *
 * A connection changes sides when no request of it is being worked on. Replies that the client has not read go along, so that
 * one that never reads holds nobody up. The pause, for everybody, is that of the slowest request under way and of one exec().
 *
 * Signals that come in the pause are neither lost nor fatal: they are blocked before exec(), stay pending through it, and the
 * new program takes them when it can handle them.
 */
#include "pipeline_dsl/runtime/reload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/server.h"
#include "pipeline_dsl/runtime/takeover.h"

#define TRIAL_ENV "WEIR_TRIAL"
#define TRIAL_MS 30000u
#define ASK_MS 1000u
#define LOOK_MS 20 /* whether the server ends meanwhile */
#define SENTENCE (sizeof(struct weir_error) + 16)

extern char **environ;

static bool stops(const struct weir_reload *reload)
{
    return __atomic_load_n(&reload->stops, __ATOMIC_ACQUIRE);
}

static uint64_t in_ms(unsigned ms)
{
    return weir_clock_ns() + ms * UINT64_C(1000000);
}

/* --- packets ------------------------------------------------------------------------------------------------------------- */

/* One packet, with a descriptor that may come along (-1: none came; `fd` null: none is taken, whatever the sender adds). Returns its
 * length, 0 when no more can come, -1 when nothing came in time. */
static ssize_t receive(const struct weir_reload *reload, int socket, char *packet, size_t size, int *fd, uint64_t deadline_ns)
{
    struct pollfd ready = { .fd = socket, .events = POLLIN };
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = { .iov_base = packet, .iov_len = size - 1 };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = fd ? control : NULL,
                              .msg_controllen = fd ? sizeof control : 0 };
    if (fd)
        *fd = -1;
    while (poll(&ready, 1, LOOK_MS) <= 0)
        if (stops(reload) || weir_clock_ns() >= deadline_ns)
            return -1;
    ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN ? -1 : 0;
    packet[got] = '\0';
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (fd && header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return got;
}

static bool send_with(int socket, const char *packet, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = { .bytes = { 0 } };
    struct iovec piece = { .iov_base = (char *)packet, .iov_len = strlen(packet) };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        control.header = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int)) };
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

/* --- the trial, seen from the running server ----------------------------------------------------------------------------- */

static void forget_bound(struct weir_reload *reload)
{
    for (size_t i = 0; i < reload->bound_count; i++) {
        close(reload->bound[i].fd);
        free(reload->bound[i].name);
    }
    free(reload->bound);
    reload->bound = NULL;
    reload->bound_count = 0;
}

/* "bound ADDRESS" came with `fd`, which it takes. */
static bool remember_bound(struct weir_reload *reload, const char *packet, int fd)
{
    bool knows = strncmp(packet, "bound ", 6) == 0;
    struct weir_reload_bound *bound = realloc(reload->bound, (reload->bound_count + 1) * sizeof *bound);
    char *copy = knows ? strdup(packet + 6) : NULL;
    if (bound)
        reload->bound = bound;
    if (!bound || !copy) {
        free(copy);
        close(fd);
        return false;
    }
    bound[reload->bound_count++] = (struct weir_reload_bound){ .name = copy, .fd = fd };
    return true;
}

static int write_listeners(struct weir_reload *reload, struct weir_takeover_writer *writer, struct weir_error *error)
{
    const struct weir_server *server = reload->server;
    int rc = weir_takeover_begin(writer, error);
    for (uint32_t i = 0; rc == 0 && i < server->plan->way_count; i++)
        weir_takeover_add(writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_LISTENER, .fd = server->listeners[i].fd,
                                                                  .owner = -1, .name = server->listeners[i].asked });
    for (size_t i = 0; rc == 0 && i < reload->bound_count; i++)
        weir_takeover_add(writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_LISTENER, .fd = reload->bound[i].fd, .owner = -1,
                                                                  .name = reload->bound[i].name });
    return rc;
}

/* The environment of the program that is tried: ours, and the two numbers. */
static char **trial_environment(char *takeover, char *trial)
{
    size_t count = 0;
    while (environ[count])
        count++;
    char **all = malloc((count + 3) * sizeof *all);
    if (!all)
        return NULL;
    memcpy(all, environ, count * sizeof *all);
    all[count] = takeover;
    all[count + 1] = trial;
    all[count + 2] = NULL;
    return all;
}

/* A child has the signals that a fresh process has. */
static void init_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(attributes);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* Starts the program with our listening sockets, the takeover and its end of the trial's socket open. */
static int spawn_trial(struct weir_reload *reload, const char *program, int takeover_fd, int trial_fd, pid_t *child)
{
    const struct weir_server *server = reload->server;
    char takeover[64], trial[64];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    snprintf(takeover, sizeof takeover, WEIR_TAKEOVER_ENV "=%d", takeover_fd);
    snprintf(trial, sizeof trial, TRIAL_ENV "=%d", trial_fd);
    char **environment = trial_environment(takeover, trial);
    if (!environment)
        return ENOMEM;
    init_attributes(&attributes);
    posix_spawn_file_actions_init(&files);
    /* To itself: the copy that the child gets stays open through exec(). */
    posix_spawn_file_actions_adddup2(&files, takeover_fd, takeover_fd);
    posix_spawn_file_actions_adddup2(&files, trial_fd, trial_fd);
    for (uint32_t i = 0; i < server->plan->way_count; i++)
        posix_spawn_file_actions_adddup2(&files, server->listeners[i].fd, server->listeners[i].fd);
    int code = posix_spawn(child, program, &files, &attributes, reload->argv, environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    free(environment);
    return code;
}

/* What the tried program says, until "ok" or its sentence. */
static int hear_trial(struct weir_reload *reload, int trial_fd, struct weir_error *error)
{
    uint64_t deadline_ns = in_ms(TRIAL_MS);
    char packet[WEIR_CONTROL_PACKET];
    for (;;) {
        int fd;
        ssize_t got = receive(reload, trial_fd, packet, sizeof packet, &fd, deadline_ns);
        if (stops(reload))
            return weir_error_set(error, WEIR_EXIT_USAGE, ECANCELED, "the server ends");
        if (fd >= 0 && !remember_bound(reload, packet, fd))
            return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "no memory for the new server's sockets");
        if (fd >= 0)
            continue;
        if (got > 0 && strcmp(packet, "ok") == 0)
            return 0;
        if (got > 6 && strncmp(packet, "error ", 6) == 0)
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s", packet + 6);
        if (got == 0)
            return weir_error_set(error, WEIR_EXIT_USAGE, ECHILD, "the new program ended before it said that it can start");
        if (got < 0)
            return weir_error_set(error, WEIR_EXIT_USAGE, ETIMEDOUT, "the new program did not say within %u s that it can start",
                                  TRIAL_MS / 1000);
    }
}

static int run_trial(struct weir_reload *reload, const char *program, struct weir_error *error)
{
    struct weir_takeover_writer writer = { .fd = -1, .pending = WEIR_BUFFER_INIT };
    int ends[2] = { -1, -1 };
    pid_t child = -1;
    forget_bound(reload);
    int rc = write_listeners(reload, &writer, error);
    if (rc == 0)
        rc = weir_takeover_flush(&writer, error);
    if (rc == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't try %s: %s", program, strerror(errno));
    if (rc == 0) {
        int code = spawn_trial(reload, program, writer.fd, ends[1], &child);
        if (code)
            rc = weir_error_set(error, WEIR_EXIT_USAGE, code, "can't run %s: %s", program, strerror(code));
        close(ends[1]);
    }
    if (rc == 0)
        rc = hear_trial(reload, ends[0], error);
    if (child > 0) {
        kill(child, SIGKILL); /* it has said what there is to say */
        waitpid(child, NULL, 0);
    }
    if (ends[0] >= 0)
        close(ends[0]);
    weir_takeover_writer_release(&writer);
    if (rc != 0)
        forget_bound(reload);
    return rc;
}

/* --- requests ------------------------------------------------------------------------------------------------------------ */

/* Tries the program; when it is good the server begins to leave. Takes both strings. */
static int reload_to(struct weir_reload *reload, char *program, char *source, struct weir_error *error)
{
    int rc = program ? run_trial(reload, program, error) : weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "no memory to reload");
    if (rc != 0) {
        fprintf(stderr, "%s: not reloaded: %s\n", reload->server->plan->name, error->text);
        free(program);
        free(source);
        return rc;
    }
    reload->program = program;
    reload->source = source;
    return 0;
}

static void leave(struct weir_reload *reload)
{
    __atomic_store_n(&reload->ready, true, __ATOMIC_RELEASE);
    uv_async_send(&reload->server->reloads);
}

/* May whoever is at the other end ask for it? */
static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

/* The next string of a packet, or null. */
static const char *next_string(const char **at, const char *end)
{
    const char *string = *at, *nul = memchr(string, '\0', (size_t)(end - string));
    if (nul)
        *at = nul + 1;
    return nul ? string : NULL;
}

/* Returns whether the server leaves. */
static bool serve_request(struct weir_reload *reload, int client)
{
    char packet[WEIR_CONTROL_PACKET], reply[SENTENCE];
    ssize_t got = receive(reload, client, packet, sizeof packet, NULL, in_ms(ASK_MS));
    if (got <= 0)
        return false;
    const char *at = packet, *end = packet + got;
    const char *verb = next_string(&at, end), *program = next_string(&at, end), *source = next_string(&at, end);
    struct weir_error error = WEIR_ERROR_INIT;
    int rc = -EINVAL;
    if (!is_ours(client))
        weir_error_set(&error, WEIR_EXIT_USAGE, EPERM, "the server belongs to another user");
    else if (!verb || strcmp(verb, WEIR_CONTROL_RELOAD) != 0 || !program || !source)
        weir_error_set(&error, WEIR_EXIT_USAGE, EINVAL, "the server doesn't understand the request: it was built by another weir");
    else
        rc = reload_to(reload, strdup(program), strdup(source), &error);
    snprintf(reply, sizeof reply, rc == 0 ? "ok" : "error %s", error.text);
    send_with(client, reply, -1);
    return rc == 0;
}

/* Runs `weir reload FILE PID`, which asks us in turn. */
static void ask_tool(struct weir_reload *reload, const char *tool, const char *file)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", getpid());
    char *argv[] = { (char *)tool, "reload", (char *)file, pid, NULL };
    posix_spawnattr_t attributes;
    init_attributes(&attributes);
    int code = posix_spawn(&reload->tool, tool, NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    if (code) {
        reload->tool = 0;
        fprintf(stderr, "%s: not reloaded: can't run %s: %s\n", reload->server->plan->name, tool, strerror(code));
        return;
    }
    reload->tool_fd = pidfd_open(reload->tool, 0);
}

static void wait_for_tool(struct weir_reload *reload)
{
    waitpid(reload->tool, NULL, WNOHANG);
    close(reload->tool_fd);
    reload->tool = 0;
    reload->tool_fd = -1;
}

/* Returns whether SIGHUP has come since the last time. */
static bool take_hangup(struct weir_reload *reload)
{
    uint64_t count;
    return read(reload->event_fd, &count, sizeof count) == sizeof count;
}

/* Returns whether the server leaves. */
static bool follow_hangup(struct weir_reload *reload)
{
    const char *tool = getenv(WEIR_CONTROL_ENV_TOOL), *file = getenv(WEIR_CONTROL_ENV_FILE);
    struct weir_error error = WEIR_ERROR_INIT;
    reload->hung_up = false;
    if (tool && file) {
        ask_tool(reload, tool, file);
        return false;
    }
    return reload_to(reload, reload->own_program ? strdup(reload->own_program) : NULL, NULL, &error) == 0;
}

static void *run(void *argument)
{
    struct weir_reload *reload = argument;
    struct pollfd ready[] = { { .fd = reload->event_fd, .events = POLLIN },
                              { .fd = reload->control_fd, .events = POLLIN },
                              { .events = POLLIN } };
    bool leaves = false;
    pthread_setname_np(pthread_self(), "control");
    while (!leaves && !stops(reload)) {
        ready[2].fd = reload->tool_fd;
        if (poll(ready, 3, -1) < 0)
            break;
        if (ready[2].revents)
            wait_for_tool(reload);
        if (take_hangup(reload) && !stops(reload))
            reload->hung_up = true;
        /* The tool that still builds, for an earlier hangup, may not have seen the file as it is now; it asks us in turn. */
        if (reload->hung_up && reload->tool_fd < 0)
            leaves = follow_hangup(reload);
        int client = !leaves && ready[1].revents ? accept4(reload->control_fd, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (client >= 0) {
            leaves = serve_request(reload, client);
            close(client);
        }
    }
    if (leaves)
        leave(reload);
    return NULL;
}

/* --- open and close ------------------------------------------------------------------------------------------------------ */

static int listen_for_requests(void)
{
    struct sockaddr_un address;
    socklen_t length = weir_control_address(&address, weir_contract.start_ns);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 4) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

void weir_reload_open(struct weir_reload *reload, struct weir_server *server, char **argv)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    *reload = (struct weir_reload){ .server = server, .argv = argv, .control_fd = listen_for_requests(),
                                    .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .tool = reload->tool };
    sigemptyset(&reload->later);
    reload->tool_fd = reload->tool ? pidfd_open(reload->tool, 0) : -1;
    if (length > 0) {
        path[length] = '\0';
        reload->own_program = strdup(path);
    }
    if (reload->event_fd < 0)
        return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    reload->started = pthread_create(&reload->thread, NULL, run, reload) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void weir_reload_hangup(struct weir_reload *reload)
{
    uint64_t one = 1;
    if (reload->started && write(reload->event_fd, &one, sizeof one) < 0)
        fprintf(stderr, "%s: not reloaded: %s\n", reload->server->plan->name, strerror(errno));
}

void weir_reload_stop(struct weir_reload *reload)
{
    if (!reload->started)
        return;
    __atomic_store_n(&reload->stops, true, __ATOMIC_RELEASE);
    weir_reload_hangup(reload);
    pthread_join(reload->thread, NULL);
    reload->started = false;
}

void weir_reload_close(struct weir_reload *reload)
{
    weir_reload_stop(reload);
    if (reload->control_fd >= 0)
        close(reload->control_fd);
    if (reload->event_fd >= 0)
        close(reload->event_fd);
    if (reload->tool_fd >= 0)
        close(reload->tool_fd);
    forget_bound(reload);
    free(reload->own_program);
    free(reload->program);
    free(reload->source);
    *reload = (struct weir_reload){ .control_fd = -1, .event_fd = -1, .tool_fd = -1 };
}

/* --- becoming the new program -------------------------------------------------------------------------------------------- */

static void write_connection(const struct weir_server *server, const struct weir_arrival *left, struct weir_takeover_writer *writer)
{
    struct weir_takeover_conn state = { .framing = (uint8_t)server->plan->ways[left->way].framing, .skips = left->skips,
                                        .ended = left->ended };
    if (left->output.failed)
        return; /* without its replies it is of no use; exec() closes it */
    if (left->input_bytes)
        weir_takeover_add(writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_INPUT, .fd = -1, .owner = -1,
                                      .data = left->input->data, .data_bytes = left->input_bytes });
    if (left->output.length)
        weir_takeover_add(writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_OUTPUT, .fd = -1, .owner = -1,
                                      .data = left->output.data, .data_bytes = left->output.length });
    weir_takeover_keep_open(left->fd);
    weir_takeover_add(writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_CONN, .fd = left->fd,
                                  .owner = server->listeners[left->way].fd, .data = &state, .data_bytes = sizeof state });
}

/* A loop that is stuck keeps what it has; exec() closes that. */
static void write_connections(struct weir_server *server, struct weir_takeover_writer *writer)
{
    for (uint32_t i = 0; i < server->loop_count; i++) {
        struct weir_loop *loop = &server->loops[i];
        if (!__atomic_load_n(&loop->ended, __ATOMIC_ACQUIRE))
            continue;
        for (struct weir_arrival *left; (left = loop->left);) {
            loop->left = left->next;
            write_connection(server, left, writer);
            weir_arrival_free(left);
        }
    }
}

/* From now on they stay pending, through exec(), those that came while the server left included. */
static void hold_signals(struct weir_reload *reload)
{
    weir_server_mask_signals(SIG_BLOCK);
    uv_run(&reload->server->uv, UV_RUN_NOWAIT); /* those that have come */
    if (reload->hung_up || take_hangup(reload))
        sigaddset(&reload->later, SIGHUP);
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&reload->later, number) > 0)
            kill(getpid(), number);
}

int weir_reload_exec(struct weir_reload *reload, struct weir_error *error)
{
    struct weir_server *server = reload->server;
    struct weir_takeover_writer writer;
    int rc = write_listeners(reload, &writer, error);
    if (rc == 0) {
        for (uint32_t i = 0; i < server->plan->keeper_count; i++) {
            const struct weir_plan_keeper *keeper = &server->plan->keepers[i];
            keeper->leave(keeper->object, keeper->name, &writer);
        }
        write_connections(server, &writer);
        if (reload->tool_fd >= 0)
            weir_takeover_add(&writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_CHILD, .fd = reload->tool, .owner = -1 });
        rc = weir_takeover_end(&writer, error);
    }
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < server->plan->way_count; i++)
        weir_takeover_keep_open(server->listeners[i].fd);
    for (size_t i = 0; i < reload->bound_count; i++)
        weir_takeover_keep_open(reload->bound[i].fd);
    if (reload->source && *reload->source && getenv(WEIR_CONTROL_ENV_FILE))
        setenv(WEIR_CONTROL_ENV_FILE, reload->source, 1);
    hold_signals(reload);
    fflush(NULL);
    reload->argv[0] = reload->program;
    execv(reload->program, reload->argv);
    return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't become %s: %s", reload->program, strerror(errno));
}

/* --- the trial, seen from the program that is tried ---------------------------------------------------------------------- */

bool weir_reload_is_trial(void)
{
    return getenv(TRIAL_ENV) != NULL;
}

void weir_reload_report(const struct weir_server *server, const struct weir_error *error)
{
    const char *number = getenv(TRIAL_ENV);
    int fd = number ? atoi(number) : -1;
    char packet[SENTENCE];
    if (error) {
        snprintf(packet, sizeof packet, "error %s", error->text);
        send_with(fd, packet, -1);
        return;
    }
    for (uint32_t i = 0; i < server->plan->way_count; i++) {
        const struct weir_listener *listener = &server->listeners[i];
        if (listener->inherited)
            continue;
        snprintf(packet, sizeof packet, "bound %s", listener->asked);
        send_with(fd, packet, listener->fd);
    }
    send_with(fd, "ok", -1);
}
