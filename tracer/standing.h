/*
 * standing: what a built server has counted since it started, as a profile without samples. It attaches nothing.
 * It stands beside session: the same target and the same numbers, but nothing that needs probes.
 *
 * Units: ns, items, bytes.
 * Owns: nothing; the profile is the caller's.
 * Threads: owner only.
 * Errors: those of weir_target_open(); WEIR_EXIT_CANNOT when the counters can't be read.
 */
#ifndef WEIR_TRACER_STANDING_H
#define WEIR_TRACER_STANDING_H

#include "base/profile.h"

/* `name`: a PID, a process name or the path of an executable. The window is the server's life so far. */
int weir_standing_take(const char *name, struct weir_profile *profile, struct weir_error *error);

#endif
