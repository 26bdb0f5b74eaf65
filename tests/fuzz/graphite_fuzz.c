/*
 * Fuzzes the way of Graphite's lines: cut a stream that comes in random pieces into bundles, decode each of them.
 *
 * The first byte sets how the rest is cut into pieces, the second the largest line. The events must be those of the good lines of
 * the whole text, whatever the pieces; as a datagram the text is decoded once more, in one piece.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/wire/graphite.h"
#include "pipeline_dsl/wire/lines.h"

#define MOST 16384u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEMAND(condition)                                                                                                                  \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            fprintf(stderr, "graphite_fuzz: %s\n", #condition);                                                                            \
            abort();                                                                                                                       \
        }                                                                                                                                  \
    } while (0)

static size_t newlines(const uint8_t *data, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += data[i] == '\n';
    return count;
}

/* Each line is an event or a bad one. Returns the events. */
static size_t decode(const uint8_t *data, size_t size)
{
    struct weir_arena arena;
    struct weir_message message;
    struct weir_error reason = WEIR_ERROR_INIT;
    size_t bad = 0, lines = newlines(data, size) + (size && data[size - 1] != '\n');
    uint8_t *copy = malloc(size ? size : 1); /* of its own size, so that a read behind its end is seen */
    memcpy(copy, data, size);
    weir_arena_init(&arena, 256, 64 << 20);
    DEMAND(weir_graphite_decode(&message, &arena, copy, size, &bad, &reason) == 0);
    DEMAND(message.event_count + bad == lines);
    DEMAND((bad != 0) == (reason.exit != 0));
    for (size_t i = 0; i < message.event_count; i++) {
        const struct weir_event *event = &message.events[i];
        DEMAND(event->service.size && !memchr(event->service.data, '\n', event->service.size));
        DEMAND(event->metric_double == event->metric_double && event->has_time);
    }
    size_t count = message.event_count;
    free(copy);
    weir_arena_release(&arena);
    return count;
}

struct sums {
    size_t events, overlong, bytes;
};

static struct sums feed(const uint8_t *data, size_t size, size_t step, size_t max)
{
    struct weir_lines lines = { false };
    struct sums sums = { 0 };
    for (size_t start = 0, end = 0; end < size;) {
        end = size - end < step ? size : end + step;
        struct weir_bundle bundle;
        do {
            bundle = weir_lines_cut(&lines, data + start, end - start, max);
            DEMAND(bundle.used <= end - start && bundle.offset + bundle.length == bundle.used);
            DEMAND(!bundle.length || data[start + bundle.used - 1] == '\n');
            sums.events += decode(data + start + bundle.offset, bundle.length);
            sums.bytes += bundle.length;
            sums.overlong += bundle.overlong;
            start += bundle.used;
        } while (bundle.length);
        DEMAND(end - start <= max + 1);
    }
    return sums;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > MOST)
        return 0;
    size_t step = data[0] + 1u, max = data[1] + 1u;
    decode(data + 2, size - 2);
    struct sums pieces = feed(data + 2, size - 2, step, max), whole = feed(data + 2, size - 2, size, max);
    DEMAND(pieces.events == whole.events && pieces.bytes == whole.bytes && pieces.overlong == whole.overlong);
    return 0;
}
