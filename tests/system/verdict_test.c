/* What the verdict says of real servers whose limit is known by construction: the slowest stage of a random pipeline, nothing of a
 * healthy one, and the causes of the stories, before the fix and after it. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/recording.h"
#include "tracer/verdict.h"

#define WINDOW_MS harness_window_ms(1200, 2500)
#define PIPELINES ((unsigned)harness_count(4, 20)) /* of each kind; 1 under sanitizers */

/* --- random pipelines --------------------------------------------------------------------------------------------------------- */

#define POOLS_MOST 3u

struct random_pool {
    unsigned threads, stages;
    double stage_us[2]; /* time of an item in it */
};

/* A pipeline of random pools, of which one is slower by far; `slowest` is its stage that takes most of it. */
struct random_server {
    char text[2048], slowest[32];
    double capacity_per_s; /* of its slowest pool */
};

static double uniform(unsigned *seed, double low, double high)
{
    return low + (high - low) * rand_r(seed) / RAND_MAX;
}

static double pool_us(const struct random_pool *pool)
{
    return pool->stage_us[0] + (pool->stages > 1 ? pool->stage_us[1] : 0);
}

/* Items a second that the pool can do. */
static double capacity(const struct random_pool *pool)
{
    return pool->threads * 1e6 / pool_us(pool);
}

/* Stages take 2 to 8 ms: a server of a few hundred items a second leaves the machine's CPUs in peace, and a wakeup that comes late on
 * a crowded one is short against it. */
static void choose_pools(unsigned *seed, struct random_pool *pools, unsigned count, unsigned slowest)
{
    double least = 1000;
    for (unsigned i = 0; i < count; i++) {
        pools[i].threads = 1 + (unsigned)rand_r(seed) % 3;
        pools[i].stages = 1 + (unsigned)rand_r(seed) % 2;
        pools[i].stage_us[0] = uniform(seed, 2000, 8000);
        pools[i].stage_us[1] = uniform(seed, 2000, 8000);
        if (i != slowest)
            least = fmin(least, capacity(&pools[i]));
    }
    /* By at least 1.5 times the slowest; and in it one stage that takes two thirds or more. */
    struct random_pool *pool = &pools[slowest];
    double whole_us = pool->threads * 1e6 / (least / uniform(seed, 1.5, 3)), first = pool->stages > 1 ? uniform(seed, 0.67, 0.9) : 1;
    pool->stage_us[0] = whole_us * first;
    pool->stage_us[1] = whole_us - pool->stage_us[0];
}

static void make_random(unsigned seed, struct random_server *server)
{
    struct random_pool pools[POOLS_MOST];
    unsigned count = 1 + (unsigned)rand_r(&seed) % POOLS_MOST, slowest = (unsigned)rand_r(&seed) % count;
    size_t at = 0, size = sizeof server->text;
    choose_pools(&seed, pools, count, slowest);
#define PRINT(...) (at += (size_t)snprintf(server->text + at, at < size ? size - at : 0, __VA_ARGS__))
    PRINT("pool io threads 1\n");
    for (unsigned i = 0; i < count; i++)
        PRINT("pool w%u threads %u\n", i, pools[i].threads);
    PRINT("pipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n");
    for (unsigned i = 0; i < count; i++) {
        PRINT("    handoff w%u limit 256KiB items %u full block as h%u\n", i, 4 + (unsigned)rand_r(&seed) % 60, i);
        for (unsigned k = 0; k < pools[i].stages; k++) {
            /* Some of it burns CPU, most of it waits. */
            double cpu_us = fmin(uniform(&seed, 20, 200), pools[i].stage_us[k] / 2);
            PRINT("    busy %.0fus pause %.0fus as s%u_%u\n", cpu_us, pools[i].stage_us[k] - cpu_us, i, k);
        }
    }
    PRINT("    decode riemann\n    encode riemann\n    reply\n}\n");
#undef PRINT
    assert_true(at < size);
    snprintf(server->slowest, sizeof server->slowest, "p.s%u_0", slowest);
    server->capacity_per_s = capacity(&pools[slowest]);
}

/* --- recording a server under load -------------------------------------------------------------------------------------------- */

static void print_verdict(const char *text, const struct weir_verdict *verdict)
{
    fprintf(stderr, "%s%s: %s\n", text, verdict->kind, verdict->text);
    for (uint32_t i = 1; i < verdict->cause_count; i++)
        fprintf(stderr, "then: %s\n", verdict->causes[i].text);
    for (uint32_t i = 0; i < verdict->evidence_count; i++)
        fprintf(stderr, "  - %s\n", verdict->evidence[i]);
}

/* Runs the server under the load, records it, and gives the verdict, which lies in the profile. */
static struct weir_profile *judge_running(struct harness_server *server, const char *way, const char *load, struct weir_verdict *verdict)
{
    char options[256];
    snprintf(options, sizeof options, "%s --duration %ums", load, WINDOW_MS + 2000);
    pid_t driver = recording_load(server, options);
    recording_load_runs(server, way);
    struct weir_profile *profile = recording_take(server, WEIR_MODE_LIGHT, WINDOW_MS);
    assert_int_equal(weir_verdict_of(profile, &profile->arena, verdict, NULL), 0);
    recording_load_wait(driver);
    return profile;
}

/* The first cause that is the server's own: on a crowded machine its threads wait for CPUs, and the verdict says so before all else.
 * Null: none. */
static const struct weir_verdict_cause *own_cause(const struct weir_verdict *verdict)
{
    for (uint32_t i = 0; i < verdict->cause_count; i++)
        if (strcmp(verdict->causes[i].kind, "cpu") != 0)
            return &verdict->causes[i];
    return NULL;
}

static bool is(const struct weir_verdict_cause *cause, const char *kind, const char *stage)
{
    return cause && strcmp(cause->kind, kind) == 0 && cause->stage && strcmp(cause->stage, stage) == 0;
}

static struct weir_profile *judge_server(const char *text, const char *load, struct weir_verdict *verdict)
{
    struct harness_server server;
    harness_run(&server, text);
    struct weir_profile *profile = judge_running(&server, strstr(text, "pipeline riemann") ? "riemann" : "p", load, verdict);
    harness_stop(&server);
    return profile;
}

/* 1: named; 0: not; -1: the machine was too crowded to tell. */
static int names_slowest(const struct random_server *random)
{
    struct weir_verdict verdict;
    int rc = -1;
    for (unsigned attempt = 0; attempt < 3 && rc < 0; attempt++) {
        struct weir_profile *profile = judge_server(random->text, "--connections 2 --events 1 --in-flight 32 --wait 20s", &verdict);
        if (is(own_cause(&verdict), "stage", random->slowest))
            rc = 1;
        else if (!recording_crowded(profile))
            rc = 0;
        if (rc < 1) {
            fprintf(stderr, "%sthe slowest stage is %s\n", random->text, random->slowest);
            print_verdict("", &verdict);
        }
        weir_profile_free(profile);
    }
    return rc;
}

static void the_slowest_stage_is_named(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    unsigned wrong = 0;
    for (unsigned i = 0; i < PIPELINES; i++) {
        struct random_server random;
        make_random(1000 + i, &random);
        wrong += names_slowest(&random) == 0;
    }
    assert_true(wrong <= PIPELINES / 20); /* 19 of 20, and of fewer all */
}

static void nothing_is_found_where_nothing_is_wrong(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    for (unsigned i = 0; i < PIPELINES; i++) {
        struct random_server random;
        struct weir_verdict verdict;
        char load[128];
        unsigned seed = 77 + i;
        make_random(2000 + i, &random);
        /* On many connections, so that each of them has little to ask: a metronome that is quick looks like somebody who waits. */
        snprintf(load, sizeof load, "--connections %u --events 1 --rate %.0f --wait 20s", 16 + i % 4, random.capacity_per_s * uniform(&seed, 0.1, 0.6));
        bool found = true;
        for (unsigned attempt = 0; attempt < 3 && found; attempt++) {
            struct weir_profile *profile = judge_server(random.text, load, &verdict);
            found = own_cause(&verdict) || strcmp(verdict.kind, "unclear") == 0;
            if (found)
                print_verdict(random.text, &verdict);
            if (found && !recording_crowded(profile))
                fail_msg("a finding on a healthy server (%s)", load);
            weir_profile_free(profile);
        }
    }
}

/* --- a full queue (what a longer one changes) --------------------------------------------------------------------------------- */

static void a_longer_queue_changes_neither_verdict_nor_throughput(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    const unsigned limits[] = { 256, 1024 };
    double out[2];
    bool crowded = false;
    for (size_t i = 0; i < 2; i++) {
        struct weir_verdict verdict;
        char text[1024];
        snprintf(text, sizeof text,
                 "pool io threads 1\npool workers threads 2\npool writers threads 4\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n"
                 "    frame length32 max 64KiB\n    handoff workers limit 16MiB items %u full block as first\n    decode riemann\n"
                 "    busy 50us as parse\n    handoff writers limit 64MiB items %u full block as second\n    busy 100us pause 4ms as write\n"
                 "    encode riemann\n    reply\n}\n", limits[i], limits[i]);
        struct weir_profile *profile = judge_server(text, "--connections 5 --events 1 --in-flight 512 --wait 20s", &verdict);
        const struct weir_verdict_cause *cause = own_cause(&verdict);
        if (!is(cause, "stage", "p.write")) {
            print_verdict(text, &verdict);
            fail_msg("the stage behind the full queues is p.write");
        }
        assert_true(!cause->change || strncmp(cause->change, "pool writers threads", 20) == 0);
        assert_null(strstr(cause->text, "limit"));
        for (uint32_t k = 0; k < 2; k++)
            assert_true(profile->queues[k].depth_items_mean > 0.8 * limits[i]);
        crowded |= recording_crowded(profile);
        out[i] = (double)(profile->queues[1].end.out - profile->queues[1].begin.out) * 1e9 / (double)profile->duration_ns;
        weir_profile_free(profile);
    }
    if (!crowded && fabs(out[0] - out[1]) > 0.2 * out[0])
        fail_msg("%.0f items a second with 256 places, %.0f with 1024", out[0], out[1]);
}

/* --- the stories -------------------------------------------------------------------------------------------------------------- */

#define AFTER                                                                                                                      \
    "pool io threads 1\npool workers threads 2\npipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n"                            \
    "    frame length32 max 16MiB\n    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n" \
    "    reply\n}\n"
#define BEFORE                                                                                                                     \
    "pool io threads 1\npool workers threads 2\npipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n"                            \
    "    frame length32 max 16MiB\n    decode riemann\n    handoff workers limit 64MiB sized reflect full block\n    index\n"       \
    "    encode riemann\n    reply\n}\n"
#define PIPELINED "--connections 2 --events 100 --in-flight 64"

static bool names(const struct weir_verdict *verdict, const char *kind)
{
    for (uint32_t i = 0; i < verdict->cause_count; i++)
        if (strcmp(verdict->causes[i].kind, kind) == 0)
            return true;
    return false;
}

/* Story A: a client that waits for each answer; and one that does not. */
static void one_request_at_a_time_is_round_trip_bound(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct weir_verdict verdict;
    struct harness_server server;
    harness_run(&server, AFTER);
    struct weir_profile *profile = judge_running(&server, "riemann", "--mode sync --clients 2 --events 1", &verdict);
    harness_stop(&server);
    const struct weir_profile_way *way = &profile->ways[0];
    const struct weir_verdict_cause *cause = own_cause(&verdict);
    if (!cause || strcmp(cause->kind, "round_trip") != 0) {
        print_verdict("", &verdict);
        fail_msg("the round trips are not named first");
    }
    assert_int_equal(way->end.overlapped, 0);
    assert_true(way->in_flight.max <= 1);
    weir_profile_free(profile);
    profile = judge_server(AFTER, PIPELINED, &verdict);
    assert_false(names(&verdict, "round_trip"));
    assert_true(profile->ways[0].end.overlapped > profile->ways[0].begin.overlapped);
    weir_profile_free(profile);
}

/* Story B: the size estimation first; behind the fix it is gone, with whatever the limit is then. */
static void the_handoff_above_the_decoder_ends_the_size_estimation(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct weir_verdict verdict;
    bool named = false;
    for (unsigned attempt = 0; attempt < 3 && !named; attempt++) {
        struct weir_profile *profile = judge_server(BEFORE, PIPELINED, &verdict);
        const struct weir_verdict_cause *cause = own_cause(&verdict);
        named = is(cause, "size", "riemann.handoff");
        if (!named)
            print_verdict("", &verdict);
        if (!named && !recording_crowded(profile))
            fail_msg("the size estimation is not named first");
        assert_true(!named || strcmp(cause->change, "handoff workers limit 64MiB full block") == 0);
        weir_profile_free(profile);
    }
    struct weir_profile *profile = judge_server(AFTER, PIPELINED, &verdict);
    assert_false(names(&verdict, "size"));
    assert_true(recording_crowded(profile) || strcmp(verdict.kind, "unclear") != 0);
    weir_profile_free(profile);
}

/* --- waits -------------------------------------------------------------------------------------------------------------------- */

/* A server that forwards to another, in which a request takes 5 ms. Seen from here both forms look alike: all slots are full. */
static void judge_forward(unsigned workers_behind, struct weir_verdict *verdict, struct weir_profile **profile)
{
    struct harness_server behind;
    char text[1024];
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads %u\npipeline b {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n"
             "    handoff workers limit 256KiB full block\n    decode riemann\n    busy 50us pause 5ms\n    encode riemann\n    reply\n}\n",
             workers_behind);
    harness_run(&behind, text);
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 4\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n"
             "    handoff workers limit 256KiB full block\n    decode riemann\n"
             "    forward riemann 127.0.0.1:%d connections 1 in_flight 8\n    encode riemann\n    reply\n}\n", behind.port);
    *profile = judge_server(text, "--connections 2 --events 1 --in-flight 32 --wait 20s", verdict);
    harness_stop(&behind);
    const struct weir_verdict_cause *cause = own_cause(verdict);
    if (!is(cause, "starved", "p.forward")) {
        print_verdict("", verdict);
        fail_msg("workers wait for slots");
    }
    assert_non_null(strstr(cause->change, "connections"));
}

static void full_slots_are_told_from_a_connection_that_serves_one_by_one(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct weir_verdict verdict;
    struct weir_profile *profile;
    judge_forward(16, &verdict, &profile);
    assert_true(recording_crowded(profile) || !strstr(own_cause(&verdict)->text, "one request after the other"));
    weir_profile_free(profile);
    judge_forward(1, &verdict, &profile);
    assert_true(recording_crowded(profile) || strstr(own_cause(&verdict)->text, "one request after the other"));
    weir_profile_free(profile);
}

static void a_contended_lock_is_named_by_its_function(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    struct weir_verdict verdict;
    harness_build(&server,
                  "pool io threads 1\npool workers threads 4\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n"
                  "    handoff workers limit 256KiB full block\n    decode riemann\n    call \"turns.c\" take_turns\n    encode riemann\n"
                  "    reply\n}\n", "turns.c",
                  "#include <pthread.h>\n#include <unistd.h>\n#include <weir/call.h>\n"
                  "static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;\n"
                  "int take_turns(struct weir_item *item, struct weir_call *call)\n{\n    (void)item; (void)call;\n"
                  "    pthread_mutex_lock(&one);\n    usleep(2000);\n    pthread_mutex_unlock(&one);\n    return 0;\n}\n");
    harness_start(&server, NULL);
    struct weir_profile *profile = judge_running(&server, "p", "--connections 2 --events 1 --in-flight 32 --wait 20s", &verdict);
    harness_stop(&server);
    const struct weir_verdict_cause *cause = own_cause(&verdict);
    if (!is(cause, "lock", "p.call") || !strstr(cause->text, "take_turns")) {
        print_verdict("", &verdict);
        fail_msg("the lock in take_turns is not named");
    }
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slowest_stage_is_named),
        cmocka_unit_test(nothing_is_found_where_nothing_is_wrong),
        cmocka_unit_test(a_longer_queue_changes_neither_verdict_nor_throughput),
        cmocka_unit_test(one_request_at_a_time_is_round_trip_bound),
        cmocka_unit_test(the_handoff_above_the_decoder_ends_the_size_estimation),
        cmocka_unit_test(full_slots_are_told_from_a_connection_that_serves_one_by_one),
        cmocka_unit_test(a_contended_lock_is_named_by_its_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
