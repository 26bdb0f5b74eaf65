/*
 * timer: what a pool thread does later, even if no further item comes.
 * A worker wakes for it from its intake, an event loop from its sockets. When the server drains, whatever is armed is done as soon
 * as its thread has nothing else to do.
 *
 * Units: ns of CLOCK_MONOTONIC.
 * Owns: nothing; a timer lies in what arms it.
 * Threads: the thread that arms it, which is the one that fires it. No lock is held then.
 * Errors: none.
 */
#ifndef WEIR_RUNTIME_TIMER_H
#define WEIR_RUNTIME_TIMER_H

#include "pipeline_dsl/runtime/thread.h"

struct weir_timer {
    struct weir_timer *next; /* armed ones of the thread */
    uint64_t due_ns;         /* 0: not armed */
    /* `ends`: the server ends; what was held for later is given up. The timer is not armed any more, and may be again. */
    void (*fire)(struct weir_thread *thread, struct weir_timer *timer, bool ends);
};

void weir_timer_arm(struct weir_thread *thread, struct weir_timer *timer, uint64_t due_ns);
void weir_timer_disarm(struct weir_thread *thread, struct weir_timer *timer);

enum weir_timers { WEIR_TIMERS_DUE, WEIR_TIMERS_ALL, WEIR_TIMERS_END };
/* Fires those that are due, or all. */
void weir_timers_fire(struct weir_thread *thread, enum weir_timers which);

#endif
