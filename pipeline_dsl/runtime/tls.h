/*
 * tls: a stream that others can't read: TLS 1.2 or 1.3 between a connection and its socket.
 * It stands below conn, which receives and sends through it where the way in has a certificate.
 *
 * It is a table of functions, which a generated file names only where its pipeline does: a server without `tls` does not load
 * OpenSSL. The handshake is a part of receiving, and like everything here it never waits.
 *
 * Sessions are not resumed and connections not renegotiated. An idle connection holds no record buffers.
 *
 * Units: bytes, ns.
 * Owns: a context its certificate and key; a session its state. The socket is the connection's.
 * Threads: a context any; a session its loop's.
 * Errors: a certificate, key or authority that is none: -EINVAL and a sentence that names the file. What goes wrong with a session is
 *         -errno, or -EPROTO and a reason.
 */
#ifndef WEIR_RUNTIME_TLS_H
#define WEIR_RUNTIME_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "pipeline_dsl/runtime/plan.h"

#define WEIR_TLS_HANDSHAKE_NS 10000000000ull /* a client that takes longer is given up */

struct weir_tls {
    void *ssl;
    uint64_t since_ns;  /* when the handshake began; 0: it is done */
    const char *reason; /* static: what went wrong; null: nothing, or the socket */
    bool wants_write;   /* receiving can go on once the socket takes more */
    bool broken;        /* nothing more may be said on it */
    bool at_end;        /* what was just received was the last, which the socket will not tell */
};

struct weir_tls_driver {
    /* Reads the files of a way in. */
    int (*context_new)(const struct weir_plan_way *way, void **context, struct weir_error *error);
    void (*context_free)(void *context);
    /* A session on an accepted, non-blocking socket. Null: no memory. */
    struct weir_tls *(*open)(void *context, int fd);
    /* Goes on with the handshake, and receives. `room` must hold a record, 16 KiB. Bytes, 0 at the end of the stream, -EAGAIN. */
    ptrdiff_t (*receive)(struct weir_tls *tls, void *span, size_t room);
    /* Bytes taken, 0 when the socket takes no more; then the same bytes must be offered again, and more may follow them. */
    ptrdiff_t (*send)(struct weir_tls *tls, const void *data, size_t size);
    /* Tells the peer that this is the end, and frees it. */
    void (*close)(struct weir_tls *tls);
};

extern const struct weir_tls_driver weir_tls;

#endif
