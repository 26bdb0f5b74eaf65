/*
 * print: tree -> the one canonical text.
 * It stands behind parse, beside check: `weir fmt` formats whatever parses.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: owner only.
 * Errors: -ENOMEM.
 *
 * The form: four blanks inside of braces; verbs, and the names of pools in a row, padded to one column; one blank between words;
 * `handoff` with limit, items, sized, full in this order; at most one empty line in a row, exactly one around a block; comments
 * where they were, those behind lines in a row in one column; line ends are \n; no byte order mark.
 */
#ifndef WEIR_LANG_PRINT_H
#define WEIR_LANG_PRINT_H

#include "base/buffer.h"
#include "pipeline_dsl/lang/tree.h"

int weir_print(const struct weir_tree *tree, const struct weir_source *source, struct weir_arena *scratch, struct weir_buffer *out);

/* One expectation on one line: "cpu(riemann.handoff) < 5% and wait(riemann.handoff) p99 < 20ms". The mean, which is the default,
 * is left out. */
void weir_print_expectation(const struct weir_tree_expectation *expectation, const struct weir_source *source,
                            struct weir_buffer *out);

#endif
