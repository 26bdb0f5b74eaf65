/*
 * recording: what the tracer's system tests share: load on a server, a recording of it, and the rows of the profile.
 *
 * Units: ms.
 * Owns: the load's process, until recording_load_wait().
 * Threads: one at a time.
 * Errors: whatever goes wrong fails the running cmocka test; where BPF is missing it is skipped, or fails with WEIR_REQUIRE=bpf.
 */
#ifndef WEIR_TESTS_RECORDING_H
#define WEIR_TESTS_RECORDING_H

#include <sys/types.h>

#include "base/profile.h"
#include "tests/system/harness.h"

/* Skips the running test where nothing can be measured, with the reason on stderr. */
#define RECORDING_NEEDS_BPF() \
    do {                      \
        if (!recording_can()) \
            skip();           \
    } while (0)
bool recording_can(void);

/* Starts `weir load` against the server; `options` is more of its command line. */
pid_t recording_load(const struct harness_server *server, const char *options);
/* Waits for it; it must have had no failure. Returns the messages that it sent. */
void recording_load_wait(pid_t load);

/* Returns when the load has got answers by the way in for half a second: a process that starts late is no part of what is measured. */
void recording_load_runs(struct harness_server *server, const char *way);

/* Records for `duration_ms`; the caller frees the profile. It must have no loss and no violation. */
struct weir_profile *recording_take(const struct harness_server *server, enum weir_mode mode, unsigned duration_ms);
struct weir_session_options;
struct weir_profile *recording_take_with(const struct harness_server *server, const struct weir_session_options *more,
                                         unsigned duration_ms);
/* Starts `weir record` as a process of its own, writing to server->folder/NAME. */
pid_t recording_start(const struct harness_server *server, const char *name, const char *options);
/* Waits for a process; returns its exit code, or 128 + N when signal N killed it. */
int recording_wait(pid_t pid);
/* Loads what recording_start() saved. */
struct weir_profile *recording_open(const struct harness_server *server, const char *name);

/* Did others keep the server's threads from the CPUs? Then it was not as fast as it is by construction. */
bool recording_crowded(const struct weir_profile *profile);

const struct weir_profile_row *recording_row(const struct weir_profile *profile, const char *name);
/* The share that the stage measured of itself. */
double recording_truth(const struct weir_profile *profile, const struct weir_profile_row *row);

#endif
