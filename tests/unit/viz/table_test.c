/* The text report's own statements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sample.h"
#include "viz/table.h"
#include "viz/view.h"

static struct weir_profile_row *row_of(struct weir_profile *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (strcmp(profile->rows[i].name, name) == 0)
            return &profile->rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

static void set_hot(struct weir_profile *profile, const char *row, const char *symbol, double share)
{
    struct weir_profile_row *to = row_of(profile, row);
    to->hot = sample_zalloc(profile, sizeof *to->hot);
    *to->hot = (struct weir_profile_hot){ symbol, 100, share };
    to->hot_count = 1;
}

static unsigned times(const char *text, const char *word)
{
    unsigned count = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

/* A part that names a function too small to show takes nothing from its stage's; one that shows it leaves the stage's out. */
static void parts_hide_only_what_they_show(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    struct weir_buffer out = WEIR_BUFFER_INIT;
    set_hot(profile, "riemann.reply", "sends_all_day", 0.76);
    set_hot(profile, "riemann.reply.pop", "pops_a_little", 0.004);
    assert_int_equal(weir_table_profile(profile, NULL, &out, NULL), 0);
    assert_non_null(strstr(out.data, "sends_all_day"));
    assert_null(strstr(out.data, "pops_a_little"));
    set_hot(profile, "riemann.reply.pop", "sends_all_day", 0.7);
    weir_buffer_clear(&out);
    assert_int_equal(weir_table_profile(profile, NULL, &out, NULL), 0);
    assert_int_equal(times(out.data, "sends_all_day"), 1);
    weir_buffer_release(&out);
    weir_profile_free(profile);
}

/* Where most items never reached the decoder, CPU time is spread over no events. */
static void refused_items_have_no_events(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_after();
    for (uint32_t i = 0; i < profile->row_count; i++) /* as the tracer has them: a part belongs to no way in */
        if (profile->rows[i].stage != WEIR_NONE && profile->rows[i].part == WEIR_PART_NONE)
            profile->rows[i].way = 0;
    assert_true(weir_view_ns_per_event(profile, row_of(profile, "riemann.listen")) > 0);
    assert_true(weir_view_ns_per_event(profile, row_of(profile, "riemann.handoff.push")) > 0);
    assert_true(weir_view_ns_per_event(profile, row_of(profile, "riemann.encode")) > 0);
    static const char *const many[] = { "riemann.listen", "riemann.frame", "riemann.handoff", "riemann.handoff.push", "riemann.reply" };
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        if (row_of(profile, many[i])->part == WEIR_PART_NONE)
            row_of(profile, many[i])->items *= 3000;
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        assert_true(isnan(weir_view_ns_per_event(profile, row_of(profile, many[i]))));
    assert_true(weir_view_ns_per_event(profile, row_of(profile, "riemann.decode")) > 0);
    assert_true(weir_view_ns_per_event(profile, row_of(profile, "riemann.encode")) > 0);
    weir_profile_free(profile);
}

static void what_never_became_an_item_is_said(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_before();
    struct weir_buffer out = WEIR_BUFFER_INIT;
    profile->ways[0].end.kernel_drops = 1234;
    assert_int_equal(weir_table_profile(profile, NULL, &out, NULL), 0);
    assert_non_null(strstr(weir_buffer_text(&out), "\nriemann: the kernel dropped 1,234 datagrams at the full socket\n"));
    weir_buffer_clear(&out);
    profile->ways[0].end = (struct weir_profile_way_count){ .truncated = 2, .refused = 3, .failed_handshakes = 4 };
    assert_int_equal(weir_table_profile(profile, NULL, &out, NULL), 0);
    assert_non_null(strstr(weir_buffer_text(&out),
                           "\nriemann: 2 messages were cut short; 3 came from addresses that `allow` leaves out; 4 TLS handshakes failed\n"));
    weir_buffer_release(&out);
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_hide_only_what_they_show), cmocka_unit_test(refused_items_have_no_events),
        cmocka_unit_test(what_never_became_an_item_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
