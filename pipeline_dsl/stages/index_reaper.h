/*
 * index_reaper: takes what is overdue out of an index, and lets the stages behind the index know.
 * It stands beside the index's stage, on the same pool: an item born inside looks for overdue entries, and carries an event for each,
 * {host, service, time = now, state = "expired"}, to the stage behind.
 *
 * An index is gone through once a tick, which is 5 s, or a tenth of the index's own ttl if that is less, but at least 100 ms. In
 * between queries find overdue events still. The main thread looks where something may be overdue; from there on one item goes
 * through some 16,000 places, or as far as it finds something, then the next item goes on: others of the pool have their turn in
 * between, and where the stages behind are slow, expiry is.
 *
 * Units: us, ns.
 * Owns: the index's `reaper` while one item is on its way.
 * Threads: the tick is the main thread's; the rest any of the pool's.
 * Errors: none. Where no item can be born, overdue entries stay until the next tick.
 */
#ifndef WEIR_STAGES_INDEX_REAPER_H
#define WEIR_STAGES_INDEX_REAPER_H

#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/stages/index.h"

/* The source, whose items enter weir_stage_expire(), is ticked for this index. Before the server starts. */
void weir_index_expires(struct weir_index *index, struct weir_source *source);

/* How often an index with this ttl is gone through. */
uint64_t weir_index_tick_ns(float ttl);

/* One step, for an item of that source. WEIR_NEXT: it carries events now; WEIR_GONE: there was nothing to tell, and it has ended. */
enum weir_outcome weir_stage_expire(struct weir_thread *thread, struct weir_item *item);

#endif
