/*
 * workload: the messages that a load driver sends, made before the clock starts.
 * It stands before the client: whoever drives a server takes one ready frame after the other.
 *
 * The events are those of a fleet: 100 hosts, 20 services on each, state, description, time, a float metric, ttl, two tags, one
 * attribute; about 115 bytes an event on the wire. Several distinct messages follow one another in a ring, so that a server
 * sees different keys while the driver's own work stays small.
 *
 * Units: bytes.
 * Owns: its frames, until weir_workload_release().
 * Threads: any, once made.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_CLIENT_WORKLOAD_H
#define WEIR_CLIENT_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct weir_workload {
    struct weir_buffer bytes;
    size_t *starts; /* [count + 1], into bytes */
    size_t count;
};

#define WEIR_WORKLOAD_EVENTS_MOST 100000u /* beyond, a message passes 16 MiB, the usual largest frame */

/* `time_us` is the time of the first event; `events` are in one message. */
int weir_workload_init(struct weir_workload *workload, size_t events, int64_t time_us, struct weir_error *error);
void weir_workload_release(struct weir_workload *workload);

static inline const char *weir_workload_frame(const struct weir_workload *workload, size_t at, size_t *size)
{
    *size = workload->starts[at + 1] - workload->starts[at];
    return workload->bytes.data + workload->starts[at];
}

#endif
