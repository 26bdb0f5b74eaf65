/*
 * duration: how a length of time is written on the command line: "10s", "500ms", "1.5min"; a number alone is seconds.
 *
 * Units: ns.
 * Owns: nothing.
 * Threads: any.
 * Errors: false for what is no duration, is below 1 ns, or above 30 days; nothing is printed.
 */
#ifndef WEIR_CLI_DURATION_H
#define WEIR_CLI_DURATION_H

#include <stdbool.h>
#include <stdint.h>

bool weir_cli_duration(const char *text, uint64_t *ns);

#endif
