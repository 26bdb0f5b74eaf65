/*
 * predict: what a changed file would do: its stages cost what they cost in a profile, its pools, queues and slots are simulated.
 * It stands between a profile, a checked topology, and simulate.
 *
 * Stages are matched by their full name, wherever they stand now. A stage that the profile does not know is an error, but for
 * `busy`, whose cost the file states, and for what costs next to nothing. Clients are taken as they were: a fixed number of requests
 * under way where the server was what they waited for, else a fixed rate.
 *
 * Units: as in base/prediction.h.
 * Owns: nothing; results lie in the arena given.
 * Threads: any.
 * Errors: -EINVAL with a sentence for what can't be predicted; -ENOMEM.
 */
#ifndef WEIR_TRACER_PREDICT_H
#define WEIR_TRACER_PREDICT_H

#include "base/error.h"
#include "base/prediction.h"
#include "base/profile.h"

int weir_predict(const struct weir_profile *profile, const struct weir_topology *topology, struct weir_arena *arena,
                 struct weir_prediction *prediction, struct weir_error *error);

#endif
