/*
 * escape: names that come from a target, made harmless for where they are shown.
 * Names of functions and stages may hold any byte: terminals obey control bytes, DOT breaks at quotes, JSON wants UTF-8.
 *
 * Units: columns are code points (each counts one).
 * Owns: nothing.
 * Threads: any.
 * Errors: none; a byte that is no UTF-8 is shown, or replaced by U+FFFD.
 */
#ifndef WEIR_VIZ_ESCAPE_H
#define WEIR_VIZ_ESCAPE_H

#include "base/buffer.h"

#define WEIR_ESCAPE_ANY ((size_t)-1) /* no limit of columns */

/* For terminals: control bytes and broken UTF-8 as \x1b; what is longer than `columns` loses its middle to an ellipsis. */
void weir_escape_plain(struct weir_buffer *out, const char *text, size_t columns);
/* For DOT's HTML labels: as plain, and & < > " ' as entities. */
void weir_escape_html(struct weir_buffer *out, const char *text, size_t columns);
/* For JSON: broken UTF-8 as U+FFFD, all else as it is. */
void weir_escape_utf8(struct weir_buffer *out, const char *text);
/* Columns that `size` bytes of good UTF-8 take. */
size_t weir_escape_columns(const char *text, size_t size);

#endif
