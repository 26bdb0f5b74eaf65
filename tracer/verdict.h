/*
 * verdict: what holds the server back, judged from a profile and nothing else.
 * The command line applies it on reading, so that an old profile gets new rules.
 *
 * Units: none.
 * Owns: nothing; texts lie in the arena given.
 * Threads: any.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_TRACER_VERDICT_H
#define WEIR_TRACER_VERDICT_H

#include "base/arena.h"
#include "base/error.h"
#include "base/profile.h"
#include "base/verdict.h"

int weir_verdict_of(const struct weir_profile *profile, struct weir_arena *arena, struct weir_verdict *verdict,
                    struct weir_error *error);

#endif
