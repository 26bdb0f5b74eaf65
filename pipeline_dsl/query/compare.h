/*
 * compare: two values of a query, by kind and without loss.
 * It stands behind match.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_QUERY_COMPARE_H
#define WEIR_QUERY_COMPARE_H

#include "pipeline_dsl/query/query.h"

/* `=`: of one kind and the same. The integer 1 is not the double 1.0, nil is nil, NaN is nothing. */
bool weir_query_equal(struct weir_query_value a, struct weir_query_value b);

enum weir_query_order { WEIR_QUERY_BEFORE, WEIR_QUERY_SAME, WEIR_QUERY_BEHIND, WEIR_QUERY_UNORDERED };

/* Where a stands to b as numbers, whatever their kinds; UNORDERED when one is no number, or NaN. */
enum weir_query_order weir_query_compare(struct weir_query_value a, struct weir_query_value b);

#endif
