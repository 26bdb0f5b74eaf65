/*
 * conn: one connection: bytes come in, frames are cut, items leave for their segment; replies come back and are written in the
 * order of their requests.
 *
 * A way in by UDP has one for its socket, which the replies' half of this does not concern (datagram.h).
 *
 * It stops reading while an item of it is parked in front of a full queue, while WEIR_REPLY_RING_ITEMS of its requests are
 * outstanding or WEIR_REPLY_RING_BYTES of replies wait (a slow reader is stopped, not buffered), and when the loop drains. An idle connection holds no buffer.
 *
 * Units: bytes, items.
 * Owns: its socket; the items in its ring; it outlives all of its items.
 * Threads: its loop's.
 * Errors: a socket error closes the connection; items that come back later are counted as abandoned.
 */
#ifndef WEIR_RUNTIME_CONN_H
#define WEIR_RUNTIME_CONN_H

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/wire/lines.h"

struct weir_conn {
    struct weir_conn *previous, *next; /* all of the loop's */
    struct weir_conn *next_dirty;
    struct weir_loop *loop;
    const struct weir_plan_way *way;
    struct weir_contract_way *way_block;
    uint32_t way_index;
    uv_poll_t poll;
    int fd;
    int events; /* that poll waits for */

    struct weir_tls *tls;             /* null: in the clear */
    struct weir_lines lines;          /* where the way in cuts lines */
    struct weir_datagrams *datagrams; /* of a socket that takes datagrams; null: a stream */

    struct weir_block *input; /* bytes that came and are not cut yet; null: none */
    size_t input_from, input_bytes; /* where they lie in it */

    uint64_t next_sequence; /* of the next request */
    uint64_t send_sequence; /* of the reply at the head of the ring */
    uint64_t ready_sequence; /* replies before this one are complete */
    struct weir_item **ring; /* [ring_size], by sequence; null: not back yet */
    uint32_t ring_size;      /* a power of 2; grows with what is really outstanding */
    size_t ring_bytes;       /* of complete replies */
    uint64_t query_excess;   /* weir_query_excess() since nothing was outstanding; any thread adds to it */
    bool wants_none;         /* no large reply: it closes, or one was refused and half of the room isn't free again; read by any thread */
    size_t head_sent;        /* bytes of the head that are already written */

    uint32_t parked; /* of its items, in front of full queues: one that was cut, and those that came from slots or a batch */
    bool ended;   /* no more requests will come: end of stream, a bad length, a drain */
    bool leaves;  /* it goes on in the server that takes over, as soon as no request is being worked on */
    bool blocked; /* the socket takes no more */
    bool closing;
    bool dirty;
    bool trims;   /* it gave up so much that the room goes back to the machine, once its last item is back */
    bool poll_closed;
};

/* Takes the non-blocking socket of `arrival`, and what came with it. */
void weir_conn_open(struct weir_loop *loop, struct weir_arrival *arrival);
void weir_conn_close(struct weir_conn *conn);
/* No more requests are taken; closes when nothing is owed. */
void weir_conn_end(struct weir_conn *conn);
/* No more requests are taken; goes into the loop's `left` when every reply that is owed is there, read by the client or not. */
void weir_conn_leave(struct weir_conn *conn);
/* Cuts what was kept, and reads again. */
void weir_conn_continue(struct weir_conn *conn);
/* Called by a handoff on this loop whose queue is full. */
void weir_conn_park(struct weir_conn *conn, struct weir_queue *queue, struct weir_item *item);

/* The work of the stages `listen`, `frame` and `reply` on a connection; the generated file calls them, and is called by conn.c. */
/* One recv(): bytes, 0 at the end of the stream, -EAGAIN when there are none now, or another -errno. */
ptrdiff_t weir_conn_receive(struct weir_conn *conn, void *span, size_t room);
/* Cuts the first frame off the span and makes it an item. Null: no whole frame is there, or the connection has ended (a bad
 * length), or it was closed (no memory). */
struct weir_item *weir_conn_frame(struct weir_conn *conn, const void *data, size_t size, size_t *used);
/* Cuts the first bundle of lines off the span. Null: there is no whole line; what was skipped counts in `used` all the same. */
struct weir_item *weir_conn_lines(struct weir_conn *conn, const void *data, size_t size, size_t *used);
/* One send(). Returns the bytes written, 0 when the socket takes no more, or -errno. */
ptrdiff_t weir_conn_write(struct weir_conn *conn, const void *data, size_t size);
/* Gives up a connection whose handshake has come to nothing. `why`: words for the log. */
void weir_conn_no_handshake(struct weir_conn *conn, const char *why);
/* A payload becomes an item. Null: no memory. */
struct weir_item *weir_conn_accept(struct weir_conn *conn, const uint8_t *payload, size_t size);
/* Around a run of items that are sent on their way. */
void weir_conn_cut_begin(struct weir_conn *conn);
void weir_conn_cut_end(struct weir_conn *conn);
/* Whether the next request may be taken now. */
bool weir_conn_takes(const struct weir_conn *conn);
/* Writes what is complete at the head of the ring. */
void weir_conn_send(struct weir_conn *conn);

/* reply.c: the way back */
/* An item is back from wherever it was finished. Takes it. */
void weir_conn_complete(struct weir_conn *conn, struct weir_item *item);
/* Gives up the replies that are complete and can't be written any more. */
void weir_conn_abandon(struct weir_conn *conn);
/* Whether a large reply to the item would be thrown away, and need not be made. For any thread. */
static inline bool weir_conn_wants_none(const struct weir_item *item)
{
    return item->conn && __atomic_load_n(&item->conn->wants_none, __ATOMIC_RELAXED);
}
/* What is left to write of the replies, all of which are complete; they count as answered. */
void weir_conn_take_replies(struct weir_conn *conn, struct weir_buffer *out);
/* Replies that an earlier server owed this connection, as one that is complete. -ENOMEM. */
int weir_conn_give_replies(struct weir_conn *conn, struct weir_buffer *replies);
/* Room in the ring for request next_sequence. -ENOMEM. */
int weir_conn_ring_reserve(struct weir_conn *conn);

static inline uint64_t weir_conn_outstanding(const struct weir_conn *conn)
{
    return conn->next_sequence - conn->send_sequence;
}
/* Reads, stops reading or closes, as its state demands; after any change. The connection may be gone afterwards. */
void weir_conn_update(struct weir_conn *conn);

#endif
