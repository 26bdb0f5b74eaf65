/*
 * DESIGN: one diagnostic is one picture: the places that belong together are sorted by line and drawn under each other, the
 * place itself with ^^^ and the others with --- and a word about them, so that one need not jump between them:
 *
 *     riemann.weir:9:27: error E062: the largest item, 16MiB, can never be admitted by this limit
 *       7 |     frame   length32 max 16MiB
 *         |                          ----- items may be as large as this
 *     ...
 *       9 |     handoff workers limit 1MiB full block
 *         |                           ^^^^
 *         = help: raise it to `limit 16MiB`, or lower the `max` of `frame`
 *
 * Lines are drawn as the terminal will show them: a tab is four blanks, a control byte a '?', a long line a window.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "pipeline_dsl/lang/diag.h"

#define TAB_COLUMNS 4u
#define WINDOW_BYTES 120u
#define MARKS_MOST 8u

struct mark {
    struct weir_span span;
    const char *message; /* null: the place itself */
    size_t line;
};

struct canvas {
    const struct weir_source *source;
    struct weir_buffer *out;
    bool color;
    int gutter; /* digits of the largest line number shown */
};

static void paint(const struct canvas *canvas, const char *code)
{
    if (canvas->color)
        weir_buffer_printf(canvas->out, "\033[%sm", code);
}
#define RESET "0"
#define BOLD "1"
#define BLUE "1;34"
#define RED "1;31"
#define YELLOW "1;33"
#define GREEN "1;32"

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Writes `text` as a terminal may see it. Returns how many columns it takes. */
static size_t add_clean(struct weir_buffer *out, const char *text, size_t length)
{
    size_t columns = 0;
    for (size_t i = 0; i < length;) {
        unsigned char c = (unsigned char)text[i];
        size_t size = weir_utf8_length(text + i, length - i);
        bool c1 = c == 0xc2 && size == 2 && (unsigned char)text[i + 1] < 0xa0;
        if (c == '\t') {
            weir_buffer_puts(out, "    ");
            columns += TAB_COLUMNS;
        } else {
            if (size == 0 || c < 0x20 || c == 0x7f || c1)
                weir_buffer_putc(out, '?');
            else
                weir_buffer_add(out, text + i, size);
            columns++;
        }
        i += size ? size : 1;
    }
    return columns;
}

static size_t columns_of(const char *text, size_t length)
{
    struct weir_buffer nowhere = WEIR_BUFFER_INIT;
    size_t columns = add_clean(&nowhere, text, length);
    weir_buffer_release(&nowhere);
    return columns;
}

/* The part of `line` that is drawn, so that `span` is in it. */
static struct weir_span window(const struct weir_source *source, struct weir_span line, struct weir_span span)
{
    size_t begin = line.offset, end = line.offset + line.length;
    if (line.length <= WINDOW_BYTES)
        return line;
    if (span.offset > begin + WINDOW_BYTES / 2)
        begin = span.offset - WINDOW_BYTES / 2;
    if (end - begin > WINDOW_BYTES)
        end = begin + WINDOW_BYTES;
    while (begin > line.offset && continues(source->text[begin]))
        begin--;
    while (end > begin && end < line.offset + line.length && continues(source->text[end]))
        end--;
    return (struct weir_span){ begin, end - begin };
}

static void draw_gutter(const struct canvas *canvas, size_t line)
{
    paint(canvas, BLUE);
    if (line)
        weir_buffer_printf(canvas->out, "  %*zu | ", canvas->gutter, line);
    else
        weir_buffer_printf(canvas->out, "  %*s | ", canvas->gutter, "");
    paint(canvas, RESET);
}

static void draw_mark(const struct canvas *canvas, const struct mark *mark, bool with_line, const char *severity_color)
{
    const char *text = canvas->source->text;
    struct weir_span line = weir_source_line(canvas->source, mark->line);
    struct weir_span shown = window(canvas->source, line, mark->span);
    bool cut = shown.offset > line.offset;
    if (with_line) {
        draw_gutter(canvas, mark->line);
        weir_buffer_puts(canvas->out, cut ? "…" : "");
        add_clean(canvas->out, text + shown.offset, shown.length);
        weir_buffer_puts(canvas->out, shown.offset + shown.length < line.offset + line.length ? "…\n" : "\n");
    }
    draw_gutter(canvas, 0);
    size_t begin = mark->span.offset, end = mark->span.offset + mark->span.length, shown_end = shown.offset + shown.length;
    if (begin > shown_end)
        begin = shown_end;
    if (end > shown_end)
        end = shown_end;
    size_t indent = cut + columns_of(text + shown.offset, begin - shown.offset);
    size_t columns = end > begin ? columns_of(text + begin, end - begin) : 0;
    for (size_t i = 0; i < indent; i++)
        weir_buffer_putc(canvas->out, ' ');
    paint(canvas, mark->message ? BLUE : severity_color);
    for (size_t i = 0; i < (columns ? columns : 1); i++)
        weir_buffer_putc(canvas->out, mark->message ? '-' : '^');
    if (mark->message) {
        weir_buffer_putc(canvas->out, ' ');
        add_clean(canvas->out, mark->message, strlen(mark->message));
    }
    paint(canvas, RESET);
    weir_buffer_putc(canvas->out, '\n');
}

static int by_place(const void *left, const void *right)
{
    const struct mark *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    /* On one line the place itself comes first, right under the text. */
    if (!a->message != !b->message)
        return a->message ? 1 : -1;
    return a->span.offset < b->span.offset ? -1 : a->span.offset > b->span.offset;
}

static size_t collect(const struct weir_diag_bag *bag, const struct weir_diag *diag, struct mark marks[MARKS_MOST])
{
    size_t count = 0;
    marks[count++] = (struct mark){ diag->span, NULL, weir_source_place(&bag->source, diag->span.offset).line };
    for (const struct weir_diag_related *related = diag->related; related && count < MARKS_MOST; related = related->next)
        marks[count++] =
            (struct mark){ related->span, related->message, weir_source_place(&bag->source, related->span.offset).line };
    qsort(marks, count, sizeof *marks, by_place);
    return count;
}

static void draw(const struct weir_diag_bag *bag, const struct weir_diag *diag, struct canvas *canvas)
{
    struct weir_place place = weir_source_place(&bag->source, diag->span.offset);
    bool warns = diag->severity == WEIR_SEVERITY_WARNING;
    const char *severity_color = warns ? YELLOW : RED;
    paint(canvas, BOLD);
    add_clean(canvas->out, bag->source.path, strlen(bag->source.path));
    weir_buffer_printf(canvas->out, ":%zu:%zu: ", place.line, place.column);
    paint(canvas, severity_color);
    weir_buffer_printf(canvas->out, "%s %s: ", warns ? "warning" : "error", weir_code_name(diag->code));
    paint(canvas, RESET);
    paint(canvas, BOLD);
    add_clean(canvas->out, diag->message, strlen(diag->message));
    paint(canvas, RESET);
    weir_buffer_putc(canvas->out, '\n');

    struct mark marks[MARKS_MOST];
    size_t count = collect(bag, diag, marks);
    char digits[24];
    canvas->gutter = snprintf(digits, sizeof digits, "%zu", marks[count - 1].line);
    if (canvas->gutter < 3)
        canvas->gutter = 3;
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && marks[i].line == marks[i - 1].line;
        if (i > 0 && marks[i].line > marks[i - 1].line + 1)
            weir_buffer_puts(canvas->out, "  ...\n");
        draw_mark(canvas, &marks[i], !same, severity_color);
    }
    if (diag->hint) {
        paint(canvas, BLUE);
        weir_buffer_printf(canvas->out, "  %*s = ", canvas->gutter, "");
        paint(canvas, GREEN);
        weir_buffer_puts(canvas->out, "help: ");
        paint(canvas, RESET);
        add_clean(canvas->out, diag->hint, strlen(diag->hint));
        weir_buffer_putc(canvas->out, '\n');
    }
    weir_buffer_putc(canvas->out, '\n');
}

static void add_count(struct weir_buffer *out, size_t count, const char *noun)
{
    weir_buffer_printf(out, "%zu %s%s", count, noun, count == 1 ? "" : "s");
}

void weir_diag_render(const struct weir_diag_bag *bag, bool color, struct weir_buffer *out)
{
    struct canvas canvas = { .source = &bag->source, .out = out, .color = color };
    size_t all = bag->error_count + bag->warning_count;
    if (all == 0)
        return;
    for (size_t i = 0; i < bag->count; i++)
        draw(bag, &bag->diags[i], &canvas);
    add_clean(out, bag->source.path, strlen(bag->source.path));
    weir_buffer_puts(out, ": ");
    if (bag->error_count)
        add_count(out, bag->error_count, "error");
    if (bag->error_count && bag->warning_count)
        weir_buffer_puts(out, ", ");
    if (bag->warning_count)
        add_count(out, bag->warning_count, "warning");
    if (all > bag->count)
        weir_buffer_printf(out, "; the first %zu are shown", bag->count);
    /* One code to look up: the first error, or the first of all. */
    const struct weir_diag *first = bag->count ? &bag->diags[0] : NULL;
    for (size_t i = 0; i < bag->count; i++)
        if (bag->diags[i].severity == WEIR_SEVERITY_ERROR) {
            first = &bag->diags[i];
            break;
        }
    if (first)
        weir_buffer_printf(out, "; `weir lint --explain %s` tells more", weir_code_name(first->code));
    weir_buffer_putc(out, '\n');
}
