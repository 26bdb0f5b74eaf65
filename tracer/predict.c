/*
 * DESIGN. The interval comes from playing the model several times, each with another seed and with the costs of a resampling of the
 * profile's slices: how much the measurement itself, and chance, leave open. What the model leaves out shows where it is held against
 * what is known: the measured file is simulated too, and by as much as that is off, the interval of the throughput is wider.
 */
#include "tracer/predict.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/predict_model.h"
#include "tracer/verdict_rule.h"

#define PLAYS 40u          /* of so many, one in twenty is expected outside of the lowest and the highest */
#define ITEMS 4000u        /* of one play, and as many as are under way several times */
#define TURNS 3u
#define MOST_NS 120e9      /* of simulated time */

/* What one play gave. */
struct outcome {
    double per_s, refused_per_s, p50_ns, p99_ns, cpus;
    double *share; /* [stages] */
    double *busy, *asleep; /* [pools] */
    double *slots_full, *lock_held;
};

struct predictor {
    struct weir_facts facts;
    struct weir_costs costs;
    double *row_cpu_ns, *row_items;
    struct weir_arena *arena;
    struct weir_error *error;
    uint64_t seed;
};

static int no_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to predict");
}

/* --- costs -------------------------------------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
    return *seed >> 33;
}

static void costs_of_all(struct predictor *predictor)
{
    const struct weir_profile *profile = predictor->facts.profile;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        predictor->row_cpu_ns[i] = profile->rows[i].cpu_ns;
        predictor->row_items[i] = (double)profile->rows[i].items;
    }
}

/* As if the window had been put together from slices of it, at random. A row without items in them stays as it is. */
static void resample_costs(struct predictor *predictor)
{
    const struct weir_profile *profile = predictor->facts.profile;
    costs_of_all(predictor);
    if (profile->slice_count < 2)
        return;
    for (uint32_t i = 0; i < profile->row_count; i++)
        predictor->row_cpu_ns[i] = predictor->row_items[i] = 0;
    for (uint32_t k = 0; k < profile->slice_count; k++) {
        const struct weir_profile_slice *slice = &profile->slices[next_random(&predictor->seed) % profile->slice_count];
        for (uint32_t i = 0; i < profile->row_count; i++) {
            predictor->row_cpu_ns[i] += slice->row_cpu_ns[i];
            predictor->row_items[i] += (double)slice->row_items[i];
        }
    }
    for (uint32_t i = 0; i < profile->row_count; i++) {
        uint32_t counts = profile->rows[i].part_of != WEIR_NONE && profile->rows[i].part != WEIR_PART_NONE ? profile->rows[i].part_of : i;
        if (predictor->row_items[counts] <= 0) {
            predictor->row_cpu_ns[i] = profile->rows[i].cpu_ns;
            predictor->row_items[i] = (double)profile->rows[i].items;
        }
    }
}

/* --- plays -------------------------------------------------------------------------------------------------------------------- */

static bool room_for(struct predictor *predictor, const struct weir_simulate_model *model, struct outcome *outcome)
{
    outcome->share = weir_arena_zalloc(predictor->arena, (model->labels + 1) * sizeof(double));
    outcome->busy = weir_arena_zalloc(predictor->arena, (model->pool_count + 1) * sizeof(double));
    outcome->asleep = weir_arena_zalloc(predictor->arena, (model->pool_count + 1) * sizeof(double));
    outcome->slots_full = weir_arena_zalloc(predictor->arena, (model->slots_count + 1) * sizeof(double));
    outcome->lock_held = weir_arena_zalloc(predictor->arena, (model->lock_count + 1) * sizeof(double));
    return outcome->share && outcome->busy && outcome->asleep && outcome->slots_full && outcome->lock_held;
}

static void read_result(const struct weir_simulate_model *model, const struct weir_simulate_result *result, struct outcome *outcome)
{
    struct weir_histogram *latency = calloc(1, sizeof *latency);
    double ns = result->duration_ns;
    for (uint32_t i = 0; i < model->way_count && ns > 0; i++) {
        outcome->per_s += (double)result->ways[i].answered * 1e9 / ns;
        outcome->refused_per_s += (double)result->ways[i].refused * 1e9 / ns;
        if (latency)
            weir_histogram_merge(latency, &result->ways[i].latency);
    }
    outcome->p50_ns = latency && latency->count ? (double)weir_histogram_quantile(latency, 0.5) : NAN;
    outcome->p99_ns = latency && latency->count ? (double)weir_histogram_quantile(latency, 0.99) : NAN;
    outcome->cpus = ns > 0 ? result->cpu_ns / ns : 0;
    for (uint32_t i = 0; i < model->labels; i++)
        outcome->share[i] = result->cpu_ns > 0 ? result->label_cpu_ns[i] / result->cpu_ns : 0;
    for (uint32_t i = 0; i < model->pool_count; i++) {
        const struct weir_simulate_use *use = &result->pools[i];
        outcome->busy[i] = use->running + use->runnable + use->asleep + use->starved;
        outcome->asleep[i] = use->asleep;
    }
    for (uint32_t i = 0; i < model->slots_count; i++)
        outcome->slots_full[i] = result->slots_full[i];
    for (uint32_t i = 0; i < model->lock_count; i++)
        outcome->lock_held[i] = result->lock_held[i];
    free(latency);
}

static int play(struct predictor *predictor, const struct weir_simulate_model *model, uint64_t seed, struct outcome *outcome)
{
    struct weir_simulate_result result;
    uint64_t under_way = 0;
    for (uint32_t i = 0; i < model->way_count; i++)
        under_way += (uint64_t)model->ways[i].connections * model->ways[i].window;
    uint64_t items = under_way * TURNS > ITEMS ? under_way * TURNS : ITEMS;
    struct weir_simulate_run run = { .seed = seed, .warmup_items = items, .items = items, .most_ns = MOST_NS };
    *outcome = (struct outcome){ 0 };
    if (!room_for(predictor, model, outcome) || weir_simulate(model, &run, &result) != 0)
        return no_memory(predictor->error);
    read_result(model, &result, outcome);
    weir_simulate_release(&result);
    return 0;
}

/* Plays `topology` with the costs of all, or `count` times with resampled ones. `last` is the model of the last play. */
static int play_all(struct predictor *predictor, const struct weir_topology *topology, uint32_t count, struct outcome *outcomes,
                    struct weir_simulate_model *last)
{
    for (uint32_t i = 0; i < count; i++) {
        if (count == 1)
            costs_of_all(predictor);
        else
            resample_costs(predictor);
        int rc = weir_predict_model(&predictor->facts, &predictor->costs, topology, predictor->arena, last, predictor->error);
        if (!rc)
            rc = play(predictor, last, i + 1, &outcomes[i]);
        if (rc)
            return rc;
    }
    return 0;
}

/* --- figures ------------------------------------------------------------------------------------------------------------------ */

/* Of `count` outcomes the double at `offset`, or at index `index` of the array there. */
static double read_field(const struct outcome *outcome, size_t offset, uint32_t index)
{
    const char *at = (const char *)outcome + offset;
    return index == WEIR_NONE ? *(const double *)at : (*(double *const *)at)[index];
}

static struct weir_prediction_figure figure(double now, const struct outcome *outcomes, size_t offset, uint32_t index)
{
    struct weir_prediction_figure figure = { .now = now, .low = INFINITY, .high = -INFINITY };
    for (uint32_t i = 0; i < PLAYS; i++) {
        double value = read_field(&outcomes[i], offset, index);
        figure.value += value / PLAYS;
        figure.low = fmin(figure.low, value);
        figure.high = fmax(figure.high, value);
    }
    figure.value = fmax(fmin(figure.value, figure.high), figure.low); /* a sum of equal ones is off by its last digit */
    return figure;
}
#define FIGURE(now, field) figure((now), outcomes, offsetof(struct outcome, field), WEIR_NONE)
#define FIGURE_OF(now, field, index) figure((now), outcomes, offsetof(struct outcome, field), (index))

/* By what the simulation of the measured file is off, the truth may be off that way. */
static void widen(struct weir_prediction_figure *figure, double measured, double simulated)
{
    if (!(measured > 0) || !(simulated > 0))
        return;
    figure->low = fmin(figure->low, figure->value * fmin(measured / simulated, 1));
    figure->high = fmax(figure->high, figure->value * fmax(measured / simulated, 1));
}

/* What others use of the CPUs may grow with the messages: the clients on this machine, a database. If all of it does, there are CPUs
 * for so many and no more. */
static void widen_by_others(struct weir_prediction *prediction, const struct weir_facts *facts)
{
    double others = isnan(facts->busy_cpus) ? 0 : fmax(facts->busy_cpus - facts->server_cpus, 0);
    double each = prediction->cpus.value / prediction->messages_per_s.value + others / prediction->messages_per_s.now;
    if (others > 0 && each > 0)
        prediction->messages_per_s.low = fmin(prediction->messages_per_s.low, facts->cpus / each);
}

/* Items that handoffs refused, in one pipeline or (WEIR_NONE) in all. */
static double refused_items(const struct weir_profile *profile, uint32_t pipeline)
{
    const struct weir_topology *topology = &profile->topology;
    double refused = 0;
    for (uint32_t i = 0; i < topology->queue_count; i++) {
        const struct weir_profile_queue_count *begin = &profile->queues[i].begin, *end = &profile->queues[i].end;
        if (topology->queues[i].kind == WEIR_QUEUE_HANDOFF &&
            (pipeline == WEIR_NONE || topology->stages[topology->queues[i].stage].pipeline == pipeline))
            refused += (double)weir_profile_grown(begin->dropped, end->dropped) +
                       (double)weir_profile_grown(begin->rejected, end->rejected);
    }
    return refused;
}

/* Messages that came to their end: with an answer, or where none is owed without having been refused. */
static double measured_per_s(const struct weir_profile *profile)
{
    const struct weir_topology *topology = &profile->topology;
    double sum = 0;
    for (uint32_t i = 0; i < topology->way_count; i++) {
        const struct weir_profile_way_count *begin = &profile->ways[i].begin, *end = &profile->ways[i].end;
        sum += topology->ways[i].replies ? (double)weir_profile_grown(begin->answered, end->answered) :
               fmax((double)weir_profile_grown(begin->discarded, end->discarded) - refused_items(profile, topology->ways[i].pipeline), 0);
    }
    return profile->duration_ns ? sum * 1e9 / (double)profile->duration_ns : NAN;
}

static double measured_events_per_s(const struct weir_profile *profile)
{
    double sum = 0;
    for (uint32_t i = 0; i < profile->topology.way_count; i++)
        sum += (double)weir_profile_grown(profile->ways[i].begin.events, profile->ways[i].end.events);
    return profile->duration_ns ? sum * 1e9 / (double)profile->duration_ns : NAN;
}

static double share_now(const struct weir_profile *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (strcmp(profile->rows[i].name, name) == 0)
            return profile->rows[i].share;
    return NAN;
}

static int set_stages(struct predictor *predictor, const struct weir_topology *topology, const struct outcome *outcomes,
                      struct weir_prediction *prediction)
{
    prediction->stage_count = topology->stage_count;
    prediction->stages = weir_arena_zalloc(predictor->arena, (topology->stage_count + 1) * sizeof *prediction->stages);
    if (!prediction->stages)
        return no_memory(predictor->error);
    for (uint32_t i = 0; i < topology->stage_count; i++) {
        const struct weir_topology_stage *stage = &topology->stages[i];
        prediction->stages[i] = (struct weir_prediction_stage){
            .name = stage->full_name, .pool = stage->pool < topology->pool_count ? topology->pools[stage->pool].name : "",
            .cpu_share = FIGURE_OF(share_now(predictor->facts.profile, stage->full_name), share, i),
        };
    }
    return 0;
}

static int set_pools(struct predictor *predictor, const struct weir_topology *topology, const struct outcome *outcomes,
                     struct weir_prediction *prediction)
{
    const struct weir_topology *old = predictor->facts.topology;
    prediction->pool_count = topology->pool_count;
    prediction->pools = weir_arena_zalloc(predictor->arena, (topology->pool_count + 1) * sizeof *prediction->pools);
    if (!prediction->pools)
        return no_memory(predictor->error);
    for (uint32_t i = 0; i < topology->pool_count; i++) {
        struct weir_prediction_pool *pool = &prediction->pools[i];
        *pool = (struct weir_prediction_pool){ .name = topology->pools[i].name, .threads = topology->pools[i].threads };
        double now = NAN;
        for (uint32_t k = 0; k < old->pool_count; k++) {
            if (strcmp(old->pools[k].name, pool->name) == 0) {
                pool->threads_now = old->pools[k].threads;
                now = predictor->facts.pools[k].whole_ns > 0 ? predictor->facts.pools[k].held : NAN;
            }
        }
        pool->busy = FIGURE_OF(now, busy, i);
    }
    return 0;
}

/* --- what comes next ---------------------------------------------------------------------------------------------------------- */

/* The stage whose items take most of the pool's time: CPU and sleep an item, of the steps between the handoffs. */
static uint32_t main_stage(const struct weir_simulate_model *model, uint32_t pool)
{
    uint32_t main = WEIR_NONE;
    double most = 0;
    for (uint32_t w = 0; w < model->way_count; w++) {
        uint32_t at = model->ways[w].pool;
        for (uint32_t i = 0; i < model->ways[w].step_count; i++) {
            const struct weir_simulate_step *step = &model->ways[w].steps[i];
            double ns = step->cpu.mean_ns + step->sleep.mean_ns;
            if (at == pool && step->kind == WEIR_SIMULATE_WORK && step->label + 1 < model->labels && ns > most) {
                most = ns;
                main = step->label;
            }
            if (step->kind == WEIR_SIMULATE_PUSH)
                at = model->queues[step->queue].to_pool;
        }
    }
    return main;
}

/* The stage that takes those slots, or that lock. */
static uint32_t taker(const struct weir_simulate_model *model, enum weir_simulate_kind kind, uint32_t index)
{
    for (uint32_t w = 0; w < model->way_count; w++)
        for (uint32_t i = 0; i < model->ways[w].step_count; i++) {
            const struct weir_simulate_step *step = &model->ways[w].steps[i];
            if (step->kind == kind && (kind == WEIR_SIMULATE_SLOT ? step->slots : step->lock) == index)
                return step->label;
        }
    return WEIR_NONE;
}

static const char *say_next(struct predictor *predictor, const struct weir_topology *topology, const struct weir_simulate_model *model,
                            const struct outcome *outcomes, struct weir_prediction *prediction)
{
    uint32_t busiest = 0;
    for (uint32_t i = 0; i < model->slots_count; i++) {
        struct weir_prediction_figure full = FIGURE_OF(NAN, slots_full, i);
        uint32_t stage = taker(model, WEIR_SIMULATE_SLOT, i);
        if (full.value < WEIR_RULE_SATURATED || stage == WEIR_NONE)
            continue;
        prediction->next_stage = topology->stages[stage].full_name;
        return weir_arena_printf(predictor->arena, "the slots of %s: full %.0f %% of the time", prediction->next_stage, full.value * 100);
    }
    for (uint32_t i = 0; i < model->lock_count; i++) {
        struct weir_prediction_figure held = FIGURE_OF(NAN, lock_held, i);
        uint32_t stage = taker(model, WEIR_SIMULATE_LOCK, i);
        if (held.value < WEIR_RULE_SATURATED || stage == WEIR_NONE)
            continue;
        prediction->next_stage = topology->stages[stage].full_name;
        return weir_arena_printf(predictor->arena, "a lock in %s: held %.0f %% of the time", prediction->next_stage, held.value * 100);
    }
    if (prediction->cpus.value >= WEIR_RULE_CPU_BUSY * model->cpus)
        return weir_arena_printf(predictor->arena, "the CPUs: %.2f of the %.2f that others leave are used", prediction->cpus.value,
                                 model->cpus);
    for (uint32_t i = 1; i < prediction->pool_count; i++)
        if (prediction->pools[i].busy.value > prediction->pools[busiest].busy.value)
            busiest = i;
    const struct weir_prediction_pool *pool = &prediction->pools[busiest];
    if (pool->busy.value < WEIR_RULE_SATURATED)
        return weir_arena_printf(predictor->arena, "not the server: its busiest pool, %s, is %.0f %% idle", pool->name,
                                 100 - pool->busy.value * 100);
    uint32_t stage = main_stage(model, busiest);
    prediction->next_stage = stage == WEIR_NONE ? NULL : topology->stages[stage].full_name;
    return weir_arena_printf(predictor->arena, "pool %s: busy %.0f %% of the time%s%s", pool->name, pool->busy.value * 100,
                             prediction->next_stage ? ", mostly in " : "", prediction->next_stage ? prediction->next_stage : "");
}

/* --- the prediction ----------------------------------------------------------------------------------------------------------- */

static int conclude(struct predictor *predictor, const struct weir_topology *topology, const struct weir_simulate_model *model,
                    const struct outcome *outcomes, const struct outcome *self, struct weir_prediction *prediction)
{
    const struct weir_profile *profile = predictor->facts.profile;
    double now = measured_per_s(profile), events = measured_events_per_s(profile), refused = refused_items(profile, WEIR_NONE);
    *prediction = (struct weir_prediction){
        .messages_per_s = FIGURE(now, per_s), .latency_p50_ns = FIGURE(self->p50_ns, p50_ns), .latency_p99_ns = FIGURE(self->p99_ns, p99_ns),
        .refused_per_s = FIGURE(refused * 1e9 / (double)profile->duration_ns, refused_per_s),
        .cpus = FIGURE(predictor->facts.server_cpus, cpus), .simulated_per_s = self->per_s,
    };
    widen(&prediction->messages_per_s, now, self->per_s);
    widen_by_others(prediction, &predictor->facts);
    double each = events > 0 && now > 0 ? events / now : NAN;
    prediction->events_per_s = (struct weir_prediction_figure){ events > 0 ? events : NAN, prediction->messages_per_s.value * each,
                                                               prediction->messages_per_s.low * each, prediction->messages_per_s.high * each };
    int rc = set_stages(predictor, topology, outcomes, prediction);
    if (!rc)
        rc = set_pools(predictor, topology, outcomes, prediction);
    if (!rc)
        prediction->next = say_next(predictor, topology, model, outcomes, prediction);
    return rc ? rc : prediction->next ? 0 : no_memory(predictor->error);
}

int weir_predict(const struct weir_profile *profile, const struct weir_topology *topology, struct weir_arena *arena,
                 struct weir_prediction *prediction, struct weir_error *error)
{
    struct predictor predictor = { .arena = arena, .error = error, .seed = 42 };
    struct outcome outcomes[PLAYS], self;
    struct weir_simulate_model model;
    if (weir_facts_of(profile, arena, &predictor.facts) != 0)
        return no_memory(error);
    predictor.costs.row_cpu_ns = predictor.row_cpu_ns = weir_arena_zalloc(arena, (profile->row_count + 1) * sizeof(double));
    predictor.costs.row_items = predictor.row_items = weir_arena_zalloc(arena, (profile->row_count + 1) * sizeof(double));
    if (!predictor.row_cpu_ns || !predictor.row_items)
        return no_memory(error);
    if (!predictor.facts.has_shares || !(measured_per_s(profile) > 0))
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "nothing can be predicted from a profile in which nothing was answered: record "
                              "again while the server works");
    int rc = play_all(&predictor, &profile->topology, 1, &self, &model);
    if (!rc)
        rc = play_all(&predictor, topology, PLAYS, outcomes, &model);
    return rc ? rc : conclude(&predictor, topology, &model, outcomes, &self, prediction);
}
