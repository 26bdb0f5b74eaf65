/* The rules of the verdict, each on a profile made for it, and on one that just misses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sample.h"
#include "tracer/verdict.h"

enum { IO, A, B }; /* pools of the made-up chain */

/* --- made-up servers ---------------------------------------------------------------------------------------------------------- */

/* io -> A (2 threads, p.fast) -> B (1 thread, p.slow or p.store). Nobody does anything yet. */
struct chain {
    struct sample sample;
    struct weir_profile *profile;
    uint32_t first, second, fast, slow, reply; /* stages */
};

static struct chain chain_begin(enum weir_verb_kind last)
{
    struct chain chain = { .sample = sample_begin("chain") };
    struct sample *sample = &chain.sample;
    chain.profile = sample->profile;
    chain.profile->cpus = 8;
    chain.profile->cpu_ns = 4000000000ull; /* 0.4 CPUs */
    sample_pool(sample, "io", 1, true);
    sample_pool(sample, "a", 2, false);
    sample_pool(sample, "b", 1, false);
    sample_pipeline(sample, "p");
    sample_stage(sample, WEIR_LISTEN, "listen", IO, WEIR_NONE);
    chain.first = sample_stage(sample, WEIR_HANDOFF, "first", IO, A);
    chain.fast = sample_stage(sample, WEIR_BUSY, "fast", A, WEIR_NONE);
    chain.second = sample_stage(sample, WEIR_HANDOFF, "second", A, B);
    chain.slow = sample_stage(sample, last, last == WEIR_STORE ? "store" : "slow", B, WEIR_NONE);
    chain.reply = sample_stage(sample, WEIR_REPLY, "reply", IO, B);
    chain.profile->topology.queues[0].limit_items = chain.profile->topology.queues[1].limit_items = 256;
    return chain;
}

/* Of the pool's time. */
static void spends(struct chain *chain, uint32_t pool, enum weir_state state, double share)
{
    double whole = (double)chain->profile->duration_ns * chain->profile->topology.pools[pool].threads;
    chain->profile->pools[pool].threads = chain->profile->topology.pools[pool].threads;
    chain->profile->pools[pool].state_ns[state] += share * whole;
}

/* The threads of the pool were asleep in the stage, for a reason of its own, or a lock. */
static struct weir_profile_sleep *sleeps(struct chain *chain, uint32_t pool, uint32_t row, enum weir_state state, double share)
{
    struct weir_profile *profile = chain->profile;
    if (!profile->sleeps)
        profile->sleeps = sample_zalloc(profile, SAMPLE_MOST * sizeof *profile->sleeps);
    struct weir_profile_sleep *sleep = &profile->sleeps[profile->sleep_count++];
    *sleep = (struct weir_profile_sleep){ .pool = pool, .row = row, .state = state, .queue = WEIR_NONE, .slots = WEIR_NONE, .count = 1000,
        .ns = share * (double)profile->duration_ns * profile->topology.pools[pool].threads };
    spends(chain, pool, state, share);
    return sleep;
}

/* Shares of the CPU time: of io, a and b, in their first stage each. */
static void costs(struct chain *chain, double io, double a, double b)
{
    sample_measure(&chain->sample, 0, io, -1, -1, -1);
    sample_measure(&chain->sample, chain->fast, a, -1, -1, -1);
    sample_measure(&chain->sample, chain->slow, b, -1, -1, -1);
}
enum { ROW_FAST = 1, ROW_SLOW = 2 };

static struct weir_profile *chain_end(struct chain *chain)
{
    struct weir_profile *profile = sample_end(&chain->sample);
    return profile;
}

/* What is left of a pool's time was idle. */
static void rests(struct chain *chain)
{
    for (uint32_t i = 0; i < 3; i++) {
        double left = 1, whole = (double)chain->profile->duration_ns * chain->profile->topology.pools[i].threads;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            left -= chain->profile->pools[i].state_ns[k] / whole;
        spends(chain, i, WEIR_STATE_IDLE, left);
    }
}

static struct weir_verdict verdict_of(struct weir_profile *profile)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_verdict_of(profile, &profile->arena, &verdict, NULL), 0);
    assert_non_null(verdict.text);
    assert_true(verdict.cause_count == 0 || strcmp(verdict.kind, verdict.causes[0].kind) == 0);
    for (uint32_t i = 0; i < verdict.cause_count; i++) {
        assert_non_null(verdict.causes[i].text);
        assert_true(verdict.causes[i].evidence_count > 0);
        assert_true(verdict.causes[i].explained >= 0 && verdict.causes[i].explained <= 1);
        assert_true(i == 0 || verdict.causes[i].explained <= verdict.causes[i - 1].explained);
        assert_int_equal(verdict.causes[i].change != NULL, verdict.causes[i].where != NULL);
    }
    return verdict;
}

static bool says(const struct weir_verdict *verdict, const char *words)
{
    for (uint32_t i = 0; i < verdict->evidence_count; i++)
        if (strstr(verdict->evidence[i], words))
            return true;
    return false;
}

static void assert_finds_nothing(struct weir_profile *profile)
{
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.text, strcmp(verdict.kind, "idle") == 0 ? verdict.text : "");
    assert_int_equal(verdict.cause_count, 0);
}

/* --- size --------------------------------------------------------------------------------------------------------------------- */

static void size_estimation_is_named_with_the_line_that_ends_it(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    profile->cpus = 4;
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "size");
    assert_string_equal(verdict.stage, "riemann.handoff");
    assert_string_equal(verdict.text, "38 % of CPU is size estimation in riemann.handoff; hand off before riemann.decode, where the size is known");
    assert_string_equal(verdict.causes[0].change, "handoff workers limit 64MiB full block");
    assert_string_equal(verdict.causes[0].where, "above `decode`, instead of below it");
    assert_true(says(&verdict, "reflect_message"));
    /* That the pool which sizes is saturated is the same finding: the same line mends it. */
    assert_int_equal(verdict.cause_count, 1);
    /* A queue of bytes has a size part, too; it costs nothing, and whatever it costs is no estimation. */
    profile->topology.queues[0].sized = WEIR_SIZED_ARENA;
    verdict = verdict_of(profile);
    assert_string_not_equal(verdict.kind, "size");
    weir_profile_free(profile);
}

static void a_size_that_costs_little_is_no_cause(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (strcmp(profile->rows[i].name, "riemann.handoff.size") == 0)
            profile->rows[i].share = 0.005;
    struct weir_verdict verdict = verdict_of(profile);
    for (uint32_t i = 0; i < verdict.cause_count; i++)
        assert_string_not_equal(verdict.causes[i].kind, "size");
    assert_true(verdict.cause_count > 0);
    weir_profile_free(profile);
}

/* --- a stage, a pool ---------------------------------------------------------------------------------------------------------- */

static struct weir_profile *slow_end(uint64_t limit)
{
    struct chain chain = chain_begin(WEIR_BUSY);
    chain.profile->topology.queues[0].limit_items = chain.profile->topology.queues[1].limit_items = limit;
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, IO, WEIR_STATE_RUNNING, 0.02);
    spends(&chain, A, WEIR_STATE_RUNNING, 0.03);
    spends(&chain, A, WEIR_STATE_BACKPRESSURED, 0.95);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.32);
    sleeps(&chain, B, ROW_SLOW, WEIR_STATE_OTHER, 0.66);
    rests(&chain);
    sample_flow(&chain.sample, chain.first, (double)limit, 1e4, 1e6, 7000);
    sample_flow(&chain.sample, chain.second, (double)limit, 1e4, 1e6, 7000);
    return chain_end(&chain);
}

/* A longer queue changes nothing: the stage behind it is what is named, and how many threads it needs. */
static void full_queues_lead_to_the_stage_at_their_end(void **state)
{
    (void)state;
    const uint64_t limits[] = { 256, 1024 };
    const char *first = NULL;
    struct weir_profile *profiles[2];
    for (size_t i = 0; i < 2; i++) {
        profiles[i] = slow_end(limits[i]);
        struct weir_verdict verdict = verdict_of(profiles[i]);
        assert_string_equal(verdict.kind, "stage");
        assert_string_equal(verdict.stage, "p.slow");
        assert_true(says(&verdict, "p.second is full"));
        assert_true(says(&verdict, "pool a waits for room in it 95 % of its time"));
        assert_true(says(&verdict, "p.first is full"));
        assert_string_equal(verdict.causes[0].change, "pool b threads 8");
        assert_string_equal(verdict.causes[0].where, "instead of `pool b threads 1`");
        assert_null(strstr(verdict.text, "queue"));
        if (first)
            assert_string_equal(verdict.text, first);
        first = verdict.text;
    }
    weir_profile_free(profiles[0]);
    weir_profile_free(profiles[1]);
}

/* Threads are added until the next pool has no time to spare, the CPUs are taken, or nobody waits any more. */
static void threads_are_counted_by_what_comes_next(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, A, WEIR_STATE_RUNNING, 0.35);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.98);
    rests(&chain);
    sample_flow(&chain.sample, chain.second, 50, 1e4, 1e6, 7000);
    struct weir_profile *profile = chain_end(&chain);
    assert_string_equal(verdict_of(profile).causes[0].change, "pool b threads 3"); /* 1 / 0.35 */
    profile->cpus = 1; /* 0.4 are used, the pool takes 0.98: there is room for 0.6 more */
    assert_string_equal(verdict_of(profile).causes[0].change, "pool b threads 2");
    profile->machine_busy_ns = 0.99 * (double)profile->duration_ns; /* by somebody else */
    struct weir_verdict verdict = verdict_of(profile);
    assert_null(verdict.causes[0].change);
    assert_non_null(strstr(verdict.text, "no CPU is free"));
    weir_profile_free(profile);
}

static void a_pool_without_a_main_stage_is_named_itself(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.3);
    sample_measure(&chain.sample, chain.reply, 0.4, -1, 0.4, 0); /* finished by b, too */
    spends(&chain, B, WEIR_STATE_RUNNING, 0.95);
    rests(&chain);
    sample_flow(&chain.sample, chain.second, 50, 1e4, 1e6, 7000);
    struct weir_profile *profile = chain_end(&chain);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "pool");
    assert_null(verdict.stage);
    assert_true(says(&verdict, "most of it goes to p.reply"));
    weir_profile_free(profile);
}

/* Loops share connections; one of them can be at its limit alone. */
static void one_busy_loop_is_told_from_a_busy_pool(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    chain.profile->topology.pools[IO].threads = 2;
    costs(&chain, 0.8, 0.1, 0.05);
    spends(&chain, IO, WEIR_STATE_RUNNING, 0.5);
    rests(&chain);
    struct weir_profile *profile = chain_end(&chain);
    assert_finds_nothing(profile);
    profile->threads = sample_zalloc(profile, 2 * sizeof *profile->threads);
    profile->thread_count = 2;
    profile->threads[0].state_ns[WEIR_STATE_RUNNING] = 0.98 * (double)profile->duration_ns;
    profile->threads[0].state_ns[WEIR_STATE_IDLE] = 0.02 * (double)profile->duration_ns;
    profile->threads[1].state_ns[WEIR_STATE_IDLE] = (double)profile->duration_ns;
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "pool");
    assert_non_null(strstr(verdict.text, "one of the 2 threads of pool io is saturated"));
    weir_profile_free(profile);
}

/* --- the machine -------------------------------------------------------------------------------------------------------------- */

static void used_up_cpus_are_named_with_those_who_use_them(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.4);
    spends(&chain, B, WEIR_STATE_RUNNABLE, 0.58);
    rests(&chain);
    struct weir_profile *profile = chain_end(&chain);
    profile->neighbours = sample_zalloc(profile, sizeof *profile->neighbours);
    profile->neighbours[0] = (struct weir_profile_neighbour){ .pid = 12, .name = "hog", .cpu_ns = 7.5 * (double)profile->duration_ns };
    profile->neighbour_count = 1;
    profile->machine_busy_ns = 7.9 * (double)profile->duration_ns;
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "cpu");
    assert_true(says(&verdict, "hog (12) used 7.50 CPUs"));
    assert_string_equal(verdict.causes[1].kind, "stage"); /* what it can do without more CPUs */
    profile->cpu_ns = (uint64_t)(7.6 * (double)profile->duration_ns);
    verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "cpu");
    assert_string_equal(verdict.stage, "p.slow");
    assert_int_equal(verdict.cause_count, 1);
    weir_profile_free(profile);
}

/* --- waits -------------------------------------------------------------------------------------------------------------------- */

static struct weir_profile *one_at_a_time(double under_way)
{
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.4, 0.1, 0.3);
    spends(&chain, IO, WEIR_STATE_RUNNING, 0.3);
    rests(&chain);
    struct weir_profile *profile = chain_end(&chain);
    profile->ways[0].begin.in_flight = 0;
    profile->ways[0].end.in_flight = 1;
    profile->ways[0].end.answered = profile->ways[0].end.accepted - 1;
    weir_histogram_add(&profile->ways[0].in_flight, 1, (uint64_t)(under_way * 1000));
    weir_histogram_add(&profile->ways[0].in_flight, 0, (uint64_t)((1 - under_way) * 1000));
    return profile;
}

static void one_request_at_a_time_is_round_trip_bound(void **state)
{
    (void)state;
    struct weir_profile *profile = one_at_a_time(0.5);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "round_trip");
    assert_string_equal(verdict.text, "round-trip bound: connections never have more than 1 request in flight; pipeline or batch");
    assert_null(verdict.causes[0].change);
    /* A second request under way, or overlaps that the looks missed, and it is not so. */
    weir_histogram_add(&profile->ways[0].in_flight, 2, 1);
    assert_finds_nothing(profile);
    weir_profile_free(profile);
    profile = one_at_a_time(0.5);
    profile->ways[0].end.overlapped = 5000;
    assert_finds_nothing(profile);
    weir_profile_free(profile);
    /* It asks again 2 ms after its answer: at its leisure, if it is near. */
    profile = one_at_a_time(0.02);
    profile->ways[0].end.connections = 25;
    assert_finds_nothing(profile);
    /* From far away that is the way itself. */
    weir_histogram_add(&profile->ways[0].round_trip, 1900000, 100);
    assert_string_equal(verdict_of(profile).kind, "round_trip");
    /* Whoever asks again 20 ms later may have had nothing to ask. */
    profile->ways[0].end.connections = 250;
    assert_finds_nothing(profile);
    weir_profile_free(profile);
    /* Nobody looked. */
    profile = one_at_a_time(0.5);
    profile->ways[0].in_flight = (struct weir_histogram){ 0 };
    assert_finds_nothing(profile);
    weir_profile_free(profile);
}

/* `least` and `median` service of a request, in ns. */
static struct weir_profile *short_of_slots(uint64_t least, uint64_t median)
{
    struct chain chain = chain_begin(WEIR_STORE);
    struct weir_profile *profile = chain.profile;
    struct weir_topology_stage *store = &profile->topology.stages[chain.slow];
    store->connections = 1;
    store->in_flight = 1024;
    store->symbol = "events";
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, A, WEIR_STATE_BACKPRESSURED, 0.9);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.05);
    spends(&chain, B, WEIR_STATE_STARVED, 0.91);
    rests(&chain);
    sample_flow(&chain.sample, chain.second, 256, 1e4, 1e6, 7000);
    profile->slots = sample_zalloc(profile, sizeof *profile->slots);
    profile->slots_count = 1;
    profile->slots[0] = (struct weir_profile_slots){ .stage = chain.slow, .in_use_mean = 1020, .open_mean = 1,
        .end = { .taken = 101024, .finished = 100000, .in_use = 1024, .open = 1, .waits = 90000, .waited_ns = 9100000000ull,
                 .full_ns = 9700000000ull } };
    weir_histogram_add(&profile->slots[0].service, least, 1);
    weir_histogram_add(&profile->slots[0].service, median, 99999);
    return chain_end(&chain);
}

static void full_slots_are_named_with_their_share(void **state)
{
    (void)state;
    struct weir_profile *profile = short_of_slots(95000000, 100000000);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "starved");
    assert_string_equal(verdict.stage, "p.store");
    assert_string_equal(verdict.text, "p.store is starved: 1 x 1024 slots full 97 % of the time, workers waited for one 91 % of theirs; "
                                      "raise connections or in_flight");
    assert_string_equal(verdict.causes[0].change, "store postgres … table events connections 8 in_flight 1024");
    assert_true(says(&verdict, "pool a waits for room in it"));
    profile->slots[0].end.full_ns = 2000000000ull; /* bursts */
    assert_string_not_equal(verdict_of(profile).kind, "starved");
    weir_profile_free(profile);
}

static void a_connection_that_serves_one_by_one_needs_others(void **state)
{
    (void)state;
    struct weir_profile *profile = short_of_slots(110000, 100000000); /* 1024 x 0.1 ms */
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "starved");
    assert_non_null(strstr(verdict.text, "raise connections: more in_flight only waits longer"));
    weir_profile_free(profile);
    /* In this window all of them waited alike; that it was otherwise once is what tells. */
    profile = short_of_slots(100000000, 100000000);
    assert_null(strstr(verdict_of(profile).text, "only waits longer"));
    profile->slots[0].end.alone_ns = 98000000;
    assert_null(strstr(verdict_of(profile).text, "only waits longer"));
    profile->slots[0].end.alone_ns = 150000;
    assert_non_null(strstr(verdict_of(profile).text, "only waits longer"));
    /* Four that together do what one could: they share what is behind them. */
    profile->slots[0].open_mean = 4;
    assert_non_null(strstr(verdict_of(profile).text, "share a server that is at its limit: more slots only wait longer"));
    assert_null(verdict_of(profile).causes[0].change);
    weir_profile_free(profile);
}

/* Clients wait for answers that wait for each other: nothing that they send earlier comes back earlier. */
static struct weir_profile *waits_far_away(double in_use, uint64_t alone_ns)
{
    struct weir_profile *profile = short_of_slots(alone_ns, 50000000);
    profile->topology.stages[profile->slots[0].stage].connections = 8;
    profile->slots[0] = (struct weir_profile_slots){ .stage = profile->slots[0].stage, .in_use_mean = in_use, .open_mean = 8,
        .service = profile->slots[0].service, .end = { .finished = 40000, .open = 8, .alone_ns = alone_ns } };
    for (uint32_t i = 0; i < 3; i++)
        profile->pools[i] = (struct weir_profile_pool){ .threads = 1, .state_ns = { [WEIR_STATE_IDLE] = (double)profile->duration_ns } };
    profile->ways[0].end.connections = 200;
    weir_histogram_add(&profile->ways[0].in_flight, 1, 1000);
    return profile;
}

static void slow_answers_of_others_are_no_round_trips(void **state)
{
    (void)state;
    static const struct {
        double in_use;
        uint64_t alone_ns;
        const char *kind, *words, *change;
    } rows[] = { /* 500 a second come back from each connection, after 50 ms */
        { 200, 2200000, "downstream", "each connection serves one request after the other, so raise connections", "connections 64 " },
        { 200, 8500000, "downstream", "they wait for each other, in their connection or at who it asks", "connections 4" },
        { 200, 250000, "downstream", "who it asks is at its limit", NULL },
        { 200, 45000000, "round_trip", "pipeline or batch", NULL }, /* as slow as ever: the way there and back, which others can share */
        { 50, 2200000, "round_trip", "pipeline or batch", NULL },   /* few are there: that is not what clients wait for */
        { 440, 30000000, "round_trip", "pipeline or batch", NULL }, /* 110 ms in the mean, since some stalled */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir_profile *profile = waits_far_away(rows[i].in_use, rows[i].alone_ns);
        struct weir_verdict verdict = verdict_of(profile);
        assert_string_equal(verdict.kind, rows[i].kind);
        assert_non_null(strstr(verdict.text, rows[i].words));
        assert_true(rows[i].change ? strstr(verdict.causes[0].change, rows[i].change) != NULL : !verdict.causes[0].change);
        weir_profile_free(profile);
    }
}

static void a_lock_is_named_by_its_site(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.3);
    sleeps(&chain, B, ROW_SLOW, WEIR_STATE_LOCK, 0.66)->site = "take_turns";
    rests(&chain);
    struct weir_profile *profile = chain_end(&chain);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "lock");
    assert_string_equal(verdict.stage, "p.slow");
    assert_non_null(strstr(verdict.text, "take_turns"));
    assert_non_null(strstr(verdict.text, "66 %"));
    profile->sleeps[0].site = NULL;
    profile->sleeps[0].queue = 1;
    assert_non_null(strstr(verdict_of(profile).text, "the lock of p.second"));
    weir_profile_free(profile);
}

static void answers_that_nobody_reads_are_downstream(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.3);
    spends(&chain, IO, WEIR_STATE_RUNNING, 0.1);
    rests(&chain);
    sample_flow(&chain.sample, chain.reply, 1020, 1e4, 1e6, 7000);
    struct weir_profile *profile = chain_end(&chain);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "downstream");
    assert_string_equal(verdict.stage, "p.reply");
    assert_true(says(&verdict, "p.reply held 1020 replies"));
    weir_profile_free(profile);
}

/* --- none --------------------------------------------------------------------------------------------------------------------- */

static void a_server_with_time_to_spare_is_not_the_cause(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.6);
    spends(&chain, B, WEIR_STATE_RUNNABLE, 0.1);
    spends(&chain, A, WEIR_STATE_RUNNABLE, 0.1);
    rests(&chain);
    struct weir_profile *profile = chain_end(&chain);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "idle");
    assert_string_equal(verdict.text, "not the server: it is 30 % idle");
    assert_int_equal(verdict.cause_count, 0);
    assert_true(says(&verdict, "takes the most CPU time"));
    weir_profile_free(profile);
    profile = sample_empty();
    verdict = verdict_of(profile);
    assert_string_equal(verdict.text, "not the server: it is 100 % idle");
    assert_false(says(&verdict, "CPU time")); /* nothing took any */
    weir_profile_free(profile);
}

static void what_cant_be_told_is_unclear_and_says_what_is_missing(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_lossy();
    assert_string_equal(verdict_of(profile).kind, "unclear");
    assert_non_null(strstr(verdict_of(profile).text, "contradicts itself"));
    profile->violation_count = 0;
    assert_non_null(strstr(verdict_of(profile).text, "lossy"));
    profile->ended_by = "target exit";
    assert_non_null(strstr(verdict_of(profile).text, "the server ended while it was recorded"));
    profile->threads_lost = 0;
    profile->records_lost = profile->samples_lost = 1; /* moves no figure */
    assert_string_equal(verdict_of(profile).kind, "size");
    profile->duration_ns = 50000000;
    assert_non_null(strstr(verdict_of(profile).text, "too short"));
    for (uint32_t i = 0; i < profile->topology.pool_count; i++)
        profile->pools[i] = (struct weir_profile_pool){ 0 };
    assert_non_null(strstr(verdict_of(profile).text, "nobody saw"));
    weir_profile_free(profile);
}

/* Time to spare and items that wait contradict each other. */
static void a_pool_that_is_fed_in_fits_is_unclear(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    costs(&chain, 0.05, 0.1, 0.8);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.8);
    rests(&chain);
    sample_flow(&chain.sample, chain.second, 9, 1e4, 1e6, 7000);
    struct weir_profile *profile = chain_end(&chain);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "unclear");
    assert_non_null(strstr(verdict.text, "20 % of its time to spare, yet 9 items wait"));
    weir_profile_free(profile);
}

/* No item was stamped in the window, and no sleep seen: a pause is as long as the file says. */
static void a_pause_is_known_from_the_file(void **state)
{
    (void)state;
    struct chain chain = chain_begin(WEIR_BUSY);
    struct weir_profile *profile = chain.profile;
    profile->topology.stages[chain.slow].pause_ns = profile->duration_ns / chain.sample.messages;
    costs(&chain, 0.05, 0.1, 0.05);
    spends(&chain, B, WEIR_STATE_RUNNING, 0.02);
    spends(&chain, B, WEIR_STATE_OTHER, 0.97);
    rests(&chain);
    profile->rows[ROW_SLOW].service = NULL;
    chain_end(&chain);
    struct weir_verdict verdict = verdict_of(profile);
    assert_string_equal(verdict.kind, "stage");
    assert_string_equal(verdict.stage, "p.slow");
    weir_profile_free(profile);
}

static void whatever_a_profile_holds_gets_a_verdict(void **state)
{
    (void)state;
    struct weir_profile *profiles[] = { sample_hostile(), sample_shared(), sample_tail(), sample_long(100, 20), sample_after() };
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        verdict_of(profiles[i]);
        profiles[i]->violation_count = 0;
        verdict_of(profiles[i]);
        for (uint32_t k = 0; k < profiles[i]->topology.pool_count; k++) /* all of them at once */
            profiles[i]->pools[k].state_ns[WEIR_STATE_IDLE] = 0;
        verdict_of(profiles[i]);
        weir_profile_free(profiles[i]);
    }
}

/* CPU time in no stage is said, where no cause is found. */
static void the_evidence_leaves_nothing_out(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    for (uint32_t i = 0; i < profile->row_count; i++)
        profile->rows[i].share = strcmp(profile->rows[i].name, "(outside)") == 0 ? 0.9 : profile->rows[i].share / 20;
    profile->threads_lost = 1;
    struct weir_verdict verdict = verdict_of(profile);
    assert_true(says(&verdict, "90.0 % of CPU time is of threads outside the pools"));
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(size_estimation_is_named_with_the_line_that_ends_it), cmocka_unit_test(a_size_that_costs_little_is_no_cause),
        cmocka_unit_test(full_queues_lead_to_the_stage_at_their_end), cmocka_unit_test(threads_are_counted_by_what_comes_next),
        cmocka_unit_test(a_pool_without_a_main_stage_is_named_itself), cmocka_unit_test(one_busy_loop_is_told_from_a_busy_pool),
        cmocka_unit_test(used_up_cpus_are_named_with_those_who_use_them), cmocka_unit_test(one_request_at_a_time_is_round_trip_bound),
        cmocka_unit_test(full_slots_are_named_with_their_share), cmocka_unit_test(a_connection_that_serves_one_by_one_needs_others),
        cmocka_unit_test(slow_answers_of_others_are_no_round_trips), cmocka_unit_test(a_lock_is_named_by_its_site),
        cmocka_unit_test(answers_that_nobody_reads_are_downstream), cmocka_unit_test(a_server_with_time_to_spare_is_not_the_cause),
        cmocka_unit_test(what_cant_be_told_is_unclear_and_says_what_is_missing), cmocka_unit_test(a_pool_that_is_fed_in_fits_is_unclear),
        cmocka_unit_test(a_pause_is_known_from_the_file), cmocka_unit_test(whatever_a_profile_holds_gets_a_verdict),
        cmocka_unit_test(the_evidence_leaves_nothing_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
