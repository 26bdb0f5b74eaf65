/* What the tracer says of tails that several ways in share: apart and in total, and where items cross from one pipeline to the next. */
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

#define WINDOW_MS ((unsigned)harness_count(2000, 6000))

static const char text[] = "pool io threads 1\npool workers threads 1\npool slow threads 1\n"
                           "pipeline a {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    then core\n}\n"
                           "pipeline b {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    then core\n}\n"
                           "pipeline core {\n    handoff workers limit 64MiB full block\n    decode riemann\n    busy 20us\n    tee log\n"
                           "    encode riemann\n    reply\n}\n"
                           "pipeline log {\n    handoff slow limit 64MiB items 200 full reject\n    busy 5us\n    drop\n}\n";

static uint64_t edge(const struct weir_profile *profile, const char *from, const char *to)
{
    for (uint32_t i = 0; i < profile->edge_count; i++)
        if (strcmp(profile->topology.stages[profile->edges[i].from].full_name, from) == 0 &&
            strcmp(profile->topology.stages[profile->edges[i].to].full_name, to) == 0)
            return profile->edges[i].items;
    fail_msg("there is no edge from %s to %s", from, to);
    return 0;
}

/* In every number that adds up, a stage is the sum of its ways in. */
static void check_sums(const struct weir_profile *profile)
{
    double all = 0;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        double share = 0;
        uint64_t items = 0, stamped = 0, ways = 0;
        all += row->part_of == WEIR_NONE ? row->share : 0;
        for (uint32_t k = 0; k < profile->row_count; k++) {
            const struct weir_profile_row *part = &profile->rows[k];
            if (part->part_of != i || part->part != WEIR_PART_NONE)
                continue;
            share += part->share;
            items += part->items;
            stamped += part->stamped;
            ways++;
        }
        if (!ways)
            continue;
        assert_int_equal(ways, 3); /* a, b, and what is born inside */
        assert_int_equal(items, row->items);
        assert_int_equal(stamped, row->stamped);
        assert_true(fabs(share - row->share) < 1e-9);
    }
    assert_true(fabs(all - 1) < 1e-6);
}

static void a_tail_adds_up(enum weir_mode mode)
{
    struct harness_server server, other;
    RECORDING_NEEDS_BPF();
    harness_run(&server, text);
    other = server;
    other.port = harness_port(&server, "b");
    pid_t loads[] = { recording_load(&server, "--connections 2 --events 10 --in-flight 8 --duration 60s"),
                      recording_load(&other, "--connections 1 --events 1 --in-flight 2 --duration 60s") };
    usleep(300000);
    struct weir_profile *profile = recording_take(&server, mode, WINDOW_MS);
    check_sums(profile);
    const struct weir_profile_row *a = recording_row(profile, "core.busy@a"), *b = recording_row(profile, "core.busy@b");
    assert_true(a->items > 0 && b->items > 0);
    /* A stage that burns the same for each of its items costs each way in the same an item: what is told apart is told apart right. */
    double cost_a = a->own_cpu_ns / (double)a->items, cost_b = b->own_cpu_ns / (double)b->items;
    assert_true(fabs(cost_a - cost_b) < 0.1 * cost_a);
    if (mode == WEIR_MODE_EXACT) {
        assert_true(fabs(a->share - recording_truth(profile, a)) < 0.03);
        assert_true(fabs(b->share - recording_truth(profile, b)) < 0.03);
        assert_int_equal(a->stamped, a->items);
        assert_int_equal(b->stamped, b->items);
    }
    /* Items cross from one pipeline to the next. */
    assert_int_equal(edge(profile, "a.then", "core.handoff"), recording_row(profile, "a.then")->items);
    assert_int_equal(edge(profile, "b.then", "core.handoff"), recording_row(profile, "b.then")->items);
    assert_int_equal(edge(profile, "core.tee", "log.handoff"), recording_row(profile, "core.tee")->items);
    for (uint32_t i = 0; i < profile->topology.queue_count; i++)
        if (profile->topology.queues[i].kind == WEIR_QUEUE_REPLY)
            assert_true(profile->queues[i].wait.count > 0);
    assert_non_null(recording_row(profile, "core.reply@a")->service);
    assert_non_null(recording_row(profile, "core.reply@b")->service);
    weir_profile_free(profile);
    for (int i = 0; i < 2; i++) {
        kill(loads[i], SIGINT);
        recording_wait(loads[i]);
    }
    harness_stop(&server);
}

static void light(void **state)
{
    (void)state;
    a_tail_adds_up(WEIR_MODE_LIGHT);
}

static void exact(void **state)
{
    (void)state;
    a_tail_adds_up(WEIR_MODE_EXACT);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(light), cmocka_unit_test(exact) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
