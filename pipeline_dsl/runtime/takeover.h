/*
 * takeover: what one image of a server leaves to the next one, which the same process becomes: its listening sockets, its
 * connections with the bytes that were not worked on or not read yet, and what stages keep.
 * It stands between the end of a server that reloads and the start of its successor.
 *
 * Units: bytes.
 * Owns: the memory file that the records lie in. The descriptors that records name belong to whoever reads them.
 * Threads: one at a time.
 * Errors: -errno and a sentence.
 *
 * A record is a header, a name and data, in a memory file whose descriptor the environment names (WEIR_TAKEOVER). Both sides are
 * the same program's runtime or another version of it: the header carries a version, and a reader skips kinds it doesn't know.
 */
#ifndef WEIR_RUNTIME_TAKEOVER_H
#define WEIR_RUNTIME_TAKEOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define WEIR_TAKEOVER_ENV "WEIR_TAKEOVER"

enum weir_takeover_kind {
    WEIR_TAKEOVER_LISTENER = 1, /* name: the address that was asked for; fd: the socket */
    WEIR_TAKEOVER_INPUT,        /* of the connection that comes next: bytes that no frame was cut from yet */
    WEIR_TAKEOVER_OUTPUT,       /* of the connection that comes next: replies that the client has not read yet */
    WEIR_TAKEOVER_CONN,         /* fd: the socket; owner: the listener's descriptor; data: a weir_takeover_conn */
    WEIR_TAKEOVER_STATE,        /* name: a stage; data: what it keeps, one piece of it */
    WEIR_TAKEOVER_CHILD,        /* fd: the id of a process that somebody must wait for */
};

/* What a connection remembers beside its bytes. */
struct weir_takeover_conn {
    uint8_t framing; /* its way's: another one can't go on with its bytes */
    bool skips;      /* in the middle of an overlong line */
    bool ended;      /* no more requests will come; replies are still owed */
};

struct weir_takeover_record {
    enum weir_takeover_kind kind;
    int fd, owner; /* -1: none */
    const char *name;
    const void *data;
    size_t data_bytes;
};

/* --- leaving ------------------------------------------------------------------------------------------------------------- */

struct weir_takeover_writer {
    int fd;
    struct weir_buffer pending;
    int code; /* the first -errno; what follows is not written */
};

int weir_takeover_begin(struct weir_takeover_writer *writer, struct weir_error *error);
void weir_takeover_add(struct weir_takeover_writer *writer, const struct weir_takeover_record *record);
/* Writes what is pending. */
int weir_takeover_flush(struct weir_takeover_writer *writer, struct weir_error *error);
/* The same, and puts the descriptor into the environment; the descriptor outlives exec(). */
int weir_takeover_end(struct weir_takeover_writer *writer, struct weir_error *error);
void weir_takeover_writer_release(struct weir_takeover_writer *writer);
/* The descriptor stays open through exec(). */
void weir_takeover_keep_open(int fd);

/* --- taking over --------------------------------------------------------------------------------------------------------- */

struct weir_takeover {
    const uint8_t *data; /* mapped; null: there is nothing to take over */
    size_t size, position;
};

/* Reads what the environment names, if it does, and removes it from there. What another version has left is refused. */
int weir_takeover_open(struct weir_takeover *takeover, struct weir_error *error);
void weir_takeover_close(struct weir_takeover *takeover);
/* The next record; false at the end. `name` and `data` point into the mapping. */
bool weir_takeover_next(struct weir_takeover *takeover, struct weir_takeover_record *record);
void weir_takeover_rewind(struct weir_takeover *takeover);

#endif
