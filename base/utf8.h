/*
 * utf8: whether bytes are well-formed UTF-8, and what to send or show in their place when they are not.
 * Requests are kept as they came, but replies must be readable by every client, and messages by people.
 *
 * Units: bytes.
 * Owns: nothing; repaired text lies in the arena given.
 * Threads: any.
 * Errors: null when the arena is exhausted.
 */
#ifndef WEIR_BASE_UTF8_H
#define WEIR_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

/* How long the character at text[0..left) is, left > 0; 0 when there is none. */
size_t weir_utf8_length(const char *text, size_t left);

/* The first `most` bytes of a text, or less: never half a character. */
size_t weir_utf8_cut(const char *text, size_t length, size_t most);

/* Well-formed by table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF. NUL is fine. */
bool weir_utf8_valid(const void *data, size_t size);

/* A copy in which each maximal part of an ill-formed sequence has become one U+FFFD (the practice that Unicode recommends
 * and Java follows). `*size` becomes the copy's. */
uint8_t *weir_utf8_repair(struct weir_arena *arena, const void *data, size_t *size);

#endif
