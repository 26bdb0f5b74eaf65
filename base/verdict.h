/*
 * verdict: one sentence about what holds a server back, with its evidence; further causes behind the first.
 * The rules (tracer/verdict.c) make it from a profile; every view shows it.
 *
 * Units: none; `explained` is 0 to 1.
 * Owns: nothing; texts lie in the arena it was made in.
 * Threads: any (read only).
 * Errors: none.
 */
#ifndef WEIR_BASE_VERDICT_H
#define WEIR_BASE_VERDICT_H

#include <stdint.h>

struct weir_verdict_cause {
    const char *kind;   /* "round_trip", "size", "starved", "stage", "pool", "lock", "cpu", "downstream" */
    const char *stage;  /* full name of the stage it speaks of; null: of none */
    const char *text;   /* one sentence, no full stop */
    const char *change; /* a line of the file that would mend it: "pool workers threads 4"; null: no line does */
    const char *where;  /* where that line goes: "above `decode`", "instead of `pool workers`"; null with `change` */
    double explained;   /* how much of the time of whoever holds the server back goes to this cause */
    const char **evidence;
    uint32_t evidence_count;
};

struct weir_verdict {
    const char *kind;  /* the first cause's; without one "idle" (not the server) or "unclear" */
    const char *stage; /* the first cause's */
    const char *text;  /* one sentence, no full stop */
    const char **evidence;
    uint32_t evidence_count;
    struct weir_verdict_cause *causes; /* the one that explains most first; the first one is the verdict */
    uint32_t cause_count;              /* 0: nothing was found */
};

#endif
