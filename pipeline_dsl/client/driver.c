/*
 * DESIGN: an epoll over the thread's connections; nothing is shared while it runs but the messages, which are read only.
 *
 * A connection is topped up only when a quarter of its window is free: several messages then go in one write and the driver
 * wakes less often, which matters when it shares its CPUs with the server. No answer can be missed for it, since at least
 * three quarters of the window are still under way.
 *
 * Answers come in order, so what waits for them is a ring: each message takes as many rides from it as its tag says. In mode
 * batch a message has one ride for each of its events, whose latencies differ by what each waited for the others.
 */
#include "pipeline_dsl/client/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/dial.h"
#include "pipeline_dsl/wire/frame.h"

#define EPOLL_BATCH 64
#define QUERY_TAG ((uint64_t)1 << 63)
#define EVENT_SHIFT 32 /* a tag: rides below, events above, the query's mark on top */

/* --- what came of it ------------------------------------------------------------------------------------------------------ */

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

/* Two slices become one, so that a run of any length has enough room and slices of one width. */
void weir_driver_halve(struct weir_load_report *part)
{
    for (size_t i = 0; i < WEIR_LOAD_SLICES / 2; i++) {
        struct weir_load_slice *into = &part->slices[i];
        const struct weir_load_slice *first = &part->slices[2 * i], *second = &part->slices[2 * i + 1];
        if (i)
            *into = *first;
        into->messages += second->messages;
        into->events += second->events;
        into->failed += second->failed;
        weir_histogram_merge(&into->latency, &second->latency);
    }
    memset(part->slices + WEIR_LOAD_SLICES / 2, 0, WEIR_LOAD_SLICES / 2 * sizeof *part->slices);
    part->slice_count = WEIR_LOAD_SLICES / 2;
    part->slice_ns *= 2;
}

static struct weir_load_slice *slice_now(struct weir_driver *driver)
{
    struct weir_load_report *part = &driver->part;
    while (driver->now >= driver->slice_at) {
        if (part->slice_count == WEIR_LOAD_SLICES)
            weir_driver_halve(part);
        driver->slice_at = driver->start + part->slice_ns * ++part->slice_count;
    }
    return &part->slices[part->slice_count - 1];
}

/* One ride is over, well or not. One without an answer was under way as long as anything was measured. */
static void alight(struct weir_driver_connection *connection, bool answered, bool good, bool query, struct weir_load_slice *slice)
{
    struct weir_driver *driver = connection->driver;
    struct weir_ride *ride = &connection->rides[connection->done++ % connection->ride_room];
    struct weir_driver_client *client = &connection->clients[ride->client];
    client->under_way--;
    client->ready_at = driver->now;
    uint64_t last = driver->last_answer > driver->sent_until ? driver->last_answer : driver->sent_until;
    uint64_t until = answered || !last ? driver->now : last;
    uint64_t took = until > ride->since ? until - ride->since : 0;
    if (ride->since >= driver->measure_from)
        driver->time_under_way += (double)took;
    if (!good)
        return;
    if (!query)
        weir_histogram_add(&slice->latency, took, 1);
    if (ride->since < driver->measure_from)
        return;
    client->acked++;
    weir_histogram_add(query ? &driver->part.query_latency : &driver->part.latency, took, 1);
}

static void count(void *context, const struct weir_client_outcome *outcome)
{
    struct weir_driver_connection *connection = context;
    struct weir_driver *driver = connection->driver;
    struct weir_load_slice *slice = slice_now(driver);
    bool good = outcome->result == WEIR_CLIENT_ACKED, query = outcome->tag & QUERY_TAG;
    bool answered = good || outcome->result == WEIR_CLIENT_REFUSED;
    uint64_t events = (outcome->tag & ~QUERY_TAG) >> EVENT_SHIFT;
    uint64_t since = connection->rides[connection->done % connection->ride_room].since;
    driver->part.results[outcome->result]++;
    if (outcome->result == WEIR_CLIENT_REFUSED)
        keep_refusal(&driver->part, outcome->reply);
    if (answered)
        driver->last_answer = driver->last_sign = driver->now;
    else
        connection->lost = true;
    if (good && since >= driver->measure_from) {
        driver->part.measured++;
        driver->part.measured_events += events;
    }
    driver->part.queries_acked += good && query;
    slice->messages += good;
    slice->events += good ? events : 0;
    slice->failed += !good;
    for (uint32_t rides = (uint32_t)outcome->tag; rides; rides--)
        alight(connection, answered, good, query, slice);
    atomic_fetch_add_explicit(good ? &driver->progress_acked : &driver->progress_failed, 1, memory_order_relaxed);
    if (good)
        atomic_fetch_add_explicit(&driver->progress_events, events, memory_order_relaxed);
}

int weir_driver_connect(struct weir_driver_connection *connection, struct weir_error *error)
{
    struct weir_driver *driver = connection->driver;
    if (driver->options->datagram) {
        struct weir_dial_options dial = { .cancel_fd = -1, .datagram = true };
        connection->datagram_fd = weir_dial(driver->options->address, &dial, error);
        if (connection->datagram_fd < 0)
            return connection->datagram_fd;
        fcntl(connection->datagram_fd, F_SETFL, fcntl(connection->datagram_fd, F_GETFL) & ~O_NONBLOCK);
        return 0;
    }
    struct weir_client_options client = { .in_flight = driver->in_flight, .done = count, .context = connection,
                                          .cancel_fd = driver->options->stop_fd > 0 ? driver->options->stop_fd : 0 };
    int rc = weir_client_connect(&connection->client, driver->options->address, &client, error);
    if (rc)
        return rc;
    struct epoll_event interest = { .events = EPOLLIN, .data.ptr = connection };
    if (epoll_ctl(driver->epoll_fd, EPOLL_CTL_ADD, weir_client_fd(connection->client), &interest) != 0)
        return weir_error_set(error, WEIR_EXIT_FOUND, errno, "can't start the load: epoll: %s", strerror(errno));
    return 0;
}

/* --- sending -------------------------------------------------------------------------------------------------------------- */

static void board(struct weir_driver_connection *connection, uint64_t since)
{
    struct weir_driver_client *client = &connection->clients[connection->turn];
    client->under_way++;
    connection->rides[connection->boarded++ % connection->ride_room] = (struct weir_ride){ since, (uint32_t)connection->turn };
    connection->turn = connection->turn + 1 == connection->client_count ? 0 : connection->turn + 1;
}

/* Is it a query's turn? */
static bool query_due(struct weir_driver *driver)
{
    if (!driver->options->query_share)
        return false;
    driver->query_credit += driver->options->query_share;
    if (driver->query_credit < 1)
        return false;
    driver->query_credit -= 1;
    return true;
}

static void push(struct weir_driver_connection *connection, const char *frame, size_t size, uint64_t tag)
{
    struct weir_driver *driver = connection->driver;
    weir_client_push(connection->client, frame, size, tag);
    connection->left--;
    driver->last_sign = driver->now;
    driver->part.sent++;
    driver->part.sent_bytes += size;
}

/* Sends the next message, or a query, for the client whose turn it is. */
static void push_message(struct weir_driver_connection *connection, uint64_t since)
{
    struct weir_driver *driver = connection->driver;
    const struct weir_workload *workload = driver->workload;
    board(connection, since);
    if (query_due(driver)) {
        driver->part.queries++;
        push(connection, workload->query.data, workload->query.length, QUERY_TAG | 1);
        return;
    }
    size_t size;
    const char *frame = weir_workload_frame(workload, connection->next, &size);
    push(connection, frame, size, (uint64_t)weir_workload_events(workload, connection->next) << EVENT_SHIFT | 1);
    connection->next = connection->next + 1 == workload->count ? 0 : connection->next + 1;
}

static void unlink_batch(struct weir_driver_connection *connection)
{
    struct weir_driver *driver = connection->driver;
    struct weir_driver_connection **from_older = connection->older ? &connection->older->newer : &driver->oldest;
    struct weir_driver_connection **from_newer = connection->newer ? &connection->newer->older : &driver->newest;
    if (*from_older != connection)
        return; /* not in it */
    *from_older = connection->newer;
    *from_newer = connection->older;
    connection->older = connection->newer = NULL;
}

static void link_batch(struct weir_driver_connection *connection)
{
    struct weir_driver *driver = connection->driver;
    connection->older = driver->newest;
    *(driver->newest ? &driver->newest->newer : &driver->oldest) = connection;
    driver->newest = connection;
}

/* Joins the gathered events into one message and sends it. There must be room. */
static void push_batch(struct weir_driver_connection *connection)
{
    struct weir_driver *driver = connection->driver;
    const struct weir_workload *workload = driver->workload;
    struct weir_buffer *frame = &connection->frames[connection->frame_next];
    static const char blank[WEIR_FRAME_HEADER];
    unlink_batch(connection);
    connection->frame_next = connection->frame_next + 1 == driver->in_flight ? 0 : connection->frame_next + 1;
    weir_buffer_clear(frame);
    weir_buffer_add(frame, blank, sizeof blank);
    for (size_t i = 0; i < connection->gathered; i++) {
        size_t at = connection->next;
        weir_buffer_add(frame, workload->each.data + workload->each_starts[at],
                        workload->each_starts[at + 1] - workload->each_starts[at]);
        connection->next = at + 1 == workload->each_count ? 0 : at + 1;
    }
    if (frame->failed)
        weir_bug("out of memory for a batch of %zu events", connection->gathered);
    weir_frame_header((uint8_t *)frame->data, (uint32_t)(frame->length - WEIR_FRAME_HEADER));
    push(connection, frame->data, frame->length, (uint64_t)connection->gathered << EVENT_SHIFT | connection->gathered);
    connection->gathered = 0;
}

/* Has the oldest of its gathered events waited long enough? */
static bool overdue(const struct weir_driver_connection *connection)
{
    if (!connection->gathered)
        return false;
    if (connection->gathered == connection->driver->per_message)
        return true;
    const struct weir_ride *first = &connection->rides[(connection->boarded - connection->gathered) % connection->ride_room];
    return first->since + connection->driver->options->linger_ns <= connection->driver->now;
}

/* Adds an event to the batch; a full one goes out when there is room for it. */
static void gather(struct weir_driver_connection *connection, uint64_t since)
{
    if (!connection->gathered)
        link_batch(connection);
    board(connection, since);
    connection->gathered++;
    if (connection->gathered == connection->driver->per_message && weir_client_room(connection->client))
        push_batch(connection);
}

/* May the next client of this connection send something? */
static bool has_room(const struct weir_driver_connection *connection)
{
    const struct weir_driver *driver = connection->driver;
    if (!connection->client || !connection->left || connection->starts_at > driver->now)
        return false;
    if (driver->options->mode == WEIR_LOAD_BATCH)
        return connection->gathered < driver->per_message && weir_client_room(connection->client) + connection->gathered > 0;
    return weir_client_room(connection->client) > 0;
}

/* How much of it each client may have under way: its share of the window. */
static size_t window(const struct weir_driver_connection *connection)
{
    size_t window = connection->driver->in_flight * connection->driver->per_message / connection->client_count;
    return window ? window : 1;
}

/* Closed loop: fills the window again. */
static void top_up(struct weir_driver_connection *connection)
{
    struct weir_driver *driver = connection->driver;
    size_t room = weir_client_room(connection->client), most = window(connection);
    if (driver->phase != WEIR_DRIVER_SENDING || connection->starts_at > driver->now || room < (driver->in_flight + 3) / 4)
        return;
    for (; room && connection->left; room--) {
        if (driver->options->mode == WEIR_LOAD_BATCH) {
            for (size_t i = 0; i < driver->per_message; i++)
                gather(connection, driver->now);
            continue;
        }
        const struct weir_driver_client *client = &connection->clients[connection->turn];
        if (client->under_way >= most)
            return;
        push_message(connection, most == 1 && client->ready_at ? client->ready_at : driver->now);
    }
}

/* --- one connection ------------------------------------------------------------------------------------------------------- */

static void retire(struct weir_driver_connection *connection)
{
    unlink_batch(connection);
    connection->boarded -= connection->gathered; /* never sent, so not counted */
    connection->gathered = 0;
    weir_client_free(connection->client); /* counts what is outstanding */
    connection->client = NULL;
    connection->driver->open--;
}

/* Writes what is queued, then lets the connection go when it has ended or is done, or waits for what it needs next. */
static void settle(struct weir_driver_connection *connection)
{
    struct weir_driver *driver = connection->driver;
    weir_client_write(connection->client);
    bool sending = driver->phase == WEIR_DRIVER_SENDING && connection->left;
    bool done = !sending && !weir_client_outstanding(connection->client) && !connection->gathered;
    bool ended = weir_client_ended(connection->client);
    if (done || ended) {
        driver->part.connections_lost += connection->lost || (ended && !done);
        retire(connection);
        return;
    }
    bool wants_out = weir_client_unwritten(connection->client);
    if (wants_out == connection->wants_out)
        return;
    connection->wants_out = wants_out;
    struct epoll_event interest = { .events = EPOLLIN | (wants_out ? EPOLLOUT : 0u), .data.ptr = connection };
    epoll_ctl(driver->epoll_fd, EPOLL_CTL_MOD, weir_client_fd(connection->client), &interest);
}

static void attend(struct weir_driver_connection *connection, uint32_t events)
{
    struct weir_driver *driver = connection->driver;
    driver->now = weir_clock_ns();
    if (events & ~(uint32_t)EPOLLOUT)
        weir_client_read(connection->client);
    if (!driver->due_gap_ns)
        top_up(connection);
    else if (overdue(connection) && weir_client_room(connection->client))
        push_batch(connection);
    settle(connection);
}

/* --- the clock ------------------------------------------------------------------------------------------------------------ */

static uint64_t due(const struct weir_driver *driver)
{
    return driver->start + (uint64_t)((double)driver->paced * driver->due_gap_ns);
}

/* What was due while it sent, and found no room or no time. */
static uint64_t left_behind(const struct weir_driver *driver)
{
    uint64_t until = driver->now < driver->stop_at ? driver->now : driver->stop_at;
    bool wanted = false;
    for (size_t i = 0; i < driver->count; i++)
        wanted = wanted || driver->connections[i].left;
    return wanted && driver->due_gap_ns && due(driver) < until ? (uint64_t)ceil((double)(until - due(driver)) / driver->due_gap_ns) : 0;
}

/* Sends what is due, each on the next connection in turn that has room. */
static void pace(struct weir_driver *driver)
{
    size_t from = driver->turn, visited = 0, refused = 0;
    while (due(driver) <= driver->now && due(driver) < driver->stop_at && refused < driver->count) {
        struct weir_driver_connection *connection = &driver->connections[driver->turn];
        driver->turn = driver->turn + 1 == driver->count ? 0 : driver->turn + 1;
        visited++;
        if (!has_room(connection)) {
            refused++;
            continue;
        }
        refused = 0;
        if (driver->options->mode == WEIR_LOAD_BATCH)
            gather(connection, due(driver));
        else
            push_message(connection, due(driver));
        driver->paced++;
    }
    for (size_t i = 0; i < visited && i < driver->count; i++) {
        struct weir_driver_connection *connection = &driver->connections[(from + i) % driver->count];
        if (connection->client && weir_client_unwritten(connection->client))
            settle(connection);
    }
}

static uint64_t lingers_until(const struct weir_driver *driver)
{
    const struct weir_driver_connection *connection = driver->oldest;
    if (!connection)
        return WEIR_DRIVER_NEVER;
    const struct weir_ride *first = &connection->rides[(connection->boarded - connection->gathered) % connection->ride_room];
    return first->since + driver->options->linger_ns;
}

/* Sends the batches whose time is over; one without room leaves the list, and goes when an answer makes some. */
static void end_lingering(struct weir_driver *driver)
{
    while (driver->oldest && (lingers_until(driver) <= driver->now || driver->phase != WEIR_DRIVER_SENDING)) {
        struct weir_driver_connection *connection = driver->oldest;
        if (weir_client_room(connection->client)) {
            push_batch(connection);
            settle(connection);
        } else {
            unlink_batch(connection);
        }
    }
}

/* Lets those clients begin whose time in the ramp has come. */
static void ramp_up(struct weir_driver *driver)
{
    while (driver->started < driver->count && driver->connections[driver->started].starts_at <= driver->now) {
        struct weir_driver_connection *connection = &driver->connections[driver->started++];
        if (connection->client && !driver->due_gap_ns)
            attend(connection, EPOLLOUT);
    }
}

static uint64_t outstanding(const struct weir_driver *driver)
{
    uint64_t ended = 0;
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        ended += driver->part.results[i];
    return driver->part.sent - ended;
}

/* When the wait for answers is over: so long after the last sign of life. While it sends this counts where no duration ends that. */
static uint64_t quiet_until(const struct weir_driver *driver)
{
    if (driver->phase == WEIR_DRIVER_SENDING && (driver->stop_at != WEIR_DRIVER_NEVER || !outstanding(driver)))
        return WEIR_DRIVER_NEVER;
    return driver->last_sign + driver->options->wait_ns;
}

/* Moves on to WAITING or GIVING_UP when their time, or the caller's wish, has come. */
static void step(struct weir_driver *driver)
{
    int wish = atomic_load_explicit(driver->wish, memory_order_relaxed);
    if (driver->phase == WEIR_DRIVER_SENDING && (wish > WEIR_DRIVER_SENDING || driver->now >= driver->stop_at)) {
        if (driver->due_gap_ns)
            pace(driver); /* what came due since the last time */
        driver->part.unsent = left_behind(driver);
        driver->phase = WEIR_DRIVER_WAITING;
        driver->stopped = wish > WEIR_DRIVER_SENDING;
        driver->last_sign = driver->sent_until = driver->now;
        end_lingering(driver);
        for (size_t i = 0; i < driver->count; i++)
            if (driver->connections[i].client)
                settle(&driver->connections[i]);
    }
    if (driver->phase != WEIR_DRIVER_GIVING_UP && (wish > WEIR_DRIVER_WAITING || driver->now >= quiet_until(driver))) {
        driver->phase = WEIR_DRIVER_GIVING_UP;
        for (size_t i = 0; i < driver->count; i++)
            if (driver->connections[i].client)
                retire(&driver->connections[i]);
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When the thread must wake even if nothing comes. */
static uint64_t wake_at(const struct weir_driver *driver)
{
    uint64_t at = quiet_until(driver);
    if (driver->phase != WEIR_DRIVER_SENDING)
        return at;
    at = earlier(at, earlier(driver->stop_at, lingers_until(driver)));
    if (driver->started < driver->count)
        at = earlier(at, driver->connections[driver->started].starts_at);
    /* What is overdue waits for room, which an answer will announce. */
    if (driver->due_gap_ns && due(driver) > driver->now)
        at = earlier(at, due(driver));
    return at;
}

/* --- datagrams ------------------------------------------------------------------------------------------------------------ */

static void send_datagram(struct weir_driver_connection *connection)
{
    struct weir_driver *driver = connection->driver;
    struct weir_load_slice *slice = slice_now(driver);
    size_t size, events = weir_workload_events(driver->workload, connection->next);
    const char *frame = weir_workload_frame(driver->workload, connection->next, &size);
    connection->next = connection->next + 1 == driver->workload->count ? 0 : connection->next + 1;
    connection->left--;
    driver->part.sent++;
    driver->part.sent_bytes += size - WEIR_FRAME_HEADER;
    bool good = send(connection->datagram_fd, frame + WEIR_FRAME_HEADER, size - WEIR_FRAME_HEADER, MSG_NOSIGNAL) >= 0;
    if (!good && !driver->part.refusal[0])
        snprintf(driver->part.refusal, sizeof driver->part.refusal, "%s", strerror(errno));
    driver->part.results[good ? WEIR_CLIENT_SENT : WEIR_CLIENT_BROKEN]++;
    driver->last_answer = driver->now;
    slice->messages += good;
    slice->events += good ? events : 0;
    slice->failed += !good;
    if (good && driver->now >= driver->measure_from) {
        driver->part.measured++;
        driver->part.measured_events += events;
        connection->clients[connection->turn].acked++;
    }
    connection->turn = connection->turn + 1 == connection->client_count ? 0 : connection->turn + 1;
    atomic_fetch_add_explicit(good ? &driver->progress_acked : &driver->progress_failed, 1, memory_order_relaxed);
    if (good)
        atomic_fetch_add_explicit(&driver->progress_events, events, memory_order_relaxed);
}

static void sleep_until(uint64_t at)
{
    struct timespec time = { (time_t)(at / 1000000000u), (long)(at % 1000000000u) };
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

/* Sends on one socket after the other, by the clock or as fast as they take it. */
static void run_datagrams(struct weir_driver *driver)
{
    for (size_t idle = 0; idle < driver->count;) {
        driver->now = weir_clock_ns();
        int wish = atomic_load_explicit(driver->wish, memory_order_relaxed);
        driver->stopped = wish > WEIR_DRIVER_SENDING;
        if (driver->stopped || driver->now >= driver->stop_at)
            break;
        uint64_t at = driver->due_gap_ns ? due(driver) : 0;
        if (at > driver->now) {
            sleep_until(earlier(earlier(at, driver->stop_at), driver->now + 50000000));
            continue;
        }
        struct weir_driver_connection *connection = &driver->connections[driver->turn];
        driver->turn = driver->turn + 1 == driver->count ? 0 : driver->turn + 1;
        idle = connection->left ? 0 : idle + 1;
        if (!connection->left || connection->starts_at > driver->now)
            continue;
        send_datagram(connection);
        driver->paced++;
    }
    driver->part.unsent = left_behind(driver);
    if (driver->now >= driver->stop_at || driver->stopped) {
        driver->phase = WEIR_DRIVER_WAITING;
        driver->sent_until = driver->now;
    }
}

/* --- the thread ----------------------------------------------------------------------------------------------------------- */

static void run_streams(struct weir_driver *driver)
{
    struct epoll_event ready[EPOLL_BATCH];
    while (driver->open) {
        driver->now = weir_clock_ns();
        step(driver);
        ramp_up(driver);
        if (driver->phase == WEIR_DRIVER_SENDING && driver->due_gap_ns)
            pace(driver);
        end_lingering(driver);
        if (!driver->open)
            break;
        uint64_t at = wake_at(driver);
        uint64_t left = at > driver->now ? at - driver->now : 0;
        struct timespec timeout = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
        int got = epoll_pwait2(driver->epoll_fd, ready, EPOLL_BATCH, at == WEIR_DRIVER_NEVER ? NULL : &timeout, NULL);
        for (int i = 0; i < got; i++) {
            struct weir_driver_connection *connection = ready[i].data.ptr;
            if (connection && connection->client)
                attend(connection, ready[i].events);
        }
    }
}

void *weir_driver_run(void *argument)
{
    struct weir_driver *driver = argument;
    uint64_t began = weir_clock_ns(), cpu_began = weir_clock_thread_cpu_ns();
    driver->now = began;
    if (driver->options->datagram)
        run_datagrams(driver);
    else
        run_streams(driver);
    uint64_t one = 1, ended = weir_clock_ns();
    if (!driver->last_answer)
        driver->last_answer = ended;
    driver->part.cpu_ns = weir_clock_thread_cpu_ns() - cpu_began;
    driver->part.wall_ns = ended - began;
    ssize_t written = write(driver->ended_fd, &one, sizeof one);
    (void)written; /* an eventfd takes it */
    return NULL;
}
