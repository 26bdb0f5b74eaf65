#include "viz/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "viz/escape.h"
#include "viz/figure.h"
#include "viz/grid.h"
#include "viz/view.h"

#define NAME_MOST 34u
#define POOL_MOST 12u
#define HOT_MOST 3u
#define HOT_LEAST 0.02
#define WAITS_MOST 6u /* of one pool */
#define WAIT_LEAST 0.01

static void cell(struct weir_grid *grid, const char *text)
{
    weir_grid_cell(grid, text, 0);
}

static void heads(struct weir_grid *grid, const char *const *names)
{
    for (; *names; names++)
        cell(grid, *names);
}

static void finish(struct weir_grid *grid, struct weir_buffer *out)
{
    weir_grid_write(grid, out);
    weir_buffer_putc(out, '\n');
    weir_grid_release(grid);
}

/* --- head ------------------------------------------------------------------------------------------------------------------- */

static void head(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    static const char *const kinds[] = { "built", "bound", "marked" };
    weir_view_headline(profile, verdict, &text);
    weir_escape_plain(out, weir_buffer_text(&text), WEIR_ESCAPE_ANY);
    weir_buffer_puts(out, "\n\n");
    weir_escape_plain(out, profile->topology.name, WEIR_ESCAPE_ANY);
    weir_buffer_printf(out, " (%s), pid %u, ", kinds[profile->kind], profile->pid);
    weir_escape_plain(out, profile->exe ? profile->exe : "", 60);
    weir_buffer_printf(out, "\n%s %s, ended by %s; ", weir_figure_ns((double)profile->duration_ns).text,
                       weir_mode_name(profile->mode), profile->ended_by ? profile->ended_by : "");
    weir_buffer_printf(out, "CPU time %s; Linux ", weir_figure_ns((double)profile->cpu_ns).text);
    weir_escape_plain(out, profile->kernel ? profile->kernel : "", 30);
    weir_buffer_putc(out, '\n');
    weir_view_load(profile, out);
    weir_buffer_printf(out, "\n%s samples, %s lost; ", weir_figure_count(profile->samples_kept).text,
                       weir_figure_count(profile->samples_lost).text);
    weir_buffer_printf(out, "%s item records, %s lost\n", weir_figure_count(profile->records_kept).text,
                       weir_figure_count(profile->records_lost).text);
    weir_buffer_clear(&text);
    weir_view_losses(profile, &text);
    if (text.length)
        weir_buffer_printf(out, "\nLOSSY: %s. These figures may be wrong.\n", text.data);
    weir_buffer_putc(out, '\n');
    weir_buffer_release(&text);
}

/* --- stages ----------------------------------------------------------------------------------------------------------------- */

/* Times below the cost of a stamp are not the target's. */
static void service_cell(const struct weir_profile *profile, struct weir_grid *grid, double ns)
{
    char text[48];
    bool below = ns < profile->probe_floor_ns;
    snprintf(text, sizeof text, "%s%s", below ? "≤ " : "", weir_figure_ns(below ? profile->probe_floor_ns : ns).text);
    cell(grid, text);
}

static void row_name(const struct weir_profile *profile, const struct weir_profile_row *row, struct weir_grid *grid)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    for (uint32_t of = row->part_of; of != WEIR_NONE; of = profile->rows[of].part_of)
        weir_buffer_puts(&text, "  ");
    weir_buffer_puts(&text, row->part == WEIR_PART_NONE ? row->name : weir_part_name(row->part));
    uint32_t queue = row->stage == WEIR_NONE ? WEIR_NONE : profile->topology.stages[row->stage].queue;
    if (row->part == WEIR_PART_SIZE && queue != WEIR_NONE)
        weir_buffer_printf(&text, " (%s)", weir_sized_name(profile->topology.queues[queue].sized));
    weir_grid_cell(grid, weir_buffer_text(&text), NAME_MOST);
    weir_buffer_release(&text);
}

/* Of a shared tail's stages each has a row for what belongs to no way in; mostly nothing does. */
static bool nothing_inside(const struct weir_profile_row *row)
{
    return row->part_of != WEIR_NONE && row->part == WEIR_PART_NONE && row->way == WEIR_NONE && row->items == 0 && row->samples == 0 &&
           row->cpu_ns <= 0;
}

static void stage_row(const struct weir_profile *profile, const struct weir_profile_row *row, struct weir_grid *grid)
{
    row_name(profile, row, grid);
    bool named = row->pool != WEIR_NONE && row->part == WEIR_PART_NONE;
    weir_grid_cell(grid, named ? profile->topology.pools[row->pool].name : "", POOL_MOST);
    cell(grid, weir_figure_percent(weir_view_share(profile, row)).text);
    char wide[16];
    snprintf(wide, sizeof wide, "%.1f", (row->share_high - row->share_low) * 50);
    cell(grid, weir_view_empty(profile) ? "–" : wide);
    cell(grid, weir_view_item_cost(profile, row).text);
    cell(grid, weir_view_event_cost(profile, row).text);
    bool counts = row->stage != WEIR_NONE && row->part == WEIR_PART_NONE;
    cell(grid, counts ? weir_figure_rate(weir_view_items_per_s(profile, row)).text : "");
    if (counts) {
        service_cell(profile, grid, weir_view_quantile(row->service, 0.5));
        service_cell(profile, grid, weir_view_quantile(row->service, 0.99));
    } else {
        cell(grid, "");
        cell(grid, "");
    }
}

static void stages(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "STAGE", "POOL", "CPU", "±", "AN ITEM", "AN EVENT", "ITEMS", "SERVICE", "P99", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "llrrrrrrr");
    heads(&grid, names);
    /* What is no stage stands at the end. */
    for (int outside = 0; outside < 2; outside++)
        for (uint32_t i = 0; i < profile->row_count; i++)
            if ((profile->rows[i].stage == WEIR_NONE) == (outside == 1) && !nothing_inside(&profile->rows[i]))
                stage_row(profile, &profile->rows[i], &grid);
    finish(&grid, out);
}

static bool is_shown(const struct weir_profile_row *row, uint32_t k)
{
    return k < row->hot_count && k < HOT_MOST && row->hot[k].share >= HOT_LEAST;
}

/* Is most of the function's time shown with a part of the row already? */
static bool shown_by_part(const struct weir_profile *profile, uint32_t index, const struct weir_profile_hot *hot)
{
    for (uint32_t i = index + 1; i < profile->row_count; i++) {
        const struct weir_profile_row *part = &profile->rows[i];
        for (uint32_t k = 0; part->part_of == index && is_shown(part, k); k++)
            if (strcmp(part->hot[k].symbol, hot->symbol) == 0 && part->hot[k].share > hot->share / 2)
                return true;
    }
    return false;
}

static void hot_functions(const struct weir_profile *profile, struct weir_buffer *out)
{
    struct weir_grid grid;
    weir_grid_init(&grid, "llr");
    static const char *const names[] = { "HOT FUNCTION", "IN", "CPU", NULL };
    heads(&grid, names);
    size_t before = grid.count;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        for (uint32_t k = 0; is_shown(row, k); k++) {
            if (shown_by_part(profile, i, &row->hot[k]))
                continue;
            weir_grid_cell(&grid, row->hot[k].symbol, 48);
            weir_grid_cell(&grid, row->name, NAME_MOST);
            cell(&grid, weir_figure_percent(row->hot[k].share).text);
        }
    }
    if (grid.count > before)
        finish(&grid, out);
    else
        weir_grid_release(&grid);
}

/* --- queues ----------------------------------------------------------------------------------------------------------------- */

static void queue_times(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "QUEUE", "WAIT", "P99", "MAX", "WAKEUP", "P99", "ITEMS", "MAX", "BYTES", "LIMIT", "FULL", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrrrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        bool any = queue->depth_items.count != 0, any_bytes = queue->depth_bytes.count != 0;
        weir_grid_cell(&grid, profile->topology.queues[i].name, NAME_MOST);
        cell(&grid, weir_figure_ns(weir_view_quantile(&queue->wait, 0.5)).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&queue->wait, 0.99)).text);
        cell(&grid, weir_figure_ns(weir_view_max(&queue->wait)).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&queue->wakeup, 0.5)).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&queue->wakeup, 0.99)).text);
        cell(&grid, weir_figure_number(any ? queue->depth_items_mean : NAN).text);
        cell(&grid, weir_figure_number(weir_view_max(&queue->depth_items)).text);
        cell(&grid, weir_figure_bytes(any_bytes ? queue->depth_bytes_mean : NAN).text);
        cell(&grid, weir_figure_bytes(weir_view_limit_bytes(profile, i)).text);
        cell(&grid, weir_figure_percent(weir_view_fill(profile, i)).text);
    }
    finish(&grid, out);
}

static void handoffs(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "HANDOFF, AN ITEM", "SIZE", "PUSH", "ITS LOCK", "POP", "ITS LOCK", "WAKEUPS", "UNUSED", "MOVED", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        uint32_t stage = profile->topology.queues[i].stage;
        bool handoff = profile->topology.queues[i].kind == WEIR_QUEUE_HANDOFF;
        const struct weir_profile_row *size = weir_view_row(profile, stage, WEIR_PART_SIZE),
                                      *push = weir_view_row(profile, stage, WEIR_PART_PUSH),
                                      *pop = weir_view_row(profile, stage, WEIR_PART_POP);
        weir_grid_cell(&grid, profile->topology.queues[i].name, NAME_MOST);
        cell(&grid, size ? weir_view_item_cost(profile, size).text : "");
        cell(&grid, push ? weir_view_item_cost(profile, push).text : "");
        cell(&grid, weir_figure_ns(weir_view_lock_ns_per_item(profile, i, WEIR_PART_PUSH)).text);
        cell(&grid, pop ? weir_view_item_cost(profile, pop).text : "");
        cell(&grid, weir_figure_ns(weir_view_lock_ns_per_item(profile, i, WEIR_PART_POP)).text);
        cell(&grid, handoff ? weir_figure_number(weir_view_wakeups_per_item(profile, i)).text : "");
        cell(&grid, handoff ? weir_figure_percent(weir_view_wakeup_share(queue, queue->wakeups_unused)).text : "");
        cell(&grid, handoff ? weir_figure_percent(weir_view_wakeup_share(queue, queue->wakeups_moved)).text : "");
    }
    finish(&grid, out);
}

static void queue_counts(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "SINCE THE START", "IN", "OUT", "DROPPED", "REJECTED", "QUEUED", "PARKED", "UNSTAMPED", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue_count *end = &profile->queues[i].end;
        const uint64_t counts[] = { end->in, end->out, end->dropped, end->rejected, end->queued, end->parked,
                                    profile->queues[i].unstamped };
        weir_grid_cell(&grid, profile->topology.queues[i].name, NAME_MOST);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            cell(&grid, weir_figure_count(counts[k]).text);
    }
    finish(&grid, out);
}

/* --- slots ------------------------------------------------------------------------------------------------------------------ */

static void slot_times(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "SLOTS", "OPEN", "IN USE", "MAX", "OF", "FULL", "WAITS", "WAIT", "P99", "SERVICE", "P99", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrrrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->slots_count; i++) {
        const struct weir_profile_slots *slots = &profile->slots[i];
        const struct weir_topology_stage *stage = &profile->topology.stages[slots->stage];
        char text[64];
        weir_grid_cell(&grid, stage->full_name, NAME_MOST);
        snprintf(text, sizeof text, "%s of %u", weir_figure_number(slots->open_mean).text, stage->connections);
        cell(&grid, text);
        cell(&grid, weir_figure_number(slots->in_use_mean).text);
        cell(&grid, weir_figure_number(weir_view_max(&slots->in_use)).text);
        cell(&grid, weir_figure_count(weir_view_slots_capacity(profile, slots)).text);
        cell(&grid, weir_figure_percent(weir_view_slots_full(profile, slots)).text);
        cell(&grid, weir_figure_rate(weir_view_per_s(profile, (double)weir_profile_grown(slots->begin.waits, slots->end.waits))).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&slots->wait, 0.5)).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&slots->wait, 0.99)).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&slots->service, 0.5)).text);
        cell(&grid, weir_figure_ns(weir_view_quantile(&slots->service, 0.99)).text);
    }
    finish(&grid, out);
}

static void slot_counts(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "SINCE THE START", "TAKEN", "FINISHED", "FAILED", "LOST", "RETRIED", "IN USE", "OPEN",
                                         "RECONNECTS", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->slots_count; i++) {
        const struct weir_profile_slot_count *end = &profile->slots[i].end;
        const uint64_t counts[] = { end->taken, end->finished, end->failed, end->lost, end->retried, end->in_use, end->open,
                                    end->reconnects };
        weir_grid_cell(&grid, profile->topology.stages[profile->slots[i].stage].full_name, NAME_MOST);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            cell(&grid, weir_figure_count(counts[k]).text);
    }
    finish(&grid, out);
}

/* --- the rest --------------------------------------------------------------------------------------------------------------- */

static void pools(const struct weir_profile *profile, struct weir_buffer *out)
{
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrrr");
    cell(&grid, "POOL");
    cell(&grid, "THREADS");
    for (unsigned k = 0; k < WEIR_STATE_COUNT; k++) {
        char name[24];
        snprintf(name, sizeof name, "%s", weir_state_name((enum weir_state)k));
        for (char *at = name; *at; at++)
            *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 32 : *at);
        cell(&grid, name);
    }
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        weir_grid_cell(&grid, profile->topology.pools[i].name, NAME_MOST);
        cell(&grid, weir_figure_count(profile->pools[i].threads).text);
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            cell(&grid, weir_figure_percent(weir_view_state(profile, i, (enum weir_state)k)).text);
    }
    finish(&grid, out);
}

/* Where threads were off a CPU for long, and for what. */
static void waits(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "WAITS OF", "IN", "STATE", "FOR", "TIME", "TIMES", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "llllrr");
    heads(&grid, names);
    size_t before = grid.count;
    for (uint32_t i = 0, shown = 0, pool = WEIR_NONE; i < profile->sleep_count; i++) {
        const struct weir_profile_sleep *sleep = &profile->sleeps[i];
        double share = weir_view_sleep_share(profile, sleep);
        shown = sleep->pool == pool ? shown : 0;
        pool = sleep->pool;
        if (!(share >= WAIT_LEAST) || ++shown > WAITS_MOST)
            continue;
        const char *what = sleep->queue != WEIR_NONE   ? profile->topology.queues[sleep->queue].name
                           : sleep->slots != WEIR_NONE ? profile->topology.stages[profile->slots[sleep->slots].stage].full_name
                           : sleep->site               ? sleep->site
                                                       : "";
        weir_grid_cell(&grid, profile->topology.pools[sleep->pool].name, POOL_MOST);
        weir_grid_cell(&grid, profile->rows[sleep->row].name, NAME_MOST);
        cell(&grid, weir_state_name(sleep->state));
        weir_grid_cell(&grid, what, NAME_MOST);
        cell(&grid, weir_figure_percent(share).text);
        cell(&grid, weir_figure_count(sleep->count).text);
    }
    if (grid.count > before)
        finish(&grid, out);
    else
        weir_grid_release(&grid);
}

/* One line on what never became an item of a way in; none, where all did. */
static void lost_at_way(const struct weir_profile *profile, uint32_t index, struct weir_buffer *out)
{
    const struct weir_profile_way_count *end = &profile->ways[index].end;
    const struct {
        uint64_t count;
        const char *before, *behind;
    } rows[] = {
        { end->kernel_drops, "the kernel dropped ", " datagrams at the full socket" },
        { end->truncated, "", " messages were cut short" },
        { end->refused, "", " came from addresses that `allow` leaves out" },
        { end->failed_handshakes, "", " TLS handshakes failed" },
    };
    const char *separator = ": ";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].count)
            continue;
        if (*separator == ':')
            weir_escape_plain(out, profile->topology.ways[index].name, WEIR_ESCAPE_ANY);
        weir_buffer_printf(out, "%s%s%s%s", separator, rows[i].before, weir_figure_count(rows[i].count).text, rows[i].behind);
        separator = "; ";
    }
    if (*separator == ';')
        weir_buffer_add(out, "\n\n", 2);
}

static void ways(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "WAY IN", "ACCEPTED", "ANSWERED", "ABANDONED", "DISCARDED", "IN FLIGHT", "CONNECTIONS",
                                         "MALFORMED", "BAD LENGTHS", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->topology.way_count; i++) {
        const struct weir_profile_way_count *end = &profile->ways[i].end;
        const uint64_t counts[] = { end->accepted, end->answered, end->abandoned, end->discarded, end->in_flight, end->connections,
                                    end->malformed, end->bad_lengths };
        weir_grid_cell(&grid, profile->topology.ways[i].name, NAME_MOST);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
            cell(&grid, weir_figure_count(counts[k]).text);
    }
    finish(&grid, out);
    for (uint32_t i = 0; i < profile->topology.way_count; i++)
        lost_at_way(profile, i, out);
}

static void kernel_queues(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "A CONNECTION OF", "IN FLIGHT", "MAX", "OVERLAPPED", "RECEIVE QUEUE", "MAX", "SEND QUEUE", "MAX",
                                         "BACKLOG MAX", "LIMIT", NULL };
    struct weir_grid grid;
    weir_grid_init(&grid, "lrrrrrrrrr");
    heads(&grid, names);
    size_t before = grid.count;
    for (uint32_t i = 0; i < profile->topology.way_count; i++) {
        const struct weir_profile_way *way = &profile->ways[i];
        double accepted = (double)weir_profile_grown(way->begin.accepted, way->end.accepted);
        double overlapped = (double)weir_profile_grown(way->begin.overlapped, way->end.overlapped);
        if (!way->in_flight.count && !way->backlog.count)
            continue;
        weir_grid_cell(&grid, profile->topology.ways[i].name, NAME_MOST);
        cell(&grid, weir_figure_number(way->in_flight.count ? weir_histogram_mean(&way->in_flight) : NAN).text);
        cell(&grid, weir_figure_number(weir_view_max(&way->in_flight)).text);
        cell(&grid, weir_figure_percent(accepted > 0 ? overlapped / accepted : NAN).text);
        cell(&grid, weir_figure_bytes(way->receive_bytes.count ? weir_histogram_mean(&way->receive_bytes) : NAN).text);
        cell(&grid, weir_figure_bytes(weir_view_max(&way->receive_bytes)).text);
        cell(&grid, weir_figure_bytes(way->send_bytes.count ? weir_histogram_mean(&way->send_bytes) : NAN).text);
        cell(&grid, weir_figure_bytes(weir_view_max(&way->send_bytes)).text);
        cell(&grid, weir_figure_number(weir_view_max(&way->backlog)).text);
        cell(&grid, way->backlog_limit ? weir_figure_count(way->backlog_limit).text : "–");
    }
    if (grid.count > before)
        finish(&grid, out);
    else
        weir_grid_release(&grid);
}

static void machine(const struct weir_profile *profile, struct weir_buffer *out)
{
    if (profile->machine_busy_ns <= 0 || !profile->duration_ns)
        return;
    double window = (double)profile->duration_ns;
    weir_buffer_printf(out, "The machine was busy with %.2f CPUs", profile->machine_busy_ns / window);
    if (profile->machine_steal_ns > 0)
        weir_buffer_printf(out, " and lost %.2f to its host", profile->machine_steal_ns / window);
    for (uint32_t i = 0; i < profile->neighbour_count; i++) {
        weir_buffer_puts(out, i ? ", " : "; beside the server ran ");
        weir_escape_plain(out, profile->neighbours[i].name, NAME_MOST);
        weir_buffer_printf(out, " (%u) with %.2f", profile->neighbours[i].pid, profile->neighbours[i].cpu_ns / window);
    }
    weir_buffer_puts(out, ".\n\n");
}

static void overhead(const struct weir_profile *profile, struct weir_buffer *out)
{
    weir_buffer_printf(out, "Tracing took %s of one CPU, ", weir_figure_percent(profile->tracer_cpu_share).text);
    if (!weir_view_empty(profile))
        weir_buffer_printf(out, "and %s of the target's CPU time; ", weir_figure_percent(profile->target_probe_cpu_share).text);
    weir_buffer_printf(out, "%s hits/s", weir_figure_number(profile->probe_hits_per_s).text);
    if (profile->probe_floor_ns > 0)
        weir_buffer_printf(out, "; a service time below %s can't be seen", weir_figure_ns(profile->probe_floor_ns).text);
    weir_buffer_putc(out, '\n');
    if (profile->violation_count)
        weir_buffer_puts(out, "\nWhat does not add up:\n");
    for (uint32_t i = 0; i < profile->violation_count; i++) {
        weir_buffer_puts(out, "  ");
        weir_escape_plain(out, profile->violations[i], WEIR_ESCAPE_ANY);
        weir_buffer_putc(out, '\n');
    }
}

/* What the server has counted; nothing was measured. */
static void counters(const struct weir_profile *profile, struct weir_buffer *out)
{
    static const char *const names[] = { "STAGE", "ITEMS", "EVENTS", NULL };
    struct weir_grid grid;
    weir_escape_plain(out, profile->topology.name, WEIR_ESCAPE_ANY);
    weir_buffer_printf(out, ", pid %u: what it has counted since it started %s ago; `weir record` measures where the time goes\n\n",
                       profile->pid, weir_figure_ns((double)profile->duration_ns).text);
    weir_grid_init(&grid, "lrr");
    heads(&grid, names);
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == WEIR_NONE || row->part != WEIR_PART_NONE)
            continue;
        row_name(profile, row, &grid);
        cell(&grid, weir_figure_count(row->items).text);
        cell(&grid, row->events ? weir_figure_count(row->events).text : "–");
    }
    finish(&grid, out);
    queue_counts(profile, out);
    if (profile->slots_count)
        slot_counts(profile, out);
    ways(profile, out);
}

int weir_table_profile(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out,
                       struct weir_error *error)
{
    if (profile->mode == WEIR_MODE_COUNTERS) {
        counters(profile, out);
        return out->failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to write the counters") : 0;
    }
    head(profile, verdict, out);
    if (weir_view_empty(profile))
        weir_buffer_puts(out, "There are no samples in this window.\n\n");
    if (profile->row_count)
        stages(profile, out);
    hot_functions(profile, out);
    if (profile->topology.queue_count) {
        queue_times(profile, out);
        if (profile->sleep_count)
            handoffs(profile, out);
        queue_counts(profile, out);
    }
    if (profile->slots_count) {
        slot_times(profile, out);
        slot_counts(profile, out);
    }
    if (profile->topology.pool_count)
        pools(profile, out);
    waits(profile, out);
    if (profile->topology.way_count)
        ways(profile, out);
    kernel_queues(profile, out);
    machine(profile, out);
    overhead(profile, out);
    return out->failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to write the report") : 0;
}
