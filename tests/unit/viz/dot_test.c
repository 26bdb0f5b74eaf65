/* The graph's own statements: every flow has its edge, and all CPU time its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>

#include "tests/unit/sample.h"
#include "viz/dot.h"
#include "viz/json.h"
#include "viz/render.h"

static uint32_t stage_of(const struct weir_profile *profile, enum weir_verb_kind verb)
{
    for (uint32_t i = 0; i < profile->topology.stage_count; i++)
        if (profile->topology.stages[i].verb == verb)
            return i;
    fail_msg("no such stage");
    return 0;
}

static void draw(const struct weir_profile *profile, struct weir_buffer *dot)
{
    struct weir_buffer svg = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_buffer_clear(dot);
    assert_int_equal(weir_dot_profile(profile, NULL, dot, &error), 0);
    if (weir_render_dot(dot->data, "svg", &svg, &error) != 0)
        fail_msg("%s", error.text);
    weir_buffer_release(&svg);
}

/* Refused items go from the handoff straight to the reply ring: a dashed edge, and bytes that nobody knows are none. */
static void refused_items_have_an_edge(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    struct weir_buffer dot = WEIR_BUFFER_INIT, text = WEIR_BUFFER_INIT;
    draw(profile, &dot);
    assert_null(strstr(dot.data, "refused"));
    uint32_t handoff = stage_of(profile, WEIR_HANDOFF), reply = stage_of(profile, WEIR_REPLY);
    profile->edges[profile->edge_count++] = (struct weir_profile_edge){ .from = handoff, .to = reply, .items = 1640000 };
    profile->queues[profile->topology.stages[handoff].queue].end.rejected += 1640000;
    draw(profile, &dot);
    const char *edge = strstr(dot.data, "style=dashed");
    assert_non_null(edge);
    assert_non_null(strstr(edge, "refused · 164 k/s"));
    assert_non_null(strstr(dot.data, "rejected"));
    assert_int_equal(weir_json_profile(profile, NULL, &text, NULL), 0);
    json_t *root = json_loads(text.data, 0, NULL), *edges = json_object_get(root, "edges");
    json_t *last = json_array_get(edges, json_array_size(edges) - 1);
    assert_true(json_is_null(json_object_get(last, "bytes")) && json_is_null(json_object_get(last, "bytes_per_s")));
    assert_int_equal(json_integer_value(json_object_get(last, "items")), 1640000);
    json_decref(root);
    weir_buffer_release(&dot);
    weir_buffer_release(&text);
    weir_profile_free(profile);
}

/* What is in no stage has a place in the picture, and the headline when it dominates. */
/* Within a pool an edge goes straight down to the next stage; past others it leads along the side where no queues are. */
static void edges_past_other_stages(void **state)
{
    (void)state;
    struct sample sample = sample_begin("tails");
    struct weir_buffer dot = WEIR_BUFFER_INIT;
    uint32_t io = sample_pool(&sample, "io", 1, true), thens[2];
    for (int i = 0; i < 2; i++) {
        sample_pipeline(&sample, i ? "b" : "a");
        sample_stage(&sample, WEIR_LISTEN, "listen", io, WEIR_NONE);
        thens[i] = sample_stage(&sample, WEIR_THEN, "then", io, WEIR_NONE);
    }
    uint32_t tail = sample_pipeline(&sample, "tail");
    sample_stage(&sample, WEIR_DROP, "drop", io, WEIR_NONE);
    for (int i = 0; i < 2; i++)
        sample.profile->topology.stages[thens[i]].target = tail;
    assert_int_equal(weir_dot_topology(&sample.profile->topology, &dot, NULL), 0);
    assert_non_null(strstr(dot.data, "stage4 -> stage1 [dir=back tailport=e headport=e]"));
    assert_non_null(strstr(dot.data, "stage4 -> stage3 [dir=back]"));
    weir_buffer_release(&dot);
    weir_profile_free(sample.profile);
}

static void all_cpu_time_is_accounted_for(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    struct weir_buffer dot = WEIR_BUFFER_INIT;
    for (uint32_t i = 0; i < profile->row_count; i++)
        profile->rows[i].share = 0;
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (profile->rows[i].stage == WEIR_NONE)
            profile->rows[i].share = strcmp(profile->rows[i].name, "(outside)") == 0 ? 0.97
                                     : strcmp(profile->rows[i].name, "(runtime)") == 0 ? 0.02 : 0.009;
    draw(profile, &dot);
    assert_non_null(strstr(dot.data, "97 % of CPU is outside the pools"));
    assert_non_null(strstr(dot.data, "(outside)&#160;<B>97.0 %"));
    assert_non_null(strstr(dot.data, "(runtime)&#160;<B>2.0 %"));
    assert_null(strstr(dot.data, "(tracing)"));
    weir_buffer_release(&dot);
    weir_profile_free(profile);
}

static double legend_width(const struct weir_profile *profile)
{
    struct weir_buffer dot = WEIR_BUFFER_INIT, svg = WEIR_BUFFER_INIT;
    double x[4] = { 0 };
    assert_int_equal(weir_dot_profile(profile, NULL, &dot, NULL), 0);
    assert_int_equal(weir_render_dot(dot.data, "svg", &svg, NULL), 0);
    /* Its last cell, and that one's width. */
    const char *last = strstr(svg.data, "<polygon fill=\"#743107\"");
    assert_non_null(last);
    last = strstr(last, "points=\"");
    assert_int_equal(sscanf(last, "points=\"%lf,%*f %lf,%*f %lf,%*f", &x[0], &x[1], &x[2]), 3);
    weir_buffer_release(&dot);
    weir_buffer_release(&svg);
    return fmax(fabs(x[1] - x[0]), fabs(x[2] - x[1]));
}

/* However long the target's name is, the legend keeps its size; limits are numbers that somebody wrote, and stay exact. */
static void long_names_and_limits(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    struct weir_buffer dot = WEIR_BUFFER_INIT;
    double before = legend_width(profile);
    profile->topology.name = "a-server-with-a-remarkably-long-name-that-somebody-gave-it-in-a-hurry-on-a-friday-afternoon";
    profile->exe = "/usr/bin/a-server-with-a-remarkably-long-name-that-somebody-gave-it-in-a-hurry-on-a-friday-afternoon";
    assert_true(legend_width(profile) < 1.5 * before);
    draw(profile, &dot);
    assert_non_null(strstr(dot.data, "of 262,144"));
    assert_non_null(strstr(dot.data, "of 2,048")); /* 1,024 for each of two connections */
    weir_buffer_release(&dot);
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_items_have_an_edge), cmocka_unit_test(all_cpu_time_is_accounted_for),
        cmocka_unit_test(long_names_and_limits), cmocka_unit_test(edges_past_other_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
