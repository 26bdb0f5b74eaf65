/* What holds for every view of every profile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/sample.h"
#include "viz/dot.h"
#include "viz/json.h"
#include "viz/render.h"
#include "viz/table.h"
#include "viz/view.h"

static struct weir_profile *tall(void) { return sample_long(20, 3); }
static struct weir_profile *column(void) { return sample_long(12, 1); }


/* The index of sample_after() has become a store with 10 slots, full for half of the window. */
static struct weir_profile *slotted(void)
{
    struct weir_profile *profile = sample_after();
    struct weir_topology_stage *stage = &profile->topology.stages[4];
    stage->verb = WEIR_STORE;
    stage->symbol = "events";
    stage->connections = 2;
    stage->in_flight = 5;
    profile->slots = sample_zalloc(profile, sizeof *profile->slots);
    profile->slots_count = 1;
    profile->slots[0] = (struct weir_profile_slots){
        .stage = 4, .in_use_mean = 7.5, .open_mean = 1.5, .begin = { .taken = 10, .finished = 8, .in_use = 2, .full_ns = 5 },
        .end = { .taken = 3000, .finished = 2980, .failed = 3, .lost = 7, .in_use = 10, .open = 2, .reconnects = 1, .waits = 77,
                 .waited_ns = 770000000, .full_ns = 5 + profile->duration_ns / 2 },
    };
    weir_histogram_add(&profile->slots[0].in_use, 5, 500);
    weir_histogram_add(&profile->slots[0].in_use, 10, 500);
    weir_histogram_add(&profile->slots[0].wait, 10000000, 77);
    return profile;
}

static struct weir_profile *(*const makers[])(void) = {
    sample_before, sample_after, sample_empty, sample_lossy, sample_shared, sample_hostile, sample_tail, tall, column, slotted,
};
#define MAKERS (sizeof makers / sizeof *makers)

static json_t *report(const struct weir_profile *profile)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    json_error_t why;
    assert_int_equal(weir_json_profile(profile, NULL, &out, NULL), 0);
    json_t *root = json_loads(out.data, 0, &why);
    if (!root)
        fail_msg("%s", why.text);
    weir_buffer_release(&out);
    return root;
}

/* Every share lies in 0..1, and those of rows that are part of no other sum to 1. */
static void shares_are_shares(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAKERS; i++) {
        struct weir_profile *profile = makers[i]();
        json_t *root = report(profile), *stage;
        double sum = 0;
        size_t k;
        json_array_foreach(json_object_get(root, "stages"), k, stage) {
            double share = json_number_value(json_object_get(stage, "cpu_share"));
            assert_true(share >= 0 && share <= 1);
            sum += json_is_null(json_object_get(stage, "part_of")) ? share : 0;
        }
        if (!weir_view_empty(profile))
            assert_true(fabs(sum - 1) < 0.001);
        json_decref(root);
        weir_profile_free(profile);
    }
}

/* No data is null: an empty window has no share, no rate, no quantile, and no zero that looks like one. */
static void no_data_is_null(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    profile->cpu_ns = 0;
    profile->queues[0].wait = (struct weir_histogram){ 0 };
    profile->queues[0].depth_items = (struct weir_histogram){ 0 };
    profile->rows[0].items = 0;
    json_t *root = report(profile);
    json_t *stage = json_array_get(json_object_get(root, "stages"), 0), *queue = json_array_get(json_object_get(root, "queues"), 0);
    assert_true(json_is_null(json_object_get(stage, "cpu_share")));
    assert_true(json_is_null(json_object_get(stage, "cpu_share_ci95")));
    assert_true(json_is_null(json_object_get(stage, "cpu_ns_per_item")));
    assert_true(json_is_null(json_object_get(queue, "wait_ns")));
    assert_true(json_is_null(json_object_get(json_object_get(queue, "depth_items"), "mean")));
    assert_true(json_number_value(json_object_get(stage, "items_per_s")) == 0 && json_is_number(json_object_get(stage, "items_per_s")));
    json_decref(root);
    profile->duration_ns = 0;
    root = report(profile);
    stage = json_array_get(json_object_get(root, "stages"), 0);
    assert_true(json_is_null(json_object_get(stage, "items_per_s")));
    json_decref(root);
    weir_profile_free(profile);
}

/* in = out + dropped + rejected + queued, and accepted = answered + abandoned + discarded + in_flight, in the report too. */
static void both_laws_hold_in_the_report(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    json_t *root = report(profile), *one;
    size_t i;
    json_array_foreach(json_object_get(root, "queues"), i, one) {
        json_int_t in, out, dropped, rejected, queued;
        assert_int_equal(json_unpack(one, "{s:I,s:I,s:I,s:I,s:I}", "in", &in, "out", &out, "dropped", &dropped, "rejected", &rejected,
                                     "queued", &queued), 0);
        assert_int_equal(in, out + dropped + rejected + queued);
    }
    json_array_foreach(json_object_get(root, "ways_in"), i, one) {
        json_int_t accepted, answered, abandoned, discarded, in_flight;
        assert_int_equal(json_unpack(one, "{s:I,s:I,s:I,s:I,s:I}", "accepted", &accepted, "answered", &answered, "abandoned",
                                     &abandoned, "discarded", &discarded, "in_flight", &in_flight), 0);
        assert_int_equal(accepted, answered + abandoned + discarded + in_flight);
    }
    json_decref(root);
    weir_profile_free(profile);
}

/* The keys that others rely on. */
static void the_report_has_its_keys(void **state)
{
    (void)state;
    static const char *const top[] = { "version", "target", "window", "samples", "ways_in", "stages", "edges", "queues", "pools",
                                       "slots", "verdict", "overhead", "violations" };
    static const char *const stage_keys[] = { "name", "part_of", "way_in", "pool", "cpu_share", "cpu_share_under", "cpu_share_ci95",
                                              "cpu_ns_per_item", "cpu_ns_per_event", "items_per_s", "service_ns", "hot" };
    static const char *const queue_keys[] = { "name", "depth_items", "depth_bytes", "limit_items", "limit_bytes", "wait_ns",
                                              "wakeup_ns", "in", "out", "dropped", "rejected", "queued", "parked" };
    struct weir_profile *profile = sample_before();
    json_t *root = report(profile);
    for (size_t i = 0; i < sizeof top / sizeof *top; i++)
        assert_non_null(json_object_get(root, top[i]));
    json_t *stage = json_array_get(json_object_get(root, "stages"), 0), *queue = json_array_get(json_object_get(root, "queues"), 0);
    for (size_t i = 0; i < sizeof stage_keys / sizeof *stage_keys; i++)
        assert_non_null(json_object_get(stage, stage_keys[i]));
    for (size_t i = 0; i < sizeof queue_keys / sizeof *queue_keys; i++)
        assert_non_null(json_object_get(queue, queue_keys[i]));
    json_decref(root);
    weir_profile_free(profile);
}

static void every_view_shows_slots(void **state)
{
    (void)state;
    struct weir_profile *profile = slotted();
    struct weir_buffer table = WEIR_BUFFER_INIT, dot = WEIR_BUFFER_INIT;
    const char *stage;
    json_int_t connections, limit, max, finished, waits;
    double mean, full;
    json_t *root = report(profile), *slots = json_array_get(json_object_get(root, "slots"), 0), *service;
    assert_int_equal(json_unpack(slots, "{s:s,s:I,s:I,s:{s:F,s:F},s:F,s:I,s:{s:I}}", "stage", &stage, "connections", &connections,
                                 "in_flight_limit", &limit, "in_flight", "mean", &mean, "max", &full, "full_share", &full, "finished",
                                 &finished, "window", "waits", &waits), 0);
    max = (json_int_t)json_number_value(json_object_get(json_object_get(slots, "in_flight"), "max"));
    assert_string_equal(stage, profile->topology.stages[4].full_name);
    assert_true(connections == 2 && limit == 5 && mean == 7.5 && max == 10 && full == 0.5 && finished == 2980 && waits == 77);
    service = json_object_get(slots, "service_ns"); /* nothing was stamped: null, not 0 */
    assert_true(json_is_null(service) || json_is_null(json_object_get(service, "p50")));
    assert_int_equal(weir_table_profile(profile, NULL, &table, NULL), 0);
    assert_non_null(strstr(table.data, "1.5 of 2"));
    assert_non_null(strstr(table.data, "50.0 %"));
    assert_int_equal(weir_dot_profile(profile, NULL, &dot, NULL), 0);
    assert_non_null(strstr(dot.data, "2 connections"));
    assert_non_null(strstr(dot.data, "10 of 10"));
    weir_buffer_release(&table);
    weir_buffer_release(&dot);
    json_decref(root);
    weir_profile_free(profile);
}

static void no_view_passes_on_a_control_byte(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_hostile();
    struct weir_buffer out = WEIR_BUFFER_INIT;
    assert_int_equal(weir_table_profile(profile, NULL, &out, NULL), 0);
    assert_int_equal(weir_dot_profile(profile, NULL, &out, NULL), 0);
    for (size_t i = 0; i < out.length; i++)
        if ((unsigned char)out.data[i] < 0x20 && out.data[i] != '\n')
            fail_msg("byte %zu is %#x", i, (unsigned char)out.data[i]);
    weir_buffer_release(&out);
    weir_profile_free(profile);
}

static void an_empty_window_says_no_samples(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_empty();
    struct weir_buffer table = WEIR_BUFFER_INIT, dot = WEIR_BUFFER_INIT;
    assert_int_equal(weir_table_profile(profile, NULL, &table, NULL), 0);
    assert_int_equal(weir_dot_profile(profile, NULL, &dot, NULL), 0);
    assert_non_null(strstr(table.data, "no samples"));
    assert_non_null(strstr(dot.data, "No samples"));
    assert_null(strstr(table.data, "nan"));
    assert_null(strstr(dot.data, "nan"));
    weir_buffer_release(&table);
    weir_buffer_release(&dot);
    weir_profile_free(profile);
}

static void a_lossy_profile_says_so_everywhere(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_lossy();
    struct weir_buffer table = WEIR_BUFFER_INIT, dot = WEIR_BUFFER_INIT;
    json_t *root = report(profile);
    assert_int_equal(weir_table_profile(profile, NULL, &table, NULL), 0);
    assert_int_equal(weir_dot_profile(profile, NULL, &dot, NULL), 0);
    assert_non_null(strstr(table.data, "LOSSY: 310 samples lost, 1,200 item records lost, 1 thread not seen, 1 law violated"));
    assert_non_null(strstr(dot.data, "Lossy profile: 310 samples lost"));
    assert_true(json_is_true(json_object_get(root, "lossy")));
    assert_int_equal(json_array_size(json_object_get(root, "violations")), 1);
    json_decref(root);
    weir_buffer_release(&table);
    weir_buffer_release(&dot);
    weir_profile_free(profile);
}

/* Graphviz takes every graph, whatever the names hold; nothing it says comes out on stderr. */
static void graphviz_takes_every_graph(void **state)
{
    (void)state;
    for (size_t i = 0; i < MAKERS; i++) {
        struct weir_profile *profile = makers[i]();
        struct weir_buffer dot = WEIR_BUFFER_INIT, svg = WEIR_BUFFER_INIT, png = WEIR_BUFFER_INIT;
        struct weir_error error = WEIR_ERROR_INIT;
        assert_int_equal(weir_dot_profile(profile, NULL, &dot, &error), 0);
        if (weir_render_dot(dot.data, "svg", &svg, &error) != 0)
            fail_msg("profile %zu: %s", i, error.text);
        assert_non_null(strstr(svg.data, "</svg>"));
        weir_buffer_clear(&dot);
        weir_buffer_clear(&svg);
        assert_int_equal(weir_dot_topology(&profile->topology, &dot, &error), 0);
        assert_int_equal(weir_render_dot(dot.data, "svg", &svg, &error), 0);
        if (i == 0) {
            assert_int_equal(weir_render_dot(dot.data, "png", &png, &error), 0);
            assert_memory_equal(png.data, "\x89PNG", 4);
        }
        weir_buffer_release(&dot);
        weir_buffer_release(&svg);
        weir_buffer_release(&png);
        weir_profile_free(profile);
    }
}

/* Whatever size the figures have: "<0.1 %" is markup to Graphviz, and it aborts on text that is wider than its cell. */
static void graphviz_takes_every_figure(void **state)
{
    (void)state;
    static const double scales[] = { 1e-9, 1e-6, 4e-4, 1e-3, 0.004, 0.04, 1, 37, 999.4, 1e6, 1e12 };
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        struct weir_profile *profile = sample_before();
        struct weir_buffer dot = WEIR_BUFFER_INIT, svg = WEIR_BUFFER_INIT;
        struct weir_error error = WEIR_ERROR_INIT;
        double scale = scales[i];
        for (uint32_t k = 0; k < profile->row_count; k++) {
            profile->rows[k].share = fmin(profile->rows[k].share * scale, 1);
            profile->rows[k].cpu_ns *= scale;
            for (uint32_t h = 0; h < profile->rows[k].hot_count; h++)
                profile->rows[k].hot[h].share = fmin(profile->rows[k].hot[h].share * scale, 1);
        }
        for (uint32_t k = 0; k < profile->edge_count; k++) {
            profile->edges[k].items = (uint64_t)((double)profile->edges[k].items * scale);
            profile->edges[k].bytes = (uint64_t)((double)profile->edges[k].bytes * scale);
        }
        for (uint32_t k = 0; k < profile->topology.queue_count; k++) {
            profile->queues[k].depth_items_mean *= scale;
            profile->queues[k].depth_bytes_mean *= scale;
        }
        assert_int_equal(weir_dot_profile(profile, NULL, &dot, &error), 0);
        if (weir_render_dot(dot.data, "svg", &svg, &error) != 0)
            fail_msg("figures x %g: %s", scale, error.text);
        weir_buffer_release(&dot);
        weir_buffer_release(&svg);
        weir_profile_free(profile);
    }
}

/* No sample in a stage that ran is no cost of 0. */
static void what_no_sample_hit_costs_at_most_its_interval(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    struct weir_profile_row *row = &profile->rows[profile->row_count - 1];
    while (row->stage == WEIR_NONE || row->part != WEIR_PART_NONE || !row->items)
        row--;
    row->cpu_ns = 0;
    row->share_high = 0.001;
    double most = 0.001 * (double)profile->cpu_ns / (double)row->items;
    struct weir_figure said = weir_view_item_cost(profile, row), bound = weir_figure_ns(most);
    assert_memory_equal(said.text, "≤ ", strlen("≤ "));
    assert_string_equal(said.text + strlen("≤ "), bound.text);
    row->cpu_ns = 1e6;
    said = weir_view_item_cost(profile, row);
    assert_null(strstr(said.text, "≤"));
    weir_profile_free(profile);
}

static void what_is_no_graph_is_one_sentence(void **state)
{
    (void)state;
    struct weir_buffer svg = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_true(weir_render_dot("digraph {", "svg", &svg, &error) < 0);
    assert_non_null(strstr(error.text, "syntax error"));
    static const char huge[] = "digraph { a [shape=box width=2 height=400] }";
    assert_true(weir_render_dot(huge, "png", &svg, &error) < 0);
    assert_non_null(strstr(error.text, "too large for a PNG"));
    assert_int_equal(weir_render_dot(huge, "svg", &svg, &error), 0);
    weir_buffer_release(&svg);
}

static char *file_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    static char text[1 << 18];
    if (!file)
        return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Compares with tests/golden/NAME; WEIR_GOLDEN=write makes it anew. */
static void golden(const char *name, const struct weir_buffer *out)
{
    char path[128];
    const char *mode = getenv("WEIR_GOLDEN");
    snprintf(path, sizeof path, "tests/golden/%s", name);
    if (mode && strcmp(mode, "write") == 0) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        fwrite(out->data, 1, out->length, file);
        fclose(file);
    }
    const char *want = file_text(path);
    if (!want || strcmp(want, out->data) != 0)
        fail_msg("%s differs; look at it, then run with WEIR_GOLDEN=write", path);
}

static void the_views_look_as_they_did(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct weir_profile *(*make)(void);
    } views[] = { { "before", sample_before }, { "after", sample_after }, { "empty", sample_empty }, { "shared", sample_shared } };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct weir_profile *profile = views[i].make();
        struct weir_buffer out = WEIR_BUFFER_INIT;
        char name[64];
        snprintf(name, sizeof name, "%s.dot", views[i].name);
        assert_int_equal(weir_dot_profile(profile, NULL, &out, NULL), 0);
        golden(name, &out);
        weir_buffer_clear(&out);
        snprintf(name, sizeof name, "%s.txt", views[i].name);
        assert_int_equal(weir_table_profile(profile, NULL, &out, NULL), 0);
        golden(name, &out);
        if (i == 0) {
            weir_buffer_clear(&out);
            assert_int_equal(weir_json_profile(profile, NULL, &out, NULL), 0);
            golden("before.json", &out);
            weir_buffer_clear(&out);
            assert_int_equal(weir_dot_topology(&profile->topology, &out, NULL), 0);
            golden("before-structure.dot", &out);
        }
        weir_buffer_release(&out);
        weir_profile_free(profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_shares), cmocka_unit_test(no_data_is_null), cmocka_unit_test(both_laws_hold_in_the_report),
        cmocka_unit_test(the_report_has_its_keys), cmocka_unit_test(no_view_passes_on_a_control_byte),
        cmocka_unit_test(every_view_shows_slots),
        cmocka_unit_test(an_empty_window_says_no_samples), cmocka_unit_test(a_lossy_profile_says_so_everywhere),
        cmocka_unit_test(graphviz_takes_every_graph), cmocka_unit_test(graphviz_takes_every_figure),
        cmocka_unit_test(what_no_sample_hit_costs_at_most_its_interval),
        cmocka_unit_test(what_is_no_graph_is_one_sentence),
        cmocka_unit_test(the_views_look_as_they_did),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
