#include "tests/system/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "pipeline_dsl/wire/message.h"

#define TIMEOUT_S 20
#define REPLY_MOST (1u << 20)

/* --- programs ------------------------------------------------------------------------------------------------------------ */

const char *harness_weir(void)
{
    static char path[PATH_MAX];
    const char *given = getenv("WEIR");
    if (given && *given)
        return given;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 16);
    assert_true(length > 0);
    path[length] = '\0';
    for (int i = 0; i < 3; i++) { /* the file, system, tests */
        char *slash = strrchr(path, '/');
        assert_non_null(slash);
        *slash = '\0';
    }
    strcat(path, "/bin/weir");
    return path;
}

static bool soaks(void)
{
    const char *wanted = getenv("WEIR_SOAK");
    return wanted && strcmp(wanted, "1") == 0;
}

unsigned harness_window_ms(unsigned normal, unsigned soak)
{
    return soaks() ? soak : normal;
}

long harness_count(long normal, long soak)
{
    if (soaks())
        return soak;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return normal / 20 ? normal / 20 : 1;
#else
    return normal;
#endif
}

size_t harness_memory(size_t limit)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return limit * 16 + ((size_t)512 << 20); /* shadow, quarantine */
#else
    return limit;
#endif
}

/* Starts a program with its stdout in `out` (a pipe's end), and stderr in a file. */
static pid_t spawn(const char *const *arguments, int out, const char *errors)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    int err = open(errors, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (err < 0 || dup2(err, 2) < 0 || (out >= 0 && dup2(out, 1) < 0))
        _exit(126);
    execv(arguments[0], (char *const *)arguments);
    _exit(127);
}

static int wait_for(pid_t pid, int timeout_ms)
{
    uint64_t deadline = weir_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (weir_clock_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -ETIMEDOUT;
        }
        usleep(2000);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void show_file(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        print_error("    %s", line);
    if (file)
        fclose(file);
}

/* --- the server ---------------------------------------------------------------------------------------------------------- */

void harness_build(struct harness_server *server, const char *text, const char *name, const char *content)
{
    char path[256];
    *server = (struct harness_server){ .folder = "/tmp/weir-test-XXXXXX" };
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->binary, sizeof server->binary, "%s/server", server->folder);
    snprintf(server->counters, sizeof server->counters, "%s/counters.json", server->folder);
    snprintf(server->errors, sizeof server->errors, "%s/err", server->folder);
    if (name) {
        snprintf(path, sizeof path, "%s/%s", server->folder, name);
        write_file(path, content);
    }
    snprintf(path, sizeof path, "%s/x.weir", server->folder);
    write_file(path, text);
    const char *arguments[] = { harness_weir(), "build", path, "-o", server->binary, NULL };
    int rc = wait_for(spawn(arguments, -1, server->errors), 60000);
    if (rc != 0) {
        print_error("`%s build` gave %d:\n", arguments[0], rc);
        show_file(server->errors);
    }
    assert_int_equal(rc, 0);
}

/* What the server says on start. It writes all its lines at once. */
static void read_lines(int fd, char *lines, size_t size)
{
    size_t length = 0;
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    lines[0] = '\0';
    while (!strchr(lines, '\n') && length + 1 < size && poll(&wait, 1, TIMEOUT_S * 1000) > 0) {
        ssize_t got = read(fd, lines + length, size - 1 - length);
        if (got <= 0)
            return;
        length += (size_t)got;
        lines[length] = '\0';
    }
}

/* The port in a line "NAME: listening on tcp HOST:PORT", or on udp; 1 where it is a local socket. */
static int port_in(const char *line)
{
    const char *says = strstr(line, ": listening on "), *end = strchr(line, '\n');
    if (says && strncmp(says, ": listening on unix ", 20) == 0)
        return 1;
    const char *colon = says && end && says < end ? memrchr(line, ':', (size_t)(end - line)) : NULL;
    return colon ? atoi(colon + 1) : -1;
}

int harness_port(const struct harness_server *server, const char *pipeline)
{
    size_t length = strlen(pipeline);
    for (const char *line = server->lines; *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : "")
        if (strncmp(line, pipeline, length) == 0 && line[length] == ':')
            return port_in(line);
    fail_msg("the server did not say where %s listens", pipeline);
    return -1;
}

void harness_start(struct harness_server *server, const char *const *options)
{
    const char *arguments[24] = { server->binary, "--counters", server->counters };
    int count = 3, ends[2];
    for (; options && *options; options++) {
        assert_true(count < 23);
        arguments[count++] = *options;
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    server->pid = spawn(arguments, ends[1], server->errors);
    close(ends[1]);
    read_lines(ends[0], server->lines, sizeof server->lines);
    server->port = port_in(server->lines);
    close(ends[0]);
    if (server->port <= 0) {
        show_file(server->errors);
        harness_wait(server, SIGKILL);
        fail_msg("the server did not say where it listens");
    }
}

void harness_run(struct harness_server *server, const char *text)
{
    harness_build(server, text, NULL, NULL);
    harness_start(server, NULL);
}

void harness_run_riemann(struct harness_server *server)
{
    harness_run(server, "pool io threads 1\npool workers threads 2\n"
                        "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 16MiB\n"
                        "    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n");
}

int harness_wait(struct harness_server *server, int number)
{
    if (number)
        kill(server->pid, number);
    int rc = wait_for(server->pid, 15000);
    if (rc < 0)
        print_error("the server did not end in 15 s, and was killed\n");
    server->pid = 0;
    return rc;
}

void harness_remove(struct harness_server *server)
{
    const char *arguments[] = { "/bin/rm", "-rf", "--", server->folder, NULL };
    wait_for(spawn(arguments, -1, "/dev/null"), 10000);
}

void harness_stop(struct harness_server *server)
{
    int rc = harness_wait(server, SIGTERM);
    if (rc != 0)
        show_file(server->errors);
    assert_int_equal(rc, 0);
    harness_check_conservation(server);
    harness_remove(server);
}

/* --- counters ------------------------------------------------------------------------------------------------------------ */

void harness_counters_refresh(struct harness_server *server)
{
    struct stat found;
    unlink(server->counters);
    kill(server->pid, SIGUSR1);
    for (int i = 0; i < 5000 && stat(server->counters, &found) != 0; i++)
        usleep(1000);
    assert_int_equal(stat(server->counters, &found), 0);
}

static json_t *load(const struct harness_server *server)
{
    json_error_t error;
    json_t *root = json_load_file(server->counters, 0, &error);
    if (!root)
        fail_msg("%s: %s", server->counters, error.text);
    return root;
}

static uint64_t field(const json_t *row, const char *name)
{
    json_t *value = json_object_get(row, name);
    if (!json_is_integer(value))
        fail_msg("the counters have no field %s", name);
    return (uint64_t)json_integer_value(value);
}

uint64_t harness_counter(const struct harness_server *server, const char *list, const char *name, const char *field_name)
{
    size_t index;
    json_t *row, *root = load(server);
    json_array_foreach(json_object_get(root, list), index, row) {
        if (strcmp(json_string_value(json_object_get(row, "name")), name) != 0)
            continue;
        uint64_t value = field(row, field_name);
        json_decref(root);
        return value;
    }
    json_decref(root);
    fail_msg("the counters have no row %s in %s", name, list);
    return 0;
}

void harness_check_conservation(const struct harness_server *server)
{
    size_t index;
    json_t *row, *root = load(server);
    json_array_foreach(json_object_get(root, "ways_in"), index, row)
        assert_int_equal(field(row, "accepted"),
                         field(row, "answered") + field(row, "abandoned") + field(row, "discarded") + field(row, "in_flight"));
    json_array_foreach(json_object_get(root, "queues"), index, row)
        assert_int_equal(field(row, "in"), field(row, "out") + field(row, "dropped") + field(row, "rejected") + field(row, "queued"));
    json_array_foreach(json_object_get(root, "slots"), index, row)
        assert_int_equal(field(row, "taken"), field(row, "finished") + field(row, "failed") + field(row, "lost") + field(row, "in_use"));
    json_decref(root);
}

size_t harness_resident(const struct harness_server *server)
{
    char path[64];
    unsigned long size = 0, resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)server->pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    int got = fscanf(file, "%lu %lu", &size, &resident);
    fclose(file);
    assert_int_equal(got, 2);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

/* --- a client ------------------------------------------------------------------------------------------------------------ */

/* `receive_bytes`: of the socket's buffer, 0: the system's default. Set before the connection is made: a window that shrinks
 * later makes the kernel drop acknowledgements, and stalls both directions. */
static int connect_with(int port, int receive_bytes)
{
    struct timeval timeout = { TIMEOUT_S, 0 };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (receive_bytes)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int harness_connect(int port)
{
    return connect_with(port, 0);
}

static struct weir_bytes text_bytes(const char *text)
{
    return (struct weir_bytes){ (const uint8_t *)text, strlen(text) };
}

size_t harness_message(uint8_t *out, size_t size, unsigned count, const char *tag)
{
    struct weir_buffer framed = WEIR_BUFFER_INIT;
    struct weir_event *events = calloc(count + 1, sizeof *events);
    size_t length = 0;
    for (unsigned i = 0; events && i < count; i++)
        events[i] = (struct weir_event){ .host = text_bytes("host"), .service = text_bytes(tag), .state = text_bytes("ok"),
                                         .metric_kind = WEIR_METRIC_INT, .metric_int = i };
    struct weir_message message = { .events = events, .event_count = count };
    if (events && weir_message_encode_framed(&message, &framed, NULL) == 0 && framed.length <= size) {
        memcpy(out, framed.data, framed.length);
        length = framed.length;
    }
    free(events);
    weir_buffer_release(&framed);
    return length;
}

bool harness_send(int fd, const void *data, size_t size)
{
    for (const char *bytes = data; size;) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

bool harness_receive(int fd, void *data, size_t size)
{
    for (char *bytes = data; size;) {
        ssize_t got = recv(fd, bytes, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        size -= (size_t)got;
    }
    return true;
}

int harness_reply(int fd, char *error, size_t size)
{
    static __thread uint8_t payload[REPLY_MOST];
    uint8_t header[4];
    struct weir_arena arena;
    struct weir_message message;
    if (!harness_receive(fd, header, sizeof header))
        return -1;
    size_t length = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    if (length > sizeof payload || !harness_receive(fd, payload, length))
        return -1;
    weir_arena_init(&arena, 0, SIZE_MAX);
    int result = -1;
    if (weir_message_decode(&message, &arena, payload, length, NULL) == 0 && message.has_ok) {
        result = message.ok;
        if (error && size)
            snprintf(error, size, "%.*s", (int)message.error.size, message.error.data ? (const char *)message.error.data : "");
    }
    weir_arena_release(&arena);
    return result;
}

int harness_deaf_client(struct harness_server *server, const char *way)
{
    static const char query[] = "\0\0\0\10\x2a\6\12\4a =="; /* its answer is a long sentence. With its NUL behind it */
    static char queries[1000 * (sizeof query - 1)];
    uint64_t answered = UINT64_MAX;
    size_t sent = 0;
    int still = 0, fd = connect_with(server->port, 4096);
    assert_true(fd >= 0);
    for (size_t i = 0; i < 1000; i++)
        memcpy(queries + i * (sizeof query - 1), query, sizeof query - 1);
    /* Stopped: nothing can be sent for a while, and nothing more is answered, three times in a row. */
    for (int rounds = 0; rounds < 200; rounds++) {
        for (int idle = 0; idle < 20; usleep(5000)) {
            /* A send that was cut short goes on in the middle of a query. */
            ssize_t got = send(fd, queries + sent % sizeof queries, sizeof queries - sent % sizeof queries, MSG_DONTWAIT | MSG_NOSIGNAL);
            idle = got > 0 ? 0 : idle + 1;
            sent += got > 0 ? (size_t)got : 0;
        }
        harness_counters_refresh(server);
        uint64_t now = harness_counter(server, "ways_in", way, "answered");
        still = now == answered && harness_counter(server, "ways_in", way, "in_flight") > 0 ? still + 1 : 0;
        if (still == 3)
            return fd;
        answered = now;
    }
    fail_msg("the server went on answering a client that does not read");
    return -1;
}

long harness_drain(int fd)
{
    char chunk[4096];
    long total = 0;
    for (;;) {
        ssize_t got = recv(fd, chunk, sizeof chunk, 0);
        if (got > 0)
            total += got;
        else if (got == 0 || errno == ECONNRESET || errno == EPIPE)
            return total;
        else if (errno != EINTR)
            return -1;
    }
}
