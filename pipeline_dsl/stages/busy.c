/*
 * DESIGN: the thread's CPU clock costs 0.6 us a reading, most of it in the kernel. So the time is burned in a loop on the time
 * stamp counter, and the clock is read at the start and when the counter says that it should be over; a thread that was
 * preempted meanwhile goes on. The readings themselves burn CPU time of this stage, half of each outside of what they show:
 * one reading's cost is measured once, and counted in.
 */
#include <time.h>

#include "pipeline_dsl/stages/stages.h"

#define READINGS_LEAST 1000u

static double ticks_per_ns = 1;
static uint64_t reading_ns;

/* Before any item comes, so that no stage pays for it. */
__attribute__((constructor)) static void calibrate(void)
{
    struct weir_clock_pair first = weir_clock_pair();
    reading_ns = UINT64_MAX;
    /* By number, too: on a crowded machine the thread may get a CPU for its first readings only, which are dear. */
    for (unsigned i = 0; i < READINGS_LEAST || weir_clock_ns() - first.ns < 2000000; i++) {
        uint64_t before = weir_clock_thread_cpu_ns();
        uint64_t cost = weir_clock_thread_cpu_ns() - before;
        if (cost < reading_ns)
            reading_ns = cost;
    }
    ticks_per_ns = 1 / weir_clock_ns_per_tick(first, weir_clock_pair());
}

static void burn_ticks(uint64_t ticks)
{
    uint64_t start = weir_clock_ticks();
    while (weir_clock_ticks() - start < ticks)
        __asm__ volatile("" ::: "memory");
}

/* Returns what it burned. */
__attribute__((noinline)) static uint64_t burn(uint64_t cpu_ns)
{
    uint64_t start = weir_clock_thread_cpu_ns();
    uint64_t burned = reading_ns;
    while (burned + reading_ns <= cpu_ns) {
        burn_ticks((uint64_t)((double)(cpu_ns - burned - reading_ns) * ticks_per_ns));
        burned = weir_clock_thread_cpu_ns() - start + reading_ns;
    }
    return burned;
}

enum weir_outcome weir_stage_busy(struct weir_thread *thread, struct weir_item *item, uint32_t stage, uint64_t cpu_ns,
                                  uint64_t pause_ns)
{
    (void)item;
    if (cpu_ns)
        weir_thread_add_own_cpu(thread, stage, burn(cpu_ns));
    if (pause_ns) {
        struct timespec left = { (time_t)(pause_ns / 1000000000u), (long)(pause_ns % 1000000000u) };
        weir_thread_sleep_begin(thread, WEIR_WAIT_PAUSE, 0);
        while (nanosleep(&left, &left) != 0)
            ;
        weir_thread_sleep_end(thread);
    }
    return WEIR_NEXT;
}
