/*
 * self: what the server tells about itself as events of its own (`--self-metrics DUR`), under the names that Riemann's own
 * instrumentation has, so that dashboards made for it find them.
 * It stands beside the listeners: its events are born inside, and enter behind the first `decode riemann`.
 *
 *   riemann server tcp ADDR conns | in rate | in latency 0.0, 0.5, 0.95, 0.99, 0.999     one set a listener; ADDR as it is bound
 *   riemann streams rate                                                                  events/s, all listeners
 *   riemann index size | expired | refused                                                of the first index; of others by their full names
 *   riemann QUEUE queue size | accepted rate | completed rate | rejected rate             one set a handoff; what it dropped counts
 *                                                                                         as rejected, and not as accepted
 *
 * Units: rates are per second over the last interval, latencies are ms from a message's arrival to its reply, of one message in
 *        WEIR_SELF_EVERY.
 * Owns: its timer and what it counted last.
 * Threads: the server's main thread; the loops measure latencies for it.
 * Errors: none but memory; an interval in which the pipeline is full goes into the next one.
 */
#ifndef WEIR_RUNTIME_SELF_H
#define WEIR_RUNTIME_SELF_H

#include <uv.h>

#include "base/error.h"
#include "base/histogram.h"

#define WEIR_SELF_EVERY 16u

struct weir_server;

struct weir_self {
    struct weir_server *server;
    uv_timer_t timer;
    uint64_t every_ns, last_ns;
    struct weir_contract_way *ways;     /* [way_count]: at last_ns, as are those below */
    struct weir_contract_queue *queues; /* [queue_count] */
    char host[256];
};

/* Every `every_ns` from now on; the plan has a self_source. The server's loops have been started, and its main loop has been set up. */
int weir_self_start(struct weir_self *self, struct weir_server *server, uint64_t every_ns, struct weir_error *error);
void weir_self_stop(struct weir_self *self);

#endif
