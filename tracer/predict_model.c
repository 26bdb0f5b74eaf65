/*
 * DESIGN. An item costs a stage the CPU time that its row has per item, and the sleeps that the pool's states have for it; how these
 * vary from item to item is taken from the service times, scaled to those means, since a service time holds waits for a CPU that the
 * simulation makes anew. What a pool's threads ran outside of any stage is the runtime's, and goes with each item through that pool.
 *
 * Waking a sleeping thread costs more than the push itself, and whether somebody sleeps changes with the file. So a push is split: what
 * it costs when nobody sleeps, and what each wakeup costs, of which the profile has the number.
 */
#include "tracer/predict_model.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/predict_lock.h"

#define PUSH_NS 200.0  /* a push or pop when nobody sleeps: a lock, a list, the counters */
#define WAKE_NS 3000.0 /* a wakeup, where the profile had none: a system call, and the other side of it */
#define LATE_NS 10000.0 /* from a wakeup to running, where the profile had none: of a thread whose CPU idles */
#define FACTORS 100u   /* of the table that a service time becomes: its percentiles */
#define FACTOR_TOP 0.99 /* what lies above is mostly the scheduler's doing, not the stage's */
#define CLOSED_MIN 1.5 /* requests under way on a connection, from which on it waits for the server */

struct builder {
    const struct weir_facts *facts;
    const struct weir_costs *costs;
    const struct weir_topology *old, *new;
    struct weir_arena *arena;
    struct weir_simulate_pool *pools;
    struct weir_simulate_queue *queues;
    struct weir_simulate_slots *slots;
    struct weir_simulate_way *ways;
    uint32_t slots_count, lock_count;
    struct weir_error *error;
};

/* What an item costs in a stage. */
struct cost {
    double own_ns, size_ns, push_ns, pop_ns, sleep_ns;
    const struct weir_histogram *service;
};

static int no_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to predict");
}

/* --- costs -------------------------------------------------------------------------------------------------------------------- */

static uint32_t old_stage(const struct builder *builder, uint32_t index)
{
    const struct weir_topology_stage *stage = &builder->new->stages[index];
    for (uint32_t i = 0; i < builder->old->stage_count; i++)
        if (builder->old->stages[i].verb == stage->verb && strcmp(builder->old->stages[i].full_name, stage->full_name) == 0)
            return i;
    return WEIR_NONE;
}

static uint32_t old_pool(const struct builder *builder, uint32_t index)
{
    for (uint32_t i = 0; i < builder->old->pool_count; i++)
        if (strcmp(builder->old->pools[i].name, builder->new->pools[index].name) == 0)
            return i;
    return WEIR_NONE;
}

static double part_ns(const struct builder *builder, uint32_t old, enum weir_part part, double items)
{
    const struct weir_profile_row *row = weir_facts_row(builder->facts->profile, old, part);
    return row && items > 0 ? builder->costs->row_cpu_ns[row - builder->facts->profile->rows] / items : 0;
}

/* What the pools' threads slept in the stage. */
static double slept_ns(const struct weir_facts *facts, uint32_t old)
{
    const struct weir_profile_row *row = weir_facts_row(facts->profile, old, WEIR_PART_NONE);
    double work_ns = 0;
    for (uint32_t p = 0; p < facts->topology->pool_count; p++)
        work_ns += facts->work_ns[p * facts->topology->stage_count + old];
    return row ? fmax(work_ns - row->cpu_ns, 0) : 0;
}

static void measured_cost(const struct builder *builder, uint32_t old, struct cost *cost)
{
    const struct weir_profile *profile = builder->facts->profile;
    const struct weir_profile_row *row = weir_facts_row(profile, old, WEIR_PART_NONE);
    if (!row || !row->items)
        return;
    double items = builder->costs->row_items[row - profile->rows];
    cost->size_ns = part_ns(builder, old, WEIR_PART_SIZE, items);
    cost->push_ns = part_ns(builder, old, WEIR_PART_PUSH, items);
    cost->pop_ns = part_ns(builder, old, WEIR_PART_POP, items);
    cost->own_ns = fmax(part_ns(builder, old, WEIR_PART_NONE, items) - cost->size_ns - cost->push_ns - cost->pop_ns, 0);
    cost->sleep_ns = slept_ns(builder->facts, old) / (double)row->items;
    cost->service = row->service && row->service->count >= FACTORS ? row->service : NULL;
}

/* A stage that was not measured: what the file says of it, or nothing. */
static int stated_cost(const struct builder *builder, const struct weir_topology_stage *stage, struct cost *cost)
{
    switch (stage->verb) {
    case WEIR_BUSY:
        *cost = (struct cost){ .own_ns = (double)stage->cpu_ns, .sleep_ns = (double)stage->pause_ns };
        return 0;
    case WEIR_HANDOFF: {
        enum weir_sized sized = builder->new->queues[stage->queue].sized;
        if (sized == WEIR_SIZED_TYPED || sized == WEIR_SIZED_REFLECT)
            return weir_error_set(builder->error, WEIR_EXIT_USAGE, EINVAL,
                                  "the profile does not know what `sized %s` costs in %s: record a server that sizes so",
                                  weir_sized_name(sized), stage->full_name);
        *cost = (struct cost){ .push_ns = PUSH_NS, .pop_ns = PUSH_NS };
        return 0;
    }
    case WEIR_DROP: case WEIR_THEN:
        return 0;
    default:
        return weir_error_set(builder->error, WEIR_EXIT_USAGE, EINVAL,
                              "the profile knows no stage %s, so that nobody knows what it costs: record a server that has it, or write a "
                              "`busy` of that cost in its place", stage->full_name);
    }
}

static int cost_of(const struct builder *builder, uint32_t index, struct cost *cost)
{
    const struct weir_topology_stage *stage = &builder->new->stages[index];
    uint32_t old = old_stage(builder, index);
    *cost = (struct cost){ 0 };
    if (stage->verb == WEIR_TEE || stage->verb == WEIR_BATCH)
        return weir_error_set(builder->error, WEIR_EXIT_USAGE, EINVAL, "%s can't be predicted: a `%s` makes other items of an item",
                              stage->full_name, weir_verb_name(stage->verb));
    if (old == WEIR_NONE)
        return stated_cost(builder, stage, cost);
    const struct weir_topology_stage *was = &builder->old->stages[old];
    if (stage->verb == WEIR_BUSY && (stage->cpu_ns != was->cpu_ns || stage->pause_ns != was->pause_ns))
        return stated_cost(builder, stage, cost);
    measured_cost(builder, old, cost);
    if (stage->verb != WEIR_HANDOFF)
        return 0;
    enum weir_sized sized = builder->new->queues[stage->queue].sized;
    if (sized == WEIR_SIZED_BYTES || sized == WEIR_SIZED_ARENA)
        cost->size_ns = 0;
    else if (sized != builder->old->queues[was->queue].sized)
        return stated_cost(builder, stage, cost);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The service times' shape, as multiples of their mean. */
static struct weir_simulate_time shaped(const struct builder *builder, const struct weir_histogram *service, double mean_ns)
{
    struct weir_simulate_time time = { .mean_ns = mean_ns };
    double *factors = service ? weir_arena_zalloc(builder->arena, FACTORS * sizeof *factors) : NULL, sum = 0;
    for (uint32_t i = 0; factors && i < FACTORS; i++)
        sum += factors[i] = (double)weir_histogram_quantile(service, FACTOR_TOP * (i + 0.5) / FACTORS);
    if (!(sum > 0))
        return time;
    for (uint32_t i = 0; i < FACTORS; i++)
        factors[i] *= FACTORS / sum;
    qsort(factors, FACTORS, sizeof *factors, by_value);
    time.shape = WEIR_SIMULATE_TABLE;
    time.factors = factors;
    time.factor_count = FACTORS;
    return time;
}

/* --- wakeups ------------------------------------------------------------------------------------------------------------------ */

/* Splits `ns` an item into what each costs and what a wakeup costs, given `wakeups` an item. */
static void split(double ns, double wakeups, double *each_ns, double *wake_ns)
{
    *each_ns = fmin(ns, PUSH_NS);
    *wake_ns = wakeups > 0 ? (ns - *each_ns) / fmin(wakeups, 1) : WAKE_NS;
    /* More than that is no wakeup; fewer of them than can cost it, and it is the push itself that is dear. */
    if (*wake_ns > 20 * WAKE_NS) {
        *wake_ns = WAKE_NS;
        *each_ns = ns;
    }
}

static double wakeups_an_item(const struct builder *builder, uint32_t old)
{
    const struct weir_profile_queue *queue = &builder->facts->profile->queues[builder->old->stages[old].queue];
    double items = (double)weir_profile_grown(queue->begin.out, queue->end.out);
    double wakeups = (double)(queue->wakeups ? queue->wakeups : queue->wakeup.count);
    return items > 0 ? wakeups / items : 0;
}

/* How late a thread comes that sleeps on that queue. */
static double late_ns(const struct builder *builder, uint32_t old)
{
    const struct weir_histogram *wakeup =
        old == WEIR_NONE ? NULL : &builder->facts->profile->queues[builder->old->stages[old].queue].wakeup;
    return wakeup && wakeup->count >= FACTORS ? (double)weir_histogram_quantile(wakeup, 0.5) : LATE_NS;
}

/* --- steps -------------------------------------------------------------------------------------------------------------------- */

struct path {
    struct weir_simulate_step *steps;
    uint32_t count, capacity;
    uint32_t pool;   /* whose threads are at it */
    bool decoded;
    uint32_t way;
};

static struct weir_simulate_step *add_step(struct path *path, enum weir_simulate_kind kind, uint32_t label)
{
    struct weir_simulate_step *step = &path->steps[path->count++];
    *step = (struct weir_simulate_step){ .kind = kind, .label = label };
    return step;
}

static void add_work(struct path *path, uint32_t label, struct weir_simulate_time cpu, struct weir_simulate_time sleep)
{
    struct weir_simulate_step *step = add_step(path, WEIR_SIMULATE_WORK, label);
    step->cpu = cpu;
    step->sleep = sleep;
}

static struct weir_simulate_time constant(double ns)
{
    return (struct weir_simulate_time){ .mean_ns = ns };
}

/* What the pool's threads ran outside of any stage, for each item that passed. */
static void add_runtime(const struct builder *builder, struct path *path)
{
    uint32_t old = old_pool(builder, path->pool);
    if (old == WEIR_NONE)
        return;
    const struct weir_facts_pool *pool = &builder->facts->pools[old];
    double items = 0, rest_ns = pool->share[WEIR_STATE_RUNNING] * pool->whole_ns - pool->stage_cpu_ns;
    for (uint32_t i = 0; i < builder->facts->profile->row_count; i++) {
        const struct weir_profile_row *row = &builder->facts->profile->rows[i];
        if (row->stage != WEIR_NONE && row->part == WEIR_PART_NONE && row->way == WEIR_NONE && row->pool == old)
            items = fmax(items, (double)row->items);
    }
    if (items > 0 && rest_ns > 0)
        add_work(path, builder->new->stage_count, constant(rest_ns / items), constant(0));
}

static double bytes_of_item(const struct builder *builder, const struct path *path, uint32_t index)
{
    const struct weir_profile *profile = builder->facts->profile;
    uint32_t old = old_stage(builder, index);
    bool was_decoded = false;
    if (old != WEIR_NONE)
        for (uint32_t i = builder->old->pipelines[builder->old->stages[old].pipeline].first_stage; i < old; i++)
            was_decoded |= builder->old->stages[i].verb == WEIR_DECODE;
    if (old != WEIR_NONE && was_decoded == path->decoded) {
        const struct weir_profile_queue *queue = &profile->queues[builder->old->stages[old].queue];
        uint64_t in = weir_profile_grown(queue->begin.in, queue->end.in);
        return in ? (double)weir_profile_grown(queue->begin.in_bytes, queue->end.in_bytes) / (double)in : 0;
    }
    const struct weir_profile_way *way = &profile->ways[path->way];
    uint64_t accepted = weir_profile_grown(way->begin.accepted, way->end.accepted);
    return accepted ? (double)weir_profile_grown(way->begin.accepted_bytes, way->end.accepted_bytes) / (double)accepted : 0;
}

static void add_handoff(const struct builder *builder, struct path *path, uint32_t index, const struct cost *cost)
{
    const struct weir_topology_queue *shape = &builder->new->queues[builder->new->stages[index].queue];
    struct weir_simulate_queue *queue = &builder->queues[builder->new->stages[index].queue];
    uint32_t old = old_stage(builder, index);
    double bytes = bytes_of_item(builder, path, index), wakeups = old == WEIR_NONE ? 0 : wakeups_an_item(builder, old), push_ns, pop_ns;
    split(cost->push_ns, wakeups, &push_ns, &queue->wake_ns);
    split(cost->pop_ns, wakeups, &pop_ns, &queue->woken_ns);
    queue->to_pool = shape->to_pool;
    queue->label = index;
    queue->late_ns = late_ns(builder, old);
    queue->limit = shape->limit_items;
    if (bytes > 0)
        queue->limit = (uint64_t)fmax(fmin((double)queue->limit, (double)shape->limit_bytes / bytes), 1);
    queue->full = shape->full == WEIR_FULL_BLOCK ? WEIR_SIMULATE_BLOCK :
                  shape->full == WEIR_FULL_DROP_OLDEST ? WEIR_SIMULATE_REFUSE_OLD : WEIR_SIMULATE_REFUSE_NEW;
    add_work(path, index, constant(cost->own_ns + cost->size_ns + push_ns), constant(0));
    add_step(path, WEIR_SIMULATE_PUSH, index)->queue = builder->new->stages[index].queue;
    path->pool = shape->to_pool;
    add_work(path, index, constant(pop_ns), constant(0));
    add_runtime(builder, path);
}

static void add_answer(const struct builder *builder, struct path *path, uint32_t index, const struct cost *cost)
{
    uint32_t old = old_stage(builder, index);
    bool rings = builder->new->stages[index].verb == WEIR_REPLY;
    double push_ns = 0, wake_ns = 0;
    if (rings)
        split(cost->push_ns, old == WEIR_NONE ? 0 : wakeups_an_item(builder, old), &push_ns, &wake_ns);
    add_work(path, index, constant(rings ? push_ns : cost->own_ns), constant(0));
    struct weir_simulate_step *answer = add_step(path, WEIR_SIMULATE_ANSWER, index);
    answer->wake_ns = path->pool == builder->ways[path->way].pool ? 0 : wake_ns;
    answer->late_ns = late_ns(builder, old);
    answer->send = constant(rings ? cost->own_ns + cost->pop_ns : 0);
    answer->send_label = index;
}

/* Does service grow with what is under way on a connection? Then each serves one request after the other. */
static int add_slots(struct builder *builder, struct path *path, uint32_t index, const struct cost *cost)
{
    const struct weir_topology_stage *stage = &builder->new->stages[index];
    struct weir_simulate_slots *to = &builder->slots[builder->slots_count];
    uint32_t old = old_stage(builder, index);
    *to = (struct weir_simulate_slots){ .pool = path->pool, .connections = stage->connections, .in_flight = stage->in_flight };
    for (uint32_t i = 0; i < builder->facts->profile->slots_count; i++) {
        const struct weir_profile_slots *slots = &builder->facts->profile->slots[i];
        if (slots->stage != old)
            continue;
        double mean_ns = weir_facts_service_ns(builder->facts, slots);
        if (mean_ns <= 0)
            return weir_error_set(builder->error, WEIR_EXIT_USAGE, EINVAL,
                                  "nothing came back through the slots of %s in this profile: record again while they answer",
                                  stage->full_name);
        if (weir_facts_serial(builder->facts, slots)) {
            to->shared = weir_facts_far_end_full(builder->facts, slots);
            double one_ns = mean_ns * (to->shared ? 1 : slots->open_mean) / slots->in_use_mean;
            to->serial = constant(one_ns);
            to->delay = constant(fmax(weir_facts_alone_ns(slots) - one_ns, 0));
        } else {
            to->delay = shaped(builder, slots->service.count >= FACTORS ? &slots->service : NULL, mean_ns);
        }
    }
    add_work(path, index, constant(cost->own_ns), constant(0));
    add_step(path, WEIR_SIMULATE_SLOT, index)->slots = builder->slots_count++;
    return 0;
}

/* A stage that only works, and holds a lock for a part of that. */
static void add_stage(struct builder *builder, struct path *path, uint32_t index, const struct cost *cost)
{
    uint32_t old = old_stage(builder, index);
    double whole_ns = cost->own_ns + cost->sleep_ns;
    double held = old == WEIR_NONE || !(whole_ns > 0) ? 0 : weir_predict_held_ns(builder->facts, old, whole_ns) / whole_ns;
    if (!(held > 0)) {
        add_work(path, index, shaped(builder, cost->service, cost->own_ns), shaped(builder, cost->service, cost->sleep_ns));
        return;
    }
    /* Service times hold waits for the lock: they say nothing of the rest. */
    add_work(path, index, constant((1 - held) * cost->own_ns), constant((1 - held) * cost->sleep_ns));
    add_step(path, WEIR_SIMULATE_LOCK, index)->lock = builder->lock_count;
    add_work(path, index, constant(held * cost->own_ns), constant(held * cost->sleep_ns));
    add_step(path, WEIR_SIMULATE_UNLOCK, index)->lock = builder->lock_count++;
}

/* The stages from `pipeline` on, until the answer. */
static int add_pipeline(struct builder *builder, struct path *path, uint32_t pipeline)
{
    const struct weir_topology_pipeline *home = &builder->new->pipelines[pipeline];
    for (uint32_t i = home->first_stage; i < home->first_stage + home->stage_count; i++) {
        const struct weir_topology_stage *stage = &builder->new->stages[i];
        struct cost cost;
        int rc = cost_of(builder, i, &cost);
        if (rc)
            return rc;
        path->decoded |= stage->verb == WEIR_DECODE;
        switch (stage->verb) {
        case WEIR_HANDOFF:
            add_handoff(builder, path, i, &cost);
            break;
        case WEIR_FORWARD: case WEIR_STORE:
            rc = add_slots(builder, path, i, &cost);
            if (rc)
                return rc;
            break;
        case WEIR_REPLY: case WEIR_DROP:
            add_answer(builder, path, i, &cost);
            return 0;
        case WEIR_THEN:
            return add_pipeline(builder, path, stage->target);
        default:
            add_stage(builder, path, i, &cost);
        }
    }
    return 0;
}

/* --- clients ------------------------------------------------------------------------------------------------------------------ */

/* Requests that a connection has under way on average, those that the kernel still holds included. */
static double under_way(const struct weir_profile_way *way, double connections, double request_bytes)
{
    double held = request_bytes > 0 && way->receive_bytes.count ? weir_histogram_mean(&way->receive_bytes) / request_bytes : 0;
    if (way->in_flight.count)
        return weir_histogram_mean(&way->in_flight) + held;
    return ((double)way->begin.in_flight + (double)way->end.in_flight) / 2 / connections + held;
}

static void set_clients(const struct builder *builder, uint32_t index, struct weir_simulate_way *to)
{
    const struct weir_profile *profile = builder->facts->profile;
    const struct weir_profile_way *way = &profile->ways[index];
    double accepted = (double)weir_profile_grown(way->begin.accepted, way->end.accepted);
    double bytes = (double)weir_profile_grown(way->begin.accepted_bytes, way->end.accepted_bytes);
    uint64_t open = way->end.connections > way->begin.connections ? way->end.connections : way->begin.connections;
    double rate = profile->duration_ns ? accepted * 1e9 / (double)profile->duration_ns : 0;
    to->connections = open && open < 100000 ? (uint32_t)open : 1;
    double each = under_way(way, to->connections, accepted > 0 ? bytes / accepted : 0);
    double silent_ns;
    if (accepted > 0 && each >= CLOSED_MIN && builder->new->ways[index].replies) {
        to->window = (uint32_t)fmin(round(each), 1e5);
    } else if (weir_facts_one_by_one(builder->facts, index, &silent_ns)) {
        to->window = 1;
        to->think = constant(silent_ns);
    } else {
        to->rate_per_s = rate;
    }
}

static int set_way(struct builder *builder, uint32_t index)
{
    const struct weir_topology_way *shape = &builder->new->ways[index];
    struct weir_simulate_way *way = &builder->ways[index];
    struct path path = { .capacity = 4 * builder->new->stage_count + 8, .way = index };
    uint32_t old = 0;
    while (old < builder->old->way_count && strcmp(builder->old->ways[old].name, shape->name) != 0)
        old++;
    if (old != index)
        return weir_error_set(builder->error, WEIR_EXIT_USAGE, EINVAL,
                              "the profile knows no clients of pipeline %s: its ways in must be those of the measured file", shape->name);
    path.pool = way->pool = builder->new->stages[shape->listen_stage].pool;
    path.steps = weir_arena_zalloc(builder->arena, path.capacity * sizeof *path.steps);
    if (!path.steps)
        return no_memory(builder->error);
    set_clients(builder, index, way);
    add_runtime(builder, &path);
    int rc = add_pipeline(builder, &path, shape->pipeline);
    way->steps = path.steps;
    way->step_count = path.count;
    return rc;
}

/* --- the model ---------------------------------------------------------------------------------------------------------------- */

/* Of a thread with something to do: how much of that time it runs. */
static double speed(const struct weir_facts *facts)
{
    double runs_ns = 0, waits_ns = 0;
    for (uint32_t i = 0; i < facts->topology->pool_count; i++) {
        runs_ns += facts->pools[i].share[WEIR_STATE_RUNNING] * facts->pools[i].whole_ns;
        waits_ns += facts->pools[i].share[WEIR_STATE_RUNNABLE] * facts->pools[i].whole_ns;
    }
    return runs_ns > 0 ? fmax(runs_ns / (runs_ns + waits_ns), 0.05) : 0.05;
}

int weir_predict_model(const struct weir_facts *facts, const struct weir_costs *costs, const struct weir_topology *topology,
                       struct weir_arena *arena, struct weir_simulate_model *model, struct weir_error *error)
{
    struct builder builder = {
        .facts = facts, .costs = costs, .old = facts->topology, .new = topology, .arena = arena, .error = error,
        .pools = weir_arena_zalloc(arena, (topology->pool_count + 1) * sizeof *builder.pools),
        .queues = weir_arena_zalloc(arena, (topology->queue_count + 1) * sizeof *builder.queues),
        .slots = weir_arena_zalloc(arena, (topology->stage_count + 1) * sizeof *builder.slots),
        .ways = weir_arena_zalloc(arena, (topology->way_count + 1) * sizeof *builder.ways),
    };
    if (!builder.pools || !builder.queues || !builder.slots || !builder.ways)
        return no_memory(error);
    for (uint32_t i = 0; i < topology->pool_count; i++)
        builder.pools[i] = (struct weir_simulate_pool){ .threads = topology->pools[i].threads, .listens = topology->pools[i].listens };
    for (uint32_t i = 0; i < topology->queue_count; i++) /* rings and the like are no queues of the simulation */
        builder.queues[i] = (struct weir_simulate_queue){ .to_pool = WEIR_NONE };
    for (uint32_t i = 0; i < topology->way_count; i++) {
        int rc = set_way(&builder, i);
        if (rc)
            return rc;
    }
    /* What others use of the CPUs they go on using; a thread that has something to do is as fast as it was beside them. */
    double others = isnan(facts->busy_cpus) ? 0 : fmax(facts->busy_cpus - facts->server_cpus, 0);
    *model = (struct weir_simulate_model){
        .cpus = fmax(facts->cpus - others, fmax(facts->server_cpus, speed(facts))), .pools = builder.pools, .queues = builder.queues,
        .slots = builder.slots, .ways = builder.ways, .pool_count = topology->pool_count, .queue_count = topology->queue_count,
        .slots_count = builder.slots_count, .way_count = topology->way_count, .lock_count = builder.lock_count, .labels = topology->stage_count + 1,
    };
    return 0;
}
