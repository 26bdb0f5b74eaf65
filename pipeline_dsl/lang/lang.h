/*
 * lang: the text of a pipeline file -> a checked topology. The one way into this room.
 * It stands before compile; the command line's verbs come here through tracer/cli/pipeline_file.h.
 *
 * Units: as in base/topology.h.
 * Owns: nothing; the topology lies in the arena given, source and diagnostics in the bag. Each lives without the other.
 * Threads: any, each with its own arena and bag.
 * Errors: -EBADMSG when the text has errors (they are in the bag), another -errno when it couldn't be read at all; both with
 *         a sentence.
 */
#ifndef WEIR_LANG_LANG_H
#define WEIR_LANG_LANG_H

#include "base/arena.h"
#include "base/error.h"
#include "base/topology.h"
#include "pipeline_dsl/lang/diag.h"

/* Reads, parses and checks. On 0 the topology is whole, with every default filled in, and the bag may hold warnings; otherwise
 * the topology is all zero. `diags` must be fresh from weir_diag_bag_init(). A tail that nothing enters is checked, and then
 * left out of the topology (W105 says so). */
int weir_lang_load(const char *path, struct weir_arena *arena, struct weir_topology *topology, struct weir_diag_bag *diags,
                   struct weir_error *error);

/* The same for text in memory. `path` names it in diagnostics, names the topology, and is what the path of a `call` is
 * relative to; nothing is read from it. */
int weir_lang_load_memory(const char *path, const void *data, size_t size, struct weir_arena *arena,
                          struct weir_topology *topology, struct weir_diag_bag *diags, struct weir_error *error);

/* The canonical form of a text that parses; what the checker would say about it does not matter. -EBADMSG, with the errors in
 * the bag and nothing written, when it doesn't parse. */
int weir_lang_format(const char *path, struct weir_buffer *out, struct weir_diag_bag *diags, struct weir_error *error);
int weir_lang_format_memory(const char *path, const void *data, size_t size, struct weir_buffer *out,
                            struct weir_diag_bag *diags, struct weir_error *error);

/* One line of an expect block, as `weir check --expect` is given it, looked up in a topology that exists (a profile's). The
 * result lies in `arena`. -EBADMSG as above. */
int weir_lang_expectation(const char *text, const struct weir_topology *topology, struct weir_arena *arena,
                          struct weir_topology_expectation *expectation, struct weir_diag_bag *diags, struct weir_error *error);

#endif
