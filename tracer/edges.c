/*
 * DESIGN. A stage counts what enters it. Most stages are entered from the one before alone, so that this is the edge. A reply is
 * entered by everything that got an answer: what passed all stages, and what some stage before gave up: a handoff that was full, a
 * decoder that could not parse, a call that failed. Those that were given up have an edge of their own, and the last one before
 * the reply carries what its stage took in.
 *
 * In a shared tail a stage's refusals are not told apart by way in. They lead to the reply in the proportion in which items that are
 * owed one came in.
 *
 * An answer's size is known on average over all of them, so where some took the short way nobody's bytes are known.
 */
#include "tracer/edges.h"

#include <errno.h>
#include <math.h>

static const struct weir_profile_row *row_of(const struct weir_window *window, uint32_t stage)
{
    return &window->profile->rows[window->rows.stage_rows[stage]];
}

/* Mean size of the items that came into a stage: of a reply, the answers as its ring counted them; else what the way in received.
 * A stage that no way in leads to alone tells it from the log. */
static double mean_bytes(const struct weir_window *window, uint32_t stage)
{
    const struct weir_topology *topology = &window->profile->topology;
    const struct weir_topology_stage *shape = &topology->stages[stage];
    uint32_t way = topology->pipelines[shape->pipeline].way;
    double bytes = 0, weight = 0;
    for (uint32_t i = 0; shape->verb == WEIR_REPLY && i < topology->queue_count; i++) {
        if (topology->queues[i].stage != stage)
            continue;
        bytes += (double)weir_profile_grown(window->begin.queues[i].in_bytes, window->last.queues[i].in_bytes);
        weight += (double)weir_profile_grown(window->begin.queues[i].in, window->last.queues[i].in);
    }
    if (shape->verb != WEIR_REPLY && way < topology->way_count) {
        bytes = (double)weir_profile_grown(window->begin.ways[way].accepted_bytes, window->last.ways[way].accepted_bytes);
        weight = (double)weir_profile_grown(window->begin.ways[way].accepted, window->last.ways[way].accepted);
    }
    for (uint32_t i = 0; way >= topology->way_count && i < topology->instance_count; i++) {
        if (shape->verb == WEIR_REPLY || topology->instances[i].stage != stage)
            continue;
        bytes += window->items.stages[i].bytes;
        weight += window->items.stages[i].bytes_weight;
    }
    return weight > 0 ? bytes / weight : 0;
}

/* Of the items that entered a stage, the share that is owed replies. */
static double owing_share(const struct weir_window *window, uint32_t stage)
{
    const struct weir_topology *topology = &window->profile->topology;
    double owing = 0, all = 0;
    for (uint32_t i = 0; i < topology->instance_count; i++) {
        const struct weir_topology_instance *instance = &topology->instances[i];
        if (instance->stage != stage)
            continue;
        struct weir_rows_tag at = window->rows.tags[WEIR_TAG(WEIR_INSTANCE_FIRST + i, WEIR_PART_NONE)];
        double items = (double)window->profile->rows[at.way != WEIR_NONE ? at.way : at.stage].items;
        all += items;
        if (instance->way < topology->way_count && topology->ways[instance->way].replies)
            owing += items;
    }
    return all > 0 ? owing / all : 0;
}

/* Whole frames that the decoder could not parse, of ways in that are answered. */
static uint64_t malformed(const struct weir_window *window, uint32_t stage)
{
    const struct weir_topology *topology = &window->profile->topology;
    uint64_t count = 0;
    for (uint32_t i = 0; i < topology->instance_count; i++) {
        uint32_t way = topology->instances[i].way;
        if (topology->instances[i].stage == stage && way < topology->way_count && topology->ways[way].replies)
            count += weir_profile_grown(window->begin.ways[way].malformed, window->last.ways[way].malformed);
    }
    return count;
}

/* Items that are owed a reply and that a stage with another one of its pipeline behind it gave up. */
static uint64_t given_up(const struct weir_window *window, uint32_t stage)
{
    const struct weir_topology_stage *shape = &window->profile->topology.stages[stage];
    switch (shape->verb) {
    case WEIR_HANDOFF: {
        const struct weir_profile_queue_count *begin = &window->begin.queues[shape->queue], *end = &window->last.queues[shape->queue];
        uint64_t refused = weir_profile_grown(begin->dropped, end->dropped) + weir_profile_grown(begin->rejected, end->rejected);
        return refused ? (uint64_t)((double)refused * owing_share(window, stage) + 0.5) : 0;
    }
    case WEIR_DECODE:
        return malformed(window, stage);
    case WEIR_CALL: {
        /* Its threads hold some at the window's ends. */
        uint64_t missing = weir_profile_grown(row_of(window, stage + 1)->items, row_of(window, stage)->items);
        missing = missing > 2 * window->profile->pools[shape->pool].threads ? missing : 0;
        return missing ? (uint64_t)((double)missing * owing_share(window, stage) + 0.5) : 0;
    }
    default:
        return 0;
    }
}

/* Events in `items` of the items that a stage passed on: as many an item as it knows, or as came into it. */
static uint64_t events_in(const struct weir_window *window, uint32_t stage, uint64_t items)
{
    const struct weir_profile *profile = window->profile;
    uint64_t events = row_of(window, stage)->events, of = row_of(window, stage)->items;
    for (uint32_t i = profile->edge_count; !events && i-- > 0;) {
        if (profile->edges[i].to == stage) {
            events = profile->edges[i].events;
            of = profile->edges[i].items;
        }
    }
    return events && of ? (uint64_t)fmin((double)events * (double)items / (double)of + 0.5, 1e19) : 0;
}

static void add(struct weir_window *window, struct weir_profile_edge edge, bool bytes_known)
{
    if (!edge.events)
        edge.events = events_in(window, edge.from, edge.items);
    if (bytes_known)
        edge.bytes = (uint64_t)fmin((double)edge.items * mean_bytes(window, edge.to) + 0.5, 1e19);
    window->profile->edges[window->profile->edge_count++] = edge;
}

/* Does this pipeline's last stage lead on to the pipeline `to`, by `then` and in the end? */
static bool leads_to(const struct weir_topology *topology, uint32_t pipeline, uint32_t to)
{
    for (uint32_t steps = 0; steps < topology->pipeline_count && pipeline != to; steps++) {
        const struct weir_topology_pipeline *shape = &topology->pipelines[pipeline];
        const struct weir_topology_stage *last = shape->stage_count ? &topology->stages[shape->first_stage + shape->stage_count - 1] : NULL;
        if (!last || last->verb != WEIR_THEN || last->target >= topology->pipeline_count)
            return false;
        pipeline = last->target;
    }
    return pipeline == to;
}

/* The edges into a pipeline's reply: the last stage's, and those of the stages that gave items up, here and in the pipelines that
 * go on here. */
static void add_reply(struct weir_window *window, uint32_t pipeline, uint32_t reply)
{
    const struct weir_topology *topology = &window->profile->topology;
    uint64_t short_cuts = 0;
    for (uint32_t stage = 0; stage < topology->stage_count; stage++)
        if (stage + 1 != reply && leads_to(topology, topology->stages[stage].pipeline, pipeline))
            short_cuts += given_up(window, stage);
    /* Nothing leads past the stage before: what that one gave up goes the same way. A handoff there counts what it got. */
    uint64_t items = row_of(window, short_cuts ? reply - 1 : reply)->items;
    add(window, (struct weir_profile_edge){ .from = reply - 1, .to = reply, .items = items }, !short_cuts);
    for (uint32_t stage = 0; short_cuts && stage < topology->stage_count; stage++) {
        if (stage + 1 == reply || !leads_to(topology, topology->stages[stage].pipeline, pipeline))
            continue;
        uint64_t gone = given_up(window, stage);
        if (gone)
            add(window, (struct weir_profile_edge){ .from = stage, .to = reply, .items = gone }, false);
    }
}

static void add_pipeline(struct weir_window *window, const struct weir_topology_pipeline *pipeline)
{
    const struct weir_topology *topology = &window->profile->topology;
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        uint32_t stage = pipeline->first_stage + i;
        const struct weir_topology_stage *shape = &topology->stages[stage];
        if (i + 1 < pipeline->stage_count && topology->stages[stage + 1].verb == WEIR_REPLY)
            add_reply(window, shape->pipeline, stage + 1);
        else if (i + 1 < pipeline->stage_count)
            add(window, (struct weir_profile_edge){ .from = stage, .to = stage + 1, .items = row_of(window, stage + 1)->items,
                                                    .events = row_of(window, stage + 1)->events }, true);
        if ((shape->verb == WEIR_THEN || shape->verb == WEIR_TEE) && shape->target < topology->pipeline_count)
            add(window, (struct weir_profile_edge){ .from = stage, .to = topology->pipelines[shape->target].first_stage,
                                                    .items = row_of(window, stage)->items }, true);
    }
}

int weir_edges_set(struct weir_window *window)
{
    struct weir_profile *profile = window->profile;
    size_t most = (size_t)profile->topology.stage_count * 3 + 1;
    profile->edges = weir_arena_zalloc(&profile->arena, most * sizeof *profile->edges);
    if (!profile->edges)
        return -ENOMEM;
    for (uint32_t i = 0; i < profile->topology.pipeline_count; i++)
        add_pipeline(window, &profile->topology.pipelines[i]);
    return 0;
}
