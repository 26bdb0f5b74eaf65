/*
 * flow: one walk through a pipeline, from top to bottom: how far the item has come, who brings it, whose threads run it.
 * Only check_flow.c, which walks, and check_queues.c, which it asks about queues, include it.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: owner only.
 * Errors: in the bag.
 */
#ifndef WEIR_LANG_FLOW_H
#define WEIR_LANG_FLOW_H

#include "pipeline_dsl/lang/checker.h"

#define UNKNOWN WEIR_FORM_UNKNOWN
#define STREAM WEIR_FORM_STREAM
#define FRAME WEIR_FORM_FRAME
#define MESSAGE WEIR_FORM_MESSAGE
#define ENCODED WEIR_FORM_ENCODED

struct weir_flow {
    struct weir_checker *checker;
    uint32_t pipeline;
    const char *name;  /* the pipeline's */
    bool forms_matter; /* not in a pipeline with syntax errors, or with lines for a server that runs already */
    enum weir_form form;
    uint32_t pool;                               /* whose threads run the stage; WEIR_NONE where unknown */
    bool at_top;                                 /* of a tail: each way in is still on the pool that brought it */
    const struct weir_way_in *ways;              /* that come through here */
    uint32_t listen, frame, decode, encode, end; /* stages so far, or WEIR_NONE */
    uint32_t first;                              /* stage */
    uint64_t frame_max, decode_max;              /* 0: unknown */
};

static inline const struct weir_tree_stage *weir_flow_node(const struct weir_flow *flow, uint32_t stage)
{
    return flow->checker->stage_nodes[stage];
}

static inline struct weir_topology_stage *weir_flow_stage(const struct weir_flow *flow, uint32_t stage)
{
    return &flow->checker->topology->stages[stage];
}

/* check_flow.c */
/* The pool of that name, or WEIR_NONE, which it has complained about. */
uint32_t weir_flow_find_pool(struct weir_flow *flow, struct weir_span span);
/* Brings the item into a form that has at least `least`, or says what is missing. */
void weir_flow_need(struct weir_flow *flow, uint32_t stage, enum weir_form least);
/* The next way in after `way`, or from the first one, whose items are owed a reply here. */
const struct weir_way_in *weir_flow_owing(const struct weir_flow *flow, const struct weir_way_in *way);
/* W102: `what` blocks, and there may be sockets to read. */
void weir_flow_blocks(struct weir_flow *flow, uint32_t stage, const char *what);

/* check_queues.c */
/* The pools that run the stages here, one after the other: that of `flow`, and at the top of a tail one for each way in. Begins
 * with a null `way`. */
bool weir_flow_next_pool(const struct weir_flow *flow, const struct weir_way_in **way, uint32_t *pool);
void weir_flow_handoff(struct weir_flow *flow, uint32_t stage);
void weir_flow_slots(struct weir_flow *flow, uint32_t stage);
/* One ring for each listener that is owed replies. */
void weir_flow_rings(struct weir_flow *flow, uint32_t stage);

#endif
