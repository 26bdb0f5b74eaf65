#include "tracer/standing.h"

#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "tracer/aggregate.h"
#include "tracer/target.h"

#define TRIES_MOST 10

static int read_counters(const struct weir_target *target, struct weir_snapshot *snapshot)
{
    struct weir_contract_thread slots[WEIR_THREAD_SLOTS];
    int rc = weir_target_read_threads(target, slots);
    for (uint32_t i = 0; !rc && i < WEIR_THREAD_SLOTS; i++) {
        if (slots[i].generation == 0)
            continue;
        snapshot->threads[i].seen = true;
        snapshot->threads[i].pool = slots[i].pool;
        snapshot->threads[i].generation = slots[i].generation;
        rc = weir_snapshot_need(snapshot, i, false);
        if (!rc)
            rc = weir_target_read_cells(target, i, snapshot->threads[i].cells);
    }
    if (!rc)
        rc = weir_target_read_queues(target, snapshot->queues);
    if (!rc)
        rc = weir_target_read_ways(target, snapshot->ways);
    if (!rc)
        rc = weir_target_read_slots(target, snapshot->slots, weir_clock_ns());
    if (!rc)
        rc = weir_target_read_overflow(target, &snapshot->thread_overflow);
    snapshot->ns = weir_clock_ns();
    return rc;
}

/* From the server's start, when all counters were 0, until now. */
static int count(const struct weir_target *target, struct weir_window *window)
{
    int rc = -EAGAIN;
    for (int tries = 0; rc == -EAGAIN && tries < TRIES_MOST; tries++)
        rc = read_counters(target, &window->last);
    window->begin.ns = target->contract.start_ns < window->last.ns ? target->contract.start_ns : window->last.ns;
    return rc ? rc : weir_aggregate(window, NULL, NULL);
}

static void describe(const struct weir_target *target, struct weir_profile *profile)
{
    struct utsname system;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    profile->pid = (uint32_t)target->process.pid;
    profile->exe = weir_arena_dup(&profile->arena, target->process.exe, strlen(target->process.exe));
    profile->kind = WEIR_TARGET_BUILT;
    profile->kernel = uname(&system) == 0 ? weir_arena_dup(&profile->arena, system.release, strlen(system.release)) : "";
    profile->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    profile->ended_by = "asked";
    profile->start_unix_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec - profile->duration_ns;
}

int weir_standing_take(const char *name, struct weir_profile *profile, struct weir_error *error)
{
    struct weir_target target;
    struct weir_window window;
    int rc = weir_target_open(&target, name, error);
    if (rc)
        return rc;
    rc = weir_topology_read(&profile->topology, &profile->arena, target.topology_data, target.contract.topology_bytes, error);
    if (rc) {
        weir_target_close(&target);
        return rc;
    }
    profile->mode = WEIR_MODE_COUNTERS;
    rc = weir_window_init(&window, profile);
    if (!rc)
        rc = count(&target, &window);
    if (rc)
        weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "can't read the counters of process %d: %s", (int)target.process.pid,
                       strerror(-rc));
    else
        describe(&target, profile);
    weir_window_release(&window);
    weir_target_close(&target);
    return rc;
}
