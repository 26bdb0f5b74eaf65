/*
 * client: one connection to a Riemann server on which many requests are under way at once.
 * The caller pushes framed messages, and is told the outcome of each, in the order in which they were pushed.
 *
 *     push -> [ queued | written, unanswered ] -> outcome
 *             \____ at most `in_flight` ____/
 *
 * It never blocks and has no thread: whoever owns it waits on its descriptor (poll, epoll, an event loop, a thread of its
 * own), calls weir_client_read() when that is readable and weir_client_write() when there is something to write.
 *
 * Every request that was pushed has exactly one outcome, whatever the server does: pushed = acknowledged + failed + outstanding
 * at each moment, and closing leaves nothing outstanding. Replies that came before the end of a connection still count. Nothing
 * is sent twice and nothing is reconnected by itself.
 *
 * Units: bytes, ns.
 * Owns: its socket and its queue; requests stay the caller's and must live until their outcome.
 * Threads: one at a time.
 * Errors: connecting returns -errno with a sentence; afterwards every failure is the outcome of a request.
 */
#ifndef WEIR_CLIENT_CLIENT_H
#define WEIR_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "pipeline_dsl/client/result.h"
#include "pipeline_dsl/wire/message.h"

struct weir_client_outcome {
    enum weir_client_result result;
    uint64_t tag;                       /* what push was given */
    const struct weir_message *reply;   /* of a REFUSED, and of an acknowledgement that holds more than its ok; borrowed for
                                           the time of the call; else null */
};
/* Called from within read and free. It may push; it must not free the client. */
typedef void weir_client_done(void *context, const struct weir_client_outcome *outcome);

struct weir_client_options {
    size_t in_flight;            /* requests under way at most; 0: 64 */
    size_t reply_max_bytes;      /* a larger reply is a BAD_REPLY; 0: 16 MiB */
    uint64_t connect_timeout_ns; /* 0: 5 s */
    int cancel_fd;               /* once readable, connecting ends with -ECANCELED; 0: none */
    weir_client_done *done;
    void *context;
};

struct weir_client;

/* Connects to "HOST:PORT" and waits until that is done. */
int weir_client_connect(struct weir_client **client, const char *address, const struct weir_client_options *options,
                        struct weir_error *error);
/* Closes the connection; what is outstanding ends as UNANSWERED. Null is fine. */
void weir_client_free(struct weir_client *client);

int weir_client_fd(const struct weir_client *client);
/* Has the connection ended? Its descriptor is then closed, and nothing is outstanding. */
bool weir_client_ended(const struct weir_client *client);
/* How it ended: CLOSED, RESET, BAD_REPLY or BROKEN; means nothing before. */
enum weir_client_result weir_client_end(const struct weir_client *client);
size_t weir_client_outstanding(const struct weir_client *client);
/* How many requests may be pushed now; 0 once the connection has ended or no longer takes any. */
size_t weir_client_room(const struct weir_client *client);
/* Is something pushed that is not yet wholly written? */
bool weir_client_unwritten(const struct weir_client *client);

/* Queues one framed message. False when there is no room: the request was not taken, and has no outcome. */
bool weir_client_push(struct weir_client *client, const void *frame, size_t size, uint64_t tag);
/* Writes as much of what is queued as the socket takes, in few, large writes. */
void weir_client_write(struct weir_client *client);
/* Reads what has come and reports the outcomes that follow from it. Also to be called on an error or hangup of the descriptor. */
void weir_client_read(struct weir_client *client);

#endif
