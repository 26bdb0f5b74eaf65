/*
 * predict_lock: how long a stage's items hold a lock, which nobody measures: only how long threads wait for it.
 *
 * Units: ns.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_TRACER_PREDICT_LOCK_H
#define WEIR_TRACER_PREDICT_LOCK_H

#include "tracer/verdict_facts.h"

/* Of the stage's lock that is waited for longest, each item once: how long it holds it, at most `most_ns`; 0: none is waited for. */
double weir_predict_held_ns(const struct weir_facts *facts, uint32_t stage, double most_ns);

#endif
