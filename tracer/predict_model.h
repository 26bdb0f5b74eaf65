/*
 * predict_model: the simulator's model of a topology, with the costs of a profile.
 * It stands between the profile and simulate; predict.c plays what it makes.
 *
 * Units: ns an item.
 * Owns: nothing; everything lies in the arena given.
 * Threads: any.
 * Errors: -EINVAL with a sentence for what can't be predicted; -ENOMEM.
 */
#ifndef WEIR_TRACER_PREDICT_MODEL_H
#define WEIR_TRACER_PREDICT_MODEL_H

#include "base/error.h"
#include "tracer/simulate.h"
#include "tracer/verdict_facts.h"

/* CPU time of each row of the profile, in all: the profile's own, or a resampling of its slices. */
struct weir_costs {
    const double *row_cpu_ns, *row_items; /* [row_count] */
};

/* Labels are the stages of `topology`, and one more for the runtime. */
int weir_predict_model(const struct weir_facts *facts, const struct weir_costs *costs, const struct weir_topology *topology,
                       struct weir_arena *arena, struct weir_simulate_model *model, struct weir_error *error);

#endif
