#include "viz/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAME_ITEMS 0.1     /* two stages that differ by less saw the same items, but for those under way */
#define LEAST_SHOWN 0.0005 /* less reads as 0.0 % */

bool weir_view_empty(const struct weir_profile *profile)
{
    return !profile->cpu_ns || !profile->row_count || !profile->duration_ns ||
           (profile->mode == WEIR_MODE_LIGHT && !profile->samples_kept);
}

const struct weir_profile_row *weir_view_row(const struct weir_profile *profile, uint32_t stage, enum weir_part part)
{
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == stage && row->part == part && row->way == WEIR_NONE)
            return row;
    }
    /* A stage that only one way in reaches may carry that way in its row. */
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == stage && row->part == part)
            return row;
    }
    return NULL;
}

const struct weir_profile_edge *weir_view_edge(const struct weir_profile *profile, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < profile->edge_count; i++)
        if (profile->edges[i].from == from && profile->edges[i].to == to)
            return &profile->edges[i];
    return NULL;
}

double weir_view_edge_bytes(const struct weir_profile_edge *edge)
{
    return edge->items && !edge->bytes ? NAN : (double)edge->bytes;
}

bool weir_view_edge_is_short(const struct weir_profile *profile, const struct weir_profile_edge *edge)
{
    const struct weir_topology_stage *from = &profile->topology.stages[edge->from], *to = &profile->topology.stages[edge->to];
    return to->verb == WEIR_REPLY && edge->from + 1 != edge->to && from->verb != WEIR_THEN && from->verb != WEIR_TEE;
}

double weir_view_share(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return !row || weir_view_empty(profile) ? NAN : row->share;
}

double weir_view_per_s(const struct weir_profile *profile, double count)
{
    return profile->duration_ns ? count * 1e9 / (double)profile->duration_ns : NAN;
}

double weir_view_items_per_s(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return row->stage == WEIR_NONE || row->part != WEIR_PART_NONE ? NAN : weir_view_per_s(profile, (double)row->items);
}

/* The row that counts items: a part counts none by itself. */
static const struct weir_profile_row *counting_row(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    while (row->part != WEIR_PART_NONE && row->part_of != WEIR_NONE)
        row = &profile->rows[row->part_of];
    return row;
}

static uint64_t items_of(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return row->stage == WEIR_NONE ? 0 : counting_row(profile, row)->items;
}

/* In those items. Only the decoder counts them; a stage that saw about the same items saw as many in each. Where most items took
 * another way (refused before the decoder, or behind it) nobody knows what was in them: 0. */
static uint64_t events_of(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    if (row->stage == WEIR_NONE)
        return 0;
    const struct weir_profile_row *counting = counting_row(profile, row);
    if (counting->events)
        return counting->events;
    double items = (double)counting->items;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *other = &profile->rows[i];
        if (other->events && other->items && other->part == WEIR_PART_NONE && other->way == counting->way && other->stage != WEIR_NONE &&
            profile->topology.stages[other->stage].pipeline == profile->topology.stages[row->stage].pipeline &&
            fabs((double)other->items - items) <= SAME_ITEMS * fmax(items, (double)other->items))
            return (uint64_t)((double)other->events * items / (double)other->items + 0.5);
    }
    return 0;
}

static double ns_per(const struct weir_profile *profile, const struct weir_profile_row *row, uint64_t count)
{
    return count && !weir_view_empty(profile) ? row->cpu_ns / (double)count : NAN;
}

double weir_view_ns_per_item(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return ns_per(profile, row, items_of(profile, row));
}

double weir_view_ns_per_event(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return ns_per(profile, row, events_of(profile, row));
}

static struct weir_figure cost(const struct weir_profile *profile, const struct weir_profile_row *row, uint64_t count)
{
    double ns = ns_per(profile, row, count);
    if (!isfinite(ns) || row->cpu_ns > 0 || profile->mode == WEIR_MODE_EXACT)
        return weir_figure_ns(ns);
    struct weir_figure most = weir_figure_ns(row->share_high * (double)profile->cpu_ns / (double)count), figure;
    snprintf(figure.text, sizeof figure.text, "≤ %.27s", most.text);
    return figure;
}

struct weir_figure weir_view_item_cost(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return cost(profile, row, items_of(profile, row));
}

struct weir_figure weir_view_event_cost(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return cost(profile, row, events_of(profile, row));
}

double weir_view_quantile(const struct weir_histogram *histogram, double q)
{
    return histogram && histogram->count ? (double)weir_histogram_quantile(histogram, q) : NAN;
}

double weir_view_max(const struct weir_histogram *histogram)
{
    return histogram && histogram->count ? (double)histogram->max : NAN;
}

/* How many of the limit there are: a reply ring has one for each connection. */
static double limits(const struct weir_profile *profile, uint32_t queue)
{
    if (profile->topology.queues[queue].kind != WEIR_QUEUE_REPLY)
        return 1;
    uint32_t way = weir_topology_ring_way(&profile->topology, queue);
    uint64_t connections = 0;
    for (uint32_t i = 0; i < profile->topology.way_count; i++)
        if (way == WEIR_NONE || way == i)
            connections += profile->ways[i].end.connections;
    return connections ? (double)connections : 1;
}

double weir_view_limit_items(const struct weir_profile *profile, uint32_t queue)
{
    const struct weir_topology_queue *shape = &profile->topology.queues[queue];
    return shape->limit_items ? (double)shape->limit_items * limits(profile, queue) : NAN;
}

double weir_view_limit_bytes(const struct weir_profile *profile, uint32_t queue)
{
    const struct weir_topology_queue *shape = &profile->topology.queues[queue];
    return shape->limit_bytes ? (double)shape->limit_bytes * limits(profile, queue) : NAN;
}

double weir_view_fill(const struct weir_profile *profile, uint32_t queue)
{
    const struct weir_profile_queue *measured = &profile->queues[queue];
    if (!measured->depth_items.count && !measured->depth_bytes.count)
        return NAN;
    double fill = fmax(measured->depth_items_mean / weir_view_limit_items(profile, queue),
                       measured->depth_bytes_mean / weir_view_limit_bytes(profile, queue));
    return fill > 1 ? 1 : fill;
}

/* Items that left a queue in the window. */
static double taken(const struct weir_profile_queue *queue)
{
    uint64_t out = weir_profile_grown(queue->begin.out, queue->end.out);
    return out ? (double)out : NAN;
}

double weir_view_lock_ns(const struct weir_profile *profile, uint32_t queue, enum weir_part part)
{
    double sum = profile->sleep_count ? 0 : NAN;
    for (uint32_t i = 0; i < profile->sleep_count; i++) {
        const struct weir_profile_sleep *sleep = &profile->sleeps[i];
        const struct weir_profile_row *row = &profile->rows[sleep->row];
        if (sleep->state == WEIR_STATE_LOCK && row->stage == profile->topology.queues[queue].stage && row->part == part)
            sum += sleep->ns;
    }
    return sum;
}

double weir_view_lock_ns_per_item(const struct weir_profile *profile, uint32_t queue, enum weir_part part)
{
    return weir_view_lock_ns(profile, queue, part) / taken(&profile->queues[queue]);
}

double weir_view_wakeups_per_item(const struct weir_profile *profile, uint32_t queue)
{
    return (double)profile->queues[queue].wakeups / taken(&profile->queues[queue]);
}

double weir_view_wakeup_share(const struct weir_profile_queue *queue, uint64_t part)
{
    return queue->wakeups ? (double)part / (double)queue->wakeups : NAN;
}

double weir_view_sleep_share(const struct weir_profile *profile, const struct weir_profile_sleep *sleep)
{
    double whole = (double)profile->pools[sleep->pool].threads * (double)profile->duration_ns;
    return whole > 0 ? sleep->ns / whole : NAN;
}

double weir_view_slots_full(const struct weir_profile *profile, const struct weir_profile_slots *slots)
{
    if (!profile->duration_ns)
        return NAN;
    return fmin((double)weir_profile_grown(slots->begin.full_ns, slots->end.full_ns) / (double)profile->duration_ns, 1);
}

uint64_t weir_view_slots_capacity(const struct weir_profile *profile, const struct weir_profile_slots *slots)
{
    const struct weir_topology_stage *stage = &profile->topology.stages[slots->stage];
    return (uint64_t)stage->connections * stage->in_flight;
}

const struct weir_profile_slots *weir_view_slots(const struct weir_profile *profile, uint32_t stage)
{
    for (uint32_t i = 0; i < profile->slots_count; i++)
        if (profile->slots[i].stage == stage)
            return &profile->slots[i];
    return NULL;
}

double weir_view_state(const struct weir_profile *profile, uint32_t pool, enum weir_state state)
{
    double whole = 0;
    for (unsigned i = 0; i < WEIR_STATE_COUNT; i++)
        whole += profile->pools[pool].state_ns[i];
    return whole > 0 ? profile->pools[pool].state_ns[state] / whole : NAN;
}

const char *weir_view_no_stage(const struct weir_profile_row *row)
{
    static const struct {
        const char *name, *words;
    } all[] = {
        { "(outside)", "outside the pools" },
        { "(runtime)", "in the runtime, between the stages" },
        { "(tracing)", "the tracing's own" },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(row->name, all[i].name) == 0)
            return all[i].words;
    return "in no stage";
}

void weir_view_headline(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out)
{
    if (weir_view_empty(profile)) {
        weir_buffer_puts(out, "No samples: nothing ran in this window");
        return;
    }
    if (verdict && strcmp(verdict->kind, "unclear") != 0) {
        weir_buffer_puts(out, verdict->text);
        return;
    }
    const struct weir_profile_row *top = NULL;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->part_of == WEIR_NONE && row->share >= LEAST_SHOWN && (!top || row->share > top->share))
            top = row;
    }
    for (unsigned part = WEIR_PART_SIZE; top && top->stage != WEIR_NONE && part <= WEIR_PART_POP; part++) {
        const struct weir_profile_row *row = weir_view_row(profile, top->stage, (enum weir_part)part);
        if (row && row->share > 0.6 * top->share) {
            top = row;
            break;
        }
    }
    if (!top) {
        weir_buffer_puts(out, "No stage took CPU time");
        return;
    }
    if (top->stage == WEIR_NONE) {
        weir_buffer_printf(out, "%s of CPU is %s", weir_figure_whole_percent(top->share).text, weir_view_no_stage(top));
        return;
    }
    weir_buffer_printf(out, "%s of CPU %s ", weir_figure_whole_percent(top->share).text, top->part == WEIR_PART_SIZE ? "is" : "goes to");
    if (top->part == WEIR_PART_SIZE)
        weir_buffer_printf(out, "size estimation in %s", profile->topology.stages[top->stage].full_name);
    else
        weir_buffer_puts(out, top->name);
}

void weir_view_load(const struct weir_profile *profile, struct weir_buffer *out)
{
    uint64_t items = 0, events = 0;
    for (uint32_t i = 0; i < profile->topology.way_count; i++) {
        items += weir_profile_grown(profile->ways[i].begin.accepted, profile->ways[i].end.accepted);
        events += weir_profile_grown(profile->ways[i].begin.events, profile->ways[i].end.events);
    }
    if (events)
        weir_buffer_printf(out, "%s in ", weir_figure_event_rate(weir_view_per_s(profile, (double)events)).text);
    weir_buffer_printf(out, "%s", weir_figure_message_rate(weir_view_per_s(profile, (double)items)).text);
    if (profile->duration_ns)
        weir_buffer_printf(out, " · %.2f of %u CPUs", (double)profile->cpu_ns / (double)profile->duration_ns, profile->cpus);
}

static void part_of_sentence(struct weir_buffer *out, bool *first, uint64_t count, const char *one, const char *many)
{
    if (!count)
        return;
    weir_buffer_printf(out, "%s%s %s", *first ? "" : ", ", weir_figure_count(count).text, count == 1 ? one : many);
    *first = false;
}

void weir_view_losses(const struct weir_profile *profile, struct weir_buffer *out)
{
    bool first = true;
    part_of_sentence(out, &first, profile->samples_lost, "sample lost", "samples lost");
    part_of_sentence(out, &first, profile->records_lost, "item record lost", "item records lost");
    part_of_sentence(out, &first, profile->threads_lost, "thread not seen", "threads not seen");
    part_of_sentence(out, &first, profile->violation_count, "law violated", "laws violated");
}

void weir_view_words(const struct weir_topology *topology, const struct weir_topology_stage *stage, struct weir_buffer *out)
{
    static const char *const transports[] = { "tcp", "udp", "unix" };
    static const char *const framings[] = { "length32", "lines" };
    static const char *const codecs[] = { "riemann", "graphite" };
    if (strcmp(stage->name, weir_verb_name(stage->verb)) != 0)
        weir_buffer_printf(out, "%s ", weir_verb_name(stage->verb));
    switch (stage->verb) {
    case WEIR_LISTEN:
        weir_buffer_printf(out, "%s %s", transports[stage->transport], stage->address ? stage->address : "");
        break;
    case WEIR_FRAME:
        weir_buffer_printf(out, "%s, at most %s", framings[stage->framing], weir_figure_bytes((double)stage->max_bytes).text);
        break;
    case WEIR_DECODE:
    case WEIR_ENCODE: weir_buffer_puts(out, codecs[stage->codec]); break;
    case WEIR_BUSY:
        weir_buffer_puts(out, weir_figure_ns((double)stage->cpu_ns).text);
        if (stage->pause_ns)
            weir_buffer_printf(out, ", pause %s", weir_figure_ns((double)stage->pause_ns).text);
        break;
    case WEIR_BATCH:
        weir_buffer_printf(out, "%s events within %s", weir_figure_count(stage->limit).text,
                           weir_figure_ns((double)stage->within_ns).text);
        break;
    case WEIR_FILTER: weir_buffer_puts(out, stage->text ? stage->text : ""); break;
    case WEIR_CALL: weir_buffer_printf(out, "%s()", stage->symbol ? stage->symbol : ""); break;
    case WEIR_FORWARD: weir_buffer_printf(out, "to %s", stage->address ? stage->address : ""); break;
    case WEIR_STORE: weir_buffer_printf(out, "in table %s", stage->symbol ? stage->symbol : ""); break;
    case WEIR_TEE:
    case WEIR_THEN:
        if (stage->target < topology->pipeline_count)
            weir_buffer_printf(out, "to %s", topology->pipelines[stage->target].name);
        break;
    default: break;
    }
}
