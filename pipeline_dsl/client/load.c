/*
 * DESIGN: the connections are shared out among a few threads, each with an epoll of its own; nothing is shared while they run
 * but the messages, which are read only. The calling thread waits for the stop descriptor and for the threads' end.
 *
 * A connection is topped up only when a quarter of its window is free: several messages then go in one write and the driver
 * wakes less often, which matters when it shares its CPUs with the server. No answer can be missed for it, since at least
 * three quarters of the window are still under way.
 *
 * With a rate, message j of a thread is due at start + j / (its share of the rate), whatever the server does. One that finds
 * no room stays due, and its latency counts from then: a stall shows in the latency instead of hiding as silence.
 */
#include "pipeline_dsl/client/load.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/workload.h"

#define EPOLL_BATCH 64
#define NEVER UINT64_MAX

enum phase { SENDING, WAITING, GIVING_UP };

struct connection {
    struct weir_client *client; /* null: done */
    struct worker *worker;
    size_t next;    /* message of the workload */
    uint64_t left;  /* messages still to send */
    bool wants_out; /* the epoll waits for room in the socket */
    bool lost;      /* its end cost messages */
};

struct worker {
    const struct weir_load_options *options;
    const struct weir_workload *workload;
    atomic_int *wish; /* enum phase that the caller wants */
    int epoll_fd;
    int ended_fd;
    struct connection *connections; /* [count] */
    size_t count, open;
    size_t turn; /* whose turn it is, when paced */
    enum phase phase;
    bool stopped;           /* by the caller's wish */
    uint64_t now, start, stop_at, give_up_at, last_answer;
    double due_gap_ns;      /* between two of its messages when paced; 0: not paced */
    uint64_t paced;         /* messages that were sent by that clock */
    struct weir_load_report part;
    pthread_t thread;
};

/* What all workers and the caller share; released in one place. */
struct run {
    struct weir_workload workload;
    struct connection *connections;
    struct worker *workers;
    size_t worker_count;
    atomic_int wish;
    int wake_fd;  /* edge-triggered in each worker's epoll: the wish has changed */
    int ended_fd; /* each worker adds 1 at its end */
};

uint64_t weir_load_failed(const struct weir_load_report *report)
{
    uint64_t failed = 0;
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        failed += weir_client_result_failed((enum weir_client_result)i) ? report->results[i] : 0;
    return failed;
}

/* --- one connection --------------------------------------------------------------------------------------------------- */

static void keep_refusal(struct weir_load_report *part, const struct weir_message *reply)
{
    if (part->refusal[0])
        return;
    size_t size = 0;
    for (; size < reply->error.size && size < sizeof part->refusal - 1; size++) {
        uint8_t byte = reply->error.data[size];
        part->refusal[size] = byte < 0x20 || byte >= 0x7f ? '?' : (char)byte; /* goes to a terminal */
    }
    if (!size)
        strcpy(part->refusal, "(no reason given)");
}

static void count(void *context, const struct weir_client_outcome *outcome)
{
    struct connection *connection = context;
    struct worker *worker = connection->worker;
    worker->part.results[outcome->result]++;
    if (outcome->result == WEIR_CLIENT_ACKED)
        weir_histogram_add(&worker->part.latency, worker->now > outcome->tag ? worker->now - outcome->tag : 0, 1);
    if (outcome->result == WEIR_CLIENT_REFUSED)
        keep_refusal(&worker->part, outcome->reply);
    if (outcome->result == WEIR_CLIENT_ACKED || outcome->result == WEIR_CLIENT_REFUSED)
        worker->last_answer = worker->now;
    else
        connection->lost = true;
}

static void push(struct worker *worker, struct connection *connection, uint64_t since)
{
    size_t size;
    const char *frame = weir_workload_frame(worker->workload, connection->next, &size);
    weir_client_push(connection->client, frame, size, since);
    connection->next = connection->next + 1 == worker->workload->count ? 0 : connection->next + 1;
    connection->left--;
    worker->part.sent++;
    worker->part.sent_bytes += size;
}

static void top_up(struct worker *worker, struct connection *connection)
{
    size_t room = weir_client_room(connection->client);
    if (worker->phase != SENDING || room < (worker->options->in_flight + 3) / 4)
        return;
    for (; room && connection->left; room--)
        push(worker, connection, worker->now);
}

static void retire(struct worker *worker, struct connection *connection)
{
    weir_client_free(connection->client); /* counts what is outstanding */
    connection->client = NULL;
    worker->open--;
}

/* Writes what is queued, then lets the connection go when it has ended or is done, or waits for what it needs next. */
static void settle(struct worker *worker, struct connection *connection)
{
    weir_client_write(connection->client);
    bool done = (worker->phase != SENDING || !connection->left) && !weir_client_outstanding(connection->client);
    bool ended = weir_client_ended(connection->client);
    if (done || ended) {
        worker->part.connections_lost += connection->lost || (ended && !done);
        retire(worker, connection);
        return;
    }
    bool wants_out = weir_client_unwritten(connection->client);
    if (wants_out == connection->wants_out)
        return;
    connection->wants_out = wants_out;
    struct epoll_event interest = { .events = EPOLLIN | (wants_out ? EPOLLOUT : 0u), .data.ptr = connection };
    epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, weir_client_fd(connection->client), &interest);
}

static void attend(struct worker *worker, struct connection *connection, uint32_t events)
{
    worker->now = weir_clock_ns();
    if (events & ~(uint32_t)EPOLLOUT)
        weir_client_read(connection->client);
    if (!worker->due_gap_ns)
        top_up(worker, connection);
    settle(worker, connection);
}

/* --- one thread ------------------------------------------------------------------------------------------------------- */

static uint64_t due(const struct worker *worker)
{
    return worker->start + (uint64_t)((double)worker->paced * worker->due_gap_ns);
}

/* Sends what is due, each on the next connection in turn that has room. */
static void pace(struct worker *worker)
{
    size_t from = worker->turn, visited = 0, refused = 0;
    while (due(worker) <= worker->now && refused < worker->count) {
        struct connection *connection = &worker->connections[worker->turn];
        worker->turn = (worker->turn + 1) % worker->count;
        visited++;
        if (!connection->client || !connection->left || !weir_client_room(connection->client)) {
            refused++;
            continue;
        }
        refused = 0;
        push(worker, connection, due(worker));
        worker->paced++;
    }
    for (size_t i = 0; i < visited && i < worker->count; i++) {
        struct connection *connection = &worker->connections[(from + i) % worker->count];
        if (connection->client && weir_client_unwritten(connection->client))
            settle(worker, connection);
    }
}

/* Moves on to WAITING or GIVING_UP when their time, or the caller's wish, has come. */
static void step(struct worker *worker)
{
    int wish = atomic_load_explicit(worker->wish, memory_order_relaxed);
    if (worker->phase == SENDING && (wish > SENDING || worker->now >= worker->stop_at)) {
        worker->phase = WAITING;
        worker->stopped = wish > SENDING;
        worker->give_up_at = worker->now + worker->options->wait_ns;
        for (size_t i = 0; i < worker->count; i++)
            if (worker->connections[i].client)
                settle(worker, &worker->connections[i]);
    }
    if (worker->phase == WAITING && (wish > WAITING || worker->now >= worker->give_up_at)) {
        worker->phase = GIVING_UP;
        for (size_t i = 0; i < worker->count; i++)
            if (worker->connections[i].client)
                retire(worker, &worker->connections[i]);
    }
}

/* When the thread must wake even if nothing comes. */
static uint64_t wake_at(const struct worker *worker)
{
    if (worker->phase != SENDING)
        return worker->give_up_at;
    uint64_t at = worker->stop_at;
    /* What is overdue waits for room, which an answer will announce. */
    if (worker->due_gap_ns && due(worker) > worker->now && due(worker) < at)
        at = due(worker);
    return at;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct epoll_event ready[EPOLL_BATCH];
    worker->now = weir_clock_ns();
    for (size_t i = 0; i < worker->count && !worker->due_gap_ns; i++)
        attend(worker, &worker->connections[i], EPOLLOUT);
    while (worker->open) {
        worker->now = weir_clock_ns();
        step(worker);
        if (worker->phase == SENDING && worker->due_gap_ns)
            pace(worker);
        if (!worker->open)
            break;
        uint64_t at = wake_at(worker);
        uint64_t left = at > worker->now ? at - worker->now : 0;
        struct timespec timeout = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
        int got = epoll_pwait2(worker->epoll_fd, ready, EPOLL_BATCH, at == NEVER ? NULL : &timeout, NULL);
        for (int i = 0; i < got; i++) {
            struct connection *connection = ready[i].data.ptr;
            if (connection && connection->client)
                attend(worker, connection, ready[i].events);
        }
    }
    if (!worker->last_answer)
        worker->last_answer = weir_clock_ns();
    worker->part.cpu_ns = weir_clock_thread_cpu_ns();
    uint64_t one = 1;
    ssize_t written = write(worker->ended_fd, &one, sizeof one);
    (void)written; /* an eventfd takes it */
    return NULL;
}

/* --- the run ---------------------------------------------------------------------------------------------------------- */

static void run_release(struct run *run, size_t connections)
{
    for (size_t i = 0; run->connections && i < connections; i++)
        weir_client_free(run->connections[i].client);
    for (size_t i = 0; i < run->worker_count; i++)
        if (run->workers[i].epoll_fd >= 0)
            close(run->workers[i].epoll_fd);
    if (run->wake_fd >= 0)
        close(run->wake_fd);
    if (run->ended_fd >= 0)
        close(run->ended_fd);
    free(run->workers);
    free(run->connections);
    weir_workload_release(&run->workload);
}

static int system_error(struct weir_error *error, const char *what)
{
    return weir_error_set(error, WEIR_EXIT_FOUND, errno, "can't start the load: %s: %s", what, strerror(errno));
}

static int make_workers(struct run *run, const struct weir_load_options *options, struct weir_error *error)
{
    size_t threads = options->threads < options->connections ? options->threads : options->connections;
    run->connections = calloc(options->connections, sizeof *run->connections);
    run->workers = calloc(threads, sizeof *run->workers);
    if (!run->connections || !run->workers)
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for %zu connections", options->connections);
    size_t first = 0;
    for (size_t i = 0; i < threads; i++) {
        struct worker *worker = &run->workers[i];
        run->worker_count++;
        worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event wake = { .events = EPOLLIN | EPOLLET };
        if (worker->epoll_fd < 0 || epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, run->wake_fd, &wake) != 0)
            return system_error(error, "epoll");
        worker->options = options;
        worker->workload = &run->workload;
        worker->wish = &run->wish;
        worker->ended_fd = run->ended_fd;
        worker->connections = run->connections + first;
        worker->count = worker->open = options->connections / threads + (i < options->connections % threads);
        worker->due_gap_ns = options->rate > 0 ? 1e9 * (double)threads / options->rate : 0;
        first += worker->count;
    }
    return 0;
}

static int connect_all(struct run *run, const struct weir_load_options *options, struct weir_error *error)
{
    size_t number = 0;
    for (size_t i = 0; i < run->worker_count; i++) {
        struct worker *worker = &run->workers[i];
        for (size_t k = 0; k < worker->count; k++, number++) {
            struct connection *connection = &worker->connections[k];
            struct weir_client_options client = { .in_flight = options->in_flight, .done = count, .context = connection };
            connection->worker = worker;
            connection->next = number * 7 % run->workload.count; /* so that they don't send the same at once */
            connection->left = options->loops ? options->loops : UINT64_MAX;
            int rc = weir_client_connect(&connection->client, options->address, &client, error);
            if (rc)
                return rc;
            struct epoll_event interest = { .events = EPOLLIN, .data.ptr = connection };
            if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, weir_client_fd(connection->client), &interest) != 0)
                return system_error(error, "epoll");
        }
    }
    return 0;
}

static void wish(struct run *run, int phase)
{
    uint64_t one = 1;
    atomic_store_explicit(&run->wish, phase, memory_order_relaxed);
    ssize_t written = write(run->wake_fd, &one, sizeof one);
    (void)written; /* an eventfd takes it */
}

/* Waits until `started` workers have ended, and hands them what the stop descriptor says. */
static void watch(struct run *run, int stop_fd, size_t started)
{
    struct pollfd fds[2] = { { .fd = run->ended_fd, .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
    while (started) {
        if (poll(fds, 2, -1) < 0)
            continue;
        uint64_t ended;
        if (fds[0].revents && read(run->ended_fd, &ended, sizeof ended) == sizeof ended)
            started -= ended;
        char said[128]; /* one signalfd_siginfo */
        if (fds[1].revents && read(stop_fd, said, sizeof said) > 0)
            wish(run, atomic_load_explicit(&run->wish, memory_order_relaxed) == SENDING ? WAITING : GIVING_UP);
        else if (fds[1].revents)
            fds[1].fd = -1;
    }
}

static int start_all(struct run *run, const struct weir_load_options *options, struct weir_error *error)
{
    uint64_t start = weir_clock_ns();
    size_t started = 0;
    int code = 0;
    for (; started < run->worker_count && !code; started += !code) {
        struct worker *worker = &run->workers[started];
        worker->start = start + (uint64_t)((double)started * worker->due_gap_ns / (double)run->worker_count);
        worker->stop_at = options->duration_ns ? start + options->duration_ns : NEVER;
        code = pthread_create(&worker->thread, NULL, work, worker);
    }
    if (code)
        wish(run, GIVING_UP);
    watch(run, code ? -1 : options->stop_fd, started);
    for (size_t i = 0; i < started; i++)
        pthread_join(run->workers[i].thread, NULL);
    if (code)
        return weir_error_set(error, WEIR_EXIT_FOUND, code, "can't start %zu threads: %s", run->worker_count, strerror(code));
    return 0;
}

static void sum_up(const struct run *run, const struct weir_load_options *options, struct weir_load_report *report)
{
    *report = (struct weir_load_report){ .end = options->duration_ns ? WEIR_LOAD_DURATION : WEIR_LOAD_LOOPS };
    uint64_t start = run->workers[0].start, last = start, ended_early = 0;
    bool stopped = false, timed = false;
    for (size_t i = 0; i < run->worker_count; i++) {
        const struct worker *worker = &run->workers[i];
        report->sent += worker->part.sent;
        report->sent_bytes += worker->part.sent_bytes;
        report->cpu_ns += worker->part.cpu_ns;
        report->connections_lost += worker->part.connections_lost;
        for (int k = 0; k < WEIR_CLIENT_RESULTS; k++)
            report->results[k] += worker->part.results[k];
        weir_histogram_merge(&report->latency, &worker->part.latency);
        if (worker->last_answer > last)
            last = worker->last_answer;
        if (!report->refusal[0])
            memcpy(report->refusal, worker->part.refusal, sizeof report->refusal);
        stopped = stopped || worker->stopped;
        timed = timed || worker->phase != SENDING;
        ended_early += worker->part.connections_lost;
    }
    report->duration_ns = last - start;
    if (stopped)
        report->end = WEIR_LOAD_STOPPED;
    else if (ended_early == options->connections)
        report->end = WEIR_LOAD_LOST;
    else if (!timed)
        report->end = WEIR_LOAD_LOOPS;
    if (report->sent != report->results[WEIR_CLIENT_ACKED] + weir_load_failed(report))
        weir_bug("%llu messages sent, but %llu acknowledged and %llu failed", (unsigned long long)report->sent,
                 (unsigned long long)report->results[WEIR_CLIENT_ACKED], (unsigned long long)weir_load_failed(report));
}

int weir_load_run(const struct weir_load_options *options, struct weir_load_report *report, struct weir_error *error)
{
    struct run run = { .workload = { .bytes = WEIR_BUFFER_INIT } };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    run.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    run.ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = run.wake_fd < 0 || run.ended_fd < 0 ? system_error(error, "eventfd") : 0;
    if (!rc)
        rc = weir_workload_init(&run.workload, options->events, (int64_t)now.tv_sec * 1000000, error);
    if (!rc)
        rc = make_workers(&run, options, error);
    if (!rc)
        rc = connect_all(&run, options, error);
    if (!rc)
        rc = start_all(&run, options, error);
    if (!rc)
        sum_up(&run, options, report);
    run_release(&run, options->connections);
    return rc;
}
