/*
 * riemann: a client of a Riemann server for programs with threads: hand over events, get a promise for each answer.
 * This is the public header; it stands on base and wire alone. One client is one connection, and it comes in four kinds:
 *
 *     pipelined   any threads -> [ write queue ] -> writer thread -> [ in flight ] -> reader thread -> promises
 *     batching    the same, and events are first gathered into messages of up to N, for at most the linger time
 *     sync        a mutex around one round trip: what most clients do, kept as the baseline to compare with
 *     datagram    UDP: sent and forgotten, since nobody answers
 *
 * What the client promises:
 * - Every request that was taken ends in exactly one result, on every path: sent = acknowledged + failed + outstanding, always.
 *   A request that was not taken (overloaded, not connected) was never sent, and the return value says so at once.
 * - At most `queue` + `in_flight` promises exist at any moment (times `batch_events` where batching), held ones that are long
 *   fulfilled included. Beyond, sends are refused. So no more than that can be lost with a connection, and a caller that never
 *   waits or never releases can't make memory grow. Queued bytes and kept replies have bounds of their own.
 * - Nothing is sent twice. When a connection is lost, each of its requests fails, and says how far it got: `reach` tells what
 *   the server can't have seen (safe to send again) from what it may have handled. The client connects again by itself, after a
 *   delay that doubles up to a bound, with jitter; until then sends fail at once.
 *
 *   what happens                  what becomes of the outstanding requests
 *   a wait's deadline passes      the wait returns -ETIMEDOUT; the request stays outstanding, keeps its place, and a late reply
 *                                 still fulfils it, or is swallowed when the promise was released meanwhile
 *   ok=false                      that one: REFUSED, with the reply; the connection lives
 *   a clean end (FIN)             those answered before it: as answered; all others: CLOSED
 *   a reset                       those whose answers came before it was noticed: as answered; all others: RESET
 *   the end amid a frame          the same, with reach PART for the one that was half written
 *   half a reply, then the end    that one has no answer: as above
 *   a reply that can't be parsed  that one and all behind it: BAD_REPLY, since no later reply can be matched; connection closed
 *   one reply too many            all outstanding: BAD_REPLY; connection closed
 *   silence for `silence_ns`      all outstanding: UNANSWERED; connection closed
 *   weir_riemann_close()          those without an answer within its wait: UNANSWERED
 *
 * Units: ns, bytes.
 * Owns: its threads, socket and promises; messages, events and frames are copied before a call returns.
 * Threads: any, any number at once; but close comes after the last send has returned.
 * Errors: 0 or -errno with a sentence: -ENOTCONN down, -EAGAIN overloaded, -ESHUTDOWN closing, -EMSGSIZE, -EINVAL, -ENOMEM.
 */
#ifndef WEIR_CLIENT_RIEMANN_H
#define WEIR_CLIENT_RIEMANN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "pipeline_dsl/client/result.h"
#include "pipeline_dsl/wire/message.h"

enum weir_riemann_kind { WEIR_RIEMANN_PIPELINED, WEIR_RIEMANN_BATCHING, WEIR_RIEMANN_SYNC, WEIR_RIEMANN_DATAGRAM };

/* How much of a request had left this process when it ended. */
enum weir_reach {
    WEIR_REACH_NOTHING, /* no byte: the server can't know of it */
    WEIR_REACH_PART,    /* some: the server can't have handled it */
    WEIR_REACH_WHOLE,   /* all: without an answer, the server may have handled it or not */
};

struct weir_outcome {
    enum weir_client_result result;
    enum weir_reach reach;
    uint64_t connection;              /* which one, counted from 1; 0: none */
    const struct weir_message *reply; /* of a REFUSED, and of an acknowledgement that holds more than its ok; else null */
};

/* Called once for a request, on a thread of the client or on the one that sends; it must not block. The reply is borrowed for
 * the time of the call. It may send (and is then refused rather than made to wait); it must not close the client. */
typedef void weir_riemann_done(void *context, const struct weir_outcome *outcome);

struct weir_riemann_options { /* 0 gives what is in brackets */
    enum weir_riemann_kind kind;
    size_t queue;                /* requests that wait for the writer [1024] */
    size_t in_flight;            /* requests written and not answered [1024]; sync: late replies still owed */
    size_t queue_max_bytes;      /* of requests not yet written; one of any size is taken when nothing waits [64 MiB] */
    size_t reply_max_bytes;      /* a longer reply ends the connection [16 MiB] */
    size_t replies_max_bytes;    /* of decoded replies in promises; beyond, a reply is a BAD_REPLY of its request [64 MiB] */
    size_t batch_events;         /* [100] */
    size_t datagram_max_bytes;   /* what a server takes [16384] */
    uint64_t linger_ns;          /* that an event waits for others at most [10 ms] */
    uint64_t room_wait_ns;       /* that a send waits for room before it is refused [0: not at all] */
    uint64_t silence_ns;         /* without any reply while one is owed: between this and twice this (sync: this) ends the
                                    connection [0: never] */
    uint64_t connect_timeout_ns; /* [5 s] */
    uint64_t backoff_first_ns;   /* [100 ms] */
    uint64_t backoff_most_ns;    /* [5 s]; each delay lies between half and all of what doubles up to here */
    bool may_start_down;         /* opening succeeds where nobody listens yet */
    int send_buffer_bytes;       /* SO_SNDBUF [the system's] */
};

struct weir_riemann;
struct weir_promise;

/* Connects to "HOST:PORT". `options` may be null. */
int weir_riemann_open(struct weir_riemann **client, const char *address, const struct weir_riemann_options *options,
                      struct weir_error *error);
/* Sends what is queued or gathered, waits up to `wait_ns` for the answers, ends the connection; what is then unanswered fails.
 * Promises stay valid until they are released. Null is fine. */
void weir_riemann_close(struct weir_riemann *client, uint64_t wait_ns);

/* Hands over a message (events, a query, or both). `done` and `promise` may be null; a promise must be released. On failure
 * nothing was taken, `done` isn't called and `*promise` is untouched. In a sync client the answer is there on return. */
int weir_riemann_send(struct weir_riemann *client, const struct weir_message *message, weir_riemann_done *done, void *context,
                      struct weir_promise **promise, struct weir_error *error);
/* The same for an event, which a batching client gathers with others; the answer to their message is the answer to each. */
int weir_riemann_send_event(struct weir_riemann *client, const struct weir_event *event, weir_riemann_done *done, void *context,
                            struct weir_promise **promise, struct weir_error *error);
/* The same for a message that is encoded and framed already. */
int weir_riemann_send_frame(struct weir_riemann *client, const void *frame, size_t size, weir_riemann_done *done, void *context,
                            struct weir_promise **promise, struct weir_error *error);
/* Sends a message and waits for its answer, at most `timeout_ns` (UINT64_MAX: for ever). Many threads that call this on one
 * pipelined client share its connection without waiting for each other. Returns 0 when it was acknowledged; else -ETIMEDOUT,
 * -EREMOTEIO (refused), -EPIPE (closed), -ECONNRESET, -EBADMSG, -ECANCELED, -EIO, or what send returns. `*promise`, unless null,
 * holds the reply of an acknowledgement and is then to be released. */
int weir_riemann_call(struct weir_riemann *client, const struct weir_message *message, uint64_t timeout_ns,
                      struct weir_promise **promise, struct weir_error *error);
/* Sends off what a batching client has gathered. -EAGAIN: the queue is full; it goes out as soon as there is room. */
int weir_riemann_flush(struct weir_riemann *client);

/* Waits until the client is connected. 0 or -ETIMEDOUT. */
int weir_riemann_wait_up(struct weir_riemann *client, uint64_t timeout_ns);

/* sent = the sum of results + outstanding, once no send is under way. Events count one each where batching. */
struct weir_riemann_counts {
    uint64_t sent, results[WEIR_CLIENT_RESULTS], outstanding;
    uint64_t refused_down, refused_overloaded; /* sends that were not taken */
    uint64_t late;                             /* replies that came after their promise was released */
    uint64_t held;                             /* promises that are fulfilled and not released */
    uint64_t connections, connections_lost;
    uint64_t writes, written_bytes;            /* system calls, and what they took */
    /* Of the requests lost with connections: */
    uint64_t lost_nothing, lost_part, lost_whole; /* by their reach */
};
void weir_riemann_counts(const struct weir_riemann *client, struct weir_riemann_counts *counts);

/* --- promises ------------------------------------------------------------------------------------------------------------- */

/* 0 once it is fulfilled (by whatever result), -ETIMEDOUT. */
int weir_promise_wait(struct weir_promise *promise, uint64_t timeout_ns);
bool weir_promise_done(const struct weir_promise *promise);
/* Of a fulfilled promise; borrowed until it is released. */
const struct weir_outcome *weir_promise_outcome(const struct weir_promise *promise);
/* Gives it back, fulfilled or not. Null is fine. */
void weir_promise_release(struct weir_promise *promise);

#endif
