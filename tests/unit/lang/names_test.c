#include "pipeline_dsl/lang/names.h"
#include "tests/unit/lang/findings.h"

static void table(void **state)
{
    (void)state;
    struct weir_names names = WEIR_NAMES_INIT;
    static char keys[5000][8];
    assert_int_equal(weir_names_find(&names, "a", 1), WEIR_NAMES_NOT_FOUND);
    for (uint32_t i = 0; i < 5000; i++) {
        int length = snprintf(keys[i], sizeof keys[i], "k%u", i);
        assert_int_equal(weir_names_add(&names, keys[i], (size_t)length, i), WEIR_NAMES_NOT_FOUND);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        assert_int_equal(weir_names_find(&names, keys[i], strlen(keys[i])), i);
        assert_int_equal(weir_names_add(&names, keys[i], strlen(keys[i]), 7), i);
    }
    assert_int_equal(weir_names_find(&names, "k1x", 3), WEIR_NAMES_NOT_FOUND);
    assert_int_equal(names.count, 5000);
    weir_names_release(&names);
}

static const char *nearest(const char *wanted, const char *const *candidates)
{
    struct weir_nearest found = weir_nearest(wanted, strlen(wanted));
    for (; *candidates; candidates++)
        weir_nearest_offer(&found, *candidates, strlen(*candidates));
    return found.best ? found.best : "";
}

static void similar(void **state)
{
    (void)state;
    static const char *const words[] = { "pool", "pipeline", "expect", "handoff", "io", "workers", "reply", NULL };
    assert_string_equal(nearest("pol", words), "pool");
    assert_string_equal(nearest("POOL", words), "pool");
    assert_string_equal(nearest("pipeilne", words), "pipeline");
    assert_string_equal(nearest("hand_off", words), "handoff");
    assert_string_equal(nearest("worker", words), "workers");
    assert_string_equal(nearest("oi", words), "io");
    assert_string_equal(nearest("relpy", words), "reply");
    assert_string_equal(nearest("foo", words), "");
    assert_string_equal(nearest("x", words), "");
    assert_string_equal(nearest("", words), "");
    assert_string_equal(nearest("database", words), "");
    char longest[200];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_string_equal(nearest(longest, words), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(table), cmocka_unit_test(similar) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
