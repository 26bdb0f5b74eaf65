/*
 * load: drives a server with many virtual clients and counts what came of every message.
 * It stands on client and workload; the command line prints its report, and runs it once for each level of a sweep.
 *
 * A virtual client sends one message after the other; `share` of them use one connection. In mode
 *   sync       a connection has one message under way; its clients wait for their turn, as at a mutex
 *   batch      events are gathered into messages of `events`, for at most the linger time, and share a round trip
 *   pipelined  up to `in_flight` messages are under way on a connection
 *
 * With a rate it is an open loop: message j of a thread is due at start + j / (its share of the rate), whatever the server does,
 * and its latency counts from then. A stall shows in the latency instead of hiding as silence; what it kept from being sent at all
 * is counted.
 *
 * Units: ns of CLOCK_MONOTONIC, bytes, messages.
 * Owns: its threads and connections, for the time of the call; the report's slices and clients until weir_load_report_release().
 * Threads: any; the call blocks.
 * Errors: only what keeps it from starting, above all a connection that can't be made. A message that fails is a count in
 * the report.
 */
#ifndef WEIR_CLIENT_LOAD_H
#define WEIR_CLIENT_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/histogram.h"
#include "pipeline_dsl/client/client.h"
#include "pipeline_dsl/client/workload.h"

enum weir_load_mode { WEIR_LOAD_PIPELINED, WEIR_LOAD_BATCH, WEIR_LOAD_SYNC };
const char *weir_load_mode_name(enum weir_load_mode mode);

/* What may be shown while it runs. */
struct weir_load_progress {
    uint64_t elapsed_ns, acked, failed, acked_events; /* so far; datagrams count as acknowledged */
};

struct weir_load_options {
    const char *address;
    const struct weir_workload *workload; /* what to send; null: the usual events, `events` in a message */
    enum weir_load_mode mode;
    bool datagram;         /* UDP: nothing comes back; the modes mean nothing */
    size_t clients;
    size_t share;          /* clients on one connection; 0: 1 */
    size_t events;         /* in one message */
    size_t in_flight;      /* messages under way on one connection at most; sync: 1 whatever it says */
    uint64_t linger_ns;    /* batch: that an event waits for others at most */
    size_t threads;        /* that share the connections; more than there are connections is cut down */
    uint64_t ramp_ns;      /* the clients start one by one over this time; figures are taken from then on */
    uint64_t duration_ns;  /* of sending, after the ramp; 0: no bound */
    uint64_t loops;        /* messages that each client sends; 0: no bound */
    double rate;           /* messages/s in all (batch: events/s); 0: whenever there is room */
    double query_share;    /* of the messages that are the workload's query instead, 0 to 1 */
    uint64_t wait_ns;      /* for the next answer, once sending is over or no duration ends it; what then is unanswered failed */
    int stop_fd;           /* a signalfd or eventfd, or -1: the first thing read from it ends the sending, the second the wait */
    uint64_t progress_ns;  /* between two calls of `progress`, on the calling thread */
    void (*progress)(void *context, const struct weir_load_progress *progress); /* may be null */
    void *context;
};

enum weir_load_end { WEIR_LOAD_DURATION, WEIR_LOAD_LOOPS, WEIR_LOAD_STOPPED, WEIR_LOAD_LOST };

/* What happened in one stretch of time. */
struct weir_load_slice {
    uint64_t messages, events, failed; /* that ended in it, well or not */
    struct weir_histogram latency;
};
#define WEIR_LOAD_SLICES 128u

/* sent = results[ACKED] + results[SENT] + the sum of all other results, always. */
struct weir_load_report {
    uint64_t sent, results[WEIR_CLIENT_RESULTS];
    uint64_t sent_bytes;             /* framed, of the messages sent */
    uint64_t measured, measured_events; /* messages and events that ended well, of those sent after the ramp */
    uint64_t unsent;                 /* due by the rate, and never sent, for want of room or of time; batch: events */
    uint64_t queries, queries_acked; /* of these messages */
    uint64_t duration_ns;            /* from the end of the ramp to the last answer, or to when time or the caller ended the
                                        sending if that is later; to the end of all when no answer came */
    uint64_t cpu_ns;                 /* of the driver's own threads */
    uint64_t busiest_ns;             /* of the one that used most */
    uint64_t wall_ns;                /* that they ran */
    uint64_t connections, connections_lost; /* lost: ended before they were done */
    enum weir_load_end end;          /* LOST: no connection was left */
    struct weir_histogram latency;   /* ns, of what was acknowledged: messages, in mode batch events; without queries */
    struct weir_histogram query_latency;
    double in_flight;                /* that were waiting for their answer on average, their turn included (Little's law) */
    uint64_t client_least, client_most; /* what the slowest and the fastest client got acknowledged since the ramp; batch: events */
    double client_mean;
    char refusal[256];               /* what the first refusal said, or why the first datagram was not taken; "": none */
    struct weir_load_slice *slices;  /* [slice_count], of slice_ns each, from the first message on */
    size_t slice_count;
    uint64_t slice_ns;
};

int weir_load_run(const struct weir_load_options *options, struct weir_load_report *report, struct weir_error *error);
void weir_load_report_release(struct weir_load_report *report);

/* Messages that failed, of whatever kind. */
uint64_t weir_load_failed(const struct weir_load_report *report);

#endif
