/*
 * states: where the time of each thread went: running, able to run, or asleep, in which place and for what.
 * It stands inside aggregate, between the scheduler's accounting of each slot and the profile's pools, threads and sleeps.
 *
 * Units: ns.
 * Owns: nothing; what it makes lies in the profile's arena.
 * Threads: owner only.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_TRACER_STATES_H
#define WEIR_TRACER_STATES_H

#include "tracer/symbols.h"
#include "tracer/window.h"

/* Makes profile->pools and profile->threads. */
int weir_states_set(struct weir_window *window);

/* Makes profile->sleeps, whose sums are those of the pools. `symbols` names the call sites, and may be null. */
int weir_sleeps_set(struct weir_window *window, struct weir_symbols *symbols);

#endif
