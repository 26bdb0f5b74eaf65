/*
 * DESIGN: the connections are shared out among a few threads (driver.c), and nothing is shared while they run but the messages.
 * The calling thread waits for the stop descriptor and for the threads' end, and shows how far they are.
 */
#include "pipeline_dsl/client/load.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/driver.h"
#include "pipeline_dsl/wire/frame.h"

#define DATAGRAM_MOST 65507u /* bytes that UDP carries over IPv4 */
#define SLICE_FIRST_NS 100000000u
#define DIALLERS 32u
#define RIDES_MOST ((size_t)1 << 31)

/* What all drivers and the caller share; released in one place. */
struct run {
    const struct weir_load_options *options;
    struct weir_workload own;              /* where the caller gave none */
    const struct weir_workload *workload;
    struct weir_driver_connection *connections;
    size_t connection_count;
    struct weir_driver_client *clients;
    struct weir_driver *drivers;
    size_t driver_count;
    atomic_int wish;
    atomic_bool refused; /* a connection could not be made */
    int wake_fd;  /* edge-triggered in each driver's epoll: the wish has changed */
    int ended_fd; /* each driver adds 1 at its end */
};

const char *weir_load_mode_name(enum weir_load_mode mode)
{
    static const char *const names[] = { "pipelined", "batch", "sync" };
    return names[mode];
}

uint64_t weir_load_failed(const struct weir_load_report *report)
{
    uint64_t failed = 0;
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        failed += weir_client_result_failed((enum weir_client_result)i) ? report->results[i] : 0;
    return failed;
}

void weir_load_report_release(struct weir_load_report *report)
{
    free(report->slices);
    report->slices = NULL;
    report->slice_count = 0;
}

/* --- making and releasing ------------------------------------------------------------------------------------------------- */

static void connection_release(struct weir_driver_connection *connection, size_t in_flight)
{
    weir_client_free(connection->client);
    if (connection->datagram_fd >= 0)
        close(connection->datagram_fd);
    for (size_t i = 0; connection->frames && i < in_flight; i++)
        weir_buffer_release(&connection->frames[i]);
    free(connection->frames);
    free(connection->rides);
}

static void run_release(struct run *run)
{
    for (size_t i = 0; run->connections && i < run->connection_count; i++)
        if (run->connections[i].driver)
            connection_release(&run->connections[i], run->connections[i].driver->in_flight);
    for (size_t i = 0; i < run->driver_count; i++) {
        free(run->drivers[i].part.slices);
        if (run->drivers[i].epoll_fd >= 0)
            close(run->drivers[i].epoll_fd);
    }
    if (run->wake_fd >= 0)
        close(run->wake_fd);
    if (run->ended_fd >= 0)
        close(run->ended_fd);
    free(run->drivers);
    free(run->connections);
    free(run->clients);
    weir_workload_release(&run->own);
}

static int system_error(struct weir_error *error, const char *what)
{
    return weir_error_set(error, WEIR_EXIT_FOUND, errno, "can't start the load: %s: %s", what, strerror(errno));
}

static int no_memory(const struct run *run, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for %zu clients", run->options->clients);
}

static int make_driver(struct run *run, struct weir_driver *driver, struct weir_error *error)
{
    const struct weir_load_options *options = run->options;
    struct epoll_event wake = { .events = EPOLLIN | EPOLLET };
    driver->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    run->driver_count++;
    if (driver->epoll_fd < 0 || epoll_ctl(driver->epoll_fd, EPOLL_CTL_ADD, run->wake_fd, &wake) != 0)
        return system_error(error, "epoll");
    driver->options = options;
    driver->workload = run->workload;
    driver->wish = &run->wish;
    driver->ended_fd = run->ended_fd;
    driver->in_flight = options->mode == WEIR_LOAD_SYNC || options->datagram ? 1 : options->in_flight;
    driver->per_message = options->mode == WEIR_LOAD_BATCH && !options->datagram ? options->events : 1;
    driver->part.slice_ns = SLICE_FIRST_NS;
    driver->part.slices = calloc(WEIR_LOAD_SLICES, sizeof *driver->part.slices);
    return driver->part.slices ? 0 : no_memory(run, error);
}

static int make_drivers(struct run *run, struct weir_error *error)
{
    const struct weir_load_options *options = run->options;
    size_t share = options->share ? options->share : 1;
    run->connection_count = (options->clients + share - 1) / share;
    size_t threads = options->threads < run->connection_count ? options->threads : run->connection_count, first = 0;
    run->connections = calloc(run->connection_count, sizeof *run->connections);
    run->clients = calloc(options->clients, sizeof *run->clients);
    run->drivers = calloc(threads, sizeof *run->drivers);
    if (!run->connections || !run->clients || !run->drivers)
        return no_memory(run, error);
    for (size_t i = 0; i < threads; i++) {
        struct weir_driver *driver = &run->drivers[i];
        int rc = make_driver(run, driver, error);
        if (rc)
            return rc;
        driver->connections = run->connections + first;
        driver->count = driver->open = run->connection_count / threads + (i < run->connection_count % threads);
        driver->due_gap_ns = options->rate > 0 ? 1e9 * (double)threads / options->rate : 0;
        first += driver->count;
    }
    return 0;
}

/* Connection `number` of all, with its share of the clients. */
static int make_connection(struct run *run, struct weir_driver *driver, struct weir_driver_connection *connection, size_t number,
                           struct weir_error *error)
{
    const struct weir_load_options *options = run->options;
    size_t share = options->share ? options->share : 1, left = options->clients - number * share;
    bool batch = driver->per_message > 1;
    connection->driver = driver;
    connection->datagram_fd = -1;
    connection->clients = run->clients + number * share;
    connection->client_count = left < share ? left : share;
    /* So that they don't send the same at once. */
    connection->next = batch ? number * 7 * options->events % run->workload->each_count : number * 7 % run->workload->count;
    connection->left = options->loops ? options->loops * connection->client_count : UINT64_MAX;
    if (driver->in_flight + 1 > RIDES_MOST / driver->per_message)
        return no_memory(run, error);
    connection->ride_room = (driver->in_flight + 1) * driver->per_message;
    connection->rides = calloc(connection->ride_room, sizeof *connection->rides);
    if (options->mode == WEIR_LOAD_BATCH)
        connection->frames = calloc(driver->in_flight, sizeof *connection->frames);
    if (!connection->rides || (options->mode == WEIR_LOAD_BATCH && !connection->frames))
        return no_memory(run, error);
    return 0;
}

static int make_connections(struct run *run, struct weir_error *error)
{
    size_t number = 0;
    for (size_t i = 0; i < run->driver_count; i++) {
        struct weir_driver *driver = &run->drivers[i];
        for (size_t k = 0; k < driver->count; k++, number++) {
            int rc = make_connection(run, driver, &driver->connections[k], number, error);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* One of the threads that connect, each every DIALLERS-th: over a long link one after the other would take minutes. */
struct dialler {
    struct run *run;
    size_t first, step;
    int rc;
    struct weir_error error;
    pthread_t thread;
};

static void *dial_some(void *argument)
{
    struct dialler *dialler = argument;
    struct run *run = dialler->run;
    for (size_t i = dialler->first; i < run->connection_count && !dialler->rc; i += dialler->step)
        if (!atomic_load_explicit(&run->refused, memory_order_relaxed))
            dialler->rc = weir_driver_connect(&run->connections[i], &dialler->error);
    if (dialler->rc)
        atomic_store_explicit(&run->refused, true, memory_order_relaxed); /* the others need not try */
    return NULL;
}

static int connect_all(struct run *run, struct weir_error *error)
{
    struct dialler diallers[DIALLERS] = { 0 };
    size_t count = run->connection_count / 4 < DIALLERS ? run->connection_count / 4 + 1 : DIALLERS;
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        diallers[i] = (struct dialler){ .run = run, .first = i, .step = count };
    size_t started = 1;
    while (started < count && pthread_create(&diallers[started].thread, NULL, dial_some, &diallers[started]) == 0)
        started++;
    dial_some(&diallers[0]);
    for (size_t i = started; i < count; i++)
        dial_some(&diallers[i]); /* for which there was no thread */
    for (size_t i = 1; i < started; i++)
        pthread_join(diallers[i].thread, NULL);
    for (size_t i = 0; i < count && !rc; i++)
        if (diallers[i].rc)
            rc = weir_error_set(error, diallers[i].error.exit, -diallers[i].rc, "%s", diallers[i].error.text);
    return rc;
}

/* --- while it runs -------------------------------------------------------------------------------------------------------- */

static void wish(struct run *run, int phase)
{
    uint64_t one = 1;
    atomic_store_explicit(&run->wish, phase, memory_order_relaxed);
    ssize_t written = write(run->wake_fd, &one, sizeof one);
    (void)written; /* an eventfd takes it */
}

static void show_progress(struct run *run, uint64_t start)
{
    struct weir_load_progress progress = { .elapsed_ns = weir_clock_ns() - start };
    for (size_t i = 0; i < run->driver_count; i++) {
        progress.acked += atomic_load_explicit(&run->drivers[i].progress_acked, memory_order_relaxed);
        progress.failed += atomic_load_explicit(&run->drivers[i].progress_failed, memory_order_relaxed);
        progress.acked_events += atomic_load_explicit(&run->drivers[i].progress_events, memory_order_relaxed);
    }
    run->options->progress(run->options->context, &progress);
}

/* Waits until `started` drivers have ended, and hands them what the stop descriptor says. */
static void watch(struct run *run, int stop_fd, size_t started, uint64_t start)
{
    struct pollfd fds[2] = { { .fd = run->ended_fd, .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
    bool shows = run->options->progress && run->options->progress_ns;
    uint64_t show_at = start + run->options->progress_ns;
    while (started) {
        uint64_t now = weir_clock_ns();
        if (shows && now >= show_at) {
            show_progress(run, start);
            show_at = now + run->options->progress_ns;
        }
        if (poll(fds, 2, shows ? (int)((show_at - now) / 1000000u) + 1 : -1) < 0)
            continue;
        uint64_t ended;
        if (fds[0].revents && read(run->ended_fd, &ended, sizeof ended) == sizeof ended)
            started -= ended;
        char said[128]; /* one signalfd_siginfo */
        if (fds[1].revents && read(stop_fd, said, sizeof said) > 0)
            wish(run, atomic_load_explicit(&run->wish, memory_order_relaxed) == WEIR_DRIVER_SENDING ? WEIR_DRIVER_WAITING
                                                                                                     : WEIR_DRIVER_GIVING_UP);
        else if (fds[1].revents)
            fds[1].fd = -1;
    }
}

/* Sets a driver's clock: the ramp spreads all connections over its time, first to last. */
static void set_clock(struct run *run, struct weir_driver *driver, uint64_t start, size_t number)
{
    const struct weir_load_options *options = run->options;
    driver->start = driver->slice_at = start;
    driver->measure_from = start + options->ramp_ns;
    driver->stop_at = options->duration_ns ? driver->measure_from + options->duration_ns : WEIR_DRIVER_NEVER;
    for (size_t i = 0; i < driver->count; i++)
        driver->connections[i].starts_at =
            start +
            (uint64_t)((double)options->ramp_ns * (double)(i * run->driver_count + number) / (double)run->connection_count);
    if (driver->due_gap_ns)
        driver->start += (uint64_t)((double)number * driver->due_gap_ns / (double)run->driver_count);
}

static int start_all(struct run *run, struct weir_error *error)
{
    uint64_t start = weir_clock_ns();
    size_t started = 0;
    int code = 0;
    for (; started < run->driver_count && !code; started += !code) {
        set_clock(run, &run->drivers[started], start, started);
        code = pthread_create(&run->drivers[started].thread, NULL, weir_driver_run, &run->drivers[started]);
    }
    if (code)
        wish(run, WEIR_DRIVER_GIVING_UP);
    watch(run, code ? -1 : run->options->stop_fd, started, start);
    for (size_t i = 0; i < started; i++)
        pthread_join(run->drivers[i].thread, NULL);
    if (code)
        return weir_error_set(error, WEIR_EXIT_FOUND, code, "can't start %zu threads: %s", run->driver_count, strerror(code));
    return 0;
}

/* --- the report ----------------------------------------------------------------------------------------------------------- */

static void add_part(struct weir_load_report *report, const struct weir_load_report *part)
{
    report->sent += part->sent;
    report->sent_bytes += part->sent_bytes;
    report->measured += part->measured;
    report->measured_events += part->measured_events;
    report->unsent += part->unsent;
    report->queries += part->queries;
    report->queries_acked += part->queries_acked;
    report->cpu_ns += part->cpu_ns;
    report->busiest_ns = part->cpu_ns > report->busiest_ns ? part->cpu_ns : report->busiest_ns;
    report->wall_ns = part->wall_ns > report->wall_ns ? part->wall_ns : report->wall_ns;
    report->connections_lost += part->connections_lost;
    for (int k = 0; k < WEIR_CLIENT_RESULTS; k++)
        report->results[k] += part->results[k];
    weir_histogram_merge(&report->latency, &part->latency);
    weir_histogram_merge(&report->query_latency, &part->query_latency);
    if (!report->refusal[0])
        memcpy(report->refusal, part->refusal, sizeof report->refusal);
}

/* Brings all slices to one width and adds them up in the first driver's, which the report takes over. */
static void add_slices(struct run *run, struct weir_load_report *report)
{
    uint64_t width = 0;
    for (size_t i = 0; i < run->driver_count; i++)
        width = run->drivers[i].part.slice_ns > width ? run->drivers[i].part.slice_ns : width;
    struct weir_load_report *into = &run->drivers[0].part;
    for (size_t i = 0; i < run->driver_count; i++) {
        struct weir_load_report *part = &run->drivers[i].part;
        while (part->slice_ns < width) {
            size_t used = part->slice_count;
            weir_driver_halve(part);
            part->slice_count = (used + 1) / 2;
        }
        for (size_t k = 0; i && k < part->slice_count; k++) {
            into->slices[k].messages += part->slices[k].messages;
            into->slices[k].events += part->slices[k].events;
            into->slices[k].failed += part->slices[k].failed;
            weir_histogram_merge(&into->slices[k].latency, &part->slices[k].latency);
        }
        into->slice_count = part->slice_count > into->slice_count ? part->slice_count : into->slice_count;
    }
    report->slices = into->slices;
    report->slice_count = into->slice_count;
    report->slice_ns = width;
    into->slices = NULL;
}

static void sum_clients(const struct run *run, struct weir_load_report *report)
{
    report->client_least = UINT64_MAX;
    double sum = 0;
    for (size_t i = 0; i < run->options->clients; i++) {
        uint64_t acked = run->clients[i].acked;
        report->client_least = acked < report->client_least ? acked : report->client_least;
        report->client_most = acked > report->client_most ? acked : report->client_most;
        sum += (double)acked;
    }
    report->client_mean = sum / (double)run->options->clients;
}

static void sum_up(struct run *run, struct weir_load_report *report)
{
    const struct weir_load_options *options = run->options;
    *report = (struct weir_load_report){ .end = options->duration_ns ? WEIR_LOAD_DURATION : WEIR_LOAD_LOOPS,
                                         .connections = run->connection_count };
    uint64_t from = run->drivers[0].measure_from, last = from;
    double time_under_way = 0;
    bool stopped = false, timed = false;
    for (size_t i = 0; i < run->driver_count; i++) {
        const struct weir_driver *driver = &run->drivers[i];
        add_part(report, &driver->part);
        time_under_way += driver->time_under_way;
        last = driver->last_answer > last ? driver->last_answer : last;
        last = driver->sent_until > last ? driver->sent_until : last; /* a server that stalled is no faster for it */
        stopped = stopped || driver->stopped;
        timed = timed || driver->phase != WEIR_DRIVER_SENDING;
    }
    add_slices(run, report);
    sum_clients(run, report);
    report->duration_ns = last - from;
    /* Of messages: in mode batch, where the sum is over events, one in so many. */
    double each =
        options->mode == WEIR_LOAD_BATCH && report->measured ? (double)report->measured_events / (double)report->measured : 1;
    report->in_flight = report->duration_ns ? time_under_way / each / (double)report->duration_ns : 0;
    if (stopped)
        report->end = WEIR_LOAD_STOPPED;
    else if (report->connections_lost == report->connections)
        report->end = WEIR_LOAD_LOST;
    else if (!timed)
        report->end = WEIR_LOAD_LOOPS;
    if (report->sent != report->results[WEIR_CLIENT_ACKED] + report->results[WEIR_CLIENT_SENT] + weir_load_failed(report))
        weir_bug("%llu messages sent, but %llu acknowledged and %llu failed", (unsigned long long)report->sent,
                 (unsigned long long)report->results[WEIR_CLIENT_ACKED], (unsigned long long)weir_load_failed(report));
}

/* A message that no datagram can hold would fail each time. */
static int check_datagrams(const struct weir_workload *workload, struct weir_error *error)
{
    for (size_t i = 0; i < workload->count; i++) {
        size_t size;
        weir_workload_frame(workload, i, &size);
        if (size - WEIR_FRAME_HEADER > DATAGRAM_MOST)
            return weir_error_set(error, WEIR_EXIT_USAGE, EMSGSIZE,
                                  "a message of %zu bytes doesn't fit into a datagram, which takes %u; put fewer than %zu events "
                                  "into one", size - WEIR_FRAME_HEADER, DATAGRAM_MOST, weir_workload_events(workload, i));
    }
    return 0;
}

int weir_load_run(const struct weir_load_options *options, struct weir_load_report *report, struct weir_error *error)
{
    struct run run = { .options = options, .workload = options->workload };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    run.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    run.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = run.wake_fd < 0 || run.ended_fd < 0 ? system_error(error, "eventfd") : 0;
    if (!rc && !run.workload) {
        rc = weir_workload_init(&run.own, &weir_workload_usual, options->events, (int64_t)now.tv_sec * 1000000, error);
        run.workload = &run.own;
    }
    if (!rc && options->datagram)
        rc = check_datagrams(run.workload, error);
    if (!rc)
        rc = make_drivers(&run, error);
    if (!rc)
        rc = make_connections(&run, error);
    if (!rc)
        rc = connect_all(&run, error);
    if (!rc)
        rc = start_all(&run, error);
    if (!rc)
        sum_up(&run, report);
    run_release(&run);
    return rc;
}
