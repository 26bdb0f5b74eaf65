/*
 * DESIGN: the tree is turned into a list of lines, each with its depth, its text, and the comment behind it; comments on lines
 * of their own become lines too, merged in by their place in the source. Empty lines and columns are decided on that list, so
 * that neither the tree nor the writer knows about layout. Printing the result again gives the same list, and so the same text.
 */
#include "pipeline_dsl/lang/print.h"

#include <errno.h>
#include <string.h>

struct line {
    struct line *next;
    struct weir_buffer text; /* empty: a comment of its own */
    size_t source_offset;
    struct weir_span comment;
    unsigned depth;
    size_t key_length; /* of the first word: what is padded */
    enum { PLAIN, POOL, STAGE, OPENS, CLOSES } kind;
    bool blank_before;
};

struct printer {
    const struct weir_source *source;
    const struct weir_comment *comment; /* the next one that isn't placed */
    struct weir_arena *arena;
    struct line *first, *last;
    size_t place; /* end of what was placed, in the source */
    unsigned depth;
    bool failed;
};

/* Is there an empty line between what was placed and `offset`? */
static bool blank_between(const struct printer *printer, size_t offset)
{
    unsigned ends = 0;
    for (size_t i = printer->place; i < offset; i++)
        ends += printer->source->text[i] == '\n';
    return printer->last && ends > 1;
}

static struct line *append(struct printer *printer, size_t offset, size_t end)
{
    struct line *line = weir_arena_zalloc(printer->arena, sizeof *line);
    if (!line) {
        printer->failed = true;
        return NULL;
    }
    line->source_offset = offset;
    line->depth = printer->depth;
    line->blank_before = blank_between(printer, offset);
    if (printer->last)
        printer->last->next = line;
    else
        printer->first = line;
    printer->last = line;
    printer->place = end;
    return line;
}

/* Places the comments before `offset`: behind the last line when no line end lies between, else on lines of their own. */
static void place_comments(struct printer *printer, size_t offset)
{
    for (; printer->comment && printer->comment->span.offset < offset; printer->comment = printer->comment->next) {
        struct weir_span span = printer->comment->span;
        bool behind = printer->last && printer->last->text.length && printer->last->comment.length == 0 &&
                      !memchr(printer->source->text + printer->place, '\n', span.offset - printer->place);
        struct line *line = behind ? printer->last : append(printer, span.offset, span.offset);
        if (!line)
            return;
        line->comment = span;
        printer->place = span.offset + span.length;
    }
}

static struct line *begin(struct printer *printer, struct weir_span span)
{
    place_comments(printer, span.offset);
    return append(printer, span.offset, span.offset + span.length);
}

static void add_span(struct line *line, const struct weir_source *source, struct weir_span span)
{
    weir_buffer_add(&line->text, source->text + span.offset, span.length);
}

static void add_words(struct line *line, const struct weir_source *source, const struct weir_words *words)
{
    for (const struct weir_word *word = words->first; word; word = word->next) {
        bool comma = word->span.length == 1 && source->text[word->span.offset] == ',';
        if (!comma)
            weir_buffer_putc(&line->text, ' ');
        add_span(line, source, word->span);
    }
}

static void print_stage(struct printer *printer, const struct weir_tree_stage *stage)
{
    struct line *line = begin(printer, stage->span);
    if (!line)
        return;
    line->kind = STAGE;
    add_span(line, printer->source, stage->verb_span);
    line->key_length = line->text.length;
    if (stage->foreign) {
        weir_buffer_putc(&line->text, ' ');
        add_span(line, printer->source, stage->as_span);
    }
    for (const struct weir_word *word = stage->foreign && stage->words.first ? stage->words.first->next : NULL; word;
         word = word->next) {
        weir_buffer_putc(&line->text, ' ');
        add_span(line, printer->source, word->span);
    }
    if (stage->foreign)
        return;
    add_words(line, printer->source, &stage->words);
    for (int clause = 0; clause < WEIR_CLAUSE_COUNT; clause++)
        add_words(line, printer->source, &stage->clauses[clause]);
    if (stage->as_span.length) {
        weir_buffer_puts(&line->text, " as ");
        add_span(line, printer->source, stage->as_span);
    }
}

void weir_print_expectation(const struct weir_tree_expectation *expectation, const struct weir_source *source,
                            struct weir_buffer *out)
{
    for (const struct weir_tree_term *term = expectation->terms; term; term = term->next) {
        if (term != expectation->terms)
            weir_buffer_puts(out, term->or_before ? " or " : " and ");
        weir_buffer_printf(out, "%s(%s", weir_metric_name(term->metric), term->is_pool ? "pool " : "");
        for (uint32_t i = 0; i < term->name_count; i++) {
            if (i)
                weir_buffer_putc(out, '.');
            weir_buffer_add(out, source->text + term->names[i].offset, term->names[i].length);
        }
        weir_buffer_putc(out, ')');
        if (term->statistic != WEIR_MEAN)
            weir_buffer_printf(out, " %s", weir_statistic_name(term->statistic));
        weir_buffer_printf(out, " %s ", weir_comparison_name(term->comparison));
        weir_buffer_add(out, source->text + term->value_span.offset, term->value_span.length);
    }
}

static void print_block(struct printer *printer, const struct weir_tree_entry *entry)
{
    struct line *line = begin(printer, entry->span);
    if (!line)
        return;
    line->kind = OPENS;
    weir_buffer_puts(&line->text, entry->kind == WEIR_TREE_PIPELINE ? "pipeline " : "expect");
    add_span(line, printer->source, entry->name_span);
    weir_buffer_puts(&line->text, " {");
    printer->depth++;
    for (const struct weir_tree_stage *stage = entry->stages; stage; stage = stage->next)
        print_stage(printer, stage);
    for (const struct weir_tree_expectation *expectation = entry->expectations; expectation; expectation = expectation->next) {
        struct line *row = begin(printer, expectation->span);
        if (row)
            weir_print_expectation(expectation, printer->source, &row->text);
    }
    place_comments(printer, entry->end_span.offset);
    printer->depth--;
    struct line *end = begin(printer, entry->end_span);
    if (!end)
        return;
    end->kind = CLOSES;
    weir_buffer_putc(&end->text, '}');
}

static void print_entry(struct printer *printer, const struct weir_tree_entry *entry)
{
    if (entry->kind == WEIR_TREE_PIPELINE || entry->kind == WEIR_TREE_EXPECT) {
        print_block(printer, entry);
        return;
    }
    struct line *line = begin(printer, entry->span);
    if (!line)
        return;
    if (entry->kind == WEIR_TREE_PROCESS)
        weir_buffer_puts(&line->text, "process");
    else {
        line->kind = POOL;
        weir_buffer_puts(&line->text, "pool ");
        add_span(line, printer->source, entry->name_span);
        line->key_length = line->text.length;
    }
    add_words(line, printer->source, &entry->words);
}

/* --- layout --------------------------------------------------------------------------------------------------------------------- */

static bool is_comment(const struct line *line)
{
    return line->text.length == 0;
}

/* Exactly one empty line before and behind a block, none at its inner edges. The comments right above a block belong to it. */
static void lay_out_blanks(struct line *first)
{
    struct line *above = NULL, *run = NULL; /* run: the first of the comments right above, without an empty line in between */
    for (struct line *line = first; line; above = line, line = line->next) {
        if (above && above->kind == CLOSES)
            line->blank_before = true;
        if (above && above->kind == OPENS)
            line->blank_before = false;
        if (line->kind == CLOSES)
            line->blank_before = false;
        if (is_comment(line) && line->depth == 0) {
            if (!run || line->blank_before)
                run = line;
            continue;
        }
        struct line *top = run && !line->blank_before ? run : line;
        if (line->kind == OPENS && top != first)
            top->blank_before = true;
        run = NULL;
    }
}

/* Pads the first words of a run of lines of one kind to one column. Comments don't end a run; for pools an empty line does. */
static void pad_keys(struct line *first, bool *failed)
{
    for (struct line *from = first; from;) {
        if (from->kind != POOL && from->kind != STAGE) {
            from = from->next;
            continue;
        }
        size_t widest = 0;
        struct line *end = from;
        for (; end && (end->kind == from->kind || is_comment(end)); end = end->next) {
            if (end != from && end->kind == POOL && end->blank_before)
                break;
            if (end->kind == from->kind && end->key_length > widest)
                widest = end->key_length;
        }
        for (struct line *line = from; line != end; line = line->next) {
            if (is_comment(line) || line->text.length <= line->key_length)
                continue;
            struct weir_buffer padded = WEIR_BUFFER_INIT;
            weir_buffer_printf(&padded, "%-*.*s", (int)widest, (int)line->key_length, line->text.data);
            weir_buffer_add(&padded, line->text.data + line->key_length, line->text.length - line->key_length);
            weir_buffer_release(&line->text);
            line->text = padded;
            *failed = *failed || padded.failed;
        }
        from = end;
    }
}

static size_t width(const struct line *line)
{
    size_t count = 4 * line->depth;
    for (size_t i = 0; i < line->text.length; i++)
        count += ((unsigned char)line->text.data[i] & 0xc0) != 0x80;
    return count;
}

static bool has_tail(const struct line *line)
{
    return line && !is_comment(line) && line->comment.length;
}

/* Where the comments behind the lines of this run begin. */
static size_t tail_column(const struct line *line)
{
    size_t widest = 0;
    unsigned depth = line->depth;
    for (const struct line *first = line; has_tail(line) && line->depth == depth; line = line->next) {
        if (line != first && line->blank_before)
            break;
        if (width(line) > widest)
            widest = width(line);
    }
    return widest + 2;
}

static void write_lines(const struct line *first, const struct weir_source *source, struct weir_buffer *out)
{
    size_t column = 0;
    const struct line *above = NULL;
    for (const struct line *line = first; line; above = line, line = line->next) {
        if (line->blank_before)
            weir_buffer_putc(out, '\n');
        for (unsigned i = 0; i < line->depth; i++)
            weir_buffer_puts(out, "    ");
        weir_buffer_add(out, line->text.data, line->text.length);
        if (has_tail(line)) {
            bool goes_on = has_tail(above) && above->depth == line->depth && !line->blank_before;
            if (!goes_on)
                column = tail_column(line);
            for (size_t i = width(line); i < column; i++)
                weir_buffer_putc(out, ' ');
        }
        weir_buffer_add(out, source->text + line->comment.offset, line->comment.length);
        weir_buffer_putc(out, '\n');
    }
}

int weir_print(const struct weir_tree *tree, const struct weir_source *source, struct weir_arena *scratch,
               struct weir_buffer *out)
{
    struct printer printer = { .source = source, .comment = tree->comments, .arena = scratch };
    for (const struct weir_tree_entry *entry = tree->first; entry; entry = entry->next)
        print_entry(&printer, entry);
    place_comments(&printer, source->length);
    lay_out_blanks(printer.first);
    pad_keys(printer.first, &printer.failed);
    for (const struct line *line = printer.first; line; line = line->next)
        printer.failed = printer.failed || line->text.failed;
    if (!printer.failed)
        write_lines(printer.first, source, out);
    for (struct line *line = printer.first; line; line = line->next)
        weir_buffer_release(&line->text);
    return printer.failed || out->failed ? -ENOMEM : 0;
}
