/*
 * block: byte blocks of a few sizes, kept by an event loop for its next frames, so that a message costs no malloc.
 *
 * Units: bytes.
 * Owns: the blocks that it keeps, at most WEIR_BLOCK_KEPT_BYTES; a block that was taken belongs to the taker.
 * Threads: owner only. A block may be used by any thread in between.
 * Errors: null when memory is exhausted.
 */
#ifndef WEIR_RUNTIME_BLOCK_H
#define WEIR_RUNTIME_BLOCK_H

#include <stddef.h>

#define WEIR_BLOCK_KEPT_BYTES ((size_t)8 << 20)
#define WEIR_BLOCK_CLASSES 9u /* 256 bytes, each twice the one before: 64 KiB. Larger blocks are not kept */

struct weir_block {
    struct weir_block *next;
    size_t capacity;
    _Alignas(16) unsigned char data[];
};

struct weir_block_cache {
    struct weir_block *classes[WEIR_BLOCK_CLASSES];
    size_t kept_bytes;
};

struct weir_block *weir_block_take(struct weir_block_cache *cache, size_t size);
/* Null is allowed. */
void weir_block_give(struct weir_block_cache *cache, struct weir_block *block);
void weir_block_cache_release(struct weir_block_cache *cache);

#endif
