/*
 * sample: made-up profiles for tests of the codec, the views and the check. Their figures are invented, but consistent: shares
 * sum to 1, states to the threads' time, and both conservation laws hold.
 *
 * Units: as base/profile.h.
 * Owns: each profile is the caller's, weir_profile_free().
 * Threads: any.
 * Errors: none; memory that is missing ends the test.
 */
#ifndef WEIR_TESTS_SAMPLE_H
#define WEIR_TESTS_SAMPLE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/profile.h"

#define SAMPLE_MOST 256u

struct sample {
    struct weir_profile *profile;
    uint64_t messages; /* in the window, per pipeline */
};

static inline void *sample_zalloc(struct weir_profile *profile, size_t size)
{
    void *piece = weir_arena_zalloc(&profile->arena, size);
    if (!piece)
        abort();
    return piece;
}

static inline const char *sample_text(struct weir_profile *profile, const char *a, const char *b, const char *c)
{
    return weir_arena_printf(&profile->arena, "%s%s%s", a, b, c);
}

static inline struct sample sample_begin(const char *name)
{
    struct weir_profile *profile = weir_profile_new();
    struct weir_topology *topology = &profile->topology;
    topology->name = name;
    topology->pools = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->pools);
    topology->pipelines = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->pipelines);
    topology->stages = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->stages);
    topology->queues = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->queues);
    topology->ways = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->ways);
    topology->instances = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->instances);
    topology->expectations = sample_zalloc(profile, SAMPLE_MOST * sizeof *topology->expectations);
    profile->rows = sample_zalloc(profile, SAMPLE_MOST * sizeof *profile->rows);
    profile->queues = sample_zalloc(profile, SAMPLE_MOST * sizeof *profile->queues);
    profile->ways = sample_zalloc(profile, SAMPLE_MOST * sizeof *profile->ways);
    profile->edges = sample_zalloc(profile, SAMPLE_MOST * sizeof *profile->edges);
    profile->pools = sample_zalloc(profile, SAMPLE_MOST * sizeof *profile->pools);
    profile->pid = 4711;
    profile->exe = "/tmp/riemann";
    profile->kernel = "6.18.44";
    profile->cpus = 2;
    profile->ended_by = "duration";
    profile->start_unix_ns = 1795000000000000000ull;
    profile->duration_ns = 10000000000ull;
    profile->cpu_ns = 18000000000ull;
    profile->sample_period_ns = 2857142;
    return (struct sample){ .profile = profile, .messages = 121000 };
}

static inline uint32_t sample_pool(struct sample *sample, const char *name, uint32_t threads, bool listens)
{
    struct weir_topology *topology = &sample->profile->topology;
    topology->pools[topology->pool_count] = (struct weir_topology_pool){ .name = name, .threads = threads, .listens = listens };
    return topology->pool_count++;
}

static inline uint32_t sample_pipeline(struct sample *sample, const char *name)
{
    struct weir_topology *topology = &sample->profile->topology;
    topology->pipelines[topology->pipeline_count] =
        (struct weir_topology_pipeline){ .name = name, .first_stage = topology->stage_count, .way = WEIR_NONE };
    return topology->pipeline_count++;
}

static inline void sample_queue(struct sample *sample, uint32_t stage, enum weir_queue_kind kind, uint32_t from, uint32_t to,
                                enum weir_sized sized)
{
    struct weir_topology *topology = &sample->profile->topology;
    topology->queues[topology->queue_count] = (struct weir_topology_queue){
        .name = topology->stages[stage].full_name, .kind = kind, .stage = stage, .from_pool = from, .to_pool = to,
        .limit_bytes = 64u << 20, .limit_items = kind == WEIR_QUEUE_REPLY ? 1024 : 262144, .sized = sized,
    };
    topology->stages[stage].queue = topology->queue_count++;
}

/* Appends a stage to the newest pipeline. Of a handoff `to` is the pool that takes; of a reply the pool that finishes. */
static inline uint32_t sample_stage(struct sample *sample, enum weir_verb_kind verb, const char *name, uint32_t pool, uint32_t to)
{
    struct weir_profile *profile = sample->profile;
    struct weir_topology *topology = &profile->topology;
    uint32_t index = topology->stage_count++, pipeline = topology->pipeline_count - 1;
    struct weir_topology_pipeline *home = &topology->pipelines[pipeline];
    home->stage_count++;
    topology->stages[index] = (struct weir_topology_stage){
        .name = name, .full_name = sample_text(profile, home->name, ".", name), .verb = verb, .pipeline = pipeline, .pool = pool,
        .finish_pool = verb == WEIR_REPLY ? to : pool, .queue = WEIR_NONE, .target = WEIR_NONE,
        .max_bytes = verb == WEIR_FRAME ? 16u << 20 : 0,
    };
    if (verb == WEIR_LISTEN) {
        topology->stages[index].address = "127.0.0.1:5555";
        home->way = topology->way_count;
        topology->ways[topology->way_count++] =
            (struct weir_topology_way){ .name = home->name, .pipeline = pipeline, .listen_stage = index, .replies = true };
    }
    if (verb == WEIR_HANDOFF)
        sample_queue(sample, index, WEIR_QUEUE_HANDOFF, pool, to, WEIR_SIZED_BYTES);
    if (verb == WEIR_REPLY)
        sample_queue(sample, index, WEIR_QUEUE_REPLY, to, pool, WEIR_SIZED_BYTES);
    topology->instances[topology->instance_count++] =
        (struct weir_topology_instance){ .name = topology->stages[index].full_name, .stage = index, .way = home->way };
    return index;
}

/* Values around `median`, one in fifty of them `tail` times as large. */
static inline void sample_histogram(struct weir_histogram *histogram, double median, double tail, uint64_t count)
{
    for (unsigned i = 0; i < 200; i++) {
        double value = median * (0.6 + i / 250.0) * (i % 50 == 49 ? tail : 1);
        weir_histogram_add(histogram, (uint64_t)value, count / 200);
    }
}

static inline struct weir_profile_row *sample_row(struct sample *sample, uint32_t stage, enum weir_part part, uint32_t part_of,
                                                  const char *name, double share)
{
    struct weir_profile *profile = sample->profile;
    struct weir_profile_row *row = &profile->rows[profile->row_count++];
    *row = (struct weir_profile_row){
        .name = name, .part_of = part_of, .stage = stage, .part = part, .way = WEIR_NONE,
        .pool = stage == WEIR_NONE ? WEIR_NONE : profile->topology.stages[stage].pool,
        .share = share, .cpu_ns = share * (double)profile->cpu_ns, .samples = (uint64_t)(share * 4212),
    };
    row->share_low = share > 0.006 ? share - 0.006 : 0;
    row->share_high = share < 0.994 ? share + 0.006 : 1;
    if (stage != WEIR_NONE && part == WEIR_PART_NONE) {
        row->items = row->stamped = sample->messages;
        row->events = profile->topology.stages[stage].verb == WEIR_DECODE ? sample->messages * 100 : 0;
        row->service = sample_zalloc(profile, sizeof *row->service);
        sample_histogram(row->service, 200 + row->cpu_ns / (double)sample->messages, 10, 12000);
    }
    return row;
}

/* A stage's row with its parts; a part below 0 has no row. */
static inline uint32_t sample_measure(struct sample *sample, uint32_t stage, double share, double size, double push, double pop)
{
    struct weir_profile *profile = sample->profile;
    const char *name = profile->topology.stages[stage].full_name;
    uint32_t row = profile->row_count;
    sample_row(sample, stage, WEIR_PART_NONE, WEIR_NONE, name, share);
    const double parts[] = { 0, size, push, pop };
    for (unsigned part = WEIR_PART_SIZE; part <= WEIR_PART_POP; part++)
        if (parts[part] >= 0)
            sample_row(sample, stage, (enum weir_part)part, row, sample_text(profile, name, ".", weir_part_name((enum weir_part)part)),
                       parts[part]);
    return row;
}

static inline void sample_hot(struct sample *sample, uint32_t row, const char *symbol, double share)
{
    struct weir_profile_row *to = &sample->profile->rows[row];
    if (!to->hot)
        to->hot = sample_zalloc(sample->profile, 8 * sizeof *to->hot);
    to->hot[to->hot_count++] =
        (struct weir_profile_hot){ .symbol = symbol, .samples = (uint64_t)(share * 4212), .share = share };
}

/* What the queue of `stage` showed: mean depth, wait and wakeup medians. */
static inline void sample_flow(struct sample *sample, uint32_t stage, double depth_items, double depth_bytes, double wait_ns,
                               double wakeup_ns)
{
    struct weir_profile_queue *queue = &sample->profile->queues[sample->profile->topology.stages[stage].queue];
    uint64_t n = sample->messages, queued = (uint64_t)depth_items;
    queue->begin = (struct weir_profile_queue_count){ .in = 5000, .out = 5000, .in_bytes = 57500000 };
    queue->end = (struct weir_profile_queue_count){ .in = 5000 + n, .out = 5000 + n - queued, .queued = queued,
        .queued_bytes = (uint64_t)depth_bytes, .in_bytes = 57500000 + n * 11500 };
    queue->depth_items_mean = depth_items;
    queue->depth_bytes_mean = depth_bytes;
    sample_histogram(&queue->depth_items, depth_items, 3, sample->profile->duration_ns);
    sample_histogram(&queue->depth_bytes, depth_bytes, 3, sample->profile->duration_ns);
    sample_histogram(&queue->wait, wait_ns, 20, n);
    sample_histogram(&queue->wakeup, wakeup_ns, 4, n / 10);
}

/* `running` and `second` are shares of the pool's thread time; the rest is idle. */
static inline void sample_states(struct sample *sample, uint32_t pool, double running, enum weir_state state, double second)
{
    struct weir_profile *profile = sample->profile;
    profile->pools[pool].threads = profile->topology.pools[pool].threads;
    double whole = (double)profile->duration_ns * profile->topology.pools[pool].threads;
    profile->pools[pool].state_ns[WEIR_STATE_RUNNING] += running * whole;
    profile->pools[pool].state_ns[state] += second * whole;
    profile->pools[pool].state_ns[WEIR_STATE_IDLE] += (1 - running - second) * whole;
}

static inline void sample_slices(struct weir_profile *profile)
{
    uint32_t rows = profile->row_count, queues = profile->topology.queue_count;
    profile->slice_count = (uint32_t)(profile->duration_ns / WEIR_PROFILE_SLICE_NS);
    profile->slices = sample_zalloc(profile, (profile->slice_count + 1) * sizeof *profile->slices);
    for (uint32_t i = 0; i < profile->slice_count; i++) {
        struct weir_profile_slice *slice = &profile->slices[i];
        slice->start_ns = i * WEIR_PROFILE_SLICE_NS;
        slice->duration_ns = WEIR_PROFILE_SLICE_NS;
        slice->row_cpu_ns = sample_zalloc(profile, (rows + 1) * sizeof *slice->row_cpu_ns);
        slice->row_samples = sample_zalloc(profile, (rows + 1) * sizeof *slice->row_samples);
        slice->row_items = sample_zalloc(profile, (rows + 1) * sizeof *slice->row_items);
        slice->queues = sample_zalloc(profile, (queues + 1) * sizeof *slice->queues);
        double part = (1 + 0.1 * ((int)(i * 7 % 11) - 5) / 5.0) / profile->slice_count; /* 10 % up and down */
        for (uint32_t r = 0; r < rows; r++) {
            slice->row_cpu_ns[r] = profile->rows[r].cpu_ns * part;
            slice->row_samples[r] = (uint64_t)((double)profile->rows[r].samples * part);
            slice->row_items[r] = (uint64_t)((double)profile->rows[r].items * part);
        }
        for (uint32_t q = 0; q < queues; q++)
            slice->queues[q] = profile->queues[q].end;
    }
}

/* Edges between neighbours, the ways in, "(runtime)" with what is left of 1, slices, sums. */
static inline struct weir_profile *sample_end(struct sample *sample)
{
    struct weir_profile *profile = sample->profile;
    struct weir_topology *topology = &profile->topology;
    double total = 0;
    uint64_t n = sample->messages;
    for (uint32_t i = 0; i + 1 < topology->stage_count; i++)
        if (topology->stages[i].pipeline == topology->stages[i + 1].pipeline)
            profile->edges[profile->edge_count++] =
                (struct weir_profile_edge){ .from = i, .to = i + 1, .items = n, .bytes = n * 11500, .events = n * 100 };
    for (uint32_t i = 0; i < topology->way_count; i++) {
        profile->ways[i].begin = (struct weir_profile_way_count){ .accepted = 5000, .answered = 5000, .connections = 2, .opened = 2,
            .events = 500000 };
        profile->ways[i].end = (struct weir_profile_way_count){ .accepted = 5000 + n, .answered = 5000 + n - 64, .in_flight = 64,
            .connections = 2, .opened = 2, .accepted_bytes = n * 11500, .events = 500000 + n * 100 };
    }
    for (uint32_t i = 0; i < profile->row_count; i++)
        total += profile->rows[i].part_of == WEIR_NONE ? profile->rows[i].share : 0;
    double rest = total < 1 ? 1 - total : 0;
    sample_row(sample, WEIR_NONE, WEIR_PART_NONE, WEIR_NONE, "(runtime)", rest * 0.7);
    sample_row(sample, WEIR_NONE, WEIR_PART_NONE, WEIR_NONE, "(tracing)", rest * 0.3);
    sample_row(sample, WEIR_NONE, WEIR_PART_NONE, WEIR_NONE, "(outside)", 0);
    sample_slices(profile);
    profile->samples_kept = 4212;
    profile->records_kept = 12100;
    profile->tracer_cpu_share = 0.006;
    profile->target_probe_cpu_share = rest * 0.3;
    profile->probe_hits_per_s = 812;
    profile->probe_floor_ns = 31;
    weir_profile_verify(profile);
    return profile;
}

static inline void sample_expect(struct sample *sample, const char *text, struct weir_topology_term term)
{
    struct weir_topology *topology = &sample->profile->topology;
    struct weir_topology_expectation *expectation = &topology->expectations[topology->expectation_count++];
    expectation->text = text;
    expectation->terms = sample_zalloc(sample->profile, sizeof term);
    expectation->terms[0] = term;
    expectation->term_count = 1;
}

/* Story B, as it was: decoded objects cross the handoff, sized by reflection. */
static inline struct weir_profile *sample_before(void)
{
    struct sample sample = sample_begin("riemann-before");
    uint32_t io = sample_pool(&sample, "io", 1, true), workers = sample_pool(&sample, "workers", 2, false);
    sample_pipeline(&sample, "riemann");
    uint32_t listen = sample_stage(&sample, WEIR_LISTEN, "listen", io, WEIR_NONE);
    uint32_t frame = sample_stage(&sample, WEIR_FRAME, "frame", io, WEIR_NONE);
    uint32_t decode = sample_stage(&sample, WEIR_DECODE, "decode", io, WEIR_NONE);
    uint32_t handoff = sample_stage(&sample, WEIR_HANDOFF, "handoff", io, workers);
    uint32_t index = sample_stage(&sample, WEIR_INDEX, "index", workers, WEIR_NONE);
    uint32_t encode = sample_stage(&sample, WEIR_ENCODE, "encode", workers, WEIR_NONE);
    uint32_t reply = sample_stage(&sample, WEIR_REPLY, "reply", io, workers);
    sample.profile->topology.queues[0].sized = WEIR_SIZED_REFLECT;
    sample_measure(&sample, listen, 0.060, -1, -1, -1);
    sample_measure(&sample, frame, 0.010, -1, -1, -1);
    uint32_t row = sample_measure(&sample, decode, 0.310, -1, -1, -1);
    sample_hot(&sample, row, "weir_riemann_decode_event", 0.212);
    sample_hot(&sample, row, "weir_arena_alloc", 0.061);
    row = sample_measure(&sample, handoff, 0.401, 0.382, 0.011, 0.008);
    for (uint32_t i = row; i <= row + 1; i++) { /* the whole, and its size */
        sample_hot(&sample, i, "reflect_message", 0.290);
        sample_hot(&sample, i, "protobuf_c_message_descriptor_get_field", 0.083);
    }
    row = sample_measure(&sample, index, 0.120, -1, -1, -1);
    sample_hot(&sample, row, "weir_index_put", 0.084);
    sample_measure(&sample, encode, 0.015, -1, -1, -1);
    sample_measure(&sample, reply, 0.042, -1, 0.006, 0.003);
    sample_flow(&sample, handoff, 12, 7.6 * 1048576, 41000, 7000);
    sample_flow(&sample, reply, 1, 14, 9000, 6000);
    sample_states(&sample, io, 0.97, WEIR_STATE_RUNNABLE, 0.03);
    sample_states(&sample, workers, 0.41, WEIR_STATE_LOCK, 0.01);
    sample_expect(&sample, "cpu(riemann.handoff) < 5%",
                  (struct weir_topology_term){ .metric = WEIR_METRIC_CPU, .pool = WEIR_NONE, .pipeline = WEIR_NONE, .stage = handoff,
                                               .comparison = WEIR_LT, .value = 0.05, .unit = WEIR_SHARE });
    sample_expect(&sample, "wait(riemann.handoff) p99 < 20ms",
                  (struct weir_topology_term){ .metric = WEIR_METRIC_WAIT, .pool = WEIR_NONE, .pipeline = WEIR_NONE, .stage = handoff,
                                               .statistic = WEIR_P99, .comparison = WEIR_LT, .value = 20e6, .unit = WEIR_NS });
    return sample_end(&sample);
}

/* Story B, mended: bytes cross the handoff, workers decode. */
static inline struct weir_profile *sample_after(void)
{
    struct sample sample = sample_begin("riemann-after");
    sample.messages = 247000;
    sample.profile->mode = WEIR_MODE_EXACT;
    uint32_t io = sample_pool(&sample, "io", 1, true), workers = sample_pool(&sample, "workers", 2, false);
    sample_pipeline(&sample, "riemann");
    uint32_t listen = sample_stage(&sample, WEIR_LISTEN, "listen", io, WEIR_NONE);
    uint32_t frame = sample_stage(&sample, WEIR_FRAME, "frame", io, WEIR_NONE);
    uint32_t handoff = sample_stage(&sample, WEIR_HANDOFF, "handoff", io, workers);
    uint32_t decode = sample_stage(&sample, WEIR_DECODE, "decode", workers, WEIR_NONE);
    uint32_t index = sample_stage(&sample, WEIR_INDEX, "index", workers, WEIR_NONE);
    uint32_t encode = sample_stage(&sample, WEIR_ENCODE, "encode", workers, WEIR_NONE);
    uint32_t reply = sample_stage(&sample, WEIR_REPLY, "reply", io, workers);
    sample_measure(&sample, listen, 0.121, -1, -1, -1);
    sample_measure(&sample, frame, 0.019, -1, -1, -1);
    sample_measure(&sample, handoff, 0.031, 0.0004, 0.018, 0.012);
    uint32_t row = sample_measure(&sample, decode, 0.462, -1, -1, -1);
    sample_hot(&sample, row, "weir_riemann_decode_event", 0.331);
    sample_hot(&sample, row, "weir_arena_alloc", 0.094);
    row = sample_measure(&sample, index, 0.207, -1, -1, -1);
    sample_hot(&sample, row, "weir_index_put", 0.151);
    sample_measure(&sample, encode, 0.026, -1, -1, -1);
    sample_measure(&sample, reply, 0.080, -1, 0.010, 0.005);
    sample_flow(&sample, handoff, 38, 437000, 160000, 9000);
    sample_flow(&sample, reply, 2, 28, 12000, 8000);
    sample_states(&sample, io, 0.42, WEIR_STATE_RUNNABLE, 0.11);
    sample_states(&sample, workers, 0.78, WEIR_STATE_LOCK, 0.02);
    return sample_end(&sample);
}

/* A window in which nothing ran. */
static inline struct weir_profile *sample_empty(void)
{
    struct weir_profile *profile = sample_before();
    struct weir_topology *topology = &profile->topology;
    profile->cpu_ns = profile->samples_kept = profile->records_kept = 0;
    profile->slice_count = profile->row_count = profile->edge_count = profile->violation_count = 0;
    profile->target_probe_cpu_share = profile->probe_hits_per_s = 0;
    for (uint32_t i = 0; i < topology->queue_count; i++)
        profile->queues[i] = (struct weir_profile_queue){ 0 };
    for (uint32_t i = 0; i < topology->way_count; i++)
        profile->ways[i] = (struct weir_profile_way){ 0 };
    for (uint32_t i = 0; i < topology->pool_count; i++) {
        profile->pools[i] = (struct weir_profile_pool){ .threads = topology->pools[i].threads };
        profile->pools[i].state_ns[WEIR_STATE_IDLE] = (double)profile->duration_ns * topology->pools[i].threads;
    }
    return profile;
}

/* Samples, records and a thread were lost, and a law does not hold. */
static inline struct weir_profile *sample_lossy(void)
{
    struct weir_profile *profile = sample_before();
    profile->samples_lost = 310;
    profile->records_lost = 1200;
    profile->threads_lost = 1;
    profile->queues[0].end.rejected = 3;
    weir_profile_verify(profile);
    return profile;
}

/* `count` busy stages, spread over `pools` pools that hand off to each other. */
static inline struct weir_profile *sample_long(uint32_t count, uint32_t pools)
{
    struct sample sample = sample_begin("long");
    struct weir_profile *profile = sample.profile;
    uint32_t stages[SAMPLE_MOST], made = 0;
    for (uint32_t i = 0; i < pools; i++)
        sample_pool(&sample, sample_text(profile, i ? "stage_" : "io", i ? (const char[]){ (char)('a' + i - 1), 0 } : "", ""), i ? 2 : 1,
                    i == 0);
    sample_pipeline(&sample, "tall");
    stages[made++] = sample_stage(&sample, WEIR_LISTEN, "listen", 0, WEIR_NONE);
    for (uint32_t i = 1; i < count; i++) {
        uint32_t pool = i * pools / count, before = (i - 1) * pools / count;
        if (pool != before) {
            const char *name = weir_arena_printf(&profile->arena, "handoff%u", pool);
            stages[made++] = sample_stage(&sample, WEIR_HANDOFF, name, before, pool);
        }
        stages[made++] = sample_stage(&sample, WEIR_BUSY, weir_arena_printf(&profile->arena, "busy%u", i), pool, WEIR_NONE);
    }
    stages[made++] = sample_stage(&sample, WEIR_REPLY, "reply", 0, pools - 1);
    for (uint32_t i = 0; i < made; i++) {
        bool handoff = profile->topology.stages[stages[i]].verb == WEIR_HANDOFF;
        double share = 0.9 * 2 * (i + 1) / ((double)made * (made + 1));
        sample_measure(&sample, stages[i], share, handoff ? share * 0.1 : -1, handoff ? share * 0.5 : -1, handoff ? share * 0.4 : -1);
        if (profile->topology.stages[stages[i]].queue != WEIR_NONE)
            sample_flow(&sample, stages[i], 300 * (i + 1), 2e6, 30000, 7000);
    }
    for (uint32_t i = 0; i < pools; i++)
        sample_states(&sample, i, 0.5, WEIR_STATE_BACKPRESSURED, 0.2);
    return sample_end(&sample);
}

static inline void sample_shared_pipeline(struct sample *sample, const char *name, double weight, uint32_t io, uint32_t workers)
{
    sample_pipeline(sample, name);
    uint32_t first = sample_stage(sample, WEIR_LISTEN, "listen", io, WEIR_NONE);
    sample_stage(sample, WEIR_FRAME, "frame", io, WEIR_NONE);
    uint32_t handoff = sample_stage(sample, WEIR_HANDOFF, "handoff", io, workers);
    sample_stage(sample, WEIR_DECODE, "decode", workers, WEIR_NONE);
    sample_stage(sample, WEIR_INDEX, "index", workers, WEIR_NONE);
    uint32_t reply = sample_stage(sample, WEIR_REPLY, "reply", io, workers);
    for (uint32_t i = first; i <= reply; i++)
        sample_measure(sample, i, weight * (i == first + 3 ? 0.5 : 0.1), i == handoff ? 0.001 : -1, i == handoff ? 0.01 : -1,
                       i == handoff ? 0.01 : -1);
    sample_flow(sample, handoff, 100, 5e6, 30000, 7000);
    sample_flow(sample, reply, 3, 42, 9000, 6000);
}

/* Two pipelines on the same two pools. */
static inline struct weir_profile *sample_shared(void)
{
    struct sample sample = sample_begin("shared");
    uint32_t io = sample_pool(&sample, "io", 1, true), workers = sample_pool(&sample, "workers", 2, false);
    sample_shared_pipeline(&sample, "riemann", 0.6, io, workers);
    sample_shared_pipeline(&sample, "backup", 0.3, io, workers);
    sample_states(&sample, io, 0.6, WEIR_STATE_RUNNABLE, 0.1);
    sample_states(&sample, workers, 0.7, WEIR_STATE_LOCK, 0.1);
    return sample_end(&sample);
}

/* Two ways into one tail, which copies its items to a third pipeline. */
static inline struct weir_profile *sample_tail(void)
{
    struct sample sample = sample_begin("tail");
    struct weir_topology *topology = &sample.profile->topology;
    uint32_t io = sample_pool(&sample, "io", 1, true), workers = sample_pool(&sample, "workers", 2, false);
    uint32_t loggers = sample_pool(&sample, "loggers", 1, false), joins[2], queues[3];
    for (uint32_t i = 0; i < 2; i++) {
        sample_pipeline(&sample, i ? "unix" : "tcp");
        sample_stage(&sample, WEIR_LISTEN, "listen", io, WEIR_NONE);
        sample_stage(&sample, WEIR_FRAME, "frame", io, WEIR_NONE);
        joins[i] = sample_stage(&sample, WEIR_THEN, "then", io, WEIR_NONE);
    }
    uint32_t core = sample_pipeline(&sample, "core");
    queues[0] = sample_stage(&sample, WEIR_HANDOFF, "handoff", io, workers);
    sample_stage(&sample, WEIR_DECODE, "decode", workers, WEIR_NONE);
    uint32_t tee = sample_stage(&sample, WEIR_TEE, "tee", workers, WEIR_NONE);
    sample_stage(&sample, WEIR_INDEX, "index", workers, WEIR_NONE);
    queues[1] = sample_stage(&sample, WEIR_REPLY, "reply", io, workers);
    uint32_t log = sample_pipeline(&sample, "log");
    queues[2] = sample_stage(&sample, WEIR_HANDOFF, "handoff", workers, loggers);
    sample_stage(&sample, WEIR_BUSY, "busy", loggers, WEIR_NONE);
    sample_stage(&sample, WEIR_DROP, "drop", loggers, WEIR_NONE);
    topology->stages[joins[0]].target = topology->stages[joins[1]].target = core;
    topology->stages[tee].target = log;
    for (uint32_t i = 0; i < topology->stage_count; i++)
        sample_measure(&sample, i, 0.9 / topology->stage_count, -1, -1, -1);
    for (uint32_t i = 0; i < 3; i++)
        sample_flow(&sample, queues[i], 20, 1e6, 30000, 7000);
    for (uint32_t i = 0; i < topology->pool_count; i++)
        sample_states(&sample, i, 0.5, WEIR_STATE_IO, 0.2);
    return sample_end(&sample);
}

/* Every name holds what breaks a quoting that isn't careful. */
static inline struct weir_profile *sample_hostile(void)
{
    static const char *const bad[] = {
        "quote\"d", "back\\slash\\", "<b>bold</b>", "{a|b}", "new\nline\r\ttab", "grüße 日本語", "\xff\xfe\xc3", "&amp;&lt;",
        "\x1b[31mred\x1b[0m", "\\N\\G\\l", "]]>-->", "",
    };
    struct weir_profile *profile = sample_before();
    struct weir_topology *topology = &profile->topology;
    topology->name = "a\"b\\c<d>\n\xff";
    profile->exe = "/tmp/\x1b]0;owned\x07\"<&>\\";
    for (uint32_t i = 0; i < topology->pool_count; i++)
        topology->pools[i].name = bad[i + 2];
    for (uint32_t i = 0; i < topology->pipeline_count; i++)
        topology->pipelines[i].name = bad[i];
    for (uint32_t i = 0; i < topology->stage_count; i++) {
        topology->stages[i].name = topology->stages[i].full_name = bad[i];
        topology->stages[i].address = topology->stages[i].text = bad[i];
    }
    for (uint32_t i = 0; i < topology->queue_count; i++)
        topology->queues[i].name = bad[i + 4];
    for (uint32_t i = 0; i < profile->row_count; i++) {
        profile->rows[i].name = bad[i % 12];
        for (uint32_t k = 0; k < profile->rows[i].hot_count; k++)
            profile->rows[i].hot[k].symbol = bad[(i + k) % 12];
    }
    topology->ways[0].name = bad[5];
    profile->queues[0].end.rejected = 3;
    weir_profile_verify(profile);
    return profile;
}

#endif
