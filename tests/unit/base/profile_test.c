#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/sample.h"

static void written_reads_back_the_same(void **state)
{
    (void)state;
    struct weir_profile *(*const makers[])(void) = { sample_before, sample_after, sample_empty, sample_lossy };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct weir_error error = WEIR_ERROR_INIT;
        struct weir_buffer first = WEIR_BUFFER_INIT, second = WEIR_BUFFER_INIT;
        struct weir_profile *made = makers[i](), *read = weir_profile_new();
        assert_int_equal(weir_profile_write(made, &first, &error), 0);
        assert_int_equal(weir_profile_read(read, first.data, first.length, &error), 0);
        assert_int_equal(weir_profile_write(read, &second, &error), 0);
        assert_int_equal(first.length, second.length);
        assert_memory_equal(first.data, second.data, first.length);
        assert_int_equal(read->row_count, made->row_count);
        assert_int_equal(read->violation_count, made->violation_count);
        if (made->row_count) {
            assert_string_equal(read->rows[4].name, made->rows[4].name);
            assert_int_equal(read->rows[0].service->count, made->rows[0].service->count);
            assert_int_equal(weir_histogram_quantile(&read->queues[0].wait, 0.99), weir_histogram_quantile(&made->queues[0].wait, 0.99));
        }
        weir_profile_free(made);
        weir_profile_free(read);
        weir_buffer_release(&first);
        weir_buffer_release(&second);
    }
}

static void every_prefix_is_refused(void **state)
{
    (void)state;
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    struct weir_profile *made = sample_empty();
    assert_int_equal(weir_profile_write(made, &bytes, NULL), 0);
    for (size_t size = 0; size < bytes.length; size++) {
        struct weir_error error = WEIR_ERROR_INIT;
        struct weir_profile *read = weir_profile_new();
        assert_true(weir_profile_read(read, bytes.data, size, &error) < 0);
        assert_int_equal(error.exit, WEIR_EXIT_USAGE);
        weir_profile_free(read);
    }
    weir_profile_free(made);
    weir_buffer_release(&bytes);
}

/* A byte changed anywhere is refused or read; whatever is read can be written again. */
static void any_changed_byte_is_survived(void **state)
{
    (void)state;
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    struct weir_profile *made = sample_empty();
    assert_int_equal(weir_profile_write(made, &bytes, NULL), 0);
    for (size_t i = 0; i < bytes.length; i++) {
        for (unsigned flip = 1; flip < 256; flip *= 4) {
            struct weir_buffer again = WEIR_BUFFER_INIT;
            struct weir_profile *read = weir_profile_new();
            bytes.data[i] ^= (char)flip;
            if (weir_profile_read(read, bytes.data, bytes.length, NULL) == 0)
                assert_int_equal(weir_profile_write(read, &again, NULL), 0);
            bytes.data[i] ^= (char)flip;
            weir_profile_free(read);
            weir_buffer_release(&again);
        }
    }
    weir_profile_free(made);
    weir_buffer_release(&bytes);
}

/* Writes a profile after `spoil` changed it, and expects reading to refuse it. */
static void refused(void (*spoil)(struct weir_profile *), const char *word)
{
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    struct weir_profile *made = sample_before(), *read = weir_profile_new();
    spoil(made);
    assert_int_equal(weir_profile_write(made, &bytes, &error), 0);
    assert_true(weir_profile_read(read, bytes.data, bytes.length, &error) < 0);
    if (!strstr(error.text, word))
        fail_msg("'%s' doesn't say '%s'", error.text, word);
    weir_profile_free(made);
    weir_profile_free(read);
    weir_buffer_release(&bytes);
}

static void spoil_row_stage(struct weir_profile *p) { p->rows[1].stage = 7; }
static void spoil_row_part_of(struct weir_profile *p) { p->rows[1].part_of = 1; }
static void spoil_row_pool(struct weir_profile *p) { p->rows[1].pool = 2; }
static void spoil_edge(struct weir_profile *p) { p->edges[0].to = 99; }
static void spoil_histogram(struct weir_profile *p) { p->queues[0].wait.count++; }
static void spoil_stage_pool(struct weir_profile *p) { p->topology.stages[2].pool = 2; }
static void spoil_stage_verb(struct weir_profile *p) { p->topology.stages[2].verb = WEIR_VERB_COUNT; }
static void spoil_stage_queue(struct weir_profile *p) { p->topology.stages[2].queue = 0; }
static void spoil_pipeline(struct weir_profile *p) { p->topology.pipelines[0].stage_count = 8; }
static void spoil_pipeline_wrap(struct weir_profile *p) { p->topology.pipelines[0].first_stage = UINT32_MAX - 3; }
static void spoil_queue(struct weir_profile *p) { p->topology.queues[0].to_pool = 2; }
static void spoil_way(struct weir_profile *p) { p->topology.ways[0].listen_stage = 7; }
static void spoil_instance(struct weir_profile *p) { p->topology.instances[0].way = 1; }
static void spoil_term(struct weir_profile *p) { p->topology.expectations[0].terms[0].pool = 0; }
static void spoil_term_value(struct weir_profile *p) { p->topology.expectations[0].terms[0].value = NAN; }
static void spoil_group(struct weir_profile *p) { p->topology.expectations[0].terms[0].group = 1; }
static void spoil_mode(struct weir_profile *p) { p->mode = (enum weir_mode)(WEIR_MODE_COUNTERS + 1); }
static void spoil_duration(struct weir_profile *p) { p->duration_ns = UINT64_MAX; }

static void what_points_outside_is_refused(void **state)
{
    (void)state;
    refused(spoil_row_stage, "row");
    refused(spoil_row_part_of, "row");
    refused(spoil_row_pool, "row");
    refused(spoil_edge, "edge");
    refused(spoil_histogram, "histogram");
    refused(spoil_stage_pool, "a stage");
    refused(spoil_stage_verb, "a stage");
    refused(spoil_stage_queue, "a stage");
    refused(spoil_pipeline, "a pipeline");
    refused(spoil_pipeline_wrap, "a pipeline");
    refused(spoil_queue, "a queue");
    refused(spoil_way, "a way in");
    refused(spoil_instance, "an instance");
    refused(spoil_term, "an expectation");
    refused(spoil_term_value, "an expectation");
    refused(spoil_group, "an expectation");
    refused(spoil_mode, "mode");
    refused(spoil_duration, "window");
}

static void a_good_profile_has_no_violation(void **state)
{
    (void)state;
    struct weir_profile *(*const makers[])(void) = { sample_before, sample_after, sample_empty };
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct weir_profile *profile = makers[i]();
        weir_profile_verify(profile);
        if (profile->violation_count)
            fail_msg("%s", profile->violations[0]);
        assert_false(weir_profile_lossy(profile));
        weir_profile_free(profile);
    }
}

/* Gives the sample's stage 4 slots, which it used within the law. */
static void add_slots(struct weir_profile *p)
{
    p->slots_count = 1;
    p->slots = sample_zalloc(p, sizeof *p->slots);
    p->topology.stages[4].connections = 2;
    p->topology.stages[4].in_flight = 8;
    p->slots[0] = (struct weir_profile_slots){ .stage = 4, .begin = { .taken = 10, .finished = 8, .in_use = 2 },
                                               .end = { .taken = 30, .finished = 15, .failed = 3, .lost = 2, .in_use = 10 } };
}
static void spoil_slots_law(struct weir_profile *p) { add_slots(p); p->slots[0].end.lost++; }
static void spoil_slots_capacity(struct weir_profile *p) { add_slots(p); weir_histogram_add(&p->slots[0].in_use, 17, 1); }
static void spoil_slots_time(struct weir_profile *p) { add_slots(p); p->slots[0].begin.full_ns = 1; }

static void slots_within_the_law(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    add_slots(profile);
    weir_profile_verify(profile);
    assert_int_equal(profile->violation_count, 0);
    weir_profile_free(profile);
}

static void violated(void (*spoil)(struct weir_profile *), const char *word)
{
    struct weir_profile *profile = sample_after();
    spoil(profile);
    weir_profile_verify(profile);
    weir_profile_verify(profile);
    assert_int_equal(profile->violation_count, 1);
    if (!strstr(profile->violations[0], word))
        fail_msg("'%s' doesn't say '%s'", profile->violations[0], word);
    assert_true(weir_profile_lossy(profile));
    weir_profile_free(profile);
}

static void break_sum(struct weir_profile *p) { p->rows[0].share += 0.05; }
static void break_part(struct weir_profile *p) { p->rows[3].cpu_ns *= 1000; }
static void break_states(struct weir_profile *p) { p->pools[1].state_ns[WEIR_STATE_IDLE] *= 1.5; }
static void break_begin(struct weir_profile *p) { p->queues[1].begin.in++; }
static void break_end(struct weir_profile *p) { p->queues[1].end.dropped++; }
static void break_way(struct weir_profile *p) { p->ways[0].end.in_flight = 0; }
static void break_exact(struct weir_profile *p) { p->rows[1].stamped = 1; }

static void each_broken_law_is_named(void **state)
{
    (void)state;
    violated(spoil_slots_law, "is not finished");
    violated(spoil_slots_capacity, "and it has 16");
    violated(spoil_slots_time, "went backwards");
    violated(break_sum, "sum to");
    violated(break_part, "riemann.handoff cost");
    violated(break_states, "pool workers");
    violated(break_begin, "queue riemann.reply at the window's begin");
    violated(break_end, "queue riemann.reply at the window's end");
    violated(break_way, "way in riemann at the window's end");
    violated(break_exact, "exact mode");
}

static void saving_is_all_or_nothing(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    char folder[] = "/tmp/weir-profile-XXXXXX", path[64], text[8] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.wprof", folder);
    struct weir_profile *made = sample_before(), *read = weir_profile_new();
    assert_int_equal(weir_profile_save(made, path, &error), 0);
    assert_int_equal(weir_profile_load(read, path, &error), 0);
    assert_int_equal(read->row_count, made->row_count);
    assert_int_equal(weir_profile_save(made, "/dev/full", &error), -ENOSPC);
    assert_non_null(strstr(error.text, "disk is full"));
    assert_int_equal(weir_profile_save(made, "/nowhere/x.wprof", &error), -ENOENT);
    assert_true(weir_profile_load(read, folder, &error) < 0);
    FILE *file = fopen(path, "w");
    fputs("digraph", file);
    fclose(file);
    assert_true(weir_profile_load(read, path, &error) < 0);
    assert_non_null(strstr(error.text, "not a profile"));
    assert_string_equal(text, "");
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* no temporary is left */
    weir_profile_free(made);
    weir_profile_free(read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_reads_back_the_same), cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(any_changed_byte_is_survived), cmocka_unit_test(what_points_outside_is_refused),
        cmocka_unit_test(a_good_profile_has_no_violation),
        cmocka_unit_test(slots_within_the_law), cmocka_unit_test(each_broken_law_is_named),
        cmocka_unit_test(saving_is_all_or_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
