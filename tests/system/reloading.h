/*
 * reloading: has the servers of system tests become others, by `weir reload`.
 * It stands beside harness.
 *
 * Units: none.
 * Owns: a file in the server's folder, with what `weir reload` said.
 * Threads: one at a time.
 * Errors: whatever goes wrong fails the running cmocka test; that a reload is refused is no failure.
 */
#ifndef WEIR_TESTS_RELOADING_H
#define WEIR_TESTS_RELOADING_H

#include "tests/system/harness.h"

/* weir reload FILE PID; returns its exit code. */
int reloading_reload(const struct harness_server *server, const char *file);
/* Whether the last of them said so. */
bool reloading_said(const struct harness_server *server, const char *words);
/* Since when the server is what it is; it changes with each reload. `workers` (may be null): threads of its second pool. */
uint64_t reloading_started(const struct harness_server *server, uint32_t *workers);
/* Waits until that is not `before` any more. */
void reloading_wait(const struct harness_server *server, uint64_t before);
/* Asks the server itself to become a program; returns whether it agreed, and what it said. */
bool reloading_ask(const struct harness_server *server, const char *program, char *answer, size_t size);

#endif
