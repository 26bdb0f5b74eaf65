/* The simulator against queueing theory: where theory has an exact answer, it must come out, within the noise of a finite run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tracer/simulate.h"

#define EXPONENTIAL(ns) ((struct weir_simulate_time){ .shape = WEIR_SIMULATE_EXPONENTIAL, .mean_ns = (ns) })
#define CONSTANT(ns) ((struct weir_simulate_time){ .mean_ns = (ns) })
#define MS 1e6

enum { IO, WORKERS };

/* io hands to workers, who work, sleep, and answer. */
struct server {
    struct weir_simulate_pool pools[2];
    struct weir_simulate_queue queues[1];
    struct weir_simulate_slots slots[1];
    struct weir_simulate_step steps[4];
    struct weir_simulate_way ways[1];
    struct weir_simulate_model model;
};

static void make_server(struct server *server, uint32_t workers, struct weir_simulate_time cpu, struct weir_simulate_time sleep)
{
    *server = (struct server){
        .pools = { { .threads = 1, .listens = true }, { .threads = workers } },
        .queues = { { .to_pool = WORKERS, .limit = UINT64_MAX } },
        .steps = { { .kind = WEIR_SIMULATE_PUSH, .queue = 0 }, { .kind = WEIR_SIMULATE_WORK, .label = 1, .cpu = cpu, .sleep = sleep },
                   { .kind = WEIR_SIMULATE_ANSWER } },
        .ways = { { .pool = IO, .step_count = 3, .connections = 1 } },
        .model = { .cpus = 1e6, .pool_count = 2, .queue_count = 1, .way_count = 1, .labels = 2 },
    };
    server->ways[0].steps = server->steps;
    server->model.pools = server->pools;
    server->model.queues = server->queues;
    server->model.slots = server->slots;
    server->model.ways = server->ways;
}

static struct weir_simulate_result simulate(const struct server *server, uint64_t items)
{
    struct weir_simulate_result result;
    struct weir_simulate_run run = { .seed = 7, .warmup_items = items / 10, .items = items, .most_ns = INFINITY };
    assert_int_equal(weir_simulate(&server->model, &run, &result), 0);
    return result;
}

static double latency_ms(const struct weir_simulate_result *result)
{
    return weir_histogram_mean(&result->ways[0].latency) / MS;
}

static double per_s(const struct weir_simulate_result *result)
{
    return (double)result->ways[0].answered * 1e9 / result->duration_ns;
}

static void assert_near(double got, double want, double allowed)
{
    if (!(fabs(got - want) <= allowed * fabs(want)))
        fail_msg("%g is not within %g %% of %g", got, allowed * 100, want);
}

/* L = X R: what is inside is what comes in times how long it stays. */
static void assert_little(const struct weir_simulate_result *result)
{
    assert_near(result->ways[0].in_flight_mean, per_s(result) * latency_ms(result) / 1e3, 0.02);
}

/* M/M/1: R = s / (1 - rho), and the queue holds rho^2 / (1 - rho). */
static void one_server(void **state)
{
    (void)state;
    const double loads[] = { 0.3, 0.6, 0.8 };
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        struct server server;
        make_server(&server, 1, EXPONENTIAL(MS), CONSTANT(0));
        server.ways[0].rate_per_s = loads[i] * 1000;
        struct weir_simulate_result result = simulate(&server, 200000);
        assert_near(latency_ms(&result), 1 / (1 - loads[i]), 0.05);
        assert_near(result.depth_mean[0], loads[i] * loads[i] / (1 - loads[i]), 0.08);
        assert_near(result.pools[WORKERS].running, loads[i], 0.02);
        assert_near(result.label_cpu_ns[1] / result.duration_ns, loads[i], 0.02);
        assert_little(&result);
        weir_simulate_release(&result);
    }
}

/* M/D/1: half of the waiting. */
static void one_server_of_constant_service(void **state)
{
    (void)state;
    struct server server;
    make_server(&server, 1, CONSTANT(MS), CONSTANT(0));
    server.ways[0].rate_per_s = 800;
    struct weir_simulate_result result = simulate(&server, 200000);
    assert_near(latency_ms(&result), 1 + 0.8 / (2 * 0.2), 0.05);
    weir_simulate_release(&result);
}

/* M/M/c, Erlang's formula; whether the time is spent on CPU or asleep. */
static void several_servers(void **state)
{
    (void)state;
    const unsigned c = 4;
    const double a = 3.2; /* erlangs */
    double term = 1, sum = 0;
    for (unsigned k = 0; k < c; k++, term *= a / k)
        sum += term;
    double last = term / (1 - a / c), waits = last / (sum + last), want = 1 + waits / (c - a);
    for (int asleep = 0; asleep < 2; asleep++) {
        struct server server;
        make_server(&server, c, asleep ? CONSTANT(0) : EXPONENTIAL(MS), asleep ? EXPONENTIAL(MS) : CONSTANT(0));
        server.ways[0].rate_per_s = a * 1000;
        server.ways[0].connections = 5000; /* on one, answers would wait for each other */
        struct weir_simulate_result result = simulate(&server, 200000);
        assert_near(latency_ms(&result), want, 0.05);
        assert_near(asleep ? result.pools[WORKERS].asleep : result.pools[WORKERS].running, a / c, 0.02);
        assert_little(&result);
        weir_simulate_release(&result);
    }
}

/* M/G/1 with processor sharing: R = s / (1 - rho), whatever the service looks like. */
static void shared_cpus(void **state)
{
    (void)state;
    const struct weir_simulate_time times[] = { EXPONENTIAL(MS), CONSTANT(MS) };
    for (size_t i = 0; i < 2; i++) {
        struct server server;
        make_server(&server, 200, times[i], CONSTANT(0));
        server.model.cpus = 1;
        server.ways[0].rate_per_s = 700;
        server.ways[0].connections = 5000;
        struct weir_simulate_result result = simulate(&server, 200000);
        assert_near(latency_ms(&result), 1 / 0.3, 0.06);
        assert_near(result.pools[WORKERS].running * 200, 0.7, 0.02);
        assert_true(result.pools[WORKERS].runnable > 0);
        weir_simulate_release(&result);
    }
}

/* N clients that think, one server: mean value analysis is exact. */
static void a_closed_loop(void **state)
{
    (void)state;
    const unsigned clients[] = { 1, 4, 16 };
    for (size_t i = 0; i < 3; i++) {
        double queue = 0, response = 0, throughput = 0;
        for (unsigned n = 1; n <= clients[i]; n++) {
            response = 1 + queue;
            throughput = n / (response + 5);
            queue = throughput * response;
        }
        struct server server;
        make_server(&server, 1, EXPONENTIAL(MS), CONSTANT(0));
        server.ways[0].connections = clients[i];
        server.ways[0].window = 1;
        server.ways[0].think = EXPONENTIAL(5 * MS);
        struct weir_simulate_result result = simulate(&server, 100000);
        assert_near(per_s(&result), throughput * 1000, 0.03);
        assert_near(latency_ms(&result), response, 0.05);
        assert_little(&result);
        assert_near(per_s(&result) * (latency_ms(&result) + 5) / 1000, clients[i], 0.02); /* N = X (R + Z) */
        weir_simulate_release(&result);
    }
}

/* Answers leave in order: of one connection with a window, the slowest of those before holds an answer up, the throughput stays. */
static void answers_in_order(void **state)
{
    (void)state;
    struct server server;
    make_server(&server, 8, EXPONENTIAL(MS), CONSTANT(0));
    server.ways[0].window = 64;
    struct weir_simulate_result result = simulate(&server, 100000);
    assert_near(per_s(&result), 8000, 0.03);
    assert_near(result.ways[0].in_flight_mean, 64, 0.01);
    assert_near(latency_ms(&result), 8, 0.03);
    weir_simulate_release(&result);
}

static void full_queues(void **state)
{
    (void)state;
    struct server server;
    make_server(&server, 1, CONSTANT(MS), CONSTANT(0));
    server.queues[0].limit = 10;
    server.ways[0].connections = 4;
    server.ways[0].window = 32;
    struct weir_simulate_result result = simulate(&server, 20000);
    assert_near(per_s(&result), 1000, 0.02); /* a limit costs nothing while something waits */
    assert_near(result.depth_mean[0], 10, 0.02);
    assert_int_equal(result.ways[0].refused, 0);
    weir_simulate_release(&result);

    /* M/M/1/K refuses (1 - rho) rho^K / (1 - rho^(K + 1)); K counts the one in service. */
    const enum weir_simulate_full fulls[] = { WEIR_SIMULATE_REFUSE_NEW, WEIR_SIMULATE_REFUSE_OLD };
    for (size_t i = 0; i < 2; i++) {
        make_server(&server, 1, EXPONENTIAL(MS), CONSTANT(0));
        server.queues[0].limit = 4;
        server.queues[0].full = fulls[i];
        server.ways[0].rate_per_s = 900;
        result = simulate(&server, 200000);
        double rho = 0.9, want = (1 - rho) * pow(rho, 5) / (1 - pow(rho, 6));
        double refused = (double)result.ways[0].refused / (double)(result.ways[0].refused + result.ways[0].answered);
        assert_near(refused, want, 0.06);
        weir_simulate_release(&result);
    }
}

/* A worker that waits for room counts as blocked; the slow end sets the pace. */
static void a_blocked_pool(void **state)
{
    (void)state;
    struct weir_simulate_pool pools[] = { { .threads = 1, .listens = true }, { .threads = 2 }, { .threads = 1 } };
    struct weir_simulate_queue queues[] = { { .to_pool = 1, .limit = 8 }, { .to_pool = 2, .limit = 8 } };
    struct weir_simulate_step steps[] = {
        { .kind = WEIR_SIMULATE_PUSH, .queue = 0 }, { .kind = WEIR_SIMULATE_WORK, .cpu = CONSTANT(0.1 * MS) },
        { .kind = WEIR_SIMULATE_PUSH, .queue = 1 }, { .kind = WEIR_SIMULATE_WORK, .sleep = CONSTANT(2 * MS) }, { .kind = WEIR_SIMULATE_ANSWER },
    };
    struct weir_simulate_way way = { .pool = 0, .steps = steps, .step_count = 5, .connections = 2, .window = 64 };
    struct weir_simulate_model model = { .cpus = 2, .pools = pools, .queues = queues, .ways = &way, .pool_count = 3, .queue_count = 2,
                                         .way_count = 1, .labels = 1 };
    struct weir_simulate_run run = { .seed = 1, .warmup_items = 500, .items = 5000, .most_ns = INFINITY };
    struct weir_simulate_result result;
    assert_int_equal(weir_simulate(&model, &run, &result), 0);
    assert_near(per_s(&result), 500, 0.02);
    assert_near(result.pools[1].blocked, 0.975, 0.02);
    assert_near(result.pools[2].asleep, 1, 0.02);
    weir_simulate_release(&result);
}

/* Slots: X = slots / delay; and of connections that serve one by one, X = connections / service, however many are in flight. */
static void slots(void **state)
{
    (void)state;
    for (int serial = 0; serial < 3; serial++) { /* 2: all connections together */
        for (uint32_t in_flight = 8; in_flight <= 16; in_flight += 8) {
            struct server server;
            make_server(&server, 2, CONSTANT(0.01 * MS), CONSTANT(0));
            server.steps[2] = (struct weir_simulate_step){ .kind = WEIR_SIMULATE_SLOT };
            server.steps[3] = (struct weir_simulate_step){ .kind = WEIR_SIMULATE_ANSWER };
            server.ways[0].step_count = 4;
            server.ways[0].window = 256;
            server.model.slots_count = 1;
            server.slots[0] = (struct weir_simulate_slots){ .pool = WORKERS, .connections = 2, .in_flight = in_flight, .shared = serial == 2,
                .serial = serial ? CONSTANT(2 * MS) : CONSTANT(0), .delay = serial ? CONSTANT(0) : CONSTANT(20 * MS) };
            struct weir_simulate_result result = simulate(&server, 20000);
            assert_near(per_s(&result), serial ? 1000 / serial : 100.0 * in_flight, 0.02);
            assert_near(result.slots_full[0], 1, 0.02);
            assert_true(result.pools[WORKERS].starved > 0.9);
            weir_simulate_release(&result);
        }
    }
}

static void nothing_comes(void **state)
{
    (void)state;
    struct server server;
    make_server(&server, 1, CONSTANT(MS), CONSTANT(0));
    struct weir_simulate_result result = simulate(&server, 100);
    assert_int_equal(result.ways[0].answered, 0);
    weir_simulate_release(&result);
}

static void the_same_seed_gives_the_same(void **state)
{
    (void)state;
    struct server server;
    make_server(&server, 3, EXPONENTIAL(MS), EXPONENTIAL(MS));
    server.ways[0].window = 10;
    struct weir_simulate_result one = simulate(&server, 5000), two = simulate(&server, 5000);
    assert_true(one.duration_ns == two.duration_ns);
    assert_memory_equal(&one.ways[0].latency, &two.ways[0].latency, sizeof one.ways[0].latency);
    weir_simulate_release(&one);
    weir_simulate_release(&two);
}

/* A lock is passed on as fast as it is held for, however many threads there are; without it they would do eight times that. */
static void a_lock_lets_one_thread_at_a_time(void **state)
{
    (void)state;
    struct server server;
    struct weir_simulate_result result;
    make_server(&server, 8, CONSTANT(0), CONSTANT(2 * MS));
    struct weir_simulate_step answer = server.steps[2], work = server.steps[1], steps[] = {
        server.steps[0], { .kind = WEIR_SIMULATE_LOCK }, work, { .kind = WEIR_SIMULATE_UNLOCK }, answer };
    server.ways[0] = (struct weir_simulate_way){ .pool = IO, .connections = 20, .window = 1, .think = CONSTANT(0), .steps = steps, .step_count = 5 };
    server.model.lock_count = 1;
    result = simulate(&server, 2000);
    assert_true(fabs(per_s(&result) - 500) < 5);
    assert_true(result.lock_held[0] > 0.99);
    assert_true(result.pools[WORKERS].asleep > 0.99);
    weir_simulate_release(&result);
    /* Nobody waits for a lock that one thread takes. */
    server.pools[WORKERS].threads = 1;
    server.ways[0].connections = 1;
    server.ways[0].think = CONSTANT(2 * MS);
    result = simulate(&server, 2000);
    assert_true(fabs(per_s(&result) - 250) < 5);
    assert_true(fabs(result.lock_held[0] - 0.5) < 0.02);
    weir_simulate_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_server), cmocka_unit_test(one_server_of_constant_service), cmocka_unit_test(several_servers),
        cmocka_unit_test(shared_cpus), cmocka_unit_test(a_closed_loop), cmocka_unit_test(answers_in_order), cmocka_unit_test(full_queues),
        cmocka_unit_test(a_blocked_pool), cmocka_unit_test(slots), cmocka_unit_test(nothing_comes),
        cmocka_unit_test(the_same_seed_gives_the_same), cmocka_unit_test(a_lock_lets_one_thread_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
