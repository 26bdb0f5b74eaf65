/*
 * lines: cuts a byte stream into lines, several of them at once: a bundle is a run of whole lines, with their ends.
 * It stands after listen and before `decode graphite`; a bundle is one item, since a line is too small to be one.
 *
 * A line ends with \n or \r\n. One above the limit is skipped to its end, whatever its length: what is left of it is never kept.
 *
 * Units: bytes, without the line's end where a line's length is meant.
 * Owns: nothing; a bundle is a view of the caller's bytes.
 * Threads: owner only.
 * Errors: lines above the limit are counted.
 */
#ifndef WEIR_WIRE_LINES_H
#define WEIR_WIRE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/topology.h"

/* What a stream remembers between two spans. */
struct weir_lines {
    bool skipping; /* in the middle of a line above the limit */
};

struct weir_bundle {
    size_t offset, length; /* length 0: no whole line is there */
    size_t used;           /* bytes of the span that are done with: what was skipped, and the bundle */
    size_t overlong;       /* lines above the limit that began here */
};

/* The first bundle of a span that begins where a line begins, or where `lines` was left. It holds at most
 * WEIR_LINES_BUNDLE_BYTES, but for a single longer line. */
struct weir_bundle weir_lines_cut(struct weir_lines *lines, const void *data, size_t size, size_t max);

#endif
