/*
 * graphite: Graphite's lines, "path value timestamp", decoded into the events of a message.
 * It stands after frame, or behind a listener of datagrams, and before index.
 *
 * The event of a line has the whole path as its service, a double as its metric, and its time; no host, state, ttl or tags.
 * Fields stand apart by blanks. A value is a decimal number, with an exponent if need be, or Infinity; a time is a whole number of
 * seconds since the epoch.
 *
 * Units: time in us since the epoch.
 * Owns: nothing; everything decoded lies in the arena given, bytes are copied there.
 * Threads: owner only.
 * Errors: a line that is none costs only itself: it is counted, and the first is told why. -ENOMEM when the arena's limit is reached.
 */
#ifndef WEIR_WIRE_GRAPHITE_H
#define WEIR_WIRE_GRAPHITE_H

#include "pipeline_dsl/wire/message.h"

/* Decodes all lines of `data`, whose last may lack its end. `*bad` is the number of lines that are none; `reason` tells of the first,
 * and is untouched when there is none. `*message` is untouched on failure. */
int weir_graphite_decode(struct weir_message *message, struct weir_arena *arena, const void *data, size_t size, size_t *bad,
                         struct weir_error *reason);

#endif
