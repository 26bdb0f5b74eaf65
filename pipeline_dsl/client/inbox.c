#include "pipeline_dsl/client/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

int weir_inbox_init(struct weir_inbox *inbox, size_t first_bytes, size_t reply_max_bytes)
{
    *inbox = (struct weir_inbox){ .data = malloc(first_bytes), .size = first_bytes, .reply_max_bytes = reply_max_bytes };
    return inbox->data ? 0 : -ENOMEM;
}

void weir_inbox_release(struct weir_inbox *inbox)
{
    free(inbox->data);
    *inbox = (struct weir_inbox){ 0 };
}

void weir_inbox_clear(struct weir_inbox *inbox)
{
    inbox->start = inbox->end = 0;
}

/* Moves what is left to the front, and grows the buffer when that fills it. */
static bool make_room(struct weir_inbox *inbox)
{
    size_t kept = inbox->end - inbox->start;
    if (inbox->start)
        memmove(inbox->data, inbox->data + inbox->start, kept);
    inbox->start = 0;
    inbox->end = kept;
    if (kept < inbox->size)
        return true;
    uint8_t *grown = realloc(inbox->data, inbox->size * 2);
    if (!grown)
        return false;
    inbox->data = grown;
    inbox->size *= 2;
    return true;
}

ssize_t weir_inbox_fill(struct weir_inbox *inbox, int fd, int flags, bool *full)
{
    if (!make_room(inbox))
        return -ENOMEM;
    size_t room = inbox->size - inbox->end;
    ssize_t got;
    do
        got = recv(fd, inbox->data + inbox->end, room, flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    inbox->end += (size_t)got;
    *full = (size_t)got == room;
    return got;
}

enum weir_frame_kind weir_inbox_next(struct weir_inbox *inbox, const uint8_t **payload, size_t *size)
{
    const uint8_t *span = inbox->data + inbox->start;
    struct weir_frame frame = weir_frame_cut(span, inbox->end - inbox->start, inbox->reply_max_bytes);
    if (frame.kind == WEIR_FRAME_WHOLE) {
        *payload = span + frame.offset;
        *size = frame.length;
        inbox->start += frame.total;
    }
    return frame.kind;
}

bool weir_inbox_judge(const uint8_t *payload, size_t size, struct weir_arena *arena, struct weir_message *reply, bool *decoded,
                      enum weir_client_result *result)
{
    size_t ack_size = sizeof weir_message_ack - WEIR_FRAME_HEADER;
    *decoded = false;
    *result = WEIR_CLIENT_ACKED;
    if (size == ack_size && memcmp(payload, weir_message_ack + WEIR_FRAME_HEADER, ack_size) == 0)
        return true;
    int rc = weir_message_decode(reply, arena, payload, size, NULL);
    *decoded = rc == 0;
    /* Too large for us, yet whole: the next one still matches. */
    *result = rc ? WEIR_CLIENT_BAD_REPLY : reply->has_ok && reply->ok ? WEIR_CLIENT_ACKED : WEIR_CLIENT_REFUSED;
    return rc == 0 || rc == -ENOMEM;
}
