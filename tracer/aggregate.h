/*
 * aggregate: makes the profile's numbers of what a window has collected. It measures nothing itself.
 * It stands between window and the profile, which every view reads.
 *
 * Units: ns, bytes, items; shares are 0 to 1.
 * Owns: nothing; results lie in the profile's arena.
 * Threads: owner only.
 * Errors: -ENOMEM. An empty window gives a valid profile: no number is divided by zero, no sum goes negative.
 */
#ifndef WEIR_TRACER_AGGREGATE_H
#define WEIR_TRACER_AGGREGATE_H

#include "base/profile.h"
#include "tracer/symbols.h"
#include "tracer/window.h"

/* Wakeup delays of a queue since the attach, [WEIR_HISTOGRAM_BUCKETS], or null. */
typedef const uint64_t *weir_aggregate_wakeups(const void *context, uint32_t queue);

/* Fills rows, queues, ways, edges, pools and slices of window->profile. */
int weir_aggregate(struct weir_window *window, weir_aggregate_wakeups *wakeups, const void *context);

/* Names the stacks of window->stacks: profile->stacks, profile->symbols, and the hot functions of each row. */
int weir_aggregate_stacks(struct weir_window *window, struct weir_symbols *symbols);

#endif
