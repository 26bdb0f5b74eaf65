/*
 * load: drives a server with pipelined connections and counts what came of every message.
 * It stands on client and workload; the command line prints its report.
 *
 * Units: ns of CLOCK_MONOTONIC, bytes, messages.
 * Owns: its threads and connections, for the time of the call.
 * Threads: any; the call blocks.
 * Errors: only what keeps it from starting, above all a connection that can't be made. A message that fails is a count in
 * the report.
 */
#ifndef WEIR_CLIENT_LOAD_H
#define WEIR_CLIENT_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/histogram.h"
#include "pipeline_dsl/client/client.h"

struct weir_load_options {
    const char *address;
    size_t connections;
    size_t events;        /* in one message */
    size_t in_flight;     /* messages under way on one connection at most */
    size_t threads;       /* that share the connections; more than there are connections is cut down */
    uint64_t duration_ns; /* of sending; 0: no bound */
    uint64_t loops;       /* messages that each connection sends; 0: no bound */
    double rate;          /* messages/s in all, latency then counted from when each was due; 0: whenever there is room */
    uint64_t wait_ns;     /* for the last answers, once sending is over; what then is unanswered failed */
    int stop_fd;          /* a signalfd or eventfd, or -1: the first thing read from it ends the sending, the second the wait */
};

enum weir_load_end { WEIR_LOAD_DURATION, WEIR_LOAD_LOOPS, WEIR_LOAD_STOPPED, WEIR_LOAD_LOST };

/* sent = results[ACKED] + the sum of all other results, always. */
struct weir_load_report {
    uint64_t sent, results[WEIR_CLIENT_RESULTS];
    uint64_t sent_bytes;           /* framed, of the messages sent */
    uint64_t duration_ns;          /* from the first message to the last answer; to the end when none came */
    uint64_t cpu_ns;               /* of the driver's own threads */
    uint64_t connections_lost;     /* that ended before they were done */
    enum weir_load_end end;        /* LOST: no connection was left */
    struct weir_histogram latency; /* ns, of the acknowledged messages */
    char refusal[256];             /* what the first refusal said; "" when there was none */
};

int weir_load_run(const struct weir_load_options *options, struct weir_load_report *report, struct weir_error *error);

/* Messages that failed, of whatever kind. */
uint64_t weir_load_failed(const struct weir_load_report *report);

#endif
