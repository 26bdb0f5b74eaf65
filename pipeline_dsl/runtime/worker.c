#include "pipeline_dsl/runtime/worker.h"

#include <stdio.h>
#include <string.h>

#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/timer.h"

/* The next item; meanwhile timers fire, those that are due before each item, and when the server drains all of them. */
static struct weir_item *take(struct weir_worker *worker, struct weir_thread *thread, struct weir_queue **queue)
{
    for (;;) {
        if (thread->due_ns)
            weir_timers_fire(thread, WEIR_TIMERS_DUE);
        struct weir_item *item = weir_intake_take(worker->intake, thread, queue);
        if (item || !thread->due_ns)
            return item;
        bool discards = __atomic_load_n(&worker->intake->discards, __ATOMIC_RELAXED);
        bool hurries = __atomic_load_n(&worker->intake->hurries, __ATOMIC_RELAXED);
        weir_timers_fire(thread, discards ? WEIR_TIMERS_END : hurries ? WEIR_TIMERS_ALL : WEIR_TIMERS_DUE);
    }
}

static void *run(void *argument)
{
    struct weir_worker *worker = argument;
    struct weir_thread thread;
    struct weir_queue *queue;
    struct weir_item *item;
    char name[16];
    snprintf(name, sizeof name, "%s-%u", worker->plan->pools[worker->pool].name, worker->number);
    pthread_setname_np(pthread_self(), name);
    weir_thread_start(&thread, worker->plan, worker->pool);
    thread.queues = worker->queues;
    thread.slots = worker->slots;
    __atomic_store_n(&worker->started, true, __ATOMIC_RELEASE);
    while ((item = take(worker, &thread, &queue))) {
        bool discards = __atomic_load_n(&worker->intake->discards, __ATOMIC_RELAXED);
        if (queue)
            weir_item_segment_begin(&thread, item, queue->index, queue->plan->run_stage + item->lane);
        if (__builtin_expect(discards, 0)) {
            weir_item_refuse(item, "the server ends");
            weir_loop_refuse(&thread, item);
        } else if (queue) {
            queue->plan->run(&thread, item);
        } else {
            weir_inside_run(&thread, item);
        }
    }
    weir_thread_stop(&thread);
    __atomic_store_n(&worker->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

int weir_worker_start(struct weir_worker *worker, const struct weir_plan *plan, struct weir_intake *intake,
                      struct weir_queue *queues, struct weir_slots *slots, uint32_t pool, uint32_t number, struct weir_error *error)
{
    *worker = (struct weir_worker){ .plan = plan, .intake = intake, .queues = queues, .slots = slots, .pool = pool, .number = number };
    int code = pthread_create(&worker->handle, NULL, run, worker);
    if (code)
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't start a thread of pool %s: %s", plan->pools[pool].name,
                              strerror(code));
    return 0;
}

void weir_worker_release(struct weir_worker *worker)
{
    pthread_join(worker->handle, NULL);
}
