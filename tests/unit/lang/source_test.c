#include "pipeline_dsl/lang/source.h"
#include "tests/unit/lang/findings.h"

static void places(void **state)
{
    (void)state;
    struct weir_arena arena;
    struct weir_source source;
    weir_arena_init(&arena, 0, SIZE_MAX);
    static const char text[] = "\xef\xbb\xbf"
                               "ab\r\n\xc3\xa9x\n\nlast";
    assert_int_equal(weir_source_from_memory(&source, &arena, "x", text, sizeof text - 1, NULL), 0);
    assert_int_equal(source.line_count, 4);
    static const struct {
        size_t offset, line, column;
    } rows[] = { { 0, 1, 1 }, { 1, 1, 2 }, { 4, 2, 1 },  { 6, 2, 2 }, { 7, 2, 3 },
                 { 8, 3, 1 }, { 9, 4, 1 }, { 13, 4, 5 }, { 99, 4, 5 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir_place place = weir_source_place(&source, rows[i].offset);
        assert_int_equal(place.line, rows[i].line);
        assert_int_equal(place.column, rows[i].column);
    }
    assert_int_equal(weir_source_line(&source, 1).length, 2);
    assert_int_equal(weir_source_line(&source, 2).length, 3);
    assert_int_equal(weir_source_line(&source, 3).length, 0);
    assert_int_equal(weir_source_line(&source, 4).length, 4);
    assert_int_equal(weir_source_line(&source, 5).length, 0);
    assert_int_equal(weir_source_line(&source, 0).length, 0);
    weir_arena_release(&arena);
}

static void sizes(void **state)
{
    (void)state;
    struct weir_arena arena;
    struct weir_source source;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    assert_int_equal(weir_source_from_memory(&source, &arena, "x", "", 0, NULL), 0);
    assert_int_equal(source.line_count, 1);
    assert_int_equal(weir_source_place(&source, 0).line, 1);
    assert_int_equal(weir_source_from_memory(&source, &arena, "x", "", WEIR_SOURCE_MAX + 1, &error), -EFBIG);
    assert_non_null(strstr(error.text, "x is larger than 16 MiB"));
    weir_arena_release(&arena);
    /* An arena without room is an error, not a crash. */
    weir_arena_init(&arena, 0, 16);
    assert_int_equal(weir_source_from_memory(&source, &arena, "x", "0123456789abcdef", 16, &error), -ENOMEM);
    weir_arena_release(&arena);
}

/* Every allocation that can fail on the way from text to topology. */
static void no_memory(void **state)
{
    (void)state;
    static const char text[] = SERVER_WITH("index\ncall 'x.c' f\n", "expect {\ncpu(p.index) < 5%\nwait(p.handoff) < 1ms\n}\n");
    bool done = false;
    for (size_t limit = 0; limit < (1 << 20) && !done; limit += 48) {
        struct weir_arena arena;
        struct weir_topology topology;
        struct weir_diag_bag bag;
        weir_arena_init(&arena, 0, SIZE_MAX);
        weir_diag_bag_init(&bag);
        bag.arena.limit_bytes = limit;
        int rc = weir_lang_load_memory("x.weir", text, sizeof text - 1, &arena, &topology, &bag, NULL);
        assert_true(rc == 0 || rc == -ENOMEM);
        done = rc == 0;
        weir_diag_bag_release(&bag);
        weir_arena_release(&arena);
    }
    assert_true(done);
    done = false;
    for (size_t limit = 0; limit < (1 << 20) && !done; limit += 16) {
        struct weir_arena arena;
        struct weir_topology topology;
        struct weir_diag_bag bag;
        weir_arena_init(&arena, 0, limit);
        weir_diag_bag_init(&bag);
        int rc = weir_lang_load_memory("x.weir", text, sizeof text - 1, &arena, &topology, &bag, NULL);
        assert_true(rc == 0 || rc == -ENOMEM);
        done = rc == 0;
        weir_diag_bag_release(&bag);
        weir_arena_release(&arena);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(places), cmocka_unit_test(sizes), cmocka_unit_test(no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
