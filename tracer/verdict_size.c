/*
 * DESIGN. Where a handoff stands behind the decoder, somebody has to say how large a decoded message is; above it the length of the
 * frame is known. The change is to move the handoff up, and with it everything between leaves the pool that hands over: so that is
 * what this cause explains, if that pool is what holds the server back.
 */
#include "tracer/verdict_rule.h"

/* The decoder above the handoff in its own pipeline; WEIR_NONE: there is none, or another handoff lies between. */
static uint32_t decoder_above(const struct weir_topology *topology, uint32_t handoff)
{
    uint32_t first = topology->pipelines[topology->stages[handoff].pipeline].first_stage;
    for (uint32_t i = handoff; i > first; i--) {
        if (topology->stages[i - 1].verb == WEIR_HANDOFF)
            return WEIR_NONE;
        if (topology->stages[i - 1].verb == WEIR_DECODE)
            return i - 1;
    }
    return WEIR_NONE;
}

/* What leaves the pool when the handoff moves up to `decoder`: the stages between, and the size estimation. */
static double moved_work(const struct weir_facts *facts, uint32_t decoder, uint32_t handoff, double size_ns)
{
    const struct weir_facts_pool *pool = &facts->pools[facts->topology->stages[handoff].pool];
    double work = pool->whole_ns > 0 ? size_ns / pool->whole_ns : 0;
    for (uint32_t i = decoder; i < handoff; i++)
        work += weir_facts_work(facts, facts->topology->stages[handoff].pool, i);
    return work;
}

static void judge(const struct weir_facts *facts, struct weir_draft *draft, uint32_t index)
{
    const struct weir_topology *topology = facts->topology;
    const struct weir_topology_stage *handoff = &topology->stages[index];
    const struct weir_profile_row *size = weir_facts_row(facts->profile, index, WEIR_PART_SIZE);
    enum weir_sized sized = topology->queues[handoff->queue].sized;
    if (!size || size->share < WEIR_RULE_SIZE || sized == WEIR_SIZED_BYTES || sized == WEIR_SIZED_ARENA)
        return;
    bool limits = weir_rule_is_saturated(facts, handoff->pool) || weir_rule_owns_cpus(facts);
    if (!limits && size->share < WEIR_RULE_SIZE_WASTE)
        return;
    uint32_t decoder = decoder_above(topology, index);
    const char *pool = topology->pools[handoff->pool].name;
    double whole_ns = facts->pools[handoff->pool].whole_ns;
    double explained = decoder != WEIR_NONE && limits ? moved_work(facts, decoder, index, size->cpu_ns) :
                       whole_ns > 0 ? size->cpu_ns / whole_ns : size->share;
    weir_draft_cause(draft, facts, "size", index, explained);
    if (decoder != WEIR_NONE)
        weir_draft_text(draft, "%.0f %% of CPU is size estimation in %s; hand off before %s, where the size is known", size->share * 100,
                        handoff->full_name, topology->stages[decoder].full_name);
    else
        weir_draft_text(draft, "%.0f %% of CPU is size estimation in %s; hand off where the size is known, or size by arena",
                        size->share * 100, handoff->full_name);
    weir_draft_evidence(draft, "%s sizes each message by `sized %s`: %.1f %% of CPU time (%.1f to %.1f %%)", handoff->full_name,
                        weir_sized_name(sized), size->share * 100, size->share_low * 100, size->share_high * 100);
    if (size->hot_count)
        weir_draft_evidence(draft, "its hottest function is %s: %.1f %%", size->hot[0].symbol, size->hot[0].share * 100);
    weir_rule_say_states(facts, draft, handoff->pool);
    if (decoder == WEIR_NONE)
        return;
    if (limits)
        weir_draft_evidence(draft, "with the handoff above %s that and the stages between, %.0f %% of the time of pool %s, leave it",
                            topology->stages[decoder].full_name, explained * 100, pool);
    weir_draft_change(draft, weir_line_handoff_of_bytes(draft->arena, topology, index),
                      weir_arena_printf(draft->arena, "above `%s`, instead of below it", topology->stages[decoder].name));
}

void weir_rule_size(const struct weir_facts *facts, struct weir_draft *draft)
{
    if (!facts->has_shares || (facts->profile->mode == WEIR_MODE_LIGHT && facts->profile->samples_kept < WEIR_RULE_SAMPLES))
        return;
    for (uint32_t i = 0; i < facts->topology->stage_count; i++)
        if (facts->topology->stages[i].verb == WEIR_HANDOFF)
            judge(facts, draft, i);
}
