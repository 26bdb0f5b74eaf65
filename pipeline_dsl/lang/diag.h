/*
 * diag: what is wrong with a pipeline file, as objects in a bag; rendered apart, so that tests and tools never parse words.
 * Every part of lang puts its findings here; the command line renders them.
 *
 * Units: spans are bytes of the source.
 * Owns: the bag owns the source text, all diagnostics and their words, until weir_diag_bag_release().
 * Threads: owner only.
 * Errors: out of memory sets `failed`; what doesn't fit any more is only counted.
 */
#ifndef WEIR_LANG_DIAG_H
#define WEIR_LANG_DIAG_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "pipeline_dsl/lang/code.h"
#include "pipeline_dsl/lang/source.h"

enum weir_severity { WEIR_SEVERITY_ERROR, WEIR_SEVERITY_WARNING };

/* A second place that matters: the earlier definition, the other half of a contradiction. */
struct weir_diag_related {
    struct weir_span span;
    const char *message;
    struct weir_diag_related *next;
};

struct weir_diag {
    enum weir_code code; /* weir_code_name() is "E032" */
    enum weir_severity severity;
    struct weir_span span;
    const char *message; /* one sentence without full stop */
    struct weir_diag_related *related;
    const char *hint;    /* one concrete fix; null when there is none */
    size_t order;        /* of being found: ties in place keep it */
};

#define WEIR_DIAG_MOST 100u /* kept; more are counted */

struct weir_diag_bag {
    struct weir_arena arena;
    struct weir_source source;
    struct weir_diag diags[WEIR_DIAG_MOST];
    size_t count;
    size_t error_count, warning_count; /* all that were found, kept or not */
    bool failed;
};

void weir_diag_bag_init(struct weir_diag_bag *bag);
void weir_diag_bag_release(struct weir_diag_bag *bag);

/* Adds a finding. Returns it, so that the caller adds a hint and related places; null when it was only counted. The functions
 * below take null, so that a caller need not look. */
struct weir_diag *weir_diag_add(struct weir_diag_bag *bag, enum weir_code code, struct weir_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void weir_diag_hint(struct weir_diag_bag *bag, struct weir_diag *diag, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void weir_diag_relate(struct weir_diag_bag *bag, struct weir_diag *diag, struct weir_span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Would one more be kept? Work that only serves a message (such as looking for a similar name) can be left out when not. */
bool weir_diag_bag_open(const struct weir_diag_bag *bag);

/* Sorts by place. The loader has done so. */
void weir_diag_bag_sort(struct weir_diag_bag *bag);

/* All of them as text for people: place, severity, code, message, the source line with carets, related places, the fix; and a
 * last line with the counts. Nothing when the bag is empty. `color` adds terminal escapes; control bytes of the source never
 * get through. */
void weir_diag_render(const struct weir_diag_bag *bag, bool color, struct weir_buffer *out);

#endif
