/*
 * DESIGN: chunks chain from the newest to the oldest. Each new chunk is twice the one before it, at most 1 MiB unless one
 * piece is larger, so that a message of any size takes few calls to malloc. A reset keeps only the oldest chunk: an item
 * that once carried a large message doesn't hold its memory for ever.
 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)16)
#define CHUNK_MOST ((size_t)1 << 20)

struct weir_arena_chunk {
    struct weir_arena_chunk *older;
    size_t size; /* of data */
    size_t used;
    _Alignas(16) unsigned char data[];
};

void weir_arena_init(struct weir_arena *arena, size_t first_bytes, size_t limit_bytes)
{
    *arena = (struct weir_arena){ .first_bytes = first_bytes ? first_bytes : 4096, .limit_bytes = limit_bytes };
}

static struct weir_arena_chunk *chunk_add(struct weir_arena *arena, size_t size)
{
    size_t want = arena->chunk ? arena->chunk->size * 2 : arena->first_bytes;
    if (arena->chunk && want > CHUNK_MOST)
        want = CHUNK_MOST;
    if (want < size)
        want = size;
    struct weir_arena_chunk *chunk = malloc(sizeof *chunk + want);
    if (!chunk)
        return NULL;
    chunk->older = arena->chunk;
    chunk->size = want;
    chunk->used = 0;
    arena->chunk = chunk;
    return chunk;
}

void *weir_arena_alloc(struct weir_arena *arena, size_t size)
{
    if (size > arena->limit_bytes)
        return NULL;
    size = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (size > arena->limit_bytes - arena->used_bytes || arena->used_bytes > arena->limit_bytes)
        return NULL;
    struct weir_arena_chunk *chunk = arena->chunk;
    if (!chunk || size > chunk->size - chunk->used) {
        chunk = chunk_add(arena, size);
        if (!chunk)
            return NULL;
    }
    void *piece = chunk->data + chunk->used;
    chunk->used += size;
    arena->used_bytes += size;
    return piece;
}

void *weir_arena_zalloc(struct weir_arena *arena, size_t size)
{
    void *piece = weir_arena_alloc(arena, size);
    if (piece)
        memset(piece, 0, size);
    return piece;
}

char *weir_arena_dup(struct weir_arena *arena, const void *data, size_t size)
{
    if (size == SIZE_MAX)
        return NULL;
    char *copy = weir_arena_alloc(arena, size + 1);
    if (copy) {
        if (size)
            memcpy(copy, data, size);
        copy[size] = '\0';
    }
    return copy;
}

char *weir_arena_vprintf(struct weir_arena *arena, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    char *text = length < 0 ? NULL : weir_arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *weir_arena_printf(struct weir_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = weir_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void weir_arena_reset(struct weir_arena *arena)
{
    while (arena->chunk && arena->chunk->older) {
        struct weir_arena_chunk *older = arena->chunk->older;
        free(arena->chunk);
        arena->chunk = older;
    }
    if (arena->chunk && arena->chunk->size > arena->first_bytes) {
        free(arena->chunk);
        arena->chunk = NULL;
    }
    if (arena->chunk)
        arena->chunk->used = 0;
    arena->used_bytes = 0;
}

void weir_arena_release(struct weir_arena *arena)
{
    while (arena->chunk) {
        struct weir_arena_chunk *older = arena->chunk->older;
        free(arena->chunk);
        arena->chunk = older;
    }
    arena->used_bytes = 0;
}
