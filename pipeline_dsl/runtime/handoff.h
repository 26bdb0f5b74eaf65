/*
 * handoff: pushes an item into a queue and deals with whatever comes of it.
 * It stands at the end of a segment; the stage `handoff` has sized the item.
 *
 * Units: none.
 * Owns: nothing; the item is no longer the caller's.
 * Threads: any pool thread.
 * Errors: a refused item is answered ok=false, in its turn.
 */
#ifndef WEIR_RUNTIME_HANDOFF_H
#define WEIR_RUNTIME_HANDOFF_H

#include "pipeline_dsl/runtime/queue.h"

/* `resumes`: the item was parked. Returns false when it is parked (still, or again). */
bool weir_handoff_push(struct weir_thread *thread, struct weir_queue *queue, struct weir_item *item, bool resumes);

#endif
