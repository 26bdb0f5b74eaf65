/*
 * edges: what flowed from stage to stage in a window, refused items by the way that they really took.
 * It stands within aggregate: behind the rows and queues, whose counts it reads.
 *
 * Units: items, bytes, events.
 * Owns: nothing; the edges lie in the profile's arena.
 * Threads: owner only.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_TRACER_EDGES_H
#define WEIR_TRACER_EDGES_H

#include "tracer/window.h"

/* Fills profile->edges: one from each stage to the next (and to the target of `then` and `tee`), and one from each stage that gave
 * items up straight to its pipeline's reply. Bytes that nobody knows are 0, events too. */
int weir_edges_set(struct weir_window *window);

#endif
