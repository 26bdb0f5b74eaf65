/* workload: every frame is a message like a fleet's, of the size that the documentation states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/client/workload.h"
#include "pipeline_dsl/wire/frame.h"
#include "pipeline_dsl/wire/message.h"

static void messages_are_a_fleets(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 7, 100, 1000 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct weir_workload workload;
        assert_int_equal(weir_workload_init(&workload, &weir_workload_usual, sizes[i], 1700000000000000, NULL), 0);
        bool hosts[100] = { false };
        size_t payload = 0, events = 0;
        for (size_t k = 0; k < workload.count; k++) {
            size_t size;
            const char *data = weir_workload_frame(&workload, k, &size);
            struct weir_frame frame = weir_frame_cut(data, size, (size_t)16 << 20);
            assert_int_equal(frame.kind, WEIR_FRAME_WHOLE);
            assert_int_equal(frame.total, size);
            struct weir_arena arena;
            struct weir_message message;
            weir_arena_init(&arena, 0, SIZE_MAX);
            assert_int_equal(weir_message_decode(&message, &arena, data + frame.offset, frame.length, NULL), 0);
            assert_int_equal(message.event_count, sizes[i]);
            for (size_t e = 0; e < message.event_count; e++) {
                const struct weir_event *event = &message.events[e];
                assert_true(event->host.size && event->service.size && event->state.size && event->description.size);
                assert_true(event->has_time && event->has_ttl);
                assert_int_equal(event->metric_kind, WEIR_METRIC_FLOAT);
                assert_int_equal(event->tag_count, 2);
                assert_int_equal(event->attribute_count, 1);
                hosts[strtoul((const char *)event->host.data + strlen("web-"), NULL, 10)] = true;
            }
            payload += frame.length;
            events += message.event_count;
            weir_arena_release(&arena);
        }
        for (size_t h = 0; h < 100; h++)
            assert_true(hosts[h]);
        assert_in_range(payload / events, 112, 118);
        weir_workload_release(&workload);
    }
}

static void the_largest_message_fits_a_frame(void **state)
{
    (void)state;
    struct weir_workload workload;
    assert_int_equal(weir_workload_init(&workload, &weir_workload_usual, WEIR_WORKLOAD_EVENTS_MOST, 0, NULL), 0);
    assert_int_equal(workload.count, 2);
    assert_true(workload.starts[1] < (size_t)16 << 20);
    weir_workload_release(&workload);
}

static void a_shape_is_kept_to(void **state)
{
    (void)state;
    struct weir_workload workload;
    struct weir_workload_shape shape = { .hosts = 3, .services = 2, .tags = 5, .attributes = 0, .description_bytes = 700,
                                         .metric = WEIR_METRIC_INT };
    assert_int_equal(weir_workload_init(&workload, &shape, 4, 0, NULL), 0);
    struct weir_arena arena;
    struct weir_message message;
    weir_arena_init(&arena, 0, SIZE_MAX);
    for (size_t i = 0; i < workload.each_count; i++) {
        size_t size = workload.each_starts[i + 1] - workload.each_starts[i];
        assert_int_equal(weir_message_decode(&message, &arena, workload.each.data + workload.each_starts[i], size, NULL), 0);
        assert_int_equal(message.event_count, 1);
        assert_int_equal(message.events[0].tag_count, 5);
        assert_int_equal(message.events[0].attribute_count, 0);
        assert_int_equal(message.events[0].description.size, 700);
        assert_int_equal(message.events[0].metric_kind, WEIR_METRIC_INT);
        assert_in_range(message.events[0].host.data[6], '0', '2');
    }
    weir_arena_release(&arena);
    assert_int_equal(weir_workload_query(&workload, "true", NULL), 0);
    assert_true(workload.query.length > 8);
    weir_workload_release(&workload);
}

static void a_replay_keeps_events_and_order(void **state)
{
    (void)state;
    static const char names[] = "abcdefg";
    struct weir_event list[7] = { 0 };
    for (size_t i = 0; i < 7; i++)
        list[i].host = (struct weir_bytes){ (const uint8_t *)names + i, 1 };
    struct weir_workload workload;
    assert_int_equal(weir_workload_replay(&workload, list, 7, 3, NULL), 0);
    assert_int_equal(workload.count, 3);
    assert_int_equal(weir_workload_events(&workload, 0), 3);
    assert_int_equal(weir_workload_events(&workload, 2), 1);
    struct weir_arena arena;
    struct weir_message message;
    size_t size;
    weir_arena_init(&arena, 0, SIZE_MAX);
    const char *frame = weir_workload_frame(&workload, 1, &size);
    assert_int_equal(weir_message_decode(&message, &arena, frame + 4, size - 4, NULL), 0);
    assert_int_equal(message.event_count, 3);
    assert_int_equal(message.events[0].host.data[0], 'd');
    weir_arena_release(&arena);
    weir_workload_release(&workload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_a_fleets), cmocka_unit_test(the_largest_message_fits_a_frame),
        cmocka_unit_test(a_shape_is_kept_to), cmocka_unit_test(a_replay_keeps_events_and_order),
    };
    return cmocka_run_group_tests_name("workload", tests, NULL, NULL);
}
