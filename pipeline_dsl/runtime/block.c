#include "pipeline_dsl/runtime/block.h"

#include <stdint.h>
#include <stdlib.h>

#define SMALLEST ((size_t)256)

static size_t class_of(size_t size)
{
    size_t class = 0;
    while (class < WEIR_BLOCK_CLASSES && SMALLEST << class < size)
        class++;
    return class;
}

struct weir_block *weir_block_take(struct weir_block_cache *cache, size_t size)
{
    size_t class = class_of(size);
    size_t capacity = class < WEIR_BLOCK_CLASSES ? SMALLEST << class : size;
    if (class < WEIR_BLOCK_CLASSES && cache->classes[class]) {
        struct weir_block *block = cache->classes[class];
        cache->classes[class] = block->next;
        cache->kept_bytes -= block->capacity;
        return block;
    }
    if (capacity > SIZE_MAX - sizeof(struct weir_block))
        return NULL;
    struct weir_block *block = malloc(sizeof *block + capacity);
    if (block)
        block->capacity = capacity;
    return block;
}

void weir_block_give(struct weir_block_cache *cache, struct weir_block *block)
{
    if (!block)
        return;
    size_t class = class_of(block->capacity);
    if (class == WEIR_BLOCK_CLASSES || cache->kept_bytes + block->capacity > WEIR_BLOCK_KEPT_BYTES) {
        free(block);
        return;
    }
    block->next = cache->classes[class];
    cache->classes[class] = block;
    cache->kept_bytes += block->capacity;
}

void weir_block_cache_release(struct weir_block_cache *cache)
{
    for (size_t class = 0; class < WEIR_BLOCK_CLASSES; class++)
        while (cache->classes[class]) {
            struct weir_block *block = cache->classes[class];
            cache->classes[class] = block->next;
            free(block);
        }
    cache->kept_bytes = 0;
}
