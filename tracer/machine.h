/*
 * machine: who else used the CPUs that the target may run on, in the window.
 * It stands beside the window: the session notes the counters at its begin, and compares at its end.
 *
 * Units: ns.
 * Owns: its list of processes, until weir_machine_release().
 * Threads: owner only.
 * Errors: none: what /proc does not tell stays 0, which the profile takes as unknown.
 */
#ifndef WEIR_TRACER_MACHINE_H
#define WEIR_TRACER_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/profile.h"

struct weir_machine_process {
    int pid;
    uint64_t start; /* in ticks since the boot: a recycled PID has another one */
    uint64_t cpu_ns;
    char name[32];
};

struct weir_machine {
    uint64_t ns, busy_ns, steal_ns;
    struct weir_machine_process *processes;
    size_t count, capacity;
};

/* Notes the counters as they are now; `pid` is the target's, whose CPUs count. */
void weir_machine_note(struct weir_machine *machine, pid_t pid);
void weir_machine_release(struct weir_machine *machine);

/* Makes the profile's machine_* and neighbours of the difference, in proportion to its window. */
void weir_machine_set(struct weir_profile *profile, const struct weir_machine *begin, const struct weir_machine *end);

#endif
