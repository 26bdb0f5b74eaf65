/*
 * symbols: names for code addresses of the target, from its executable and libraries.
 * It stands after stacks, at the end of a session.
 *
 * Units: addresses of the process.
 * Owns: the map of modules, until weir_symbols_close().
 * Threads: owner only.
 * Errors: an address that has no name gets its module's, or "[unknown]".
 */
#ifndef WEIR_TRACER_SYMBOLS_H
#define WEIR_TRACER_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct weir_symbols;

/* Notes which files are mapped where, while the process is there. Files are opened only when a name is asked for, the executable
 * by `exe_fd`, so that one which has been replaced still has the right names. Null when the process can't be read. */
struct weir_symbols *weir_symbols_open(pid_t pid, int exe_fd, const char *exe);
/* Looks again, for libraries that were loaded since. */
void weir_symbols_refresh(struct weir_symbols *symbols);
void weir_symbols_close(struct weir_symbols *symbols);

/* Name of the function at `address` into `text`. `is_return`: the address is where a call returns to. A null `symbols` is allowed. */
void weir_symbols_name(struct weir_symbols *symbols, uint64_t address, int is_return, char *text, size_t size);

#endif
