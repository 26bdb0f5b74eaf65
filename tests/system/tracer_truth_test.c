/* What the tracer says, held against what the server itself accumulated. Each `busy` stage measures its own CPU time. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/recording.h"
#include "tracer/session.h"

#define WINDOW_MS ((unsigned)harness_count(1500, 10000))
/* Where threads wait for a CPU, one time slice is 1.5 points of a short window: there the window is the 10 s that exact mode's
 * accuracy is promised for. */
#define CROWDED_MS 10000u

/* A pipeline with these stages between handoff and index, on `workers` threads. */
static void run(struct harness_server *server, unsigned workers, const char *stages)
{
    char text[1024];
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads %u\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n"
             "    frame length32 max 1MiB\n    decode riemann\n    handoff workers limit 128MiB sized arena full block\n%s    "
             "index\n    encode riemann\n    reply\n}\n",
             workers, stages);
    harness_run(server, text);
}

static void check_sums(const struct weir_profile *profile)
{
    double shares = 0;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        assert_true(row->share >= 0 && row->share <= 1);
        assert_true(row->share_low >= 0 && row->share_low <= row->share && row->share <= row->share_high && row->share_high <= 1);
        if (row->part_of == WEIR_NONE)
            shares += row->share;
    }
    assert_true(fabs(shares - 1) < 1e-6);
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        double states = 0;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            states += profile->pools[i].state_ns[k];
        assert_true(fabs(states - (double)profile->pools[i].threads * (double)profile->duration_ns) < 1e-3 * states + 1);
    }
}

/* Each of the stages within 1.5 points of its own measure; sampled ones also get four standard deviations. */
static void check_shares(const struct weir_profile *profile, const char *const *names)
{
    check_sums(profile);
    for (; *names; names++) {
        const struct weir_profile_row *row = recording_row(profile, *names);
        double truth = recording_truth(profile, row), allowed = 0.015;
        if (profile->mode == WEIR_MODE_LIGHT)
            allowed += 4 * sqrt(truth * (1 - truth) / ((double)profile->samples_kept + 1));
        if (fabs(row->share - truth) > allowed)
            fail_msg("%s: the tracer says %.2f %%, the server %.2f %% (allowed: %.2f points)", *names, row->share * 100,
                     truth * 100, allowed * 100);
    }
}

static void check_counts(const struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage != WEIR_NONE && row->part == WEIR_PART_NONE && row->stamped != row->items)
            fail_msg("%s: stamped %llu, counted %llu", row->name, (unsigned long long)row->stamped,
                     (unsigned long long)row->items);
    }
}

static void both_modes_for(unsigned window_ms, unsigned workers, const char *stages, const char *load, const char *const *names)
{
    struct harness_server server;
    char options[256];
    run(&server, workers, stages);
    snprintf(options, sizeof options, "%s --duration %ums", load, 2 * window_ms + 1500);
    pid_t driver = recording_load(&server, options);
    usleep(300000);
    for (enum weir_mode mode = WEIR_MODE_LIGHT; mode <= WEIR_MODE_EXACT; mode++) {
        struct weir_profile *profile = recording_take(&server, mode, window_ms);
        check_shares(profile, names);
        weir_profile_free(profile);
    }
    recording_load_wait(driver);
    harness_stop(&server);
}

static void both_modes(unsigned workers, const char *stages, const char *load, const char *const *names)
{
    both_modes_for(WINDOW_MS, workers, stages, load, names);
}

static void equal_stages(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", "p.c", NULL };
    both_modes(1, "    busy 30us as a\n    busy 30us as b\n    busy 30us as c\n", "--connections 2 --events 10 --in-flight 16",
               names);
}

static void stages_of_10_to_40(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", "p.c", "p.d", NULL };
    both_modes(2, "    busy 10us as a\n    busy 20us as b\n    busy 30us as c\n    busy 40us as d\n",
               "--connections 2 --events 10 --in-flight 16", names);
}

static void one_stage_at_1_percent(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.small", "p.large", NULL };
    both_modes(1, "    busy 3us as small\n    busy 250us as large\n", "--connections 1 --events 1 --in-flight 8", names);
}

/* One cycle of 30 / 60 / 10 us after the other: a sampler with a fixed rate locks in phase with it and is 17 points wrong. */
static void periodic_work(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", "p.c", NULL };
    both_modes(1, "    busy 30us as a\n    busy 60us as b\n    busy 10us as c\n", "--connections 1 --events 1 --in-flight 64",
               names);
}

/* Where the kernel refuses BPF timers perf events sample, with periods that are drawn anew. */
static void perf_events_instead_of_timers(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", "p.c", NULL };
    struct harness_server server;
    run(&server, 1, "    busy 30us as a\n    busy 60us as b\n    busy 10us as c\n");
    pid_t driver = recording_load(&server, "--connections 1 --events 1 --in-flight 64 --duration 3s");
    usleep(300000);
    struct weir_profile *profile = recording_take_with(&server, &(struct weir_session_options){ .perf_events = true }, 1500);
    /* As many as its CPU time has periods, whatever a crowded machine gave it. */
    assert_true((double)profile->samples_kept * (double)profile->sample_period_ns > 0.6 * (double)profile->cpu_ns);
    check_shares(profile, names);
    weir_profile_free(profile);
    recording_load_wait(driver);
    harness_stop(&server);
}

/* Over many windows the 95 % interval covers the truth in at least 90 %; over few we ask for less. */
static void intervals_cover_the_truth(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", "p.c", "p.d" };
    struct harness_server server;
    unsigned windows = (unsigned)harness_count(10, 200), covered = 0, all = 0;
    char options[128];
    run(&server, 2, "    busy 10us as a\n    busy 20us as b\n    busy 30us as c\n    busy 40us as d\n");
    snprintf(options, sizeof options, "--connections 2 --events 10 --in-flight 16 --duration %us", windows / 2 + 2);
    pid_t driver = recording_load(&server, options);
    usleep(300000);
    for (unsigned i = 0; i < windows; i++) {
        struct weir_profile *profile = recording_take(&server, WEIR_MODE_LIGHT, 250);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++, all++) {
            const struct weir_profile_row *row = recording_row(profile, names[k]);
            double truth = recording_truth(profile, row);
            covered += row->share_low <= truth && truth <= row->share_high;
        }
        weir_profile_free(profile);
    }
    print_message("the interval covered the truth in %u of %u\n", covered, all);
    if (windows >= 10)
        assert_true(covered * 100 >= all * (windows >= 200 ? 90 : 75));
    recording_load_wait(driver);
    harness_stop(&server);
}

static void more_threads_than_cpus(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", NULL };
    both_modes_for(CROWDED_MS, 6, "    busy 50us as a\n    busy 100us as b\n", "--connections 3 --events 10 --in-flight 16", names);
}

static void a_hog_beside_it(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const names[] = { "p.a", "p.b", NULL };
    pid_t hog = fork();
    assert_true(hog >= 0);
    if (hog == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(60);
        for (;;)
            __asm__ volatile("");
    }
    both_modes_for(CROWDED_MS, 1, "    busy 20us as a\n    busy 80us as b\n", "--connections 1 --events 1 --in-flight 16", names);
    kill(hog, SIGKILL);
    recording_wait(hog);
}

/* The whole load lies within the window, so every counter can be compared with what the server writes at its end. */
static void exact_counts(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    run(&server, 2, "    busy 20us as a\n");
    pid_t recorder = recording_start(&server, "exact.wprof", "--exact --duration 2500ms");
    usleep(500000);
    recording_load_wait(recording_load(&server, "--connections 3 --events 7 --in-flight 32 --duration 1s"));
    assert_int_equal(recording_wait(recorder), 0);
    struct weir_profile *profile = recording_open(&server, "exact.wprof");
    check_sums(profile);
    check_counts(profile);
    harness_counters_refresh(&server);
    const char *const names[] = { "p.frame", "p.decode", "p.handoff", "p.a", "p.index", "p.reply" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(recording_row(profile, names[i])->stamped, harness_counter(&server, "stages", names[i], "entries"));
    assert_int_equal(profile->queues[0].wait.count, harness_counter(&server, "queues", "p.handoff", "out"));
    weir_profile_free(profile);
    harness_stop(&server);
}

/* The counters are read while the server runs at full load, and still both ways of counting agree to the item. */
static void exact_counts_under_load(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    run(&server, 2, "    busy 5us as a\n");
    pid_t driver = recording_load(&server, "--connections 2 --events 10 --in-flight 32 --duration 2s");
    usleep(300000);
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_EXACT, 1000);
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage != WEIR_NONE && row->part == WEIR_PART_NONE)
            assert_true(llabs((long long)row->stamped - (long long)row->items) <= 6); /* two a thread, where no reading agreed */
    }
    weir_profile_free(profile);
    recording_load_wait(driver);
    harness_stop(&server);
}

/* One worker of 400 us an item and 16 items in flight: the queue is never empty, and the server can't know why. */
static void depth_and_wait_of_a_known_queue(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    run(&server, 1, "    busy 400us as slow\n");
    pid_t driver = recording_load(&server, "--connections 1 --events 1 --in-flight 16 --duration 5s");
    usleep(500000);
    for (enum weir_mode mode = WEIR_MODE_LIGHT; mode <= WEIR_MODE_EXACT; mode++) {
        struct weir_profile *profile = recording_take(&server, mode, 1800);
        const struct weir_profile_queue *queue = &profile->queues[0];
        double per_s = (double)(queue->end.out - queue->begin.out) * 1e9 / (double)profile->duration_ns;
        double wait_s = weir_histogram_mean(&queue->wait) / 1e9, sampled = weir_histogram_mean(&queue->depth_items);
        /* Of 16 in flight one is at the worker, and some are on their way to and from the client. */
        assert_true(queue->depth_items_mean > 10 && queue->depth_items_mean <= 15.01);
        assert_true(fabs(queue->depth_items_mean / sampled - 1) < 0.05);
        assert_true(fabs(wait_s * per_s / queue->depth_items_mean - 1) < 0.05); /* Little's law: three sources agree */
        weir_profile_free(profile);
    }
    recording_load_wait(driver);
    harness_stop(&server);
}

static void an_idle_server(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    run(&server, 2, "    busy 20us as a\n");
    for (enum weir_mode mode = WEIR_MODE_LIGHT; mode <= WEIR_MODE_EXACT; mode++) {
        struct weir_profile *profile = recording_take(&server, mode, 300);
        assert_int_equal(profile->queues[0].end.in, 0);
        for (uint32_t i = 0; i < profile->row_count; i++)
            assert_true(profile->rows[i].share >= 0 && profile->rows[i].share <= 1 && profile->rows[i].items == 0);
        assert_true(profile->pools[1].state_ns[WEIR_STATE_IDLE] > 0.95 * 2 * (double)profile->duration_ns);
        weir_profile_free(profile);
    }
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_stages),
        cmocka_unit_test(stages_of_10_to_40),
        cmocka_unit_test(one_stage_at_1_percent),
        cmocka_unit_test(periodic_work),
        cmocka_unit_test(perf_events_instead_of_timers),
        cmocka_unit_test(intervals_cover_the_truth),
        cmocka_unit_test(more_threads_than_cpus),
        cmocka_unit_test(a_hog_beside_it),
        cmocka_unit_test(exact_counts),
        cmocka_unit_test(exact_counts_under_load),
        cmocka_unit_test(depth_and_wait_of_a_known_queue),
        cmocka_unit_test(an_idle_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
