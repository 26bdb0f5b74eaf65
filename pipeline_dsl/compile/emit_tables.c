/* What ties the stages and drivers together: the tables, main, and the topology's bytes. */
#include <inttypes.h>

#include "pipeline_dsl/compile/emit.h"

#define put weir_emit_put

static unsigned segment_behind(const struct weir_emit *emit, uint32_t handoff)
{
    unsigned number = 2;
    for (uint32_t s = emit->topology->pipelines[weir_emit_stage(emit, handoff)->pipeline].first_stage; s < handoff; s++)
        number += weir_emit_stage(emit, s)->verb == WEIR_HANDOFF;
    return number;
}

static void put_queue(struct weir_emit *emit, const struct weir_topology_queue *queue)
{
    static const char *const full[] = { "BLOCK", "REJECT", "DROP_NEWEST", "DROP_OLDEST" };
    put(emit, "    [QUEUE_");
    weir_emit_name(emit, queue->stage);
    put(emit, "] = {\n        .name = \"%s\", .stage = ", queue->name);
    weir_emit_id(emit, queue->stage);
    put(emit, ", .to_pool = POOL_%s,\n        .limit_bytes = %" PRIu64 "u, .limit_items = %" PRIu64 "u,",
        emit->topology->pools[queue->to_pool].name, queue->limit_bytes, queue->limit_items);
    if (queue->kind == WEIR_QUEUE_REPLY) {
        put(emit, " .kind = WEIR_QUEUE_REPLY,\n    },\n");
        return;
    }
    put(emit, " .full = WEIR_FULL_%s,\n        .run = %s__segment__%u, .run_stage = ", full[queue->full],
        emit->topology->pipelines[weir_emit_stage(emit, queue->stage)->pipeline].name, segment_behind(emit, queue->stage));
    weir_emit_id(emit, queue->stage + 1);
    put(emit, ",\n    },\n");
}

static void put_way(struct weir_emit *emit, const struct weir_topology_way *way)
{
    uint32_t listen = way->listen_stage, frame = weir_emit_find(emit, way->pipeline, WEIR_FRAME);
    uint32_t reply = weir_emit_find(emit, way->pipeline, WEIR_REPLY), decode = weir_emit_find(emit, way->pipeline, WEIR_DECODE);
    put(emit, "    {\n        .name = \"%s\", .address = ", way->name);
    weir_emit_string(emit, weir_emit_stage(emit, listen)->address);
    put(emit, ", .pool = POOL_%s,\n        .listen_stage = ", emit->topology->pools[weir_emit_stage(emit, listen)->pool].name);
    weir_emit_id(emit, listen);
    put(emit, ", .frame_stage = ");
    weir_emit_id(emit, frame);
    put(emit, ", .reply_stage = ");
    weir_emit_id(emit, reply);
    put(emit, ",\n        .reply_queue = QUEUE_");
    weir_emit_name(emit, reply);
    put(emit, ", .frame_max_bytes = %" PRIu64 "u, .decode_max_bytes = %" PRIu64 "u,\n        .listen = ", weir_emit_stage(emit, frame)->max_bytes,
        decode == WEIR_NONE ? weir_emit_stage(emit, frame)->max_bytes : weir_emit_stage(emit, decode)->max_bytes);
    weir_emit_name(emit, listen);
    put(emit, ", .frame = ");
    weir_emit_name(emit, frame);
    put(emit, ", .send = ");
    weir_emit_name(emit, reply);
    put(emit, "__send,\n        .run = %s__segment__1, .handoff_queue = ", way->name);
    if (weir_emit_stage(emit, frame + 1)->verb == WEIR_HANDOFF) {
        put(emit, "QUEUE_");
        weir_emit_name(emit, frame + 1);
    } else {
        put(emit, "WEIR_NONE");
    }
    put(emit, ",\n    },\n");
}

void weir_emit_tables(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "/* --- tables */\n\nstatic const struct weir_plan_pool pools[POOLS] = {\n");
    for (uint32_t i = 0; i < t->pool_count; i++)
        put(emit, "    [POOL_%s] = { .name = \"%s\", .threads = %u, .listens = %s },\n", t->pools[i].name, t->pools[i].name,
            t->pools[i].threads, t->pools[i].listens ? "true" : "false");
    put(emit, "};\n\nstatic const struct weir_plan_queue queues[QUEUES] = {\n");
    for (uint32_t i = 0; i < t->queue_count; i++)
        put_queue(emit, &t->queues[i]);
    put(emit, "};\n\nstatic const struct weir_plan_way ways[WAYS] = {\n");
    for (uint32_t i = 0; i < t->way_count; i++)
        put_way(emit, &t->ways[i]);
    put(emit, "};\n\nstatic const char *const stages[] = {\n");
    for (uint32_t i = 0; i < t->instance_count; i++)
        put(emit, "    \"%s\",\n", t->instances[i].name);
    put(emit, "};\n\n");
}

void weir_emit_main(struct weir_emit *emit, size_t topology_bytes)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "/* What a tracer reads: probes/contract.h. */\n"
              "static _Alignas(64) struct weir_contract_cell cells[WEIR_THREAD_SLOTS * WEIR_TAG(ID_END, 0)];\n"
              "static _Alignas(64) struct weir_contract_queue queue_blocks[QUEUES * SHARDS];\n"
              "static _Alignas(64) struct weir_contract_way way_blocks[WAYS * SHARDS];\n"
              "static const unsigned char topology[%zu]; /* at the end of this file */\n\n"
              "int main(int argc, char **argv)\n{\n"
              "    struct weir_plan plan = {\n        .name = ", topology_bytes);
    weir_emit_string(emit, t->name);
    put(emit, ",\n        .pools = pools, .pool_count = POOLS,\n        .queues = queues, .queue_count = QUEUES,\n"
              "        .ways = ways, .way_count = WAYS,\n        .stages = stages, .stage_count = ID_END - WEIR_INSTANCE_FIRST,\n"
              "        .shards = SHARDS,\n        .topology = topology, .topology_bytes = sizeof topology,\n"
              "        .cells = cells, .queue_blocks = queue_blocks, .way_blocks = way_blocks,\n    };\n");
    for (uint32_t i = 0; i < t->stage_count; i++)
        if (t->stages[i].verb == WEIR_INDEX) {
            put(emit, "    weir_index_init(&index__");
            weir_emit_name(emit, i);
            put(emit, ", %" PRIu64 "u, %" PRIu64 "u);\n", t->stages[i].ttl_ns, t->stages[i].limit);
        }
    put(emit, "    return weir_server_main(&plan, argc, argv);\n}\n\n");
}

void weir_emit_topology(struct weir_emit *emit, const struct weir_buffer *bytes)
{
    put(emit, "/* --- the pipeline file, checked and encoded as in a profile: a tracer needs no other */\n\n"
              "static const unsigned char topology[%zu] = {", bytes->length);
    for (size_t i = 0; i < bytes->length; i++)
        put(emit, "%s%u,", i % 32 ? "" : "\n    ", (unsigned char)bytes->data[i]);
    put(emit, "\n};\n");
}
