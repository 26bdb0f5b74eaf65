/*
 * rows: the stage table's rows, and which of them the time spent at a tag belongs to.
 * It stands between the tags that the target's threads carry and the profile.
 *
 * Units: none.
 * Owns: the tag table, until weir_rows_release(); the rows lie in the profile's arena.
 * Threads: owner only.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_TRACER_ROWS_H
#define WEIR_TRACER_ROWS_H

#include "base/profile.h"

enum { WEIR_ROW_RUNTIME, WEIR_ROW_TRACING, WEIR_ROW_OUTSIDE, WEIR_ROW_STAGES };

/* A tag's time counts in its stage's row, in its part's row, and in the row of its way in; WEIR_NONE where there is none. */
struct weir_rows_tag {
    uint32_t stage, part, way;
};

struct weir_rows {
    struct weir_rows_tag *tags; /* [tag_count] */
    uint32_t tag_count;
    uint32_t row_count;
    uint32_t *stage_rows;       /* [stage_count]: the row of a topology's stage */
};

/* Makes profile->rows from profile->topology, without any numbers. */
int weir_rows_build(struct weir_rows *rows, struct weir_profile *profile);
void weir_rows_release(struct weir_rows *rows);

/* The innermost row of a tag; a tag that can't be is the runtime's. */
uint32_t weir_rows_leaf(const struct weir_rows *rows, uint32_t tag);

/* Adds `value` to each row that the tag counts in; `sums` is [row_count]. */
void weir_rows_add(const struct weir_rows *rows, double *sums, uint32_t tag, double value);
void weir_rows_add_count(const struct weir_rows *rows, uint64_t *sums, uint32_t tag, uint64_t value);

#endif
