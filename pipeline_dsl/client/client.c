/*
 * DESIGN: one ring of requests with three marks that only move forward, counted without wrapping:
 *
 *     answered <= written <= pushed            pushed - answered <= in_flight
 *
 * A request between `written` and `pushed` waits for the socket; `offset` bytes of the first of them are already gone.
 * Replies carry no number, so the one at `answered` gets the next reply. A reply to a request that is not wholly written
 * can't be one, nor can a reply when nothing is outstanding: then no later reply can be matched either, and the connection ends.
 *
 * When a write fails the connection is not given up at once: replies that the server sent before it went away may still lie
 * in the socket. Reading goes on to the end, and what is unanswered then fails, with the reason that came first.
 */
#include "pipeline_dsl/client/client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pipeline_dsl/client/dial.h"
#include "pipeline_dsl/client/inbox.h"

#define INBOX_FIRST ((size_t)8 << 10)
#define WRITE_PIECES 64

struct request {
    const uint8_t *data;
    size_t size;
    uint64_t tag;
};

struct weir_client {
    int fd; /* -1: ended */
    enum weir_client_result end;
    bool write_failed;
    struct request *requests; /* [in_flight] */
    size_t in_flight;
    uint64_t answered, written, pushed;
    size_t offset;
    struct weir_inbox inbox;
    struct weir_arena arena; /* of the reply under the knife */
    weir_client_done *done;
    void *context;
};

int weir_client_connect(struct weir_client **client, const char *address, const struct weir_client_options *options,
                        struct weir_error *error)
{
    const struct weir_dial_options dial = {
        .timeout_ns = options->connect_timeout_ns ? options->connect_timeout_ns : 5000000000u,
        .cancel_fd = options->cancel_fd ? options->cancel_fd : -1,
    };
    int fd = weir_dial(address, &dial, error);
    if (fd < 0)
        return fd;
    struct weir_client *made = calloc(1, sizeof *made);
    if (made) {
        made->fd = fd;
        made->in_flight = options->in_flight ? options->in_flight : 64;
        made->done = options->done;
        made->context = options->context;
        weir_inbox_init(&made->inbox, INBOX_FIRST, options->reply_max_bytes ? options->reply_max_bytes : (size_t)16 << 20);
        made->requests = calloc(made->in_flight, sizeof *made->requests);
        weir_arena_init(&made->arena, 0, (size_t)64 << 20);
    }
    if (!made || !made->inbox.data || !made->requests) {
        if (made) {
            weir_inbox_release(&made->inbox);
            free(made->requests);
        }
        free(made);
        close(fd);
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a connection to %s", address);
    }
    *client = made;
    return 0;
}

static void report(struct weir_client *client, enum weir_client_result result, const struct weir_message *reply)
{
    struct weir_client_outcome outcome = { result, client->requests[client->answered % client->in_flight].tag, reply };
    client->answered++;
    client->done(client->context, &outcome);
}

/* Ends the connection; what is outstanding fails for the reason that came first. */
static void end(struct weir_client *client, enum weir_client_result reason)
{
    if (client->fd < 0)
        return;
    if (!client->write_failed || reason == WEIR_CLIENT_UNANSWERED)
        client->end = reason;
    close(client->fd);
    client->fd = -1;
    while (client->answered < client->pushed)
        report(client, client->end, NULL);
    client->written = client->pushed;
    client->offset = 0;
}

void weir_client_free(struct weir_client *client)
{
    if (!client)
        return;
    end(client, WEIR_CLIENT_UNANSWERED);
    weir_arena_release(&client->arena);
    weir_inbox_release(&client->inbox);
    free(client->requests);
    free(client);
}

int weir_client_fd(const struct weir_client *client)
{
    return client->fd;
}

bool weir_client_ended(const struct weir_client *client)
{
    return client->fd < 0;
}

enum weir_client_result weir_client_end(const struct weir_client *client)
{
    return client->end;
}

size_t weir_client_outstanding(const struct weir_client *client)
{
    return (size_t)(client->pushed - client->answered);
}

size_t weir_client_room(const struct weir_client *client)
{
    return client->fd < 0 || client->write_failed ? 0 : client->in_flight - weir_client_outstanding(client);
}

bool weir_client_unwritten(const struct weir_client *client)
{
    return client->fd >= 0 && !client->write_failed && client->written < client->pushed;
}

bool weir_client_push(struct weir_client *client, const void *frame, size_t size, uint64_t tag)
{
    if (!weir_client_room(client))
        return false;
    client->requests[client->pushed % client->in_flight] = (struct request){ frame, size, tag };
    client->pushed++;
    return true;
}

/* The unwritten requests as pieces of one write; `*total` is their size. */
static int gather(const struct weir_client *client, struct iovec pieces[WRITE_PIECES], size_t *total)
{
    int count = 0;
    size_t offset = client->offset;
    *total = 0;
    for (uint64_t at = client->written; at < client->pushed && count < WRITE_PIECES; at++, count++) {
        const struct request *request = &client->requests[at % client->in_flight];
        pieces[count].iov_base = (void *)(uintptr_t)(request->data + offset);
        pieces[count].iov_len = request->size - offset;
        *total += pieces[count].iov_len;
        offset = 0;
    }
    return count;
}

/* Moves the mark over `size` bytes that the socket took. */
static void advance(struct weir_client *client, size_t size)
{
    size += client->offset;
    while (client->written < client->pushed) {
        const struct request *request = &client->requests[client->written % client->in_flight];
        if (size < request->size)
            break;
        size -= request->size;
        client->written++;
    }
    client->offset = size;
}

static enum weir_client_result reason_of(int code)
{
    return code == ECONNRESET || code == EPIPE ? WEIR_CLIENT_RESET : WEIR_CLIENT_BROKEN;
}

void weir_client_write(struct weir_client *client)
{
    while (weir_client_unwritten(client)) {
        struct iovec pieces[WRITE_PIECES];
        size_t total;
        struct msghdr header = { .msg_iov = pieces };
        header.msg_iovlen = (size_t)gather(client, pieces, &total);
        ssize_t taken = sendmsg(client->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0) {
            client->write_failed = errno != EAGAIN && errno != EWOULDBLOCK;
            if (client->write_failed)
                client->end = reason_of(errno);
            return;
        }
        advance(client, (size_t)taken);
        if ((size_t)taken < total)
            return; /* the socket is full */
    }
}

/* Matches one reply. False when it is none, or answers nothing. */
static bool match(struct weir_client *client, const uint8_t *payload, size_t size)
{
    if (client->answered >= client->written)
        return false;
    struct weir_message reply;
    enum weir_client_result result;
    bool decoded, good = weir_inbox_judge(payload, size, &client->arena, &reply, &decoded, &result);
    if (good)
        report(client, result, decoded ? &reply : NULL);
    if (decoded || !good || result == WEIR_CLIENT_BAD_REPLY)
        weir_arena_reset(&client->arena);
    return good;
}

/* Cuts and matches what lies in the inbox. False when the connection ended over it. */
static bool cut(struct weir_client *client)
{
    for (;;) {
        const uint8_t *payload;
        size_t size;
        enum weir_frame_kind kind = weir_inbox_next(&client->inbox, &payload, &size);
        if (kind == WEIR_FRAME_MORE)
            return true;
        if (kind == WEIR_FRAME_BAD || !match(client, payload, size)) {
            client->write_failed = false;
            end(client, WEIR_CLIENT_BAD_REPLY);
            return false;
        }
    }
}

void weir_client_read(struct weir_client *client)
{
    while (client->fd >= 0) {
        bool full;
        ssize_t got = weir_inbox_fill(&client->inbox, client->fd, MSG_DONTWAIT, &full);
        if (got == -EAGAIN || got == -EWOULDBLOCK)
            return;
        if (got <= 0) {
            end(client, got == 0 ? WEIR_CLIENT_CLOSED : reason_of((int)-got));
            return;
        }
        if (!cut(client) || !full)
            return; /* all of it is read; asking again would cost a call */
    }
}
