/* filter: events go, the message stays. That it is answered is for a case with a real server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/stages/stages.h"

static struct weir_event events[5];

static void expect_kept(const char *text, const char *metrics)
{
    struct weir_query *query = weir_filter_query(text);
    char kept[8] = "";
    for (int i = 0; i < 5; i++)
        events[i] = (struct weir_event){ .metric_kind = WEIR_METRIC_INT, .metric_int = i };
    struct weir_item item = { .decoded = true, .events = 5, .message = { .events = events, .event_count = 5 } };
    assert_int_equal(weir_stage_filter(NULL, &item, query, "p.filter"), WEIR_NEXT);
    for (size_t i = 0; i < item.message.event_count; i++)
        kept[i] = (char)('0' + item.message.events[i].metric_int);
    assert_string_equal(kept, metrics);
    assert_int_equal(item.events, 5); /* what came in on its way stays counted */
    weir_query_free(query);
}

static void what_matches_stays_in_its_order(void **state)
{
    (void)state;
    expect_kept("true", "01234");
    expect_kept("metric != 0", "1234");
    expect_kept("metric < 4", "0123");
    expect_kept("metric = 1 or metric = 4", "14");
    expect_kept("not metric = 2", "0134");
}

static void an_emptied_message_goes_on(void **state)
{
    (void)state;
    expect_kept("false", "");
    struct weir_query *query = weir_filter_query("true");
    struct weir_item item = { .decoded = true, .message = { .query = { (const uint8_t *)"true", 4 } } };
    assert_int_equal(weir_stage_filter(NULL, &item, query, "p.filter"), WEIR_NEXT);
    assert_int_equal(item.message.query.size, 4);
    weir_query_free(query);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_matches_stays_in_its_order),
        cmocka_unit_test(an_emptied_message_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
