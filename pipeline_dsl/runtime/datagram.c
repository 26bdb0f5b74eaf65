/*
 * DESIGN: a batch is received into buffers of the largest size, of which only the pages that datagrams really fill take memory;
 * each payload is then copied into a block of its own size, so that a queue's limit bounds what its items hold.
 *
 * The buffers have one byte more than the largest datagram: one that fills it was cut, and must not be decoded as if it were
 * whole.
 */
#include "pipeline_dsl/runtime/datagram.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "pipeline_dsl/runtime/way.h"

#define BATCH 64u
#define ROOM (WEIR_DATAGRAM_MAX_BYTES + 1)
#define LAST_BATCHES 64

struct weir_datagrams {
    uint32_t count, next; /* of the batch: received; not taken yet */
    uint32_t drops;       /* the socket's counter when it was last read; wraps */
    struct mmsghdr headers[BATCH];
    struct iovec pieces[BATCH];
    struct sockaddr_storage peers[BATCH]; /* where they are asked for */
    uint8_t bytes[BATCH][ROOM];
};

static uint32_t read_drops(int fd)
{
    uint32_t info[SK_MEMINFO_VARS] = { 0 };
    socklen_t size = sizeof info;
    getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &size);
    return info[SK_MEMINFO_DROPS];
}

int weir_datagram_open(struct weir_conn *conn, bool inherited)
{
    struct weir_datagrams *batch = calloc(1, sizeof *batch);
    if (!batch)
        return -ENOMEM;
    for (uint32_t i = 0; i < BATCH; i++) {
        batch->pieces[i] = (struct iovec){ batch->bytes[i], ROOM };
        batch->headers[i].msg_hdr = (struct msghdr){ .msg_iov = &batch->pieces[i], .msg_iovlen = 1 };
    }
    conn->datagrams = batch;
    if (inherited)
        batch->drops = read_drops(conn->fd);
    return 0;
}

ptrdiff_t weir_datagram_receive(struct weir_conn *conn, void *span, size_t room)
{
    struct weir_datagrams *batch = conn->datagrams;
    for (uint32_t i = 0; conn->way->allow_count && i < BATCH; i++) {
        batch->headers[i].msg_hdr.msg_name = &batch->peers[i];
        batch->headers[i].msg_hdr.msg_namelen = sizeof batch->peers[i];
    }
    int got = recvmmsg(conn->fd, span, (unsigned)(room / sizeof(struct mmsghdr)), MSG_DONTWAIT, NULL);
    return got < 0 ? -EAGAIN : got;
}

static void count_drops(struct weir_conn *conn)
{
    uint32_t more = read_drops(conn->fd) - conn->datagrams->drops;
    if (!more)
        return;
    conn->datagrams->drops += more;
    weir_way_count(conn->way_block, &conn->way_block->kernel_drops, more);
}

/* Sends what is left of the batch on its way, until an item is parked. */
static void pass(struct weir_conn *conn)
{
    struct weir_datagrams *batch = conn->datagrams;
    struct weir_thread *thread = &conn->loop->thread;
    weir_conn_cut_begin(conn);
    while (batch->next < batch->count && !conn->parked && !conn->closing) {
        const struct mmsghdr *header = &batch->headers[batch->next];
        const uint8_t *bytes = batch->bytes[batch->next++];
        weir_thread_at(thread, WEIR_TAG(conn->way->listen_stage, WEIR_PART_NONE));
        if (conn->way->allow_count && !weir_network_has(conn->way->allow, conn->way->allow_count, header->msg_hdr.msg_name)) {
            weir_way_count(conn->way_block, &conn->way_block->refused, 1);
            continue;
        }
        if (header->msg_len > WEIR_DATAGRAM_MAX_BYTES) {
            weir_way_count(conn->way_block, &conn->way_block->truncated, 1);
            continue;
        }
        struct weir_item *item = weir_conn_accept(conn, bytes, header->msg_len);
        if (item)
            conn->way->run(thread, item);
        else
            weir_way_count(conn->way_block, &conn->way_block->kernel_drops, 1); /* no memory here, as there */
    }
    weir_conn_cut_end(conn);
}

bool weir_datagram_take(struct weir_conn *conn)
{
    struct weir_datagrams *batch = conn->datagrams;
    ptrdiff_t got = conn->way->listen(conn, batch->headers, sizeof batch->headers);
    if (got <= 0)
        return false;
    batch->count = (uint32_t)got;
    batch->next = 0;
    count_drops(conn);
    pass(conn);
    return (size_t)got == BATCH;
}

void weir_datagram_continue(struct weir_conn *conn)
{
    if (conn->datagrams->next < conn->datagrams->count)
        pass(conn);
}

void weir_datagram_finish(struct weir_conn *conn)
{
    for (int i = 0; i < LAST_BATCHES && weir_conn_takes(conn); i++)
        if (!weir_datagram_take(conn))
            break;
}
