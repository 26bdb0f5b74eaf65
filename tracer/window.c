/*
 * DESIGN. A slice is turned into rows as soon as it ends, so that a long recording keeps numbers of rows, not of threads and tags.
 * Samples, and the stacks that they showed, count in the slice under way and join the window's only when it ends: if the target
 * exits within a slice, or samples come after the last one while the tracer detaches, the window ends with the slice before, and
 * none of its sums knows more than the others.
 */
#include "tracer/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/slots.h"
#include "tracer/split.h"

int weir_window_init(struct weir_window *window, struct weir_profile *profile)
{
    memset(window, 0, sizeof *window);
    const struct weir_topology *topology = &profile->topology;
    window->profile = profile;
    window->tag_count = weir_topology_tag_count(topology);
    window->pair = weir_clock_pair();
    int rc = weir_rows_build(&window->rows, profile);
    if (!rc)
        rc = weir_items_init(&window->items, topology);
    struct weir_snapshot *const all[] = { &window->begin, &window->last, &window->now };
    for (size_t i = 0; !rc && i < sizeof all / sizeof *all; i++)
        rc = weir_snapshot_init(all[i], window->tag_count, topology);
    profile->queues = weir_arena_zalloc(&profile->arena, ((size_t)topology->queue_count + 1) * sizeof *profile->queues);
    profile->ways = weir_arena_zalloc(&profile->arena, ((size_t)topology->way_count + 1) * sizeof *profile->ways);
    profile->pools = weir_arena_zalloc(&profile->arena, ((size_t)topology->pool_count + 1) * sizeof *profile->pools);
    if (!rc && (!profile->queues || !profile->ways || !profile->pools))
        rc = -ENOMEM;
    if (!rc)
        rc = weir_slots_init(profile);
    return rc;
}

void weir_window_release(struct weir_window *window)
{
    weir_rows_release(&window->rows);
    weir_items_release(&window->items);
    weir_stacks_release(&window->stacks);
    weir_snapshot_release(&window->begin);
    weir_snapshot_release(&window->last);
    weir_snapshot_release(&window->now);
    for (uint32_t i = 0; i <= WEIR_THREAD_SLOTS; i++) {
        free(window->samples[i]);
        free(window->slice_samples[i]);
    }
    free(window->slices);
}

static void copy_snapshot(struct weir_snapshot *to, const struct weir_snapshot *from)
{
    to->ns = from->ns;
    to->process_cpu_ns = from->process_cpu_ns;
    to->thread_overflow = from->thread_overflow;
    memcpy(to->wakes, from->wakes, from->queue_count * sizeof *to->wakes);
    memcpy(to->queues, from->queues, from->queue_count * sizeof *to->queues);
    memcpy(to->ways, from->ways, from->way_count * sizeof *to->ways);
    memcpy(to->slots, from->slots, from->slot_count * sizeof *to->slots);
    memcpy(to->slot_times, from->slot_times, from->slot_count * sizeof *to->slot_times);
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        struct weir_snapshot_thread *there = &to->threads[i];
        const struct weir_snapshot_thread *here = &from->threads[i];
        struct weir_contract_cell *cells = there->cells;
        uint64_t *off_tags = there->off_tags;
        struct weir_probe_places *places = there->places;
        *there = *here;
        there->cells = cells;
        there->off_tags = off_tags;
        there->places = places;
        if (!here->cells || weir_snapshot_need(to, i, here->off_tags != NULL) != 0)
            continue;
        memcpy(there->cells, here->cells, from->tag_count * sizeof *cells);
        if (here->places)
            *there->places = *here->places;
        if (here->off_tags)
            memcpy(there->off_tags, here->off_tags, from->tag_count * sizeof *off_tags);
    }
}

void weir_window_begin(struct weir_window *window)
{
    copy_snapshot(&window->last, &window->begin);
    copy_snapshot(&window->now, &window->begin);
    uint64_t ticks = UINT64_MAX;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        /* A slot that gets its first thread later has nothing from before the window. */
        uint64_t cut = window->begin.threads[i].seen ? window->begin.threads[i].cut_ticks : 0;
        weir_items_begin(&window->items, i, cut);
        if (cut && cut < ticks)
            ticks = cut;
    }
    window->items.begin_ticks = ticks == UINT64_MAX ? weir_clock_ticks() : ticks;
    window->queues_read_ns = window->slots_read_ns = window->begin.ns;
    window->open = true;
}

void weir_window_depths(struct weir_window *window, const struct weir_profile_queue_count *queues, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns > window->queues_read_ns ? now_ns - window->queues_read_ns : 0;
    window->queues_read_ns = now_ns;
    for (uint32_t i = 0; gap_ns && i < window->profile->topology.queue_count; i++) {
        weir_histogram_add(&window->profile->queues[i].depth_items, queues[i].queued, gap_ns);
        weir_histogram_add(&window->profile->queues[i].depth_bytes, queues[i].queued_bytes, gap_ns);
    }
}

void weir_window_connections(struct weir_window *window, const struct weir_profile_way_count *ways)
{
    for (uint32_t i = 0; i < window->profile->topology.way_count; i++) {
        struct weir_histogram *in_flight = &window->profile->ways[i].in_flight;
        uint64_t connections = ways[i].connections;
        if (!connections)
            continue;
        uint64_t each = ways[i].in_flight / connections, more = ways[i].in_flight % connections;
        weir_histogram_add(in_flight, each, connections - more);
        if (more)
            weir_histogram_add(in_flight, each + 1, more);
    }
}

static bool room(uint64_t **counts, uint32_t tag_count)
{
    if (!*counts)
        *counts = calloc(tag_count, sizeof **counts);
    return *counts != NULL;
}

void weir_window_sample(struct weir_window *window, const struct weir_probe_sample *sample)
{
    if (!window->open || sample->time_ns < window->begin.ns || sample->slot > WEIR_THREAD_SLOTS)
        return;
    bool outside = sample->slot == WEIR_THREAD_SLOTS;
    uint32_t tag = !outside && sample->tag < window->tag_count ? sample->tag : 0;
    if (!room(&window->slice_samples[sample->slot], window->tag_count) ||
        !room(&window->samples[sample->slot], window->tag_count))
        return;
    window->slice_samples[sample->slot][tag]++;
    uint32_t frames = sample->frame_count <= WEIR_PROBE_FRAMES ? sample->frame_count : 0;
    weir_stacks_add(&window->stacks, outside ? WEIR_ROW_OUTSIDE : weir_rows_leaf(&window->rows, tag),
                    (const uint64_t *)sample->frames, frames);
}

/* One thread's part in the slice: its CPU time by what the slice shows, or else by what the window has shown so far. */
static void slice_thread(struct weir_window *window, uint32_t slot, struct weir_profile_slice *slice, double *cpu_ns)
{
    const struct weir_snapshot_thread *before = &window->last.threads[slot], *after = &window->now.threads[slot];
    double on_cpu_ns = after->on_cpu_ns > before->on_cpu_ns ? (double)(after->on_cpu_ns - before->on_cpu_ns) : 0;
    memset(cpu_ns, 0, window->tag_count * sizeof *cpu_ns);
    bool done = window->profile->mode == WEIR_MODE_EXACT && after->off_tags && before->off_tags && before->cells &&
                after->cells &&
                weir_split_by_ticks(on_cpu_ns, window->ns_per_tick, before->cells, after->cells, before->off_tags,
                                    after->off_tags, window->tag_count, cpu_ns) >= 0;
    if (!done && window->slice_samples[slot])
        done = weir_split_by_samples(on_cpu_ns, window->slice_samples[slot], window->tag_count, cpu_ns);
    if (!done && window->samples[slot])
        done = weir_split_by_samples(on_cpu_ns, window->samples[slot], window->tag_count, cpu_ns);
    if (!done)
        cpu_ns[0] = on_cpu_ns;
    for (uint32_t tag = 0; tag < window->tag_count; tag++) {
        if (cpu_ns[tag] > 0)
            weir_rows_add(&window->rows, slice->row_cpu_ns, tag, cpu_ns[tag]);
        if (window->slice_samples[slot] && window->slice_samples[slot][tag])
            weir_rows_add_count(&window->rows, slice->row_samples, tag, window->slice_samples[slot][tag]);
        if (after->cells && before->cells && after->cells[tag].entries > before->cells[tag].entries)
            weir_rows_add_count(&window->rows, slice->row_items, tag, after->cells[tag].entries - before->cells[tag].entries);
    }
}

/* Samples of the slice join the window's, and so do their stacks. */
static void fold_samples(struct weir_window *window, struct weir_profile_slice *slice)
{
    for (uint32_t slot = 0; slot <= WEIR_THREAD_SLOTS; slot++) {
        uint64_t *from = window->slice_samples[slot];
        for (uint32_t tag = 0; from && tag < window->tag_count; tag++) {
            window->samples[slot][tag] += from[tag];
            window->samples_kept += from[tag];
            if (slot == WEIR_THREAD_SLOTS)
                slice->row_samples[WEIR_ROW_OUTSIDE] += from[tag];
            from[tag] = 0;
        }
    }
    weir_stacks_fold(&window->stacks);
}

/* CPU time of threads without a slot, since the window began: what the process used and no slot did. The process's clock may be
 * one scheduler tick behind, so it is kept from going backwards. */
static double outside_now(const struct weir_window *window)
{
    double process = (double)window->now.process_cpu_ns - (double)window->begin.process_cpu_ns;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        process -= (double)window->now.threads[i].on_cpu_ns - (double)window->begin.threads[i].on_cpu_ns;
    return process > window->outside_ns ? process : window->outside_ns;
}

static struct weir_profile_slice *new_slice(struct weir_window *window)
{
    struct weir_arena *arena = &window->profile->arena;
    uint32_t rows = window->rows.row_count, queues = window->profile->topology.queue_count;
    if (window->slice_count == window->slice_capacity) {
        uint32_t capacity = window->slice_capacity ? window->slice_capacity * 2 : 128;
        struct weir_profile_slice *slices = realloc(window->slices, capacity * sizeof *slices);
        if (!slices)
            return NULL;
        window->slices = slices;
        window->slice_capacity = capacity;
    }
    struct weir_profile_slice *slice = &window->slices[window->slice_count];
    slice->row_cpu_ns = weir_arena_zalloc(arena, rows * sizeof *slice->row_cpu_ns);
    slice->row_samples = weir_arena_zalloc(arena, rows * sizeof *slice->row_samples);
    slice->row_items = weir_arena_zalloc(arena, rows * sizeof *slice->row_items);
    slice->queues = (void *)weir_arena_dup(arena, window->now.queues, queues * sizeof *slice->queues);
    return slice->row_cpu_ns && slice->row_samples && slice->row_items && slice->queues ? slice : NULL;
}

int weir_window_slice(struct weir_window *window)
{
    double *cpu_ns = malloc(window->tag_count * sizeof *cpu_ns);
    struct weir_profile_slice *slice = cpu_ns ? new_slice(window) : NULL;
    if (!slice) {
        free(cpu_ns);
        return -ENOMEM;
    }
    slice->start_ns = window->last.ns - window->begin.ns;
    slice->duration_ns = window->now.ns - window->last.ns;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        if (window->now.threads[i].seen)
            slice_thread(window, i, slice, cpu_ns);
    free(cpu_ns);
    fold_samples(window, slice);
    double outside = outside_now(window);
    slice->row_cpu_ns[WEIR_ROW_OUTSIDE] = outside - window->outside_ns;
    window->outside_ns = outside;
    window->slice_count++;
    copy_snapshot(&window->last, &window->now);
    return 0;
}

void weir_window_end(struct weir_window *window)
{
    uint64_t ticks = 0;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        uint64_t cut = window->last.threads[i].seen ? window->last.threads[i].cut_ticks : UINT64_MAX;
        weir_items_end(&window->items, i, cut);
        if (cut != UINT64_MAX && cut > ticks)
            ticks = cut;
    }
    window->items.end_ticks = ticks ? ticks : weir_clock_ticks();
}
