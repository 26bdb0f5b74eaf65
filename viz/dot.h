/*
 * dot: the stage-cost graph, as text for Graphviz.
 * A pool is a box whose stages stand below each other; queues stand between the pools that they join, so that an item's way is
 * down, across, down and back. It is the last step before render.
 *
 * Units: as base/profile.h.
 * Owns: nothing; the text is appended to the caller's buffer.
 * Threads: any.
 * Errors: -ENOMEM when the buffer failed.
 */
#ifndef WEIR_VIZ_DOT_H
#define WEIR_VIZ_DOT_H

#include "base/buffer.h"
#include "base/profile.h"
#include "base/verdict.h"

/* `verdict` may be null. */
int weir_dot_profile(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out,
                     struct weir_error *error);
/* The structure alone, without numbers. */
int weir_dot_topology(const struct weir_topology *topology, struct weir_buffer *out, struct weir_error *error);

#endif
