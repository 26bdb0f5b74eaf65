/*
 * verdict: one sentence about what holds a server back, with its evidence.
 * The rules (tracer/verdict.c) make it from a profile; every view shows it.
 *
 * Units: none.
 * Owns: nothing; texts lie in the arena it was made in.
 * Threads: any (read only).
 * Errors: none.
 */
#ifndef WEIR_BASE_VERDICT_H
#define WEIR_BASE_VERDICT_H

#include <stdint.h>

struct weir_verdict {
    const char *kind;  /* "unclear", "idle", … */
    const char *stage; /* full name of the stage it speaks of; null: of none */
    const char *text;  /* one sentence, no full stop */
    const char **evidence;
    uint32_t evidence_count;
};

#endif
