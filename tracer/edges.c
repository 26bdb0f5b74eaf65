/*
 * DESIGN. A stage counts what enters it. Most stages are entered from the one before alone, so that this is the edge. A reply is
 * entered by everything that got an answer: what passed all stages, and what some stage before gave up: a handoff that was full, a
 * decoder that could not parse, a call that failed. Those that were given up have an edge of their own, and the last one before
 * the reply carries what its stage took in.
 *
 * An answer's size is known on average over all of them, so where some took the short way nobody's bytes are known.
 */
#include "tracer/edges.h"

#include <errno.h>
#include <math.h>

static uint64_t grown(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

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
    if (shape->verb == WEIR_REPLY && shape->queue < topology->queue_count) {
        bytes = (double)grown(window->begin.queues[shape->queue].in_bytes, window->last.queues[shape->queue].in_bytes);
        weight = (double)grown(window->begin.queues[shape->queue].in, window->last.queues[shape->queue].in);
    } else if (way < topology->way_count) {
        bytes = (double)grown(window->begin.ways[way].accepted_bytes, window->last.ways[way].accepted_bytes);
        weight = (double)grown(window->begin.ways[way].accepted, window->last.ways[way].accepted);
    }
    for (uint32_t i = 0; way >= topology->way_count && i < topology->instance_count; i++) {
        if (shape->verb == WEIR_REPLY || topology->instances[i].stage != stage)
            continue;
        bytes += window->items.stages[i].bytes;
        weight += window->items.stages[i].bytes_weight;
    }
    return weight > 0 ? bytes / weight : 0;
}

/* Items that a stage with another one of its pipeline behind it gave up. */
static uint64_t given_up(const struct weir_window *window, uint32_t stage)
{
    const struct weir_topology *topology = &window->profile->topology;
    const struct weir_topology_stage *shape = &topology->stages[stage];
    uint32_t way = topology->pipelines[shape->pipeline].way;
    switch (shape->verb) {
    case WEIR_HANDOFF: {
        const struct weir_profile_queue_count *begin = &window->begin.queues[shape->queue], *end = &window->last.queues[shape->queue];
        return grown(begin->dropped, end->dropped) + grown(begin->rejected, end->rejected);
    }
    case WEIR_DECODE:
        return way < topology->way_count ? grown(window->begin.ways[way].malformed, window->last.ways[way].malformed) : 0;
    case WEIR_CALL: {
        /* Its threads hold some at the window's ends. */
        uint64_t missing = grown(row_of(window, stage + 1)->items, row_of(window, stage)->items);
        return missing > 2 * window->profile->pools[shape->pool].threads ? missing : 0;
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

/* The edges into a pipeline's reply: the last stage's, and those of the stages that gave items up. */
static void add_reply(struct weir_window *window, const struct weir_topology_pipeline *pipeline, uint32_t reply)
{
    uint64_t short_cuts = 0;
    for (uint32_t stage = pipeline->first_stage; stage + 1 < reply; stage++)
        short_cuts += given_up(window, stage);
    /* Nothing leads past the stage before: what that one gave up goes the same way. A handoff there counts what it got. */
    uint64_t items = row_of(window, short_cuts ? reply - 1 : reply)->items;
    add(window, (struct weir_profile_edge){ .from = reply - 1, .to = reply, .items = items }, !short_cuts);
    for (uint32_t stage = pipeline->first_stage; stage + 1 < reply; stage++)
        if (given_up(window, stage))
            add(window, (struct weir_profile_edge){ .from = stage, .to = reply, .items = given_up(window, stage) }, false);
}

static void add_pipeline(struct weir_window *window, const struct weir_topology_pipeline *pipeline)
{
    const struct weir_topology *topology = &window->profile->topology;
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        uint32_t stage = pipeline->first_stage + i;
        const struct weir_topology_stage *shape = &topology->stages[stage];
        if (i + 1 < pipeline->stage_count && topology->stages[stage + 1].verb == WEIR_REPLY)
            add_reply(window, pipeline, stage + 1);
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
