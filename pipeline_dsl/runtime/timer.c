/* A thread has a handful of timers, one for each batch and way in: a list does. */
#include "pipeline_dsl/runtime/timer.h"

#include "pipeline_dsl/runtime/loop.h"

static void find_next_due(struct weir_thread *thread)
{
    thread->due_ns = 0;
    for (const struct weir_timer *timer = thread->timers; timer; timer = timer->next)
        if (!thread->due_ns || timer->due_ns < thread->due_ns)
            thread->due_ns = timer->due_ns;
}

void weir_timer_arm(struct weir_thread *thread, struct weir_timer *timer, uint64_t due_ns)
{
    weir_timer_disarm(thread, timer);
    timer->due_ns = due_ns;
    timer->next = thread->timers;
    thread->timers = timer;
    if (thread->due_ns && thread->due_ns <= due_ns)
        return;
    thread->due_ns = due_ns;
    if (thread->loop)
        weir_loop_wake_at(thread->loop, due_ns);
}

void weir_timer_disarm(struct weir_thread *thread, struct weir_timer *timer)
{
    if (!timer->due_ns)
        return;
    struct weir_timer **at = &thread->timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->due_ns = 0;
    find_next_due(thread);
}

void weir_timers_fire(struct weir_thread *thread, enum weir_timers which)
{
    uint64_t now = weir_clock_ns();
    while (thread->due_ns && (which != WEIR_TIMERS_DUE || thread->due_ns <= now)) {
        struct weir_timer *timer = thread->timers;
        while (timer->due_ns != thread->due_ns)
            timer = timer->next;
        weir_timer_disarm(thread, timer);
        timer->fire(thread, timer, which == WEIR_TIMERS_END);
    }
    if (thread->loop && thread->due_ns)
        weir_loop_wake_at(thread->loop, thread->due_ns);
}
