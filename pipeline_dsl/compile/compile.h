/*
 * compile: a checked topology -> one readable C file -> a native server.
 * It stands behind lang; what it writes is linked with the archives of stages, runtime, wire and base.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: one at a time.
 * Errors: -EINVAL for a topology that this version can't build, -ENOENT for a missing archive, -EBADMSG when the C compiler
 *         refuses a file: what it said is in `log`.
 */
#ifndef WEIR_COMPILE_COMPILE_H
#define WEIR_COMPILE_COMPILE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/topology.h"

/* The C file of a server. */
int weir_compile_emit(const struct weir_topology *topology, struct weir_buffer *out, struct weir_error *error);

/* What a server is compiled and linked with. */
struct weir_compile_kit {
    struct weir_buffer cc;          /* the compiler: $CC, or cc */
    struct weir_buffer cflags, libs; /* from the file `flags` */
    struct weir_buffer library_dir; /* holds flags and libweir-*.a */
    struct weir_buffer include_dir; /* holds weir/call.h and, below weir/, the rooms' own headers */
};

/* Finds all that beside the running executable: ../lib/weir and ../include. */
int weir_compile_kit_find(struct weir_compile_kit *kit, struct weir_error *error);
void weir_compile_kit_release(struct weir_compile_kit *kit);

/* Compiles and links `source` (from weir_compile_emit()) and the topology's `call` files into `output`, which is replaced only
 * on success. What the compiler said, warnings too, is appended to `log`. */
int weir_compile_link(const struct weir_compile_kit *kit, const struct weir_topology *topology, const struct weir_buffer *source,
                      const char *output, struct weir_buffer *log, struct weir_error *error);

/* A key for everything that a server is made of: the source, the `call` files with their headers, the archives, flags and compiler. 16 hex digits and
 * a NUL. */
int weir_compile_key(const struct weir_compile_kit *kit, const struct weir_topology *topology, const struct weir_buffer *source,
                     char key[17], struct weir_error *error);

#endif
