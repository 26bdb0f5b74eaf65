#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/arena.h"

static void pieces_are_aligned_and_apart(void **state)
{
    (void)state;
    struct weir_arena arena;
    unsigned char *pieces[200];
    weir_arena_init(&arena, 64, SIZE_MAX);
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = weir_arena_alloc(&arena, i);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)i, i);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i; k++)
            assert_int_equal(pieces[i][k], i);
    weir_arena_release(&arena);
}

static void cleared_memory_is_zero_after_a_reset(void **state)
{
    (void)state;
    struct weir_arena arena;
    weir_arena_init(&arena, 256, SIZE_MAX);
    memset(weir_arena_alloc(&arena, 200), 0xff, 200);
    weir_arena_reset(&arena);
    assert_int_equal(arena.used_bytes, 0);
    const unsigned char *piece = weir_arena_zalloc(&arena, 200);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(piece[i], 0);
    weir_arena_release(&arena);
}

static void the_limit_holds(void **state)
{
    (void)state;
    struct weir_arena arena;
    weir_arena_init(&arena, 0, 1000);
    assert_null(weir_arena_alloc(&arena, 1001));
    assert_null(weir_arena_alloc(&arena, SIZE_MAX));
    assert_null(weir_arena_dup(&arena, "", SIZE_MAX));
    size_t taken = 0;
    while (weir_arena_alloc(&arena, 100))
        taken += 100;
    assert_true(taken >= 800 && taken <= 1000);
    assert_true(arena.used_bytes <= 1000);
    weir_arena_reset(&arena);
    assert_non_null(weir_arena_alloc(&arena, 900));
    weir_arena_release(&arena);
}

static void a_reset_gives_a_large_piece_back(void **state)
{
    (void)state;
    struct weir_arena arena;
    weir_arena_init(&arena, 4096, SIZE_MAX);
    assert_non_null(weir_arena_alloc(&arena, 100));
    assert_non_null(weir_arena_alloc(&arena, 10u << 20));
    weir_arena_reset(&arena);
    const void *first = weir_arena_alloc(&arena, 4096);
    weir_arena_reset(&arena);
    assert_ptr_equal(weir_arena_alloc(&arena, 16), first); /* the first chunk, and only it, was kept */
    weir_arena_release(&arena);
    assert_null(arena.chunk);
    assert_non_null(weir_arena_alloc(&arena, 1)); /* a released arena can be used again */
    weir_arena_release(&arena);
}

static void texts(void **state)
{
    (void)state;
    struct weir_arena arena;
    weir_arena_init(&arena, 16, SIZE_MAX);
    assert_string_equal(weir_arena_dup(&arena, "abc", 2), "ab");
    assert_string_equal(weir_arena_dup(&arena, NULL, 0), "");
    assert_string_equal(weir_arena_printf(&arena, "%s.%d", "riemann", 7), "riemann.7");
    weir_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_and_apart), cmocka_unit_test(cleared_memory_is_zero_after_a_reset),
        cmocka_unit_test(the_limit_holds), cmocka_unit_test(a_reset_gives_a_large_piece_back), cmocka_unit_test(texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
