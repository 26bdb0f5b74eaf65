#include "viz/grid.h"

#include <stdlib.h>
#include <string.h>

#include "viz/escape.h"

#define GAP 2u

void weir_grid_init(struct weir_grid *grid, const char *align)
{
    *grid = (struct weir_grid){ .align = align };
}

void weir_grid_cell(struct weir_grid *grid, const char *text, size_t most)
{
    if (grid->count == grid->capacity) {
        size_t capacity = grid->capacity ? grid->capacity * 2 : 128;
        struct weir_buffer *cells = grid->failed ? NULL : realloc(grid->cells, capacity * sizeof *cells);
        if (!cells) {
            grid->failed = true;
            return;
        }
        grid->cells = cells;
        grid->capacity = capacity;
    }
    struct weir_buffer *cell = &grid->cells[grid->count++];
    *cell = (struct weir_buffer)WEIR_BUFFER_INIT;
    weir_escape_plain(cell, text, most ? most : WEIR_ESCAPE_ANY);
}

static size_t width_of(const struct weir_buffer *cell)
{
    return weir_escape_columns(weir_buffer_text(cell), cell->length);
}

static void pad(struct weir_buffer *out, size_t columns)
{
    while (columns--)
        weir_buffer_putc(out, ' ');
}

void weir_grid_write(const struct weir_grid *grid, struct weir_buffer *out)
{
    size_t columns = strlen(grid->align), widths[WEIR_GRID_COLUMNS] = { 0 };
    if (columns > WEIR_GRID_COLUMNS)
        columns = WEIR_GRID_COLUMNS;
    for (size_t i = 0; i < grid->count; i++)
        if (width_of(&grid->cells[i]) > widths[i % columns])
            widths[i % columns] = width_of(&grid->cells[i]);
    for (size_t i = 0; i < grid->count; i++) {
        const struct weir_buffer *cell = &grid->cells[i];
        size_t column = i % columns, blank = widths[column] - width_of(cell);
        bool right = grid->align[column] == 'r', last = column + 1 == columns;
        if (right)
            pad(out, blank);
        weir_buffer_add(out, weir_buffer_text(cell), cell->length);
        if (!right && !last)
            pad(out, blank);
        if (last) {
            while (out->length && out->data[out->length - 1] == ' ')
                out->data[--out->length] = '\0';
            weir_buffer_putc(out, '\n');
        } else {
            pad(out, GAP);
        }
        out->failed |= cell->failed;
    }
    out->failed |= grid->failed;
}

void weir_grid_release(struct weir_grid *grid)
{
    for (size_t i = 0; i < grid->count; i++)
        weir_buffer_release(&grid->cells[i]);
    free(grid->cells);
    *grid = (struct weir_grid){ 0 };
}
