/* What ties the stages and drivers together: the tables, main, and the topology's bytes. */
#include <inttypes.h>
#include <string.h>

#include "base/network.h"
#include "pipeline_dsl/compile/emit.h"

#define put weir_emit_put

static void put_queue(struct weir_emit *emit, uint32_t index)
{
    const struct weir_topology_queue *queue = &emit->topology->queues[index];
    static const char *const full[] = { "BLOCK", "REJECT", "DROP_NEWEST", "DROP_OLDEST" };
    put(emit, "    [");
    weir_emit_queue(emit, index);
    put(emit, "] = {\n        .name = \"%s\", .stage = ", queue->name);
    weir_emit_id_of_way(emit, queue->stage, queue->way);
    put(emit, ", .to_pool = POOL_");
    weir_emit_pool(emit, queue->to_pool);
    put(emit, ",\n        .limit_bytes = %" PRIu64 "u, .limit_items = %" PRIu64 "u,", queue->limit_bytes, queue->limit_items);
    if (queue->kind == WEIR_QUEUE_REPLY) {
        put(emit, " .kind = WEIR_QUEUE_REPLY,\n    },\n");
        return;
    }
    if (queue->kind == WEIR_QUEUE_SLOTS)
        put(emit, " .kind = WEIR_QUEUE_SLOTS,\n        .run = ");
    else
        put(emit, " .full = WEIR_FULL_%s,\n        .run = ", full[queue->full]);
    weir_emit_driver(emit, queue->stage + 1);
    put(emit, ", .run_stage = ");
    weir_emit_id(emit, queue->stage + 1);
    put(emit, ",\n    },\n");
}

/* Who may come. */
static void put_allow(struct weir_emit *emit, const char *text)
{
    uint32_t count = 0;
    for (size_t size; text && *text; text += size + (text[size] == ' ')) {
        struct weir_network network;
        size = strcspn(text, " ");
        weir_network_read(&network, text, size);
        put(emit, count++ ? "\n            { { " : ",\n        .allow = (const struct weir_network[]){\n            { { ");
        for (int i = 0; i < (network.four ? 4 : 16); i++)
            put(emit, "%u, ", network.address[i]);
        put(emit, "}, %u, %s },", network.bits, network.four ? "true" : "false");
    }
    if (count)
        put(emit, "\n        }, .allow_count = %u", count);
}

static void put_tls(struct weir_emit *emit, const struct weir_topology_stage *listen)
{
    if (!listen->tls_cert)
        return;
    put(emit, ",\n        .tls = &weir_tls, .tls_cert = ");
    weir_emit_string(emit, listen->tls_cert);
    put(emit, ", .tls_key = ");
    weir_emit_string(emit, listen->tls_key);
    if (listen->tls_client_ca) {
        put(emit, ", .tls_client_ca = ");
        weir_emit_string(emit, listen->tls_client_ca);
    }
}

/* Where the items of a way in go from its event loop, when nothing else is done with them there. */
static void put_first_handoff(struct weir_emit *emit, uint32_t first, uint32_t way)
{
    const struct weir_topology *t = emit->topology;
    for (uint32_t steps = 0; steps < t->pipeline_count && t->stages[first].verb == WEIR_THEN; steps++)
        first = t->pipelines[t->stages[first].target].first_stage;
    if (t->stages[first].verb != WEIR_HANDOFF) {
        put(emit, ", .handoff_queue = WEIR_NONE,\n    },\n");
        return;
    }
    put(emit, ", .handoff_queue = ");
    weir_emit_queue(emit, t->stages[first].queue);
    put(emit, ", .handoff_stage = ");
    weir_emit_id_of_way(emit, first, way);
    put(emit, ",\n    },\n");
}

/* A way's replies come from the ring of its own. */
static void put_reply(struct weir_emit *emit, const struct weir_topology_way *way, uint32_t index)
{
    const struct weir_topology *t = emit->topology;
    uint32_t reply = weir_emit_find_on_way(emit, way->pipeline, WEIR_REPLY), ring = t->stages[reply].queue;
    for (uint32_t i = 0; i < t->queue_count; i++)
        if (t->queues[i].stage == reply && t->queues[i].way == index)
            ring = i;
    put(emit, "        .reply_stage = ");
    weir_emit_id_of_way(emit, reply, index);
    put(emit, ", .reply_queue = ");
    weir_emit_queue(emit, ring);
    put(emit, ", .send = ");
    weir_emit_name(emit, reply);
    put(emit, "__send,\n");
}

static void put_way(struct weir_emit *emit, uint32_t index)
{
    const struct weir_topology_way *way = &emit->topology->ways[index];
    static const char *const transports[] = { "TCP", "UDP", "UNIX" };
    uint32_t listen = way->listen_stage, frame = weir_emit_find(emit, way->pipeline, WEIR_FRAME);
    uint32_t decode = weir_emit_find_on_way(emit, way->pipeline, WEIR_DECODE), first = frame == WEIR_NONE ? listen + 1 : frame + 1;
    uint64_t largest = frame == WEIR_NONE ? WEIR_DATAGRAM_MAX_BYTES : weir_emit_stage(emit, frame)->max_bytes;
    put(emit, "    {\n        .name = \"%s\", .transport = WEIR_%s, .address = ", way->name,
        transports[weir_emit_stage(emit, listen)->transport]);
    weir_emit_string(emit, weir_emit_stage(emit, listen)->address);
    put_allow(emit, weir_emit_stage(emit, listen)->allow);
    put_tls(emit, weir_emit_stage(emit, listen));
    put(emit, ", .pool = POOL_%s,\n        .listen_stage = ", emit->topology->pools[weir_emit_stage(emit, listen)->pool].name);
    weir_emit_id(emit, listen);
    put(emit, ", .listen = ");
    weir_emit_name(emit, listen);
    if (frame != WEIR_NONE) {
        put(emit, ",\n        .frame_stage = ");
        weir_emit_id(emit, frame);
        put(emit, ", .frame = ");
        weir_emit_name(emit, frame);
        if (weir_emit_stage(emit, frame)->framing == WEIR_LINES)
            put(emit, ", .framing = WEIR_LINES");
    }
    put(emit, ",\n        .frame_max_bytes = %" PRIu64 "u, .decode_max_bytes = %" PRIu64 "u,\n", largest,
        decode == WEIR_NONE ? largest : weir_emit_stage(emit, decode)->max_bytes);
    if (way->replies)
        put_reply(emit, way, index);
    else
        put(emit, "        .reply_queue = WEIR_NONE,\n");
    put(emit, "        .run = ");
    weir_emit_driver(emit, first);
    put_first_handoff(emit, first, index);
}

/* The way in of what is born inside: as large as any other's. */
static void put_inside(struct weir_emit *emit)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < emit->topology->stage_count; i++)
        if (weir_emit_stage(emit, i)->max_bytes > most)
            most = weir_emit_stage(emit, i)->max_bytes;
    put(emit, "    { .name = \"(inside)\", .decode_max_bytes = %" PRIu64 "u },\n", most);
}

/* At most so many items of one stage that bears them are under way at once. */
#define BORN_MOST "64"

/* One more than there are, so that the table is never empty. A copy enters another pipeline, and is bounded by the queues there;
 * what a stage bears by itself goes on behind it. */
static void put_sources(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "static struct weir_source sources[SOURCES + 1] = {\n");
    for (uint32_t i = 0; i < t->stage_count; i++) {
        if (!weir_emit_bears(emit, i))
            continue;
        enum weir_verb_kind verb = t->stages[i].verb;
        uint32_t enters = verb == WEIR_TEE ? t->pipelines[t->stages[i].target].first_stage : verb == WEIR_INDEX ? i : i + 1;
        put(emit, "    [SOURCE_");
        weir_emit_name(emit, i);
        put(emit, "] = { .name = \"%s\", .run = ", t->stages[i].full_name);
        if (verb == WEIR_INDEX) {
            put(emit, "expire__");
            weir_emit_name(emit, i);
        } else {
            weir_emit_driver(emit, enters);
        }
        put(emit, ", .run_stage = ");
        weir_emit_id(emit, enters);
        put(emit, ", .pool = POOL_");
        weir_emit_pool(emit, t->stages[i].pool);
        put(emit, ", .limit = %s },\n", verb == WEIR_TEE ? "UINT32_MAX" : BORN_MOST);
    }
    put(emit, "};\n\n");
}

/* One more than there are, so that the table is never empty. */
static void put_slots(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "/* Stages that stand on slots. */\nstatic const struct weir_plan_slots slots[SLOTS + 1] = {\n");
    for (uint32_t i = 0; i < t->stage_count; i++) {
        const struct weir_topology_stage *s = &t->stages[i];
        if (!weir_topology_has_slots(s))
            continue;
        put(emit, "    [SLOTS_");
        weir_emit_name(emit, i);
        put(emit, "] = {\n        .name = \"%s\", .stage = ", s->full_name);
        weir_emit_id(emit, i);
        put(emit, ", .topology_stage = %u, .queue = QUEUE_", i);
        weir_emit_name(emit, i);
        put(emit, ", .pool = POOL_");
        weir_emit_pool(emit, t->queues[s->queue].from_pool);
        put(emit, ",\n        .connections = %u, .in_flight = %u, .retries = %s, .kind = &%s,\n        .address = ", s->connections,
            s->in_flight, s->retry_on_loss ? "true" : "false", s->verb == WEIR_STORE ? "weir_store_postgres" : "weir_forward_riemann");
        weir_emit_string(emit, s->verb == WEIR_STORE ? s->text : s->address);
        if (s->verb == WEIR_STORE)
            put(emit, ", .table = \"%s\", .create = %s", s->symbol, s->create ? "true" : "false");
        put(emit, ",\n    },\n");
    }
    put(emit, "};\n\n");
}

/* One more than there are, so that the table is never empty. */
static void put_indexes(struct weir_emit *emit)
{
    uint32_t count = 0;
    put(emit, "/* What indexes count. */\nstatic const struct weir_plan_tally tallies[] = {\n");
    for (uint32_t i = 0; i < emit->topology->stage_count; i++)
        if (weir_emit_stage(emit, i)->verb == WEIR_INDEX) {
            put(emit, "    { .stage = ");
            weir_emit_id(emit, i);
            put(emit, ", .names = weir_index_tally_names, .count = WEIR_INDEX_TALLIES, .read = weir_index_tally, .object = &index__");
            weir_emit_name(emit, i);
            put(emit, " },\n");
            count++;
        }
    put(emit, "    { .count = 0 },\n};\nenum { INDEXES = %u };\n\n", count);
    put(emit, "/* What indexes leave to the server that this one becomes. */\nstatic const struct weir_plan_keeper keepers[] = {\n");
    for (uint32_t i = 0; i < emit->topology->stage_count; i++)
        if (weir_emit_stage(emit, i)->verb == WEIR_INDEX) {
            put(emit, "    { .name = \"%s\", .leave = weir_index_leave, .take = weir_index_take, .object = &index__",
                weir_emit_stage(emit, i)->full_name);
            weir_emit_name(emit, i);
            put(emit, " },\n");
        }
    put(emit, "    { .name = \"\" },\n};\n\n");
}

void weir_emit_tables(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "/* --- tables */\n\nstatic const struct weir_plan_pool pools[POOLS] = {\n");
    for (uint32_t i = 0; i < t->pool_count; i++) {
        put(emit, "    [POOL_");
        weir_emit_pool(emit, i);
        put(emit, "] = { .name = \"%s\", .threads = %u, .listens = %s },\n", t->pools[i].name, t->pools[i].threads,
            t->pools[i].listens ? "true" : "false");
    }
    put(emit, "};\n\nstatic const struct weir_plan_queue queues[QUEUES] = {\n");
    for (uint32_t i = 0; i < t->queue_count; i++)
        put_queue(emit, i);
    put(emit, "};\n\nstatic const struct weir_plan_way ways[WAYS + 1] = {\n");
    for (uint32_t i = 0; i < t->way_count; i++)
        put_way(emit, i);
    put_inside(emit);
    put(emit, "};\n\n");
    put_sources(emit);
    put_slots(emit);
    put_indexes(emit);
    put(emit, "static const char *const stages[] = {\n");
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
              "static _Alignas(64) struct weir_contract_way way_blocks[(WAYS + 1) * SHARDS];\n"
              "static _Alignas(64) struct weir_contract_slots slot_blocks[SLOTS + 1];\n"
              "static _Alignas(64) struct weir_contract_slot_times slot_times[SLOTS + 1];\n"
              "static const unsigned char topology[%zu]; /* at the end of this file */\n\n"
              "int main(int argc, char **argv)\n{\n"
              "    struct weir_plan plan = {\n        .name = ", topology_bytes);
    weir_emit_string(emit, t->name);
    put(emit, ",\n        .pools = pools, .pool_count = POOLS,\n        .queues = queues, .queue_count = QUEUES,\n"
              "        .ways = ways, .way_count = WAYS,\n        .sources = sources, .source_count = SOURCES,\n"
              "        .tallies = tallies, .tally_count = INDEXES, .keepers = keepers, .keeper_count = INDEXES,\n"
              "        .stages = stages, .stage_count = ID_END - WEIR_INSTANCE_FIRST,\n"
              "        .shards = SHARDS,\n        .topology = topology, .topology_bytes = sizeof topology,\n"
              "        .cells = cells, .queue_blocks = queue_blocks, .way_blocks = way_blocks,\n"
              "        .slots = slots, .slots_count = SLOTS, .slot_blocks = slot_blocks, .slot_times = slot_times,\n");
    uint32_t self = weir_emit_self(emit);
    if (self != WEIR_NONE) {
        put(emit, "        .self_source = &sources[SOURCE_");
        weir_emit_name(emit, self);
        put(emit, "],\n");
    }
    put(emit, "    };\n");
    for (uint32_t i = 0; i < t->stage_count; i++) {
        if (t->stages[i].verb == WEIR_INDEX) {
            put(emit, "    weir_index_init(&index__");
            weir_emit_name(emit, i);
            put(emit, ", %" PRIu64 "u, %" PRIu64 "u);\n    weir_index_expires(&index__", t->stages[i].ttl_ns, t->stages[i].limit);
            weir_emit_name(emit, i);
            put(emit, ", &sources[SOURCE_");
            weir_emit_name(emit, i);
            put(emit, "]);\n");
        }
        if (t->stages[i].verb == WEIR_FILTER) {
            put(emit, "    filter__");
            weir_emit_name(emit, i);
            put(emit, " = weir_filter_query(");
            weir_emit_string(emit, t->stages[i].text);
            put(emit, ");\n");
        }
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
