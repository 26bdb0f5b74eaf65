/* The examples, as they lie in the tree: in canonical form, and without a finding but the one that riemann-before is there to show.
 * Runs in the root of the tree, as `make test` does. */
#include <glob.h>

#include "tests/unit/lang/findings.h"

static void each_is_clean(void **state)
{
    (void)state;
    glob_t found;
    if (glob("pipeline_dsl/examples/*.weir", 0, NULL, &found) != 0)
        skip();
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        struct weir_arena arena;
        struct weir_topology topology;
        struct weir_diag_bag bag;
        struct weir_error error = WEIR_ERROR_INIT;
        weir_arena_init(&arena, 0, SIZE_MAX);
        weir_diag_bag_init(&bag);
        if (weir_lang_load(path, &arena, &topology, &bag, &error) != 0)
            fail_msg("%s: %s", path, error.text);
        bool before = strstr(path, "riemann-before") != NULL;
        assert_int_equal(bag.count, before);
        assert_true(!before || bag.diags[0].code == WEIR_W101_REFLECT);
        assert_true(topology.expectation_count > 0);

        struct weir_buffer text = WEIR_BUFFER_INIT;
        struct weir_diag_bag again;
        weir_diag_bag_init(&again);
        assert_int_equal(weir_lang_format(path, &text, &again, &error), 0);
        assert_string_equal(weir_buffer_text(&text), again.source.text);
        weir_buffer_release(&text);
        weir_diag_bag_release(&again);
        weir_diag_bag_release(&bag);
        weir_arena_release(&arena);
    }
    assert_true(found.gl_pathc >= 5);
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_is_clean) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
