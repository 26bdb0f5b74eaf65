#include "base/topology.h"

static const char *const verbs[WEIR_VERB_COUNT] = {
    "listen", "frame", "decode", "encode", "handoff", "index", "filter", "batch",
    "forward", "store", "busy", "call", "tee", "then", "reply", "drop",
};

const char *weir_verb_name(enum weir_verb_kind verb)
{
    return (unsigned)verb < WEIR_VERB_COUNT ? verbs[verb] : "?";
}

const char *weir_sized_name(enum weir_sized sized)
{
    static const char *const names[] = { "bytes", "arena", "typed", "reflect" };
    return (unsigned)sized < sizeof names / sizeof *names ? names[sized] : "?";
}

const char *weir_full_name(enum weir_full full)
{
    static const char *const names[] = { "block", "reject", "drop newest", "drop oldest" };
    return (unsigned)full < sizeof names / sizeof *names ? names[full] : "?";
}

const char *weir_part_name(enum weir_part part)
{
    static const char *const names[] = { "", "size", "push", "pop" };
    return (unsigned)part < sizeof names / sizeof *names ? names[part] : "?";
}

uint32_t weir_topology_ring_way(const struct weir_topology *topology, uint32_t queue)
{
    const struct weir_topology_queue *ring = &topology->queues[queue];
    return ring->way != WEIR_NONE ? ring->way : topology->pipelines[topology->stages[ring->stage].pipeline].way;
}

bool weir_topology_is_sole(const struct weir_topology *topology, uint32_t queue)
{
    for (uint32_t i = 0; i < topology->queue_count; i++)
        if (i != queue && topology->queues[i].stage == topology->queues[queue].stage)
            return false;
    return true;
}
