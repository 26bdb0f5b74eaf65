/*
 * reload: a running server becomes the one that another program describes, without refusing a connection or losing a request.
 * It stands beside the server's main loop: it is asked through a control socket or by SIGHUP.
 *
 *   1. The program is tried: it starts beside the running server, reads its command line, and binds what it listens on and is
 *      not bound yet. If that fails, its sentence is the answer, and nothing has changed.
 *   2. The running server takes no more requests from its connections, and finishes those it has. Whoever connects waits in the
 *      kernel's backlog meanwhile.
 *   3. The process becomes the new program (execve(), so the PID stays), which finds the sockets, what they had received and
 *      what is still owed to them in a weir_takeover.
 *
 * Units: none.
 * Owns: its thread, its sockets, and the process that tries a program.
 * Threads: a thread of its own waits for requests; the functions are for the server's main thread.
 * Errors: whoever asked is told in one sentence, and stderr is.
 */
#ifndef WEIR_RUNTIME_RELOAD_H
#define WEIR_RUNTIME_RELOAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "pipeline_dsl/runtime/control.h"

struct weir_server;

/* A listening socket that the tried program bound. */
struct weir_reload_bound {
    char *name;
    int fd;
};

struct weir_reload {
    struct weir_server *server;
    char **argv;
    char *own_program; /* the file that this server was started from; null: unknown */
    pthread_t thread;
    bool started;
    int control_fd, event_fd; /* -1: none */
    pid_t tool;   /* `weir reload`, run by SIGHUP; 0: none */
    int tool_fd;  /* readable when that has ended; -1: none */
    bool hung_up; /* SIGHUP came and has not been followed yet */
    bool stops;   /* atomic */
    sigset_t later; /* signals that ended nothing, and that the new program shall have */
    /* What was found good; the thread touches them no more once `ready` is set. */
    bool ready;    /* atomic */
    char *program, *source; /* source: the pipeline file, null: unknown */
    struct weir_reload_bound *bound;
    size_t bound_count;
};

/* Begins to wait for requests. Where that is not possible the server runs on and is not reloaded. */
void weir_reload_open(struct weir_reload *reload, struct weir_server *server, char **argv);
/* SIGHUP: has `weir reload` build the pipeline file that `weir run` was given, else tries the server's own file again. */
void weir_reload_hangup(struct weir_reload *reload);
/* Nothing is reloaded any more; a trial is broken off. The listening sockets are needed no longer. */
void weir_reload_stop(struct weir_reload *reload);
void weir_reload_close(struct weir_reload *reload);

/* All other threads have ended: becomes the new program. Returns only when that failed. */
int weir_reload_exec(struct weir_reload *reload, struct weir_error *error);

/* In the program that is being tried: whether it is one; and then how it went, which ends the trial. */
bool weir_reload_is_trial(void);
void weir_reload_report(const struct weir_server *server, const struct weir_error *error);

#endif
