/*
 * DESIGN. Clients that wait for a `forward` or `store` whose answers take long are no round trips to be saved: what is sent earlier waits
 * longer there. An answer that takes about as long as one to a lone request is the way there and back, or the work of one; one that
 * takes a multiple of it has waited behind others: in its own connection, which serves one request after the other, or at who is asked.
 */
#include "tracer/verdict_rule.h"

#include <math.h>

#define UNDER_WAY 0.75  /* of its time a connection has a request here: its client waits for answers */
#define MOST_OF 0.5     /* of the requests under way are in the slots */
/* Requests that come back in the time of one alone. With more, several are served at once, or the one that was alone came first and took
 * longer than others would. */
#define ONE_BY_ONE 1.5

/* Requests under way here, if the clients wait for them; else 0. */
static double under_way(const struct weir_facts *facts)
{
    double requests = 0, connections = 0;
    for (uint32_t i = 0; i < facts->topology->way_count; i++) {
        const struct weir_profile_way *way = &facts->profile->ways[i];
        if (!facts->topology->ways[i].replies || !way->in_flight.count)
            continue;
        requests += weir_histogram_mean(&way->in_flight) * (double)way->end.connections;
        connections += (double)way->end.connections;
    }
    return requests >= UNDER_WAY * connections ? requests : 0;
}

/* What an answer takes as a rule: a few that a stall held up raise the mean alone. */
static double usual_ns(const struct weir_facts *facts, const struct weir_profile_slots *slots)
{
    double mean_ns = weir_facts_service_ns(facts, slots);
    return slots->service.count ? fmin(mean_ns, (double)weir_histogram_quantile(&slots->service, 0.5)) : mean_ns;
}

static bool is_slow(const struct weir_facts *facts, const struct weir_profile_slots *slots)
{
    const struct weir_topology_stage *stage = &facts->topology->stages[slots->stage];
    double alone_ns = weir_facts_alone_ns(slots), requests = under_way(facts);
    if (stage->pool >= facts->topology->pool_count || facts->pools[stage->pool].share[WEIR_STATE_STARVED] >= WEIR_RULE_LEAST)
        return false; /* too few of them, whatever they take */
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (weir_rule_is_saturated(facts, i))
            return false; /* what waits here may look slow from here */
    return alone_ns > 0 && requests > 0 && slots->in_use_mean >= MOST_OF * requests &&
           usual_ns(facts, slots) >= WEIR_RULE_SLOW * alone_ns;
}

const struct weir_profile_slots *weir_rule_slow_slots(const struct weir_facts *facts)
{
    for (uint32_t i = 0; i < facts->profile->slots_count; i++)
        if (is_slow(facts, &facts->profile->slots[i]))
            return &facts->profile->slots[i];
    return NULL;
}

void weir_rule_far_end(const struct weir_facts *facts, struct weir_draft *draft)
{
    const struct weir_profile_slots *slots = weir_rule_slow_slots(facts);
    if (!slots || weir_rule_owns_cpus(facts))
        return;
    const struct weir_topology_stage *stage = &facts->topology->stages[slots->stage];
    double service_ns = usual_ns(facts, slots), alone_ns = weir_facts_alone_ns(slots);
    double finished = (double)weir_profile_grown(slots->begin.finished, slots->end.finished);
    double each = finished / (double)facts->profile->duration_ns / fmax(slots->open_mean, 1);
    bool full = weir_facts_far_end_full(facts, slots);
    bool serial = !full && weir_facts_serial(facts, slots) && each * alone_ns < ONE_BY_ONE;
    weir_draft_cause(draft, facts, "downstream", slots->stage, slots->in_use_mean / under_way(facts));
    weir_draft_text(draft, "answers to %s take %.1f ms, one alone %.1f ms: %s", stage->full_name, service_ns / 1e6, alone_ns / 1e6,
                    full ? "who it asks is at its limit, and more requests at once only wait longer" :
                    serial ? "each connection serves one request after the other, so raise connections" :
                             "they wait for each other, in their connection or at who it asks; try more connections, not more requests");
    weir_draft_evidence(draft, "%.1f of %.1f requests under way wait in its %llu slots, for which nobody waits", slots->in_use_mean,
                        under_way(facts), (unsigned long long)stage->connections * stage->in_flight);
    weir_draft_evidence(draft, "%.0f a second came back from each of %.1f connections, with %.1f under way on each", each * 1e9,
                        slots->open_mean, slots->in_use_mean / fmax(slots->open_mean, 1));
    weir_rule_say_states(facts, draft, stage->pool);
    if (full)
        return;
    double growth = fmin(service_ns / alone_ns, WEIR_RULE_MOST_GROWTH);
    weir_draft_change(draft, weir_line_slots(draft->arena, stage, (uint32_t)ceil(stage->connections * growth), stage->in_flight),
                      weir_arena_printf(draft->arena, "instead of `connections %u in_flight %u`", stage->connections, stage->in_flight));
}
