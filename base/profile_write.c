/*
 * DESIGN: a profile becomes a message in scratch memory and is packed. A number that is no number, or a share outside of 0 to 1,
 * would be refused on reading, so writing clamps it; weir_profile_verify() has named it by then.
 */
#include <math.h>
#include <profile.pb-c.h>
#include <string.h>

#include "base/codec.h"
#include "base/profile.h"
#include "base/profile_format.h"

static double positive(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

static double share(double value)
{
    return value > 1 ? 1 : positive(value);
}

static Weir__Histogram *histogram_out(const struct weir_histogram *from, struct weir_arena *arena)
{
    Weir__Histogram *to = weir_arena_alloc(arena, sizeof *to);
    if (!to)
        return NULL;
    weir__histogram__init(to);
    size_t used = 0;
    for (unsigned i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++)
        used += from->buckets[i] != 0;
    to->bucket = weir_arena_alloc(arena, (used + 1) * sizeof *to->bucket);
    to->weight = weir_arena_alloc(arena, (used + 1) * sizeof *to->weight);
    if (!to->bucket || !to->weight)
        return NULL;
    for (unsigned i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++) {
        if (!from->buckets[i])
            continue;
        to->bucket[to->n_bucket++] = i;
        to->weight[to->n_weight++] = from->buckets[i];
    }
    to->count = from->count;
    to->sum = positive(from->sum);
    to->min = from->min;
    to->max = from->max;
    return to;
}

#define COPY(field) to->field = from->field;

static void queue_count_out(const struct weir_profile_queue_count *from, Weir__QueueCount *to)
{
    WEIR_QUEUE_COUNTS(COPY)
}

static void way_count_out(const struct weir_profile_way_count *from, Weir__WayCount *to)
{
    WEIR_WAY_COUNTS(COPY)
}

static void slot_count_out(const struct weir_profile_slot_count *from, Weir__SlotCount *to)
{
    WEIR_SLOT_COUNTS(COPY)
}

static bool row_out(const struct weir_profile_row *from, Weir__Row *to, struct weir_arena *arena)
{
    to->name = weir_codec_text(from->name);
    to->part_of_1 = weir_codec_index(from->part_of);
    to->stage_1 = weir_codec_index(from->stage);
    to->part = from->part;
    to->way_1 = weir_codec_index(from->way);
    to->pool_1 = weir_codec_index(from->pool);
    to->cpu_ns = positive(from->cpu_ns);
    to->share = share(from->share);
    to->share_low = share(from->share_low);
    to->share_high = share(from->share_high);
    to->samples = from->samples;
    to->items = from->items;
    to->events = from->events;
    to->stamped = from->stamped;
    to->own_cpu_ns = from->own_cpu_ns;
    if (from->service && !(to->service = histogram_out(from->service, arena)))
        return false;
    if (!WEIR_CODEC_LIST(arena, to->hot, to->n_hot, from->hot_count, Weir__Hot, WEIR__HOT__INIT))
        return false;
    for (uint32_t i = 0; i < from->hot_count; i++) {
        to->hot[i]->symbol = weir_codec_text(from->hot[i].symbol);
        to->hot[i]->samples = from->hot[i].samples;
        to->hot[i]->share = share(from->hot[i].share);
    }
    return true;
}

static bool queue_out(const struct weir_profile_queue *from, Weir__QueueMeasure *to, struct weir_arena *arena)
{
    Weir__QueueCount **pair;
    size_t n;
    if (!WEIR_CODEC_LIST(arena, pair, n, 2, Weir__QueueCount, WEIR__QUEUE_COUNT__INIT) || n != 2)
        return false;
    to->begin = pair[0];
    to->end = pair[1];
    queue_count_out(&from->begin, to->begin);
    queue_count_out(&from->end, to->end);
    to->depth_items_mean = positive(from->depth_items_mean);
    to->depth_bytes_mean = positive(from->depth_bytes_mean);
    to->unstamped = from->unstamped;
    to->wakeups = from->wakeups;
    to->wakeups_unused = from->wakeups_unused;
    to->wakeups_moved = from->wakeups_moved;
    return (to->depth_items = histogram_out(&from->depth_items, arena)) && (to->depth_bytes = histogram_out(&from->depth_bytes, arena)) &&
           (to->wait = histogram_out(&from->wait, arena)) && (to->wakeup = histogram_out(&from->wakeup, arena));
}

static bool slice_out(const struct weir_profile *profile, const struct weir_profile_slice *from, Weir__Slice *to,
                      struct weir_arena *arena)
{
    uint32_t rows = profile->row_count, queues = profile->topology.queue_count;
    to->start_ns = from->start_ns;
    to->duration_ns = from->duration_ns;
    to->row_cpu_ns = weir_arena_alloc(arena, ((size_t)rows + 1) * sizeof(double));
    if (!to->row_cpu_ns || !WEIR_CODEC_LIST(arena, to->queues, to->n_queues, queues, Weir__QueueCount, WEIR__QUEUE_COUNT__INIT))
        return false;
    for (uint32_t i = 0; i < rows; i++)
        to->row_cpu_ns[i] = positive(from->row_cpu_ns[i]);
    to->row_samples = from->row_samples;
    to->row_items = from->row_items;
    to->n_row_cpu_ns = to->n_row_samples = to->n_row_items = rows;
    for (uint32_t i = 0; i < queues; i++)
        queue_count_out(&from->queues[i], to->queues[i]);
    return true;
}

static bool way_out(const struct weir_profile_way *from, Weir__WayMeasure *to, struct weir_arena *arena)
{
    Weir__WayCount **pair;
    size_t n;
    if (!WEIR_CODEC_LIST(arena, pair, n, 2, Weir__WayCount, WEIR__WAY_COUNT__INIT) || n != 2)
        return false;
    way_count_out(&from->begin, to->begin = pair[0]);
    way_count_out(&from->end, to->end = pair[1]);
    to->backlog_limit = from->backlog_limit;
    return (to->in_flight = histogram_out(&from->in_flight, arena)) && (to->backlog = histogram_out(&from->backlog, arena)) &&
           (to->round_trip = histogram_out(&from->round_trip, arena)) &&
           (to->receive_bytes = histogram_out(&from->receive_bytes, arena)) &&
           (to->send_bytes = histogram_out(&from->send_bytes, arena));
}

static bool slots_out(const struct weir_profile_slots *from, Weir__SlotsMeasure *to, struct weir_arena *arena)
{
    Weir__SlotCount **pair;
    size_t n;
    if (!WEIR_CODEC_LIST(arena, pair, n, 2, Weir__SlotCount, WEIR__SLOT_COUNT__INIT) || n != 2)
        return false;
    to->stage = from->stage;
    slot_count_out(&from->begin, to->begin = pair[0]);
    slot_count_out(&from->end, to->end = pair[1]);
    to->in_use_mean = positive(from->in_use_mean);
    to->open_mean = positive(from->open_mean);
    return (to->in_use = histogram_out(&from->in_use, arena)) && (to->wait = histogram_out(&from->wait, arena)) &&
           (to->service = histogram_out(&from->service, arena));
}

/* A copy of the times of all states. */
static double *states_out(const double *from, size_t *n, struct weir_arena *arena)
{
    double *states = weir_arena_alloc(arena, WEIR_STATE_COUNT * sizeof *states);
    if (!states)
        return NULL;
    for (*n = 0; *n < WEIR_STATE_COUNT; ++*n)
        states[*n] = positive(from[*n]);
    return states;
}

static bool thread_out(const struct weir_profile_thread *from, Weir__Thread *to, struct weir_arena *arena)
{
    to->tid = from->tid;
    to->pool = from->pool;
    to->switches = from->switches;
    to->preempted = from->preempted;
    return (to->state_ns = states_out(from->state_ns, &to->n_state_ns, arena)) != NULL;
}

static void sleep_out(const struct weir_profile_sleep *from, Weir__Sleep *to)
{
    to->pool = from->pool;
    to->row = from->row;
    to->state = from->state;
    to->queue_1 = weir_codec_index(from->queue);
    to->slots_1 = weir_codec_index(from->slots);
    to->site = weir_codec_text(from->site);
    to->ns = positive(from->ns);
    to->count = from->count;
}

static bool texts_out(struct weir_arena *arena, const char **from, size_t count, ProtobufCBinaryData **list, size_t *n)
{
    *list = weir_arena_alloc(arena, (count + 1) * sizeof **list);
    if (!*list)
        return false;
    for (*n = 0; *n < count; ++*n)
        (*list)[*n] = weir_codec_text(from[*n]);
    return true;
}

static bool lists_out(const struct weir_profile *from, Weir__Profile *to, struct weir_arena *arena)
{
    const struct weir_topology *topology = &from->topology;
    bool good =
        WEIR_CODEC_LIST(arena, to->rows, to->n_rows, from->row_count, Weir__Row, WEIR__ROW__INIT) &&
        WEIR_CODEC_LIST(arena, to->queues, to->n_queues, topology->queue_count, Weir__QueueMeasure, WEIR__QUEUE_MEASURE__INIT) &&
        WEIR_CODEC_LIST(arena, to->ways, to->n_ways, topology->way_count, Weir__WayMeasure, WEIR__WAY_MEASURE__INIT) &&
        WEIR_CODEC_LIST(arena, to->edges, to->n_edges, from->edge_count, Weir__Edge, WEIR__EDGE__INIT) &&
        WEIR_CODEC_LIST(arena, to->pools, to->n_pools, topology->pool_count, Weir__PoolMeasure, WEIR__POOL_MEASURE__INIT) &&
        WEIR_CODEC_LIST(arena, to->slots, to->n_slots, from->slots_count, Weir__SlotsMeasure, WEIR__SLOTS_MEASURE__INIT) &&
        WEIR_CODEC_LIST(arena, to->threads, to->n_threads, from->thread_count, Weir__Thread, WEIR__THREAD__INIT) &&
        WEIR_CODEC_LIST(arena, to->sleeps, to->n_sleeps, from->sleep_count, Weir__Sleep, WEIR__SLEEP__INIT) &&
        WEIR_CODEC_LIST(arena, to->neighbours, to->n_neighbours, from->neighbour_count, Weir__Neighbour, WEIR__NEIGHBOUR__INIT) &&
        WEIR_CODEC_LIST(arena, to->stacks, to->n_stacks, from->stack_count, Weir__Stack, WEIR__STACK__INIT) &&
        WEIR_CODEC_LIST(arena, to->slices, to->n_slices, from->slice_count, Weir__Slice, WEIR__SLICE__INIT) &&
        texts_out(arena, from->symbols, from->symbol_count, &to->symbols, &to->n_symbols) &&
        texts_out(arena, from->violations, from->violation_count, &to->violations, &to->n_violations);
    for (uint32_t i = 0; good && i < from->row_count; i++)
        good = row_out(&from->rows[i], to->rows[i], arena);
    for (uint32_t i = 0; good && i < topology->queue_count; i++)
        good = queue_out(&from->queues[i], to->queues[i], arena);
    for (uint32_t i = 0; good && i < topology->way_count; i++)
        good = way_out(&from->ways[i], to->ways[i], arena);
    for (uint32_t i = 0; good && i < from->slice_count; i++)
        good = slice_out(from, &from->slices[i], to->slices[i], arena);
    for (uint32_t i = 0; good && i < from->edge_count; i++) {
        to->edges[i]->from = from->edges[i].from;
        to->edges[i]->to = from->edges[i].to;
        to->edges[i]->items = from->edges[i].items;
        to->edges[i]->bytes = from->edges[i].bytes;
        to->edges[i]->events = from->edges[i].events;
    }
    for (uint32_t i = 0; good && i < topology->pool_count; i++) {
        to->pools[i]->threads = from->pools[i].threads;
        good = (to->pools[i]->state_ns = states_out(from->pools[i].state_ns, &to->pools[i]->n_state_ns, arena)) != NULL;
    }
    for (uint32_t i = 0; good && i < from->slots_count; i++)
        good = slots_out(&from->slots[i], to->slots[i], arena);
    for (uint32_t i = 0; good && i < from->thread_count; i++)
        good = thread_out(&from->threads[i], to->threads[i], arena);
    for (uint32_t i = 0; good && i < from->sleep_count; i++)
        sleep_out(&from->sleeps[i], to->sleeps[i]);
    for (uint32_t i = 0; good && i < from->neighbour_count; i++) {
        to->neighbours[i]->pid = from->neighbours[i].pid;
        to->neighbours[i]->name = weir_codec_text(from->neighbours[i].name);
        to->neighbours[i]->cpu_ns = positive(from->neighbours[i].cpu_ns);
    }
    for (uint32_t i = 0; good && i < from->stack_count; i++) {
        to->stacks[i]->row = from->stacks[i].row;
        to->stacks[i]->samples = from->stacks[i].samples;
        to->stacks[i]->frames = from->stacks[i].frames;
        to->stacks[i]->n_frames = from->stacks[i].frame_count;
    }
    return good;
}

int weir_profile_write(const struct weir_profile *from, struct weir_buffer *out, struct weir_error *error)
{
    struct weir_buffer topology = WEIR_BUFFER_INIT;
    struct weir_arena arena;
    weir_arena_init(&arena, 1 << 16, SIZE_MAX);
    int rc = weir_topology_write(&from->topology, &topology, error);
    if (rc)
        goto out;
    Weir__Profile to = WEIR__PROFILE__INIT;
    to.version = WEIR_PROFILE_VERSION;
    to.topology = (ProtobufCBinaryData){ .len = topology.length, .data = (uint8_t *)topology.data };
    to.pid = from->pid;
    to.exe = weir_codec_text(from->exe);
    to.kind = from->kind;
    to.kernel = weir_codec_text(from->kernel);
    to.cpus = from->cpus;
    to.mode = from->mode;
    to.start_unix_ns = from->start_unix_ns;
    to.duration_ns = from->duration_ns;
    to.cpu_ns = from->cpu_ns;
    to.machine_busy_ns = positive(from->machine_busy_ns);
    to.machine_steal_ns = positive(from->machine_steal_ns);
    to.ended_by = weir_codec_text(from->ended_by);
    to.sample_period_ns = from->sample_period_ns;
    to.samples_kept = from->samples_kept;
    to.samples_lost = from->samples_lost;
    to.records_kept = from->records_kept;
    to.records_lost = from->records_lost;
    to.threads_lost = from->threads_lost;
    to.tracer_cpu_share = positive(from->tracer_cpu_share);
    to.target_probe_cpu_share = share(from->target_probe_cpu_share);
    to.probe_hits_per_s = positive(from->probe_hits_per_s);
    to.probe_floor_ns = positive(from->probe_floor_ns);
    to.end = WEIR_PROFILE_END_MARK;
    bool good = lists_out(from, &to, &arena);
    if (good) {
        weir_buffer_add(out, WEIR_PROFILE_MAGIC, WEIR_PROFILE_MAGIC_SIZE);
        weir_codec_pack(&to.base, out);
    }
    if (!good || out->failed)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to write the profile");
out:
    weir_arena_release(&arena);
    weir_buffer_release(&topology);
    return rc;
}
