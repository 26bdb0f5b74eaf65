/*
 * prediction: what a changed file is expected to do, as a table and as JSON.
 *
 * Units: as in base/prediction.h.
 * Owns: nothing.
 * Threads: any.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_VIZ_PREDICTION_H
#define WEIR_VIZ_PREDICTION_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/prediction.h"

int weir_prediction_table(const struct weir_prediction *prediction, struct weir_buffer *out, struct weir_error *error);
int weir_prediction_json(const struct weir_prediction *prediction, struct weir_buffer *out, struct weir_error *error);

#endif
