/*
 * grid: columns of text that line up: the bare mechanism behind the text report.
 *
 * Units: columns are code points.
 * Owns: its cells, until weir_grid_release().
 * Threads: owner only.
 * Errors: running out of memory sets `failed` of the buffer it is written to.
 */
#ifndef WEIR_VIZ_GRID_H
#define WEIR_VIZ_GRID_H

#include "base/buffer.h"

#define WEIR_GRID_COLUMNS 12u

struct weir_grid {
    const char *align; /* one letter a column: l or r */
    struct weir_buffer *cells;
    size_t count, capacity;
    bool failed;
};

void weir_grid_init(struct weir_grid *grid, const char *align);
/* The next cell, row by row. Control bytes in it are escaped, `most` columns are kept of it (0: all). */
void weir_grid_cell(struct weir_grid *grid, const char *text, size_t most);
void weir_grid_write(const struct weir_grid *grid, struct weir_buffer *out);
void weir_grid_release(struct weir_grid *grid);

#endif
