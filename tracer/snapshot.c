/*
 * DESIGN. A thread writes its cells while we copy them. In exact mode they are read until two copies that follow each other
 * agree; nothing was entered between the two, so the moment between them divides the thread's items cleanly: what it entered
 * before is in the cells, what it entered later is not. A thread that never pauses long enough is off by one or two items.
 */
#include "tracer/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define TRIES_MOST 50

int weir_snapshot_init(struct weir_snapshot *snapshot, uint32_t tag_count, uint32_t queue_count, uint32_t way_count)
{
    *snapshot = (struct weir_snapshot){ .tag_count = tag_count, .queue_count = queue_count, .way_count = way_count };
    snapshot->queues = calloc((size_t)queue_count + 1, sizeof *snapshot->queues);
    snapshot->ways = calloc((size_t)way_count + 1, sizeof *snapshot->ways);
    if (snapshot->queues && snapshot->ways)
        return 0;
    weir_snapshot_release(snapshot);
    return -ENOMEM;
}

void weir_snapshot_release(struct weir_snapshot *snapshot)
{
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        free(snapshot->threads[i].cells);
        free(snapshot->threads[i].off_tags);
    }
    free(snapshot->queues);
    free(snapshot->ways);
    *snapshot = (struct weir_snapshot){ .ns = 0 };
}

int weir_snapshot_need(struct weir_snapshot *snapshot, uint32_t slot, bool exact)
{
    struct weir_snapshot_thread *thread = &snapshot->threads[slot];
    if (!thread->cells)
        thread->cells = calloc(snapshot->tag_count, sizeof *thread->cells);
    if (exact && !thread->off_tags)
        thread->off_tags = calloc(snapshot->tag_count, sizeof *thread->off_tags);
    return thread->cells && (thread->off_tags || !exact) ? 0 : -ENOMEM;
}

void weir_snapshot_extrapolate(struct weir_snapshot_thread *thread, const struct weir_probe_thread *probed, uint64_t now_ns)
{
    uint64_t on_cpu_ns = probed->on_cpu_ns;
    uint64_t lasts_ns = now_ns > probed->since_ns ? now_ns - probed->since_ns : 0;
    memcpy(thread->off_ns, probed->off_ns, sizeof thread->off_ns);
    if (probed->state == WEIR_PROBE_RUNNING) {
        on_cpu_ns += lasts_ns;
    } else if (probed->state == WEIR_PROBE_OFF && probed->off_kind < WEIR_PROBE_OFF_KINDS) {
        uint64_t woken_ns = 0;
        if (probed->off_kind != WEIR_PROBE_RUNNABLE && probed->waking_ns && probed->waking_ns < now_ns)
            woken_ns = probed->waking_ns > probed->since_ns ? now_ns - probed->waking_ns : lasts_ns;
        thread->off_ns[probed->off_kind] += lasts_ns - woken_ns;
        thread->off_ns[WEIR_PROBE_RUNNABLE] += woken_ns;
    }
    /* The clock runs on while the hypervisor steals the CPU; the kernel's own sum, once it comes, is the smaller one. */
    if (on_cpu_ns > thread->on_cpu_ns)
        thread->on_cpu_ns = on_cpu_ns;
}

static int read_cells(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                      uint32_t slot, struct weir_contract_cell *spare)
{
    struct weir_snapshot_thread *thread = &snapshot->threads[slot];
    const uint64_t *off_tags = weir_probe_off_tags(probe, slot);
    size_t size = snapshot->tag_count * sizeof *spare;
    int rc = 0;
    for (int tries = 0; tries < (probe->exact ? TRIES_MOST : 1); tries++) {
        if (off_tags)
            memcpy(thread->off_tags, off_tags, snapshot->tag_count * sizeof *off_tags);
        rc = weir_target_read_cells(target, slot, thread->cells);
        thread->cut_ticks = weir_clock_ticks();
        if (rc || !off_tags)
            return rc;
        rc = weir_target_read_cells(target, slot, spare);
        if (rc || (memcmp(thread->cells, spare, size) == 0 &&
                   memcmp(thread->off_tags, off_tags, snapshot->tag_count * sizeof *off_tags) == 0))
            return rc;
    }
    return rc;
}

int weir_snapshot_take(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                       const struct weir_contract_thread slots[WEIR_THREAD_SLOTS])
{
    struct weir_contract_cell *spare = probe->exact ? malloc(snapshot->tag_count * sizeof *spare) : NULL;
    int rc = probe->exact && !spare ? -ENOMEM : 0;
    snapshot->process_cpu_ns = weir_process_cpu_ns(&target->process);
    snapshot->ns = weir_clock_ns();
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        struct weir_probe_thread probed;
        weir_probe_read_thread(probe, i, &probed);
        weir_snapshot_extrapolate(&snapshot->threads[i], &probed, snapshot->ns);
    }
    if (!rc)
        rc = weir_target_read_queues(target, snapshot->queues);
    if (!rc)
        rc = weir_target_read_ways(target, snapshot->ways);
    if (!rc)
        rc = weir_target_read_overflow(target, &snapshot->thread_overflow);
    for (uint32_t i = 0; !rc && i < WEIR_THREAD_SLOTS; i++) {
        struct weir_snapshot_thread *thread = &snapshot->threads[i];
        if (slots[i].generation == 0)
            continue;
        thread->seen = true;
        thread->pool = slots[i].pool;
        thread->generation = slots[i].generation;
        thread->unstamped = slots[i].unstamped;
        rc = weir_snapshot_need(snapshot, i, probe->exact);
        if (!rc)
            rc = read_cells(snapshot, target, probe, i, spare);
    }
    free(spare);
    return rc;
}
