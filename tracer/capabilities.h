/*
 * capabilities: what this kernel lets this user measure, found by trying.
 * It stands before every attach, and behind `weir doctor`.
 *
 * Units: none.
 * Owns: nothing; all texts are static or lie in the struct.
 * Threads: owner only.
 * Errors: weir_capabilities_check() returns WEIR_EXIT_CANNOT and one sentence that names what is missing.
 */
#ifndef WEIR_TRACER_CAPABILITIES_H
#define WEIR_TRACER_CAPABILITIES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct weir_capability {
    const char *name;    /* "ring buffer" */
    const char *gives;   /* what weir does with it */
    bool ok;
    bool needed;         /* recording can't do without */
    char missing[160];   /* "" when ok: what the kernel said, or the capability that is missing */
    const char *remedy;  /* "" when ok */
};

#define WEIR_CAPABILITY_COUNT 10

/* Tries every feature. Returns how many needed ones are missing. */
size_t weir_capabilities_probe(struct weir_capability features[WEIR_CAPABILITY_COUNT]);

/* Does this process have the capabilities that loading and attaching need? */
int weir_capabilities_check(struct weir_error *error);

/* The sentence for a process that may not be read: names all the capabilities that recording it would need. Returns -EPERM. */
int weir_capabilities_refused(const char *what, int pid, struct weir_error *error);

#endif
