/* The picture of a load: throughput and latency over the levels, where there are several, and over time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/cli/chart.h"
#include "tracer/cli/load_level.h"

#define WIDTH 620
#define HEIGHT 330
#define HEAD 50 /* and the lines of text below the title */
#define LINE 15
#define CURVE 64u /* points of the fitted law */

/* The points of one series, made while the picture is drawn. */
struct line {
    struct chart_point *points;
    size_t count;
};

static struct line line_make(size_t most)
{
    return (struct line){ calloc(most ? most : 1, sizeof(struct chart_point)), 0 };
}

static void line_add(struct line *line, double x, double y)
{
    if (line->points)
        line->points[line->count++] = (struct chart_point){ x, y };
}

static int by_clients(const void *a, const void *b)
{
    const struct chart_point *x = a, *y = b;
    return (x->x > y->x) - (x->x < y->x);
}

static double latency_at(const struct weir_histogram *latency, double q)
{
    return latency->count ? (double)weir_histogram_quantile(latency, q) : NAN;
}

static bool is_wide(const struct load_sweep *sweep)
{
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < sweep->count; i++) {
        size_t clients = sweep->levels[i].options.clients;
        least = clients < least ? clients : least;
        most = clients > most ? clients : most;
    }
    return most >= least * 20;
}

static void over_levels(struct weir_buffer *out, const struct load_sweep *sweep, double top)
{
    struct line measured = line_make(sweep->count), law = line_make(CURVE + 1), straight = line_make(CURVE + 1);
    struct line latencies[3] = { line_make(sweep->count), line_make(sweep->count), line_make(sweep->count) };
    static const double q[3] = { .5, .99, .999 };
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < sweep->count; i++) {
        double clients = (double)sweep->levels[i].options.clients;
        line_add(&measured, clients, load_level_events_per_s(&sweep->levels[i]));
        for (int k = 0; k < 3; k++)
            line_add(&latencies[k], clients, latency_at(&sweep->levels[i].report.latency, q[k]));
        least = fmin(least, clients);
        most = fmax(most, clients);
    }
    struct line *sorted[] = { &measured, &latencies[0], &latencies[1], &latencies[2] };
    for (int i = 0; i < 4; i++)
        if (sorted[i]->points)
            qsort(sorted[i]->points, sorted[i]->count, sizeof(struct chart_point), by_clients);
    for (unsigned i = 0; sweep->has_scaling && i <= CURVE; i++) {
        double clients = least * pow(most / least, (double)i / CURVE);
        line_add(&law, clients, weir_scaling_at(&sweep->scaling, clients));
        line_add(&straight, clients, sweep->scaling.lambda * clients);
    }
    bool has_knee = sweep->has_scaling && sweep->scaling.shape == WEIR_SCALING_KNEE;
    struct chart_point knee[] = { { sweep->scaling.knee, 0 }, { sweep->scaling.knee, sweep->scaling.most } };
    char at[48], number[32];
    snprintf(at, sizeof at, "knee: %s clients", load_grouped(round(sweep->scaling.knee), number));
    struct chart_series throughput[] = { { "measured", measured.points, measured.count, false },
                                         { "scalability law", law.points, law.count, true },
                                         { "linear", straight.points, straight.count, true },
                                         { at, knee, 2, true } };
    struct chart_series latency[] = { { "p50", latencies[0].points, latencies[0].count, false },
                                      { "p99", latencies[1].points, latencies[1].count, false },
                                      { "p99.9", latencies[2].points, latencies[2].count, false } };
    bool wide = is_wide(sweep);
    chart_draw(out, &(struct chart){ "Throughput over the levels",
                                     { "clients", wide, false },
                                     { "events/s", false, false },
                                     throughput,
                                     has_knee             ? 4
                                     : sweep->has_scaling ? 3
                                                          : 1,
                                     0,
                                     top,
                                     WIDTH,
                                     HEIGHT,
                                     NULL,
                                     0 });
    chart_draw(out, &(struct chart){ "Latency over the levels",
                                     { "clients", wide, false },
                                     { "latency", true, true },
                                     latency,
                                     3,
                                     0,
                                     top + HEIGHT,
                                     WIDTH,
                                     HEIGHT,
                                     NULL,
                                     0 });
    for (int i = 0; i < 4; i++)
        free(sorted[i]->points);
    free(law.points);
    free(straight.points);
}

/* All levels one after the other; a gap parts them. */
static void over_time(struct weir_buffer *out, const struct load_sweep *sweep, double left, double top)
{
    size_t slices = 0;
    for (size_t i = 0; i < sweep->count; i++)
        slices += sweep->levels[i].report.slice_count + 1;
    struct line acked = line_make(slices), failed = line_make(slices), p50 = line_make(slices), p99 = line_make(slices);
    struct chart_note *notes = calloc(sweep->count, sizeof *notes);
    size_t note_count = notes && sweep->count > 1 ? sweep->count : 0;
    bool failures = false;
    for (size_t i = 0; i < note_count; i++) {
        char number[32];
        notes[i].x = (double)sweep->levels[i].started_ns / 1e9;
        snprintf(notes[i].text, sizeof notes[i].text, "%.16s%s", load_grouped((double)sweep->levels[i].options.clients, number),
                 i ? "" : sweep->levels[i].options.clients == 1 ? " client" : " clients");
    }
    for (size_t i = 0; i < sweep->count; i++) {
        const struct load_level *level = &sweep->levels[i];
        double width = (double)level->report.slice_ns / 1e9;
        for (size_t k = 0; k < level->report.slice_count; k++) {
            const struct weir_load_slice *slice = &level->report.slices[k];
            double at = (double)level->started_ns / 1e9 + ((double)k + 0.5) * width;
            /* The last one is seldom a whole one, and would look like a fall. */
            bool whole = k + 1 < level->report.slice_count || !k;
            line_add(&acked, at, whole ? (double)slice->events / width : NAN);
            line_add(&failed, at, whole && slice->failed ? (double)slice->failed / width : NAN);
            line_add(&p50, at, whole ? latency_at(&slice->latency, .5) : NAN);
            line_add(&p99, at, whole ? latency_at(&slice->latency, .99) : NAN);
            failures = failures || slice->failed;
        }
        line_add(&acked, NAN, NAN);
        line_add(&p50, NAN, NAN);
        line_add(&p99, NAN, NAN);
    }
    struct chart_series throughput[] = { { "acknowledged", acked.points, acked.count, false },
                                         { "failed messages", failed.points, failed.count, false } };
    struct chart_series latency[] = { { "p50", p50.points, p50.count, false }, { "p99", p99.points, p99.count, false } };
    chart_draw(out, &(struct chart){ "Throughput over time",
                                     { "time, s", false, false },
                                     { "events/s", false, false },
                                     throughput,
                                     failures ? 2 : 1,
                                     left,
                                     top,
                                     WIDTH,
                                     HEIGHT,
                                     notes,
                                     note_count });
    chart_draw(out, &(struct chart){ "Latency over time",
                                     { "time, s", false, false },
                                     { "latency", true, true },
                                     latency,
                                     2,
                                     left,
                                     top + HEIGHT,
                                     WIDTH,
                                     HEIGHT,
                                     notes,
                                     note_count });
    free(acked.points);
    free(failed.points);
    free(p50.points);
    free(p99.points);
    free(notes);
}

/* Words in lines of at most `most` characters below the title; returns how many lines. */
static int wrapped(struct weir_buffer *out, const char *text, size_t most)
{
    int lines = 0;
    for (; *text; lines++) {
        size_t length = strlen(text), cut = length;
        if (length > most)
            for (cut = most; cut > 1 && text[cut] != ' '; cut--)
                continue;
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)cut, text);
        weir_buffer_printf(out, "<text x='20' y='%d' font-size='12'>", HEAD - 4 + lines * LINE);
        chart_text(out, line);
        weir_buffer_puts(out, "</text>\n");
        text += cut;
        text += strspn(text, " ");
    }
    return lines;
}

/* As large as fits. */
static void title(struct weir_buffer *out, const struct weir_load_options *load, int width)
{
    char text[256];
    snprintf(text, sizeof text, "weir load %.160s, %s, %zu event%s a message", load->address,
             load->datagram ? "UDP" : weir_load_mode_name(load->mode), load->events, load->events == 1 ? "" : "s");
    weir_buffer_printf(out, "<text x='20' y='26' font-size='%.1f' font-weight='bold'>", fmin(17, (width - 40) / (0.65 * (double)strlen(text))));
    chart_text(out, text);
    weir_buffer_puts(out, "</text>\n");
}

void load_plot(struct weir_buffer *out, const struct load_sweep *sweep)
{
    struct weir_buffer words = WEIR_BUFFER_INIT;
    bool levels = sweep->count > 1;
    int width = levels ? 2 * WIDTH : WIDTH;
    const struct weir_load_options *load = &sweep->levels[0].options;
    char said[sizeof sweep->knee + 16], a[32];
    if (levels)
        snprintf(said, sizeof said, "Knee: %s", sweep->knee);
    else
        snprintf(said, sizeof said, "%zu client%s, %s events/s", load->clients, load->clients == 1 ? "" : "s",
                 load_grouped(load_level_events_per_s(&sweep->levels[0]), a));
    int top = HEAD + LINE * wrapped(&words, said, levels ? 175 : 90), height = top + 2 * HEIGHT;
    weir_buffer_printf(out,
                       "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' width='%d' height='%d' font-family='DejaVu "
                       "Sans, sans-serif'>\n"
                       "<style>.title{font-size:14px;font-weight:bold}.label{font-size:12px}.tick{font-size:11px}"
                       ".note{font-size:11px;fill:#555}"
                       ".grid{stroke:#ddd;stroke-width:1}.axis{stroke:#333;fill:none}</style>\n<rect width='100%%' "
                       "height='100%%' fill='white'/>\n",
                       width, height, width, height);
    title(out, load, width);
    weir_buffer_add(out, words.data, words.length);
    out->failed = out->failed || words.failed;
    if (levels)
        over_levels(out, sweep, top);
    over_time(out, sweep, levels ? WIDTH : 0, top);
    weir_buffer_puts(out, "</svg>\n");
    weir_buffer_release(&words);
}
