/*
 * driver: one thread of the load, with the connections that it drives and the virtual clients on them.
 * It stands between load, which makes and sums up its drivers, and client, which moves the bytes.
 *
 * Units: ns of CLOCK_MONOTONIC, messages.
 * Owns: its connections.
 * Threads: run: one; prepare and read before and after it. `wish` and the progress counters are shared while it runs.
 * Errors: connecting says why; everything later is a count.
 */
#ifndef WEIR_CLIENT_DRIVER_H
#define WEIR_CLIENT_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "pipeline_dsl/client/load.h"

#define WEIR_DRIVER_NEVER UINT64_MAX

enum weir_driver_phase { WEIR_DRIVER_SENDING, WEIR_DRIVER_WAITING, WEIR_DRIVER_GIVING_UP };

/* A virtual client. */
struct weir_driver_client {
    uint64_t acked;      /* messages since the ramp; batch: events */
    uint64_t ready_at;   /* when it wanted to send what it sends next */
    uint32_t under_way;
};

/* One thing that waits for its answer: a message, or in mode batch an event of one. */
struct weir_ride {
    uint64_t since;
    uint32_t client; /* of the connection */
};

struct weir_driver_connection {
    struct weir_client *client; /* null: done */
    int datagram_fd;            /* -1: a stream */
    struct weir_driver *driver;
    struct weir_driver_client *clients; /* [client_count] */
    size_t client_count, turn;
    size_t next;        /* message of the workload; batch: event */
    uint64_t left;      /* messages still to send */
    uint64_t starts_at; /* not before */
    bool wants_out;     /* the epoll waits for room in the socket */
    bool lost;          /* its end cost messages */
    struct weir_ride *rides; /* ring, [ride_room]: [done, boarded), the last `gathered` of them not in a message yet */
    size_t ride_room, done, boarded, gathered;
    struct weir_buffer *frames; /* batch: ring of the messages under way, [in_flight] */
    size_t frame_next;
    struct weir_driver_connection *older, *newer; /* in the list of those with a batch that lingers */
};

struct weir_driver {
    const struct weir_load_options *options;
    const struct weir_workload *workload;
    atomic_int *wish; /* enum weir_driver_phase that the caller wants */
    int epoll_fd, ended_fd;
    struct weir_driver_connection *connections; /* [count], by starts_at */
    size_t count, open, started;
    size_t in_flight, per_message; /* of a connection; rides in a full message */
    size_t turn;                   /* whose turn it is, when paced */
    struct weir_driver_connection *oldest, *newest; /* batches that linger */
    enum weir_driver_phase phase;
    bool stopped; /* by the caller's wish */
    uint64_t now, start, measure_from, stop_at, last_answer;
    uint64_t last_sign;  /* the last push or answer */
    uint64_t sent_until; /* when time or the caller's wish ended the sending; 0: neither did */
    double due_gap_ns;   /* between two of its messages when paced; 0: not paced */
    uint64_t paced;      /* that were sent by that clock */
    double query_credit; /* of a query that is due when it reaches 1 */
    double time_under_way; /* of all rides since the ramp, whatever became of them */
    struct weir_load_report part;
    uint64_t slice_at;   /* the slice that is open ends here */
    atomic_uint_fast64_t progress_acked, progress_failed, progress_events;
    pthread_t thread;
};

/* Connects the connection; its clients and rides are made by the caller. */
int weir_driver_connect(struct weir_driver_connection *connection, struct weir_error *error);
/* Joins the slices of a report two by two, so that each is twice as wide. */
void weir_driver_halve(struct weir_load_report *part);
/* The thread: struct weir_driver. Adds 1 to `ended_fd` at its end. */
void *weir_driver_run(void *driver);

#endif
