/*
 * DESIGN: a table of rules, each of which knows one kind of cause. A cause is measured by the time of the pool that holds the server
 * back: how much of it goes there. So causes of different kinds compare, the one that explains most comes first, and what explains
 * less than a tenth is not said. Where no rule finds anything, the pool that has least time to spare says that it is not the server;
 * where that can't be said either, the verdict is "unclear" with what is missing, never a guess.
 */
#include "tracer/verdict.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/verdict_rule.h"

static weir_rule *const rules[] = {
    weir_rule_size, weir_rule_starved, weir_rule_lock, weir_rule_cpu, weir_rule_saturated, weir_rule_one_thread, weir_rule_downstream,
    weir_rule_far_end, weir_rule_round_trip,
};

/* --- the draft -------------------------------------------------------------------------------------------------------------- */

void weir_draft_cause(struct weir_draft *draft, const struct weir_facts *facts, const char *kind, uint32_t stage, double explained)
{
    /* The last place is given away again and again: nobody reads a sixteenth cause. */
    if (draft->cause_count < WEIR_DRAFT_CAUSES)
        draft->cause_count++;
    const char **evidence = weir_arena_zalloc(draft->arena, WEIR_DRAFT_EVIDENCE * sizeof *evidence);
    draft->failed |= !evidence;
    draft->causes[draft->cause_count - 1] = (struct weir_verdict_cause){
        .kind = kind, .stage = stage == WEIR_NONE ? NULL : facts->topology->stages[stage].full_name,
        .explained = fmin(fmax(explained, 0), 1), .evidence = evidence,
    };
}

void weir_draft_text(struct weir_draft *draft, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    draft->causes[draft->cause_count - 1].text = weir_arena_vprintf(draft->arena, format, args);
    draft->failed |= !draft->causes[draft->cause_count - 1].text;
    va_end(args);
}

void weir_draft_evidence(struct weir_draft *draft, const char *format, ...)
{
    struct weir_verdict_cause *cause = &draft->causes[draft->cause_count - 1];
    if (draft->failed || cause->evidence_count == WEIR_DRAFT_EVIDENCE)
        return;
    va_list args;
    va_start(args, format);
    cause->evidence[cause->evidence_count] = weir_arena_vprintf(draft->arena, format, args);
    draft->failed |= !cause->evidence[cause->evidence_count++];
    va_end(args);
}

void weir_draft_change(struct weir_draft *draft, const char *line, const char *where)
{
    draft->causes[draft->cause_count - 1].change = line;
    draft->causes[draft->cause_count - 1].where = where;
    draft->failed |= !line || !where;
}

/* --- what there is, where no cause is found ----------------------------------------------------------------------------------- */

#define EVIDENCE_MOST WEIR_DRAFT_EVIDENCE

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

static void cpu_evidence(struct evidence *evidence, const struct weir_facts *facts)
{
    const struct weir_profile *profile = facts->profile;
    const struct weir_profile_row *top = NULL, *part = NULL;
    for (uint32_t i = 0; i < profile->row_count && facts->has_shares; i++) {
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
    if (facts->has_shares)
        no_stage_evidence(evidence, profile);
    if (part && part->share >= 0.01)
        ADD(evidence, "the dearest part of a stage is %s: %.1f %%", part->name, part->share * 100);
    if (profile->cpus && profile->duration_ns)
        ADD(evidence, "the server used %.2f of %u CPUs", (double)profile->cpu_ns / (double)profile->duration_ns, profile->cpus);
}

static void pool_evidence(struct evidence *evidence, const struct weir_facts *facts)
{
    for (uint32_t i = 0; i < facts->topology->pool_count; i++) {
        const double *share = facts->pools[i].share;
        if (facts->pools[i].whole_ns > 0)
            ADD(evidence, "pool %s ran %.0f %% of its time, idled %.0f %%, waited for a full queue %.0f %%", facts->topology->pools[i].name,
                100 * share[WEIR_STATE_RUNNING], 100 * share[WEIR_STATE_IDLE], 100 * share[WEIR_STATE_BACKPRESSURED]);
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

/* --- the verdict ------------------------------------------------------------------------------------------------------------ */

/* Why nothing may be concluded; null: it may. */
static const char *unusable(const struct weir_facts *facts, struct weir_arena *arena)
{
    const struct weir_profile *profile = facts->profile;
    double samples = (double)profile->samples_kept + (double)profile->samples_lost;
    double records = (double)profile->records_kept + (double)profile->records_lost;
    bool seen = false;
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        seen |= facts->pools[i].whole_ns > 0;
    if (!seen)
        return facts->has_shares ? "unclear: nobody saw what the threads of the pools did; record again with the scheduler's probes" :
                                   "unclear: there are no samples in this window; record again while the server works";
    if (profile->violation_count)
        return weir_arena_printf(arena, "unclear: the profile contradicts itself (%s); record again", profile->violations[0]);
    if (profile->threads_lost || (double)profile->samples_lost > WEIR_RULE_LOSSES * samples ||
        (double)profile->records_lost > WEIR_RULE_LOSSES * records)
        return profile->ended_by && strcmp(profile->ended_by, "target exit") == 0 ?
                   "unclear: the server ended while it was recorded, and took a part of that along; record again" :
                   "unclear: the profile is lossy; record again at a lower rate";
    if (profile->duration_ns < WEIR_RULE_WINDOW_NS)
        return weir_arena_printf(arena, "unclear: a window of %.0f ms is too short to tell; record for some seconds",
                                 (double)profile->duration_ns / 1e6);
    return NULL;
}

/* No cause was found: is that since there is none? */
static const char *without_cause(const struct weir_facts *facts, struct weir_arena *arena, const char **kind)
{
    uint32_t pool = weir_facts_busiest(facts);
    double spare = 1 - facts->pools[pool].held, waiting = weir_facts_waiting(facts, pool);
    if (spare < WEIR_RULE_SPARE && spare > 1 - WEIR_RULE_SATURATED && waiting >= facts->topology->pools[pool].threads)
        return weir_arena_printf(arena, "unclear: pool %s has %.0f %% of its time to spare, yet %.0f items wait for it on average; record "
                                 "for longer, on a quieter machine", facts->topology->pools[pool].name, spare * 100, waiting);
    if (spare > 1 - WEIR_RULE_SATURATED && facts->pools[pool].share[WEIR_STATE_BACKPRESSURED] < WEIR_RULE_LEAST) {
        *kind = "idle";
        return weir_arena_printf(arena, "not the server: it is %.0f %% idle", facts->pools[pool].share[WEIR_STATE_IDLE] * 100);
    }
    return weir_arena_printf(arena, "unclear: pool %s has no time to spare, but no stage, wait or lock takes enough of it to name; record "
                             "for longer, or with --exact", facts->topology->pools[pool].name);
}

static int by_explained(const void *a, const void *b)
{
    double left = ((const struct weir_verdict_cause *)a)->explained, right = ((const struct weir_verdict_cause *)b)->explained;
    return (left < right) - (left > right);
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* Does it speak of the same stage, or ask for the same change, as one of the first `count`? Then it is another sign of that cause. */
static bool is_named(const struct weir_draft *draft, uint32_t count, const struct weir_verdict_cause *cause)
{
    for (uint32_t i = 0; i < count; i++)
        if (same(draft->causes[i].stage, cause->stage) ||
            (same(draft->causes[i].change, cause->change) && same(draft->causes[i].where, cause->where)))
            return true;
    return false;
}

/* Runs the rules; keeps what explains enough, most first. */
static void judge(const struct weir_facts *facts, struct weir_draft *draft)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        rules[i](facts, draft);
    if (draft->failed)
        return;
    qsort(draft->causes, draft->cause_count, sizeof *draft->causes, by_explained);
    for (uint32_t i = 0; i < draft->cause_count; i++)
        if (draft->causes[i].explained >= WEIR_RULE_LEAST && !is_named(draft, kept, &draft->causes[i]))
            draft->causes[kept++] = draft->causes[i];
    draft->cause_count = kept;
}

/* What was measured, whatever it means. */
static bool describe(const struct weir_facts *facts, struct weir_arena *arena, struct weir_verdict *verdict)
{
    struct evidence evidence = { .arena = arena, .list = weir_arena_zalloc(arena, (EVIDENCE_MOST + 1) * sizeof(char *)) };
    if (!evidence.list)
        return false;
    cpu_evidence(&evidence, facts);
    pool_evidence(&evidence, facts);
    queue_evidence(&evidence, facts->profile);
    verdict->evidence = evidence.list;
    verdict->evidence_count = evidence.count;
    return !evidence.failed;
}

/* False: memory ran out. */
static bool conclude(const struct weir_facts *facts, struct weir_draft *draft, struct weir_verdict *verdict)
{
    *verdict = (struct weir_verdict){ .kind = "unclear", .text = unusable(facts, draft->arena) };
    if (!verdict->text)
        judge(facts, draft);
    if (!draft->cause_count) {
        if (!verdict->text)
            verdict->text = without_cause(facts, draft->arena, &verdict->kind);
        return verdict->text && describe(facts, draft->arena, verdict);
    }
    verdict->causes = (void *)weir_arena_dup(draft->arena, draft->causes, draft->cause_count * sizeof *draft->causes);
    if (!verdict->causes)
        return false;
    verdict->cause_count = draft->cause_count;
    verdict->kind = verdict->causes->kind;
    verdict->stage = verdict->causes->stage;
    verdict->text = verdict->causes->text;
    verdict->evidence = verdict->causes->evidence;
    verdict->evidence_count = verdict->causes->evidence_count;
    return true;
}

int weir_verdict_of(const struct weir_profile *profile, struct weir_arena *arena, struct weir_verdict *verdict,
                    struct weir_error *error)
{
    struct weir_facts facts;
    struct weir_draft draft = { .arena = arena };
    if (weir_facts_of(profile, arena, &facts) != 0 || !conclude(&facts, &draft, verdict) || draft.failed)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to explain the profile");
    return 0;
}
