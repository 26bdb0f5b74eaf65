/*
 * DESIGN: the same order of steps as in topology_codec.c: unpack, copy, check. Two kinds of faults are told apart. What breaks
 * whoever reads (an index that points outside, a number that is no number, lists of the wrong length) is refused here. What is
 * only untrue (sums, conservation) is not: weir_profile_verify() says it, and a view shows it.
 *
 * A row's share outside of 0 to 1 would be refused on reading, so writing clamps it; verify() has named it by then.
 */
#include <math.h>
#include <profile.pb-c.h>
#include <string.h>

#include "base/codec.h"
#include "base/profile.h"

#define MAGIC "weirprof"
#define MAGIC_SIZE 8u
#define END_MARK 0x72696577u
#define SANE_NS (366ull * 86400 * 1000000000) /* no window is longer */
#define ROWS_MOST 1000000u

/* --- writing ---------------------------------------------------------------------------------------------------------------- */

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

static void queue_count_out(const struct weir_profile_queue_count *from, Weir__QueueCount *to)
{
    to->in = from->in;
    to->out = from->out;
    to->dropped = from->dropped;
    to->rejected = from->rejected;
    to->queued = from->queued;
    to->queued_bytes = from->queued_bytes;
    to->parked = from->parked;
    to->in_bytes = from->in_bytes;
}

static void way_count_out(const struct weir_profile_way_count *from, Weir__WayCount *to)
{
    to->accepted = from->accepted;
    to->answered = from->answered;
    to->abandoned = from->abandoned;
    to->discarded = from->discarded;
    to->in_flight = from->in_flight;
    to->accepted_bytes = from->accepted_bytes;
    to->malformed = from->malformed;
    to->bad_lengths = from->bad_lengths;
    to->connections = from->connections;
    to->opened = from->opened;
    to->events = from->events;
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
    return true;
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
        double *states = weir_arena_alloc(arena, WEIR_STATE_COUNT * sizeof *states);
        good = states != NULL;
        for (unsigned k = 0; good && k < WEIR_STATE_COUNT; k++)
            states[k] = positive(from->pools[i].state_ns[k]);
        to->pools[i]->threads = from->pools[i].threads;
        to->pools[i]->state_ns = states;
        to->pools[i]->n_state_ns = WEIR_STATE_COUNT;
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
    to.end = END_MARK;
    bool good = lists_out(from, &to, &arena);
    if (good) {
        weir_buffer_add(out, MAGIC, MAGIC_SIZE);
        weir_codec_pack(&to.base, out);
    }
    if (!good || out->failed)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to write the profile");
out:
    weir_arena_release(&arena);
    weir_buffer_release(&topology);
    return rc;
}

/* --- reading ---------------------------------------------------------------------------------------------------------------- */

/* Each of these returns what is wrong, or null. */

static bool is_share(double value)
{
    return isfinite(value) && value >= 0 && value <= 1;
}

static bool is_positive(double value)
{
    return isfinite(value) && value >= 0;
}

static const char *histogram_in(const Weir__Histogram *from, struct weir_histogram *to)
{
    if (!from)
        return NULL;
    if (from->n_bucket != from->n_weight || !is_positive(from->sum) || from->min > from->max)
        return "a histogram doesn't fit its counts";
    uint64_t total = 0;
    for (size_t i = 0; i < from->n_bucket; i++) {
        if (from->bucket[i] >= WEIR_HISTOGRAM_BUCKETS || (i && from->bucket[i] <= from->bucket[i - 1]) || !from->weight[i] ||
            __builtin_add_overflow(total, from->weight[i], &total))
            return "a histogram has buckets that can't be";
        to->buckets[from->bucket[i]] = from->weight[i];
    }
    if (total != from->count)
        return "a histogram doesn't fit its counts";
    to->count = from->count;
    to->sum = from->sum;
    to->min = from->min;
    to->max = from->max;
    return NULL;
}

static void queue_count_in(const Weir__QueueCount *from, struct weir_profile_queue_count *to)
{
    if (from)
        *to = (struct weir_profile_queue_count){ .in = from->in, .out = from->out, .dropped = from->dropped,
            .rejected = from->rejected, .queued = from->queued, .queued_bytes = from->queued_bytes, .parked = from->parked,
            .in_bytes = from->in_bytes };
}

static void way_count_in(const Weir__WayCount *from, struct weir_profile_way_count *to)
{
    if (from)
        *to = (struct weir_profile_way_count){ .accepted = from->accepted, .answered = from->answered,
            .abandoned = from->abandoned, .discarded = from->discarded, .in_flight = from->in_flight,
            .accepted_bytes = from->accepted_bytes, .malformed = from->malformed, .bad_lengths = from->bad_lengths,
            .connections = from->connections, .opened = from->opened, .events = from->events };
}

static const char *row_in(struct weir_profile *profile, const Weir__Row *from, uint32_t index)
{
    const struct weir_topology *topology = &profile->topology;
    struct weir_profile_row *row = &profile->rows[index];
    *row = (struct weir_profile_row){
        .part_of = weir_codec_index_back(from->part_of_1), .stage = weir_codec_index_back(from->stage_1),
        .part = (enum weir_part)from->part, .way = weir_codec_index_back(from->way_1),
        .pool = weir_codec_index_back(from->pool_1), .cpu_ns = from->cpu_ns, .share = from->share, .share_low = from->share_low,
        .share_high = from->share_high, .samples = from->samples, .items = from->items, .events = from->events,
        .stamped = from->stamped, .own_cpu_ns = from->own_cpu_ns,
    };
    if ((row->part_of != WEIR_NONE && row->part_of >= index) || (row->stage != WEIR_NONE && row->stage >= topology->stage_count) ||
        from->part > WEIR_PART_POP || (row->way != WEIR_NONE && row->way >= topology->way_count) ||
        (row->pool != WEIR_NONE && row->pool >= topology->pool_count))
        return "a row points outside of its topology";
    if (!is_positive(row->cpu_ns) || !is_share(row->share) || !is_share(row->share_low) || !is_share(row->share_high))
        return "a row has a share that is not between 0 and 1";
    if (!weir_codec_text_back(&profile->arena, &from->name, "", &row->name))
        return "a row has a name that can't be read";
    if (from->service) {
        row->service = weir_arena_zalloc(&profile->arena, sizeof *row->service);
        const char *fault = row->service ? histogram_in(from->service, row->service) : "it asks for too much memory";
        if (fault)
            return fault;
    }
    if (!WEIR_CODEC_ARRAY(&profile->arena, row->hot, from->n_hot))
        return "it asks for too much memory";
    row->hot_count = (uint32_t)from->n_hot;
    for (size_t i = 0; i < from->n_hot; i++) {
        row->hot[i].samples = from->hot[i]->samples;
        row->hot[i].share = from->hot[i]->share;
        if (!is_share(row->hot[i].share) || !weir_codec_text_back(&profile->arena, &from->hot[i]->symbol, "", &row->hot[i].symbol))
            return "a hot function can't be read";
    }
    return NULL;
}

static const char *queue_in(const Weir__QueueMeasure *from, struct weir_profile_queue *queue)
{
    queue_count_in(from->begin, &queue->begin);
    queue_count_in(from->end, &queue->end);
    queue->depth_items_mean = from->depth_items_mean;
    queue->depth_bytes_mean = from->depth_bytes_mean;
    queue->unstamped = from->unstamped;
    if (!is_positive(queue->depth_items_mean) || !is_positive(queue->depth_bytes_mean))
        return "a queue has a depth that is no number";
    const char *fault = histogram_in(from->depth_items, &queue->depth_items);
    if (!fault)
        fault = histogram_in(from->depth_bytes, &queue->depth_bytes);
    if (!fault)
        fault = histogram_in(from->wait, &queue->wait);
    return fault ? fault : histogram_in(from->wakeup, &queue->wakeup);
}

static const char *slice_in(struct weir_profile *profile, const Weir__Slice *from, struct weir_profile_slice *slice)
{
    size_t rows = profile->row_count, queues = profile->topology.queue_count;
    if (from->n_row_cpu_ns != rows || from->n_row_samples != rows || from->n_row_items != rows || from->n_queues != queues)
        return "a slice doesn't fit its rows and queues";
    if (from->start_ns > SANE_NS || from->duration_ns > SANE_NS)
        return "a slice has a time that can't be";
    slice->start_ns = from->start_ns;
    slice->duration_ns = from->duration_ns;
    if (!WEIR_CODEC_ARRAY(&profile->arena, slice->row_cpu_ns, rows) || !WEIR_CODEC_ARRAY(&profile->arena, slice->row_samples, rows) ||
        !WEIR_CODEC_ARRAY(&profile->arena, slice->row_items, rows) || !WEIR_CODEC_ARRAY(&profile->arena, slice->queues, queues))
        return "it asks for too much memory";
    for (size_t i = 0; i < rows; i++) {
        if (!is_positive(from->row_cpu_ns[i]))
            return "a slice has a time that is no number";
        slice->row_cpu_ns[i] = from->row_cpu_ns[i];
        slice->row_samples[i] = from->row_samples[i];
        slice->row_items[i] = from->row_items[i];
    }
    for (size_t i = 0; i < queues; i++)
        queue_count_in(from->queues[i], &slice->queues[i]);
    return NULL;
}

static const char *stack_in(struct weir_profile *profile, const Weir__Stack *from, struct weir_profile_stack *stack)
{
    *stack = (struct weir_profile_stack){ .row = from->row, .samples = from->samples, .frame_count = (uint32_t)from->n_frames };
    if (from->row >= profile->row_count)
        return "a stack belongs to no row";
    if (!WEIR_CODEC_ARRAY(&profile->arena, stack->frames, from->n_frames))
        return "it asks for too much memory";
    for (size_t i = 0; i < from->n_frames; i++) {
        if (from->frames[i] >= profile->symbol_count)
            return "a stack has a frame without a symbol";
        stack->frames[i] = from->frames[i];
    }
    return NULL;
}

static const char *texts_in(struct weir_arena *arena, const ProtobufCBinaryData *from, size_t count, const char ***list, uint32_t *n)
{
    if (!WEIR_CODEC_ARRAY(arena, *list, count))
        return "it asks for too much memory";
    for (size_t i = 0; i < count; i++)
        if (!weir_codec_text_back(arena, &from[i], "", &(*list)[i]))
            return "one of its texts can't be read";
    *n = (uint32_t)count;
    return NULL;
}

static const char *head_in(struct weir_profile *profile, const Weir__Profile *from)
{
    if (from->kind > WEIR_TARGET_MARKED || from->mode > WEIR_MODE_EXACT)
        return "its kind or mode is unknown";
    if (from->duration_ns > SANE_NS || !is_positive(from->tracer_cpu_share) || !is_share(from->target_probe_cpu_share) ||
        !is_positive(from->probe_hits_per_s) || !is_positive(from->probe_floor_ns))
        return "its window or its overhead can't be";
    profile->pid = from->pid;
    profile->kind = (enum weir_target_kind)from->kind;
    profile->cpus = from->cpus;
    profile->mode = (enum weir_mode)from->mode;
    profile->start_unix_ns = from->start_unix_ns;
    profile->duration_ns = from->duration_ns;
    profile->cpu_ns = from->cpu_ns;
    profile->sample_period_ns = from->sample_period_ns;
    profile->samples_kept = from->samples_kept;
    profile->samples_lost = from->samples_lost;
    profile->records_kept = from->records_kept;
    profile->records_lost = from->records_lost;
    profile->threads_lost = from->threads_lost;
    profile->tracer_cpu_share = from->tracer_cpu_share;
    profile->target_probe_cpu_share = from->target_probe_cpu_share;
    profile->probe_hits_per_s = from->probe_hits_per_s;
    profile->probe_floor_ns = from->probe_floor_ns;
    if (!weir_codec_text_back(&profile->arena, &from->exe, "", &profile->exe) ||
        !weir_codec_text_back(&profile->arena, &from->kernel, "", &profile->kernel) ||
        !weir_codec_text_back(&profile->arena, &from->ended_by, "", &profile->ended_by))
        return "one of its texts can't be read";
    return NULL;
}

static const char *sizes_in(struct weir_profile *profile, const Weir__Profile *from)
{
    const struct weir_topology *topology = &profile->topology;
    if (from->n_queues != topology->queue_count || from->n_ways != topology->way_count || from->n_pools != topology->pool_count)
        return "it has other queues, ways in or pools than its topology";
    if (from->n_rows > ROWS_MOST)
        return "it has too many rows";
    struct weir_arena *arena = &profile->arena;
    if (!WEIR_CODEC_ARRAY(arena, profile->rows, from->n_rows) || !WEIR_CODEC_ARRAY(arena, profile->queues, from->n_queues) ||
        !WEIR_CODEC_ARRAY(arena, profile->ways, from->n_ways) || !WEIR_CODEC_ARRAY(arena, profile->edges, from->n_edges) ||
        !WEIR_CODEC_ARRAY(arena, profile->pools, from->n_pools) || !WEIR_CODEC_ARRAY(arena, profile->stacks, from->n_stacks) ||
        !WEIR_CODEC_ARRAY(arena, profile->slices, from->n_slices))
        return "it asks for too much memory";
    profile->row_count = (uint32_t)from->n_rows;
    profile->edge_count = (uint32_t)from->n_edges;
    profile->stack_count = (uint32_t)from->n_stacks;
    profile->slice_count = (uint32_t)from->n_slices;
    return NULL;
}

static const char *lists_in(struct weir_profile *profile, const Weir__Profile *from)
{
    const char *fault = sizes_in(profile, from);
    if (!fault)
        fault = texts_in(&profile->arena, from->symbols, from->n_symbols, &profile->symbols, &profile->symbol_count);
    if (!fault)
        fault = texts_in(&profile->arena, from->violations, from->n_violations, &profile->violations, &profile->violation_count);
    for (uint32_t i = 0; !fault && i < from->n_rows; i++)
        fault = row_in(profile, from->rows[i], i);
    for (size_t i = 0; !fault && i < from->n_queues; i++)
        fault = queue_in(from->queues[i], &profile->queues[i]);
    for (size_t i = 0; !fault && i < from->n_ways; i++) {
        way_count_in(from->ways[i]->begin, &profile->ways[i].begin);
        way_count_in(from->ways[i]->end, &profile->ways[i].end);
    }
    for (size_t i = 0; !fault && i < from->n_edges; i++) {
        const Weir__Edge *edge = from->edges[i];
        if (edge->from >= profile->topology.stage_count || edge->to >= profile->topology.stage_count)
            fault = "an edge leads outside of its topology";
        profile->edges[i] = (struct weir_profile_edge){ edge->from, edge->to, edge->items, edge->bytes, edge->events };
    }
    for (size_t i = 0; !fault && i < from->n_pools; i++) {
        profile->pools[i].threads = from->pools[i]->threads;
        if (from->pools[i]->n_state_ns != WEIR_STATE_COUNT)
            fault = "a pool has other states than this weir knows";
        for (size_t k = 0; !fault && k < WEIR_STATE_COUNT; k++) {
            profile->pools[i].state_ns[k] = from->pools[i]->state_ns[k];
            if (!is_positive(profile->pools[i].state_ns[k]))
                fault = "a pool has a time that is no number";
        }
    }
    for (size_t i = 0; !fault && i < from->n_stacks; i++)
        fault = stack_in(profile, from->stacks[i], &profile->stacks[i]);
    for (size_t i = 0; !fault && i < from->n_slices; i++)
        fault = slice_in(profile, from->slices[i], &profile->slices[i]);
    return fault;
}

static int read_message(struct weir_profile *profile, const Weir__Profile *message, struct weir_error *error)
{
    if (message->version != WEIR_PROFILE_VERSION)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO,
                              "the profile has version %u, but this weir reads version %u: read it with the weir that recorded it",
                              message->version, WEIR_PROFILE_VERSION);
    if (message->end != END_MARK)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the profile is cut short: record it again");
    int rc = weir_topology_read(&profile->topology, &profile->arena, message->topology.data, message->topology.len, error);
    if (rc)
        return rc;
    const char *fault = head_in(profile, message);
    if (!fault)
        fault = lists_in(profile, message);
    if (fault)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the profile is damaged: %s", fault);
    return 0;
}

int weir_profile_read(struct weir_profile *profile, const void *data, size_t size, struct weir_error *error)
{
    if (size < MAGIC_SIZE || memcmp(data, MAGIC, MAGIC_SIZE) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "this is not a profile: `weir record` makes one");
    struct weir_arena scratch;
    weir_arena_init(&scratch, 1 << 16, weir_codec_limit(size));
    ProtobufCAllocator allocator = WEIR_CODEC_ALLOCATOR(&scratch);
    const Weir__Profile *message =
        weir__profile__unpack(&allocator, size - MAGIC_SIZE, (const uint8_t *)data + MAGIC_SIZE);
    /* A histogram of no entry is a few bytes in the file and 5 KiB here: the limit counts for what is kept, too. */
    size_t limit = profile->arena.limit_bytes;
    profile->arena.limit_bytes = ((size_t)64 << 20) + weir_codec_limit(size);
    int rc = message ? read_message(profile, message, error)
                     : weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the profile is cut short or damaged: record it again");
    profile->arena.limit_bytes = limit;
    weir_arena_release(&scratch);
    return rc;
}
