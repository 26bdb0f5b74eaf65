/*
 * DESIGN: the layout has left-to-right ranks, one for each pool and one for the queues between two pools; all stages of a pool
 * share its rank, so that they stand in a column. In such a rank Graphviz puts the head of an edge above its tail: edges inside a
 * pool are therefore written backwards (`dir=back`), and so are those that lead back to an earlier pool, which keeps the ranks
 * free of cycles. Invisible edges hold the order of neighbours that no item passes between.
 *
 * Nodes are named by number; whatever a target named stands in labels and tooltips only.
 */
#include "viz/dot.h"

#include <math.h>
#include <string.h>

#include "viz/card.h"
#include "viz/escape.h"
#include "viz/figure.h"
#include "viz/heat.h"
#include "viz/view.h"

#define COLUMN_TALL 6u /* stages in a pool, above which cards are compact */

struct graph {
    struct weir_card card;
    uint64_t most_items; /* on any edge: the widest line */
};

static const struct weir_topology_stage *stage_at(const struct graph *graph, uint32_t stage)
{
    return &graph->card.topology->stages[stage];
}

/* A name inside a quoted string of DOT. */
static void quoted(struct weir_buffer *out, const char *text)
{
    struct weir_buffer safe = WEIR_BUFFER_INIT;
    weir_escape_html(&safe, text, 200);
    weir_buffer_putc(out, '"');
    for (const char *at = weir_buffer_text(&safe); *at; at++) {
        if (*at == '\\')
            weir_buffer_putc(out, '\\');
        weir_buffer_putc(out, *at);
    }
    weir_buffer_putc(out, '"');
    weir_buffer_release(&safe);
}

/* --- nodes ------------------------------------------------------------------------------------------------------------------ */

/* A handoff is drawn as its queue; a reply has a queue in front of it. */
static bool is_queue_only(const struct weir_topology_stage *stage)
{
    return stage->verb == WEIR_HANDOFF && stage->queue != WEIR_NONE;
}

/* What comes back from slots is told on the card of their stage, whose pool it never leaves. */
static bool has_queue(const struct weir_topology_stage *stage)
{
    return stage->queue != WEIR_NONE && !weir_topology_has_slots(stage);
}

static bool has_ring(const struct weir_topology_stage *stage)
{
    return has_queue(stage) && !is_queue_only(stage);
}

/* Where items enter the stage, and where they leave it. */
static void node_in(struct weir_buffer *out, const struct graph *graph, uint32_t stage)
{
    const struct weir_topology_stage *shape = stage_at(graph, stage);
    weir_buffer_printf(out, has_queue(shape) ? "queue%u" : "stage%u", has_queue(shape) ? shape->queue : stage);
}

static void node_out(struct weir_buffer *out, const struct graph *graph, uint32_t stage)
{
    const struct weir_topology_stage *shape = stage_at(graph, stage);
    weir_buffer_printf(out, is_queue_only(shape) ? "queue%u" : "stage%u", is_queue_only(shape) ? shape->queue : stage);
}

static void stage_node(const struct graph *graph, uint32_t stage, const char *indent)
{
    struct weir_buffer *out = graph->card.out;
    weir_buffer_printf(out, "%sstage%u [tooltip=", indent, stage);
    quoted(out, stage_at(graph, stage)->full_name);
    weir_buffer_puts(out, " label=");
    weir_card_stage(&graph->card, stage);
    weir_buffer_puts(out, "]\n");
}

static void queue_node(const struct graph *graph, uint32_t queue, const char *indent)
{
    struct weir_buffer *out = graph->card.out;
    weir_buffer_printf(out, "%squeue%u [tooltip=", indent, queue);
    quoted(out, graph->card.topology->queues[queue].name);
    weir_buffer_puts(out, " label=");
    weir_card_queue(&graph->card, queue);
    weir_buffer_puts(out, "]\n");
}

/* A ring whose two ends are in one pool stands inside it. */
static bool ring_inside(const struct graph *graph, const struct weir_topology_stage *stage)
{
    if (!has_ring(stage))
        return false;
    const struct weir_topology_queue *queue = &graph->card.topology->queues[stage->queue];
    return queue->from_pool == queue->to_pool && queue->from_pool == stage->pool;
}

static void pool_box(const struct graph *graph, uint32_t pool)
{
    struct weir_buffer *out = graph->card.out;
    const struct weir_topology *topology = graph->card.topology;
    weir_buffer_printf(out, "\n  subgraph cluster_pool%u {\n    label=", pool);
    weir_card_pool(&graph->card, pool);
    weir_buffer_puts(out, "\n    tooltip=");
    quoted(out, topology->pools[pool].name);
    weir_buffer_puts(out, " labeljust=l style=\"rounded,filled\" color=\"" WEIR_HEAT_BOX "\" fillcolor=\"#f6f4f2\" margin=12\n"
                          "    {\n      rank=same\n");
    for (uint32_t i = 0; i < topology->stage_count; i++) {
        const struct weir_topology_stage *stage = stage_at(graph, i);
        if (stage->pool != pool || is_queue_only(stage))
            continue;
        if (ring_inside(graph, stage))
            queue_node(graph, stage->queue, "      ");
        stage_node(graph, i, "      ");
    }
    weir_buffer_puts(out, "    }\n  }\n");
}

static bool pool_used(const struct graph *graph, uint32_t pool)
{
    for (uint32_t i = 0; i < graph->card.topology->stage_count; i++)
        if (stage_at(graph, i)->pool == pool && !is_queue_only(stage_at(graph, i)))
            return true;
    return false;
}

/* A reply has a ring for each way in that it answers. All but the first stand beside that one. */
static bool is_other_ring(const struct graph *graph, uint32_t queue)
{
    const struct weir_topology_queue *shape = &graph->card.topology->queues[queue];
    return shape->kind == WEIR_QUEUE_REPLY && stage_at(graph, shape->stage)->queue != queue;
}

static void nodes(const struct graph *graph)
{
    const struct weir_topology *topology = graph->card.topology;
    for (uint32_t i = 0; i < topology->pool_count; i++)
        if (pool_used(graph, i))
            pool_box(graph, i);
    weir_buffer_putc(graph->card.out, '\n');
    for (uint32_t i = 0; i < topology->stage_count; i++) {
        const struct weir_topology_stage *stage = stage_at(graph, i);
        if (has_queue(stage) && !ring_inside(graph, stage))
            queue_node(graph, stage->queue, "  ");
        if (stage->pool == WEIR_NONE && !is_queue_only(stage))
            stage_node(graph, i, "  ");
    }
    for (uint32_t i = 0; i < topology->queue_count; i++)
        if (is_other_ring(graph, i))
            queue_node(graph, i, "  ");
}

/* --- edges ------------------------------------------------------------------------------------------------------------------ */

/* Beside the line, not on it: an empty cell about as wide as the text balances the label, which Graphviz centres. The cell of the
 * text has no fixed size: Graphviz aborts on text that is wider than its cell. */
static void label_beside(struct weir_buffer *out, const char *items, const char *bytes)
{
    weir_buffer_printf(out, " label=<<TABLE BORDER=\"0\" CELLSPACING=\"0\" CELLPADDING=\"0\"><TR><TD FIXEDSIZE=\"TRUE\" WIDTH=\"122\" "
                       "HEIGHT=\"12\"></TD><TD WIDTH=\"106\" HEIGHT=\"12\"><TABLE ALIGN=\"LEFT\" BORDER=\"0\" CELLSPACING=\"0\" "
                       "CELLPADDING=\"0\"><TR><TD>");
    weir_escape_html(out, items, WEIR_ESCAPE_ANY);
    if (*bytes)
        weir_buffer_puts(out, " · ");
    weir_escape_html(out, bytes, WEIR_ESCAPE_ANY);
    weir_buffer_puts(out, "</TD></TR></TABLE></TD></TR></TABLE>>");
}

static void edge_style(const struct graph *graph, uint32_t from, uint32_t to, bool across, bool labelled)
{
    struct weir_buffer *out = graph->card.out;
    const struct weir_profile_edge *edge = graph->card.profile ? weir_view_edge(graph->card.profile, from, to) : NULL;
    if (!edge || weir_view_empty(graph->card.profile))
        return;
    struct weir_figure items = weir_figure_rate(weir_view_per_s(graph->card.profile, (double)edge->items)), bytes = { "" };
    if (isfinite(weir_view_edge_bytes(edge)))
        bytes = weir_figure_byte_rate(weir_view_per_s(graph->card.profile, weir_view_edge_bytes(edge)));
    double part = graph->most_items ? (double)edge->items / (double)graph->most_items : 0;
    weir_buffer_printf(out, " penwidth=%.1f", 0.8 + 1.2 * part);
    if (!labelled)
        return;
    if (across)
        weir_buffer_printf(out, " label=\"%s%s%s\"", items.text, *bytes.text ? "\\n" : "", bytes.text);
    else
        label_beside(out, items.text, bytes.text);
}

/* The rank of a pool, by the order in which items first reach it. */
static uint32_t rank_of(const struct graph *graph, uint32_t pool)
{
    const struct weir_topology *topology = graph->card.topology;
    for (uint32_t i = 0; i < topology->stage_count; i++)
        if (stage_at(graph, i)->pool == pool || stage_at(graph, i)->finish_pool == pool)
            return i;
    return pool;
}

/* Where the out and the in end of a stage are drawn. */
static bool leads_back(const struct graph *graph, uint32_t from_pool, uint32_t to_pool, uint32_t from, uint32_t to)
{
    if (from_pool == to_pool)
        return from < to; /* written backwards, so that the earlier one is on top */
    return rank_of(graph, from_pool) > rank_of(graph, to_pool);
}

/* Does another stage stand between the two in their pool's column? */
static bool passes_others(const struct graph *graph, uint32_t from, uint32_t to)
{
    for (uint32_t i = (from < to ? from : to) + 1; i < (from < to ? to : from); i++)
        if (stage_at(graph, i)->pool == stage_at(graph, from)->pool && !is_queue_only(stage_at(graph, i)))
            return true;
    return false;
}

typedef void node_writer(struct weir_buffer *, const struct graph *, uint32_t);

static void edge(const struct graph *graph, uint32_t from, node_writer *from_node, uint32_t to, node_writer *to_node, bool back,
                 bool across, bool labelled)
{
    /* On the left it would lie on the queues. */
    const char *ports = across ? " tailport=e headport=w" : passes_others(graph, from, to) ? " tailport=e headport=e" : "";
    struct weir_buffer *out = graph->card.out;
    weir_buffer_puts(out, "  ");
    (back ? to_node : from_node)(out, graph, back ? to : from);
    weir_buffer_puts(out, " -> ");
    (back ? from_node : to_node)(out, graph, back ? from : to);
    weir_buffer_printf(out, " [dir=%s%s", back ? "back" : "forward", ports);
    edge_style(graph, from, to, across, labelled);
    weir_buffer_puts(out, "]\n");
}

/* Does as much flow here as did into `from`? */
static bool same_as_before(const struct graph *graph, uint32_t from, uint32_t to)
{
    if (!graph->card.profile || from == 0)
        return false;
    const struct weir_profile_edge *before = weir_view_edge(graph->card.profile, from - 1, from);
    const struct weir_profile_edge *here = weir_view_edge(graph->card.profile, from, to);
    return before && here && fabs((double)before->items - (double)here->items) <= 0.01 * (double)before->items;
}

/* From one stage to the next: into its queue if it has one. */
static void flow(const struct graph *graph, uint32_t from, uint32_t to)
{
    const struct weir_topology_stage *a = stage_at(graph, from), *b = stage_at(graph, to);
    const struct weir_topology *topology = graph->card.topology;
    uint32_t from_pool = is_queue_only(a) ? topology->queues[a->queue].from_pool : a->pool;
    uint32_t to_pool = has_queue(b) ? topology->queues[b->queue].to_pool : b->pool;
    bool from_queue = is_queue_only(a), into_queue = has_queue(b) && !ring_inside(graph, b);
    if (from_queue && !into_queue && from_pool == to_pool)
        to_pool = topology->queues[a->queue].to_pool;
    bool across = from_queue || into_queue || from_pool != to_pool;
    bool back = leads_back(graph, from_pool, to_pool, from, to) && !(across && from_pool == to_pool);
    /* What comes out of a queue is mostly what went in. */
    edge(graph, from, node_out, to, node_in, back, across, !((from_queue || graph->card.compact) && same_as_before(graph, from, to)));
}

/* Out of the ring flows what came in. */
static void ring_edge(const struct graph *graph, uint32_t stage, bool back, bool across)
{
    struct weir_buffer *out = graph->card.out;
    const char *format = back ? "  stage%u -> queue%u [dir=back%s" : "  queue%u -> stage%u [dir=forward%s";
    uint32_t queue = stage_at(graph, stage)->queue;
    weir_buffer_printf(out, format, back ? stage : queue, back ? queue : stage, across ? " tailport=e headport=w" : "");
    edge_style(graph, stage ? stage - 1 : 0, stage, across, false);
    weir_buffer_puts(out, "]\n");
}

/* From the stage before a reply into each of its other rings, and out of them. */
static void other_rings(const struct graph *graph)
{
    struct weir_buffer *out = graph->card.out;
    const struct weir_topology *topology = graph->card.topology;
    for (uint32_t i = 0; i < topology->queue_count; i++) {
        uint32_t stage = topology->queues[i].stage;
        if (!is_other_ring(graph, i))
            continue;
        bool back = leads_back(graph, topology->queues[i].from_pool, topology->queues[i].to_pool, stage, stage);
        const char *ports = " tailport=e headport=w";
        if (stage > topology->pipelines[stage_at(graph, stage)->pipeline].first_stage) {
            weir_buffer_puts(out, "  ");
            if (back)
                weir_buffer_printf(out, "queue%u -> ", i);
            node_out(out, graph, stage - 1);
            if (!back)
                weir_buffer_printf(out, " -> queue%u", i);
            weir_buffer_printf(out, " [dir=%s%s]\n", back ? "back" : "forward", ports);
        }
        weir_buffer_printf(out, back ? "  stage%u -> queue%u [dir=back%s]\n" : "  queue%u -> stage%u [dir=forward%s]\n",
                           back ? stage : i, back ? i : stage, ports);
    }
}

/* What a stage gave up goes straight to the reply. Such an edge doesn't take part in the ranking. */
static void short_ways(const struct graph *graph)
{
    struct weir_buffer *out = graph->card.out;
    const struct weir_profile *profile = graph->card.profile;
    for (uint32_t i = 0; profile && i < profile->edge_count; i++) {
        const struct weir_profile_edge *edge = &profile->edges[i];
        if (!weir_view_edge_is_short(profile, edge) || !edge->items || weir_view_empty(profile))
            continue;
        weir_buffer_puts(out, "  ");
        node_out(out, graph, edge->from);
        weir_buffer_puts(out, " -> ");
        node_in(out, graph, edge->to);
        weir_buffer_puts(out, " [constraint=false style=dashed penwidth=1.2");
        label_beside(out, stage_at(graph, edge->from)->verb == WEIR_HANDOFF ? "refused" : "failed",
                     weir_figure_rate(weir_view_per_s(profile, (double)edge->items)).text);
        weir_buffer_puts(out, "]\n");
    }
}

static void edges(const struct graph *graph)
{
    const struct weir_topology *topology = graph->card.topology;
    weir_buffer_putc(graph->card.out, '\n');
    for (uint32_t i = 0; i < topology->stage_count; i++) {
        const struct weir_topology_stage *stage = stage_at(graph, i);
        const struct weir_topology_pipeline *home = &topology->pipelines[stage->pipeline];
        if (has_ring(stage)) {
            const struct weir_topology_queue *queue = &topology->queues[stage->queue];
            bool inside = ring_inside(graph, stage);
            bool back = inside || leads_back(graph, queue->from_pool, queue->to_pool, i, i);
            ring_edge(graph, i, back, !inside);
        }
        if (i + 1 < home->first_stage + home->stage_count && stage->verb != WEIR_THEN)
            flow(graph, i, i + 1);
        if ((stage->verb == WEIR_THEN || stage->verb == WEIR_TEE) && topology->pipelines[stage->target].stage_count)
            flow(graph, i, topology->pipelines[stage->target].first_stage);
    }
    other_rings(graph);
    short_ways(graph);
}

/* Neighbours in a pool's column that no item passes between keep their order all the same. */
static void order(const struct graph *graph)
{
    const struct weir_topology *topology = graph->card.topology;
    for (uint32_t pool = 0; pool < topology->pool_count; pool++) {
        uint32_t last = WEIR_NONE;
        for (uint32_t i = 0; i < topology->stage_count; i++) {
            const struct weir_topology_stage *stage = stage_at(graph, i);
            if (stage->pool != pool || is_queue_only(stage))
                continue;
            bool joined = last != WEIR_NONE && last + 1 == i && stage->pipeline == stage_at(graph, last)->pipeline &&
                          (!has_ring(stage) || ring_inside(graph, stage));
            if (last != WEIR_NONE && !joined)
                weir_buffer_printf(graph->card.out, "  stage%u -> stage%u [style=invis]\n", i, last);
            last = i;
        }
    }
}

static uint32_t tallest_pool(const struct weir_topology *topology)
{
    uint32_t most = 0;
    for (uint32_t pool = 0; pool < topology->pool_count; pool++) {
        uint32_t stages = 0;
        for (uint32_t i = 0; i < topology->stage_count; i++)
            stages += topology->stages[i].pool == pool && !is_queue_only(&topology->stages[i]);
        most = stages > most ? stages : most;
    }
    return most;
}

static int draw(struct graph *graph, struct weir_error *error)
{
    struct weir_buffer *out = graph->card.out;
    graph->card.compact = tallest_pool(graph->card.topology) > COLUMN_TALL;
    weir_buffer_printf(out, "digraph weir {\n  nodesep=%s\n", graph->card.compact ? "0.15" : "0.3");
    weir_buffer_puts(out, "  graph [rankdir=LR ranksep=0.5 bgcolor=white pad=0.25 fontname=\"DejaVu Sans\" labelloc=t "
                          "labeljust=l charset=\"UTF-8\"]\n"
                          "  node [shape=plain fontname=\"DejaVu Sans\"]\n"
                          "  edge [fontname=\"DejaVu Sans\" fontsize=9 fontcolor=\"" WEIR_HEAT_FAINT "\" color=\"" WEIR_HEAT_LINE
                          "\" arrowsize=0.7]\n  tooltip=");
    quoted(out, graph->card.topology->name ? graph->card.topology->name : "");
    weir_buffer_puts(out, "\n  label=");
    weir_card_title(&graph->card);
    weir_buffer_putc(out, '\n');
    nodes(graph);
    edges(graph);
    order(graph);
    weir_buffer_puts(out, "}\n");
    return out->failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to draw the graph") : 0;
}

int weir_dot_profile(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out,
                     struct weir_error *error)
{
    struct graph graph = { .card = { .topology = &profile->topology, .profile = profile, .verdict = verdict, .out = out } };
    for (uint32_t i = 0; i < profile->edge_count; i++)
        if (profile->edges[i].items > graph.most_items && !weir_view_edge_is_short(profile, &profile->edges[i]))
            graph.most_items = profile->edges[i].items;
    return draw(&graph, error);
}

int weir_dot_topology(const struct weir_topology *topology, struct weir_buffer *out, struct weir_error *error)
{
    struct graph graph = { .card = { .topology = topology, .out = out } };
    return draw(&graph, error);
}
