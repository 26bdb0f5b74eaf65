/*
 * load_profile: a recording of the server beside each level of a load: a light profile of the time in which the level was at work.
 *
 * The recorder is a process of its own, so that neither its CPU time nor its memory counts as the driver's.
 *
 * Units: ns; shares are 0 to 1.
 * Owns: the recorder and what it hands over, from start to stop.
 * Threads: one at a time.
 * Errors: a recording that can't be made is a sentence; the load goes on without it.
 */
#ifndef WEIR_CLI_LOAD_PROFILE_H
#define WEIR_CLI_LOAD_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct load_profile {
    pid_t recorder; /* 0: none */
    bool gone;      /* it was told to go */
    int go_fd;      /* where that is written */
    int profile_fd; /* what it hands over: a profile, or why there is none */
};

/* What a level keeps of its profile. */
struct load_profile_summary {
    bool known;
    double cpus;         /* that the server used while all clients sent */
    char stage[96];      /* that took most CPU time; "" when none did */
    double stage_share;  /* of the server's CPU time */
    char kind[32];       /* of the verdict */
    char verdict[512];
    char path[512];      /* where the profile was saved; "" when it was not */
};

/* Gets a recorder of process `pid` ready. `most_ns`: that it records at most. */
int load_profile_start(struct load_profile *profile, pid_t pid, uint64_t most_ns, struct weir_error *error);
/* The level is at work from now on / no longer. Both may be said several times. */
void load_profile_go(struct load_profile *profile);
void load_profile_halt(const struct load_profile *profile);
/* Takes over what was recorded, and saves it if `path` is given. A level too short to be recorded leaves nothing known, and is no
 * error. */
int load_profile_stop(struct load_profile *profile, const char *path, struct load_profile_summary *summary, struct weir_error *error);

#endif
