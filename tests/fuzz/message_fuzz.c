/*
 * Fuzzes the way of a frame: cut a stream that comes in random pieces, decode, size both ways, encode, decode again.
 *
 * The first byte sets how the rest is cut into pieces, the second the arena's limit. What came out of the second decode must
 * equal the first, except that invalid UTF-8 was replaced.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/wire/frame.h"
#include "pipeline_dsl/wire/message.h"
#include "base/utf8.h"

#define FRAME_MOST 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "message_fuzz: %s\n", what);
    abort();
}

#define DEMAND(condition) demand(condition, #condition)

static void same_bytes(struct weir_bytes first, struct weir_bytes again)
{
    DEMAND((first.data == NULL) == (again.data == NULL));
    if (weir_utf8_valid(first.data, first.size))
        DEMAND(first.size == again.size && (!first.size || memcmp(first.data, again.data, first.size) == 0));
    DEMAND(weir_utf8_valid(again.data, again.size));
}

static void same_event(const struct weir_event *first, const struct weir_event *again)
{
    same_bytes(first->host, again->host);
    same_bytes(first->service, again->service);
    same_bytes(first->state, again->state);
    same_bytes(first->description, again->description);
    DEMAND(first->tag_count == again->tag_count && first->attribute_count == again->attribute_count);
    for (uint32_t i = 0; i < first->tag_count; i++)
        same_bytes(first->tags[i], again->tags[i]);
    for (uint32_t i = 0; i < first->attribute_count; i++) {
        same_bytes(first->attributes[i].key, again->attributes[i].key);
        same_bytes(first->attributes[i].value, again->attributes[i].value);
    }
    DEMAND(first->has_time == again->has_time && first->time_us == again->time_us);
    DEMAND(first->has_ttl == again->has_ttl && memcmp(&first->ttl, &again->ttl, sizeof first->ttl) == 0);
    DEMAND(first->metric_kind == again->metric_kind && first->metric_int == again->metric_int);
    /* A NaN must stay one; its payload needn't survive the way through a float. */
    DEMAND(first->metric_double == again->metric_double ||
           (first->metric_double != first->metric_double && again->metric_double != again->metric_double));
}

static void same_message(const struct weir_message *first, const struct weir_message *again)
{
    DEMAND(first->has_ok == again->has_ok && first->ok == again->ok);
    same_bytes(first->error, again->error);
    same_bytes(first->query, again->query);
    DEMAND(first->event_count == again->event_count);
    for (size_t i = 0; i < first->event_count; i++)
        same_event(&first->events[i], &again->events[i]);
}

static void one_message(const uint8_t *data, size_t size, size_t limit)
{
    struct weir_arena arena, arena_again;
    weir_arena_init(&arena, 0, limit);
    weir_arena_init(&arena_again, 0, SIZE_MAX);
    struct weir_buffer out = WEIR_BUFFER_INIT, out_again = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_message message, again;
    int rc = weir_message_decode(&message, &arena, data, size, &error);
    DEMAND(arena.used_bytes <= limit);
    DEMAND(rc == 0 ? error.text[0] == '\0' : (rc == -EBADMSG || rc == -ENOMEM) && error.text[0] != '\0');
    if (rc != 0)
        goto out;
    DEMAND(weir_message_size_typed(&message) == weir_message_size_reflect(&message));
    DEMAND(weir_message_size_typed(&message) <= arena.used_bytes);
    DEMAND(weir_message_encode_framed(&message, &out, &error) == 0);
    struct weir_frame frame = weir_frame_cut(out.data, out.length, UINT32_MAX);
    DEMAND(frame.kind == WEIR_FRAME_WHOLE && frame.total == out.length);
    DEMAND(weir_message_decode(&again, &arena_again, out.data + frame.offset, frame.length, &error) == 0);
    same_message(&message, &again);
    DEMAND(weir_message_encode_framed(&again, &out_again, &error) == 0);
    DEMAND(out.length == out_again.length && memcmp(out.data, out_again.data, out.length) == 0);
out:
    weir_buffer_release(&out_again);
    weir_buffer_release(&out);
    weir_arena_release(&arena_again);
    weir_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    unsigned pieces = data[0];
    size_t limit = data[1] ? (size_t)data[1] << 10 : (size_t)1 << 26;
    data += 2;
    size -= 2;
    size_t at = 0, end = 0;
    for (;;) {
        /* An exact copy of what has come so far, so that a read behind it is seen. */
        uint8_t *span = malloc(end - at + 1);
        memcpy(span, data + at, end - at);
        struct weir_frame frame = weir_frame_cut(span, end - at, FRAME_MOST);
        if (frame.kind == WEIR_FRAME_WHOLE) {
            DEMAND(frame.length <= FRAME_MOST && frame.offset + frame.length == frame.total && frame.total <= end - at);
            one_message(span + frame.offset, frame.length, limit);
            at += frame.total;
        }
        free(span);
        if (frame.kind == WEIR_FRAME_WHOLE)
            continue;
        if (frame.kind == WEIR_FRAME_BAD || end == size)
            break;
        DEMAND(frame.total > end - at);
        pieces = pieces * 5 + 3;
        size_t piece = 1 + pieces % 61;
        end = piece < size - end ? end + piece : size;
    }
    /* What isn't framed well may still be a message: most mutations land here. */
    one_message(data, size, limit);
    return 0;
}
