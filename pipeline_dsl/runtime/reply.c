/*
 * DESIGN: the way back. A finished item goes into its loop's completion list (loop.c); the loop moves it into its connection's
 * ring, at the place of its request. What is complete at the head of the ring is written, so that replies leave in request
 * order whatever the workers do.
 *
 * Acknowledgements that follow each other share one send(): they are equal and 6 bytes long, and every client seen copes with
 * that. Any other reply starts its own send() with header and body together, since real clients mis-frame a header that is split
 * or a second reply of another length in the same chunk.
 *
 * An item in the ring holds nothing but its reply: payload and arena went back when it arrived.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pipeline_dsl/runtime/conn.h"
#include "pipeline_dsl/runtime/tls.h"
#include "pipeline_dsl/runtime/way.h"

#define FIRST_RING 16u
#define ACK_BYTES sizeof weir_message_ack
#define TRIM_BYTES ((size_t)16 << 20) /* after this much the allocator keeps the room between what others have, for good */

static struct weir_item **place(struct weir_conn *conn, uint64_t sequence)
{
    return &conn->ring[sequence & (conn->ring_size - 1)];
}

int weir_conn_ring_reserve(struct weir_conn *conn)
{
    uint64_t outstanding = weir_conn_outstanding(conn);
    if (outstanding < conn->ring_size)
        return 0;
    uint32_t size = conn->ring_size ? conn->ring_size * 2 : FIRST_RING;
    struct weir_item **ring = calloc(size, sizeof *ring);
    if (!ring)
        return -ENOMEM;
    for (uint64_t s = conn->send_sequence; s != conn->next_sequence; s++)
        ring[s & (size - 1)] = *place(conn, s);
    free(conn->ring);
    conn->ring = ring;
    conn->ring_size = size;
    return 0;
}

struct ring_change {
    weir_u64 items, bytes;
};

/* Items leave the ring: written, or given up, which its block counts as dropped. */
static void ring_leave(struct weir_conn *conn, struct ring_change change, bool given_up)
{
    struct weir_loop *loop = conn->loop;
    struct weir_contract_queue *block = weir_loop_ring(loop, conn->way->reply_queue);
    weir_thread_lock(&loop->thread, &loop->mutex, conn->way->reply_queue);
    weir_seqlock_begin(&block->sequence);
    weir_word_add(given_up ? &block->dropped : &block->out, change.items);
    weir_word_sub(&block->queued_items, change.items);
    weir_word_sub(&block->queued_bytes, change.bytes);
    weir_seqlock_end(&block->sequence);
    weir_mutex_unlock(&loop->mutex);
}

static void complete_abandoned(struct weir_conn *conn, struct weir_item *item)
{
    ring_leave(conn, (struct ring_change){ 1, item->size_bytes }, true);
    weir_way_end(conn->way_block, &conn->way_block->abandoned, 1);
    conn->send_sequence++;
    weir_loop_item_free(conn->loop, item);
    weir_conn_update(conn);
}

static void mark_dirty(struct weir_conn *conn)
{
    struct weir_conn_list *dirty = &conn->loop->dirty;
    if (conn->dirty)
        return;
    conn->dirty = true;
    conn->next_dirty = NULL;
    if (dirty->last)
        dirty->last->next_dirty = conn;
    else
        dirty->first = conn;
    dirty->last = conn;
}

void weir_conn_complete(struct weir_conn *conn, struct weir_item *item)
{
    weir_thread_at(&conn->loop->thread, WEIR_TAG(conn->way->reply_stage, WEIR_PART_POP));
    weir_loop_item_shed(conn->loop, item);
    if (item->events)
        weir_way_count(conn->way_block, &conn->way_block->events, item->events);
    if (item->malformed)
        weir_way_count(conn->way_block, &conn->way_block->malformed, item->malformed);
    if (conn->closing) {
        complete_abandoned(conn, item);
        return;
    }
    if (item->reply_kind == WEIR_REPLY_BYTES) {
        /* The ring's block goes on with the size that it has counted, which stays the item's. */
        if (conn->ring_bytes && conn->ring_bytes + item->reply.length > WEIR_REPLY_RING_BYTES) {
            weir_item_refuse(item, "overloaded: %zu bytes of replies wait for this connection to read them", conn->ring_bytes);
            __atomic_store_n(&conn->wants_none, true, __ATOMIC_RELAXED);
        }
        conn->ring_bytes += item->reply.length;
    }
    *place(conn, item->sequence) = item;
    while (conn->ready_sequence != conn->next_sequence && *place(conn, conn->ready_sequence))
        conn->ready_sequence++;
    if (conn->ready_sequence != conn->send_sequence)
        mark_dirty(conn);
}

/* An item waits in the ring until it is sent, not until its loop has taken it back: the segment begins with the first attempt. */
static void begin_sending(struct weir_conn *conn, struct weir_item *item)
{
    weir_item_segment_begin(&conn->loop->thread, item, conn->way->reply_queue, conn->way->reply_stage);
}

static void measure_latency(struct weir_conn *conn, const struct weir_item *item)
{
    struct weir_loop *loop = conn->loop;
    weir_mutex_lock(&loop->mutex);
    weir_histogram_add(&loop->latencies[conn->way_index], weir_clock_ns() - item->born_ns, 1);
    weir_mutex_unlock(&loop->mutex);
}

static void ring_give(struct weir_conn *conn, size_t bytes)
{
    conn->ring_bytes -= bytes;
    if (conn->wants_none && conn->ring_bytes <= WEIR_REPLY_RING_BYTES / 2)
        __atomic_store_n(&conn->wants_none, false, __ATOMIC_RELAXED);
}

/* The head of the ring has been written. Returns its size in the ring's block. */
static size_t head_done(struct weir_conn *conn)
{
    struct weir_item **head = place(conn, conn->send_sequence++);
    struct weir_item *item = *head;
    size_t bytes = item->size_bytes;
    *head = NULL;
    if (item->reply_kind == WEIR_REPLY_BYTES)
        ring_give(conn, item->reply.length);
    if (conn->send_sequence == conn->next_sequence && __builtin_expect(conn->query_excess != 0, 0))
        conn->query_excess = 0; /* nobody adds to it now */
    if (__builtin_expect(item->born_ns != 0, 0))
        measure_latency(conn, item);
    if (item->record.tick_count)
        weir_item_segment_end(&conn->loop->thread, &item->record);
    else
        begin_sending(conn, item); /* without a stamp: only counts it as such */
    weir_loop_item_free(conn->loop, item);
    return bytes;
}

/* How many acknowledgements follow each other at the head. */
static uint32_t acks_at_head(struct weir_conn *conn)
{
    uint32_t count = 0;
    uint64_t sequence = conn->send_sequence;
    while (count < WEIR_LOOP_ACKS && sequence != conn->ready_sequence && (*place(conn, sequence))->reply_kind == WEIR_REPLY_ACK) {
        count++;
        sequence++;
    }
    return count;
}

/* `count` replies at the head are about to be sent; those that an earlier send() left behind have begun then. */
static void stamp_attempt(struct weir_conn *conn, uint32_t count)
{
    for (uint64_t s = conn->send_sequence, end = s + count; s != end; s++) {
        struct weir_item *item = *place(conn, s);
        if (item->weight && !item->record.tick_count)
            begin_sending(conn, item);
    }
}

ptrdiff_t weir_conn_write(struct weir_conn *conn, const void *data, size_t size)
{
    if (conn->tls)
        return conn->way->tls->send(conn->tls, data, size);
    for (;;) {
        ssize_t sent = send(conn->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            return sent;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

/* The head of the ring goes out in one send(), with the acknowledgements behind it when it is one itself. Returns what the
 * send returned. */
static ssize_t send_head(struct weir_conn *conn, struct ring_change *change)
{
    uint32_t acks = acks_at_head(conn);
    struct weir_item *head = *place(conn, conn->send_sequence);
    const void *data = acks ? (const void *)conn->loop->acks : head->reply.data;
    size_t each = acks ? ACK_BYTES : head->reply.length;
    size_t size = acks ? acks * ACK_BYTES : each;
    stamp_attempt(conn, acks ? acks : 1);
    ssize_t sent = weir_conn_write(conn, (const uint8_t *)data + conn->head_sent, size - conn->head_sent);
    if (sent <= 0)
        return sent;
    for (conn->head_sent += (size_t)sent; conn->head_sent >= each; conn->head_sent -= each) {
        change->items++;
        change->bytes += head_done(conn);
        if (!acks) {
            conn->head_sent = 0;
            break;
        }
    }
    return sent;
}

void weir_conn_send(struct weir_conn *conn)
{
    struct ring_change change = { 0, 0 };
    ssize_t sent = 1;
    while (sent > 0 && conn->send_sequence != conn->ready_sequence)
        sent = send_head(conn, &change);
    conn->blocked = sent == 0;
    if (change.items) {
        ring_leave(conn, change, false);
        weir_way_end(conn->way_block, &conn->way_block->answered, change.items);
    }
    if (sent < 0)
        weir_conn_close(conn);
}

void weir_conn_take_replies(struct weir_conn *conn, struct weir_buffer *out)
{
    struct ring_change change = { 0, 0 };
    while (conn->send_sequence != conn->next_sequence) {
        const struct weir_item *item = *place(conn, conn->send_sequence);
        bool ack = item->reply_kind == WEIR_REPLY_ACK;
        const char *data = ack ? (const char *)weir_message_ack : item->reply.data;
        weir_buffer_add(out, data + conn->head_sent, (ack ? ACK_BYTES : item->reply.length) - conn->head_sent);
        conn->head_sent = 0;
        change.items++;
        change.bytes += head_done(conn);
    }
    free(conn->ring);
    conn->ring = NULL;
    if (!change.items)
        return;
    ring_leave(conn, change, false);
    weir_way_end(conn->way_block, &conn->way_block->answered, change.items);
}

int weir_conn_give_replies(struct weir_conn *conn, struct weir_buffer *replies)
{
    struct weir_item *item = weir_loop_item_new(conn->loop);
    if (!item || weir_conn_ring_reserve(conn) != 0) {
        if (item)
            weir_loop_item_free(conn->loop, item);
        return -ENOMEM;
    }
    item->conn = conn;
    item->way = conn->way;
    item->way_index = conn->way_index;
    item->sequence = conn->next_sequence++;
    item->reply_kind = WEIR_REPLY_BYTES;
    item->reply = *replies;
    *replies = (struct weir_buffer)WEIR_BUFFER_INIT;
    weir_way_accept(conn->way_block, 0, false);
    weir_loop_finish(&conn->loop->thread, item);
    return 0;
}

void weir_conn_abandon(struct weir_conn *conn)
{
    struct ring_change change = { 0, 0 };
    if (!conn->ring)
        return;
    for (uint64_t s = conn->send_sequence, end = conn->next_sequence; s != end; s++) {
        struct weir_item *item = *place(conn, s);
        if (!item)
            continue;
        change.items++;
        change.bytes += item->size_bytes;
        weir_loop_item_free(conn->loop, item);
    }
    conn->trims = conn->ring_bytes >= TRIM_BYTES;
    free(conn->ring);
    conn->ring = NULL;
    /* From now on the two sequences only tell how many items are still out. */
    conn->send_sequence += change.items;
    if (!change.items)
        return;
    ring_leave(conn, change, true);
    weir_way_end(conn->way_block, &conn->way_block->abandoned, change.items);
}
