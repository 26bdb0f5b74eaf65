/*
 * session: one recording, from attach to profile.
 * It stands above target, probe, window and aggregate, and below the command line.
 *
 * Units: ns.
 * Owns: nothing after it returns; the profile it makes is the caller's (weir_profile_free()).
 * Threads: one at a time.
 * Errors: as its parts have them; what goes wrong after the window has begun ends it early and still gives a profile.
 */
#ifndef WEIR_TRACER_SESSION_H
#define WEIR_TRACER_SESSION_H

#include <signal.h>
#include <stdbool.h>

#include "base/profile.h"

#define WEIR_SESSION_PERIOD_NS 3000000u /* mean time between two samples of one CPU */

struct weir_session_progress {
    int pid;
    const char *name;         /* of the target's executable */
    const char *topology;
    bool replaced;            /* the file on disk is no longer the one that runs */
    uint64_t elapsed_ns;      /* of the window; 0: it has just been attached */
    double items_per_s;       /* accepted, since the window began */
    double events_per_s;
    double cpu_share;         /* of one CPU */
};

struct weir_session_options {
    const char *target;       /* PID, process name or path */
    enum weir_mode mode;
    uint64_t duration_ns;
    uint32_t period_ns;       /* 0: the default */
    bool perf_events;         /* sample by perf events even where BPF timers work */
    const volatile sig_atomic_t *stop; /* becomes nonzero: end now */
    void (*progress)(void *context, const struct weir_session_progress *progress); /* or null */
    void *context;
};

int weir_session_record(const struct weir_session_options *options, struct weir_profile **profile, struct weir_error *error);

#endif
