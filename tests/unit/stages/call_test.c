/* What a user's stage sees of a message. What becomes of its return value is for the system tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/call.h"
#include "pipeline_dsl/runtime/item.h"

static struct weir_bytes text(const char *string)
{
    return string ? (struct weir_bytes){ (const uint8_t *)string, strlen(string) } : (struct weir_bytes){ NULL, 0 };
}

static void expect_bytes(struct weir_call_bytes bytes, const char *wanted)
{
    if (!wanted) {
        assert_null(bytes.data);
        return;
    }
    assert_int_equal(bytes.size, strlen(wanted));
    assert_memory_equal(bytes.data, wanted, bytes.size);
}

static struct weir_bytes tags[] = { { (const uint8_t *)"a", 1 }, { (const uint8_t *)"b", 1 } };
static struct weir_attribute attributes[3];
static struct weir_event events[3];
static struct weir_item item;

static int set_up(void **state)
{
    (void)state;
    attributes[0] = (struct weir_attribute){ text("twice"), text("first") };
    attributes[1] = (struct weir_attribute){ text("none"), text(NULL) };
    attributes[2] = (struct weir_attribute){ text("twice"), text("last") };
    events[0] = (struct weir_event){ .host = text("h"), .service = text(""), .description = text("d"), .tags = tags, .tag_count = 2,
                                     .attributes = attributes, .attribute_count = 3, .time_us = -5, .has_time = true, .ttl = 2.5f,
                                     .has_ttl = true, .metric_kind = WEIR_METRIC_INT, .metric_int = -7 };
    events[1] = (struct weir_event){ .metric_kind = WEIR_METRIC_FLOAT, .metric_double = 0.5 };
    events[2] = (struct weir_event){ .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = 0.25 };
    item = (struct weir_item){ .decoded = true, .message = { .events = events, .event_count = 3 }, .payload = (const uint8_t *)"xyz",
                               .payload_bytes = 3 };
    return 0;
}

static void every_field_is_seen(void **state)
{
    (void)state;
    int64_t time_us;
    float ttl;
    assert_int_equal(weir_item_event_count(&item), 3);
    expect_bytes(weir_item_host(&item, 0), "h");
    expect_bytes(weir_item_service(&item, 0), "");
    expect_bytes(weir_item_state(&item, 0), NULL);
    expect_bytes(weir_item_description(&item, 0), "d");
    assert_int_equal(weir_item_tag_count(&item, 0), 2);
    expect_bytes(weir_item_tag(&item, 0, 1), "b");
    expect_bytes(weir_item_tag(&item, 0, 2), NULL);
    assert_true(weir_item_time_us(&item, 0, &time_us) && time_us == -5);
    assert_true(weir_item_ttl(&item, 0, &ttl) && ttl == 2.5f);
    assert_false(weir_item_time_us(&item, 1, &time_us));
    assert_false(weir_item_ttl(&item, 1, &ttl));
    expect_bytes(weir_item_payload(&item), "xyz");
}

static void of_two_attributes_with_one_key_the_last_counts(void **state)
{
    (void)state;
    expect_bytes(weir_item_attribute(&item, 0, "twice"), "last");
    expect_bytes(weir_item_attribute(&item, 0, "none"), NULL);
    expect_bytes(weir_item_attribute(&item, 0, "twic"), NULL);
    expect_bytes(weir_item_attribute(&item, 1, "twice"), NULL);
}

static void metrics_have_their_kinds(void **state)
{
    (void)state;
    int64_t integer = 0;
    double real = 0;
    assert_int_equal(weir_item_metric(&item, 0, &integer, &real), WEIR_CALL_METRIC_INT);
    assert_true(integer == -7 && real == -7);
    assert_int_equal(weir_item_metric(&item, 1, &integer, &real), WEIR_CALL_METRIC_DOUBLE);
    assert_true(real == 0.5);
    assert_int_equal(weir_item_metric(&item, 2, &integer, &real), WEIR_CALL_METRIC_DOUBLE);
    assert_true(real == 0.25);
    events[2].metric_kind = WEIR_METRIC_NIL;
    assert_int_equal(weir_item_metric(&item, 2, &integer, &real), WEIR_CALL_METRIC_NONE);
}

static void nothing_is_there_beyond_the_end_or_before_decode(void **state)
{
    (void)state;
    int64_t time_us;
    float ttl;
    for (int decoded = 1; decoded >= 0; decoded--) {
        item.decoded = decoded;
        size_t event = decoded ? 3 : 0;
        expect_bytes(weir_item_host(&item, event), NULL);
        assert_int_equal(weir_item_tag_count(&item, event), 0);
        expect_bytes(weir_item_tag(&item, event, 0), NULL);
        expect_bytes(weir_item_attribute(&item, event, "twice"), NULL);
        assert_false(weir_item_time_us(&item, event, &time_us));
        assert_false(weir_item_ttl(&item, event, &ttl));
    }
    assert_int_equal(weir_item_event_count(&item), 0);
    expect_bytes(weir_item_payload(&item), "xyz");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_field_is_seen, set_up),
        cmocka_unit_test_setup(of_two_attributes_with_one_key_the_last_counts, set_up),
        cmocka_unit_test_setup(metrics_have_their_kinds, set_up),
        cmocka_unit_test_setup(nothing_is_there_beyond_the_end_or_before_decode, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
