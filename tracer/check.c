#include "tracer/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define Z95 1.959964
#define SLICES_LEAST 5u       /* fewer say nothing about how a rate varies */
#define RESAMPLES 1000u
#define DRAWS_MOST 20000000ull
#define LOOK_NS 1e7           /* the mean gap between two readings of a queue in light mode */

const char *weir_check_result_name(enum weir_check_result result)
{
    static const char *const names[] = { "MISSED", "INCONCLUSIVE", "ok" };
    return (unsigned)result < 3 ? names[result] : "?";
}

static struct weir_check_measure missing(const char *what)
{
    return (struct weir_check_measure){ .missing = what };
}

static struct weir_check_measure measured(double value, double low, double high)
{
    return (struct weir_check_measure){ .measured = true, .value = value, .low = low > 0 ? low : 0, .high = high };
}

static const struct weir_profile_row *row_of(const struct weir_profile *profile, uint32_t stage, enum weir_part part)
{
    const struct weir_profile_row *found = NULL;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == stage && row->part == part && (!found || (found->way != WEIR_NONE && row->way == WEIR_NONE)))
            found = row;
    }
    return found;
}

/* --- shares of CPU and of thread time ----------------------------------------------------------------------------------------- */

static struct weir_check_measure cpu_of_pipeline(const struct weir_profile *profile, uint32_t pipeline)
{
    double share = 0, below = 0, above = 0;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->part_of != WEIR_NONE || row->stage == WEIR_NONE || profile->topology.stages[row->stage].pipeline != pipeline)
            continue;
        share += row->share;
        below += (row->share - row->share_low) * (row->share - row->share_low);
        above += (row->share_high - row->share) * (row->share_high - row->share);
    }
    return measured(share, share - sqrt(below), share + sqrt(above));
}

static struct weir_check_measure cpu(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    if (term->pool != WEIR_NONE) {
        double share = profile->pools[term->pool].state_ns[WEIR_STATE_RUNNING] / (double)profile->cpu_ns;
        return measured(share, share, share);
    }
    if (term->pipeline != WEIR_NONE)
        return cpu_of_pipeline(profile, term->pipeline);
    const struct weir_profile_row *row = row_of(profile, term->stage, term->part);
    return row ? measured(row->share, row->share_low, row->share_high) : missing("the profile has no row for it");
}

static struct weir_check_measure starved(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    double whole = 0;
    if (term->pool == WEIR_NONE)
        return missing("only a pool can be starved");
    for (unsigned i = 0; i < WEIR_STATE_COUNT; i++)
        whole += profile->pools[term->pool].state_ns[i];
    if (!(whole > 0))
        return missing("no thread of the pool was seen");
    double share = profile->pools[term->pool].state_ns[WEIR_STATE_STARVED] / whole;
    return measured(share, share, share);
}

/* --- histograms --------------------------------------------------------------------------------------------------------------- */

/* How many items were looked at for each one that a weighted histogram counts. */
static double looked_at(const struct weir_profile *profile)
{
    double counted = 0;
    if (profile->mode == WEIR_MODE_EXACT)
        return 1;
    for (uint32_t i = 0; i < profile->topology.queue_count; i++)
        counted += (double)profile->queues[i].wait.count;
    for (uint32_t i = 0; i < profile->topology.way_count; i++)
        if (profile->ways[i].end.accepted > profile->ways[i].begin.accepted)
            counted += (double)(profile->ways[i].end.accepted - profile->ways[i].begin.accepted);
    double part = counted > 0 ? (double)profile->records_kept / counted : 1;
    return part < 1 ? part : 1;
}

static double bucket_low(const struct weir_histogram *histogram, double q)
{
    uint64_t value = weir_histogram_quantile(histogram, q), low = weir_histogram_low(weir_histogram_bucket(value));
    return (double)(low > histogram->min ? low : histogram->min);
}

static double bucket_high(const struct weir_histogram *histogram, double q)
{
    unsigned bucket = weir_histogram_bucket(weir_histogram_quantile(histogram, q));
    uint64_t high = bucket + 1 < WEIR_HISTOGRAM_BUCKETS ? weir_histogram_low(bucket + 1) - 1 : histogram->max;
    return (double)(high < histogram->max ? high : histogram->max);
}

/* Quantile `q` when `n` independent values are behind the histogram. */
static struct weir_check_measure quantile(const struct weir_histogram *histogram, double q, double n)
{
    double reach = n > 0 ? Z95 * sqrt(q * (1 - q) / n) : 1;
    double low = q - reach > 0 ? bucket_low(histogram, q - reach) : 0;
    double high = q + reach < 1 ? bucket_high(histogram, q + reach) : INFINITY;
    return measured((double)weir_histogram_quantile(histogram, q), low, high);
}

static double variance(const struct weir_histogram *histogram)
{
    double mean = weir_histogram_mean(histogram), sum = 0;
    for (unsigned i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++) {
        if (!histogram->buckets[i])
            continue;
        double low = (double)weir_histogram_low(i);
        double high = i + 1 < WEIR_HISTOGRAM_BUCKETS ? (double)weir_histogram_low(i + 1) : (double)histogram->max;
        double off = (low + high) / 2 - mean;
        sum += off * off * (double)histogram->buckets[i];
    }
    return sum / (double)histogram->count;
}

static double q_of(enum weir_statistic statistic)
{
    static const double qs[] = { [WEIR_P50] = 0.5, [WEIR_P90] = 0.9, [WEIR_P99] = 0.99, [WEIR_P999] = 0.999 };
    return qs[statistic];
}

static struct weir_check_measure of_histogram(const struct weir_profile *profile, const struct weir_histogram *histogram,
                                              enum weir_statistic statistic)
{
    if (!histogram || !histogram->count)
        return missing("the profile has no such times");
    double part = looked_at(profile), n = part * (double)histogram->count;
    if (statistic == WEIR_MAX)
        return measured((double)histogram->max, (double)histogram->max, part < 1 ? INFINITY : (double)histogram->max);
    if (statistic != WEIR_MEAN)
        return quantile(histogram, q_of(statistic), n);
    double mean = weir_histogram_mean(histogram), reach = n > 0 ? Z95 * sqrt(variance(histogram) / n) : INFINITY;
    return measured(mean, mean - reach, mean + reach);
}

static struct weir_check_measure service(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    const struct weir_profile_row *row = row_of(profile, term->stage, WEIR_PART_NONE);
    struct weir_check_measure measure = of_histogram(profile, row ? row->service : NULL, term->statistic);
    /* Below the cost of a stamp a time can be anything down to nothing. */
    if (measure.measured && measure.low < profile->probe_floor_ns) {
        measure.low = 0;
        measure.high = fmax(measure.high, profile->probe_floor_ns);
    }
    return measure;
}

/* --- queues ------------------------------------------------------------------------------------------------------------------- */

/* Half the width of the interval of a mean depth, from the depths at the slices' ends. */
static double depth_reach(const struct weir_profile *profile, uint32_t queue, bool bytes)
{
    double sum = 0, squares = 0, n = profile->slice_count;
    if (profile->slice_count < SLICES_LEAST)
        return INFINITY;
    for (uint32_t i = 0; i < profile->slice_count; i++) {
        const struct weir_profile_queue_count *count = &profile->slices[i].queues[queue];
        double depth = (double)(bytes ? count->queued_bytes : count->queued);
        sum += depth;
        squares += depth * depth;
    }
    double spread = squares / n - (sum / n) * (sum / n);
    return spread > 0 ? Z95 * sqrt(spread / (n - 1)) : 0;
}

static struct weir_check_measure depth_of(const struct weir_profile *profile, uint32_t queue, enum weir_statistic statistic, bool bytes)
{
    const struct weir_profile_queue *measures = &profile->queues[queue];
    const struct weir_histogram *histogram = bytes ? &measures->depth_bytes : &measures->depth_items;
    double mean = bytes ? measures->depth_bytes_mean : measures->depth_items_mean;
    if (!histogram->count)
        return missing("nothing passed the queue");
    if (statistic == WEIR_MEAN) {
        double reach = depth_reach(profile, queue, bytes);
        return measured(mean, mean - reach, mean + reach);
    }
    if (statistic == WEIR_MAX)
        return measured((double)histogram->max, (double)histogram->max,
                        profile->mode == WEIR_MODE_EXACT ? (double)histogram->max : INFINITY);
    double looks = profile->mode == WEIR_MODE_EXACT ? (double)measures->wait.count : (double)profile->duration_ns / LOOK_NS;
    return quantile(histogram, q_of(statistic), looks);
}

static struct weir_check_measure scaled(struct weir_check_measure measure, double by)
{
    measure.value *= by;
    measure.low *= by;
    measure.high *= by;
    return measure;
}

/* How many of the limit there are: a reply ring has one for each connection. */
static double limits(const struct weir_profile *profile, uint32_t queue)
{
    const struct weir_topology_queue *shape = &profile->topology.queues[queue];
    uint32_t way = shape->kind == WEIR_QUEUE_REPLY ? weir_topology_ring_way(&profile->topology, queue) : WEIR_NONE;
    if (way == WEIR_NONE || !profile->ways[way].end.connections)
        return 1;
    return (double)profile->ways[way].end.connections;
}

/* The fuller of items and bytes. */
static struct weir_check_measure fill(const struct weir_profile *profile, uint32_t queue, enum weir_statistic statistic)
{
    const struct weir_topology_queue *shape = &profile->topology.queues[queue];
    struct weir_check_measure items = depth_of(profile, queue, statistic, false), bytes = depth_of(profile, queue, statistic, true);
    if (items.measured && shape->limit_items)
        items = scaled(items, 1 / ((double)shape->limit_items * limits(profile, queue)));
    if (bytes.measured && shape->limit_bytes)
        bytes = scaled(bytes, 1 / ((double)shape->limit_bytes * limits(profile, queue)));
    if (!items.measured || !shape->limit_items)
        return shape->limit_bytes ? bytes : missing("the queue has no limit");
    return bytes.measured && shape->limit_bytes && bytes.value > items.value ? bytes : items;
}

static struct weir_check_measure drops(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    double refused = 0, offered = 0;
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        uint32_t stage = profile->topology.queues[i].stage;
        if (term->stage != WEIR_NONE ? stage != term->stage : profile->topology.stages[stage].pipeline != term->pipeline)
            continue;
        refused += (double)weir_profile_grown(queue->begin.dropped, queue->end.dropped) +
                   (double)weir_profile_grown(queue->begin.rejected, queue->end.rejected);
        offered += (double)weir_profile_grown(queue->begin.in, queue->end.in);
    }
    double value = refused;
    if (term->unit == WEIR_PER_S)
        value = refused * 1e9 / (double)profile->duration_ns;
    else if (term->unit == WEIR_SHARE)
        value = offered > 0 ? refused / offered : 0;
    return measured(value, value, value);
}

static struct weir_check_measure mean_in_use(const struct weir_profile_slots *slots, double looks)
{
    double reach = looks > 1 ? Z95 * sqrt(variance(&slots->in_use) / looks) : INFINITY;
    return measured(slots->in_use_mean, slots->in_use_mean - reach, slots->in_use_mean + reach);
}

/* Of a stage with slots a wait is that for a slot, and its depth is how many are in use. */
static struct weir_check_measure slots_metric(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    const struct weir_profile_slots *slots = NULL;
    for (uint32_t i = 0; i < profile->slots_count; i++)
        if (profile->slots[i].stage == term->stage)
            slots = &profile->slots[i];
    if (!slots)
        return missing("the profile has nothing about its slots");
    if (term->metric == WEIR_METRIC_WAKEUP)
        return of_histogram(profile, &profile->queues[profile->topology.stages[term->stage].queue].wakeup, term->statistic);
    if (term->metric == WEIR_METRIC_WAIT)
        return of_histogram(profile, &slots->wait, term->statistic);
    if (term->unit == WEIR_BYTES)
        return missing("slots are counted, and have no bytes");
    const struct weir_topology_stage *stage = &profile->topology.stages[term->stage];
    double looks = (double)profile->duration_ns / LOOK_NS, whole = (double)stage->connections * stage->in_flight;
    struct weir_check_measure measure =
        !slots->in_use.count              ? missing("nobody has looked at the slots")
        : term->statistic == WEIR_MAX     ? measured((double)slots->in_use.max, (double)slots->in_use.max, whole)
        : term->statistic != WEIR_MEAN    ? quantile(&slots->in_use, q_of(term->statistic), looks)
                                          : mean_in_use(slots, looks);
    return term->metric == WEIR_METRIC_FILL && measure.measured ? scaled(measure, 1 / whole) : measure;
}

static struct weir_check_measure one_queue(const struct weir_profile *profile, const struct weir_topology_term *term, uint32_t queue)
{
    if (weir_topology_has_slots(&profile->topology.stages[term->stage]))
        return slots_metric(profile, term);
    switch (term->metric) {
    case WEIR_METRIC_WAIT: return of_histogram(profile, &profile->queues[queue].wait, term->statistic);
    case WEIR_METRIC_WAKEUP: return of_histogram(profile, &profile->queues[queue].wakeup, term->statistic);
    case WEIR_METRIC_DEPTH: return depth_of(profile, queue, term->statistic, term->unit == WEIR_BYTES);
    default: return fill(profile, queue, term->statistic);
    }
}

/* Of several rings of a reply the one that is furthest from what is expected. */
static struct weir_check_measure queue_metric(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    struct weir_check_measure worst = missing("it has no queue");
    bool small_is_bad = term->comparison == WEIR_GT || term->comparison == WEIR_GE;
    for (uint32_t i = 0; term->stage != WEIR_NONE && i < profile->topology.queue_count; i++) {
        if (profile->topology.queues[i].stage != term->stage)
            continue;
        struct weir_check_measure one = one_queue(profile, term, i);
        if (!worst.measured || (one.measured && (small_is_bad ? one.value < worst.value : one.value > worst.value)))
            worst = one;
    }
    return worst;
}

/* --- throughput --------------------------------------------------------------------------------------------------------------- */

static uint64_t random_next(uint64_t *state)
{
    /* xorshift64: a fixed start makes the same profile give the same answer. */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct weir_check_measure throughput(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    uint32_t stage = term->stage != WEIR_NONE ? term->stage : profile->topology.pipelines[term->pipeline].first_stage;
    const struct weir_profile_row *row = row_of(profile, stage, WEIR_PART_NONE);
    double rates[RESAMPLES];
    uint64_t seed = 0x9e3779b97f4a7c15ull, n = profile->slice_count;
    unsigned resamples = RESAMPLES;
    if (!row)
        return missing("the profile has no row for it");
    double value = (double)row->items * 1e9 / (double)profile->duration_ns;
    if (n < SLICES_LEAST)
        return measured(value, 0, INFINITY);
    if (n * resamples > DRAWS_MOST)
        resamples = DRAWS_MOST / n > 100 ? (unsigned)(DRAWS_MOST / n) : 100;
    for (unsigned i = 0; i < resamples; i++) {
        double items = 0, ns = 0;
        for (uint64_t k = 0; k < n; k++) {
            const struct weir_profile_slice *slice = &profile->slices[random_next(&seed) % n];
            items += (double)slice->row_items[row - profile->rows];
            ns += (double)slice->duration_ns;
        }
        rates[i] = ns > 0 ? items * 1e9 / ns : 0;
    }
    qsort(rates, resamples, sizeof *rates, ascending);
    /* The window's own figure belongs to the interval, even where the slices were cut a little differently. */
    return measured(value, fmin(value, rates[resamples * 25 / 1000]), fmax(value, rates[resamples * 975 / 1000]));
}

/* --- terms -------------------------------------------------------------------------------------------------------------------- */

static struct weir_check_measure measure(const struct weir_profile *profile, const struct weir_topology_term *term)
{
    switch (term->metric) {
    case WEIR_METRIC_CPU: return cpu(profile, term);
    case WEIR_METRIC_STARVED: return starved(profile, term);
    case WEIR_METRIC_DROPS: return term->pool == WEIR_NONE ? drops(profile, term) : missing("a pool drops nothing");
    case WEIR_METRIC_SERVICE: return term->stage != WEIR_NONE ? service(profile, term) : missing("only a stage has a service time");
    case WEIR_METRIC_THROUGHPUT: return term->pool == WEIR_NONE ? throughput(profile, term) : missing("a pool has no throughput");
    case WEIR_METRIC_UNDER: return missing("the share under a stage is measured in bound servers only");
    default: return queue_metric(profile, term);
    }
}

static enum weir_check_result judge(const struct weir_check_measure *measure, enum weir_comparison comparison, double limit)
{
    bool yes, no;
    if (!measure->measured)
        return WEIR_CHECK_INCONCLUSIVE;
    switch (comparison) {
    case WEIR_LT: yes = measure->high < limit; no = measure->low >= limit; break;
    case WEIR_LE: yes = measure->high <= limit; no = measure->low > limit; break;
    case WEIR_GT: yes = measure->low > limit; no = measure->high <= limit; break;
    default: yes = measure->low >= limit; no = measure->high < limit; break;
    }
    return yes ? WEIR_CHECK_OK : no ? WEIR_CHECK_MISSED : WEIR_CHECK_INCONCLUSIVE;
}

static bool empty(const struct weir_profile *profile)
{
    return !profile->cpu_ns || !profile->duration_ns || !profile->row_count ||
           (profile->mode == WEIR_MODE_LIGHT && !profile->samples_kept);
}

int weir_check_evaluate(const struct weir_profile *profile, const struct weir_topology_expectation *expectation,
                           struct weir_arena *arena, struct weir_check *check, struct weir_error *error)
{
    struct weir_check made = { .result = WEIR_CHECK_MISSED, .measure_count = expectation->term_count };
    made.measures = weir_arena_zalloc(arena, ((size_t)expectation->term_count + 1) * sizeof *made.measures);
    if (!made.measures)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to check '%s'", expectation->text);
    if (empty(profile))
        made.reason = "there are no samples in this window";
    else if (weir_profile_lossy(profile))
        made.reason = "the profile is lossy";
    enum weir_check_result all = WEIR_CHECK_OK;
    for (uint32_t i = 0; i < expectation->term_count; i++) {
        const struct weir_topology_term *term = &expectation->terms[i];
        struct weir_check_measure *here = &made.measures[i];
        *here = empty(profile) ? missing(made.reason) : measure(profile, term);
        here->result = made.reason ? WEIR_CHECK_INCONCLUSIVE : judge(here, term->comparison, term->value);
        bool begins = i > 0 && term->group != expectation->terms[i - 1].group;
        if (begins) {
            made.result = all > made.result ? all : made.result;
            all = WEIR_CHECK_OK;
        }
        all = here->result < all ? here->result : all;
    }
    made.result = all > made.result ? all : made.result;
    if (made.reason)
        made.result = WEIR_CHECK_INCONCLUSIVE;
    *check = made;
    return 0;
}

enum weir_exit weir_check_exit(const struct weir_check *checks, uint32_t count)
{
    enum weir_exit worst = WEIR_EXIT_DONE;
    for (uint32_t i = 0; i < count; i++) {
        if (checks[i].result == WEIR_CHECK_MISSED)
            return WEIR_EXIT_FOUND;
        if (checks[i].result == WEIR_CHECK_INCONCLUSIVE)
            worst = WEIR_EXIT_INCONCLUSIVE;
    }
    return worst;
}
