/*
 * DESIGN: bytes are received into the loop's scratch buffer, and frames are cut there. Only what is left over is kept with the
 * connection, in a block that grows with the bytes that really came; nothing is ever allocated for a length that a header only
 * claims. The next recv() puts the leftover back in front of the scratch buffer, so that there is one span to cut; a frame too
 * large for that is received into its own block.
 *
 * One turn takes a few reads, then the next connection has its turn.
 */
#include "pipeline_dsl/runtime/conn.h"

#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/datagram.h"
#include "pipeline_dsl/runtime/queue.h"
#include "pipeline_dsl/runtime/tls.h"
#include "pipeline_dsl/runtime/way.h"
#include "pipeline_dsl/wire/frame.h"

#define READS_A_TURN 2
#define DISCARD_MOST ((size_t)4 << 20)
#define COMPLAINT_NS 1000000000u

bool weir_conn_takes(const struct weir_conn *conn)
{
    bool room = !conn->way->reply_stage ||
                (weir_conn_outstanding(conn) < WEIR_REPLY_RING_ITEMS && conn->ring_bytes < WEIR_REPLY_RING_BYTES);
    return room && !conn->ended && !conn->leaves && !conn->closing && !conn->parked;
}

static void input_drop(struct weir_conn *conn)
{
    weir_block_give(&conn->loop->blocks, conn->input);
    conn->input = NULL;
    conn->input_from = conn->input_bytes = 0;
}

static uint8_t *input_data(const struct weir_conn *conn)
{
    return conn->input->data + conn->input_from;
}

/* Keeps `size` bytes, which may lie in the block that is kept now. Then they stay there until little of it is left: copied each
 * time, a connection that is let into a full queue frame by frame would copy all that it holds for each of them. */
static int input_keep(struct weir_conn *conn, const uint8_t *data, size_t size)
{
    struct weir_block *old = conn->input;
    bool inside = old && (uintptr_t)data - (uintptr_t)old->data <= old->capacity;
    if (inside && size && (data == input_data(conn) || size >= old->capacity / 4)) {
        conn->input_from = (size_t)(data - old->data);
        conn->input_bytes = size;
        return 0;
    }
    struct weir_block *block = NULL;
    if (size) {
        block = weir_block_take(&conn->loop->blocks, size);
        if (!block)
            return -ENOMEM;
        memcpy(block->data, data, size);
    }
    weir_block_give(&conn->loop->blocks, old);
    conn->input = block;
    conn->input_from = 0;
    conn->input_bytes = size;
    return 0;
}

/* --- cutting ------------------------------------------------------------------------------------------------------------- */

struct weir_item *weir_conn_accept(struct weir_conn *conn, const uint8_t *payload, size_t size)
{
    uint32_t first = conn->way->frame_stage ? conn->way->frame_stage : conn->way->listen_stage;
    struct weir_loop *loop = conn->loop;
    struct weir_thread *thread = &loop->thread;
    uint32_t weight = weir_thread_choose(thread, conn->way_index);
    struct weir_item *item = weir_loop_item_new(loop);
    struct weir_block *block = weir_block_take(&loop->blocks, size);
    if (!item || !block || (conn->way->reply_stage && weir_conn_ring_reserve(conn) != 0)) {
        weir_block_give(&loop->blocks, block);
        if (item)
            weir_loop_item_free(loop, item);
        return NULL;
    }
    item->conn = conn;
    item->way = conn->way;
    item->way_index = conn->way_index;
    item->weight = weight;
    item->block = block;
    item->payload = block->data;
    item->payload_bytes = size;
    weir_thread_count(thread, conn->way->listen_stage);
    if (first != conn->way->listen_stage)
        weir_thread_count(thread, first);
    weir_item_segment_begin(thread, item, WEIR_NO_QUEUE, first);
    memcpy(block->data, payload, size);
    item->sequence = conn->next_sequence++;
    weir_way_accept(conn->way_block, size, weir_conn_outstanding(conn) > 1);
    uint32_t every = __atomic_load_n(&loop->time_every, __ATOMIC_RELAXED);
    if (__builtin_expect(every, 0) && loop->time_left-- == 0) {
        loop->time_left = every - 1;
        item->born_ns = weir_clock_ns();
    }
    return item;
}

/* One line a second and loop: a flood of garbage must not become a flood of lines. */
static bool may_complain(struct weir_loop *loop)
{
    uint64_t now = weir_clock_ns();
    if (loop->complained_ns && now - loop->complained_ns < COMPLAINT_NS)
        return false;
    loop->complained_ns = now;
    return true;
}

static void refuse_length(struct weir_conn *conn, size_t length)
{
    weir_way_count(conn->way_block, &conn->way_block->bad_lengths, 1);
    conn->ended = true;
    if (may_complain(conn->loop))
        fprintf(stderr, "%s: a frame claims %zu bytes, and at most %llu are allowed; its connection is closed\n", conn->way->name, length,
            (unsigned long long)conn->way->frame_max_bytes);
}

struct weir_item *weir_conn_frame(struct weir_conn *conn, const void *data, size_t size, size_t *used)
{
    struct weir_frame frame = weir_frame_cut(data, size, conn->way->frame_max_bytes);
    if (frame.kind == WEIR_FRAME_BAD)
        refuse_length(conn, frame.length);
    if (frame.kind != WEIR_FRAME_WHOLE)
        return NULL;
    struct weir_item *item = weir_conn_accept(conn, (const uint8_t *)data + frame.offset, frame.length);
    if (!item)
        weir_conn_close(conn);
    *used = frame.total;
    return item;
}

/* Where nothing is done with an item but to hand it off, the next one comes within a microsecond, and the workers' wakeups are
 * bundled. */
void weir_conn_cut_begin(struct weir_conn *conn)
{
    conn->loop->thread.defers = conn->way->handoff_queue != WEIR_NONE;
}

void weir_conn_cut_end(struct weir_conn *conn)
{
    struct weir_thread *thread = &conn->loop->thread;
    thread->defers = false;
    if (!thread->owed_wakes)
        return;
    const struct weir_queue *queue = &conn->loop->queues[conn->way->handoff_queue];
    weir_thread_at(thread, WEIR_TAG(conn->way->handoff_stage, WEIR_PART_PUSH)); /* whose cost it is */
    weir_intake_wake(queue->intake, thread);
}

struct weir_item *weir_conn_lines(struct weir_conn *conn, const void *data, size_t size, size_t *used)
{
    struct weir_bundle bundle = weir_lines_cut(&conn->lines, data, size, conn->way->frame_max_bytes);
    *used = bundle.used;
    if (bundle.overlong)
        weir_way_count(conn->way_block, &conn->way_block->bad_lengths, bundle.overlong);
    if (!bundle.length)
        return NULL;
    struct weir_item *item = weir_conn_accept(conn, (const uint8_t *)data + bundle.offset, bundle.length);
    if (!item)
        weir_conn_close(conn);
    return item;
}

/* Cuts as many frames as may be taken now, and sends each on its way; returns the bytes used up. */
static size_t cut(struct weir_conn *conn, const uint8_t *data, size_t size)
{
    struct weir_thread *thread = &conn->loop->thread;
    size_t used = 0;
    weir_conn_cut_begin(conn);
    while (weir_conn_takes(conn)) {
        weir_thread_at(thread, WEIR_TAG(conn->way->frame_stage, WEIR_PART_NONE));
        size_t taken = 0;
        struct weir_item *item = conn->way->frame(conn, data + used, size - used, &taken);
        used += taken;
        if (!item)
            break;
        conn->way->run(thread, item);
    }
    weir_conn_cut_end(conn);
    return conn->ended ? size : used;
}

static void cut_and_keep(struct weir_conn *conn, const uint8_t *data, size_t size)
{
    size_t used = cut(conn, data, size);
    if (conn->closing)
        return;
    if (input_keep(conn, data + used, size - used) != 0)
        weir_conn_close(conn);
}

/* --- receiving ----------------------------------------------------------------------------------------------------------- */

/* Where the next recv() goes: behind the leftover, in scratch or in the connection's own block. Null: no memory. */
static uint8_t *receive_span(struct weir_conn *conn, size_t *kept, size_t *room)
{
    struct weir_loop *loop = conn->loop;
    *kept = conn->input_bytes;
    if (conn->input_bytes <= WEIR_LOOP_SCRATCH / 2) {
        if (conn->input_bytes)
            memcpy(loop->scratch, input_data(conn), conn->input_bytes);
        *room = WEIR_LOOP_SCRATCH - conn->input_bytes;
        return loop->scratch;
    }
    memmove(conn->input->data, input_data(conn), conn->input_from ? conn->input_bytes : 0);
    conn->input_from = 0;
    if (conn->input->capacity - conn->input_bytes < WEIR_LOOP_SCRATCH / 4) {
        struct weir_block *larger = weir_block_take(&loop->blocks, conn->input_bytes * 2);
        if (!larger)
            return NULL;
        memcpy(larger->data, conn->input->data, conn->input_bytes);
        weir_block_give(&loop->blocks, conn->input);
        conn->input = larger;
    }
    *room = conn->input->capacity - conn->input_bytes;
    return conn->input->data;
}

void weir_conn_no_handshake(struct weir_conn *conn, const char *why)
{
    weir_way_count(conn->way_block, &conn->way_block->failed_handshakes, 1);
    if (may_complain(conn->loop))
        fprintf(stderr, "%s: a TLS handshake failed: %s\n", conn->way->name, why);
    weir_conn_close(conn);
}

/* Before the handshake is done nothing comes, and its own bytes may have to wait for room in the socket. */
static ptrdiff_t receive_secret(struct weir_conn *conn, void *span, size_t room)
{
    bool handshaking = conn->tls->since_ns != 0;
    ptrdiff_t got = conn->way->tls->receive(conn->tls, span, room);
    conn->blocked |= conn->tls->wants_write;
    if (handshaking && got != -EAGAIN && got <= 0)
        weir_conn_no_handshake(conn, conn->tls->reason ? conn->tls->reason : "the client went away");
    return got;
}

ptrdiff_t weir_conn_receive(struct weir_conn *conn, void *span, size_t room)
{
    if (conn->tls)
        return receive_secret(conn, span, room);
    for (;;) {
        ssize_t got = recv(conn->fd, span, room, MSG_DONTWAIT);
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    }
}

/* What is left is half a message. */
static void end_of_stream(struct weir_conn *conn)
{
    conn->ended = true;
    if (conn->way->framing == WEIR_LINES && (conn->input_bytes || conn->lines.skipping))
        weir_way_count(conn->way_block, &conn->way_block->truncated, 1);
}

/* All that a TLS stream brought is cut, and its end came with it. */
static void end_with_session(struct weir_conn *conn)
{
    if (conn->tls && conn->tls->at_end && weir_conn_takes(conn))
        end_of_stream(conn);
}

/* One recv(), and what it brought is cut. Returns whether there may be more to read at once. */
static bool receive(struct weir_conn *conn)
{
    size_t kept, room;
    weir_thread_at(&conn->loop->thread, WEIR_TAG(conn->way->listen_stage, WEIR_PART_NONE));
    if (conn->datagrams)
        return weir_datagram_take(conn);
    uint8_t *span = receive_span(conn, &kept, &room);
    if (!span) {
        weir_conn_close(conn);
        return false;
    }
    ptrdiff_t got = conn->way->listen(conn, span + kept, room);
    if (got > 0)
        cut_and_keep(conn, span, kept + (size_t)got);
    else if (got == 0)
        end_of_stream(conn);
    else if (got != -EAGAIN)
        weir_conn_close(conn);
    return got > 0 && (size_t)got == room;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct weir_conn *conn = poll->data;
    weir_thread_sleep_end(&conn->loop->thread);
    if (status < 0) {
        weir_conn_close(conn);
        return;
    }
    if (events & UV_WRITABLE) {
        conn->blocked = false;
        weir_thread_at(&conn->loop->thread, WEIR_TAG(conn->way->reply_stage, WEIR_PART_NONE));
        conn->way->send(conn);
        weir_thread_at(&conn->loop->thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
        weir_conn_continue(conn);
        if (!conn->tls || conn->closing)
            return; /* if it is readable, the next turn will say so again; a handshake may have waited to write */
    }
    for (int i = 0; i < READS_A_TURN && weir_conn_takes(conn); i++)
        if (!receive(conn))
            break;
    weir_thread_at(&conn->loop->thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
    end_with_session(conn);
    weir_conn_update(conn);
}

void weir_conn_continue(struct weir_conn *conn)
{
    if (conn->datagrams) {
        weir_datagram_continue(conn);
        weir_thread_at(&conn->loop->thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
    } else if (conn->input_bytes && weir_conn_takes(conn)) {
        cut_and_keep(conn, input_data(conn), conn->input_bytes);
        weir_thread_at(&conn->loop->thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
    }
    end_with_session(conn);
    weir_conn_update(conn);
}

/* --- states -------------------------------------------------------------------------------------------------------------- */

static void conn_free(struct weir_conn *conn)
{
    struct weir_loop *loop = conn->loop;
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        loop->connections = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    if (conn->trims)
        malloc_trim(0);
    free(conn->ring);
    free(conn->datagrams);
    free(conn);
    __atomic_fetch_sub(&loop->load, 1, __ATOMIC_RELAXED);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct weir_conn *conn = handle->data;
    conn->poll_closed = true;
    weir_conn_update(conn);
}

/* No request of it is being worked on: the replies of all of them are there, or, where none is owed, they have ended. */
static bool is_settled(const struct weir_conn *conn)
{
    uint64_t behind = conn->way->reply_stage ? conn->ready_sequence : conn->send_sequence;
    return !conn->parked && behind == conn->next_sequence;
}

/* The connection itself stays with the process; what we knew about it goes into `left`. */
static void depart(struct weir_conn *conn)
{
    struct weir_loop *loop = conn->loop;
    struct weir_arrival *arrival = weir_arrival_new(conn->fd, conn->way_index);
    if (!arrival) {
        weir_conn_close(conn);
        return;
    }
    weir_conn_take_replies(conn, &arrival->output);
    if (conn->input_from)
        memmove(conn->input->data, input_data(conn), conn->input_bytes);
    arrival->input = conn->input;
    arrival->input_bytes = conn->input_bytes;
    arrival->skips = conn->lines.skipping;
    arrival->ended = conn->ended;
    conn->input = NULL;
    arrival->next = loop->left;
    loop->left = arrival;
    conn->closing = true;
    uv_close((uv_handle_t *)&conn->poll, on_poll_closed);
    weir_way_connections(conn->way_block, -1);
}

void weir_conn_update(struct weir_conn *conn)
{
    bool owes = weir_conn_outstanding(conn) != 0;
    if (conn->closing) {
        if (conn->poll_closed && !owes && !conn->dirty)
            conn_free(conn);
        return;
    }
    if (conn->ended && !owes) {
        weir_conn_close(conn);
        return;
    }
    if (conn->leaves && is_settled(conn)) {
        depart(conn);
        return;
    }
    int events = (weir_conn_takes(conn) ? UV_READABLE : 0) | (conn->blocked ? UV_WRITABLE : 0);
    if (events == conn->events)
        return;
    conn->events = events;
    if (events)
        uv_poll_start(&conn->poll, events, on_poll);
    else
        uv_poll_stop(&conn->poll);
}

/* Its items that wait for this queue won't come. */
static void parked_forget(struct weir_conn *conn, struct weir_queue *queue)
{
    struct weir_item_list *list = &conn->loop->parked[queue->index], all = *list;
    struct weir_item *item;
    list->first = NULL;
    while ((item = weir_item_list_take(&all))) {
        if (item->conn != conn) {
            weir_item_list_add(list, item);
            continue;
        }
        weir_queue_unpark(queue);
        weir_loop_item_free(conn->loop, item);
        weir_way_end(conn->way_block, conn->way->reply_stage ? &conn->way_block->abandoned : &conn->way_block->discarded, 1);
        conn->parked--;
        conn->send_sequence++;
    }
}

void weir_conn_close(struct weir_conn *conn)
{
    if (conn->closing)
        return;
    conn->closing = true;
    __atomic_store_n(&conn->wants_none, true, __ATOMIC_RELAXED);
    weir_conn_abandon(conn);
    for (uint32_t i = 0; i < conn->loop->plan->queue_count && conn->parked; i++)
        parked_forget(conn, &conn->loop->queues[i]);
    input_drop(conn);
    uv_close((uv_handle_t *)&conn->poll, on_poll_closed);
    if (conn->tls)
        conn->way->tls->close(conn->tls);
    conn->tls = NULL;
    if (conn->datagrams) {
        close(conn->fd);
        return;
    }
    /* Unread bytes would turn the close into a reset, which may overtake the replies that were just written. */
    shutdown(conn->fd, SHUT_WR);
    for (size_t discarded = 0; discarded < DISCARD_MOST;) {
        ssize_t got = recv(conn->fd, conn->loop->scratch, WEIR_LOOP_SCRATCH, MSG_DONTWAIT | MSG_TRUNC);
        if (got <= 0)
            break;
        discarded += (size_t)got;
    }
    close(conn->fd);
    weir_way_connections(conn->way_block, -1);
}

void weir_conn_end(struct weir_conn *conn)
{
    if (conn->datagrams)
        weir_datagram_finish(conn);
    conn->ended = true;
    input_drop(conn);
    weir_conn_update(conn);
}

void weir_conn_leave(struct weir_conn *conn)
{
    /* The socket of datagrams stays with its listener; the state of a TLS session can't be handed over. */
    if (conn->datagrams || conn->tls)
        conn->ended = true;
    else
        conn->leaves = true;
    weir_conn_update(conn);
}

void weir_conn_park(struct weir_conn *conn, struct weir_queue *queue, struct weir_item *item)
{
    weir_item_list_add(&conn->loop->parked[queue->index], item);
    conn->parked++;
}

/* What an earlier server received, or owes. */
static void inherit(struct weir_conn *conn, struct weir_arrival *arrival)
{
    conn->input = arrival->input;
    conn->input_bytes = arrival->input_bytes;
    conn->lines.skipping = arrival->skips;
    arrival->input = NULL;
    if (arrival->output.length && weir_conn_give_replies(conn, &arrival->output) != 0)
        weir_conn_close(conn);
}

static bool may_come(const struct weir_loop *loop, const struct weir_arrival *arrival)
{
    const struct weir_plan_way *way = &loop->plan->ways[arrival->way];
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    /* Of datagrams each is asked where it comes from. */
    if (!way->allow_count || way->transport == WEIR_UDP)
        return true;
    return getpeername(arrival->fd, (struct sockaddr *)&peer, &size) == 0 &&
           weir_network_has(way->allow, way->allow_count, (struct sockaddr *)&peer);
}

/* Closed by a reset: nothing of it waits in the kernel. */
static void refuse_peer(struct weir_loop *loop, const struct weir_arrival *arrival)
{
    struct weir_contract_way *block = &loop->plan->way_blocks[(size_t)arrival->way * loop->plan->shards + loop->shard];
    struct linger at_once = { 1, 0 };
    weir_way_count(block, &block->refused, 1);
    setsockopt(arrival->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(arrival->fd);
    __atomic_fetch_sub(&loop->load, 1, __ATOMIC_RELAXED);
}

static int set_up(struct weir_conn *conn, struct weir_loop *loop, const struct weir_arrival *arrival)
{
    int yes = 1;
    conn->loop = loop;
    conn->fd = arrival->fd;
    conn->way_index = arrival->way;
    conn->way = &loop->plan->ways[arrival->way];
    conn->way_block = &loop->plan->way_blocks[(size_t)arrival->way * loop->plan->shards + loop->shard];
    conn->poll.data = conn;
    if (conn->way->transport == WEIR_UDP && weir_datagram_open(conn, arrival->inherited) != 0)
        return -ENOMEM;
    if (conn->way->transport == WEIR_TCP) {
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    }
    if (arrival->tls_context && !(conn->tls = conn->way->tls->open(arrival->tls_context, conn->fd)))
        return -ENOMEM;
    if (uv_poll_init(&loop->uv, &conn->poll, conn->fd) == 0)
        return 0;
    if (conn->tls)
        conn->way->tls->close(conn->tls);
    free(conn->datagrams);
    return -ENOMEM;
}

void weir_conn_open(struct weir_loop *loop, struct weir_arrival *arrival)
{
    if (!may_come(loop, arrival)) {
        refuse_peer(loop, arrival);
        return;
    }
    struct weir_conn *conn = calloc(1, sizeof *conn);
    if (!conn || set_up(conn, loop, arrival) != 0) {
        free(conn);
        close(arrival->fd);
        __atomic_fetch_sub(&loop->load, 1, __ATOMIC_RELAXED);
        return;
    }
    conn->next = loop->connections;
    if (conn->next)
        conn->next->previous = conn;
    loop->connections = conn;
    conn->ended = loop->draining || loop->stopping || arrival->ended;
    conn->leaves = loop->leaving;
    if (!conn->datagrams)
        weir_way_connections(conn->way_block, 1);
    inherit(conn, arrival);
    if (conn->tls)
        weir_loop_watch(loop);
    weir_conn_continue(conn);
}
