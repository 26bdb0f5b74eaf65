/*
 * chart: a plain chart of lines as SVG: axes with round numbers and their unit, a legend, and points where there are few.
 * Series differ by colour, by dash and by the shape of their points, so that print and colour-blind readers can tell them apart.
 *
 * Units: pixels for places, anything for values.
 * Owns: nothing.
 * Threads: any.
 * Errors: running out of memory shows in the buffer. Values that are not finite, or not above 0 on a logarithmic axis, are left
 * out.
 */
#ifndef WEIR_CLI_CHART_H
#define WEIR_CLI_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

struct chart_point {
    double x, y;
};

struct chart_series {
    const char *name;
    const struct chart_point *points;
    size_t count;
    bool thin; /* a guide, drawn fainter and without points */
};

/* Words above the upper edge, from x on; left out where they would run into those before them. */
struct chart_note {
    double x;
    char text[32];
};

struct chart_axis {
    const char *label;
    bool logarithmic;
    bool duration; /* values are ns and are written as "1 ms" */
};

struct chart {
    const char *title;
    struct chart_axis x, y;
    const struct chart_series *series;
    size_t count; /* at most CHART_SERIES_MOST are drawn */
    double left, top, width, height;
    const struct chart_note *notes; /* [note_count], in the order of x */
    size_t note_count;
};
#define CHART_SERIES_MOST 6u

/* Appends the chart as one <g>. */
void chart_draw(struct weir_buffer *out, const struct chart *chart);
/* Appends text with &, < and > escaped, and what no XML may hold as '?'. */
void chart_text(struct weir_buffer *out, const char *text);

#endif
