/*
 * What it costs to go from one stage to the next: the same calls that generated code makes, in a loop, untraced, and with every
 * item stamped as in `light` at its most expensive (weight 1). The runs alternate; medians are printed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pipeline_dsl/runtime/item.h"

#define STAGES 8u
#define CALLS 200000u
#define ROUNDS 31

static struct weir_contract_cell cells[WEIR_THREAD_SLOTS * ((WEIR_INSTANCE_FIRST + STAGES) << WEIR_TAG_PART_BITS)];
static struct weir_contract_queue queue_blocks[1];
static struct weir_contract_way way_blocks[1];
static const struct weir_plan_pool pools[1] = { { .name = "bench", .threads = 1, .listens = false } };
static const char *const stages[STAGES] = { "a", "b", "c", "d", "e", "f", "g", "h" };

static struct weir_thread thread;
static struct weir_item item;

static double cost[2][ROUNDS];


static int order(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;
    return d < 0 ? -1 : d > 0;
}

/* ns a crossing, over items that pass STAGES stages; the record's begin and end are part of a stamped item's cost. */
static __attribute__((noinline)) double run(bool stamped)
{
    uint64_t start = weir_clock_ns();
    for (unsigned i = 0; i < CALLS / STAGES; i++) {
        item.weight = stamped ? 1 : 0;
        weir_item_segment_begin(&thread, &item, WEIR_NO_QUEUE, WEIR_INSTANCE_FIRST);
        for (unsigned s = 0; s < STAGES; s++) {
            weir_item_enter(&thread, &item, WEIR_INSTANCE_FIRST + s);
            __asm__ volatile("" ::: "memory");
        }
        if (stamped)
            weir_item_segment_end(&thread, &item.record);
    }
    return (double)(weir_clock_ns() - start) / CALLS;
}

int main(void)
{
    struct weir_plan plan = { .name = "bench", .pools = pools, .pool_count = 1, .stages = stages, .stage_count = STAGES, .shards = 1,
        .cells = cells, .queue_blocks = queue_blocks, .way_blocks = way_blocks };
    weir_contract_publish(&plan);
    weir_thread_start(&thread, &plan, 0);
    for (int i = 0; i < ROUNDS; i++)
        for (int stamped = 0; stamped < 2; stamped++)
            cost[stamped][i] = run(stamped);
    for (int stamped = 0; stamped < 2; stamped++) {
        double *c = cost[stamped], goal = stamped ? 30 : 5;
        qsort(c, ROUNDS, sizeof *c, order);
        printf("%-34s %.2f ns (median of %d; quartiles %.2f to %.2f)  goal <= %.0f: %s\n",
            stamped ? "crossing, stamped" : "crossing, untraced", c[ROUNDS / 2], ROUNDS, c[ROUNDS / 4], c[3 * ROUNDS / 4], goal,
            c[ROUNDS / 2] <= goal ? "met" : "MISSED");
    }
    return 0;
}
