/*
 * worker: a thread of a pool that takes items from queues and runs the segment behind each.
 * It stands behind a handoff and before the next one, or before the way back.
 *
 * Units: none.
 * Owns: its thread.
 * Threads: start and release are for the server's main thread.
 * Errors: a thread that can't be started.
 */
#ifndef WEIR_RUNTIME_WORKER_H
#define WEIR_RUNTIME_WORKER_H

#include "pipeline_dsl/runtime/queue.h"

struct weir_worker {
    pthread_t handle;
    const struct weir_plan *plan;
    struct weir_intake *intake;
    struct weir_queue *queues; /* [queue_count]: all of the server's */
    struct weir_slots *slots;  /* [slots_count]: likewise */
    uint32_t pool, number;
    bool started, ended; /* atomic: the thread has its slot; the thread is done */
};

int weir_worker_start(struct weir_worker *worker, const struct weir_plan *plan, struct weir_intake *intake,
                      struct weir_queue *queues, struct weir_slots *slots, uint32_t pool, uint32_t number, struct weir_error *error);
/* Waits for the end of the thread, which comes when its intake is closed and empty. */
void weir_worker_release(struct weir_worker *worker);

#endif
