/* What happens when a queue is full: each policy with exact survivors, the order of replies, and slow clients. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/system/harness.h"

#define MS 1000000u

static int connected(const struct harness_server *server)
{
    int fd = harness_connect(server->port);
    assert_true(fd >= 0);
    return fd;
}

/* --- survivors ----------------------------------------------------------------------------------------------------------- */

/* A worker that is busy for long with the first item, a queue of 4, and items 1 to 6 behind the sentinel. */
static const char held[] =
    "pool io threads 1\npool workers threads 1\n"
    "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
    "    handoff workers limit 64MiB items 4 full %s\n    decode riemann\n    busy 0ns pause 300ms\n    index\n    encode riemann\n    reply\n}\n";

/* Sends the sentinel, and when the worker has it 6 items; then `answers` says which of the 6 get ok. */
static void expect_survivors(const char *policy, const bool *answers, const char *refusal)
{
    struct harness_server server;
    char text[1024], error[200];
    uint8_t message[128], six[6 * 128];
    size_t size = harness_message(message, sizeof message, 1, "x"), all = 0;
    snprintf(text, sizeof text, held, policy);
    harness_run(&server, text);
    int fd = connected(&server);
    assert_true(harness_send(fd, message, size));
    usleep(100000);
    for (int i = 0; i < 6; i++, all += size)
        memcpy(six + all, message, size);
    assert_true(harness_send(fd, six, all));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    unsigned refused = 0;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(harness_reply(fd, error, sizeof error), answers[i]);
        if (answers[i])
            continue;
        assert_string_equal(error, refusal);
        refused++;
    }
    close(fd);
    int rc = harness_wait(&server, SIGTERM);
    assert_int_equal(rc, 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "in"), 7);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "out"), 7 - refused);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "dropped") + harness_counter(&server, "queues", "riemann.handoff", "rejected"), refused);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "answered"), 7);
    assert_int_equal(harness_counter(&server, "stages", "riemann.index", "entries"), 7 - refused);
    harness_remove(&server);
}

static void block_lets_all_survive(void **state)
{
    (void)state;
    static const bool all[] = { 1, 1, 1, 1, 1, 1 };
    expect_survivors("block", all, "");
}

static void reject_refuses_the_new_ones(void **state)
{
    (void)state;
    static const bool first_four[] = { 1, 1, 1, 1, 0, 0 };
    expect_survivors("reject", first_four, "overloaded: rejected at riemann.handoff");
}

static void drop_newest_drops_the_new_ones(void **state)
{
    (void)state;
    static const bool first_four[] = { 1, 1, 1, 1, 0, 0 };
    expect_survivors("drop newest", first_four, "overloaded: dropped at riemann.handoff");
}

static void drop_oldest_drops_the_head(void **state)
{
    (void)state;
    static const bool last_four[] = { 0, 0, 1, 1, 1, 1 };
    expect_survivors("drop oldest", last_four, "overloaded: dropped at riemann.handoff");
}

/* --- what was read but not let in ---------------------------------------------------------------------------------------- */

/* One burst of small messages, large ones amid them, into a queue of two: what lies with the connection meanwhile, whole frames and
 * the part of one, comes through as it was sent. */
static void a_burst_that_waits_with_its_connection_stays_whole(void **state)
{
    (void)state;
    enum { SMALL = 500, LARGE = 12000, ROUNDS = 3, ROOM = 2 << 20 };
    struct harness_server server;
    uint8_t *burst = malloc(ROOM);
    size_t size = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SMALL; i++)
            size += harness_message(burst + size, ROOM - size, 1, "small");
        size += harness_message(burst + size, ROOM - size, LARGE, "large");
    }
    assert_in_range(size, ROUNDS * 150000, ROOM - 1); /* each large one is more than half of what is read at once */
    harness_run(&server, "pool io threads 1\npool workers threads 1\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB items 2 full block\n    decode riemann\n    index\n    encode riemann\n"
                         "    reply\n}\n");
    int fd = connected(&server);
    assert_true(harness_send(fd, burst, size));
    for (int i = 0; i < ROUNDS * (SMALL + 1); i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "events"), ROUNDS * (SMALL + LARGE));
    harness_remove(&server);
    free(burst);
}

/* --- many messages through a queue of one -------------------------------------------------------------------------------- */

struct client {
    pthread_t handle;
    int port;
    long count;   /* messages to send */
    unsigned window;
    long answered;
    bool in_order;
    bool failed;
};

/* Every 13th message is one that does not parse: its refusal must come in its turn. */
static bool is_broken(long i)
{
    return i % 13 == 5;
}

static bool send_range(int fd, long from, long to, const uint8_t *good, size_t good_size)
{
    static const uint8_t broken[] = { 0, 0, 0, 2, 0, 1 };
    static __thread uint8_t out[64 * 1024];
    size_t size = 0;
    for (long i = from; i < to; i++) {
        memcpy(out + size, is_broken(i) ? broken : good, is_broken(i) ? sizeof broken : good_size);
        size += is_broken(i) ? sizeof broken : good_size;
    }
    return harness_send(fd, out, size);
}

static void *client_run(void *argument)
{
    struct client *client = argument;
    uint8_t good[128];
    size_t size = harness_message(good, sizeof good, 1, "q");
    int fd = harness_connect(client->port);
    long sent = 0;
    client->in_order = true;
    client->failed = fd < 0;
    while (!client->failed && client->answered < client->count) {
        long to = client->answered + client->window < client->count ? client->answered + client->window : client->count;
        if (to - sent >= (long)client->window / 2 || sent == client->answered) {
            client->failed = !send_range(fd, sent, to, good, size);
            sent = to;
        }
        int reply = harness_reply(fd, NULL, 0);
        client->failed = client->failed || reply < 0;
        client->in_order = client->in_order && reply == !is_broken(client->answered);
        __atomic_store_n(&client->answered, client->answered + 1, __ATOMIC_RELAXED);
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static void run_clients(const struct harness_server *server, unsigned clients, long count, unsigned window)
{
    struct client all[64] = { 0 };
    assert_true(clients <= 64);
    for (unsigned i = 0; i < clients; i++) {
        all[i] = (struct client){ .port = server->port, .count = count, .window = window };
        assert_int_equal(pthread_create(&all[i].handle, NULL, client_run, &all[i]), 0);
    }
    for (unsigned i = 0; i < clients; i++)
        pthread_join(all[i].handle, NULL);
    for (unsigned i = 0; i < clients; i++) {
        assert_false(all[i].failed);
        assert_true(all[i].in_order);
        assert_int_equal(all[i].answered, count);
    }
}

/* S7 too: 4 connections, a queue of 1, nobody holds a lock while he waits. */
static void all_messages_pass_a_queue_of_one_in_order(void **state)
{
    (void)state;
    struct harness_server server;
    long each = harness_count(250000, 1000000);
    harness_run(&server, "pool io threads 2\npool workers threads 3\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB items 1 full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n");
    run_clients(&server, 4, each, 64);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "accepted"), 4 * each);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "answered"), 4 * each);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "out"), 4 * each);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "parked"), 0);
    harness_remove(&server);
}

/* Connects, sends, and goes at once without reading, by a reset, until it is told to stop. */
static void *rude_run(void *argument)
{
    struct client *rude = argument;
    static const struct linger reset = { 1, 0 };
    uint8_t good[128];
    size_t size = harness_message(good, sizeof good, 1, "rude");
    while (!__atomic_load_n(&rude->failed, __ATOMIC_RELAXED)) {
        int fd = harness_connect(rude->port);
        if (fd < 0)
            continue;
        send_range(fd, 0, 100 + rude->answered++ % 300, good, size);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fd);
    }
    return NULL;
}

/* Items of connections that have gone are everywhere: parked, queued, at work, finished. */
static void connections_that_go_while_parked_hold_nobody_up(void **state)
{
    (void)state;
    struct harness_server server;
    struct client rude[4];
    harness_run(&server, "pool io threads 3\npool workers threads 2\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB items 1 full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n");
    for (int i = 0; i < 4; i++) {
        rude[i] = (struct client){ .port = server.port };
        assert_int_equal(pthread_create(&rude[i].handle, NULL, rude_run, &rude[i]), 0);
    }
    run_clients(&server, 3, harness_count(10000, 200000), 64);
    for (int i = 0; i < 4; i++) {
        __atomic_store_n(&rude[i].failed, true, __ATOMIC_RELAXED);
        pthread_join(rude[i].handle, NULL);
    }
    run_clients(&server, 3, harness_count(1000, 10000), 64);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_true(harness_counter(&server, "ways_in", "riemann", "abandoned") > 0);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "in_flight"), 0);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "parked"), 0);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "queued"), 0);
    harness_remove(&server);
}

/* Two handoffs in a row: the middle pool waits for room. */
static void workers_wait_for_the_next_pool(void **state)
{
    (void)state;
    struct harness_server server;
    long each = harness_count(10000, 100000);
    harness_run(&server, "pool io threads 1\npool middle threads 2\npool last threads 2\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff middle limit 64MiB items 3 full block as first\n    decode riemann\n"
                         "    handoff last limit 64MiB items 2 full block as second\n    index\n    encode riemann\n    reply\n}\n");
    run_clients(&server, 4, each, 64);
    harness_stop(&server);
}

/* S1, S9: the limit in bytes holds, reading pauses, memory stays flat, and every reply comes in order. */
static void a_slow_stage_bounds_the_queue_and_the_memory(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, "pool io threads 1\npool workers threads 1\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n"
                         "    handoff workers limit 1MiB full block\n    decode riemann\n    busy 0ns pause 5ms\n    encode riemann\n    reply\n}\n");
    enum { CLIENTS = 20 };
    static uint8_t message[65536 + 4];
    size_t size = harness_message(message, sizeof message, 1500, "wide");
    assert_true(size > 32768);
    int fds[CLIENTS];
    size_t sent[CLIENTS] = { 0 }, before = harness_resident(&server);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = connected(&server);
    /* For that long, and on a crowded machine until each of them has been stopped. */
    uint64_t start_ns = weir_clock_ns(), duration_ns = (uint64_t)harness_count(1000, 10000) * MS, parked = 0;
    while (weir_clock_ns() - start_ns < duration_ns || (parked != CLIENTS && weir_clock_ns() - start_ns < duration_ns + 20000 * MS)) {
        for (int turn = 0; turn < 100; turn++) {
            for (int i = 0; i < CLIENTS; i++) {
                ssize_t got = send(fds[i], message + sent[i] % size, size - sent[i] % size, MSG_DONTWAIT | MSG_NOSIGNAL);
                sent[i] += got > 0 ? (size_t)got : 0;
            }
            usleep(1000);
        }
        harness_counters_refresh(&server);
        parked = harness_counter(&server, "queues", "riemann.handoff", "parked");
    }
    uint64_t queued = harness_counter(&server, "queues", "riemann.handoff", "queued");
    assert_true(queued > 0 && queued <= (1u << 20) / (size - 4));
    assert_true(harness_counter(&server, "queues", "riemann.handoff", "queued_bytes") <= 1u << 20);
    assert_int_equal(parked, CLIENTS);
    /* 20 connections hold at most a read's worth each. */
    assert_true(harness_resident(&server) < before + harness_memory((size_t)32 << 20));
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    harness_stop(&server);
}

/* --- memory -------------------------------------------------------------------------------------------------------------- */

/* A queue counts what messages were decoded into; what they hold beyond that is a small multiple of it, also where they are tiny. */
static void tiny_messages_in_a_queue_of_arenas_take_little_memory(void **state)
{
    (void)state;
    enum { CLIENTS = 30, EACH = 1000 };
    struct harness_server server;
    const char *options[] = { "--drain", "1ms", NULL };
    harness_build(&server, "pool io threads 1\npool workers threads 1\n"
                           "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    decode riemann\n"
                           "    handoff workers limit 64MiB items 100000 sized arena full block\n    busy 0ns pause 200ms\n"
                           "    encode riemann\n    reply\n}\n", NULL, NULL);
    harness_start(&server, options);
    static uint8_t many[EACH * 64];
    uint8_t message[64];
    size_t size = harness_message(message, sizeof message, 1, "t"), before = harness_resident(&server);
    for (size_t i = 0; i < EACH; i++)
        memcpy(many + i * size, message, size);
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = connected(&server);
        assert_true(harness_send(fds[i], many, EACH * size));
    }
    uint64_t queued = 0;
    for (int i = 0; i < 200 && queued < CLIENTS * EACH - 100; i++) {
        harness_counters_refresh(&server);
        queued = harness_counter(&server, "queues", "riemann.handoff", "queued");
        usleep(10000);
    }
    assert_in_range(queued, CLIENTS * EACH - 100, CLIENTS * EACH);
    assert_true(harness_resident(&server) < before + harness_memory(queued * 2500));
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    harness_stop(&server);
}

/* Messages of all sizes, refused ones, connections that come and go: after a first round no more memory is taken. */
static void memory_is_flat_under_load(void **state)
{
    (void)state;
    struct harness_server server;
    static uint8_t wide[40000];
    size_t size = harness_message(wide, sizeof wide, 1500, "wide"), warm = 0;
    harness_run(&server, "pool io threads 2\npool middle threads 2\npool last threads 1\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 64KiB\n"
                         "    handoff middle limit 1MiB full block as first\n    decode riemann max 1MiB\n"
                         "    handoff last limit 2MiB sized typed full reject as second\n    index\n    encode riemann\n    reply\n}\n");
    for (int round = 0; round < 6; round++) {
        struct client all[4];
        for (int i = 0; i < 4; i++) {
            all[i] = (struct client){ .port = server.port, .count = harness_count(20000, 400000), .window = 256 };
            assert_int_equal(pthread_create(&all[i].handle, NULL, client_run, &all[i]), 0);
        }
        for (long i = 0; i < harness_count(200, 4000); i++) {
            int fd = connected(&server);
            assert_true(harness_send(fd, wide, size));
            assert_true(harness_reply(fd, NULL, 0) >= 0);
            close(fd);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(all[i].handle, NULL);
            assert_false(all[i].failed);
        }
        if (round == 1)
            warm = harness_resident(&server);
    }
    assert_true(harness_resident(&server) < warm + harness_memory((size_t)4 << 20));
    harness_stop(&server);
}

/* --- clients that misbehave ---------------------------------------------------------------------------------------------- */

static const char plain[] =
    "pool io threads 1\npool workers threads 2\n"
    "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
    "    handoff workers limit 64MiB full block\n    decode riemann\n    index\n    encode riemann\n    reply\n}\n";

/* S2: requests whose replies are not acknowledgements, so that the sockets fill. */
static void a_client_that_never_reads_is_stopped_and_the_others_go_on(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, plain);
    size_t before = harness_resident(&server);
    int deaf = harness_deaf_client(&server, "riemann");
    assert_true(harness_resident(&server) < before + harness_memory((size_t)16 << 20));
    run_clients(&server, 2, harness_count(4000, 40000), 16);
    harness_counters_refresh(&server);
    harness_check_conservation(&server);
    assert_in_range(harness_counter(&server, "ways_in", "riemann", "in_flight"), 1, 1024 + 32);
    close(deaf);
    harness_stop(&server);
}

/* S8: one that pipelines without end does not starve one that asks once. */
static void a_busy_connection_does_not_starve_another(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, "pool io threads 1\npool workers threads 1\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB items 8 full block\n    decode riemann\n    busy 50us\n    encode riemann\n    reply\n}\n");
    struct client busy = { .port = server.port, .count = 20000, .window = 512 };
    assert_int_equal(pthread_create(&busy.handle, NULL, client_run, &busy), 0);
    usleep(100000);
    uint8_t message[128];
    size_t size = harness_message(message, sizeof message, 1, "one");
    int fd = connected(&server);
    uint64_t start_ns = weir_clock_ns();
    assert_true(harness_send(fd, message, size));
    int reply = harness_reply(fd, NULL, 0);
    uint64_t took_ns = weir_clock_ns() - start_ns;
    long done = __atomic_load_n(&busy.answered, __ATOMIC_RELAXED);
    close(fd);
    pthread_join(busy.handle, NULL);
    assert_int_equal(reply, 1);
    assert_true(done < busy.count);
    assert_true(took_ns < 500 * MS);
    harness_stop(&server);
}

/* S3: after an overload the server answers at once. */
static void after_an_overload_a_probe_is_answered(void **state)
{
    (void)state;
    struct harness_server server;
    harness_run(&server, "pool io threads 1\npool workers threads 1\n"
                         "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
                         "    handoff workers limit 64MiB items 64 full reject\n    decode riemann\n    busy 20us\n    encode riemann\n    reply\n}\n");
    static uint8_t many[512 * 64];
    uint8_t message[64];
    size_t size = harness_message(message, sizeof message, 1, "p"), all = 0;
    for (int i = 0; i < 512; i++, all += size)
        memcpy(many + all, message, size);
    int fd = connected(&server);
    uint64_t start_ns = weir_clock_ns(), ok = 0, refused = 0, rounds = 0;
    while (weir_clock_ns() - start_ns < (uint64_t)harness_count(1000, 30000) * MS) {
        assert_true(harness_send(fd, many, all));
        rounds++;
        for (int i = 0; i < 512; i++) {
            int reply = harness_reply(fd, NULL, 0);
            assert_true(reply >= 0);
            *(reply ? &ok : &refused) += 1;
        }
    }
    start_ns = weir_clock_ns();
    assert_true(harness_send(fd, message, size));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_true(weir_clock_ns() - start_ns < 1000 * MS);
    close(fd);
    /* S4: what the client saw is what the server counted. */
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "rejected"), refused);
    assert_int_equal(harness_counter(&server, "queues", "riemann.handoff", "out"), ok + 1);
    assert_int_equal(ok + refused, rounds * 512);
    harness_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_lets_all_survive),
        cmocka_unit_test(reject_refuses_the_new_ones),
        cmocka_unit_test(drop_newest_drops_the_new_ones),
        cmocka_unit_test(drop_oldest_drops_the_head),
        cmocka_unit_test(all_messages_pass_a_queue_of_one_in_order),
        cmocka_unit_test(a_burst_that_waits_with_its_connection_stays_whole),
        cmocka_unit_test(connections_that_go_while_parked_hold_nobody_up),
        cmocka_unit_test(workers_wait_for_the_next_pool),
        cmocka_unit_test(a_slow_stage_bounds_the_queue_and_the_memory),
        cmocka_unit_test(tiny_messages_in_a_queue_of_arenas_take_little_memory),
        cmocka_unit_test(memory_is_flat_under_load),
        cmocka_unit_test(a_client_that_never_reads_is_stopped_and_the_others_go_on),
        cmocka_unit_test(a_busy_connection_does_not_starve_another),
        cmocka_unit_test(after_an_overload_a_probe_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
