/*
 * prediction: what a changed file is expected to do, from what was measured of another one.
 * The tracer makes it (tracer/predict.c); the views show it.
 *
 * Units: as each field says; shares are 0 to 1.
 * Owns: nothing; arrays and texts lie in the arena it was made in.
 * Threads: any (read only).
 * Errors: none.
 */
#ifndef WEIR_BASE_PREDICTION_H
#define WEIR_BASE_PREDICTION_H

#include <stdint.h>

/* `now` is of the measured file: measured where the profile knows it, else simulated like the rest. NAN: unknown. */
struct weir_prediction_figure {
    double now, value, low, high; /* low and high: 95 % */
};

struct weir_prediction_stage {
    const char *name; /* full name, of the changed file */
    const char *pool;
    struct weir_prediction_figure cpu_share;
};

struct weir_prediction_pool {
    const char *name;
    uint32_t threads, threads_now; /* threads_now: 0 where the measured file lacks it */
    struct weir_prediction_figure busy; /* neither idle nor waiting for room in a queue */
};

struct weir_prediction {
    struct weir_prediction_figure messages_per_s, events_per_s, refused_per_s;
    struct weir_prediction_figure latency_p50_ns, latency_p99_ns; /* request sent to answer sent; `now` is simulated */
    struct weir_prediction_figure cpus;
    double simulated_per_s; /* messages of the measured file, by the same simulation: how far it can be believed */
    const char *next;       /* one sentence: what holds the changed server back */
    const char *next_stage; /* its full name; null: none */
    struct weir_prediction_stage *stages;
    struct weir_prediction_pool *pools;
    uint32_t stage_count, pool_count;
};

#endif
