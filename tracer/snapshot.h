/*
 * snapshot: every counter of the target and of the probes at one moment. A window lies between two of them.
 * It stands between the drain and aggregate; a slice is the difference of two that follow each other.
 *
 * Units: ns of CLOCK_MONOTONIC, ticks.
 * Owns: its arrays, until weir_snapshot_release().
 * Threads: owner only.
 * Errors: -errno from reading the target; then the snapshot must not be used.
 */
#ifndef WEIR_TRACER_SNAPSHOT_H
#define WEIR_TRACER_SNAPSHOT_H

#include "base/profile.h"
#include "tracer/probe.h"
#include "tracer/target.h"

/* One thread slot. Sums since the server started (cells) or since the attach (the rest); all only grow. */
struct weir_snapshot_thread {
    bool seen;            /* the slot has, or had, a thread */
    uint32_t pool;
    uint32_t generation;
    uint32_t tid;         /* the last one that the slot had */
    uint64_t switches, preempted;
    uint64_t unstamped;
    uint64_t cut_ticks;   /* when the cells were read */
    uint64_t on_cpu_ns;
    uint64_t off_ns[WEIR_PROBE_OFF_KINDS];
    struct weir_contract_cell *cells; /* [tag_count]; null until the slot is seen */
    uint64_t *off_tags;               /* [tag_count], exact mode; else null */
    struct weir_probe_places *places; /* null until the slot is seen */
};

struct weir_snapshot {
    uint64_t ns;
    uint64_t process_cpu_ns;
    struct weir_profile_queue_count *queues; /* [queue_count] */
    struct weir_profile_way_count *ways;     /* [way_count] */
    struct weir_probe_wakes *wakes;          /* [queue_count], since the attach */
    struct weir_profile_slot_count *slots;       /* [slot_count] */
    struct weir_contract_slot_times *slot_times; /* [slot_count] */
    uint32_t queue_count, way_count, slot_count, tag_count;
    uint32_t thread_overflow;
    struct weir_snapshot_thread threads[WEIR_THREAD_SLOTS];
};

int weir_snapshot_init(struct weir_snapshot *snapshot, uint32_t tag_count, const struct weir_topology *topology);
void weir_snapshot_release(struct weir_snapshot *snapshot);
/* Room for the cells of `slot`; -ENOMEM when there is none. */
int weir_snapshot_need(struct weir_snapshot *snapshot, uint32_t slot, bool exact);

/* Reads everything. `slots` is the target's thread table as read just before. */
int weir_snapshot_take(struct weir_snapshot *snapshot, const struct weir_target *target, const struct weir_probe *probe,
                       const struct weir_contract_thread slots[WEIR_THREAD_SLOTS]);

/* What a thread's sums are at `now_ns`: what had ended, and the state that still lasts. A wakeup divides a sleep in two. Those of its
 * places are carried on, too, when it has some. */
void weir_snapshot_extrapolate(struct weir_snapshot_thread *thread, const struct weir_probe_thread *probed, uint64_t now_ns);

#endif
