/*
 * verb: one word of the `weir` command line. Each verb is a file that ends in one const entry, and a row in main.c.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: one at a time.
 * Errors: `run` prints its sentence to stderr and returns an enum weir_exit.
 */
#ifndef WEIR_CLI_VERB_H
#define WEIR_CLI_VERB_H

#include <stddef.h>

#include "base/error.h"

struct weir_verb {
    const char *name;
    const char *usage;   /* "FILE -o BIN [--emit-c]" */
    const char *summary; /* one line, lower case, no full stop */
    int (*run)(int argc, char **argv); /* argv[0] is the verb's name */
    const char *manual;  /* what `weir help VERB` prints below; null: no more than the summary */
};

extern const struct weir_verb weir_verb_lint, weir_verb_fmt, weir_verb_graph, weir_verb_build, weir_verb_run, weir_verb_load,
    weir_verb_doctor, weir_verb_record, weir_verb_report, weir_verb_explain, weir_verb_predict, weir_verb_check, weir_verb_reload;

/* Prints "weir VERB: SENTENCE" to stderr and returns the exit code the error carries (2 when it carries none). */
int weir_cli_fail(const char *verb, const struct weir_error *error);

/* Prints "weir VERB: SENTENCE" and a pointer to `weir help VERB` to stderr, returns WEIR_EXIT_USAGE. */
int weir_cli_usage(const struct weir_verb *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes all of `data` to stdout. Returns 0, or WEIR_EXIT_USAGE after saying why (a closed pipe is silent). */
int weir_cli_out(const void *data, size_t size);

#endif
