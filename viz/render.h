/*
 * render: DOT text to a picture, by Graphviz in this process. The last step of `weir graph`.
 *
 * Units: none.
 * Owns: nothing; the bytes are appended to the caller's buffer.
 * Threads: one at a time (Graphviz has global state).
 * Errors: -EINVAL with Graphviz's first complaint; -EFBIG for a PNG that can't be that large; -ENOMEM.
 */
#ifndef WEIR_VIZ_RENDER_H
#define WEIR_VIZ_RENDER_H

#include "base/buffer.h"
#include "base/error.h"

/* `format` is "svg" or "png". */
int weir_render_dot(const char *dot, const char *format, struct weir_buffer *out, struct weir_error *error);

#endif
