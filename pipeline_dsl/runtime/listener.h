/*
 * listener: the socket of one way in, bound long before it accepts.
 * It stands before the loops: the acceptor takes connections from here.
 *
 * A local socket's file has the mode 0660, less what the umask forbids. One that a server has left behind is replaced; one that
 * somebody still answers on, or that is no socket, is left alone.
 *
 * Units: none.
 * Owns: its socket.
 * Threads: the server's main thread.
 * Errors: an address that can't be had: -errno and a sentence that names the pipeline and the address.
 */
#ifndef WEIR_RUNTIME_LISTENER_H
#define WEIR_RUNTIME_LISTENER_H

#include <sys/types.h>

#include "base/error.h"
#include "pipeline_dsl/runtime/plan.h"

struct weir_listener {
    int fd;
    enum weir_transport transport;
    char address[112]; /* the real one: "127.0.0.1:5555", "[::1]:5555", or a path */
    dev_t device; /* of a local socket: which file it made */
    ino_t inode;
    void *tls_context; /* null: in the clear */
    const char *asked; /* what was asked for */
    bool inherited;    /* it was bound by the server before this one */
};

/* Binds `address` ("host:port", port 0: the kernel chooses) for a way in, so that connections or datagrams queue up, and nobody
 * takes them yet. */
int weir_listener_open(struct weir_listener *listener, const struct weir_plan_way *way, const char *address, struct weir_error *error);
/* The socket that the server before this one bound for the same address. */
void weir_listener_inherit(struct weir_listener *listener, const struct weir_plan_way *way, const char *asked, int fd);
/* Whether a socket is of the kind that the transport wants. */
bool weir_listener_fits(int fd, enum weir_transport transport);
/* A local socket's file goes too, if it is still this one's. */
void weir_listener_close(struct weir_listener *listener);
/* A socket that no way in has taken over. `asked` may be null. */
void weir_listener_discard(int fd, const char *asked);

#endif
