#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/block.h"

static void blocks_come_back(void **state)
{
    (void)state;
    struct weir_block_cache cache = { 0 };
    for (size_t size = 0; size <= 70000; size += 311) {
        struct weir_block *block = weir_block_take(&cache, size);
        assert_true(block->capacity >= size);
        memset(block->data, 7, size);
        weir_block_give(&cache, block);
        if (size <= 65536)
            assert_ptr_equal(weir_block_take(&cache, size), block); /* the same one again */
        if (size <= 65536)
            weir_block_give(&cache, block);
    }
    weir_block_give(&cache, NULL);
    assert_true(cache.kept_bytes > 0);
    weir_block_cache_release(&cache);
    assert_int_equal(cache.kept_bytes, 0);
}

static void no_more_is_kept_than_allowed(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct weir_block_cache cache = { 0 };
    struct weir_block *blocks[COUNT];
    for (int i = 0; i < COUNT; i++)
        blocks[i] = weir_block_take(&cache, 65536);
    for (int i = 0; i < COUNT; i++)
        weir_block_give(&cache, blocks[i]);
    assert_int_equal(cache.kept_bytes, WEIR_BLOCK_KEPT_BYTES);
    weir_block_cache_release(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back),
        cmocka_unit_test(no_more_is_kept_than_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
