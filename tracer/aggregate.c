/*
 * DESIGN. The order is: the CPU time of each thread, which the scheduler knows exactly, is divided over its tags; tags are summed
 * into rows; everything else hangs on rows. Shares then sum to 1 by construction: what no slot used is "(outside)".
 */
#include "tracer/aggregate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/edges.h"
#include "tracer/slots.h"
#include "tracer/split.h"
#include "tracer/states.h"

#define READINGS_SPREAD 0.1 /* a mean of readings may be off by that */
#define EXACT_FLOOR 0.0005 /* half-width of an exact share when ticks and scheduler agree fully */

struct totals {
    double *cpu_ns;      /* [row_count] */
    uint64_t *samples;   /* [row_count] */
    double *error;       /* [row_count]: how far ticks and scheduler disagreed, as a share (exact) */
    double cpu_all_ns;
};

static double on_cpu_of(const struct weir_window *window, uint32_t slot)
{
    return (double)weir_profile_grown(window->begin.threads[slot].on_cpu_ns, window->last.threads[slot].on_cpu_ns);
}

/* Where the threads of the same pool were, for one that ran too little to be sampled. */
static bool split_like_pool(const struct weir_window *window, uint32_t slot, double on_cpu_ns, double *cpu_ns)
{
    uint64_t *sum = calloc(window->tag_count, sizeof *sum);
    for (uint32_t i = 0; sum && i < WEIR_THREAD_SLOTS; i++)
        if (window->samples[i] && window->last.threads[i].pool == window->last.threads[slot].pool)
            for (uint32_t tag = 0; tag < window->tag_count; tag++)
                sum[tag] += window->samples[i][tag];
    bool done = sum && weir_split_by_samples(on_cpu_ns, sum, window->tag_count, cpu_ns);
    free(sum);
    return done;
}

/* Divides one thread's CPU time over its tags. Returns by how much ticks and scheduler disagreed. */
static double split_thread(const struct weir_window *window, uint32_t slot, double *cpu_ns)
{
    const struct weir_snapshot_thread *begin = &window->begin.threads[slot], *end = &window->last.threads[slot];
    double on_cpu_ns = on_cpu_of(window, slot), error = -1;
    memset(cpu_ns, 0, window->tag_count * sizeof *cpu_ns);
    if (window->profile->mode == WEIR_MODE_EXACT && end->cells && end->off_tags) {
        /* A slot that was first seen within the window began at 0. */
        struct weir_contract_cell *no_cells = begin->cells ? NULL : calloc(window->tag_count, sizeof *no_cells);
        uint64_t *no_off = begin->off_tags ? NULL : calloc(window->tag_count, sizeof *no_off);
        if ((begin->cells || no_cells) && (begin->off_tags || no_off))
            error = weir_split_by_ticks(on_cpu_ns, window->ns_per_tick, begin->cells ? begin->cells : no_cells, end->cells,
                                        begin->off_tags ? begin->off_tags : no_off, end->off_tags, window->tag_count, cpu_ns);
        free(no_cells);
        free(no_off);
    }
    if (error >= 0)
        return error;
    bool done = window->samples[slot] && weir_split_by_samples(on_cpu_ns, window->samples[slot], window->tag_count, cpu_ns);
    if (!done && !split_like_pool(window, slot, on_cpu_ns, cpu_ns))
        cpu_ns[0] = on_cpu_ns;
    return 0;
}

static void sum_threads(const struct weir_window *window, struct totals *totals, double *cpu_ns)
{
    for (uint32_t slot = 0; slot < WEIR_THREAD_SLOTS; slot++) {
        for (uint32_t tag = 0; window->samples[slot] && tag < window->tag_count; tag++)
            if (window->samples[slot][tag])
                weir_rows_add_count(&window->rows, totals->samples, tag, window->samples[slot][tag]);
        if (!window->last.threads[slot].seen)
            continue;
        double error = split_thread(window, slot, cpu_ns);
        for (uint32_t tag = 0; tag < window->tag_count; tag++) {
            if (cpu_ns[tag] > 0) {
                weir_rows_add(&window->rows, totals->cpu_ns, tag, cpu_ns[tag]);
                weir_rows_add(&window->rows, totals->error, tag, cpu_ns[tag] * error);
            }
        }
        totals->cpu_all_ns += on_cpu_of(window, slot);
    }
    const uint64_t *outside = window->samples[WEIR_THREAD_SLOTS];
    double process_ns = (double)weir_profile_grown(window->begin.process_cpu_ns, window->last.process_cpu_ns);
    if (process_ns > totals->cpu_all_ns)
        totals->cpu_ns[WEIR_ROW_OUTSIDE] = process_ns - totals->cpu_all_ns;
    totals->cpu_all_ns += totals->cpu_ns[WEIR_ROW_OUTSIDE];
    totals->samples[WEIR_ROW_OUTSIDE] = outside ? outside[0] : 0;
}

/* --- shares ----------------------------------------------------------------------------------------------------------------- */

/* Adds one thread as a stratum to each row's interval. `hits` is room for [row_count]. */
static void add_stratum(const struct weir_window *window, struct weir_split_interval *intervals, double weight,
                        const uint64_t *samples, bool outside, uint64_t *hits)
{
    uint64_t all = 0;
    memset(hits, 0, window->rows.row_count * sizeof *hits);
    for (uint32_t tag = 0; samples && tag < window->tag_count; tag++) {
        all += samples[tag];
        if (outside)
            hits[WEIR_ROW_OUTSIDE] += samples[tag];
        else
            weir_rows_add_count(&window->rows, hits, tag, samples[tag]);
    }
    for (uint32_t row = 0; row < window->rows.row_count; row++) {
        /* Threads without a slot can be nowhere else, and the others never there: that is known, not sampled. */
        if (outside || row == WEIR_ROW_OUTSIDE)
            intervals[row].center += outside && row == WEIR_ROW_OUTSIDE ? weight : 0;
        else
            weir_split_interval_add(&intervals[row], weight, hits[row], all);
    }
}

static int set_intervals(struct weir_window *window, const struct totals *totals)
{
    struct weir_profile *profile = window->profile;
    struct weir_split_interval *intervals = calloc(profile->row_count, sizeof *intervals);
    uint64_t *hits = calloc(profile->row_count, sizeof *hits);
    if (!intervals || !hits) {
        free(intervals);
        free(hits);
        return -ENOMEM;
    }
    bool exact = profile->mode == WEIR_MODE_EXACT;
    for (uint32_t slot = 0; !exact && totals->cpu_all_ns > 0 && slot < WEIR_THREAD_SLOTS; slot++)
        add_stratum(window, intervals, on_cpu_of(window, slot) / totals->cpu_all_ns, window->samples[slot], false, hits);
    if (!exact && totals->cpu_all_ns > 0)
        add_stratum(window, intervals, totals->cpu_ns[WEIR_ROW_OUTSIDE] / totals->cpu_all_ns, NULL, true, hits);
    for (uint32_t i = 0; i < profile->row_count; i++) {
        struct weir_profile_row *row = &profile->rows[i];
        if (totals->cpu_all_ns <= 0)
            continue;
        double half = totals->error[i] / totals->cpu_all_ns + EXACT_FLOOR;
        if (exact) {
            row->share_low = fmax(row->share - half, 0);
            row->share_high = fmin(row->share + half, 1);
        } else {
            weir_split_interval_end(&intervals[i], row->share, &row->share_low, &row->share_high);
        }
    }
    free(intervals);
    free(hits);
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------------------------------------- */

/* The server's own counters, summed over threads into [row_count] each. */
struct counted {
    uint64_t *items, *events, *own_cpu_ns;
};

static void sum_cells(const struct weir_window *window, const struct counted *counted)
{
    static const struct weir_contract_cell nothing;
    for (uint32_t slot = 0; slot < WEIR_THREAD_SLOTS; slot++) {
        const struct weir_snapshot_thread *begin = &window->begin.threads[slot], *end = &window->last.threads[slot];
        for (uint32_t tag = 0; end->cells && tag < window->tag_count; tag++) {
            const struct weir_contract_cell *from = begin->cells ? &begin->cells[tag] : &nothing, *to = &end->cells[tag];
            weir_rows_add_count(&window->rows, counted->items, tag, weir_profile_grown(from->entries, to->entries));
            weir_rows_add_count(&window->rows, counted->events, tag, weir_profile_grown(from->events, to->events));
            weir_rows_add_count(&window->rows, counted->own_cpu_ns, tag, weir_profile_grown(from->own_cpu_ns, to->own_cpu_ns));
        }
    }
}

static int set_service(struct weir_window *window)
{
    struct weir_profile *profile = window->profile;
    for (uint32_t i = 0; i < window->items.instance_count; i++) {
        const struct weir_items_stage *stage = &window->items.stages[i];
        struct weir_rows_tag at = window->rows.tags[WEIR_TAG(WEIR_INSTANCE_FIRST + i, WEIR_PART_NONE)];
        uint32_t targets[2] = { at.stage, at.way };
        for (int k = 0; k < 2; k++) {
            if (targets[k] == WEIR_NONE)
                continue;
            struct weir_profile_row *row = &profile->rows[targets[k]];
            row->stamped += stage->stamped;
            if (!stage->service)
                continue; /* none entered, or it is a reply that is owed to nobody */
            if (!row->service)
                row->service = weir_arena_zalloc(&profile->arena, sizeof *row->service);
            if (!row->service)
                return -ENOMEM;
            weir_histogram_merge(row->service, stage->service);
        }
    }
    return 0;
}

/* No item is inside `listen`: it hands over frames, and its items are those of the stage behind it. */
static void set_listeners(struct weir_window *window)
{
    const struct weir_topology *topology = &window->profile->topology;
    for (uint32_t i = 0; i + 1 < topology->stage_count; i++)
        if (topology->stages[i].verb == WEIR_LISTEN && topology->stages[i + 1].pipeline == topology->stages[i].pipeline)
            window->profile->rows[window->rows.stage_rows[i]].stamped =
                window->profile->rows[window->rows.stage_rows[i + 1]].stamped;
}

static int set_rows(struct weir_window *window, const struct totals *totals, const struct counted *counted)
{
    struct weir_profile *profile = window->profile;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        struct weir_profile_row *row = &profile->rows[i];
        row->cpu_ns = totals->cpu_ns[i];
        row->share = totals->cpu_all_ns > 0 ? fmin(row->cpu_ns / totals->cpu_all_ns, 1) : 0;
        row->samples = totals->samples[i];
        row->items = counted->items[i];
        row->events = counted->events[i];
        row->own_cpu_ns = counted->own_cpu_ns[i];
    }
    profile->cpu_ns = (uint64_t)(totals->cpu_all_ns + 0.5);
    int rc = set_service(window);
    set_listeners(window);
    return rc ? rc : set_intervals(window, totals);
}

/* --- queues, ways, pools ---------------------------------------------------------------------------------------------------- */

/* Do the waits in the log tell how deep the queue was? Not of items that left it without a pop (given up, or evicted), nor of those
 * that stayed: pushed before the attach, or there still when the log was read for the last time. */
static bool waits_tell_depth(const struct weir_topology_queue *shape, const struct weir_profile_queue *queue,
                             const struct weir_items_queue *items, double held_mean)
{
    bool evicts = shape->kind == WEIR_QUEUE_REPLY || shape->full == WEIR_FULL_DROP_OLDEST;
    if (evicts && queue->end.dropped > queue->begin.dropped)
        return false;
    double stayed = (double)weir_profile_grown(items->across_begin, queue->begin.queued) +
                    (double)weir_profile_grown(items->across_end, queue->end.queued);
    double missing = queue->depth_items_mean - held_mean;
    return missing <= READINGS_SPREAD * queue->depth_items_mean || missing > stayed;
}

static void set_wakes(struct weir_profile_queue *queue, const struct weir_probe_wakes *begin, const struct weir_probe_wakes *end)
{
    queue->wakeups = weir_profile_grown(begin->wakeups, end->wakeups);
    queue->wakeups_unused = weir_profile_grown(begin->unused, end->unused);
    queue->wakeups_moved = weir_profile_grown(begin->moved, end->moved);
}

/* A thread of a pool that takes from several queues sleeps on all of them, though its wait word can name one only. So the wakeups
 * of such a pool are shared out by what was taken from each. */
static void share_wakes(struct weir_profile *profile, uint32_t pool)
{
    const struct weir_topology *topology = &profile->topology;
    double taken = 0, wakeups = 0, unused = 0, moved = 0;
    for (uint32_t i = 0; i < topology->queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        if (topology->queues[i].to_pool != pool || topology->queues[i].kind == WEIR_QUEUE_REPLY)
            continue;
        taken += (double)weir_profile_grown(queue->begin.out, queue->end.out);
        wakeups += (double)queue->wakeups;
        unused += (double)queue->wakeups_unused;
        moved += (double)queue->wakeups_moved;
    }
    for (uint32_t i = 0; taken > 0 && i < topology->queue_count; i++) {
        struct weir_profile_queue *queue = &profile->queues[i];
        if (topology->queues[i].to_pool != pool || topology->queues[i].kind == WEIR_QUEUE_REPLY)
            continue;
        double part = (double)weir_profile_grown(queue->begin.out, queue->end.out) / taken;
        queue->wakeups = (uint64_t)(wakeups * part + 0.5);
        queue->wakeups_unused = (uint64_t)(unused * part + 0.5);
        queue->wakeups_moved = (uint64_t)(moved * part + 0.5);
    }
}

static void set_queues(struct weir_window *window, weir_aggregate_wakeups *wakeups, const void *context)
{
    struct weir_profile *profile = window->profile;
    double duration_ns = (double)profile->duration_ns;
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        struct weir_profile_queue *queue = &profile->queues[i];
        const struct weir_items_queue *items = &window->items.queues[i];
        queue->begin = window->begin.queues[i];
        queue->end = window->last.queues[i];
        queue->wait = items->wait;
        queue->depth_items_mean = weir_histogram_mean(&queue->depth_items);
        queue->depth_bytes_mean = weir_histogram_mean(&queue->depth_bytes);
        if (profile->mode == WEIR_MODE_EXACT && duration_ns > 0 &&
            waits_tell_depth(&profile->topology.queues[i], queue, items, items->held_ns / duration_ns))
            queue->depth_items_mean = items->held_ns / duration_ns;
        /* Readings at random moments miss short peaks; a push that was stamped knows its own. */
        if (queue->depth_items.count && items->depth_items_max > queue->depth_items.max)
            queue->depth_items.max = items->depth_items_max;
        if (queue->depth_bytes.count && items->depth_bytes_max > queue->depth_bytes.max)
            queue->depth_bytes.max = items->depth_bytes_max;
        set_wakes(queue, &window->begin.wakes[i], &window->last.wakes[i]);
        const uint64_t *buckets = wakeups ? wakeups(context, i) : NULL;
        for (unsigned k = 0; buckets && k < WEIR_HISTOGRAM_BUCKETS; k++) {
            uint64_t low = weir_histogram_low(k), next = k + 1 < WEIR_HISTOGRAM_BUCKETS ? weir_histogram_low(k + 1) : low + 1;
            if (buckets[k])
                weir_histogram_add(&queue->wakeup, low + (next - low) / 2, buckets[k]);
        }
    }
    for (uint32_t i = 0; i < profile->topology.pool_count; i++)
        share_wakes(profile, i);
    for (uint32_t i = 0; i < profile->topology.way_count; i++) {
        profile->ways[i].begin = window->begin.ways[i];
        profile->ways[i].end = window->last.ways[i];
    }
}

/* Items without a stamp passed a thread; they came through the queue that leads to its pool. */
static void set_unstamped(struct weir_window *window)
{
    struct weir_profile *profile = window->profile;
    for (uint32_t slot = 0; slot < WEIR_THREAD_SLOTS; slot++) {
        uint64_t passed = weir_profile_grown(window->begin.threads[slot].unstamped, window->last.threads[slot].unstamped);
        for (uint32_t i = 0; passed && i < profile->topology.queue_count; i++) {
            if (profile->topology.queues[i].to_pool != window->last.threads[slot].pool)
                continue;
            profile->queues[i].unstamped += passed;
            break;
        }
    }
}

int weir_aggregate(struct weir_window *window, weir_aggregate_wakeups *wakeups, const void *context)
{
    struct weir_profile *profile = window->profile;
    size_t rows = profile->row_count;
    struct totals totals = { calloc(rows, sizeof(double)), calloc(rows, sizeof(uint64_t)), calloc(rows, sizeof(double)), 0 };
    struct counted counted = { calloc(rows, sizeof(uint64_t)), calloc(rows, sizeof(uint64_t)), calloc(rows, sizeof(uint64_t)) };
    double *cpu_ns = calloc(window->tag_count, sizeof *cpu_ns);
    int rc = -ENOMEM;
    if (!totals.cpu_ns || !totals.samples || !totals.error || !counted.items || !counted.events || !counted.own_cpu_ns || !cpu_ns)
        goto out;
    profile->duration_ns = weir_profile_grown(window->begin.ns, window->last.ns);
    sum_threads(window, &totals, cpu_ns);
    sum_cells(window, &counted);
    rc = set_rows(window, &totals, &counted);
    if (rc)
        goto out;
    set_queues(window, wakeups, context);
    set_unstamped(window);
    weir_slots_set(window);
    rc = weir_states_set(window);
    if (!rc)
        rc = weir_edges_set(window);
    if (rc)
        goto out;
    profile->samples_kept = window->samples_kept;
    profile->records_kept = window->items.kept;
    profile->records_lost = window->items.lost;
    profile->slice_count = window->slice_count;
    profile->slices = (void *)weir_arena_dup(&profile->arena, window->slices, window->slice_count * sizeof *window->slices);
    profile->target_probe_cpu_share = profile->rows[WEIR_ROW_TRACING].share;
    rc = profile->slices ? 0 : -ENOMEM;
out:
    free(totals.cpu_ns);
    free(totals.samples);
    free(totals.error);
    free(counted.items);
    free(counted.events);
    free(counted.own_cpu_ns);
    free(cpu_ns);
    return rc;
}
