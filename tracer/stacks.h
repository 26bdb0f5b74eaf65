/*
 * stacks: counts which user stacks the CPU samples of each row showed.
 * It stands after the drain and before symbols, which names the addresses.
 *
 * Units: samples.
 * Owns: its table, until weir_stacks_release().
 * Threads: owner only.
 * Errors: when the table is full a new stack counts in `dropped`; its sample counts everywhere else.
 */
#ifndef WEIR_TRACER_STACKS_H
#define WEIR_TRACER_STACKS_H

#include <stdint.h>

#define WEIR_STACKS_MOST 16384u /* different ones */
#define WEIR_STACK_FRAMES 32u

struct weir_stacks_entry {
    uint64_t samples; /* of slices that have ended */
    uint64_t pending; /* of the slice under way; both 0: free */
    uint32_t row;
    uint32_t frame_count;
    uint64_t frames[WEIR_STACK_FRAMES]; /* innermost first */
};

struct weir_stacks {
    struct weir_stacks_entry *entries; /* [capacity], open addressing */
    uint32_t capacity, used;
    uint64_t dropped;
};

void weir_stacks_add(struct weir_stacks *stacks, uint32_t row, const uint64_t *frames, uint32_t frame_count);
/* The slice under way has ended: its samples count. Those of one that never ends don't. */
void weir_stacks_fold(struct weir_stacks *stacks);
void weir_stacks_release(struct weir_stacks *stacks);

#endif
