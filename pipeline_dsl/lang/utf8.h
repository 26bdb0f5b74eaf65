/*
 * utf8: the little that lang needs to know of it.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_LANG_UTF8_H
#define WEIR_LANG_UTF8_H

#include <stddef.h>

/* How long the character at text[0..left) is, left > 0; 0 when there is none (Unicode 15, table 3-7). */
size_t weir_utf8_length(const char *text, size_t left);

/* The first `most` bytes of a text, or less: never half a character. */
size_t weir_utf8_cut(const char *text, size_t length, size_t most);

#endif
