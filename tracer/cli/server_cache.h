/*
 * server_cache: the folder of compiled servers that `weir run` and `weir reload` share.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: one at a time.
 * Errors: printed to stderr; the result is the exit code.
 */
#ifndef WEIR_CLI_SERVER_CACHE_H
#define WEIR_CLI_SERVER_CACHE_H

#include "base/buffer.h"

/* Checks the pipeline file and has its server built, unless the cache has it. `path` receives the program. */
int weir_cli_cached_server(const char *verb, const char *file, struct weir_buffer *path);

#endif
