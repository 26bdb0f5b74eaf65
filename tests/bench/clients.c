/*
 * clients KIND THREADS EVENTS SECONDS HOST:PORT: what one kind of client library does on one connection: events/s, the time from
 * a request's send to its answer (p50, p99), and CPU time of this process for each event.
 *
 *   sync         ours, a mutex around one round trip
 *   call         ours, pipelined underneath, every thread waits for its own answer
 *   pipelined    ours, every thread sends on and looks at what came of it later
 *   batch        ours, one event after the other, gathered into messages of 100
 *   lib-sync     Debian's libriemann-client, a mutex around send and receive
 *   lib-many     the same, 64 sends and then 64 receives
 *
 * All encode every message anew from events that were made before, so that the libraries' own work is in the figures.
 */
#include <pthread.h>
#include <riemann/riemann-client.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/histogram.h"
#include "pipeline_dsl/client/riemann.h"

#define EVENTS_MOST 1000u
#define WINDOW 8192u
#define KEPT 4u
#define MANY 64u
#define BYTES(text) { (const uint8_t *)(text), sizeof(text) - 1 }

struct bench {
    const char *kind;
    unsigned events;
    struct weir_riemann *ours;
    riemann_client_t *theirs;
    pthread_mutex_t mutex; /* around theirs */
    atomic_bool stop;
    atomic_uint_fast64_t failed;
};

struct caller {
    struct bench *bench;
    struct weir_event events[EVENTS_MOST];
    riemann_message_t *message; /* theirs */
    struct weir_histogram latency;
    uint64_t acked; /* messages; batch: events */
    uint64_t started[WINDOW];
    atomic_uint_fast64_t ended; /* requests, in order */
    pthread_t thread;
};

static void ours_fill(struct caller *caller)
{
    static const struct weir_bytes tags[] = { BYTES("fleet"), BYTES("linux") };
    static const struct weir_attribute attribute = { BYTES("zone"), BYTES("eu-1a") };
    for (unsigned i = 0; i < caller->bench->events; i++)
        caller->events[i] = (struct weir_event){ .host = BYTES("web-042.example.com"),
                                                 .service = BYTES("cpu-07/cpu-user"),
                                                 .state = BYTES("ok"),
                                                 .description = BYTES("37% of one CPU"),
                                                 .tags = tags,
                                                 .tag_count = 2,
                                                 .attributes = &attribute,
                                                 .attribute_count = 1,
                                                 .has_time = true,
                                                 .time_us = 1700000000000000,
                                                 .has_ttl = true,
                                                 .ttl = 300,
                                                 .metric_kind = WEIR_METRIC_FLOAT,
                                                 .metric_double = 0.25 };
}

static void theirs_fill(struct caller *caller)
{
    riemann_event_t **events = calloc(caller->bench->events, sizeof *events);
    caller->message = riemann_message_new();
    for (unsigned i = 0; i < caller->bench->events; i++) {
        events[i] = riemann_event_create(RIEMANN_EVENT_FIELD_HOST, "web-042.example.com", RIEMANN_EVENT_FIELD_SERVICE,
                                         "cpu-07/cpu-user", RIEMANN_EVENT_FIELD_STATE, "ok", RIEMANN_EVENT_FIELD_DESCRIPTION,
                                         "37% of one CPU", RIEMANN_EVENT_FIELD_TIME, (int64_t)1700000000,
                                         RIEMANN_EVENT_FIELD_TIME_MICROS, (int64_t)1700000000000000, RIEMANN_EVENT_FIELD_TTL,
                                         300.0, RIEMANN_EVENT_FIELD_METRIC_F, 0.25, RIEMANN_EVENT_FIELD_NONE);
        riemann_event_tag_add(events[i], "fleet");
        riemann_event_tag_add(events[i], "linux");
        riemann_event_string_attribute_add(events[i], "zone", "eu-1a");
    }
    riemann_message_set_events_n(caller->message, caller->bench->events, events);
}

/* --- the kinds ------------------------------------------------------------------------------------------------------------ */

static void took(struct caller *caller, uint64_t since)
{
    weir_histogram_add(&caller->latency, weir_clock_ns() - since, 1);
    caller->acked++;
}

static void *run_call(void *argument)
{
    struct caller *caller = argument;
    struct weir_message message = { .events = caller->events, .event_count = caller->bench->events };
    while (!atomic_load_explicit(&caller->bench->stop, memory_order_relaxed)) {
        uint64_t since = weir_clock_ns();
        if (weir_riemann_call(caller->bench->ours, &message, UINT64_MAX, NULL, NULL) == 0)
            took(caller, since);
        else
            atomic_fetch_add(&caller->bench->failed, 1);
    }
    return NULL;
}

/* On the reader thread. The answers to one caller come in the order of its requests. */
static void answered(void *context, const struct weir_outcome *outcome)
{
    struct caller *caller = context;
    uint64_t number = atomic_load_explicit(&caller->ended, memory_order_relaxed);
    if (outcome->result == WEIR_CLIENT_ACKED)
        took(caller, caller->started[number % WINDOW]);
    else
        atomic_fetch_add(&caller->bench->failed, 1);
    atomic_store_explicit(&caller->ended, number + 1, memory_order_release);
}

/* Sends while fewer than `window` are under way; then it waits for the promise of one that was sent a while ago. */
static void *run_pipelined(void *argument)
{
    struct caller *caller = argument;
    struct bench *bench = caller->bench;
    bool batch = strcmp(bench->kind, "batch") == 0;
    uint64_t window = batch ? 6400 : 256, sent = 0, kept = 0;
    struct weir_message message = { .events = caller->events, .event_count = bench->events };
    struct weir_promise *promises[KEPT] = { 0 };
    while (!atomic_load_explicit(&bench->stop, memory_order_relaxed)) {
        if (sent - atomic_load_explicit(&caller->ended, memory_order_acquire) >= window) {
            weir_promise_wait(promises[kept % KEPT], UINT64_MAX);
            sched_yield();
            continue;
        }
        bool keep = sent % (window / KEPT) == 0;
        struct weir_promise *promise = NULL;
        caller->started[sent % WINDOW] = weir_clock_ns();
        int rc = batch ? weir_riemann_send_event(bench->ours, &caller->events[0], answered, caller, keep ? &promise : NULL, NULL)
                       : weir_riemann_send(bench->ours, &message, answered, caller, keep ? &promise : NULL, NULL);
        if (rc) {
            atomic_fetch_add(&bench->failed, 1);
            continue;
        }
        sent++;
        if (keep) {
            weir_promise_release(promises[kept % KEPT]);
            promises[kept++ % KEPT] = promise;
        }
    }
    weir_riemann_flush(bench->ours);
    for (uint64_t i = 0; i < KEPT; i++) {
        if (promises[i])
            weir_promise_wait(promises[i], UINT64_MAX);
        weir_promise_release(promises[i]);
    }
    while (atomic_load_explicit(&caller->ended, memory_order_acquire) < sent)
        nanosleep(&(struct timespec){ 0, 100000 }, NULL);
    return NULL;
}

static bool theirs_receive(struct bench *bench)
{
    riemann_message_t *reply = riemann_client_recv_message(bench->theirs);
    bool good = reply && reply->ok;
    if (reply)
        riemann_message_free(reply);
    if (!good)
        atomic_fetch_add(&bench->failed, 1);
    return good;
}

static void *run_theirs(void *argument)
{
    struct caller *caller = argument;
    struct bench *bench = caller->bench;
    unsigned many = strcmp(bench->kind, "lib-many") == 0 ? MANY : 1;
    while (!atomic_load_explicit(&bench->stop, memory_order_relaxed)) {
        uint64_t wanted = weir_clock_ns();
        pthread_mutex_lock(&bench->mutex);
        for (unsigned i = 0; i < many; i++) {
            caller->started[i] = many == 1 ? wanted : weir_clock_ns();
            if (riemann_client_send_message(bench->theirs, caller->message) != 0)
                atomic_fetch_add(&bench->failed, 1);
        }
        for (unsigned i = 0; i < many; i++)
            if (theirs_receive(bench))
                took(caller, caller->started[i]);
        pthread_mutex_unlock(&bench->mutex);
    }
    return NULL;
}

/* --- one run -------------------------------------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000u;
}

static int open_client(struct bench *bench, char *address)
{
    struct weir_error error = WEIR_ERROR_INIT;
    if (strncmp(bench->kind, "lib-", 4) == 0) {
        char *colon = strrchr(address, ':');
        *colon = '\0';
        bench->theirs = riemann_client_create(RIEMANN_CLIENT_TCP, address, atoi(colon + 1));
        if (!bench->theirs)
            perror("libriemann-client");
        return bench->theirs ? 0 : 1;
    }
    struct weir_riemann_options options = { .kind = strcmp(bench->kind, "sync") == 0    ? WEIR_RIEMANN_SYNC
                                                    : strcmp(bench->kind, "batch") == 0 ? WEIR_RIEMANN_BATCHING
                                                                                         : WEIR_RIEMANN_PIPELINED,
                                            .room_wait_ns = 1000000000 };
    if (weir_riemann_open(&bench->ours, address, &options, &error) == 0)
        return 0;
    fprintf(stderr, "clients: %s\n", error.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct bench bench = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    unsigned threads = argc == 6 ? (unsigned)atoi(argv[2]) : 0;
    bench.kind = argc == 6 ? argv[1] : "";
    bench.events = argc == 6 ? (unsigned)atoi(argv[3]) : 0;
    if (!threads || !bench.events || bench.events > EVENTS_MOST) {
        fprintf(stderr, "usage: clients sync|call|pipelined|batch|lib-sync|lib-many THREADS EVENTS SECONDS HOST:PORT\n");
        return 2;
    }
    if (open_client(&bench, argv[5]))
        return 1;
    bool theirs = bench.theirs != NULL, waits = strcmp(bench.kind, "sync") == 0 || strcmp(bench.kind, "call") == 0;
    struct caller *callers = calloc(threads, sizeof *callers);
    for (unsigned i = 0; i < threads; i++) {
        callers[i].bench = &bench;
        (theirs ? theirs_fill : ours_fill)(&callers[i]);
    }
    uint64_t began = weir_clock_ns(), cpu_began = cpu_ns();
    for (unsigned i = 0; i < threads; i++)
        pthread_create(&callers[i].thread, NULL, theirs ? run_theirs : waits ? run_call : run_pipelined, &callers[i]);
    struct timespec time = { (time_t)atof(argv[4]), (long)((atof(argv[4]) - (double)(time_t)atof(argv[4])) * 1e9) };
    nanosleep(&time, NULL);
    atomic_store(&bench.stop, true);
    struct weir_histogram latency = { 0 };
    double events = 0;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(callers[i].thread, NULL);
        weir_histogram_merge(&latency, &callers[i].latency);
        events += (double)callers[i].acked * (strcmp(bench.kind, "batch") == 0 ? 1 : bench.events);
    }
    double seconds = (double)(weir_clock_ns() - began) / 1e9, cpu = (double)(cpu_ns() - cpu_began);
    printf("%.0f %llu %llu %.1f %llu\n", events / seconds, (unsigned long long)weir_histogram_quantile(&latency, .5),
           (unsigned long long)weir_histogram_quantile(&latency, .99), events > 0 ? cpu / events : 0,
           (unsigned long long)atomic_load(&bench.failed));
    weir_riemann_close(bench.ours, 1000000000);
    return 0;
}
