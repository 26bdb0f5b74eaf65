/* utf8: the table of Unicode, row by row, and the repair that Java does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/utf8.h"

#define R "\xef\xbf\xbd"

static const struct {
    const char *from;
    size_t size;
    const char *to; /* null: valid as it is */
} cases[] = {
#define VALID(text) { text, sizeof(text) - 1, NULL }
#define REPAIR(text, to) { text, sizeof(text) - 1, to }
    VALID(""), VALID("plain ASCII, longer than eight bytes"), VALID("a\0b"), VALID("gr\xc3\xbc\xc3\x9f"), VALID("\xe2\x82\xac"),
    VALID("\xf0\x9f\x98\x80"), VALID("\xed\x9f\xbf\xee\x80\x80"), VALID("\xf4\x8f\xbf\xbf"), VALID(R),
    REPAIR("\xc3\x28", R "("), REPAIR("\xc3", R), REPAIR("\x80", R), REPAIR("\xc0\xaf", R R), REPAIR("\xe0\x80\xaf", R R R),
    REPAIR("\xed\xa0\x80", R R R), REPAIR("\xf4\x90\x80\x80", R R R R), REPAIR("\xff\xfe", R R), REPAIR("\xe2\x82", R),
    REPAIR("\xf0\x9f\x98", R), REPAIR("\xf0\x9f\x98zz", R "zz"), REPAIR("12345678\xe2\x82x\xe2\x82\xac", "12345678" R "x\xe2\x82\xac"),
};

static void the_table_holds(void **state)
{
    (void)state;
    struct weir_arena arena;
    weir_arena_init(&arena, 0, SIZE_MAX);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *want = cases[i].to ? cases[i].to : cases[i].from;
        size_t want_size = cases[i].to ? strlen(want) : cases[i].size;
        assert_int_equal(weir_utf8_valid(cases[i].from, cases[i].size), cases[i].to == NULL);
        size_t size = cases[i].size;
        uint8_t *repaired = weir_utf8_repair(&arena, cases[i].from, &size);
        assert_non_null(repaired);
        assert_int_equal(size, want_size);
        assert_memory_equal(repaired, want, want_size);
        assert_true(weir_utf8_valid(repaired, size));
    }
    weir_arena_release(&arena);
}

static void no_memory_is_said(void **state)
{
    (void)state;
    struct weir_arena arena;
    weir_arena_init(&arena, 0, 16);
    size_t size = 8;
    assert_null(weir_utf8_repair(&arena, "\xff\xff\xff\xff\xff\xff\xff\xff", &size));
    weir_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_table_holds), cmocka_unit_test(no_memory_is_said) };
    return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
