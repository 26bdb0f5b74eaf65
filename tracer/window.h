/*
 * window: what is measured between two snapshots: samples, queue depths, items, and the 100 ms slices.
 * It stands between session, which drives it, and aggregate, which makes the profile's numbers of it.
 *
 * Units: ns of CLOCK_MONOTONIC.
 * Owns: its snapshots and tables, until weir_window_release(); the profile belongs to the session.
 * Threads: owner only.
 * Errors: -ENOMEM, or what reading the target gave.
 */
#ifndef WEIR_TRACER_WINDOW_H
#define WEIR_TRACER_WINDOW_H

#include "base/clock.h"
#include "base/profile.h"
#include "tracer/items.h"
#include "tracer/rows.h"
#include "tracer/snapshot.h"
#include "tracer/stacks.h"

struct weir_window {
    struct weir_profile *profile; /* its topology and rows are there from the start */
    struct weir_rows rows;
    struct weir_items items;
    struct weir_stacks stacks;
    struct weir_snapshot begin, last, now;
    bool open;
    uint32_t tag_count;
    double ns_per_tick;
    struct weir_clock_pair pair; /* taken at the attach */
    /* samples of [slot][tag], of the window and of the slice under way; null until the slot shows one. The last slot is the outside. */
    uint64_t *samples[WEIR_THREAD_SLOTS + 1], *slice_samples[WEIR_THREAD_SLOTS + 1];
    uint64_t samples_kept;
    double outside_ns; /* CPU time of threads without a slot, at `last` */
    struct weir_profile_slice *slices;
    uint32_t slice_count, slice_capacity;
    uint64_t queues_read_ns; /* when the queue blocks were last read */
    uint64_t slots_read_ns;  /* likewise */
};

int weir_window_init(struct weir_window *window, struct weir_profile *profile);
void weir_window_release(struct weir_window *window);

/* The window begins with `window->begin`, which has just been taken. */
void weir_window_begin(struct weir_window *window);
/* One more reading of the queue blocks at `now_ns`: counts with the time since the last one. */
void weir_window_depths(struct weir_window *window, const struct weir_profile_queue_count *queues, uint64_t now_ns);
/* One reading of the ways in: counts each open connection once. What is in flight is spread evenly over them, which is all that can be
 * told from outside; where no requests overlap it is exact. */
void weir_window_connections(struct weir_window *window, const struct weir_profile_way_count *ways);
void weir_window_sample(struct weir_window *window, const struct weir_probe_sample *sample);
/* `window->now` has just been taken: what lies since `window->last` becomes a slice, and now becomes last. */
int weir_window_slice(struct weir_window *window);
/* The window ends with `window->last`. */
void weir_window_end(struct weir_window *window);

#endif
