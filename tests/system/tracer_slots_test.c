/* What the tracer says of pools of slots, against what the server counted itself and what the test did to it. */
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/recording.h"

#define WINDOW_MS harness_window_ms(1500, 6000)
#define DELAY_US 4000

/* A downstream that answers each request after DELAY_US, one after the other: with one connection and one thread it is known how
 * long a request takes that finds `in_flight` others. */
struct downstream {
    pthread_t handle;
    int listener, port;
};

static void *answer(void *argument)
{
    struct downstream *down = argument;
    static const uint8_t ack[] = { 0, 0, 0, 2, 0x10, 1 };
    uint8_t header[4], body[4096];
    int fd = accept(down->listener, NULL, NULL);
    while (fd >= 0 && recv(fd, header, sizeof header, MSG_WAITALL) == sizeof header) {
        size_t size = (size_t)header[2] << 8 | header[3];
        if (size > sizeof body || recv(fd, body, size, MSG_WAITALL) != (ssize_t)size)
            break;
        usleep(DELAY_US);
        if (!harness_send(fd, ack, sizeof ack))
            break;
    }
    close(fd);
    return NULL;
}

static void start_downstream(struct downstream *down)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    down->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(down->listener >= 0 && bind(down->listener, (struct sockaddr *)&address, sizeof address) == 0);
    assert_int_equal(listen(down->listener, 4), 0);
    assert_int_equal(getsockname(down->listener, (struct sockaddr *)&address, &size), 0);
    down->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&down->handle, NULL, answer, down), 0);
}

static void start_server(struct harness_server *server, int port, unsigned in_flight)
{
    char text[512];
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 2\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n"
             "    frame length32 max 64KiB\n    handoff workers limit 1MiB full block\n    decode riemann\n"
             "    forward riemann 127.0.0.1:%d connections 1 in_flight %u\n    encode riemann\n    reply\n}\n",
             port, in_flight);
    harness_run(server, text);
}

static double starved_share(const struct weir_profile *profile, const char *pool)
{
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        double whole = 0;
        if (strcmp(profile->topology.pools[i].name, pool) != 0)
            continue;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            whole += profile->pools[i].state_ns[k];
        return profile->pools[i].state_ns[WEIR_STATE_STARVED] / whole;
    }
    fail_msg("there is no pool %s", pool);
    return 0;
}

/* Both workers wait for one of 4 slots nearly all of the time, and what they wait is what the server counted. */
static void check_full(const struct weir_profile *profile, uint64_t waited_ns)
{
    const struct weir_profile_slots *slots = &profile->slots[0];
    double window_ns = (double)profile->duration_ns;
    uint64_t waits = slots->end.waits - slots->begin.waits, finished = slots->end.finished - slots->begin.finished;
    assert_int_equal(profile->slots_count, 1);
    assert_string_equal(profile->topology.stages[slots->stage].full_name, "p.forward");
    assert_true(slots->in_use.count > 0 && slots->in_use.max <= 4);
    assert_true(slots->in_use_mean > 3 && slots->in_use_mean <= 4);
    assert_true(fabs(slots->open_mean - 1) < 1e-9);
    assert_true((double)(slots->end.full_ns - slots->begin.full_ns) > 0.7 * window_ns);
    assert_true((double)(slots->end.full_ns - slots->begin.full_ns) <= 1.001 * window_ns);
    assert_true(waits > 0 && slots->wait.count == waits);
    assert_true(waited_ns <= 2.0 * window_ns * 1.2);
    assert_true(starved_share(profile, "workers") > 0.7);
    assert_true(starved_share(profile, "p.forward") == 0);
    /* Little's law: in use = rate x service. */
    double law = (double)finished / window_ns * weir_histogram_mean(&slots->service);
    if (fabs(law - slots->in_use_mean) > 0.15 * slots->in_use_mean)
        fail_msg("%.2f slots were in use on average, but rate x service gives %.2f", slots->in_use_mean, law);
    /* The threads of the connections are seen: nothing of what the stage costs lies outside. */
    assert_int_equal(profile->pools[2].threads, WEIR_SLOT_THREADS);
    assert_true(recording_row(profile, "p.forward")->cpu_ns > 0);
    assert_true(recording_row(profile, "p.forward.push")->cpu_ns >= 0);
    assert_true(recording_row(profile, "(outside)")->share < 0.2);
}

static void full_slots(enum weir_mode mode)
{
    struct harness_server server;
    struct downstream down;
    char options[96];
    start_downstream(&down);
    start_server(&server, down.port, 4);
    snprintf(options, sizeof options, "--connections 2 --events 1 --in-flight 16 --duration %ums", WINDOW_MS + 1000);
    pid_t driver = recording_load(&server, options);
    usleep(300000);
    struct weir_profile *profile = recording_take(&server, mode, WINDOW_MS);
    check_full(profile, profile->slots[0].end.waited_ns - profile->slots[0].begin.waited_ns);
    recording_load_wait(driver);
    /* The last snapshot is a moment of what the server counts to the end. */
    harness_counters_refresh(&server);
    harness_check_conservation(&server);
    assert_true(harness_counter(&server, "slots", "p.forward", "taken") >= profile->slots[0].end.taken);
    assert_true(harness_counter(&server, "slots", "p.forward", "waited_ns") >= profile->slots[0].end.waited_ns);
    weir_profile_free(profile);
    harness_stop(&server);
    shutdown(down.listener, SHUT_RDWR);
    pthread_join(down.handle, NULL);
    close(down.listener);
}

static void full_slots_light(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    full_slots(WEIR_MODE_LIGHT);
}

static void full_slots_exact(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    full_slots(WEIR_MODE_EXACT);
}

/* With room to spare nobody waits, and they are never full. */
static void slots_to_spare(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    struct downstream down;
    char options[96];
    start_downstream(&down);
    start_server(&server, down.port, 1024);
    snprintf(options, sizeof options, "--connections 1 --events 1 --in-flight 8 --duration %ums", WINDOW_MS + 800);
    pid_t driver = recording_load(&server, options);
    usleep(300000);
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_LIGHT, WINDOW_MS);
    const struct weir_profile_slots *slots = &profile->slots[0];
    assert_int_equal(slots->end.full_ns, 0);
    assert_int_equal(slots->end.waits, 0);
    assert_int_equal(slots->wait.count, 0);
    assert_true(slots->in_use.max <= 8);
    assert_true(starved_share(profile, "workers") == 0);
    recording_load_wait(driver);
    weir_profile_free(profile);
    harness_stop(&server);
    shutdown(down.listener, SHUT_RDWR);
    pthread_join(down.handle, NULL);
    close(down.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_slots_light),
        cmocka_unit_test(full_slots_exact),
        cmocka_unit_test(slots_to_spare),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
