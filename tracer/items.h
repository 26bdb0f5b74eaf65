/*
 * items: takes item logs apart: how long each stage took an item, how long each queue held it.
 * It stands after the drain (the ring buffer, and logs read from outside) and before aggregate.
 *
 * Units: ticks in, ns out; counts are weighted.
 * Owns: its tables, until weir_items_release().
 * Threads: owner only.
 * Errors: a record that can't be is counted as hostile and left out; a gap in the sequence counts as lost.
 */
#ifndef WEIR_TRACER_ITEMS_H
#define WEIR_TRACER_ITEMS_H

#include <stdbool.h>

#include "base/histogram.h"
#include "base/topology.h"
#include "probes/contract.h"

/* One stage instance. */
struct weir_items_stage {
    bool replies;                   /* a reply, to one way in at least */
    uint32_t ring;                  /* of a reply to this way in, or WEIR_NONE */
    struct weir_histogram *service; /* null while nothing came */
    uint64_t stamped;
    double bytes, bytes_weight; /* sizes of the items that passed, and how many they were */
};

struct weir_items_queue {
    bool is_ring; /* a reply ring: it holds an item until that is written; a handoff until it is popped */
    struct weir_histogram wait;
    double held_ns; /* item-ns that the queue held within the window: over its length, the mean depth */
    uint64_t across_begin, across_end; /* items that it held at the window's ends, and that have left since */
    uint64_t depth_items_max, depth_bytes_max; /* right after a push */
};

struct weir_items {
    uint32_t instance_count, queue_count;
    double ns_per_tick;
    struct weir_items_stage *stages; /* [instance_count] */
    struct weir_items_queue *queues; /* [queue_count] */
    uint64_t kept, lost, hostile;    /* records */
    uint64_t begin_ticks, end_ticks; /* the window, for waits */
    struct {
        bool known;
        uint32_t generation;
        uint64_t next;                    /* sequence number of the first record not seen yet */
        uint64_t begin_ticks, end_ticks;  /* when this thread's counters were read at the window's ends */
    } slots[WEIR_THREAD_SLOTS];
};

int weir_items_init(struct weir_items *items, const struct weir_topology *topology);
void weir_items_release(struct weir_items *items);

/* The window opens or closes for one slot. Records from before the opening are left out; until the closing all later ones count. */
void weir_items_begin(struct weir_items *items, uint32_t slot, uint64_t ticks);
void weir_items_end(struct weir_items *items, uint32_t slot, uint64_t ticks);

/* Would a hand-over with this base leave a gap behind what was seen so far? Then what is in the ring buffer comes first. */
bool weir_items_gap(const struct weir_items *items, uint32_t slot, uint32_t generation, uint64_t base);

/* Takes in `count` records of a log that starts at sequence number `base`. */
void weir_items_add(struct weir_items *items, uint32_t slot, uint32_t generation, uint64_t base,
                    const struct weir_contract_record *records, uint32_t count);

#endif
