#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/sample.h"

static void every_word_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(weir_verb_name(WEIR_LISTEN), "listen");
    assert_string_equal(weir_verb_name(WEIR_DROP), "drop");
    assert_string_equal(weir_verb_name(WEIR_VERB_COUNT), "?");
    assert_string_equal(weir_sized_name(WEIR_SIZED_REFLECT), "reflect");
    assert_string_equal(weir_full_name(WEIR_FULL_DROP_OLDEST), "drop oldest");
    assert_string_equal(weir_part_name(WEIR_PART_POP), "pop");
    assert_string_equal(weir_part_name((enum weir_part)99), "?");
    assert_string_equal(weir_state_name(WEIR_STATE_BACKPRESSURED), "backpressured");
    assert_string_equal(weir_state_name(WEIR_STATE_COUNT), "?");
}

/* The contract carries the topology alone: the same bytes as in a profile, read back the same. */
static void written_alone_it_reads_back(void **state)
{
    (void)state;
    struct weir_profile *profile = sample_hostile();
    struct weir_buffer first = WEIR_BUFFER_INIT, second = WEIR_BUFFER_INIT;
    struct weir_topology read;
    struct weir_arena arena;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    assert_int_equal(weir_topology_write(&profile->topology, &first, &error), 0);
    assert_int_equal(weir_topology_read(&read, &arena, first.data, first.length, &error), 0);
    assert_int_equal(weir_topology_write(&read, &second, &error), 0);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
    assert_int_equal(read.stages[3].queue, 0);
    assert_int_equal(read.stages[0].queue, WEIR_NONE);
    assert_string_equal(read.expectations[0].text, "cpu(riemann.handoff) < 5%");
    assert_int_equal(weir_topology_tag_count(&read), WEIR_TAG(WEIR_INSTANCE_FIRST + 7, 0));
    weir_arena_release(&arena);
    weir_buffer_release(&first);
    weir_buffer_release(&second);
    weir_profile_free(profile);
}

static void garbage_is_one_sentence(void **state)
{
    (void)state;
    struct weir_topology read = { .name = "untouched" };
    struct weir_arena arena;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    assert_true(weir_topology_read(&read, &arena, "\xff\xff\xff", 3, &error) < 0);
    assert_non_null(strstr(error.text, "damaged"));
    assert_true(weir_topology_read(&read, &arena, "", 0, &error) < 0);
    assert_non_null(strstr(error.text, "version"));
    assert_string_equal(read.name, "untouched");
    weir_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_word_has_its_name), cmocka_unit_test(written_alone_it_reads_back),
                                        cmocka_unit_test(garbage_is_one_sentence) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
