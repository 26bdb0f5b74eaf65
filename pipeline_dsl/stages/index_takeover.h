/*
 * index_takeover: what an index leaves to the index of the same name in the server that its server becomes.
 * It stands beside runtime/takeover, when no thread works any more, and before the first one works again.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: one at a time.
 * Errors: what another version left is not taken: then the index begins empty.
 */
#ifndef WEIR_STAGES_INDEX_TAKEOVER_H
#define WEIR_STAGES_INDEX_TAKEOVER_H

#include "pipeline_dsl/runtime/takeover.h"

/* `index` is a struct weir_index. A piece for each segment. */
void weir_index_leave(void *index, const char *name, struct weir_takeover_writer *writer);
void weir_index_take(void *index, const void *data, size_t size);

#endif
