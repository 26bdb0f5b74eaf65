/* The client library against a built server that is killed under load, again and again, and one that is overloaded. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/clock.h"
#include "pipeline_dsl/client/riemann.h"
#include "tests/system/harness.h"

#define MS 1000000u
#define SENDERS 3

static const char pipeline[] = "pool io threads 1\n"
                               "pool workers threads 2\n"
                               "pipeline riemann {\n"
                               "    listen tcp 127.0.0.1:0 on io\n"
                               "    frame length32 max 16MiB\n"
                               "    handoff workers limit 64MiB full block\n"
                               "    decode riemann\n"
                               "    index\n"
                               "    encode riemann\n"
                               "    reply\n"
                               "}\n";

struct sender {
    struct weir_riemann *client;
    atomic_bool *stop;
    uint64_t taken, overloaded, down;
    atomic_uint_fast64_t acked, failed, unsent; /* unsent: failed with reach NOTHING */
};

static void ended(void *context, const struct weir_outcome *outcome)
{
    struct sender *sender = context;
    atomic_fetch_add(outcome->result == WEIR_CLIENT_ACKED ? &sender->acked : &sender->failed, 1);
    if (outcome->result != WEIR_CLIENT_ACKED && outcome->reach == WEIR_REACH_NOTHING)
        atomic_fetch_add(&sender->unsent, 1);
}

static void *send_on(void *argument)
{
    static const struct weir_event event = { .host = { (const uint8_t *)"host", 4 }, .service = { (const uint8_t *)"kill", 4 },
                                             .metric_kind = WEIR_METRIC_INT, .metric_int = 1 };
    struct sender *sender = argument;
    while (!atomic_load(sender->stop)) {
        int rc = weir_riemann_send_event(sender->client, &event, ended, sender, NULL, NULL);
        sender->taken += rc == 0;
        sender->overloaded += rc == -EAGAIN;
        sender->down += rc == -ENOTCONN;
        if (rc)
            usleep(200);
    }
    return NULL;
}

/* Waits until the client is on a connection that it did not have before. There may be more than one for a kill: a dying process
 * still takes connections for a moment. */
static uint64_t wait_for_connection(struct weir_riemann *client, uint64_t before)
{
    struct weir_riemann_counts counts = { 0 };
    for (int i = 0; i < 20000 && !(counts.connections > before && counts.connections == counts.connections_lost + 1); i++) {
        usleep(1000);
        weir_riemann_counts(client, &counts);
    }
    assert_true(counts.connections > before);
    assert_int_equal(weir_riemann_wait_up(client, 10000ull * MS), 0);
    return counts.connections;
}

/* Kills and restarts the server `count` times while three threads send; every request that was taken must have one end. */
static void kill_loop(enum weir_riemann_kind kind, long count)
{
    struct harness_server server;
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    atomic_bool stop = false;
    char address[64], listen[80];
    const char *options[] = { "--listen", listen, NULL };
    harness_run(&server, pipeline);
    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    snprintf(listen, sizeof listen, "riemann=%s", address);
    struct weir_riemann *client = NULL;
    struct weir_riemann_options client_options = { .kind = kind, .queue = 256, .in_flight = 256, .linger_ns = 2 * MS,
                                                   .backoff_first_ns = 2 * MS, .backoff_most_ns = 10 * MS };
    assert_int_equal(weir_riemann_open(&client, address, &client_options, NULL), 0);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (struct sender){ .client = client, .stop = &stop };
        assert_int_equal(pthread_create(&threads[i], NULL, send_on, &senders[i]), 0);
    }
    unsigned seed = 7;
    uint64_t connections = 1;
    for (long i = 0; i < count; i++) {
        usleep((useconds_t)(rand_r(&seed) % 20000));
        harness_wait(&server, SIGKILL);
        harness_start(&server, options);
        connections = wait_for_connection(client, connections);
    }
    usleep(50000);
    atomic_store(&stop, true);
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    struct weir_riemann_counts counts;
    for (int i = 0; i < 10000; i++) {
        weir_riemann_counts(client, &counts);
        if (!counts.outstanding)
            break;
        usleep(1000);
    }
    uint64_t taken = 0, acked = 0, failed = 0, unsent = 0;
    for (int i = 0; i < SENDERS; i++) {
        taken += senders[i].taken;
        acked += atomic_load(&senders[i].acked);
        failed += atomic_load(&senders[i].failed);
        unsent += atomic_load(&senders[i].unsent);
    }
    assert_int_equal(taken, acked + failed);
    assert_int_equal(counts.sent, taken);
    assert_int_equal(counts.outstanding, 0);
    assert_int_equal(counts.results[WEIR_CLIENT_ACKED], acked);
    assert_true(counts.connections > (uint64_t)count);
    assert_int_equal(counts.connections, counts.connections_lost + 1);
    assert_int_equal(counts.lost_nothing + counts.results[WEIR_CLIENT_DOWN], unsent);
    assert_int_equal(counts.lost_nothing + counts.lost_part + counts.lost_whole + counts.results[WEIR_CLIENT_DOWN], failed);
    assert_true(acked > 0);
    /* At most what may be outstanding is lost with each connection. */
    assert_true(failed <= counts.connections * 512 * (kind == WEIR_RIEMANN_BATCHING ? 100 : 1));
    weir_riemann_close(client, 1000ull * MS);
    harness_stop(&server);
}

static void kills_under_load_lose_nothing_from_the_count(void **state)
{
    (void)state;
    kill_loop(WEIR_RIEMANN_PIPELINED, harness_count(40, 9000));
    kill_loop(WEIR_RIEMANN_BATCHING, harness_count(10, 1000));
}

/* S3: after an overload has ended, a new client is served at once. */
static void an_overload_that_ends_leaves_nothing_behind(void **state)
{
    (void)state;
    struct harness_server server;
    struct sender senders[SENDERS];
    pthread_t threads[SENDERS];
    struct weir_riemann *clients[SENDERS], *probe = NULL;
    atomic_bool stop = false;
    char address[64];
    struct weir_message nothing = { 0 };
    harness_run(&server, pipeline);
    snprintf(address, sizeof address, "127.0.0.1:%d", server.port);
    for (int i = 0; i < SENDERS; i++) {
        assert_int_equal(weir_riemann_open(&clients[i], address, &(struct weir_riemann_options){ .in_flight = 4096 }, NULL), 0);
        senders[i] = (struct sender){ .client = clients[i], .stop = &stop };
        assert_int_equal(pthread_create(&threads[i], NULL, send_on, &senders[i]), 0);
    }
    usleep((useconds_t)harness_count(2000000, 30000000));
    atomic_store(&stop, true);
    uint64_t before = weir_clock_ns();
    assert_int_equal(weir_riemann_open(&probe, address, NULL, NULL), 0);
    assert_int_equal(weir_riemann_call(probe, &nothing, 1000ull * MS, NULL, NULL), 0);
    assert_true(weir_clock_ns() - before < 1000ull * MS);
    weir_riemann_close(probe, 0);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
        weir_riemann_close(clients[i], 10000ull * MS);
        assert_int_equal(senders[i].taken, atomic_load(&senders[i].acked));
        assert_int_equal(atomic_load(&senders[i].failed), 0);
    }
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_under_load_lose_nothing_from_the_count),
        cmocka_unit_test(an_overload_that_ends_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("client_kill", tests, NULL, NULL);
}
