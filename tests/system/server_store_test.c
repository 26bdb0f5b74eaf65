/* `store postgres` against a PostgreSQL of the test's own: rows, refusals, losses under both choices, a slow database. */
#include <libpq-fe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline_dsl/wire/message.h"
#include "tests/system/harness.h"
#include "tests/system/postgres.h"

#define STAGE "p.store"

static struct postgres postgres;

static int start_database(void **state)
{
    (void)state;
    postgres_start(&postgres);
    return 0;
}

static int stop_database(void **state)
{
    (void)state;
    postgres_stop(&postgres);
    return 0;
}

static void build(struct harness_server *server, const char *store)
{
    char text[1024];
    snprintf(text, sizeof text,
             "pool io threads 1\npool workers threads 2\n"
             "pipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"
             "    handoff workers limit 64MiB full block\n    decode riemann\n"
             "    store postgres \"%s\" %s\n    encode riemann\n    reply\n}\n",
             postgres.conninfo, store);
    harness_build(server, text, NULL, NULL);
}

static void run(struct harness_server *server, const char *store)
{
    build(server, store);
    harness_start(server, NULL);
}

static uint64_t slots(struct harness_server *server, const char *field)
{
    harness_counters_refresh(server);
    harness_check_conservation(server);
    return harness_counter(server, "slots", STAGE, field);
}

static void await(struct harness_server *server, const char *field, uint64_t value)
{
    for (int i = 0; i < 2000 && slots(server, field) != value; i++)
        usleep(10000);
    assert_int_equal(slots(server, field), value);
}

static void send_tagged(int fd, unsigned events, const char *service)
{
    uint8_t frame[8192];
    size_t size = harness_message(frame, sizeof frame, events, service);
    assert_true(size && harness_send(fd, frame, size));
}

static struct weir_bytes bytes(const char *text, size_t size)
{
    return (struct weir_bytes){ (const uint8_t *)text, size };
}
#define TEXT(text) bytes(text, sizeof text - 1)

static void a_row_holds_what_the_event_holds(void **state)
{
    (void)state;
    struct harness_server server;
    const struct weir_bytes tags[] = { TEXT("a,b"), TEXT("{\"}") };
    const struct weir_attribute attributes[] = { { TEXT("k\"1"), TEXT("v\\") } };
    struct weir_event events[] = {
        { .host = TEXT("h"), .service = TEXT("s\xc3\xa9\n\"'\\"), .state = TEXT(""), .description = bytes("a\0b\x01", 4), .tags = tags,
          .tag_count = 2, .attributes = attributes, .attribute_count = 1, .has_time = true, .time_us = 1234567890123457, .has_ttl = true,
          .ttl = 1.5f, .metric_kind = WEIR_METRIC_INT, .metric_int = 9007199254740993 },
        { .host = TEXT("none") },
        { .host = TEXT("double"), .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = 0.1 },
    };
    const struct weir_message message = { .events = events, .event_count = 3 };
    struct weir_buffer frame = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode_framed(&message, &frame, NULL), 0);
    run(&server, "table rows create connections 1 in_flight 4");
    int fd = harness_connect(server.port);
    assert_true(harness_send(fd, frame.data, frame.length));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    weir_buffer_release(&frame);
    close(fd);
    harness_stop(&server);
    assert_int_equal(postgres_run(&postgres, "SELECT count(*) FROM rows"), 3);
    assert_int_equal(postgres_run(&postgres,
                                  "SELECT count(*) FROM rows WHERE host = 'h' AND service = E's\\u00e9\\n\"''\\\\' AND state = '' AND "
                                  "description = E'a\\uFFFDb\\u0001' AND tags = ARRAY['a,b', '{\"}'] AND attributes->>'k\"1' = E'v\\\\' AND "
                                  "time = '2009-02-13 23:31:30.123457+00' AND ttl = 1.5 AND metric_int = 9007199254740993"),
                     1);
    assert_int_equal(postgres_run(&postgres,
                                  "SELECT count(*) FROM rows WHERE host = 'none' AND service IS NULL AND metric IS NULL AND tags IS NULL "
                                  "AND attributes IS NULL AND ttl IS NULL AND abs(extract(epoch FROM now() - time)) < 60"),
                     1);
    assert_int_equal(postgres_run(&postgres, "SELECT count(*) FROM rows WHERE metric = 0.1 AND metric_int IS NULL"), 1);
}

static void every_event_is_there_once(void **state)
{
    (void)state;
    const long messages = harness_count(400, 4000);
    struct harness_server server;
    run(&server, "table once create connections 3 in_flight 5 on_loss report");
    int fd = harness_connect(server.port);
    for (long i = 0; i < messages; i++)
        send_tagged(fd, 7, "once");
    for (long i = 0; i < messages; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(slots(&server, "finished"), messages);
    assert_int_equal(slots(&server, "taken"), messages);
    assert_int_equal(postgres_run(&postgres, "SELECT count(*) FROM once"), 7 * messages);
    close(fd);
    harness_stop(&server);
}

static void a_message_that_is_refused_takes_no_other_along(void **state)
{
    (void)state;
    struct harness_server server;
    char error[256];
    run(&server, "table refused create connections 1 in_flight 16");
    postgres_run(&postgres, "ALTER TABLE refused ADD CONSTRAINT no_bad CHECK (service <> 'bad')");
    int fd = harness_connect(server.port);
    for (int i = 0; i < 9; i++)
        send_tagged(fd, 2, i % 3 == 1 ? "bad" : "good");
    for (int i = 0; i < 9; i++) {
        assert_int_equal(harness_reply(fd, error, sizeof error), i % 3 != 1);
        if (i % 3 == 1)
            assert_non_null(strstr(error, "no_bad"));
    }
    assert_int_equal(slots(&server, "finished"), 6);
    assert_int_equal(slots(&server, "failed"), 3);
    assert_int_equal(postgres_run(&postgres, "SELECT count(*) FROM refused"), 12);
    close(fd);
    harness_stop(&server);
}

/* The database stops, with everything in flight, while the test holds the table. */
static PGconn *hold(const char *table)
{
    char sql[96];
    PGconn *conn = PQconnectdb(postgres.conninfo);
    snprintf(sql, sizeof sql, "BEGIN; LOCK TABLE %s IN EXCLUSIVE MODE", table);
    PQclear(PQexec(conn, sql));
    assert_int_equal(PQtransactionStatus(conn), PQTRANS_INTRANS);
    return conn;
}

static void a_slow_database_fills_the_slots(void **state)
{
    (void)state;
    struct harness_server server;
    run(&server, "table slow create connections 2 in_flight 2");
    PGconn *held = hold("slow");
    int fd = harness_connect(server.port);
    for (int i = 0; i < 20; i++)
        send_tagged(fd, 1, "slow");
    await(&server, "in_use", 4);
    usleep(50000);
    assert_int_equal(slots(&server, "taken"), 4);
    assert_true(slots(&server, "full_ns") >= 40000000);
    PQfinish(held);
    for (int i = 0; i < 20; i++) {
        assert_true(slots(&server, "in_use") <= 4);
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    }
    assert_true(slots(&server, "waits") >= 2 && slots(&server, "waited_ns") >= 80000000);
    assert_int_equal(postgres_run(&postgres, "SELECT count(*) FROM slow"), 20);
    close(fd);
    harness_stop(&server);
}

#define CUT "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = '" STAGE "'"

static void what_is_lost_is_reported(void **state)
{
    (void)state;
    struct harness_server server;
    char error[256];
    run(&server, "table reported create connections 2 in_flight 4 on_loss report");
    PGconn *held = hold("reported");
    int fd = harness_connect(server.port), good = 0, bad = 0;
    for (int i = 0; i < 5; i++)
        send_tagged(fd, 1, "lost");
    await(&server, "in_use", 5);
    assert_int_equal(postgres_run(&postgres, CUT), 2);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(harness_reply(fd, error, sizeof error), 0);
        assert_non_null(strstr(error, "lost"));
    }
    PQfinish(held);
    await(&server, "open", 2);
    assert_int_equal(slots(&server, "lost"), 5);
    assert_int_equal(slots(&server, "reconnects"), 2);
    /* Amid a stream: sent = acknowledged + failed, and no row more than was sent. */
    const int count = (int)harness_count(600, 6000);
    for (int i = 0; i < count; i++) {
        send_tagged(fd, 1, "stream");
        if (i % 200 == 100)
            postgres_run(&postgres, CUT);
    }
    for (int i = 0; i < count; i++) {
        int reply = harness_reply(fd, NULL, 0);
        assert_true(reply >= 0);
        *(reply ? &good : &bad) += 1;
    }
    long rows = postgres_run(&postgres, "SELECT count(*) FROM reported WHERE service = 'stream'");
    assert_in_range(rows, good, count);
    assert_int_equal(slots(&server, "finished"), good);
    assert_int_equal(slots(&server, "failed") + slots(&server, "lost"), bad + 5);
    assert_int_equal(slots(&server, "retried"), 0);
    close(fd);
    harness_stop(&server);
}

static void what_is_lost_is_sent_again(void **state)
{
    (void)state;
    struct harness_server server;
    char service[16];
    run(&server, "table again create connections 2 in_flight 4 on_loss retry");
    PGconn *held = hold("again");
    int fd = harness_connect(server.port);
    for (int i = 0; i < 30; i++) {
        snprintf(service, sizeof service, "%d", i);
        send_tagged(fd, 1, service);
    }
    await(&server, "in_use", 8);
    PQfinish(held);
    postgres_run(&postgres, CUT);
    for (int i = 0; i < 30; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    /* The whole database goes, and comes again: who wants a slot waits. */
    await(&server, "reconnects", 2);
    held = hold("again");
    for (int i = 30; i < 50; i++) {
        snprintf(service, sizeof service, "%d", i);
        send_tagged(fd, 1, service);
    }
    await(&server, "in_use", 8);
    usleep(50000); /* all of them are on their way */
    postgres_crash(&postgres);
    PQfinish(held);
    await(&server, "open", 0);
    assert_int_equal(slots(&server, "in_use"), 8);
    postgres_again(&postgres);
    for (int i = 0; i < 20; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(postgres_run(&postgres, "SELECT count(DISTINCT service) FROM again"), 50);
    assert_true(postgres_run(&postgres, "SELECT count(*) FROM again") >= 50);
    assert_int_equal(slots(&server, "taken"), 50);
    assert_int_equal(slots(&server, "finished"), 50);
    assert_in_range(slots(&server, "retried"), 8, 1000);
    close(fd);
    harness_stop(&server);
}

/* Runs a server that refuses to start: its exit code, and what it says. */
static int refuse(const char *store, char *said, size_t size)
{
    struct harness_server server;
    char command[128];
    build(&server, store);
    snprintf(command, sizeof command, "timeout 20 %s 2>&1", server.binary);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t got = fread(said, 1, size - 1, pipe);
    said[got] = '\0';
    int status = pclose(pipe);
    harness_remove(&server);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_table_that_does_not_fit_is_said_at_the_start(void **state)
{
    (void)state;
    char said[1024];
    assert_int_equal(refuse("table missing connections 1 in_flight 4", said, sizeof said), 2);
    assert_non_null(strstr(said, "there is no table \"missing\""));
    postgres_run(&postgres, "CREATE TABLE narrow (time timestamptz, host text, service text, state text, description text)");
    assert_int_equal(refuse("table narrow create connections 1 in_flight 4", said, sizeof said), 2);
    assert_non_null(strstr(said, "has no column \"metric\""));
    postgres_run(&postgres, "ALTER TABLE narrow ADD metric text");
    assert_int_equal(refuse("table narrow connections 1 in_flight 4", said, sizeof said), 2);
    assert_non_null(strstr(said, "is of type text, and must be double precision"));
}

static void a_server_ends_without_its_database(void **state)
{
    (void)state;
    struct harness_server server;
    const char *options[] = { "--drain", "200ms", NULL };
    build(&server, "table held create connections 1 in_flight 2 on_loss retry");
    harness_start(&server, options);
    PGconn *held = hold("held");
    int fd = harness_connect(server.port);
    for (int i = 0; i < 8; i++)
        send_tagged(fd, 1, "held");
    await(&server, "in_use", 2);
    assert_int_equal(harness_wait(&server, SIGTERM), 0);
    harness_check_conservation(&server);
    assert_int_equal(harness_counter(&server, "slots", STAGE, "lost"), 2);
    assert_int_equal(harness_counter(&server, "ways_in", "p", "in_flight"), 0);
    PQfinish(held);
    close(fd);
    harness_remove(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_holds_what_the_event_holds),
        cmocka_unit_test(every_event_is_there_once),
        cmocka_unit_test(a_message_that_is_refused_takes_no_other_along),
        cmocka_unit_test(a_slow_database_fills_the_slots),
        cmocka_unit_test(what_is_lost_is_reported),
        cmocka_unit_test(what_is_lost_is_sent_again),
        cmocka_unit_test(a_table_that_does_not_fit_is_said_at_the_start),
        cmocka_unit_test(a_server_ends_without_its_database),
    };
    return cmocka_run_group_tests(tests, start_database, stop_database);
}
