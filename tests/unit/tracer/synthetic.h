/* A small topology by hand: one listener, a handoff, and a reply; two pools. Shared by the tracer's unit tests. */
#ifndef WEIR_TESTS_SYNTHETIC_H
#define WEIR_TESTS_SYNTHETIC_H

#include "base/profile.h"

enum { LISTEN, FRAME, HANDOFF, WORK, REPLY, STAGES };

static inline void synthetic_topology(struct weir_topology *topology)
{
    static struct weir_topology_pool pools[] = { { "io", 1, true }, { "workers", 2, false } };
    static struct weir_topology_pipeline pipelines[] = { { "p", 0, STAGES, 0 } };
    static struct weir_topology_stage stages[] = {
        { .name = "listen", .full_name = "p.listen", .verb = WEIR_LISTEN, .queue = WEIR_NONE },
        { .name = "frame", .full_name = "p.frame", .verb = WEIR_FRAME, .queue = WEIR_NONE },
        { .name = "handoff", .full_name = "p.handoff", .verb = WEIR_HANDOFF, .queue = 0 },
        { .name = "work", .full_name = "p.work", .verb = WEIR_BUSY, .pool = 1, .finish_pool = 1, .queue = WEIR_NONE },
        { .name = "reply", .full_name = "p.reply", .verb = WEIR_REPLY, .finish_pool = 1, .queue = 1 },
    };
    static struct weir_topology_queue queues[] = {
        { .name = "p.handoff", .kind = WEIR_QUEUE_HANDOFF, .stage = HANDOFF, .from_pool = 0, .to_pool = 1, .limit_bytes = 1 << 20, .limit_items = 100 },
        { .name = "p.reply", .kind = WEIR_QUEUE_REPLY, .stage = REPLY, .from_pool = 1, .to_pool = 0, .limit_bytes = 1 << 20, .limit_items = 100 },
    };
    static struct weir_topology_way ways[] = { { "p", 0, LISTEN, true } };
    static struct weir_topology_instance instances[STAGES];
    for (uint32_t i = 0; i < STAGES; i++)
        instances[i] = (struct weir_topology_instance){ .name = stages[i].full_name, .stage = i };
    *topology = (struct weir_topology){ .name = "synthetic", .pools = pools, .pipelines = pipelines, .stages = stages, .queues = queues, .ways = ways,
                                        .instances = instances, .pool_count = 2, .pipeline_count = 1, .stage_count = STAGES, .queue_count = 2,
                                        .way_count = 1, .instance_count = STAGES };
}

#define INSTANCE(stage) (WEIR_INSTANCE_FIRST + (stage))
#define AT(stage, part) WEIR_TAG(INSTANCE(stage), part)

#endif
