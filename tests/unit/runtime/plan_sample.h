/* A small plan for tests: one way in, a pool `io` of 2 loops, a pool `workers`, a handoff and a reply ring. */
#ifndef WEIR_TESTS_PLAN_SAMPLE_H
#define WEIR_TESTS_PLAN_SAMPLE_H

#include <string.h>

#include "pipeline_dsl/runtime/plan.h"

enum { LISTEN = WEIR_INSTANCE_FIRST, FRAME, HANDOFF, DECODE, REPLY, STAGES_END };

static struct weir_contract_cell sample_cells[WEIR_THREAD_SLOTS * WEIR_TAG(STAGES_END, 0)];
static struct weir_contract_queue sample_queue_blocks[4];
static struct weir_contract_way sample_way_blocks[6];
static struct weir_plan_queue sample_queues[2];

static inline struct weir_plan sample_plan(enum weir_full full, uint64_t limit_items, uint64_t limit_bytes)
{
    static const struct weir_plan_pool pools[] = { { "io", 2, true }, { "workers", 3, false } };
    static const struct weir_plan_way ways[] = { { .name = "p", .address = "127.0.0.1:0", .listen_stage = LISTEN, .frame_stage = FRAME,
                                                   .reply_stage = REPLY, .reply_queue = 1, .frame_max_bytes = 1 << 20,
                                                   .decode_max_bytes = 64 << 20 },
                                                 { .name = "(inside)", .decode_max_bytes = 1 << 20 } };
    static const char *const stages[] = { "p.listen", "p.frame", "p.handoff", "p.decode", "p.reply" };
    sample_queues[0] = (struct weir_plan_queue){ .name = "p.handoff", .kind = WEIR_QUEUE_HANDOFF, .stage = HANDOFF, .to_pool = 1,
                                                 .limit_bytes = limit_bytes, .limit_items = limit_items, .full = full };
    sample_queues[1] = (struct weir_plan_queue){ .name = "p.reply", .kind = WEIR_QUEUE_REPLY, .stage = REPLY };
    memset(sample_cells, 0, sizeof sample_cells);
    memset(sample_queue_blocks, 0, sizeof sample_queue_blocks);
    memset(sample_way_blocks, 0, sizeof sample_way_blocks);
    return (struct weir_plan){
        .name = "sample", .pools = pools, .pool_count = 2, .queues = sample_queues, .queue_count = 2, .ways = ways, .way_count = 1,
        .stages = stages, .stage_count = STAGES_END - WEIR_INSTANCE_FIRST, .shards = 2,
        .cells = sample_cells, .queue_blocks = sample_queue_blocks, .way_blocks = sample_way_blocks,
    };
}

#endif
