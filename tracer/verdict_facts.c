/*
 * DESIGN. A pool's thread time is what a cause explains, so each stage is given a share of the time of the pool whose threads run it:
 * its CPU time, which the rows have, and what its items waited inside it (a pause, a file; a lock is nobody's work). Waits come
 * from the sleeps, which are exact; a profile that has none of them gets them from the service times, as far as the pool's states leave room.
 * A handoff's size and push belong to the pool that hands over, its pop to the one that takes; a reply's push to those who finish.
 */
#include "tracer/verdict_facts.h"

#include <errno.h>
#include <math.h>

#define REQUESTS 100       /* before "never" is said of them */
#define MEETINGS 10        /* so many would have overlapped an earlier one, had they come at random */
#define OVERLAP 0.01       /* of all: a stray one (a reconnect, a second thread at the start) is no pipelining */
/* How long after an answer a client asks again that waits for nothing else: its own time, and a few round trips, since a request may
 * take more than one packet. Where the kernel knows of no round trip the client is near, or behind a proxy. */
#define SILENCE_NS 1e6
#define SILENCE_TRIPS 3.0
/* Service that is so many times a lone request's is that of one after the other, however many are in flight: the one that was alone may
 * have come first, and so have taken longer than others would. */
#define SERIAL_MOST 2.5
/* Of requests that a connection serves one after the other, so many come back in the time of one alone: 1, but the busy machine is slower.
 * Two connections that share a server get half of that. */
#define ONE_BY_ONE 0.6
#define FULL 0.9 /* average fill; a queue that is drained in batches is never at its limit all the time */

const struct weir_profile_row *weir_facts_row(const struct weir_profile *profile, uint32_t stage, enum weir_part part)
{
    const struct weir_profile_row *found = NULL;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == stage && row->part == part && (row->way == WEIR_NONE || !found))
            found = row;
    }
    return found;
}

static uint32_t pool_of_part(const struct weir_topology *topology, const struct weir_topology_stage *stage, enum weir_part part)
{
    if (stage->verb == WEIR_HANDOFF && part == WEIR_PART_POP)
        return topology->queues[stage->queue].to_pool;
    if (stage->verb == WEIR_REPLY && part == WEIR_PART_PUSH)
        return stage->finish_pool;
    return stage->pool;
}

static double *work_of(const struct weir_facts *facts, uint32_t pool, uint32_t stage)
{
    return pool < facts->topology->pool_count ? &facts->work_ns[pool * facts->topology->stage_count + stage] : NULL;
}

static void add_work(const struct weir_facts *facts, uint32_t pool, uint32_t stage, double ns)
{
    double *work = work_of(facts, pool, stage);
    if (work && ns > 0)
        *work += ns;
}

static void add_cpu(const struct weir_facts *facts)
{
    for (uint32_t s = 0; s < facts->topology->stage_count; s++) {
        const struct weir_topology_stage *stage = &facts->topology->stages[s];
        const struct weir_profile_row *whole = weir_facts_row(facts->profile, s, WEIR_PART_NONE);
        double own = whole ? whole->cpu_ns : 0;
        for (unsigned part = WEIR_PART_SIZE; part <= WEIR_PART_POP; part++) {
            const struct weir_profile_row *row = weir_facts_row(facts->profile, s, (enum weir_part)part);
            if (row) {
                own -= row->cpu_ns;
                add_work(facts, pool_of_part(facts->topology, stage, (enum weir_part)part), s, row->cpu_ns);
            }
        }
        add_work(facts, stage->pool, s, own);
    }
}

static bool own_wait(enum weir_state state)
{
    return state == WEIR_STATE_IO || state == WEIR_STATE_OTHER;
}

static void add_sleeps(const struct weir_facts *facts)
{
    for (uint32_t i = 0; i < facts->profile->sleep_count; i++) {
        const struct weir_profile_sleep *sleep = &facts->profile->sleeps[i];
        uint32_t stage = sleep->row < facts->profile->row_count ? facts->profile->rows[sleep->row].stage : WEIR_NONE;
        if (own_wait(sleep->state) && stage != WEIR_NONE)
            add_work(facts, sleep->pool, stage, sleep->ns);
    }
}

/* What the items waited inside the stage, whatever for; 0 where a wait is not the stage's own. Behind a queue that takes longer than
 * the window no item is stamped: of a pause the file says how long it is. */
static double waited_inside(const struct weir_facts *facts, uint32_t stage)
{
    const struct weir_profile_row *row = weir_facts_row(facts->profile, stage, WEIR_PART_NONE);
    double stated_ns = row ? (double)row->items * (double)facts->topology->stages[stage].pause_ns : 0;
    switch (facts->topology->stages[stage].verb) {
    case WEIR_LISTEN: case WEIR_HANDOFF: case WEIR_REPLY: case WEIR_FORWARD: case WEIR_STORE:
        return 0;
    default:
        return row && row->service && row->service->count ?
                   fmax(weir_histogram_mean(row->service) * (double)row->items - row->cpu_ns, 0) : stated_ns;
    }
}

static void add_service(const struct weir_facts *facts)
{
    for (uint32_t p = 0; p < facts->topology->pool_count; p++) {
        const struct weir_facts_pool *pool = &facts->pools[p];
        double room = (pool->share[WEIR_STATE_IO] + pool->share[WEIR_STATE_OTHER]) * pool->whole_ns;
        double sum = 0;
        for (uint32_t s = 0; s < facts->topology->stage_count; s++)
            sum += facts->topology->stages[s].pool == p ? waited_inside(facts, s) : 0;
        for (uint32_t s = 0; s < facts->topology->stage_count && sum > 0; s++)
            if (facts->topology->stages[s].pool == p)
                add_work(facts, p, s, waited_inside(facts, s) * fmin(room / sum, 1));
    }
}

static void set_pool(const struct weir_facts *facts, uint32_t index)
{
    struct weir_facts_pool *pool = &facts->pools[index];
    const double *states = facts->profile->pools[index].state_ns;
    for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
        pool->whole_ns += states[k];
    for (unsigned k = 0; k < WEIR_STATE_COUNT && pool->whole_ns > 0; k++)
        pool->share[k] = states[k] / pool->whole_ns;
    pool->held = pool->whole_ns > 0 ? 1 - pool->share[WEIR_STATE_IDLE] - pool->share[WEIR_STATE_BACKPRESSURED] : 0;
}

int weir_facts_of(const struct weir_profile *profile, struct weir_arena *arena, struct weir_facts *facts)
{
    const struct weir_topology *topology = &profile->topology;
    double window_ns = (double)profile->duration_ns;
    *facts = (struct weir_facts){ .profile = profile, .topology = topology, .cpus = profile->cpus, .busy_cpus = NAN };
    facts->pools = weir_arena_zalloc(arena, (topology->pool_count + 1) * sizeof *facts->pools);
    facts->work_ns = weir_arena_zalloc(arena, ((size_t)topology->pool_count * topology->stage_count + 1) * sizeof *facts->work_ns);
    if (!facts->pools || !facts->work_ns)
        return -ENOMEM;
    facts->has_shares = profile->cpu_ns && profile->row_count && (profile->mode == WEIR_MODE_EXACT || profile->samples_kept);
    facts->server_cpus = window_ns > 0 ? (double)profile->cpu_ns / window_ns : 0;
    if (profile->machine_busy_ns > 0 && window_ns > 0)
        facts->busy_cpus = fmin((profile->machine_busy_ns + profile->machine_steal_ns) / window_ns, facts->cpus);
    for (uint32_t i = 0; i < topology->pool_count; i++)
        set_pool(facts, i);
    add_cpu(facts);
    for (uint32_t p = 0; p < topology->pool_count; p++)
        for (uint32_t s = 0; s < topology->stage_count; s++)
            facts->pools[p].stage_cpu_ns += facts->work_ns[p * topology->stage_count + s];
    if (profile->sleep_count)
        add_sleeps(facts);
    else
        add_service(facts);
    return 0;
}

double weir_facts_work(const struct weir_facts *facts, uint32_t pool, uint32_t stage)
{
    const double *work = work_of(facts, pool, stage);
    return work && facts->pools[pool].whole_ns > 0 ? fmin(*work / facts->pools[pool].whole_ns, 1) : 0;
}

uint32_t weir_facts_top_stage(const struct weir_facts *facts, uint32_t pool)
{
    uint32_t top = WEIR_NONE;
    for (uint32_t s = 0; s < facts->topology->stage_count; s++)
        if (weir_facts_work(facts, pool, s) > (top == WEIR_NONE ? 0 : weir_facts_work(facts, pool, top)))
            top = s;
    return top;
}

uint32_t weir_facts_busiest(const struct weir_facts *facts)
{
    uint32_t pool = WEIR_NONE;
    for (uint32_t i = 0; i < facts->topology->pool_count; i++)
        if (pool == WEIR_NONE || facts->pools[i].held > facts->pools[pool].held)
            pool = i;
    return pool;
}

double weir_facts_free_cpus(const struct weir_facts *facts)
{
    return fmax(facts->cpus - (isnan(facts->busy_cpus) ? facts->server_cpus : facts->busy_cpus), 0);
}

/* A connection never has a second request under way, though requests that know nothing of each other would have met by now; and it
 * asks again so soon after each answer that it can hardly have waited for anything else but the way. What comes later is leisure. */
bool weir_facts_one_by_one(const struct weir_facts *facts, uint32_t way, double *silent_ns)
{
    const struct weir_profile_way *measured = &facts->profile->ways[way];
    double accepted = (double)weir_profile_grown(measured->begin.accepted, measured->end.accepted);
    double overlapped = (double)weir_profile_grown(measured->begin.overlapped, measured->end.overlapped);
    if (!facts->topology->ways[way].replies || !measured->in_flight.count || measured->in_flight.max > 1 || accepted < REQUESTS)
        return false;
    double busy = weir_histogram_mean(&measured->in_flight);
    *silent_ns = (1 - busy) * (double)measured->end.connections * (double)facts->profile->duration_ns / accepted;
    double most_ns = SILENCE_NS + SILENCE_TRIPS * (double)weir_histogram_quantile(&measured->round_trip, 0.5);
    return accepted * busy >= MEETINGS && overlapped <= OVERLAP * accepted && *silent_ns <= most_ns;
}

double weir_facts_waiting(const struct weir_facts *facts, uint32_t pool)
{
    double items = 0;
    for (uint32_t i = 0; i < facts->topology->queue_count; i++)
        if (facts->topology->queues[i].to_pool == pool && facts->topology->queues[i].kind == WEIR_QUEUE_HANDOFF)
            items += facts->profile->queues[i].depth_items_mean;
    return items;
}

double weir_facts_alone_ns(const struct weir_profile_slots *slots)
{
    double shortest = (double)slots->service.min; /* of the window, in which a connection may have been less busy */
    return slots->end.alone_ns ? fmin((double)slots->end.alone_ns, shortest > 0 ? shortest : INFINITY) : shortest;
}

double weir_facts_service_ns(const struct weir_facts *facts, const struct weir_profile_slots *slots)
{
    double finished = (double)weir_profile_grown(slots->begin.finished, slots->end.finished);
    return finished > 0 ? slots->in_use_mean * (double)facts->profile->duration_ns / finished : 0;
}

bool weir_facts_serial(const struct weir_facts *facts, const struct weir_profile_slots *slots)
{
    double each = slots->open_mean > 0 ? slots->in_use_mean / slots->open_mean : 0, alone = weir_facts_alone_ns(slots);
    /* Side by side that is 1, one after the other it is `each`: which of the two is it nearer to, by ratio? */
    return each >= 2 && alone > 0 && weir_facts_service_ns(facts, slots) / alone >= fmin(sqrt(each), SERIAL_MOST);
}

bool weir_facts_far_end_full(const struct weir_facts *facts, const struct weir_profile_slots *slots)
{
    double finished = (double)weir_profile_grown(slots->begin.finished, slots->end.finished), window_ns = (double)facts->profile->duration_ns;
    double each = slots->open_mean > 0 && window_ns > 0 ? finished / window_ns / slots->open_mean : 0;
    return slots->open_mean >= 1.5 && weir_facts_serial(facts, slots) && each * weir_facts_alone_ns(slots) < ONE_BY_ONE;
}

double weir_facts_fill(const struct weir_facts *facts, uint32_t queue)
{
    const struct weir_topology_queue *shape = &facts->topology->queues[queue];
    const struct weir_profile_queue *measured = &facts->profile->queues[queue];
    if (!measured->depth_items.count && !measured->depth_bytes.count)
        return NAN;
    double items = shape->limit_items ? measured->depth_items_mean / (double)shape->limit_items : 0;
    double bytes = shape->limit_bytes ? measured->depth_bytes_mean / (double)shape->limit_bytes : 0;
    return fmax(items, bytes);
}

bool weir_facts_full(const struct weir_facts *facts, uint32_t queue)
{
    return weir_facts_fill(facts, queue) >= FULL;
}
