/*
 * load_profile: a `weir record` beside each level of the load, so that the server's profile of that level is there afterwards.
 *
 * Units: none.
 * Owns: the recording process, from start to stop.
 * Threads: one at a time.
 * Errors: a recording that can't be made says why on stderr, by its own words; the load goes on without it.
 */
#ifndef WEIR_CLI_LOAD_PROFILE_H
#define WEIR_CLI_LOAD_PROFILE_H

#include <stddef.h>
#include <sys/types.h>

struct load_profile {
    pid_t recorder; /* 0: none */
};

/* Records process `pid` into "PREFIX-CLIENTS.wprof". */
void load_profile_start(struct load_profile *profile, int pid, const char *prefix, size_t clients);
void load_profile_stop(struct load_profile *profile);

#endif
