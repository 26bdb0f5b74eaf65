/*
 * check: tree -> topology: looks up the names, walks each pipeline as an item would, and fills in every default.
 * It stands between parse and whoever uses the topology.
 *
 * Units: as in base/topology.h.
 * Owns: nothing; the topology lies in the arena given.
 * Threads: owner only.
 * Errors: in the bag; with any, the topology is not to be used. -ENOMEM.
 */
#ifndef WEIR_LANG_CHECK_H
#define WEIR_LANG_CHECK_H

#include "pipeline_dsl/lang/tree.h"

/* decode's `max` unless said: what one message may take in memory. */
#define WEIR_DECODE_MAX_BYTES ((uint64_t)64 << 20)
/* Without `items` a queue holds at most one item for each so many bytes of its limit. */
#define WEIR_QUEUE_BYTES_PER_ITEM 256u

int weir_check(const struct weir_tree *tree, struct weir_diag_bag *bag, struct weir_arena *arena, struct weir_topology *topology);

/* Checks the one expectation of a tree from weir_parse_expectation() against a topology that exists. */
int weir_check_expectation(const struct weir_tree *tree, struct weir_diag_bag *bag, struct weir_arena *arena,
                           const struct weir_topology *topology, struct weir_topology_expectation *expectation);

#endif
