#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/item.h"
#include "tests/unit/runtime/plan_sample.h"

static struct weir_plan plan;
static struct weir_thread thread;

static int set_up(void **state)
{
    (void)state;
    plan = sample_plan(WEIR_FULL_BLOCK, 4, 1 << 20);
    weir_thread_start(&thread, &plan, 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_thread_stop(&thread);
    return 0;
}

/* What waits in a queue with its arena must not hold far more than the queue's limit says. */
static void an_arena_is_as_large_as_its_message_needs(void **state)
{
    (void)state;
    static const struct {
        size_t payload_bytes, first_bytes;
    } rows[] = { { 0, 1024 }, { 128, 1024 }, { 129, 2048 }, { 11528, 131072 }, { 16 << 20, 1 << 20 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir_item item = { .payload_bytes = rows[i].payload_bytes };
        weir_item_take_arena(&thread, &item, 1 << 20);
        assert_int_equal(item.arena.first_bytes, rows[i].first_bytes);
        assert_int_equal(item.arena.limit_bytes, 1 << 20);
        assert_non_null(weir_arena_alloc(&item.arena, 1));
        weir_item_shed_arena(&thread, &item);
        assert_null(item.arena.chunk); /* the thread keeps it */
    }
}

static void messages_of_one_size_share_an_arena(void **state)
{
    (void)state;
    void *first = NULL;
    for (int i = 0; i < 3; i++) {
        struct weir_item item = { .payload_bytes = 1000 };
        weir_item_take_arena(&thread, &item, SIZE_MAX);
        void *piece = weir_arena_alloc(&item.arena, 100);
        assert_true(!first || piece == first);
        first = piece;
        assert_non_null(weir_arena_alloc(&item.arena, 100000)); /* what it grew by goes back at once */
        weir_item_shed_arena(&thread, &item);
    }
    assert_int_equal(thread.spare_count, 1);
    assert_int_equal(thread.spare_bytes, 8192);
}

static void a_refusal_is_a_whole_reply_however_long_its_reason(void **state)
{
    (void)state;
    struct weir_item item = { .way = plan.ways };
    char reason[1000];
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    weir_item_refuse(&item, "%s", reason);
    assert_int_equal(item.reply_kind, WEIR_REPLY_BYTES);
    const uint8_t *reply = (const uint8_t *)item.reply.data;
    assert_int_equal((size_t)reply[2] << 8 | reply[3], item.reply.length - 4);
    /* A second one replaces it. */
    weir_item_refuse(&item, "no");
    assert_int_equal(item.reply.length, 10);
    assert_memory_equal(item.reply.data, "\0\0\0\6\x10\0\x1a\2no", 10);
    weir_buffer_release(&item.reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_arena_is_as_large_as_its_message_needs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(messages_of_one_size_share_an_arena, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_is_a_whole_reply_however_long_its_reason, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
