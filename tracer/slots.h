/*
 * slots: what the pools of slots of `forward` and `store` did in a window: their counters at its ends, how many were in use over
 * time, and how long workers waited and requests took.
 * It stands between the snapshots and the profile.
 *
 * Units: ns.
 * Owns: nothing; what it makes lies in the profile's arena.
 * Threads: owner only.
 * Errors: -errno from reading the target, -ENOMEM.
 */
#ifndef WEIR_TRACER_SLOTS_H
#define WEIR_TRACER_SLOTS_H

#include "tracer/target.h"
#include "tracer/window.h"

/* Makes profile->slots, one for each stage that has some. */
int weir_slots_init(struct weir_profile *profile);
/* One more look at a random moment: counts with the time since the last one. */
int weir_slots_look(struct weir_window *window, const struct weir_target *target, uint64_t now_ns);
/* The window ends with `window->last`. */
void weir_slots_set(struct weir_window *window);

#endif
