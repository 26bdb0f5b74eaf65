/*
 * emit: what the parts of the emitter share: where the C file is written to, and how things are called in it.
 * Only emit*.c include it; compile.h is what the others see.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: one at a time.
 * Errors: running out of memory shows in the buffer.
 */
#ifndef WEIR_COMPILE_EMIT_H
#define WEIR_COMPILE_EMIT_H

#include "pipeline_dsl/compile/compile.h"

struct weir_emit {
    const struct weir_topology *topology;
    struct weir_buffer *out;
};

#define weir_emit_put(emit, ...) weir_buffer_printf((emit)->out, __VA_ARGS__)

static inline const struct weir_topology_stage *weir_emit_stage(const struct weir_emit *emit, uint32_t stage)
{
    return &emit->topology->stages[stage];
}

/* The C name of a stage: "riemann__decode". */
void weir_emit_name(struct weir_emit *emit, uint32_t stage);
/* Its id: "ID_riemann__decode". */
void weir_emit_id(struct weir_emit *emit, uint32_t stage);
/* The C name of a pool: "workers"; of a stage's own: "riemann__store". */
void weir_emit_pool(struct weir_emit *emit, uint32_t pool);
/* Does it end a segment, with the item on its way to another thread? */
static inline bool weir_emit_hands_over(const struct weir_topology_stage *stage)
{
    return stage->verb == WEIR_HANDOFF || weir_topology_has_slots(stage);
}
/* A string literal. */
void weir_emit_string(struct weir_emit *emit, const char *text);

/* The same in the pipelines that its items go on in, by `then`. */
uint32_t weir_emit_find_on_way(const struct weir_emit *emit, uint32_t pipeline, enum weir_verb_kind verb);

/* Do several ways in share this pipeline? */
bool weir_emit_shared(const struct weir_emit *emit, uint32_t pipeline);
/* By how much the ids of one way in lie behind the first ones of a pipeline. */
uint32_t weir_emit_lane(const struct weir_emit *emit, uint32_t pipeline, uint32_t way);
/* A stage's id for one way in: "ID_core__reply + 4". */
void weir_emit_id_of_way(struct weir_emit *emit, uint32_t stage, uint32_t way);
/* "QUEUE_core__handoff"; "QUEUE_core__reply__tcp" where the stage has several. */
void weir_emit_queue(struct weir_emit *emit, uint32_t queue);

/* Behind which stage the events enter that the server tells about itself, or WEIR_NONE. */
uint32_t weir_emit_self(const struct weir_emit *emit);
/* Do others enter the segment behind this stage? Then a driver of its own begins there. */
bool weir_emit_splits(const struct weir_emit *emit, uint32_t stage);
/* Are items born inside at this stage? */
bool weir_emit_bears(const struct weir_emit *emit, uint32_t stage);
/* The C name of the driver that begins with this stage: "riemann__segment__2", "riemann__behind__index". */
void weir_emit_driver(struct weir_emit *emit, uint32_t first);

/* The first stage of a pipeline that has this verb, or WEIR_NONE. */
uint32_t weir_emit_find(const struct weir_emit *emit, uint32_t pipeline, enum weir_verb_kind verb);

/* emit_tables.c: pools, queues and ways in; main(); the topology as a tracer reads it. */
void weir_emit_tables(struct weir_emit *emit);
void weir_emit_main(struct weir_emit *emit, size_t topology_bytes);
void weir_emit_topology(struct weir_emit *emit, const struct weir_buffer *bytes);

#endif
