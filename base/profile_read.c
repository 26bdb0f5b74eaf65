/*
 * DESIGN: the same order of steps as in topology_codec.c: unpack, copy, check. Two kinds of faults are told apart. What breaks
 * whoever reads (an index that points outside, a number that is no number, lists of the wrong length) is refused here. What is
 * only untrue (sums, conservation) is not: weir_profile_verify() says it, and a view shows it.
 */
#include <math.h>
#include <profile.pb-c.h>
#include <string.h>

#include "base/codec.h"
#include "base/profile.h"
#include "base/profile_format.h"

#define SANE_NS (366ull * 86400 * 1000000000) /* no window is longer */
#define ROWS_MOST 1000000u

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

#define COPY(field) to->field = from->field;

static void queue_count_in(const Weir__QueueCount *from, struct weir_profile_queue_count *to)
{
    if (from) {
        WEIR_QUEUE_COUNTS(COPY)
    }
}

static void way_count_in(const Weir__WayCount *from, struct weir_profile_way_count *to)
{
    if (from) {
        WEIR_WAY_COUNTS(COPY)
    }
}

static void slot_count_in(const Weir__SlotCount *from, struct weir_profile_slot_count *to)
{
    if (from) {
        WEIR_SLOT_COUNTS(COPY)
    }
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
    queue->wakeups = from->wakeups;
    queue->wakeups_unused = from->wakeups_unused;
    queue->wakeups_moved = from->wakeups_moved;
    if (!is_positive(queue->depth_items_mean) || !is_positive(queue->depth_bytes_mean))
        return "a queue has a depth that is no number";
    const char *fault = histogram_in(from->depth_items, &queue->depth_items);
    if (!fault)
        fault = histogram_in(from->depth_bytes, &queue->depth_bytes);
    if (!fault)
        fault = histogram_in(from->wait, &queue->wait);
    return fault ? fault : histogram_in(from->wakeup, &queue->wakeup);
}

static const char *way_in(const Weir__WayMeasure *from, struct weir_profile_way *way)
{
    way_count_in(from->begin, &way->begin);
    way_count_in(from->end, &way->end);
    way->backlog_limit = from->backlog_limit;
    const char *fault = histogram_in(from->in_flight, &way->in_flight);
    if (!fault)
        fault = histogram_in(from->receive_bytes, &way->receive_bytes);
    if (!fault)
        fault = histogram_in(from->send_bytes, &way->send_bytes);
    if (!fault)
        fault = histogram_in(from->round_trip, &way->round_trip);
    return fault ? fault : histogram_in(from->backlog, &way->backlog);
}

static const char *slots_in(const struct weir_topology *topology, const Weir__SlotsMeasure *from, struct weir_profile_slots *slots)
{
    if (from->stage >= topology->stage_count)
        return "slots belong to no stage";
    if (!is_positive(from->in_use_mean) || !is_positive(from->open_mean))
        return "slots have a mean that is no number";
    slots->stage = from->stage;
    slot_count_in(from->begin, &slots->begin);
    slot_count_in(from->end, &slots->end);
    slots->in_use_mean = from->in_use_mean;
    slots->open_mean = from->open_mean;
    const char *fault = histogram_in(from->in_use, &slots->in_use);
    if (!fault)
        fault = histogram_in(from->wait, &slots->wait);
    return fault ? fault : histogram_in(from->service, &slots->service);
}

static const char *states_in(const double *from, size_t count, double *state_ns)
{
    if (count != WEIR_STATE_COUNT)
        return "a pool or thread has other states than this weir knows";
    for (size_t k = 0; k < WEIR_STATE_COUNT; k++) {
        if (!is_positive(from[k]))
            return "a pool or thread has a time that is no number";
        state_ns[k] = from[k];
    }
    return NULL;
}

static const char *thread_in(const struct weir_topology *topology, const Weir__Thread *from, struct weir_profile_thread *thread)
{
    if (from->pool >= topology->pool_count)
        return "a thread belongs to no pool";
    thread->tid = from->tid;
    thread->pool = from->pool;
    thread->switches = from->switches;
    thread->preempted = from->preempted;
    return states_in(from->state_ns, from->n_state_ns, thread->state_ns);
}

static const char *sleep_in(struct weir_profile *profile, const Weir__Sleep *from, struct weir_profile_sleep *to)
{
    *to = (struct weir_profile_sleep){ .pool = from->pool, .row = from->row, .state = (enum weir_state)from->state,
        .queue = weir_codec_index_back(from->queue_1), .slots = weir_codec_index_back(from->slots_1), .ns = from->ns,
        .count = from->count };
    if (to->pool >= profile->topology.pool_count || to->row >= profile->row_count || from->state >= WEIR_STATE_COUNT ||
        (to->queue != WEIR_NONE && to->queue >= profile->topology.queue_count) ||
        (to->slots != WEIR_NONE && to->slots >= profile->slots_count))
        return "a sleep points outside of its topology";
    if (!is_positive(to->ns) || !weir_codec_text_back(&profile->arena, &from->site, NULL, &to->site))
        return "a sleep can't be read";
    return NULL;
}

static const char *neighbour_in(struct weir_profile *profile, const Weir__Neighbour *from, struct weir_profile_neighbour *to)
{
    to->pid = from->pid;
    to->cpu_ns = from->cpu_ns;
    if (!is_positive(to->cpu_ns) || !weir_codec_text_back(&profile->arena, &from->name, "", &to->name))
        return "a neighbour can't be read";
    return NULL;
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
    if (from->kind > WEIR_TARGET_MARKED || from->mode > WEIR_MODE_COUNTERS)
        return "its kind or mode is unknown";
    if (from->duration_ns > SANE_NS || !is_positive(from->tracer_cpu_share) || !is_share(from->target_probe_cpu_share) ||
        !is_positive(from->probe_hits_per_s) || !is_positive(from->machine_busy_ns) || !is_positive(from->machine_steal_ns) || !is_positive(from->probe_floor_ns))
        return "its window or its overhead can't be";
    profile->pid = from->pid;
    profile->kind = (enum weir_target_kind)from->kind;
    profile->cpus = from->cpus;
    profile->mode = (enum weir_mode)from->mode;
    profile->start_unix_ns = from->start_unix_ns;
    profile->duration_ns = from->duration_ns;
    profile->cpu_ns = from->cpu_ns;
    profile->machine_busy_ns = from->machine_busy_ns;
    profile->machine_steal_ns = from->machine_steal_ns;
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
        !WEIR_CODEC_ARRAY(arena, profile->slices, from->n_slices) || !WEIR_CODEC_ARRAY(arena, profile->slots, from->n_slots) ||
        !WEIR_CODEC_ARRAY(arena, profile->threads, from->n_threads) || !WEIR_CODEC_ARRAY(arena, profile->sleeps, from->n_sleeps) ||
        !WEIR_CODEC_ARRAY(arena, profile->neighbours, from->n_neighbours))
        return "it asks for too much memory";
    profile->row_count = (uint32_t)from->n_rows;
    profile->edge_count = (uint32_t)from->n_edges;
    profile->stack_count = (uint32_t)from->n_stacks;
    profile->slice_count = (uint32_t)from->n_slices;
    profile->slots_count = (uint32_t)from->n_slots;
    profile->thread_count = (uint32_t)from->n_threads;
    profile->sleep_count = (uint32_t)from->n_sleeps;
    profile->neighbour_count = (uint32_t)from->n_neighbours;
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
    for (size_t i = 0; !fault && i < from->n_ways; i++)
        fault = way_in(from->ways[i], &profile->ways[i]);
    for (size_t i = 0; !fault && i < from->n_slots; i++)
        fault = slots_in(&profile->topology, from->slots[i], &profile->slots[i]);
    for (size_t i = 0; !fault && i < from->n_threads; i++)
        fault = thread_in(&profile->topology, from->threads[i], &profile->threads[i]);
    for (size_t i = 0; !fault && i < from->n_sleeps; i++)
        fault = sleep_in(profile, from->sleeps[i], &profile->sleeps[i]);
    for (size_t i = 0; !fault && i < from->n_neighbours; i++)
        fault = neighbour_in(profile, from->neighbours[i], &profile->neighbours[i]);
    for (size_t i = 0; !fault && i < from->n_edges; i++) {
        const Weir__Edge *edge = from->edges[i];
        if (edge->from >= profile->topology.stage_count || edge->to >= profile->topology.stage_count)
            fault = "an edge leads outside of its topology";
        profile->edges[i] = (struct weir_profile_edge){ edge->from, edge->to, edge->items, edge->bytes, edge->events };
    }
    for (size_t i = 0; !fault && i < from->n_pools; i++) {
        profile->pools[i].threads = from->pools[i]->threads;
        fault = states_in(from->pools[i]->state_ns, from->pools[i]->n_state_ns, profile->pools[i].state_ns);
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
    if (message->end != WEIR_PROFILE_END_MARK)
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
    if (size < WEIR_PROFILE_MAGIC_SIZE || memcmp(data, WEIR_PROFILE_MAGIC, WEIR_PROFILE_MAGIC_SIZE) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "this is not a profile: `weir record` makes one");
    struct weir_arena scratch;
    weir_arena_init(&scratch, 1 << 16, weir_codec_limit(size));
    ProtobufCAllocator allocator = WEIR_CODEC_ALLOCATOR(&scratch);
    const Weir__Profile *message =
        weir__profile__unpack(&allocator, size - WEIR_PROFILE_MAGIC_SIZE, (const uint8_t *)data + WEIR_PROFILE_MAGIC_SIZE);
    /* A histogram of no entry is a few bytes in the file and 5 KiB here: the limit counts for what is kept, too. */
    size_t limit = profile->arena.limit_bytes;
    profile->arena.limit_bytes = ((size_t)64 << 20) + weir_codec_limit(size);
    int rc = message ? read_message(profile, message, error)
                     : weir_error_set(error, WEIR_EXIT_USAGE, EPROTO, "the profile is cut short or damaged: record it again");
    profile->arena.limit_bytes = limit;
    weir_arena_release(&scratch);
    return rc;
}
