/*
 * query_table: reads a file of query cases, for whoever can answer them: the query room itself, a filter, a server with an index.
 *
 * A file begins with its events, one a line, each with a name and any of these, in any order:
 *
 *     event NAME host "H" service "S" state "…" description "…" metric 1 | 1.5 | 0.1f | NaN | -Infinity
 *                tag "…" (any number) ttl 60 time 1700000000.5 attribute "KEY" "VALUE" (any number)
 *
 * Strings know \n \r \t \\ \" \xHH. No two events have the same host and service, so that an index holds them all; a time that isn't
 * given lies in 2096, so that none expires. Then come the cases: an expression, and, indented, what it must give, ended by an
 * empty line. An expression of several lines is a query of several lines.
 *
 *     metric > 1 and not tagged "prod"
 *         disk memory                      the events that match; also: none, all, all but NAME…
 *
 *     metric == 1
 *         error 1:8 `==` is no operator    LINE:COLUMN of the place (or -), and words of the sentence
 *
 * A line that begins with # is for people.
 *
 * Units: as wire/message.h; ttl and time of the file are seconds.
 * Owns: the table owns all that it points to, until query_table_release().
 * Threads: owner only.
 * Errors: a file that isn't of this form ends the program with its line.
 */
#ifndef WEIR_TESTS_QUERY_TABLE_H
#define WEIR_TESTS_QUERY_TABLE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "pipeline_dsl/wire/message.h"

#define QUERY_TABLE_EVENTS 64u /* most in a file: a set of them is a uint64_t */
#define QUERY_TABLE_CASES 512u
#define QUERY_TABLE_PARTS 16u /* tags, and attributes, of an event */

struct query_table_case {
    unsigned line; /* of the expression */
    const char *expression;
    uint64_t matching;  /* bit i: events[i] */
    const char *error;  /* words of the sentence; null: it is a query */
    unsigned error_line, error_column; /* 0: not said */
};

struct query_table {
    const char *path;
    struct weir_event events[QUERY_TABLE_EVENTS];
    const char *names[QUERY_TABLE_EVENTS];
    size_t event_count;
    struct query_table_case cases[QUERY_TABLE_CASES];
    size_t case_count;
    struct weir_arena arena;
    unsigned line; /* being read */
};

static inline void query_table_demand(const struct query_table *table, bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%u: %s\n", table->path, table->line, what);
    exit(2);
}

/* The next word of the line, a string with its quotes; null at the end. */
static inline char *query_table_word(struct query_table *table, char **at)
{
    char *word = *at + strspn(*at, " ");
    if (!*word)
        return NULL;
    char *end = word;
    if (*word == '"') {
        for (end++; *end && *end != '"'; end += *end == '\\' && end[1] ? 2 : 1)
            ;
        query_table_demand(table, *end == '"', "a string without its end");
        end++;
    } else {
        end += strcspn(end, " ");
    }
    *at = *end ? end + 1 : end;
    *end = '\0';
    return word;
}

/* What a string with its quotes means. */
static inline struct weir_bytes query_table_string(struct query_table *table, char **at)
{
    char *word = query_table_word(table, at);
    query_table_demand(table, word && *word == '"', "a string is missing");
    char *out = weir_arena_alloc(&table->arena, strlen(word)), *end = out;
    for (const char *c = word + 1; c[1]; c++) {
        unsigned byte;
        if (*c != '\\') {
            *end++ = *c;
            continue;
        }
        c++;
        if (*c == 'x') {
            query_table_demand(table, sscanf(c + 1, "%2x", &byte) == 1, "\\x without its digits");
            *end++ = (char)byte;
            c += 2;
        } else {
            *end++ = *c == 'n' ? '\n' : *c == 'r' ? '\r' : *c == 't' ? '\t' : *c;
        }
    }
    return (struct weir_bytes){ (const uint8_t *)out, (size_t)(end - out) };
}

/* 5 is an integer, 5.0 a double, 5.0f a float. */
static inline void query_table_metric(struct query_table *table, struct weir_event *event, const char *word)
{
    char *end;
    event->metric_kind = strpbrk(word, ".IN") == NULL ? WEIR_METRIC_INT : WEIR_METRIC_DOUBLE;
    event->metric_int = event->metric_kind == WEIR_METRIC_INT ? strtoll(word, &end, 10) : 0;
    event->metric_double = event->metric_kind == WEIR_METRIC_INT ? 0 : strtod(word, &end);
    if (event->metric_kind == WEIR_METRIC_DOUBLE && *end == 'f') {
        event->metric_kind = WEIR_METRIC_FLOAT;
        event->metric_double = (double)(float)event->metric_double;
        end++;
    }
    query_table_demand(table, *end == '\0', "that is no metric");
}

static inline void query_table_event(struct query_table *table, char *line)
{
    query_table_demand(table, table->event_count < QUERY_TABLE_EVENTS, "too many events");
    struct weir_event *event = &table->events[table->event_count];
    struct weir_bytes *tags = weir_arena_zalloc(&table->arena, QUERY_TABLE_PARTS * sizeof *tags);
    struct weir_attribute *attributes = weir_arena_zalloc(&table->arena, QUERY_TABLE_PARTS * sizeof *attributes);
    *event = (struct weir_event){ .tags = tags, .attributes = attributes, .time_us = 4000000000000000, .has_time = true };
    table->names[table->event_count++] = query_table_word(table, &line);
    for (char *key; (key = query_table_word(table, &line));) {
        if (strcmp(key, "host") == 0)
            event->host = query_table_string(table, &line);
        else if (strcmp(key, "service") == 0)
            event->service = query_table_string(table, &line);
        else if (strcmp(key, "state") == 0)
            event->state = query_table_string(table, &line);
        else if (strcmp(key, "description") == 0)
            event->description = query_table_string(table, &line);
        else if (strcmp(key, "tag") == 0 && event->tag_count < QUERY_TABLE_PARTS)
            tags[event->tag_count++] = query_table_string(table, &line);
        else if (strcmp(key, "attribute") == 0 && event->attribute_count < QUERY_TABLE_PARTS) {
            attributes[event->attribute_count].key = query_table_string(table, &line);
            attributes[event->attribute_count++].value = query_table_string(table, &line);
        } else {
            char *word = query_table_word(table, &line);
            query_table_demand(table, word != NULL, "a number is missing");
            if (strcmp(key, "metric") == 0)
                query_table_metric(table, event, word);
            else if (strcmp(key, "time") == 0)
                event->time_us = llround(strtod(word, NULL) * 1e6);
            else if (strcmp(key, "ttl") == 0)
                event->ttl = strtof(word, NULL), event->has_ttl = true;
            else
                query_table_demand(table, false, "an event has no such field");
        }
    }
}

/* The indented line under an expression. */
static inline void query_table_answer(struct query_table *table, struct query_table_case *one, char *line)
{
    char *word = query_table_word(table, &line);
    if (strcmp(word, "error") == 0) {
        word = query_table_word(table, &line);
        query_table_demand(table, word && (*word == '-' || sscanf(word, "%u:%u", &one->error_line, &one->error_column) == 2),
                           "LINE:COLUMN or - is missing");
        one->error = line;
        return;
    }
    uint64_t all = ((uint64_t)1 << table->event_count) - 1;
    bool without = false;
    for (; word; word = query_table_word(table, &line)) {
        size_t i = 0;
        while (i < table->event_count && strcmp(table->names[i], word) != 0)
            i++;
        if (i < table->event_count)
            one->matching = without ? one->matching & ~((uint64_t)1 << i) : one->matching | (uint64_t)1 << i;
        else if (strcmp(word, "all") == 0)
            one->matching = all;
        else if (strcmp(word, "but") == 0)
            without = true;
        else
            query_table_demand(table, strcmp(word, "none") == 0, "there is no event of that name");
    }
}

static inline void query_table_load(struct query_table *table, const char *path)
{
    *table = (struct query_table){ .path = path };
    weir_arena_init(&table->arena, 0, SIZE_MAX);
    FILE *file = fopen(path, "r");
    query_table_demand(table, file != NULL, "can't be opened");
    char line[4096];
    struct query_table_case *open = NULL;
    while (fgets(line, sizeof line, file)) {
        table->line++;
        size_t size = strcspn(line, "\n");
        query_table_demand(table, line[size] == '\n', "a line is too long, or has no end");
        char *text = weir_arena_dup(&table->arena, line, size);
        if (*text == '#') {
            continue;
        } else if (*text == '\0') {
            query_table_demand(table, !open, "an expression without its answer");
        } else if (*text == ' ') {
            query_table_demand(table, open != NULL, "an answer without its expression");
            query_table_answer(table, open, text);
            open = NULL;
        } else if (open) {
            open->expression = weir_arena_printf(&table->arena, "%s\n%s", open->expression, text);
        } else if (strncmp(text, "event ", 6) == 0) {
            query_table_event(table, text + 6);
        } else {
            query_table_demand(table, table->case_count < QUERY_TABLE_CASES, "too many cases");
            open = &table->cases[table->case_count++];
            open->line = table->line;
            open->expression = text;
        }
    }
    query_table_demand(table, !open, "an expression without its answer");
    fclose(file);
}

static inline void query_table_release(struct query_table *table)
{
    weir_arena_release(&table->arena);
}

#endif
