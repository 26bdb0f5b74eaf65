/* What is made of a profile: costs go where the stages go, and what nobody knows is said. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sample.h"
#include "tracer/predict.h"

/* sample_before(), with no more CPU time than its threads ran: the loop all of its time, to the same shares. */
static struct weir_profile *before(void)
{
    struct weir_profile *profile = sample_before();
    double factor = 0.67;
    profile->cpu_ns = (uint64_t)(factor * (double)profile->cpu_ns);
    for (uint32_t i = 0; i < profile->row_count; i++)
        profile->rows[i].cpu_ns *= factor;
    for (uint32_t k = 0; k < profile->slice_count; k++)
        for (uint32_t i = 0; i < profile->row_count; i++)
            profile->slices[k].row_cpu_ns[i] *= factor;
    double *workers = profile->pools[1].state_ns, runs = 0.09 * 2 * (double)profile->duration_ns;
    workers[WEIR_STATE_IDLE] += workers[WEIR_STATE_RUNNING] - runs;
    workers[WEIR_STATE_RUNNING] = runs;
    return profile;
}

static struct weir_prediction predict(struct weir_profile *profile, const struct weir_topology *topology)
{
    struct weir_prediction prediction;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_predict(profile, topology, &profile->arena, &prediction, &error) != 0)
        fail_msg("%s", error.text);
    const struct weir_prediction_figure *figures[] = { &prediction.messages_per_s, &prediction.latency_p50_ns, &prediction.latency_p99_ns,
                                                       &prediction.cpus, &prediction.refused_per_s };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        assert_true(figures[i]->low <= figures[i]->value && figures[i]->value <= figures[i]->high);
    assert_non_null(prediction.next);
    return prediction;
}

static void assert_refused(struct weir_profile *profile, const struct weir_topology *topology, const char *words)
{
    struct weir_prediction prediction;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_predict(profile, topology, &profile->arena, &prediction, &error), -EINVAL);
    if (!strstr(error.text, words))
        fail_msg("'%s' does not say '%s'", error.text, words);
}

static const struct weir_prediction_stage *stage(const struct weir_prediction *prediction, const char *name)
{
    for (uint32_t i = 0; i < prediction->stage_count; i++)
        if (strcmp(prediction->stages[i].name, name) == 0)
            return &prediction->stages[i];
    fail_msg("no stage %s", name);
    return NULL;
}

/* The measured file itself comes out as it was measured: the loop is its limit, at 12,100 messages a second. */
static void what_was_measured_is_what_is_predicted_of_it(void **state)
{
    (void)state;
    struct weir_profile *profile = before();
    struct weir_prediction prediction = predict(profile, &profile->topology);
    assert_true(fabs(prediction.messages_per_s.value - 12100) < 1200);
    assert_true(fabs(prediction.messages_per_s.value - prediction.simulated_per_s) < 600);
    assert_true(fabs(prediction.cpus.value - 1.2) < 0.2);
    for (uint32_t i = 0; i < prediction.stage_count; i++)
        assert_true(fabs(prediction.stages[i].cpu_share.value - prediction.stages[i].cpu_share.now) < 0.1);
    weir_profile_free(profile);
}

/* Where no reply is owed, what came to its end is what was measured, and not what a handoff dropped. */
static void messages_without_an_answer_count(void **state)
{
    (void)state;
    struct weir_profile *profile = before();
    struct weir_profile_way *way = &profile->ways[0];
    double now = predict(profile, &profile->topology).messages_per_s.now, window_s = (double)profile->duration_ns / 1e9;
    uint32_t handoff = 0;
    while (profile->topology.queues[handoff].kind != WEIR_QUEUE_HANDOFF)
        handoff++;
    profile->topology.ways[0].replies = false;
    way->begin.discarded = way->begin.answered;
    way->end.discarded = way->end.answered + 1000;
    way->begin.answered = way->end.answered = 0;
    profile->queues[handoff].end.dropped = profile->queues[handoff].begin.dropped + 1000;
    struct weir_prediction prediction = predict(profile, &profile->topology);
    assert_true(fabs(prediction.messages_per_s.now - now) < 1);
    assert_true(fabs(prediction.refused_per_s.now - 1000 / window_s) < 1);
    assert_true(prediction.messages_per_s.value > now / 2);
    weir_profile_free(profile);
}

static void the_handoff_moves_the_decoder_and_ends_the_size(void **state)
{
    (void)state;
    struct weir_profile *profile = before(), *other = sample_after();
    struct weir_prediction prediction = predict(profile, &other->topology);
    assert_string_equal(stage(&prediction, "riemann.decode")->pool, "workers");
    assert_true(stage(&prediction, "riemann.handoff")->cpu_share.value < 0.05); /* was 0.40 */
    assert_true(stage(&prediction, "riemann.decode")->cpu_share.value > 0.45);  /* was 0.31 */
    /* Of an item's 100 us the estimate was 38: the rest on 2 CPUs, or what the clients have under way. */
    assert_true(prediction.messages_per_s.value > 1.4 * prediction.messages_per_s.now);
    assert_true(prediction.messages_per_s.value < 3 * prediction.messages_per_s.now);
    assert_true(prediction.pools[0].busy.value < 0.7);
    weir_profile_free(profile);
    weir_profile_free(other);
}

/* The CPUs that others use are not there for more threads. */
static void threads_help_as_far_as_there_are_cpus(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after(), *other = sample_after();
    profile->cpus = 8;
    profile->ways[0].end.in_flight = 64;
    profile->pools[1].state_ns[WEIR_STATE_RUNNING] += profile->pools[1].state_ns[WEIR_STATE_IDLE];
    profile->pools[1].state_ns[WEIR_STATE_IDLE] = 0;
    other->topology.pools[1].threads = 4;
    double alone = predict(profile, &other->topology).messages_per_s.value;
    assert_true(alone > 1.5 * predict(profile, &profile->topology).messages_per_s.value);
    assert_int_equal(predict(profile, &other->topology).pools[1].threads_now, 2);
    profile->machine_busy_ns = 7.8 * (double)profile->duration_ns; /* 6 of them by others */
    struct weir_prediction crowded = predict(profile, &other->topology);
    assert_true(crowded.messages_per_s.value < 0.8 * alone);
    assert_non_null(strstr(crowded.next, "the CPUs"));
    weir_profile_free(profile);
    weir_profile_free(other);
}

/* Others use all that the server left; yet a thread of it that had something to do ran half of that time, and so it would again. */
static void others_that_use_all_cpus_share_them(void **state)
{
    (void)state;
    struct weir_profile *profile = before(), *other = before();
    double whole = (double)profile->duration_ns;
    profile->cpu_ns /= 20;
    for (uint32_t i = 0; i < profile->row_count; i++)
        profile->rows[i].cpu_ns /= 20;
    profile->slice_count = 0;
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        double threads = profile->topology.pools[i].threads;
        memset(profile->pools[i].state_ns, 0, sizeof profile->pools[i].state_ns);
        profile->pools[i].state_ns[WEIR_STATE_RUNNING] = profile->pools[i].state_ns[WEIR_STATE_RUNNABLE] = 0.03 * whole;
        profile->pools[i].state_ns[WEIR_STATE_IDLE] = (threads - 0.06) * whole;
    }
    profile->machine_busy_ns = 2 * whole;
    struct weir_prediction prediction = predict(profile, &other->topology);
    assert_true(prediction.cpus.value > 0.4 && prediction.cpus.value < 0.6); /* was 0.06 */
    weir_profile_free(profile);
    weir_profile_free(other);
}

/* Threads that wait for a lock do no more if there are more of them. */
static void a_lock_is_no_wider_for_more_threads(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after(), *other = sample_after();
    profile->cpus = 64;
    profile->ways[0].end.in_flight = 64;
    double *workers = profile->pools[1].state_ns, whole = 2 * (double)profile->duration_ns;
    workers[WEIR_STATE_LOCK] = 0.4 * whole;
    workers[WEIR_STATE_IDLE] = whole - workers[WEIR_STATE_RUNNING] - workers[WEIR_STATE_LOCK];
    other->topology.pools[1].threads = 32;
    other->topology.pools[0].threads = 8;
    double without = predict(profile, &other->topology).messages_per_s.value;
    struct weir_profile_sleep sleep = { .pool = 1, .state = WEIR_STATE_LOCK, .queue = WEIR_NONE, .slots = WEIR_NONE, .site = "put",
                                        .count = 1000, .ns = 0.4 * whole };
    while (strcmp(profile->rows[sleep.row].name, "riemann.index") != 0)
        sleep.row++;
    profile->sleeps = &sleep;
    profile->sleep_count = 1;
    struct weir_prediction prediction = predict(profile, &other->topology);
    assert_string_equal(prediction.next, "a lock in riemann.index: held 100 % of the time");
    assert_string_equal(prediction.next_stage, "riemann.index");
    /* It is held for as long as an item takes there. */
    double most = (double)profile->rows[sleep.row].items / profile->rows[sleep.row].cpu_ns * 1e9;
    assert_true(fabs(prediction.messages_per_s.value - most) < 0.05 * most);
    assert_true(prediction.messages_per_s.value < 0.95 * without);
    weir_profile_free(profile);
    weir_profile_free(other);
}

static void what_nobody_measured_is_said(void **state)
{
    (void)state;
    struct weir_profile *old = before(), *after = sample_after();
    /* How dear an estimate would be, nobody knows of a server that has none. */
    assert_refused(after, &old->topology, "`sized reflect` costs in riemann.handoff");
    after->topology.stages[4].verb = WEIR_FILTER;
    after->topology.stages[4].full_name = "riemann.filter";
    assert_refused(old, &after->topology, "knows no stage riemann.filter");
    after->topology.stages[4].verb = WEIR_TEE;
    assert_refused(old, &after->topology, "can't be predicted");
    /* A `busy` says itself what it costs. */
    after->topology.stages[4].verb = WEIR_BUSY;
    after->topology.stages[4].full_name = "riemann.busy";
    after->topology.stages[4].cpu_ns = 1000000;
    struct weir_prediction prediction = predict(old, &after->topology);
    assert_true(prediction.messages_per_s.value < 2000);
    assert_true(stage(&prediction, "riemann.busy")->cpu_share.value > 0.8);
    assert_true(isnan(stage(&prediction, "riemann.busy")->cpu_share.now));
    after->topology.ways[0].name = "other";
    assert_refused(old, &after->topology, "knows no clients of pipeline other");
    weir_profile_free(old);
    weir_profile_free(after);
}

static void of_an_empty_window_nothing_is_predicted(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_empty();
    assert_refused(profile, &profile->topology, "nothing was answered");
    weir_profile_free(profile);
}

static void whatever_a_profile_holds_is_survived(void **state)
{
    (void)state;
    struct weir_profile *profiles[] = { sample_hostile(), sample_shared(), sample_tail(), sample_long(60, 10), sample_lossy() };
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++) {
        struct weir_prediction prediction;
        struct weir_error error = WEIR_ERROR_INIT;
        int rc = weir_predict(profiles[i], &profiles[i]->topology, &profiles[i]->arena, &prediction, &error);
        assert_true(rc == 0 || error.text[0]);
        weir_profile_free(profiles[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_measured_is_what_is_predicted_of_it), cmocka_unit_test(the_handoff_moves_the_decoder_and_ends_the_size),
        cmocka_unit_test(threads_help_as_far_as_there_are_cpus), cmocka_unit_test(others_that_use_all_cpus_share_them),
        cmocka_unit_test(a_lock_is_no_wider_for_more_threads), cmocka_unit_test(what_nobody_measured_is_said),
        cmocka_unit_test(of_an_empty_window_nothing_is_predicted), cmocka_unit_test(whatever_a_profile_holds_is_survived),
        cmocka_unit_test(messages_without_an_answer_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
