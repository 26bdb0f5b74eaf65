/* What the tracer says of queues that refuse: its two modes agree with each other, and both with Little's law. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/recording.h"

#define WINDOW_MS harness_window_ms(1500, 6000)

static void start_server(struct harness_server *server, const char *full)
{
    char text[512];
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 2\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n"
             "    frame length32 max 64KiB\n    handoff workers limit 256KiB items 4 full %s\n    decode riemann\n"
             "    busy 200us pause 9ms\n    encode riemann\n    reply\n}\n",
             full);
    harness_run(server, text);
}

/* depth = rate x wait, of what came in and was taken out again. A handful of items gives no law; and light's 100 readings a second
 * tell a depth below 1 only roughly. */
static void check_little(const struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        uint64_t left = queue->end.out - queue->begin.out;
        double wait_s = weir_histogram_mean(&queue->wait) / 1e9, depth = queue->depth_items_mean;
        double law = (double)left * wait_s * 1e9 / (double)profile->duration_ns;
        double allowed = 0.1 * fmax(law, depth) + (profile->mode == WEIR_MODE_LIGHT ? 0.25 : 0.02);
        if (left < 100)
            continue;
        /* What was evicted was held, too, and its wait ended with no pop. */
        bool evicts = profile->topology.queues[i].full == WEIR_FULL_DROP_OLDEST && queue->end.dropped > queue->begin.dropped;
        if (evicts ? law > depth + allowed : fabs(law - depth) > allowed)
            fail_msg("%s, %s: %.3f items on average, but rate x wait gives %.3f", profile->topology.queues[i].name,
                     profile->mode == WEIR_MODE_EXACT ? "exact" : "light", depth, law);
    }
}

/* A reply's service is its sending; that it had to wait for those before it is the ring's wait. */
static void check_sending(const struct weir_profile *profile)
{
    const struct weir_profile_row *reply = recording_row(profile, "p.reply");
    const struct weir_profile_queue *ring = &profile->queues[profile->topology.stages[reply->stage].queue];
    assert_non_null(reply->service);
    double wait_ns = weir_histogram_mean(&ring->wait), service_ns = weir_histogram_mean(reply->service);
    if (wait_ns > 5e6 && service_ns > wait_ns / 5)
        fail_msg("p.reply: replies waited %.0f ns, and took %.0f ns to be sent", wait_ns, service_ns);
}

static void both_at_once(const char *full)
{
    struct harness_server server;
    char options[64];
    start_server(&server, full);
    snprintf(options, sizeof options, "--connections 2 --events 1 --in-flight 32 --duration %ums", WINDOW_MS + 1500);
    pid_t driver = recording_load(&server, options);
    usleep(300000);
    snprintf(options, sizeof options, "--duration %ums", WINDOW_MS);
    pid_t light = recording_start(&server, "light.wprof", options);
    snprintf(options, sizeof options, "--exact --duration %ums", WINDOW_MS);
    pid_t exact = recording_start(&server, "exact.wprof", options);
    assert_int_equal(recording_wait(light), 0);
    assert_int_equal(recording_wait(exact), 0);
    recording_wait(driver); /* what was refused counts as failed */
    struct weir_profile *profiles[] = { recording_open(&server, "light.wprof"), recording_open(&server, "exact.wprof") };
    for (size_t i = 0; i < 2; i++) {
        assert_false(weir_profile_lossy(profiles[i]));
        check_little(profiles[i]);
        check_sending(profiles[i]);
    }
    for (uint32_t i = 0; i < profiles[0]->topology.queue_count; i++) {
        double a = profiles[0]->queues[i].depth_items_mean, b = profiles[1]->queues[i].depth_items_mean;
        if (fabs(a - b) > 0.15 * fmax(a, b) + 0.25)
            fail_msg("%s held %.3f items by light, %.3f by exact", profiles[0]->topology.queues[i].name, a, b);
    }
    weir_profile_free(profiles[0]);
    weir_profile_free(profiles[1]);
    harness_stop(&server);
}

static void where_the_newest_is_refused(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    both_at_once("reject");
}

static void where_the_oldest_goes(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    both_at_once("drop oldest");
}

static void where_nothing_is_refused(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    both_at_once("block");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_the_newest_is_refused),
        cmocka_unit_test(where_the_oldest_goes),
        cmocka_unit_test(where_nothing_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
