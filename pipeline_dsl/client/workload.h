/*
 * workload: the messages that a load driver sends, made before the clock starts.
 * It stands before the client: whoever drives a server takes one ready frame after the other.
 *
 * The usual events are those of a fleet: 100 hosts, 20 services on each, state, description, time, a float metric, ttl, two tags,
 * one attribute; about 115 bytes an event on the wire. Several distinct messages follow one another in a ring, so that a server
 * sees different keys while the driver's own work stays small.
 *
 * Units: bytes.
 * Owns: its frames, until weir_workload_release().
 * Threads: any, once made.
 * Errors: -ENOMEM, -EMSGSIZE.
 */
#ifndef WEIR_CLIENT_WORKLOAD_H
#define WEIR_CLIENT_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "pipeline_dsl/wire/message.h"

struct weir_workload {
    struct weir_buffer bytes;
    size_t *starts;      /* [count + 1], into bytes: framed messages of `events` each (the last may have fewer) */
    size_t count, events;
    struct weir_buffer each;
    size_t *each_starts; /* [each_count + 1], into each: messages of one event, without frames; they can be joined */
    size_t each_count;
    struct weir_buffer query; /* framed; empty: none */
};

#define WEIR_WORKLOAD_EVENTS_MOST 100000u /* beyond, a message passes 16 MiB, the usual largest frame */

/* How the made-up events look. */
struct weir_workload_shape {
    size_t hosts, services;       /* different ones */
    size_t tags, attributes;
    size_t description_bytes;     /* 0: "NN% of one CPU" */
    enum weir_metric_kind metric; /* NIL: a float */
};
extern const struct weir_workload_shape weir_workload_usual;
#define WEIR_WORKLOAD_TAGS_MOST 64u

/* `time_us` is the time of the first event; `events` are in one message. */
int weir_workload_init(struct weir_workload *workload, const struct weir_workload_shape *shape, size_t events, int64_t time_us,
                       struct weir_error *error);
/* The same of given events, in their order, over and over. */
int weir_workload_replay(struct weir_workload *workload, const struct weir_event *list, size_t count, size_t events,
                         struct weir_error *error);
/* Adds the query that some of the messages are. */
int weir_workload_query(struct weir_workload *workload, const char *text, struct weir_error *error);
void weir_workload_release(struct weir_workload *workload);

static inline const char *weir_workload_frame(const struct weir_workload *workload, size_t at, size_t *size)
{
    *size = workload->starts[at + 1] - workload->starts[at];
    return workload->bytes.data + workload->starts[at];
}

/* How many events are in message `at`. */
static inline size_t weir_workload_events(const struct weir_workload *workload, size_t at)
{
    size_t left = workload->each_count - at * workload->events;
    return left < workload->events ? left : workload->events;
}

#endif
