/*
 * stages: the built-in stages, as the generated C calls them. One file each, named like its verb.
 * They stand between the runtime, which brings the item, and the next stage of the segment.
 *
 * A stage gets an item that it owns. WEIR_NEXT: the next stage goes on with it; WEIR_GONE: it has been handed over or finished.
 *
 * Units: bytes; ns.
 * Owns: nothing; an index owns the events in it.
 * Threads: any pool thread, several at once, each with an item of its own.
 * Errors: an item that a stage can't work on is answered ok=false with the reason, in its turn.
 */
#ifndef WEIR_STAGES_STAGES_H
#define WEIR_STAGES_STAGES_H

#include "pipeline_dsl/query/query.h"
#include "pipeline_dsl/runtime/call.h"
#include "pipeline_dsl/runtime/datagram.h"
#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/runtime/item.h"
#include "pipeline_dsl/runtime/queue.h"
#include "pipeline_dsl/runtime/server.h"
#include "pipeline_dsl/runtime/timer.h"
#include "pipeline_dsl/runtime/tls.h"
#include "pipeline_dsl/stages/index.h"
#include "pipeline_dsl/stages/index_reaper.h"
#include "pipeline_dsl/stages/index_takeover.h"

/* A payload becomes a message. */
enum weir_outcome weir_stage_decode(struct weir_thread *thread, struct weir_item *item, uint32_t stage);
/* The same for lines: one that is none costs only itself, and is counted. */
enum weir_outcome weir_stage_decode_graphite(struct weir_thread *thread, struct weir_item *item, uint32_t stage);

/* The answer becomes the bytes of a reply, where one is owed. */
enum weir_outcome weir_stage_encode(struct weir_thread *thread, struct weir_item *item);

/* Sizes the item and hands it to the pool behind a queue. */
enum weir_outcome weir_stage_handoff(struct weir_thread *thread, struct weir_item *item, uint32_t queue, enum weir_sized sized);

/* Takes a message's events into the index; answers its query. */
enum weir_outcome weir_stage_index(struct weir_thread *thread, struct weir_item *item, struct weir_index *index, const char *name);

/* Keeps the events that match, and the message in any case. A message on which a regular expression takes too many steps is
 * answered with that error, whole. The query is parsed when the server starts: `weir build` has checked the text. */
struct weir_query *weir_filter_query(const char *text);
enum weir_outcome weir_stage_filter(struct weir_thread *thread, struct weir_item *item, const struct weir_query *query, const char *name);

/* Burns thread CPU time, then sleeps. What it burned is added to its cell, as the truth that tests measure against. */
enum weir_outcome weir_stage_busy(struct weir_thread *thread, struct weir_item *item, uint32_t stage, uint64_t cpu_ns,
                                  uint64_t pause_ns);

/* Runs the user's function. */
enum weir_outcome weir_stage_call(struct weir_thread *thread, struct weir_item *item, const char *name,
                                  int (*function)(struct weir_item *, struct weir_call *));

/* Hands the message's events to a pool of slots, as the end of a segment; `index` of the slots in the plan. */
enum weir_outcome weir_stage_forward(struct weir_thread *thread, struct weir_item *item, uint32_t index);
/* Writes them as rows, likewise; of a decoded message. */
enum weir_outcome weir_stage_store(struct weir_thread *thread, struct weir_item *item, uint32_t index);
/* What serves the connections behind them. */
extern const struct weir_slots_kind weir_forward_riemann, weir_store_postgres;
/* The rows as a JSON array; `now_us` is the time of an event that has none. */
void weir_store_request(const struct weir_message *message, int64_t now_us, struct weir_buffer *out);

/* Bundles the events of items that are owed no reply: the first item of a batch goes on with all of them, to `run`, when it has
 * `events` or more (no message is split), when it has been held for `within_ns`, when it holds as much as one message may, and
 * when the server drains. The other items end here. Each thread has a batch of its own for each way in. */
struct weir_batch {
    uint32_t events;
    uint64_t within_ns;
    weir_driver *run;
};
enum weir_outcome weir_stage_batch(struct weir_thread *thread, struct weir_item *item, const struct weir_batch *batch);

/* Goes on in another pipeline, in which the item's ids are those of its own way in: `lane`. */
enum weir_outcome weir_stage_then(struct weir_thread *thread, struct weir_item *item, uint32_t lane);

/* A copy of the item goes on in another pipeline, in that lane, and owes no reply. It runs at once, on this thread, up to the first
 * handoff there; where that is full it is refused, also with `full block`, and counted. The item itself goes on as if nothing
 * had been. */
enum weir_outcome weir_stage_tee(struct weir_thread *thread, struct weir_item *item, struct weir_source *source, uint32_t lane);

/* Finishes the item: it goes back to its connection, and where a reply is owed it is sent there. */
enum weir_outcome weir_stage_reply(struct weir_thread *thread, struct weir_item *item);

/* Finishes an item that is owed no reply. */
enum weir_outcome weir_stage_drop(struct weir_thread *thread, struct weir_item *item);

#endif
