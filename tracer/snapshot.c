/*
 * DESIGN. A thread writes its cells while we copy them. In exact mode they are read until two copies that follow each other
 * agree; nothing was entered between the two, so the moment between them divides the thread's items cleanly: what it entered
 * before is in the cells, what it entered later is not. A thread that never pauses long enough is off by one or two items.
 *
 * Ticks reach a cell when the thread leaves the tag, and off-CPU time when the thread comes back. Both sides are therefore
 * carried on to the moment of the snapshot, or a thread that has slept for long would seem to have slept more than it was there.
 */
#include "tracer/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define TRIES_MOST 50
#define TAKES_MOST 5
#define SPAN_MOST_NS 2000000u

int weir_snapshot_init(struct weir_snapshot *snapshot, uint32_t tag_count, const struct weir_topology *topology)
{
    uint32_t queue_count = topology->queue_count, way_count = topology->way_count, slot_count = weir_topology_slots(topology);
    *snapshot = (struct weir_snapshot){ .tag_count = tag_count, .queue_count = queue_count, .way_count = way_count,
                                        .slot_count = slot_count };
    snapshot->queues = calloc((size_t)queue_count + 1, sizeof *snapshot->queues);
    snapshot->ways = calloc((size_t)way_count + 1, sizeof *snapshot->ways);
    snapshot->wakes = calloc((size_t)queue_count + 1, sizeof *snapshot->wakes);
    snapshot->slots = calloc((size_t)slot_count + 1, sizeof *snapshot->slots);
    snapshot->slot_times = calloc((size_t)slot_count + 1, sizeof *snapshot->slot_times);
    if (snapshot->queues && snapshot->ways && snapshot->wakes && snapshot->slots && snapshot->slot_times)
        return 0;
    weir_snapshot_release(snapshot);
    return -ENOMEM;
}

void weir_snapshot_release(struct weir_snapshot *snapshot)
{
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        free(snapshot->threads[i].cells);
        free(snapshot->threads[i].off_tags);
        free(snapshot->threads[i].places);
    }
    free(snapshot->queues);
    free(snapshot->ways);
    free(snapshot->slots);
    free(snapshot->slot_times);
    free(snapshot->wakes);
    *snapshot = (struct weir_snapshot){ .ns = 0 };
}

int weir_snapshot_need(struct weir_snapshot *snapshot, uint32_t slot, bool exact)
{
    struct weir_snapshot_thread *thread = &snapshot->threads[slot];
    if (!thread->cells)
        thread->cells = calloc(snapshot->tag_count, sizeof *thread->cells);
    if (exact && !thread->off_tags)
        thread->off_tags = calloc(snapshot->tag_count, sizeof *thread->off_tags);
    if (!thread->places)
        thread->places = calloc(1, sizeof *thread->places);
    return thread->cells && thread->places && (thread->off_tags || !exact) ? 0 : -ENOMEM;
}

/* The sleep under way counts where it will be counted when it ends. */
static void carry_on(struct weir_probe_places *places, const struct weir_probe_thread *probed, uint64_t slept_ns, uint64_t woken_ns)
{
    uint32_t wait = WEIR_WAIT_WORD(probed->off_kind, probed->off_object);
    struct weir_probe_place *place = NULL, *room = NULL;
    for (unsigned i = 0; i < WEIR_PROBE_PLACES && !place; i++) {
        struct weir_probe_place *at = &places->list[i];
        if (at->count && at->tag == probed->off_tag && at->wait == wait && at->site == probed->off_site)
            place = at;
        else if (!at->count && !room)
            room = at;
    }
    if (!place && room) {
        *room = (struct weir_probe_place){ .tag = probed->off_tag, .wait = wait, .site = probed->off_site, .count = 1 };
        place = room;
    }
    if (!place)
        return;
    place->ns += slept_ns;
    place->runnable_ns += woken_ns;
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
        if (probed->off_kind == WEIR_PROBE_RUNNABLE)
            woken_ns = lasts_ns;
        thread->off_ns[probed->off_kind] += lasts_ns - woken_ns;
        thread->off_ns[WEIR_PROBE_RUNNABLE] += woken_ns;
        if (thread->places)
            carry_on(thread->places, probed, lasts_ns - woken_ns, woken_ns);
    }
    /* The clock runs on while the hypervisor steals the CPU; the kernel's own sum, once it comes, is the smaller one. */
    if (on_cpu_ns > thread->on_cpu_ns)
        thread->on_cpu_ns = on_cpu_ns;
}

/* What belongs together of one thread, and changes at every crossing and switch. */
struct reading {
    struct weir_contract_cell *cells;
    uint64_t *off_tags;
    struct weir_contract_thread slot;
    struct weir_probe_thread probed;
};

static int read_once(const struct weir_target *target, const struct weir_probe *probe, uint32_t slot, struct reading *to)
{
    uint32_t tag_count = target->contract.tag_count;
    size_t size = tag_count * sizeof *to->cells;
    weir_probe_read_thread(probe, slot, &to->probed, NULL);
    memcpy(to->off_tags, weir_probe_off_tags(probe, slot), tag_count * sizeof *to->off_tags);
    struct iovec local[] = { { to->cells, size }, { &to->slot, sizeof to->slot } };
    struct iovec remote[] = { { (void *)(uintptr_t)(target->contract.cells + slot * size), size },
                              { (void *)(uintptr_t)(target->contract.threads + slot * sizeof to->slot), sizeof to->slot } };
    return weir_process_read_pieces(&target->process, local, 2, remote, 2);
}

static bool agree(const struct reading *a, const struct reading *b, uint32_t tag_count)
{
    return memcmp(a->cells, b->cells, tag_count * sizeof *a->cells) == 0 &&
           memcmp(a->off_tags, b->off_tags, tag_count * sizeof *a->off_tags) == 0 &&
           memcmp(&a->slot, &b->slot, sizeof a->slot) == 0 && a->probed.sequence == b->probed.sequence;
}

/* The tag that the thread is at, and the sleep that it is in, are not in the sums yet: adds them up to now. */
static void add_under_way(struct weir_snapshot_thread *thread, const struct reading *reading, uint32_t tag_count, uint64_t now_ns)
{
    const struct weir_contract_thread *slot = &reading->slot;
    const struct weir_probe_thread *probed = &reading->probed;
    if (slot->tag_ticks && slot->tag < tag_count && slot->tag_ticks < thread->cut_ticks)
        thread->cells[slot->tag].ticks += thread->cut_ticks - slot->tag_ticks;
    if (slot->tag_ticks && probed->state == WEIR_PROBE_OFF && probed->off_counts && probed->off_tag < tag_count &&
        probed->since_ns < now_ns)
        thread->off_tags[probed->off_tag] += now_ns - probed->since_ns;
}

static int read_exactly(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                        uint32_t slot)
{
    struct weir_snapshot_thread *thread = &snapshot->threads[slot];
    struct reading first = { .cells = thread->cells, .off_tags = thread->off_tags }, second = { .cells = NULL };
    uint64_t now_ns = 0;
    second.cells = malloc(snapshot->tag_count * sizeof *second.cells);
    second.off_tags = malloc(snapshot->tag_count * sizeof *second.off_tags);
    int rc = second.cells && second.off_tags ? 0 : -ENOMEM;
    bool done = false;
    for (int tries = 0; !rc && !done && tries < TRIES_MOST; tries++) {
        rc = read_once(target, probe, slot, &first);
        thread->cut_ticks = weir_clock_ticks();
        now_ns = weir_clock_ns();
        if (!rc)
            rc = read_once(target, probe, slot, &second);
        done = !rc && agree(&first, &second, snapshot->tag_count);
    }
    if (!rc && (target->contract.features & WEIR_CONTRACT_TAG_TICKS))
        add_under_way(thread, &first, snapshot->tag_count, now_ns);
    free(second.cells);
    free(second.off_tags);
    return rc;
}

static int read_cells(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                      uint32_t slot)
{
    if (probe->exact)
        return read_exactly(snapshot, target, probe, slot);
    int rc = weir_target_read_cells(target, slot, snapshot->threads[slot].cells);
    snapshot->threads[slot].cut_ticks = weir_clock_ticks();
    return rc;
}

static int read_accounting(struct weir_snapshot *snapshot, const struct weir_probe *probe, uint32_t slot, bool seen)
{
    struct weir_snapshot_thread *thread = &snapshot->threads[slot];
    struct weir_probe_thread probed;
    int rc = seen ? weir_snapshot_need(snapshot, slot, probe->exact) : 0;
    if (rc)
        return rc;
    weir_probe_read_thread(probe, slot, &probed, thread->places);
    thread->switches = probed.switches;
    thread->preempted = probed.preempted;
    weir_snapshot_extrapolate(thread, &probed, snapshot->ns);
    return 0;
}

static int take_once(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                       const struct weir_contract_thread slots[WEIR_THREAD_SLOTS])
{
    snapshot->process_cpu_ns = weir_process_cpu_ns(&target->process);
    snapshot->ns = weir_clock_ns();
    int rc = 0;
    for (uint32_t i = 0; !rc && i < WEIR_THREAD_SLOTS; i++)
        rc = read_accounting(snapshot, probe, i, slots[i].generation != 0);
    for (uint32_t i = 0; i < snapshot->queue_count; i++)
        snapshot->wakes[i] = weir_probe_wakes(probe, i);
    if (!rc)
        rc = weir_target_read_queues(target, snapshot->queues);
    if (!rc)
        rc = weir_target_read_ways(target, snapshot->ways);
    if (!rc)
        rc = weir_target_read_slots(target, snapshot->slots, snapshot->ns);
    for (uint32_t i = 0; !rc && i < snapshot->slot_count; i++)
        rc = weir_target_read_slot_times(target, i, &snapshot->slot_times[i]);
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
        if (slots[i].tid)
            thread->tid = slots[i].tid;
        rc = read_cells(snapshot, target, probe, i);
    }
    return rc;
}

int weir_snapshot_take(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                       const struct weir_contract_thread slots[WEIR_THREAD_SLOTS])
{
    /* On a crowded machine we may lose the CPU in between, and half of the numbers would be of another moment. */
    int rc = 0;
    for (int takes = 0; !rc && takes < TAKES_MOST; takes++) {
        rc = take_once(snapshot, target, probe, slots);
        if (weir_clock_ns() - snapshot->ns < SPAN_MOST_NS)
            break;
    }
    return rc;
}
