#include "pipeline_dsl/wire/lines.h"

#include <stdint.h>
#include <string.h>

/* The next line of the span: its length with the end, 0 when its end is not there. */
static size_t whole(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    return end ? (size_t)(end - data) + 1 : 0;
}

static bool fits(const uint8_t *line, size_t length, size_t max)
{
    length--;
    if (length && line[length - 1] == '\r')
        length--;
    return length <= max;
}

/* Whether a line without an end is above the limit, wherever it ends. A \r may be the first half of it. */
static bool fits_no_more(const uint8_t *line, size_t length, size_t max)
{
    return length > max && (length > max + 1 || line[length - 1] != '\r');
}

/* What must be skipped before the bundle begins. */
static size_t skip(struct weir_lines *lines, struct weir_bundle *bundle, const uint8_t *data, size_t size, size_t max)
{
    size_t at = 0;
    while (at < size) {
        size_t length = whole(data + at, size - at);
        if (lines->skipping) {
            at = length ? at + length : size;
            lines->skipping = !length;
        } else if (length ? !fits(data + at, length, max) : fits_no_more(data + at, size - at, max)) {
            bundle->overlong++;
            lines->skipping = true;
        } else {
            break;
        }
    }
    return at;
}

struct weir_bundle weir_lines_cut(struct weir_lines *lines, const void *data, size_t size, size_t max)
{
    const uint8_t *bytes = data;
    struct weir_bundle bundle = { 0 };
    size_t at = skip(lines, &bundle, bytes, size, max), length;
    bundle.offset = at;
    while (at < size && (length = whole(bytes + at, size - at)) != 0 && fits(bytes + at, length, max)) {
        if (bundle.length && bundle.length + length > WEIR_LINES_BUNDLE_BYTES)
            break;
        bundle.length += length;
        at += length;
    }
    bundle.used = at;
    return bundle;
}
