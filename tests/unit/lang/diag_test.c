/* The bag keeps order and bounds; the picture has its carets under the words, and lets no control byte through. */
#include "pipeline_dsl/lang/diag.h"
#include "tests/unit/lang/findings.h"

static void open_bag(struct weir_diag_bag *bag, const char *text)
{
    weir_diag_bag_init(bag);
    assert_int_equal(weir_source_from_memory(&bag->source, &bag->arena, "x.weir", text, strlen(text), NULL), 0);
}

static void expect_picture(const struct weir_diag_bag *bag, const char *expected)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_diag_render(bag, false, &out);
    assert_string_equal(weir_buffer_text(&out), expected);
    weir_buffer_release(&out);
}

static void carets(void **state)
{
    (void)state;
    struct weir_diag_bag bag;
    open_bag(&bag, "one\n\té€ two\x01 three\nx\nfour\n");
    struct weir_diag *diag = weir_diag_add(&bag, WEIR_E032_NO_POOL, (struct weir_span){ 11, 3 }, "no %s", "two");
    weir_diag_relate(&bag, diag, (struct weir_span){ 0, 3 }, "first");
    weir_diag_relate(&bag, diag, (struct weir_span){ 16, 5 }, "beside");
    weir_diag_relate(&bag, diag, (struct weir_span){ 24, 4 }, "last");
    weir_diag_hint(&bag, diag, "fix it");
    expect_picture(&bag, "x.weir:2:5: error E032: no two\n"
                         "    1 | one\n"
                         "      | --- first\n"
                         "    2 |     é€ two? three\n"
                         "      |        ^^^\n"
                         "      |             ----- beside\n"
                         "  ...\n"
                         "    4 | four\n"
                         "      | ---- last\n"
                         "      = help: fix it\n"
                         "\n"
                         "x.weir: 1 error; `weir lint --explain E032` tells more\n");
    weir_diag_bag_release(&bag);
}

static void end_of_line(void **state)
{
    (void)state;
    struct weir_diag_bag bag;
    open_bag(&bag, "ab\r\n");
    weir_diag_add(&bag, WEIR_E010_UNEXPECTED, (struct weir_span){ 2, 0 }, "end");
    weir_diag_add(&bag, WEIR_W105_UNUSED, (struct weir_span){ 0, 2 }, "unused");
    weir_diag_bag_sort(&bag);
    expect_picture(&bag, "x.weir:1:1: warning W105: unused\n    1 | ab\n      | ^^\n\n"
                         "x.weir:1:3: error E010: end\n    1 | ab\n      |   ^\n\n"
                         "x.weir: 1 error, 1 warning; `weir lint --explain E010` tells more\n");
    weir_diag_bag_release(&bag);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    struct weir_buffer text = WEIR_BUFFER_INIT;
    for (int i = 0; i < 1000; i++)
        weir_buffer_puts(&text, "é");
    struct weir_diag_bag bag;
    open_bag(&bag, weir_buffer_text(&text));
    weir_diag_add(&bag, WEIR_E010_UNEXPECTED, (struct weir_span){ 1000, 1000 }, "here");
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_diag_render(&bag, false, &out);
    assert_true(out.length < 700);
    assert_non_null(strstr(weir_buffer_text(&out), "1 | …é"));
    weir_buffer_release(&out);
    weir_buffer_release(&text);
    weir_diag_bag_release(&bag);
}

static void control_bytes(void **state)
{
    (void)state;
    struct weir_diag_bag bag;
    open_bag(&bag, "\033[31m\xc2\x9b red");
    weir_diag_add(&bag, WEIR_E010_UNEXPECTED, (struct weir_span){ 0, 1 }, "found '\033[0m' \xff");
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_diag_render(&bag, false, &out);
    assert_null(strchr(weir_buffer_text(&out), '\033'));
    assert_null(strstr(weir_buffer_text(&out), "\xc2\x9b"));
    assert_null(strchr(weir_buffer_text(&out), '\xff'));
    weir_buffer_clear(&out);
    weir_diag_render(&bag, true, &out);
    assert_non_null(strstr(weir_buffer_text(&out), "\033[1;31merror E010"));
    weir_buffer_release(&out);
    weir_diag_bag_release(&bag);
}

static void bounded(void **state)
{
    (void)state;
    struct weir_diag_bag bag;
    open_bag(&bag, "x");
    expect_picture(&bag, "");
    for (unsigned i = 0; i < WEIR_DIAG_MOST; i++)
        assert_non_null(weir_diag_add(&bag, WEIR_E010_UNEXPECTED, (struct weir_span){ 0, 1 }, "x"));
    struct weir_diag *lost = weir_diag_add(&bag, WEIR_E010_UNEXPECTED, (struct weir_span){ 0, 1 }, "x");
    assert_null(lost);
    weir_diag_hint(&bag, lost, "x");
    weir_diag_relate(&bag, lost, (struct weir_span){ 0, 1 }, "x");
    assert_int_equal(bag.count, WEIR_DIAG_MOST);
    assert_int_equal(bag.error_count, WEIR_DIAG_MOST + 1);
    weir_diag_bag_release(&bag);
}

static void codes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WEIR_CODE_COUNT; i++) {
        enum weir_code code = (enum weir_code)i;
        assert_non_null(weir_code_name(code));
        assert_int_equal(weir_code_find(weir_code_name(code)), code);
        assert_true(strlen(weir_code_title(code)) > 10);
        const char *story = weir_code_story(code);
        assert_true(strlen(story) > 80);
        assert_int_equal(story[strlen(story) - 1], '\n');
        for (const char *line = story; *line; line = strchr(line, '\n') + 1)
            assert_true(strchr(line, '\n') - line <= 112);
    }
    assert_int_equal(weir_code_find("w101"), WEIR_W101_REFLECT);
    assert_int_equal(weir_code_find("E999"), WEIR_CODE_COUNT);
    assert_true(weir_code_warns(WEIR_W101_REFLECT));
    assert_false(weir_code_warns(WEIR_E001_NUL_BYTE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carets),        cmocka_unit_test(end_of_line), cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(control_bytes), cmocka_unit_test(bounded),     cmocka_unit_test(codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
