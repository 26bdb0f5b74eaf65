/*
 * inbox: the bytes that come back on a connection, cut into replies.
 * It stands between the socket and whoever matches replies with requests.
 *
 * Units: bytes.
 * Owns: its buffer, until weir_inbox_release(). A reply that it shows is borrowed until the next fill.
 * Threads: owner only.
 * Errors: -errno of the socket, -ENOMEM. A length beyond the limit is WEIR_FRAME_BAD.
 *
 * The buffer grows by what has come, never by what a header claims.
 */
#ifndef WEIR_CLIENT_INBOX_H
#define WEIR_CLIENT_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "pipeline_dsl/client/result.h"
#include "pipeline_dsl/wire/frame.h"
#include "pipeline_dsl/wire/message.h"

struct weir_inbox {
    uint8_t *data;
    size_t size, start, end; /* [start, end) is not cut yet */
    size_t reply_max_bytes;
};

int weir_inbox_init(struct weir_inbox *inbox, size_t first_bytes, size_t reply_max_bytes);
void weir_inbox_release(struct weir_inbox *inbox);
/* Forgets what is in it: the bytes of another connection. */
void weir_inbox_clear(struct weir_inbox *inbox);

/* One recv() with `flags`. Returns the bytes that came, 0 at the end of the stream, -errno. `*full`: there may be more. */
ssize_t weir_inbox_fill(struct weir_inbox *inbox, int fd, int flags, bool *full);
/* The next whole reply, without its header. */
enum weir_frame_kind weir_inbox_next(struct weir_inbox *inbox, const uint8_t **payload, size_t *size);

/* Says what a reply means. `*reply` is decoded into `arena` unless the reply is a plain acknowledgement (then `*decoded` is
 * false). Returns false when it is none, so that no later reply can be matched either. */
bool weir_inbox_judge(const uint8_t *payload, size_t size, struct weir_arena *arena, struct weir_message *reply, bool *decoded,
                      enum weir_client_result *result);

#endif
