/*
 * DESIGN. A pool is saturated when its threads have no time to spare: they neither idle nor wait for what comes after them. A queue
 * in front of it is then full, whatever its limit, and whoever pushes into that waits too; so full queues and waiting pools are
 * evidence against the pool behind them, never causes, and a longer queue is never the advice.
 *
 * How many threads would do: the pool may grow until the next resource is used up. Every use grows with the throughput, so with the
 * pool's threads times 1 / (use of the next pool), or until the free CPUs are taken, or until the items that wait have a thread each.
 */
#include "tracer/verdict_rule.h"

#include <math.h>

bool weir_rule_is_saturated(const struct weir_facts *facts, uint32_t pool)
{
    return pool < facts->topology->pool_count && facts->pools[pool].held >= WEIR_RULE_SATURATED;
}

bool weir_rule_owns_cpus(const struct weir_facts *facts)
{
    if (facts->cpus <= 0)
        return false;
    double server = facts->server_cpus / facts->cpus;
    if (isnan(facts->busy_cpus))
        return server >= WEIR_RULE_SATURATED;
    return server >= WEIR_RULE_CPU_OWN && facts->busy_cpus / facts->cpus >= WEIR_RULE_CPU_BUSY;
}

/* --- evidence --------------------------------------------------------------------------------------------------------------- */

void weir_rule_say_states(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool)
{
    static const char *const words[WEIR_STATE_COUNT] = {
        [WEIR_STATE_RUNNING] = "running", [WEIR_STATE_RUNNABLE] = "waiting for a CPU", [WEIR_STATE_IDLE] = "idle",
        [WEIR_STATE_BACKPRESSURED] = "waiting for room in a full queue", [WEIR_STATE_STARVED] = "waiting for a free slot",
        [WEIR_STATE_IO] = "in IO", [WEIR_STATE_LOCK] = "waiting for a lock", [WEIR_STATE_OTHER] = "asleep in a stage",
    };
    const struct weir_facts_pool *facts_pool = &facts->pools[pool];
    struct weir_buffer text = WEIR_BUFFER_INIT;
    for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
        if (facts_pool->share[k] >= 0.005)
            weir_buffer_printf(&text, "%s%.0f %% %s", text.length ? ", " : "", facts_pool->share[k] * 100, words[k]);
    if (text.length)
        weir_draft_evidence(draft, "pool %s (%u thread%s): %s", facts->topology->pools[pool].name, facts->profile->pools[pool].threads,
                            facts->profile->pools[pool].threads == 1 ? "" : "s", weir_buffer_text(&text));
    draft->failed |= text.failed;
    weir_buffer_release(&text);
}

static void say_queue(const struct weir_facts *facts, struct weir_draft *draft, uint32_t index)
{
    const struct weir_topology_queue *shape = &facts->topology->queues[index];
    const struct weir_profile_queue *queue = &facts->profile->queues[index];
    uint64_t dropped = weir_profile_grown(queue->begin.dropped, queue->end.dropped);
    uint64_t rejected = weir_profile_grown(queue->begin.rejected, queue->end.rejected);
    if (weir_facts_full(facts, index))
        weir_draft_evidence(draft, "%s is full: %.0f items on average, of at most %llu, and %.0f bytes of at most %llu", shape->name,
                            queue->depth_items_mean, (unsigned long long)shape->limit_items, queue->depth_bytes_mean,
                            (unsigned long long)shape->limit_bytes);
    else if (queue->depth_items_mean >= 1)
        weir_draft_evidence(draft, "%.0f items wait in %s on average", queue->depth_items_mean, shape->name);
    if (dropped + rejected)
        weir_draft_evidence(draft, "%s refused %llu items, and took %llu", shape->name, (unsigned long long)(dropped + rejected),
                            (unsigned long long)weir_profile_grown(queue->begin.out, queue->end.out));
}

/* `seen` has a bit for each pool that was visited: pools may hand over in a circle. */
static void say_upstream(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool, bool *seen)
{
    seen[pool] = true;
    for (uint32_t i = 0; i < facts->topology->queue_count; i++) {
        const struct weir_topology_queue *queue = &facts->topology->queues[i];
        if (queue->to_pool != pool || queue->kind != WEIR_QUEUE_HANDOFF)
            continue;
        say_queue(facts, draft, i);
        if (queue->from_pool >= facts->topology->pool_count || seen[queue->from_pool])
            continue;
        double waits = facts->pools[queue->from_pool].share[WEIR_STATE_BACKPRESSURED];
        if (waits < WEIR_RULE_LEAST)
            continue;
        weir_draft_evidence(draft, "pool %s waits for room in it %.0f %% of its time", facts->topology->pools[queue->from_pool].name,
                            waits * 100);
        say_upstream(facts, draft, queue->from_pool, seen);
    }
}

void weir_rule_say_upstream(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool)
{
    bool *seen = weir_arena_zalloc(draft->arena, facts->topology->pool_count);
    if (seen)
        say_upstream(facts, draft, pool, seen);
    else
        draft->failed = true;
}

/* --- how many threads would do ---------------------------------------------------------------------------------------------- */

/* What a pool does for itself; the rest of `held` waits for a CPU, a slot or a lock, which are causes of their own. */
static double own_work(const struct weir_facts_pool *pool)
{
    return pool->share[WEIR_STATE_RUNNING] + pool->share[WEIR_STATE_IO] + pool->share[WEIR_STATE_OTHER];
}

/* By how much of its time the pool works that works most, after `pool`. */
static double next_use(const struct weir_facts *facts, uint32_t pool)
{
    double next = 0;
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (i != pool)
            next = fmax(next, own_work(&facts->pools[i]));
    return next;
}

/* 0: more threads would not help. */
static uint32_t threads_that_do(const struct weir_facts *facts, uint32_t pool)
{
    double threads = facts->topology->pools[pool].threads, growth = WEIR_RULE_MOST_GROWTH;
    double cpus = (facts->pools[pool].share[WEIR_STATE_RUNNING] + facts->pools[pool].share[WEIR_STATE_RUNNABLE]) * threads;
    if (cpus > 0)
        growth = fmin(growth, 1 + weir_facts_free_cpus(facts) / cpus);
    if (growth < 1 + WEIR_RULE_LEAST)
        return 0;
    if (next_use(facts, pool) > 0)
        growth = fmin(growth, 1 / next_use(facts, pool));
    if (!facts->topology->pools[pool].listens)
        growth = fmin(growth, (weir_facts_waiting(facts, pool) + threads) / threads);
    return (uint32_t)fmax(ceil(threads * growth - 1e-9), threads + 1);
}

/* A loop that listens has no use for more threads than there are connections. */
static uint64_t connections_of(const struct weir_facts *facts, uint32_t pool)
{
    uint64_t connections = 0;
    for (uint32_t i = 0; i < facts->topology->way_count; i++)
        if (facts->topology->stages[facts->topology->ways[i].listen_stage].pool == pool)
            connections += facts->profile->ways[i].end.connections;
    return connections;
}

/* A handoff below `stage` whose other pool could run it, since nothing but decoding stands between; WEIR_NONE: none. */
static uint32_t handoff_below(const struct weir_topology *topology, uint32_t stage)
{
    const struct weir_topology_pipeline *pipeline = &topology->pipelines[topology->stages[stage].pipeline];
    if (topology->stages[stage].verb != WEIR_DECODE)
        return WEIR_NONE;
    for (uint32_t i = stage + 1; i < pipeline->first_stage + pipeline->stage_count; i++)
        if (topology->stages[i].verb == WEIR_HANDOFF)
            return i;
    return WEIR_NONE;
}

static void advise(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool, uint32_t stage, const char *what)
{
    const struct weir_topology_pool *shape = &facts->topology->pools[pool];
    uint32_t threads = threads_that_do(facts, pool);
    uint32_t handoff = stage != WEIR_NONE && shape->listens ? handoff_below(facts->topology, stage) : WEIR_NONE;
    if (handoff != WEIR_NONE && !weir_rule_is_saturated(facts, facts->topology->queues[facts->topology->stages[handoff].queue].to_pool)) {
        weir_draft_text(draft, "%s; hand off before %s", what, facts->topology->stages[stage].full_name);
        weir_draft_change(draft, weir_line_handoff_of_bytes(draft->arena, facts->topology, handoff),
                          weir_arena_printf(draft->arena, "above `%s`, instead of below it", facts->topology->stages[stage].name));
        return;
    }
    if (shape->listens && threads > connections_of(facts, pool))
        threads = (uint32_t)connections_of(facts, pool);
    if (threads <= shape->threads) {
        weir_draft_text(draft, "%s; more threads would not help, since %s", what,
                        shape->listens && connections_of(facts, pool) <= shape->threads ? "each connection stays on one" :
                                                                                          "no CPU is free for them");
        return;
    }
    weir_draft_text(draft, "%s; %u threads would do", what, threads);
    weir_draft_change(draft, weir_line_pool(draft->arena, shape, threads),
                      weir_arena_printf(draft->arena, "instead of `pool %s threads %u`", shape->name, shape->threads));
}

/* --- the rules -------------------------------------------------------------------------------------------------------------- */

static void judge(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool)
{
    const struct weir_topology_pool *shape = &facts->topology->pools[pool];
    uint32_t stage = weir_facts_top_stage(facts, pool);
    double part = stage == WEIR_NONE ? 0 : weir_facts_work(facts, pool, stage), own = own_work(&facts->pools[pool]);
    const char *what;
    bool one = part >= WEIR_RULE_MAIN_STAGE * own;
    if (own < WEIR_RULE_OWN)
        return;
    weir_draft_cause(draft, facts, one ? "stage" : "pool", one ? stage : WEIR_NONE, one ? part : own);
    if (one)
        what = weir_arena_printf(draft->arena, "%s saturates pool %s: it takes %.0f %% of the time of its %u thread%s",
                                 facts->topology->stages[stage].full_name, shape->name, part * 100, shape->threads,
                                 shape->threads == 1 ? "" : "s");
    else
        what = weir_arena_printf(draft->arena, "pool %s is saturated: its %u thread%s busy %.0f %% of the time, in no stage for more than "
                                 "half of it", shape->name, shape->threads, shape->threads == 1 ? " is" : "s are", own * 100);
    draft->failed |= !what;
    if (what)
        advise(facts, draft, pool, one ? stage : WEIR_NONE, what);
    weir_rule_say_states(facts, draft, pool);
    if (!one && stage != WEIR_NONE)
        weir_draft_evidence(draft, "most of it goes to %s: %.0f %%", facts->topology->stages[stage].full_name, part * 100);
    weir_rule_say_upstream(facts, draft, pool);
}

/* Where the server has used up all CPUs, its pools share what there is, and no pool by itself is the limit. */
void weir_rule_saturated(const struct weir_facts *facts, struct weir_draft *draft)
{
    if (weir_rule_owns_cpus(facts))
        return;
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (weir_rule_is_saturated(facts, i))
            judge(facts, draft, i);
}

/* A connection stays on one loop; so one loop can be at its limit while its pool is not. */
void weir_rule_one_thread(const struct weir_facts *facts, struct weir_draft *draft)
{
    for (uint32_t i = 0; i < facts->profile->thread_count; i++) {
        const struct weir_profile_thread *thread = &facts->profile->threads[i];
        double whole = 0;
        if (thread->pool >= facts->topology->pool_count || weir_rule_is_saturated(facts, thread->pool))
            continue;
        const struct weir_topology_pool *pool = &facts->topology->pools[thread->pool];
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            whole += thread->state_ns[k];
        double own = thread->state_ns[WEIR_STATE_RUNNING] + thread->state_ns[WEIR_STATE_IO] + thread->state_ns[WEIR_STATE_OTHER];
        if (!pool->listens || pool->threads < 2 || whole < (double)facts->profile->duration_ns / 2 || own < WEIR_RULE_SATURATED * whole)
            continue;
        weir_draft_cause(draft, facts, "pool", WEIR_NONE, own / whole);
        weir_draft_text(draft, "one of the %u threads of pool %s is saturated: it is busy %.0f %% of the time, and a connection stays on "
                        "one; open more connections", pool->threads, pool->name, 100 * own / whole);
        weir_rule_say_states(facts, draft, thread->pool);
        weir_draft_evidence(draft, "%llu connections are open on it and its siblings",
                            (unsigned long long)connections_of(facts, thread->pool));
        return;
    }
}

/* --- the machine ------------------------------------------------------------------------------------------------------------ */

static void say_neighbours(const struct weir_facts *facts, struct weir_draft *draft)
{
    const struct weir_profile *profile = facts->profile;
    double window_ns = (double)profile->duration_ns;
    weir_draft_evidence(draft, "the server used %.2f of %u CPUs", facts->server_cpus, profile->cpus);
    if (!isnan(facts->busy_cpus))
        weir_draft_evidence(draft, "of all CPUs %.0f %% were used", 100 * facts->busy_cpus / facts->cpus);
    for (uint32_t i = 0; i < profile->neighbour_count && i < 3; i++)
        if (profile->neighbours[i].cpu_ns >= WEIR_RULE_LEAST * window_ns)
            weir_draft_evidence(draft, "%s (%u) used %.2f CPUs", profile->neighbours[i].name, profile->neighbours[i].pid,
                                profile->neighbours[i].cpu_ns / window_ns);
    if (profile->machine_steal_ns >= 0.01 * window_ns * facts->cpus)
        weir_draft_evidence(draft, "the hypervisor took %.2f CPUs", profile->machine_steal_ns / window_ns);
}

/* The stage that takes most CPU time of all. */
static const struct weir_profile_row *top_row(const struct weir_profile *profile)
{
    const struct weir_profile_row *top = NULL;
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (profile->rows[i].stage != WEIR_NONE && profile->rows[i].part_of == WEIR_NONE && (!top || profile->rows[i].share > top->share))
            top = &profile->rows[i];
    return top;
}

void weir_rule_cpu(const struct weir_facts *facts, struct weir_draft *draft)
{
    uint32_t pool = weir_facts_busiest(facts);
    const struct weir_profile_row *top = top_row(facts->profile);
    if (pool == WEIR_NONE || !facts->has_shares || !top)
        return;
    const double *share = facts->pools[pool].share;
    if (weir_rule_owns_cpus(facts)) {
        weir_draft_cause(draft, facts, "cpu", top->stage, share[WEIR_STATE_RUNNING] + share[WEIR_STATE_RUNNABLE]);
        weir_draft_text(draft, "the CPUs are used up: the server takes %.2f of %u; of that, %s takes most, %.0f %%; make it cheaper, or "
                        "give the server more CPUs", facts->server_cpus, facts->profile->cpus, top->name, top->share * 100);
    } else if (weir_rule_is_saturated(facts, pool) && share[WEIR_STATE_RUNNABLE] >= WEIR_RULE_LEAST) {
        weir_draft_cause(draft, facts, "cpu", WEIR_NONE, share[WEIR_STATE_RUNNABLE]);
        weir_draft_text(draft, "the threads of pool %s wait for a CPU %.0f %% of their time, while the server takes %.2f of %u",
                        facts->topology->pools[pool].name, share[WEIR_STATE_RUNNABLE] * 100, facts->server_cpus, facts->profile->cpus);
    } else {
        return;
    }
    say_neighbours(facts, draft);
    weir_rule_say_states(facts, draft, pool);
}
