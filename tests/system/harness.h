/*
 * harness: what the system tests share: builds a server from the text of a pipeline file, runs it on a port of the kernel's
 * choice, talks to it by blocking sockets, and ends it by its process id.
 *
 * Units: ms for timeouts.
 * Owns: harness_server: the process and its folder, until harness_stop().
 * Threads: one at a time, but for the client functions, which any thread may use on its own socket.
 * Errors: whatever goes wrong fails the running cmocka test, with a sentence; client threads, which must not fail a test, use
 *         the functions that return a value.
 */
#ifndef WEIR_TESTS_HARNESS_H
#define WEIR_TESTS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- the server ---------------------------------------------------------------------------------------------------------- */

struct harness_server {
    pid_t pid;
    int port;           /* of the first listener */
    char lines[1024];   /* what it said on start */
    char folder[64];    /* temporary; holds x.weir, server, counters.json, err */
    char binary[96];
    char counters[96];  /* written at the end, and by harness_counters_refresh() */
    char errors[96];    /* the server's stderr */
};

/* The `weir` command: $WEIR, or bin/weir of the build that this test belongs to. */
const char *harness_weir(void);
/* Longer tests where WEIR_SOAK=1; far shorter ones under sanitizers: `normal`, `soak` or normal / 20. */
long harness_count(long normal, long soak);
/* How long to measure: not shorter under sanitizers, since there must be something in it. */
unsigned harness_window_ms(unsigned normal, unsigned soak);

/* Writes `text` to a fresh folder and compiles it. The server is not running yet. A file `name` with `content` may lie beside it
 * (null: none), for `call`. */
void harness_build(struct harness_server *server, const char *text, const char *name, const char *content);
/* Starts it and reads its address. `options`: more of the server's command line, null-terminated, or null. */
void harness_start(struct harness_server *server, const char *const *options);
/* The port that a pipeline's listener has got. */
int harness_port(const struct harness_server *server, const char *pipeline);
/* harness_build() and harness_start() in one. */
void harness_run(struct harness_server *server, const char *text);
/* The same with the plain Riemann server: a handoff to two workers above `decode`, and an index; the pipeline is `riemann`. */
void harness_run_riemann(struct harness_server *server);
/* Sends `signal` (0: none) and waits for the end, at most 15 s. Returns the exit code, or 128 + N when signal N killed it. The
 * folder stays, for the counters. */
int harness_wait(struct harness_server *server, int signal);
/* harness_wait(SIGTERM), which must give 0; checks both conservation laws with nothing left in flight; removes the folder. */
void harness_stop(struct harness_server *server);
/* Removes the folder of a server that was only built or waited for. */
void harness_remove(struct harness_server *server);

/* Has a running server write its counters now. */
void harness_counters_refresh(struct harness_server *server);
/* One number from the counters as they were last written: list "ways_in", "queues", "slots" or "stages", the row's name, the field. */
uint64_t harness_counter(const struct harness_server *server, const char *list, const char *name, const char *field);
/* accepted = answered + abandoned + discarded + in_flight; in = out + dropped + rejected + queued; taken = finished + failed +
 * lost + in_use. */
void harness_check_conservation(const struct harness_server *server);
/* Resident memory of the process, bytes; and a limit for it, which sanitizers stretch. */
size_t harness_resident(const struct harness_server *server);
size_t harness_memory(size_t limit);

/* --- a client ------------------------------------------------------------------------------------------------------------ */

/* A connected TCP socket with a timeout of 20 s for each read and write; -1 when that failed. */
int harness_connect(int port);
/* A framed message of `events` events into `out`; returns its length, at most `size`. `tag` is the service of its events. */
size_t harness_message(uint8_t *out, size_t size, unsigned events, const char *tag);
/* All of it, or false. */
bool harness_send(int fd, const void *data, size_t size);
bool harness_receive(int fd, void *data, size_t size);
/* Reads one reply. Returns 1: ok, 0: ok=false (its text in `error`, if not null), -1: end of stream, a timeout or garbage. */
int harness_reply(int fd, char *error, size_t size);
/* A client that asks queries without end and reads nothing, brought to where the server reads it no more: way in `way` of that
 * server has it alone. Returns its socket. */
int harness_deaf_client(struct harness_server *server, const char *way);
/* Waits for the end of the stream. Returns the bytes that came before it, -1 on a timeout. A reset counts as an end. */
long harness_drain(int fd);

#endif
