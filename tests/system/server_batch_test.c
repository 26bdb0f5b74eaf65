/* Batches: how large they are, how long they wait, that each way in has its own, and that nothing stays in one at the end. */
#include <arpa/inet.h>
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

#include "tests/system/harness.h"

/* Says on stderr how many events each item has. */
static const char tell[] = "#include <stdio.h>\n#include <weir/call.h>\nint tell(struct weir_item *item, struct weir_call *call)\n{\n"
                           "    (void)call;\n    fprintf(stderr, \"batch %zu %.*s\\n\", weir_item_event_count(item),\n"
                           "        (int)weir_item_service(item, 0).size, weir_item_service(item, 0).data);\n    return 0;\n}\n";

struct told {
    unsigned batches, events, largest;
};

/* What was told about batches that begin with an event of this service. */
static struct told told(const struct harness_server *server, const char *service)
{
    struct told sum = { 0, 0, 0 };
    char line[256], name[64];
    unsigned events;
    FILE *file = fopen(server->errors, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "batch %u %63s", &events, name) != 2 || strcmp(name, service) != 0)
            continue;
        sum.batches++;
        sum.events += events;
        sum.largest = events > sum.largest ? events : sum.largest;
    }
    fclose(file);
    return sum;
}

static void start(struct harness_server *server, const char *text)
{
    harness_build(server, text, "tell.c", tell);
    harness_start(server, NULL);
}

/* Requests over TCP, one after the other, each answered. */
static void ask(int port, unsigned requests, unsigned events, const char *service)
{
    uint8_t message[65536];
    size_t size = harness_message(message, sizeof message, events, service);
    int fd = harness_connect(port);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < requests; i++) {
        assert_true(harness_send(fd, message, size));
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    }
    close(fd);
}

static void datagrams(int port, unsigned count, unsigned events, const char *service)
{
    uint8_t message[16384];
    size_t size = harness_message(message, sizeof message, events, service);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(sendto(fd, message + 4, size - 4, 0, (struct sockaddr *)&address, sizeof address), size - 4);
        usleep(500);
    }
    close(fd);
}

/* Waits, at most 10 s, until so many events were told of. */
static struct told wait_for(const struct harness_server *server, const char *service, unsigned events)
{
    for (int i = 0; i < 1000 && told(server, service).events < events; i++)
        usleep(10000);
    return told(server, service);
}

#define COPIES(batch) \
    "pool io threads 1\npool workers threads 1\n" \
    "pipeline a {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n    handoff workers limit 64MiB full block\n" \
    "    decode riemann max 1MiB\n    tee log\n    encode riemann\n    reply\n}\n" \
    "pipeline log {\n    batch " batch "\n    call \"tell.c\" tell\n    drop\n}\n"

static void a_full_batch_goes_on_at_once(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server, COPIES("100 within 1h"));
    ask(server.port, 250, 4, "s");
    struct told all = wait_for(&server, "s", 1000);
    assert_int_equal(all.batches, 10);
    assert_int_equal(all.events, 1000);
    assert_int_equal(all.largest, 100);
    harness_counters_refresh(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "in_flight"), 0);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "events"), 1000);
    assert_int_equal(harness_counter(&server, "stages", "log.batch", "entries"), 250);
    assert_int_equal(harness_counter(&server, "stages", "log.call", "entries"), 10);
    harness_stop(&server);
}

/* No message is split: a batch is full when it has as many events, or more. */
static void messages_stay_whole(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server, COPIES("10 within 1h"));
    ask(server.port, 6, 7, "s");
    ask(server.port, 2, 30, "large");
    assert_int_equal(wait_for(&server, "s", 42).batches, 3);
    assert_int_equal(told(&server, "s").largest, 14);
    assert_int_equal(wait_for(&server, "large", 60).batches, 2);
    harness_stop(&server);
}

/* Though nothing more comes. */
static void what_waits_long_enough_goes_on(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server, COPIES("1000000 within 300ms"));
    ask(server.port, 20, 1, "first");
    assert_int_equal(wait_for(&server, "first", 20).events, 20);
    ask(server.port, 5, 2, "second");
    assert_int_equal(wait_for(&server, "second", 10).events, 10);
    assert_true(told(&server, "first").batches < 20);
    harness_counters_refresh(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "discarded"), 25);
    harness_stop(&server);
}

/* A batch holds no more than one message may. */
static void a_batch_is_bounded(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server, COPIES("4000000000 within 1h"));
    ask(server.port, 200, 100, "s");
    harness_counters_refresh(&server);
    uint64_t on = harness_counter(&server, "stages", "log.call", "entries");
    assert_true(on > 1 && on < 100);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_int_equal(told(&server, "s").events, 20000); /* and the rest at the end */
    harness_check_conservation(&server);
    harness_remove(&server);
}

#define WAYS(batch) \
    "pool io threads 1\npool workers threads 2\n" \
    "pipeline u {\n    listen udp 127.0.0.1:0 on io\n    decode riemann\n    then log\n}\n" \
    "pipeline v {\n    listen udp 127.0.0.1:0 on io\n    decode riemann\n    handoff workers limit 64MiB full drop newest\n    then log\n}\n" \
    "pipeline log {\n    batch " batch "\n    call \"tell.c\" tell\n    encode riemann\n    reply\n}\n"

/* One comes on an event loop, one on workers; neither's events are found among the other's. */
static void each_way_in_has_its_own(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server, WAYS("50 within 200ms"));
    for (int i = 0; i < 10; i++) {
        datagrams(harness_port(&server, "u"), 12, 1, "u");
        datagrams(harness_port(&server, "v"), 12, 2, "v");
    }
    struct told u = wait_for(&server, "u", 120), v = wait_for(&server, "v", 240);
    assert_int_equal(u.events, 120);
    assert_int_equal(v.events, 240);
    assert_true(u.batches < 120 && v.batches < 120);
    harness_counters_refresh(&server);
    assert_int_equal(harness_counter(&server, "stages", "log.batch@u", "entries"), 120);
    assert_int_equal(harness_counter(&server, "stages", "log.call@u", "entries"), u.batches);
    assert_int_equal(harness_counter(&server, "stages", "log.call@v", "entries"), v.batches);
    assert_int_equal(harness_counter(&server, "ways_in", "u", "discarded"), 120);
    assert_int_equal(harness_counter(&server, "ways_in", "u", "events"), 120);
    assert_int_equal(harness_counter(&server, "ways_in", "v", "events"), 240);
    harness_stop(&server);
}

static void nothing_is_lost_at_the_end(void **state)
{
    (void)state;
    struct harness_server server;
    start(&server, WAYS("1000000 within 1h"));
    datagrams(harness_port(&server, "u"), 30, 1, "u");
    datagrams(harness_port(&server, "v"), 30, 1, "v");
    for (int i = 0; i < 500; i++) {
        harness_counters_refresh(&server);
        if (harness_counter(&server, "stages", "log.batch@v", "entries") == 30)
            break;
        usleep(10000);
    }
    harness_check_conservation(&server);
    assert_int_equal(told(&server, "u").events + told(&server, "v").events, 0);
    assert_int_equal(harness_counter(&server, "ways_in", "u", "in_flight"), 1); /* who carries the rest */
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    assert_int_equal(told(&server, "u").events, 30);
    assert_int_equal(told(&server, "v").events, 30);
    assert_int_equal(harness_counter(&server, "ways_in", "u", "discarded"), 30);
    assert_int_equal(harness_counter(&server, "ways_in", "v", "in_flight"), 0);
    harness_check_conservation(&server);
    harness_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_batch_goes_on_at_once), cmocka_unit_test(messages_stay_whole),
        cmocka_unit_test(what_waits_long_enough_goes_on), cmocka_unit_test(a_batch_is_bounded),
        cmocka_unit_test(each_way_in_has_its_own), cmocka_unit_test(nothing_is_lost_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
