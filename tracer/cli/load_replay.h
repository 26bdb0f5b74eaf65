/*
 * load_replay: a file of recorded events, as the workload of a load.
 *
 * Two kinds are told apart by their first byte: frames as they are on the wire (a 4-byte length, then a message), and JSON, one
 * event a line or one array of them, as `riemann-client query -j` prints it: host, service, state, description, metric, ttl,
 * time, tags, and attributes either as an object or as further fields.
 *
 * Units: none.
 * Owns: nothing; the workload is the caller's.
 * Threads: any.
 * Errors: -EINVAL names the file and the line.
 */
#ifndef WEIR_CLI_LOAD_REPLAY_H
#define WEIR_CLI_LOAD_REPLAY_H

#include "base/error.h"
#include "pipeline_dsl/client/workload.h"

int load_replay(struct weir_workload *workload, const char *path, size_t events, struct weir_error *error);

#endif
