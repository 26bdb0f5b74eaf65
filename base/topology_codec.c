/*
 * DESIGN: the topology comes out of a file or out of another process's memory, so reading trusts nothing. Everything is first
 * copied as it stands, then every enum and every index is checked in one place per kind of thing; whoever holds a topology may
 * index with it freely.
 */
#include <math.h>
#include <profile.pb-c.h>

#include "base/codec.h"
#include "base/profile.h"

#define VERSION 1u
#define THINGS_MOST 65000u /* of one kind; instance ids have 16 bits in the contract's records */

/* --- writing ---------------------------------------------------------------------------------------------------------------- */

static void stage_out(const struct weir_topology_stage *stage, Weir__Stage *to)
{
    to->name = weir_codec_text(stage->name);
    to->full_name = weir_codec_text(stage->full_name);
    to->verb = stage->verb;
    to->pipeline = stage->pipeline;
    to->pool_1 = weir_codec_index(stage->pool);
    to->finish_pool_1 = weir_codec_index(stage->finish_pool);
    to->queue_1 = weir_codec_index(stage->queue);
    to->transport = stage->transport;
    to->address = weir_codec_text(stage->address);
    to->framing = stage->framing;
    to->codec = stage->codec;
    to->max_bytes = stage->max_bytes;
    to->cpu_ns = stage->cpu_ns;
    to->pause_ns = stage->pause_ns;
    to->ttl_ns = stage->ttl_ns;
    to->limit = stage->limit;
    to->within_ns = stage->within_ns;
    /* A connection string may hold a password, and whoever may read the server's memory or a profile would see it. */
    to->text = stage->verb == WEIR_STORE ? weir_codec_text(NULL) : weir_codec_text(stage->text);
    to->symbol = weir_codec_text(stage->symbol);
    to->connections = stage->connections;
    to->in_flight = stage->in_flight;
    to->target_1 = weir_codec_index(stage->target);
    to->create = stage->create;
    to->retry_on_loss = stage->retry_on_loss;
    to->allow = weir_codec_text(stage->allow);
    to->tls_cert = weir_codec_text(stage->tls_cert);
    to->tls_key = weir_codec_text(stage->tls_key);
    to->tls_client_ca = weir_codec_text(stage->tls_client_ca);
}

static void queue_out(const struct weir_topology_queue *queue, Weir__Queue *to)
{
    to->name = weir_codec_text(queue->name);
    to->kind = queue->kind;
    to->stage = queue->stage;
    to->from_pool_1 = weir_codec_index(queue->from_pool);
    to->to_pool_1 = weir_codec_index(queue->to_pool);
    to->limit_bytes = queue->limit_bytes;
    to->limit_items = queue->limit_items;
    to->items_given = queue->items_given;
    to->sized = queue->sized;
    to->full = queue->full;
    to->way_1 = weir_codec_index(queue->way);
}

static void term_out(const struct weir_topology_term *term, Weir__Term *to)
{
    to->metric = term->metric;
    to->pool_1 = weir_codec_index(term->pool);
    to->pipeline_1 = weir_codec_index(term->pipeline);
    to->stage_1 = weir_codec_index(term->stage);
    to->part = term->part;
    to->statistic = term->statistic;
    to->comparison = term->comparison;
    to->value = term->value;
    to->unit = term->unit;
    to->group = term->group;
}

static bool expectations_out(const struct weir_topology *topology, Weir__Topology *to, struct weir_arena *arena)
{
    if (!WEIR_CODEC_LIST(arena, to->expectations, to->n_expectations, topology->expectation_count, Weir__Expectation,
                         WEIR__EXPECTATION__INIT))
        return false;
    for (uint32_t i = 0; i < topology->expectation_count; i++) {
        const struct weir_topology_expectation *from = &topology->expectations[i];
        Weir__Expectation *expectation = to->expectations[i];
        expectation->text = weir_codec_text(from->text);
        if (!WEIR_CODEC_LIST(arena, expectation->terms, expectation->n_terms, from->term_count, Weir__Term, WEIR__TERM__INIT))
            return false;
        for (uint32_t k = 0; k < from->term_count; k++)
            term_out(&from->terms[k], expectation->terms[k]);
    }
    return true;
}

static bool message_fill(const struct weir_topology *from, Weir__Topology *to, struct weir_arena *arena)
{
    to->version = VERSION;
    to->name = weir_codec_text(from->name);
    if (!WEIR_CODEC_LIST(arena, to->pools, to->n_pools, from->pool_count, Weir__Pool, WEIR__POOL__INIT) ||
        !WEIR_CODEC_LIST(arena, to->pipelines, to->n_pipelines, from->pipeline_count, Weir__Pipeline, WEIR__PIPELINE__INIT) ||
        !WEIR_CODEC_LIST(arena, to->stages, to->n_stages, from->stage_count, Weir__Stage, WEIR__STAGE__INIT) ||
        !WEIR_CODEC_LIST(arena, to->queues, to->n_queues, from->queue_count, Weir__Queue, WEIR__QUEUE__INIT) ||
        !WEIR_CODEC_LIST(arena, to->ways, to->n_ways, from->way_count, Weir__Way, WEIR__WAY__INIT) ||
        !WEIR_CODEC_LIST(arena, to->instances, to->n_instances, from->instance_count, Weir__Instance, WEIR__INSTANCE__INIT))
        return false;
    for (uint32_t i = 0; i < from->pool_count; i++) {
        to->pools[i]->name = weir_codec_text(from->pools[i].name);
        to->pools[i]->threads = from->pools[i].threads;
        to->pools[i]->listens = from->pools[i].listens;
    }
    for (uint32_t i = 0; i < from->pipeline_count; i++) {
        to->pipelines[i]->name = weir_codec_text(from->pipelines[i].name);
        to->pipelines[i]->first_stage = from->pipelines[i].first_stage;
        to->pipelines[i]->stage_count = from->pipelines[i].stage_count;
        to->pipelines[i]->way_1 = weir_codec_index(from->pipelines[i].way);
    }
    for (uint32_t i = 0; i < from->stage_count; i++)
        stage_out(&from->stages[i], to->stages[i]);
    for (uint32_t i = 0; i < from->queue_count; i++)
        queue_out(&from->queues[i], to->queues[i]);
    for (uint32_t i = 0; i < from->way_count; i++) {
        to->ways[i]->name = weir_codec_text(from->ways[i].name);
        to->ways[i]->pipeline = from->ways[i].pipeline;
        to->ways[i]->listen_stage = from->ways[i].listen_stage;
        to->ways[i]->replies = from->ways[i].replies;
    }
    for (uint32_t i = 0; i < from->instance_count; i++) {
        to->instances[i]->name = weir_codec_text(from->instances[i].name);
        to->instances[i]->stage = from->instances[i].stage;
        to->instances[i]->way_1 = weir_codec_index(from->instances[i].way);
        to->instances[i]->pool_1 = weir_codec_index(from->instances[i].pool);
    }
    return expectations_out(from, to, arena);
}

int weir_topology_write(const struct weir_topology *topology, struct weir_buffer *out, struct weir_error *error)
{
    struct weir_arena arena;
    weir_arena_init(&arena, 16384, SIZE_MAX);
    Weir__Topology message = WEIR__TOPOLOGY__INIT;
    bool good = message_fill(topology, &message, &arena);
    if (good)
        weir_codec_pack(&message.base, out);
    weir_arena_release(&arena);
    if (!good || out->failed)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to write the topology of '%s'",
                              topology->name ? topology->name : "");
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------------------------------------- */

static bool stage_in(struct weir_arena *arena, const Weir__Stage *from, struct weir_topology_stage *stage)
{
    *stage = (struct weir_topology_stage){
        .verb = (enum weir_verb_kind)from->verb, .pipeline = from->pipeline, .pool = weir_codec_index_back(from->pool_1),
        .finish_pool = weir_codec_index_back(from->finish_pool_1), .queue = weir_codec_index_back(from->queue_1),
        .transport = (enum weir_transport)from->transport, .framing = (enum weir_framing)from->framing,
        .codec = (enum weir_codec_kind)from->codec, .max_bytes = from->max_bytes, .cpu_ns = from->cpu_ns,
        .pause_ns = from->pause_ns, .ttl_ns = from->ttl_ns, .limit = from->limit, .within_ns = from->within_ns,
        .connections = from->connections, .in_flight = from->in_flight, .target = weir_codec_index_back(from->target_1),
        .create = from->create, .retry_on_loss = from->retry_on_loss,
    };
    return weir_codec_text_back(arena, &from->name, "", &stage->name) &&
           weir_codec_text_back(arena, &from->full_name, "", &stage->full_name) &&
           weir_codec_text_back(arena, &from->address, NULL, &stage->address) &&
           weir_codec_text_back(arena, &from->allow, NULL, &stage->allow) &&
           weir_codec_text_back(arena, &from->tls_cert, NULL, &stage->tls_cert) &&
           weir_codec_text_back(arena, &from->tls_key, NULL, &stage->tls_key) &&
           weir_codec_text_back(arena, &from->tls_client_ca, NULL, &stage->tls_client_ca) &&
           weir_codec_text_back(arena, &from->text, NULL, &stage->text) &&
           weir_codec_text_back(arena, &from->symbol, NULL, &stage->symbol);
}

static bool queue_in(struct weir_arena *arena, const Weir__Queue *from, struct weir_topology_queue *queue)
{
    *queue = (struct weir_topology_queue){
        .kind = (enum weir_queue_kind)from->kind, .stage = from->stage, .from_pool = weir_codec_index_back(from->from_pool_1),
        .to_pool = weir_codec_index_back(from->to_pool_1), .limit_bytes = from->limit_bytes, .limit_items = from->limit_items,
        .items_given = from->items_given, .sized = (enum weir_sized)from->sized, .full = (enum weir_full)from->full,
        .way = weir_codec_index_back(from->way_1),
    };
    return weir_codec_text_back(arena, &from->name, "", &queue->name);
}

static bool expectation_in(struct weir_arena *arena, const Weir__Expectation *from, struct weir_topology_expectation *expectation)
{
    if (!weir_codec_text_back(arena, &from->text, "", &expectation->text) ||
        !WEIR_CODEC_ARRAY(arena, expectation->terms, from->n_terms))
        return false;
    expectation->term_count = (uint32_t)from->n_terms;
    for (size_t i = 0; i < from->n_terms; i++) {
        const Weir__Term *term = from->terms[i];
        expectation->terms[i] = (struct weir_topology_term){
            .metric = (enum weir_metric)term->metric, .pool = weir_codec_index_back(term->pool_1),
            .pipeline = weir_codec_index_back(term->pipeline_1), .stage = weir_codec_index_back(term->stage_1),
            .part = (enum weir_part)term->part, .statistic = (enum weir_statistic)term->statistic,
            .comparison = (enum weir_comparison)term->comparison, .value = term->value,
            .unit = (enum weir_value_unit)term->unit, .group = term->group,
        };
    }
    return true;
}

static bool topology_in(struct weir_arena *arena, const Weir__Topology *from, struct weir_topology *to)
{
    bool good = weir_codec_text_back(arena, &from->name, "", &to->name) && WEIR_CODEC_ARRAY(arena, to->pools, from->n_pools) &&
                WEIR_CODEC_ARRAY(arena, to->pipelines, from->n_pipelines) && WEIR_CODEC_ARRAY(arena, to->stages, from->n_stages) &&
                WEIR_CODEC_ARRAY(arena, to->queues, from->n_queues) && WEIR_CODEC_ARRAY(arena, to->ways, from->n_ways) &&
                WEIR_CODEC_ARRAY(arena, to->instances, from->n_instances) &&
                WEIR_CODEC_ARRAY(arena, to->expectations, from->n_expectations);
    to->pool_count = (uint32_t)from->n_pools;
    to->pipeline_count = (uint32_t)from->n_pipelines;
    to->stage_count = (uint32_t)from->n_stages;
    to->queue_count = (uint32_t)from->n_queues;
    to->way_count = (uint32_t)from->n_ways;
    to->instance_count = (uint32_t)from->n_instances;
    to->expectation_count = (uint32_t)from->n_expectations;
    for (size_t i = 0; good && i < from->n_pools; i++) {
        to->pools[i] = (struct weir_topology_pool){ .threads = from->pools[i]->threads, .listens = from->pools[i]->listens };
        good = weir_codec_text_back(arena, &from->pools[i]->name, "", &to->pools[i].name);
    }
    for (size_t i = 0; good && i < from->n_pipelines; i++) {
        const Weir__Pipeline *pipeline = from->pipelines[i];
        to->pipelines[i] = (struct weir_topology_pipeline){ .first_stage = pipeline->first_stage,
            .stage_count = pipeline->stage_count, .way = weir_codec_index_back(pipeline->way_1) };
        good = weir_codec_text_back(arena, &pipeline->name, "", &to->pipelines[i].name);
    }
    for (size_t i = 0; good && i < from->n_stages; i++)
        good = stage_in(arena, from->stages[i], &to->stages[i]);
    for (size_t i = 0; good && i < from->n_queues; i++)
        good = queue_in(arena, from->queues[i], &to->queues[i]);
    for (size_t i = 0; good && i < from->n_ways; i++) {
        to->ways[i] = (struct weir_topology_way){ .pipeline = from->ways[i]->pipeline,
            .listen_stage = from->ways[i]->listen_stage, .replies = from->ways[i]->replies };
        good = weir_codec_text_back(arena, &from->ways[i]->name, "", &to->ways[i].name);
    }
    for (size_t i = 0; good && i < from->n_instances; i++) {
        to->instances[i] = (struct weir_topology_instance){ .stage = from->instances[i]->stage,
            .way = weir_codec_index_back(from->instances[i]->way_1), .pool = weir_codec_index_back(from->instances[i]->pool_1) };
        good = weir_codec_text_back(arena, &from->instances[i]->name, "", &to->instances[i].name);
    }
    for (size_t i = 0; good && i < from->n_expectations; i++)
        good = expectation_in(arena, from->expectations[i], &to->expectations[i]);
    return good;
}

/* --- checking --------------------------------------------------------------------------------------------------------------- */

static bool fits(uint32_t index, uint32_t count)
{
    return index < count;
}

static bool fits_or_none(uint32_t index, uint32_t count)
{
    return index == WEIR_NONE || index < count;
}

static bool pipeline_good(const struct weir_topology *topology, uint32_t index)
{
    const struct weir_topology_pipeline *pipeline = &topology->pipelines[index];
    if (pipeline->stage_count > topology->stage_count || pipeline->first_stage > topology->stage_count - pipeline->stage_count ||
        !fits_or_none(pipeline->way, topology->way_count))
        return false;
    for (uint32_t i = 0; i < pipeline->stage_count; i++)
        if (topology->stages[pipeline->first_stage + i].pipeline != index)
            return false;
    return true;
}

static bool stage_good(const struct weir_topology *topology, uint32_t index)
{
    const struct weir_topology_stage *stage = &topology->stages[index];
    if (!fits(stage->verb, WEIR_VERB_COUNT) || !fits(stage->transport, WEIR_UNIX + 1) || !fits(stage->framing, WEIR_LINES + 1) ||
        !fits(stage->codec, WEIR_GRAPHITE + 1) || !fits(stage->pipeline, topology->pipeline_count) ||
        !fits_or_none(stage->pool, topology->pool_count) || !fits_or_none(stage->finish_pool, topology->pool_count) ||
        !fits_or_none(stage->queue, topology->queue_count) || !fits_or_none(stage->target, topology->pipeline_count))
        return false;
    if ((stage->verb == WEIR_TEE || stage->verb == WEIR_THEN) && stage->target == WEIR_NONE)
        return false;
    const struct weir_topology_pipeline *pipeline = &topology->pipelines[stage->pipeline];
    return index >= pipeline->first_stage && index - pipeline->first_stage < pipeline->stage_count &&
           (stage->queue == WEIR_NONE || topology->queues[stage->queue].stage == index);
}

static bool queue_good(const struct weir_topology *topology, const struct weir_topology_queue *queue)
{
    return fits(queue->kind, WEIR_QUEUE_SLOTS + 1) && fits(queue->stage, topology->stage_count) &&
           fits_or_none(queue->from_pool, topology->pool_count) && fits_or_none(queue->to_pool, topology->pool_count) &&
           fits_or_none(queue->way, topology->way_count) &&
           fits(queue->sized, WEIR_SIZED_REFLECT + 1) && fits(queue->full, WEIR_FULL_DROP_OLDEST + 1);
}

static bool expectation_good(const struct weir_topology *topology, const struct weir_topology_expectation *expectation)
{
    uint32_t group = 0;
    for (uint32_t i = 0; i < expectation->term_count; i++) {
        const struct weir_topology_term *term = &expectation->terms[i];
        unsigned set = (term->pool != WEIR_NONE) + (term->pipeline != WEIR_NONE) + (term->stage != WEIR_NONE);
        if (set != 1 || !fits_or_none(term->pool, topology->pool_count) ||
            !fits_or_none(term->pipeline, topology->pipeline_count) || !fits_or_none(term->stage, topology->stage_count) ||
            !fits(term->metric, WEIR_METRIC_DROPS + 1) || !fits(term->part, WEIR_PART_POP + 1) ||
            !fits(term->statistic, WEIR_MAX + 1) || !fits(term->comparison, WEIR_GE + 1) || !fits(term->unit, WEIR_PER_S + 1) ||
            !isfinite(term->value))
            return false;
        if (term->group != group && !(i > 0 && term->group == group + 1))
            return false;
        group = term->group;
    }
    return expectation->term_count > 0;
}

/* What is wrong with it, or null. */
static const char *fault_of(const struct weir_topology *topology)
{
    for (uint32_t i = 0; i < topology->pipeline_count; i++)
        if (!pipeline_good(topology, i))
            return "a pipeline";
    for (uint32_t i = 0; i < topology->stage_count; i++)
        if (!stage_good(topology, i))
            return "a stage";
    for (uint32_t i = 0; i < topology->queue_count; i++)
        if (!queue_good(topology, &topology->queues[i]))
            return "a queue";
    for (uint32_t i = 0; i < topology->way_count; i++)
        if (!fits(topology->ways[i].pipeline, topology->pipeline_count) ||
            !fits(topology->ways[i].listen_stage, topology->stage_count))
            return "a way in";
    for (uint32_t i = 0; i < topology->instance_count; i++)
        if (!fits(topology->instances[i].stage, topology->stage_count) ||
            !fits_or_none(topology->instances[i].way, topology->way_count) ||
            !fits_or_none(topology->instances[i].pool, topology->pool_count))
            return "an instance of a stage";
    for (uint32_t i = 0; i < topology->expectation_count; i++)
        if (!expectation_good(topology, &topology->expectations[i]))
            return "an expectation";
    return NULL;
}

static bool too_many(const Weir__Topology *message)
{
    return message->n_pools > THINGS_MOST || message->n_pipelines > THINGS_MOST || message->n_stages > THINGS_MOST ||
           message->n_queues > THINGS_MOST || message->n_ways > THINGS_MOST || message->n_instances > THINGS_MOST ||
           message->n_expectations > THINGS_MOST;
}

static int read_message(struct weir_topology *topology, struct weir_arena *arena, const Weir__Topology *message,
                        struct weir_error *error)
{
    if (message->version != VERSION)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO,
                              "the topology has version %u, but this weir reads version %u: use a weir that fits the server",
                              message->version, VERSION);
    if (too_many(message))
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the topology is damaged: it claims more than %u things of a kind",
                              THINGS_MOST);
    struct weir_topology made = { 0 };
    if (!topology_in(arena, message, &made))
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the topology is damaged: one of its names can't be read");
    const char *fault = fault_of(&made);
    if (fault)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the topology is damaged: %s in it points outside of it", fault);
    *topology = made;
    return 0;
}

int weir_topology_read(struct weir_topology *topology, struct weir_arena *arena, const void *data, size_t size,
                       struct weir_error *error)
{
    struct weir_arena scratch;
    weir_arena_init(&scratch, 16384, weir_codec_limit(size));
    ProtobufCAllocator allocator = WEIR_CODEC_ALLOCATOR(&scratch);
    const Weir__Topology *message = weir__topology__unpack(&allocator, size, data);
    int rc = message ? read_message(topology, arena, message, error)
                     : weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the topology can't be read: it is cut short or damaged");
    weir_arena_release(&scratch);
    return rc;
}
