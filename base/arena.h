/*
 * arena: memory that is taken piece by piece and given back all at once.
 * Items, syntax trees and profiles each live in one.
 *
 * Units: bytes.
 * Owns: every piece handed out, until weir_arena_reset() or weir_arena_release().
 * Threads: owner only.
 * Errors: null when memory or the arena's limit is exhausted.
 */
#ifndef WEIR_BASE_ARENA_H
#define WEIR_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct weir_arena_chunk;

struct weir_arena {
    struct weir_arena_chunk *chunk; /* the newest; older ones chain behind it */
    size_t used_bytes;              /* all that was handed out since the last reset, padding included */
    size_t limit_bytes;             /* SIZE_MAX: none */
    size_t first_bytes;             /* size of the first chunk, kept over resets */
};

/* `first_bytes` is the size of the chunk that survives a reset (0: 4096). Takes no memory yet. */
void weir_arena_init(struct weir_arena *arena, size_t first_bytes, size_t limit_bytes);

/* `size` bytes, aligned to 16, not cleared. */
void *weir_arena_alloc(struct weir_arena *arena, size_t size);
void *weir_arena_zalloc(struct weir_arena *arena, size_t size);
/* A copy of `size` bytes with a NUL behind it. */
char *weir_arena_dup(struct weir_arena *arena, const void *data, size_t size);
char *weir_arena_printf(struct weir_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *weir_arena_vprintf(struct weir_arena *arena, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

/* Gives everything back but the first chunk. */
void weir_arena_reset(struct weir_arena *arena);
void weir_arena_release(struct weir_arena *arena);

#endif
