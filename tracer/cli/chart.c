#include "tracer/cli/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MARGIN_LEFT 78
#define MARGIN_RIGHT 16
#define MARGIN_TOP 62
#define MARGIN_BOTTOM 46
#define LETTER 6.6 /* about the width of one in a tick's text */
#define POINTS_SHOWN 24u /* more are a line alone */

/* Okabe and Ito's colours, which differ for every kind of colour vision; in a dark enough order for print. */
static const char *const colours[CHART_SERIES_MOST] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00" };
static const char *const dashes[CHART_SERIES_MOST] = { "", "7 3", "2 3", "9 3 2 3", "", "4 2" };

static const char *const guides[CHART_SERIES_MOST] = { "", "", "2 3", "8 4", "2 3", "8 4" };

struct range {
    double low, high;
    bool logarithmic, empty;
};

void chart_text(struct weir_buffer *out, const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '&')
            weir_buffer_puts(out, "&amp;");
        else if (byte == '<')
            weir_buffer_puts(out, "&lt;");
        else if (byte == '>')
            weir_buffer_puts(out, "&gt;");
        else
            weir_buffer_putc(out, byte < 0x20 ? '?' : (char)byte);
    }
}

static bool shown(const struct range *range, double value)
{
    return isfinite(value) && (!range->logarithmic || value > 0);
}

/* The step of a linear axis: 1, 2 or 5 times a power of ten, about five of them. */
static double step_of(const struct range *range)
{
    double rough = (range->high - range->low) / 5, unit = pow(10, floor(log10(rough))), part = rough / unit;
    return unit * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
}

/* The largest of 1, 2, 5, 10, … that is not above `value`. */
static double round_down(double value)
{
    double unit = pow(10, floor(log10(value) + 1e-9)), part = value / unit + 1e-9;
    return unit * (part >= 5 ? 5 : part >= 2 ? 2 : 1);
}

/* The smallest of them that is not below. */
static double round_up(double value)
{
    double down = round_down(value);
    if (down >= value * 0.999999)
        return down;
    return round_down(down * 2.6);
}

static struct range range_of(const struct chart *chart, bool vertical)
{
    struct range range = { INFINITY, -INFINITY, vertical ? chart->y.logarithmic : chart->x.logarithmic, false };
    for (size_t i = 0; i < chart->count && i < CHART_SERIES_MOST; i++) {
        for (size_t k = 0; k < chart->series[i].count; k++) {
            double value = vertical ? chart->series[i].points[k].y : chart->series[i].points[k].x;
            if (!shown(&range, value) || (vertical && chart->series[i].thin))
                continue;
            range.low = fmin(range.low, value);
            range.high = fmax(range.high, value);
        }
    }
    range.empty = range.low > range.high;
    if (range.empty)
        return (struct range){ range.logarithmic ? 1 : 0, range.logarithmic ? 10 : 1, range.logarithmic, true };
    if (range.logarithmic) {
        range.low = round_down(range.low);
        range.high = round_up(range.high);
        if (range.high <= range.low)
            range.high = range.low * 10;
        return range;
    }
    range.low = range.low > 0 ? 0 : range.low;
    if (range.high <= range.low)
        range.high = range.low + 1;
    if (vertical)
        range.high = ceil(range.high / step_of(&range) * 1.02) * step_of(&range);
    return range;
}

static double place(const struct range *range, double value)
{
    return range->logarithmic ? log(value / range->low) / log(range->high / range->low)
                              : (value - range->low) / (range->high - range->low);
}

static void number(struct weir_buffer *out, const struct chart_axis *axis, double value)
{
    static const struct { double size; const char *time, *plain; } units[] = {
        { 1e9, " s", "G" }, { 1e6, " ms", "M" }, { 1e3, " us", "k" }, { 1, " ns", "" },
    };
    size_t i = 0;
    while (i < 3 && fabs(value) < units[i].size * 0.9999999)
        i++;
    weir_buffer_printf(out, "%.4g%s", value == 0 ? 0 : value / units[i].size,
                       axis->duration ? value == 0 ? "" : units[i].time : units[i].plain);
}

/* One grid line with its number. */
static void tick(struct weir_buffer *out, const struct chart *chart, const struct range *range, bool vertical, double value)
{
    double w = chart->width - MARGIN_LEFT - MARGIN_RIGHT, h = chart->height - MARGIN_TOP - MARGIN_BOTTOM,
           at = place(range, value);
    if (at < -1e-6 || at > 1 + 1e-6)
        return;
    double x = MARGIN_LEFT + at * w, y = MARGIN_TOP + (1 - at) * h;
    if (vertical)
        weir_buffer_printf(
            out,
            "<line x1='%d' y1='%.1f' x2='%.1f' y2='%.1f' class='grid'/><text x='%d' y='%.1f' class='tick' text-anchor='end'>",
            MARGIN_LEFT, y, MARGIN_LEFT + w, y, MARGIN_LEFT - 7, y + 4);
    else
        weir_buffer_printf(out,
                           "<line x1='%.1f' y1='%d' x2='%.1f' y2='%.1f' class='grid'/><text x='%.1f' y='%.1f' class='tick' "
                           "text-anchor='middle'>",
                           x, MARGIN_TOP, x, MARGIN_TOP + h, x, MARGIN_TOP + h + 16);
    number(out, vertical ? &chart->y : &chart->x, value);
    weir_buffer_puts(out, "</text>\n");
}

static void axis(struct weir_buffer *out, const struct chart *chart, const struct range *range, bool vertical)
{
    if (range->logarithmic) {
        bool few = log10(range->high / range->low) < 2.5;
        for (double decade = pow(10, floor(log10(range->low) + 1e-9)); decade <= range->high * 1.0001; decade *= 10) {
            tick(out, chart, range, vertical, decade);
            if (few) {
                tick(out, chart, range, vertical, decade * 2);
                tick(out, chart, range, vertical, decade * 5);
            }
        }
        return;
    }
    double step = step_of(range);
    for (double at = ceil(range->low / step) * step; at <= range->high + step / 1000; at += step)
        tick(out, chart, range, vertical, fabs(at) < step / 1000 ? 0 : at);
}

static void mark(struct weir_buffer *out, size_t shape, double x, double y, const char *colour)
{
    switch (shape % 3) {
    case 0:
        weir_buffer_printf(out, "<circle cx='%.1f' cy='%.1f' r='3.5' fill='%s'/>", x, y, colour);
        break;
    case 1:
        weir_buffer_printf(out, "<rect x='%.1f' y='%.1f' width='6.6' height='6.6' fill='%s'/>", x - 3.3, y - 3.3, colour);
        break;
    default:
        weir_buffer_printf(out, "<path d='M%.1f %.1fl4.4 7.4h-8.8z' fill='%s'/>", x, y - 4.6, colour);
    }
}

static void draw_series(struct weir_buffer *out, const struct chart *chart, size_t number_of, const struct range *rx,
                        const struct range *ry)
{
    const struct chart_series *series = &chart->series[number_of];
    double w = chart->width - MARGIN_LEFT - MARGIN_RIGHT, h = chart->height - MARGIN_TOP - MARGIN_BOTTOM;
    const char *colour = series->thin ? "#777" : colours[number_of];
    bool drawing = false;
    weir_buffer_puts(out, "<path d='");
    for (size_t i = 0; i < series->count; i++) {
        const struct chart_point *point = &series->points[i];
        bool good = shown(rx, point->x) && shown(ry, point->y) && place(ry, point->y) <= 1.0001;
        if (good)
            weir_buffer_printf(out, "%c%.1f %.1f", drawing ? 'L' : 'M', MARGIN_LEFT + place(rx, point->x) * w,
                               MARGIN_TOP + (1 - place(ry, point->y)) * h);
        drawing = good;
    }
    weir_buffer_printf(out, "' fill='none' stroke='%s' stroke-width='%s' stroke-dasharray='%s'/>\n", colour,
                       series->thin ? "1.2" : "2", series->thin ? guides[number_of] : dashes[number_of]);
    for (size_t i = 0; i < series->count && series->count <= POINTS_SHOWN && !series->thin; i++) {
        const struct chart_point *point = &series->points[i];
        if (shown(rx, point->x) && shown(ry, point->y))
            mark(out, number_of, MARGIN_LEFT + place(rx, point->x) * w, MARGIN_TOP + (1 - place(ry, point->y)) * h, colour);
    }
}

static void draw_notes(struct weir_buffer *out, const struct chart *chart, const struct range *rx)
{
    double w = chart->width - MARGIN_LEFT - MARGIN_RIGHT, free_from = MARGIN_LEFT;
    for (size_t i = 0; i < chart->note_count; i++) {
        const struct chart_note *note = &chart->notes[i];
        double at = shown(rx, note->x) ? MARGIN_LEFT + place(rx, note->x) * w : -1;
        if (at < free_from)
            continue;
        weir_buffer_printf(out, "<text x='%.1f' y='%d' class='note'>", at, MARGIN_TOP - 6);
        chart_text(out, note->text);
        weir_buffer_puts(out, "</text>\n");
        free_from = at + LETTER * (double)strlen(note->text) + 6;
    }
}

static void legend(struct weir_buffer *out, const struct chart *chart)
{
    double x = MARGIN_LEFT;
    for (size_t i = 0; i < chart->count && i < CHART_SERIES_MOST; i++) {
        const struct chart_series *series = &chart->series[i];
        const char *colour = series->thin ? "#777" : colours[i];
        weir_buffer_printf(out, "<path d='M%.1f 36h24' stroke='%s' stroke-width='2' stroke-dasharray='%s'/>", x, colour,
                           series->thin ? guides[i] : dashes[i]);
        if (!series->thin)
            mark(out, i, x + 12, 36, colour);
        weir_buffer_printf(out, "<text x='%.1f' y='40' class='tick'>", x + 29);
        chart_text(out, series->name);
        weir_buffer_puts(out, "</text>\n");
        x += 29 + LETTER * (double)strlen(series->name) + 18;
    }
}

void chart_draw(struct weir_buffer *out, const struct chart *chart)
{
    struct range rx = range_of(chart, false), ry = range_of(chart, true);
    double w = chart->width - MARGIN_LEFT - MARGIN_RIGHT, h = chart->height - MARGIN_TOP - MARGIN_BOTTOM;
    weir_buffer_printf(out, "<g transform='translate(%.0f %.0f)'>\n<text x='%d' y='18' class='title'>", chart->left, chart->top,
                       MARGIN_LEFT);
    chart_text(out, chart->title);
    weir_buffer_puts(out, "</text>\n");
    axis(out, chart, &rx, false);
    axis(out, chart, &ry, true);
    weir_buffer_printf(out, "<path d='M%d %dV%.1fH%.1f' class='axis'/>\n", MARGIN_LEFT, MARGIN_TOP, MARGIN_TOP + h,
                       MARGIN_LEFT + w);
    weir_buffer_printf(out, "<text x='%.1f' y='%.1f' class='label' text-anchor='middle'>", MARGIN_LEFT + w / 2,
                       MARGIN_TOP + h + 36);
    chart_text(out, chart->x.label);
    weir_buffer_printf(out, "</text>\n<text transform='translate(16 %.1f) rotate(-90)' class='label' text-anchor='middle'>",
                       MARGIN_TOP + h / 2);
    chart_text(out, chart->y.label);
    weir_buffer_puts(out, "</text>\n");
    if (rx.empty || ry.empty)
        weir_buffer_printf(out, "<text x='%.1f' y='%.1f' class='label' text-anchor='middle'>nothing was answered</text>\n",
                           MARGIN_LEFT + w / 2, MARGIN_TOP + h / 2);
    for (size_t i = chart->count < CHART_SERIES_MOST ? chart->count : CHART_SERIES_MOST; i-- > 0;)
        draw_series(out, chart, i, &rx, &ry);
    draw_notes(out, chart, &rx);
    legend(out, chart);
    weir_buffer_puts(out, "</g>\n");
}
