#include "pipeline_dsl/lang/diag.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void weir_diag_bag_init(struct weir_diag_bag *bag)
{
    memset(bag, 0, sizeof *bag);
    weir_arena_init(&bag->arena, 16384, SIZE_MAX);
    bag->source.path = "";
    bag->source.text = "";
}

void weir_diag_bag_release(struct weir_diag_bag *bag)
{
    weir_arena_release(&bag->arena);
    bag->count = 0;
}

bool weir_diag_bag_open(const struct weir_diag_bag *bag)
{
    return bag->count < WEIR_DIAG_MOST;
}

static const char *format_words(struct weir_diag_bag *bag, const char *format, va_list args)
{
    char text[1024];
    vsnprintf(text, sizeof text, format, args);
    const char *copy = weir_arena_dup(&bag->arena, text, strlen(text));
    if (!copy)
        bag->failed = true;
    return copy ? copy : "";
}

struct weir_diag *weir_diag_add(struct weir_diag_bag *bag, enum weir_code code, struct weir_span span, const char *format, ...)
{
    bool warns = weir_code_warns(code);
    if (warns)
        bag->warning_count++;
    else
        bag->error_count++;
    if (!weir_diag_bag_open(bag))
        return NULL;
    struct weir_diag *diag = &bag->diags[bag->count];
    va_list args;
    va_start(args, format);
    *diag = (struct weir_diag){
        .code = code,
        .severity = warns ? WEIR_SEVERITY_WARNING : WEIR_SEVERITY_ERROR,
        .span = span,
        .message = format_words(bag, format, args),
        .order = bag->count++,
    };
    va_end(args);
    return diag;
}

void weir_diag_hint(struct weir_diag_bag *bag, struct weir_diag *diag, const char *format, ...)
{
    if (!diag)
        return;
    va_list args;
    va_start(args, format);
    diag->hint = format_words(bag, format, args);
    va_end(args);
}

void weir_diag_relate(struct weir_diag_bag *bag, struct weir_diag *diag, struct weir_span span, const char *format, ...)
{
    if (!diag)
        return;
    struct weir_diag_related *related = weir_arena_zalloc(&bag->arena, sizeof *related);
    if (!related) {
        bag->failed = true;
        return;
    }
    va_list args;
    va_start(args, format);
    related->span = span;
    related->message = format_words(bag, format, args);
    va_end(args);
    struct weir_diag_related **end = &diag->related;
    while (*end)
        end = &(*end)->next;
    *end = related;
}

static int by_place(const void *left, const void *right)
{
    const struct weir_diag *a = left, *b = right;
    if (a->span.offset != b->span.offset)
        return a->span.offset < b->span.offset ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

void weir_diag_bag_sort(struct weir_diag_bag *bag)
{
    if (bag->count)
        qsort(bag->diags, bag->count, sizeof *bag->diags, by_place);
}
