/*
 * datagram: the socket of a way in by UDP: one datagram is one item, and no reply is owed.
 * It stands where a connection stands: the loop has a weir_conn for the socket itself, which parks, drains and ends like the others.
 *
 * One loop reads the socket, however many the pool has: it is cheap beside decoding, which a handoff spreads.
 *
 * What comes in is accepted + truncated + refused; what the kernel dropped at the full socket is read from the socket's own
 * counter, after each batch, so that nothing is lost unseen. While an item is parked in front of a full queue the socket isn't
 * read, and the kernel drops.
 *
 * Units: datagrams, bytes.
 * Owns: the buffers of one batch, freed with the connection.
 * Threads: its loop's.
 * Errors: a datagram above WEIR_DATAGRAM_MAX_BYTES is counted as truncated, and dropped. Errors of the socket pass.
 */
#ifndef WEIR_RUNTIME_DATAGRAM_H
#define WEIR_RUNTIME_DATAGRAM_H

#include "pipeline_dsl/runtime/conn.h"

struct weir_datagrams;

/* `inherited`: what the kernel has dropped so far was another server's loss. -ENOMEM. */
int weir_datagram_open(struct weir_conn *conn, bool inherited);
/* The work of the stage `listen`: one recvmmsg() into the batch at `span`. Returns how many came, or -EAGAIN. */
ptrdiff_t weir_datagram_receive(struct weir_conn *conn, void *span, size_t room);
/* Receives a batch and sends it on its way. Returns whether there may be more to read at once. */
bool weir_datagram_take(struct weir_conn *conn);
/* Goes on with a batch that was stopped in the middle, by a full queue. */
void weir_datagram_continue(struct weir_conn *conn);
/* Takes what waits in the socket, as far as the queues have room: the last datagrams before the socket closes. */
void weir_datagram_finish(struct weir_conn *conn);

#endif
