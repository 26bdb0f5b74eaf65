/*
 * pipeline_file: how every verb but lint and fmt reads a .weir file.
 *
 * Units: as in base/topology.h.
 * Owns: nothing; the topology lies in the arena given.
 * Threads: one at a time.
 * Errors: printed to stderr; the result is the exit code.
 */
#ifndef WEIR_CLI_PIPELINE_FILE_H
#define WEIR_CLI_PIPELINE_FILE_H

#include "base/arena.h"
#include "base/topology.h"

struct weir_diag_bag;

/* Loads `path` for verb `verb` ("build") and prints what was found to stderr, warnings too. Returns 0, or WEIR_EXIT_USAGE when
 * there are errors or the file can't be read. */
int weir_cli_load_pipeline(const char *verb, const char *path, struct weir_arena *arena, struct weir_topology *topology);

/* Prints the bag to stderr, in colour on a terminal unless NO_COLOR is set. */
void weir_cli_print_diags(const struct weir_diag_bag *bag);

#endif
