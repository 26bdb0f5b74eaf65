/*
 * DESIGN. What a server waits for that is not its own work: clients that wait for it, slots of another server, locks, and whoever
 * comes after it.
 */
#include "tracer/verdict_rule.h"

#include <math.h>

/* --- round trips ------------------------------------------------------------------------------------------------------------ */

/* Has the server itself no time to spare? Threads that wait for a CPU while one request after the other comes are no sign of that:
 * with more of them under way, these waits would overlap with work. */
static bool is_busy(const struct weir_facts *facts)
{
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (weir_rule_is_saturated(facts, i) && facts->pools[i].held - facts->pools[i].share[WEIR_STATE_RUNNABLE] >= WEIR_RULE_BUSY)
            return true;
    return weir_rule_owns_cpus(facts);
}

static uint32_t runs_most(const struct weir_facts *facts)
{
    uint32_t most = WEIR_NONE;
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (most == WEIR_NONE || facts->pools[i].share[WEIR_STATE_RUNNING] > facts->pools[most].share[WEIR_STATE_RUNNING])
            most = i;
    return most;
}

/* Requests that come one at a time, to a server that could do more. Then the clients hold it back, and all of their time is round
 * trips: in some of it the server works, or waits for a CPU, but nobody has anything else for it to do. */
static void judge_way(const struct weir_facts *facts, struct weir_draft *draft, uint32_t index)
{
    const struct weir_profile_way *way = &facts->profile->ways[index];
    uint32_t pool = runs_most(facts);
    double silent_ns;
    if (pool == WEIR_NONE || facts->pools[pool].whole_ns <= 0 || !weir_facts_one_by_one(facts, index, &silent_ns))
        return;
    double runs = facts->pools[pool].share[WEIR_STATE_RUNNING];
    weir_draft_cause(draft, facts, "round_trip", WEIR_NONE, 1);
    weir_draft_text(draft, "round-trip bound: connections never have more than 1 request in flight; pipeline or batch");
    weir_draft_evidence(draft, "%s: of %llu requests on %llu connections %llu came while an earlier one was not answered yet",
                        facts->topology->ways[index].name, (unsigned long long)weir_profile_grown(way->begin.accepted, way->end.accepted),
                        (unsigned long long)way->end.connections,
                        (unsigned long long)weir_profile_grown(way->begin.overlapped, way->end.overlapped));
    weir_draft_evidence(draft, "a connection has a request here %.1f %% of the time, and asks again %.3f ms after its answer",
                        100 * weir_histogram_mean(&way->in_flight), silent_ns / 1e6);
    weir_draft_evidence(draft, "no pool runs more than %.0f %% of its time (%s)", runs * 100, facts->topology->pools[pool].name);
    weir_rule_say_states(facts, draft, pool);
}

void weir_rule_round_trip(const struct weir_facts *facts, struct weir_draft *draft)
{
    for (uint32_t i = 0; i < facts->topology->way_count && !is_busy(facts) && !weir_rule_slow_slots(facts); i++)
        judge_way(facts, draft, i);
}

/* --- slots ------------------------------------------------------------------------------------------------------------------ */

static uint32_t grown_by(uint32_t value, double factor)
{
    return (uint32_t)fmax(ceil(value * factor), value + 1.0);
}

static void advise_slots(const struct weir_facts *facts, struct weir_draft *draft, const struct weir_profile_slots *slots, const char *what,
                         double waited)
{
    const struct weir_topology_stage *stage = &facts->topology->stages[slots->stage];
    /* The slots that would be in use if nobody had to wait for one. */
    double growth = fmin(1 / fmax(1 - waited, 1 / WEIR_RULE_MOST_GROWTH), WEIR_RULE_MOST_GROWTH);
    uint32_t connections = grown_by(stage->connections, growth);
    if (weir_facts_far_end_full(facts, slots)) {
        weir_draft_text(draft, "%s; its connections share a server that is at its limit: more slots only wait longer", what);
        return;
    }
    if (weir_facts_serial(facts, slots))
        weir_draft_text(draft, "%s; each connection serves one request after the other, so raise connections: more in_flight only waits "
                        "longer", what);
    else
        weir_draft_text(draft, "%s; raise connections or in_flight", what);
    weir_draft_change(draft, weir_line_slots(draft->arena, stage, connections, stage->in_flight),
                      weir_arena_printf(draft->arena, "instead of `connections %u in_flight %u`", stage->connections, stage->in_flight));
}

static void judge_slots(const struct weir_facts *facts, struct weir_draft *draft, const struct weir_profile_slots *slots)
{
    const struct weir_topology_stage *stage = &facts->topology->stages[slots->stage];
    double window_ns = (double)facts->profile->duration_ns, waited = facts->pools[stage->pool].share[WEIR_STATE_STARVED];
    double full = window_ns > 0 ? fmin((double)weir_profile_grown(slots->begin.full_ns, slots->end.full_ns) / window_ns, 1) : 0;
    uint64_t finished = weir_profile_grown(slots->begin.finished, slots->end.finished);
    if (full < WEIR_RULE_SLOTS_FULL || waited < WEIR_RULE_LEAST)
        return;
    weir_draft_cause(draft, facts, "starved", slots->stage, waited);
    const char *what = weir_arena_printf(draft->arena, "%s is starved: %u x %u slots full %.0f %% of the time, workers waited for one "
                                         "%.0f %% of theirs", stage->full_name, stage->connections, stage->in_flight, full * 100, waited * 100);
    draft->failed |= !what;
    if (what)
        advise_slots(facts, draft, slots, what, waited);
    weir_draft_evidence(draft, "%.1f of %llu slots in use on average, %.1f of %u connections open", slots->in_use_mean,
                        (unsigned long long)stage->connections * stage->in_flight, slots->open_mean, stage->connections);
    if (finished)
        weir_draft_evidence(draft, "a request took %.3f ms on average, so %.0f a second came back from each connection",
                            weir_facts_service_ns(facts, slots) / 1e6,
                            slots->open_mean > 0 ? (double)finished * 1e9 / window_ns / slots->open_mean : 0);
    if (slots->end.alone_ns)
        weir_draft_evidence(draft, "with its connection to itself a request took %.3f ms, at the best since the server started",
                            (double)slots->end.alone_ns / 1e6);
    if (slots->wait.count)
        weir_draft_evidence(draft, "who had to wait for a slot waited %.3f ms (median)",
                            (double)weir_histogram_quantile(&slots->wait, 0.5) / 1e6);
    weir_rule_say_states(facts, draft, stage->pool);
    weir_rule_say_upstream(facts, draft, stage->pool);
}

void weir_rule_starved(const struct weir_facts *facts, struct weir_draft *draft)
{
    for (uint32_t i = 0; i < facts->profile->slots_count; i++)
        if (facts->topology->stages[facts->profile->slots[i].stage].pool < facts->topology->pool_count)
            judge_slots(facts, draft, &facts->profile->slots[i]);
}

/* --- locks ------------------------------------------------------------------------------------------------------------------ */

static const struct weir_profile_sleep *longest_lock(const struct weir_profile *profile, uint32_t pool)
{
    const struct weir_profile_sleep *longest = NULL;
    for (uint32_t i = 0; i < profile->sleep_count; i++) {
        const struct weir_profile_sleep *sleep = &profile->sleeps[i];
        if (sleep->pool == pool && sleep->state == WEIR_STATE_LOCK && (!longest || sleep->ns > longest->ns))
            longest = sleep;
    }
    return longest;
}

static void judge_lock(const struct weir_facts *facts, struct weir_draft *draft, uint32_t pool)
{
    const struct weir_profile *profile = facts->profile;
    const struct weir_profile_sleep *sleep = longest_lock(profile, pool);
    const char *name = facts->topology->pools[pool].name;
    double waits = facts->pools[pool].share[WEIR_STATE_LOCK];
    const struct weir_profile_row *row = sleep && sleep->row < profile->row_count ? &profile->rows[sleep->row] : NULL;
    weir_draft_cause(draft, facts, "lock", row ? row->stage : WEIR_NONE, waits);
    if (sleep && sleep->queue != WEIR_NONE)
        weir_draft_text(draft, "the lock of %s holds pool %s up: its threads wait for locks %.0f %% of their time",
                        facts->topology->queues[sleep->queue].name, name, waits * 100);
    else if (row)
        weir_draft_text(draft, "a lock in %s%s%s holds pool %s up: its threads wait for locks %.0f %% of their time", row->name,
                        sleep->site ? ", taken in " : "", sleep->site ? sleep->site : "", name, waits * 100);
    else
        weir_draft_text(draft, "locks hold pool %s up: its threads wait for them %.0f %% of their time", name, waits * 100);
    if (sleep && sleep->count)
        weir_draft_evidence(draft, "%llu times %.3f ms on average there, %.0f %% of the pool's time", (unsigned long long)sleep->count,
                            sleep->ns / (double)sleep->count / 1e6, 100 * sleep->ns / facts->pools[pool].whole_ns);
    weir_rule_say_states(facts, draft, pool);
    weir_rule_say_upstream(facts, draft, pool);
}

void weir_rule_lock(const struct weir_facts *facts, struct weir_draft *draft)
{
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (weir_rule_is_saturated(facts, i) && facts->pools[i].share[WEIR_STATE_LOCK] >= WEIR_RULE_LEAST)
            judge_lock(facts, draft, i);
}

/* --- downstream ------------------------------------------------------------------------------------------------------------- */

/* A client that leaves its answers unread is not read itself. A ring that is full because its loop has no time is the loop's doing. */
static void judge_ring(const struct weir_facts *facts, struct weir_draft *draft, uint32_t index)
{
    const struct weir_topology_queue *ring = &facts->topology->queues[index];
    const struct weir_profile_queue *measured = &facts->profile->queues[index];
    if (!weir_facts_full(facts, index) || weir_rule_is_saturated(facts, ring->to_pool))
        return;
    weir_draft_cause(draft, facts, "downstream", ring->stage, facts->pools[ring->to_pool].share[WEIR_STATE_IDLE]);
    weir_draft_text(draft, "clients do not read their answers: the ring of %s is full, so they are not read either", ring->name);
    weir_draft_evidence(draft, "the ring of %s held %.0f replies (%.0f bytes) on average, as much as fills it for a connection", ring->name,
                        measured->depth_items_mean, measured->depth_bytes_mean);
    weir_rule_say_states(facts, draft, ring->to_pool);
}

/* Somebody waits for room in a queue, and the pool behind it has time to spare: what it does comes in bursts. Where that pool has no
 * time to spare, the rules that judge it name the cause. */
static void judge_full(const struct weir_facts *facts, struct weir_draft *draft, uint32_t index)
{
    const struct weir_topology_queue *queue = &facts->topology->queues[index];
    if (queue->from_pool >= facts->topology->pool_count || !weir_facts_full(facts, index))
        return;
    const struct weir_facts_pool *behind = &facts->pools[queue->to_pool];
    double waits = facts->pools[queue->from_pool].share[WEIR_STATE_BACKPRESSURED];
    if (waits < WEIR_RULE_LEAST || behind->held >= WEIR_RULE_SATURATED || behind->share[WEIR_STATE_BACKPRESSURED] >= WEIR_RULE_LEAST)
        return;
    weir_draft_cause(draft, facts, "downstream", queue->stage, waits);
    weir_draft_text(draft, "pool %s waits for room in %s %.0f %% of its time, though pool %s behind it idles %.0f %%: it is woken too "
                    "late, or for too little", facts->topology->pools[queue->from_pool].name, queue->name, waits * 100,
                    facts->topology->pools[queue->to_pool].name, behind->share[WEIR_STATE_IDLE] * 100);
    weir_rule_say_upstream(facts, draft, queue->to_pool);
    weir_rule_say_states(facts, draft, queue->to_pool);
}

void weir_rule_downstream(const struct weir_facts *facts, struct weir_draft *draft)
{
    for (uint32_t i = 0; i < facts->topology->queue_count; i++) {
        if (facts->topology->queues[i].to_pool >= facts->topology->pool_count)
            continue;
        if (facts->topology->queues[i].kind == WEIR_QUEUE_REPLY)
            judge_ring(facts, draft, i);
        else
            judge_full(facts, draft, i);
    }
}
