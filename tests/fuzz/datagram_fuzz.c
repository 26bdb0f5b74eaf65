/*
 * Fuzzes what may come in a datagram: anything, in a buffer of its own size, decoded as Riemann's message and as Graphite's lines, with
 * the memory that a message may take.
 *
 * The first byte sets that limit. Whatever comes, the outcome is a message, or an error with a sentence, and the arena stays below
 * its limit.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/topology.h"
#include "pipeline_dsl/wire/graphite.h"
#include "pipeline_dsl/wire/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "datagram_fuzz: %s\n", what);
    abort();
}

#define DEMAND(condition) demand(condition, #condition)

static void check(const struct weir_arena *arena, size_t limit, int rc, const struct weir_message *message, const struct weir_error *error)
{
    DEMAND(arena->used_bytes <= limit);
    DEMAND(rc == 0 || rc == -EBADMSG || rc == -ENOMEM);
    DEMAND(rc == 0 || error->text[0]);
    for (size_t i = 0; rc == 0 && i < message->event_count; i++) {
        const struct weir_event *event = &message->events[i];
        /* Every byte that an event points to can be read. */
        volatile unsigned sum = 0;
        for (size_t k = 0; k < event->service.size; k++)
            sum += event->service.data[k];
        for (uint32_t k = 0; k < event->tag_count; k++)
            sum += event->tags[k].size ? event->tags[k].data[event->tags[k].size - 1] : 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > WEIR_DATAGRAM_MAX_BYTES)
        return 0;
    size_t limit = (size_t)(data[0] + 1) * 1024, bad = 0;
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    for (int kind = 0; kind < 2; kind++) {
        struct weir_arena arena;
        struct weir_message message = { 0 };
        struct weir_error error = WEIR_ERROR_INIT;
        weir_arena_init(&arena, 256, limit);
        int rc = kind ? weir_graphite_decode(&message, &arena, copy, size - 1, &bad, &error)
                      : weir_message_decode(&message, &arena, copy, size - 1, &error);
        check(&arena, limit, rc, &message, &error);
        weir_arena_release(&arena);
    }
    free(copy);
    return 0;
}
