/* Bundles of lines: where they end, what is skipped, and that it does not matter how the stream was cut into spans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/wire/lines.h"

static struct weir_bundle cut(struct weir_lines *lines, const char *text, size_t max)
{
    return weir_lines_cut(lines, text, strlen(text), max);
}

static void expect(struct weir_bundle bundle, size_t offset, size_t length, size_t used, size_t overlong)
{
    assert_int_equal(bundle.offset, offset);
    assert_int_equal(bundle.length, length);
    assert_int_equal(bundle.used, used);
    assert_int_equal(bundle.overlong, overlong);
}

static void whole_lines_make_a_bundle(void **state)
{
    (void)state;
    struct weir_lines lines = { false };
    expect(cut(&lines, "", 4), 0, 0, 0, 0);
    expect(cut(&lines, "ab", 4), 0, 0, 0, 0);
    expect(cut(&lines, "ab\n", 4), 0, 3, 3, 0);
    expect(cut(&lines, "ab\ncd\r\n\nef", 4), 0, 8, 8, 0);
}

static void a_limit_is_the_line_without_its_end(void **state)
{
    (void)state;
    struct weir_lines lines = { false };
    expect(cut(&lines, "abcd\n", 4), 0, 5, 5, 0);
    expect(cut(&lines, "abcd\r\n", 4), 0, 6, 6, 0);
    expect(cut(&lines, "abcd\r", 4), 0, 0, 0, 0); /* the \r may be half of its end */
    expect(cut(&lines, "abcde\n", 4), 6, 0, 6, 1);
    assert_false(lines.skipping);
    expect(cut(&lines, "abcdef\nab\n", 4), 7, 3, 10, 1);
    expect(cut(&lines, "ab\nabcdef\ncd\n", 4), 0, 3, 3, 0);
}

static void a_long_line_is_skipped_across_spans(void **state)
{
    (void)state;
    struct weir_lines lines = { false };
    expect(cut(&lines, "abcde", 4), 5, 0, 5, 1);
    assert_true(lines.skipping);
    expect(cut(&lines, "fghi", 4), 4, 0, 4, 0);
    expect(cut(&lines, "j\nok\n", 4), 2, 3, 5, 0);
    assert_false(lines.skipping);
    expect(cut(&lines, "abcd\rx", 4), 6, 0, 6, 1); /* it was none */
    expect(cut(&lines, "\n\n", 4), 1, 1, 2, 0);
}

static void a_bundle_is_bounded(void **state)
{
    (void)state;
    enum { LINES = 5000, EACH = 10 };
    struct weir_lines lines = { false };
    char *text = malloc(LINES * EACH + 1);
    for (size_t i = 0; i < LINES; i++)
        memcpy(text + i * EACH, "123456789\n", EACH);
    size_t at = 0, count = 0;
    while (at < LINES * EACH) {
        struct weir_bundle bundle = weir_lines_cut(&lines, text + at, LINES * EACH - at, 100);
        assert_true(bundle.length > 0 && bundle.length <= WEIR_LINES_BUNDLE_BYTES && bundle.length % EACH == 0);
        at += bundle.used;
        count++;
    }
    assert_int_equal(count, (LINES * EACH + WEIR_LINES_BUNDLE_BYTES - 1) / (WEIR_LINES_BUNDLE_BYTES / EACH * EACH));
    /* A longer line goes alone. */
    memset(text, 'x', 40000);
    text[39999] = '\n';
    expect(weir_lines_cut(&lines, text, LINES * EACH, 65536), 0, 40000, 40000, 0);
    free(text);
}

/* What comes out of `text` with spans of `step` bytes more each time; what is not used is kept, as a connection does. */
static size_t feed(const char *text, size_t step, size_t max, char *out, size_t *overlong)
{
    struct weir_lines lines = { false };
    size_t size = strlen(text), start = 0, length = 0;
    *overlong = 0;
    for (size_t end = step; ; end += step) {
        if (end > size)
            end = size;
        struct weir_bundle bundle;
        do {
            bundle = weir_lines_cut(&lines, text + start, end - start, max);
            memcpy(out + length, text + start + bundle.offset, bundle.length);
            length += bundle.length;
            start += bundle.used;
            *overlong += bundle.overlong;
        } while (bundle.length);
        assert_true(end - start <= max + 1); /* no more than that is ever kept */
        if (end == size)
            return length;
    }
}

static void spans_do_not_matter(void **state)
{
    (void)state;
    static const char text[] = "a\nbb\r\ncccccc\ndd\n\r\neeeee\rf\nggggg\r\nhhhhh\r\r\ni\nlong long line\nj";
    char out[sizeof text], other[sizeof text];
    size_t overlong, other_overlong, length = feed(text, sizeof text, 5, out, &overlong);
    assert_int_equal(overlong, 4);
    for (size_t step = 1; step < sizeof text; step++) {
        assert_int_equal(feed(text, step, 5, other, &other_overlong), length);
        assert_memory_equal(out, other, length);
        assert_int_equal(overlong, other_overlong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_lines_make_a_bundle),
        cmocka_unit_test(a_limit_is_the_line_without_its_end),
        cmocka_unit_test(a_long_line_is_skipped_across_spans),
        cmocka_unit_test(a_bundle_is_bounded),
        cmocka_unit_test(spans_do_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
