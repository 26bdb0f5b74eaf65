/*
 * buffer: a byte string that grows.
 * Viewers, printers and the generated C write into one; nothing but the command line prints it.
 *
 * Units: bytes.
 * Owns: its bytes, until weir_buffer_release().
 * Threads: owner only.
 * Errors: running out of memory sets `failed`, later writes do nothing; check it once at the end.
 */
#ifndef WEIR_BASE_BUFFER_H
#define WEIR_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

struct weir_buffer {
    char *data; /* NUL behind the last byte once anything was written; null before */
    size_t length;
    size_t capacity;
    bool failed;
};

#define WEIR_BUFFER_INIT { NULL, 0, 0, false }

void weir_buffer_add(struct weir_buffer *buffer, const void *data, size_t size);
/* `size` bytes at the end, for the caller to fill at once; borrowed until the next write. Null: `failed`. */
char *weir_buffer_extend(struct weir_buffer *buffer, size_t size);
/* Leaves the first `length` bytes. */
void weir_buffer_cut(struct weir_buffer *buffer, size_t length);
void weir_buffer_puts(struct weir_buffer *buffer, const char *text);
void weir_buffer_putc(struct weir_buffer *buffer, char byte);
void weir_buffer_printf(struct weir_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text so far, "" when there is none; borrowed until the next write. */
const char *weir_buffer_text(const struct weir_buffer *buffer);
void weir_buffer_clear(struct weir_buffer *buffer);
void weir_buffer_release(struct weir_buffer *buffer);

#endif
