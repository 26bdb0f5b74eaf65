/*
 * DESIGN: a verdict names one cause or says "unclear" with what is missing, never a guess. No cause is judged by this version; the
 * evidence that a reader needs to judge is put together all the same: where CPU time goes, what the pools' threads did, how full the
 * queues were.
 */
#include "tracer/verdict.h"

#include <string.h>

#define EVIDENCE_MOST 64u
#define RING_FULL 0.9 /* of one connection's limit */

struct evidence {
    struct weir_arena *arena;
    const char **list;
    uint32_t count;
    bool failed;
};

static void add(struct evidence *evidence, const char *text)
{
    if (!text)
        evidence->failed = true;
    else if (evidence->count < EVIDENCE_MOST)
        evidence->list[evidence->count++] = text;
}

#define ADD(evidence, ...) add((evidence), weir_arena_printf((evidence)->arena, __VA_ARGS__))

/* Does the profile say where CPU time went? */
static bool has_shares(const struct weir_profile *profile)
{
    return profile->cpu_ns && profile->row_count && (profile->mode == WEIR_MODE_EXACT || profile->samples_kept);
}

/* CPU time in no stage, where it counts. */
static void no_stage_evidence(struct evidence *evidence, const struct weir_profile *profile)
{
    static const struct {
        const char *name, *words;
    } all[] = {
        { "(outside)", "of threads outside the pools" },
        { "(runtime)", "in the runtime, between the stages" },
        { "(tracing)", "the tracing's own" },
    };
    for (uint32_t i = 0; i < profile->row_count; i++)
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            if (profile->rows[i].share >= 0.01 && strcmp(profile->rows[i].name, all[k].name) == 0)
                ADD(evidence, "%.1f %% of CPU time is %s", profile->rows[i].share * 100, all[k].words);
}

static void cpu_evidence(struct evidence *evidence, const struct weir_profile *profile)
{
    const struct weir_profile_row *top = NULL, *part = NULL;
    for (uint32_t i = 0; i < profile->row_count && has_shares(profile); i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == WEIR_NONE)
            continue;
        if (row->part_of == WEIR_NONE && (!top || row->share > top->share))
            top = row;
        if (row->part != WEIR_PART_NONE && (!part || row->share > part->share))
            part = row;
    }
    if (top && top->share >= 0.0005)
        ADD(evidence, "of all stages %s takes the most CPU time: %.1f %%", top->name, top->share * 100);
    if (has_shares(profile))
        no_stage_evidence(evidence, profile);
    if (part && part->share >= 0.01)
        ADD(evidence, "the dearest part of a stage is %s: %.1f %%", part->name, part->share * 100);
    if (profile->cpus && profile->duration_ns)
        ADD(evidence, "the server used %.2f of %u CPUs", (double)profile->cpu_ns / (double)profile->duration_ns, profile->cpus);
}

static void pool_evidence(struct evidence *evidence, const struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        const double *states = profile->pools[i].state_ns;
        double whole = 0;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            whole += states[k];
        if (whole > 0)
            ADD(evidence, "pool %s ran %.0f %% of its time, idled %.0f %%, waited for a full queue %.0f %%", profile->topology.pools[i].name,
                100 * states[WEIR_STATE_RUNNING] / whole, 100 * states[WEIR_STATE_IDLE] / whole,
                100 * states[WEIR_STATE_BACKPRESSURED] / whole);
    }
}

/* A ring that is full for one connection: its client leaves answers unread, and is not read itself. */
static void ring_evidence(struct evidence *evidence, const struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_topology_queue *shape = &profile->topology.queues[i];
        const struct weir_profile_queue *queue = &profile->queues[i];
        double items = shape->limit_items ? queue->depth_items_mean / (double)shape->limit_items : 0;
        double bytes = shape->limit_bytes ? queue->depth_bytes_mean / (double)shape->limit_bytes : 0;
        if (shape->kind == WEIR_QUEUE_REPLY && (items >= RING_FULL || bytes >= RING_FULL))
            ADD(evidence, "the ring of %s held %.0f replies (%.0f bytes) on average, as much as fills it for a connection: a client does not "
                "read its answers", shape->name, queue->depth_items_mean, queue->depth_bytes_mean);
    }
}

static void queue_evidence(struct evidence *evidence, const struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        if (queue->wait.count)
            ADD(evidence, "items waited %.3f ms in %s (p99), which held %.1f on average",
                (double)weir_histogram_quantile(&queue->wait, 0.99) / 1e6, profile->topology.queues[i].name, queue->depth_items_mean);
    }
}

static const char *missing(const struct weir_profile *profile)
{
    if (!has_shares(profile))
        return "unclear: there are no samples in this window; record again while the server works";
    if (weir_profile_lossy(profile))
        return "unclear: the profile is lossy; record again at a lower rate";
    return "unclear: no rule names a cause from what was measured";
}

int weir_verdict_of(const struct weir_profile *profile, struct weir_arena *arena, struct weir_verdict *verdict,
                    struct weir_error *error)
{
    struct evidence evidence = { .arena = arena, .list = weir_arena_zalloc(arena, (EVIDENCE_MOST + 1) * sizeof(char *)) };
    if (!evidence.list)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to explain the profile");
    cpu_evidence(&evidence, profile);
    pool_evidence(&evidence, profile);
    ring_evidence(&evidence, profile);
    queue_evidence(&evidence, profile);
    if (evidence.failed)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to explain the profile");
    *verdict = (struct weir_verdict){ .kind = "unclear", .text = missing(profile), .evidence = evidence.list,
                                      .evidence_count = evidence.count };
    return 0;
}
