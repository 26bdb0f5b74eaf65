/*
 * source: the text of one pipeline file, and which line a byte lies on.
 * It stands before lex; every span in tokens, tree and diagnostics points into it.
 *
 * Units: bytes; lines and columns count from 1, columns in characters.
 * Owns: nothing; text and line table lie in the arena given.
 * Threads: any (read only, once opened).
 * Errors: a path that can't be read, or is no file, or is too large, is a sentence.
 */
#ifndef WEIR_LANG_SOURCE_H
#define WEIR_LANG_SOURCE_H

#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"

#define WEIR_SOURCE_MAX ((size_t)16 << 20) /* a larger file is no pipeline that a person wrote */

struct weir_span {
    size_t offset, length;
};

struct weir_source {
    const char *path; /* as given; what diagnostics print */
    const char *text; /* NUL behind the last byte; a byte order mark is left out */
    size_t length;
    const size_t *lines; /* offset of the first byte of each line */
    size_t line_count;   /* at least 1 */
};

struct weir_place {
    size_t line, column;
};

int weir_source_open(struct weir_source *source, struct weir_arena *arena, const char *path, struct weir_error *error);
/* `data` is copied. `path` is what diagnostics print, and what relative paths in the text are relative to. */
int weir_source_from_memory(struct weir_source *source, struct weir_arena *arena, const char *path, const void *data, size_t size,
                            struct weir_error *error);

struct weir_place weir_source_place(const struct weir_source *source, size_t offset);
/* The span of line `line` (from 1), without its end. */
struct weir_span weir_source_line(const struct weir_source *source, size_t line);

#endif
