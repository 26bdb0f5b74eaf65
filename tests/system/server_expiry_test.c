/* What becomes of events that outlive their ttl: they leave the index, and the stages behind it hear of it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline_dsl/wire/message.h"
#include "tests/system/harness.h"

/* Appends a line for each expired event to $WEIR_TEST_SINK. */
static const char sink[] =
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <weir/call.h>\n"
    "static __thread char room[1 << 20];\n"
    "int sink(struct weir_item *item, struct weir_call *call)\n{\n    FILE *file = NULL;\n    (void)call;\n"
    "    for (size_t i = 0; i < weir_item_event_count(item); i++) {\n"
    "        struct weir_call_bytes state = weir_item_state(item, i), host = weir_item_host(item, i);\n"
    "        struct weir_call_bytes service = weir_item_service(item, i), words = weir_item_description(item, i);\n"
    "        int64_t time_us = 0, integer;\n        double real;\n        float ttl;\n"
    "        if (state.size != 7 || memcmp(state.data, \"expired\", 7))\n            continue;\n"
    "        if (!file) {\n            if (!(file = fopen(getenv(\"WEIR_TEST_SINK\"), \"a\")))\n                abort();\n"
    "            setvbuf(file, room, _IOFBF, sizeof room); /* one write: the lines of another thread stand before or behind */\n        }\n"
    "        weir_item_time_us(item, i, &time_us);\n"
    "        fprintf(file, \"%s%.*s %s%.*s %lld %d\\n\", host.data ? \"\" : \"nil\", (int)host.size, host.data ? host.data : \"\",\n"
    "                service.data ? \"\" : \"nil\", (int)service.size, service.data ? service.data : \"\", (long long)time_us,\n"
    "                !words.data && !weir_item_tag_count(item, i) && !weir_item_ttl(item, i, &ttl) && !weir_item_metric(item, i, &integer, &real));\n"
    "    }\n    if (file)\n        fclose(file);\n    return 0;\n}\n";

#define PIPELINE(index)                                                                                                              \
    "pool io threads 1\npool workers threads 2\n"                                                                                    \
    "pipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 16MiB\n"                                           \
    "    handoff workers limit 64MiB full block\n    decode riemann\n    " index "\n    call \"sink.c\" sink\n    encode riemann\n    reply\n}\n"

static struct harness_server server;
static char sink_path[128];
static int fd;

static void start(const char *pipeline)
{
    harness_build(&server, pipeline, "sink.c", sink);
    snprintf(sink_path, sizeof sink_path, "%s/expired", server.folder);
    setenv("WEIR_TEST_SINK", sink_path, 1);
    harness_start(&server, NULL);
    fd = harness_connect(server.port);
    assert_true(fd >= 0);
}

static void stop(void)
{
    close(fd);
    unlink(sink_path);
    harness_stop(&server);
}

static struct weir_bytes text(const char *string)
{
    return string ? (struct weir_bytes){ (const uint8_t *)string, strlen(string) } : (struct weir_bytes){ NULL, 0 };
}

/* Its answer: 1 ok, 0 not. */
static int put(const struct weir_event *events, size_t count, char *error, size_t size)
{
    struct weir_message message = { .events = (struct weir_event *)(uintptr_t)events, .event_count = count };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    assert_int_equal(weir_message_encode_framed(&message, &out, NULL), 0);
    assert_true(harness_send(fd, out.data, out.length));
    weir_buffer_release(&out);
    return harness_reply(fd, error, size);
}

static uint64_t tally(const char *field)
{
    harness_counters_refresh(&server);
    return harness_counter(&server, "stages", "riemann.index", field);
}

/* Waits until so many have expired: long, on a machine that does much else. */
static void wait_for(uint64_t expired)
{
    for (int i = 0; i < 600 && tally("expired") < expired; i++)
        usleep(50000);
    assert_int_equal(tally("expired"), expired);
}

/* Lines of the sink, once there are so many. */
static FILE *sunk(size_t lines)
{
    for (int i = 0; i < 600; i++, usleep(50000)) {
        FILE *file = fopen(sink_path, "r");
        size_t found = 0;
        for (int c; file && (c = getc(file)) != EOF;)
            found += c == '\n';
        if (file && found >= lines) {
            assert_int_equal(found, lines);
            rewind(file);
            return file;
        }
        if (file)
            fclose(file);
    }
    fail_msg("the stage behind the index did not hear of %zu events", lines);
    return NULL;
}

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void what_expires_is_told_to_the_stages_behind(void **state)
{
    (void)state;
    start(PIPELINE("index ttl 1s"));
    int64_t before = clock_us();
    struct weir_bytes tag = text("t");
    struct weir_event events[] = {
        { .host = text("h"), .service = text("own"), .has_ttl = true, .ttl = 0.1f, .metric_kind = WEIR_METRIC_INT, .metric_int = 1,
          .description = text("words"), .tags = &tag, .tag_count = 1 },
        { .host = text("h"), .service = text("index's") },
        { .host = text("h"), .service = text("NaN"), .has_ttl = true, .ttl = NAN },
        { .host = text("h"), .service = text("negative"), .has_ttl = true, .ttl = -1 },
        { .host = text(NULL), .service = text(""), .has_ttl = true, .ttl = 0 },
        { .host = text("h"), .service = text("long"), .has_ttl = true, .ttl = 1000 },
        { .host = text("h"), .service = text("for ever"), .has_ttl = true, .ttl = INFINITY },
    };
    assert_int_equal(put(events, 7, NULL, 0), 1);
    wait_for(5);
    assert_int_equal(tally("size"), 2);
    FILE *file = sunk(5);
    char line[200], told[1000] = "";
    while (fgets(line, sizeof line, file)) {
        long long time_us;
        int bare;
        char *numbers = strrchr(line, ' ');
        while (numbers > line && *--numbers != ' ')
            ;
        assert_int_equal(sscanf(numbers, "%lld %d", &time_us, &bare), 2);
        assert_true(time_us > before && time_us <= clock_us());
        assert_true(bare); /* neither ttl nor metric, description or tags */
        *numbers = '\0';
        strcat(strcat(told, line), ";");
    }
    fclose(file);
    static const char *const expected[] = { "h own;", "h index's;", "h NaN;", "h negative;", "nil ;" };
    for (size_t i = 0; i < 5; i++)
        if (!strstr(told, expected[i]))
            fail_msg("%s", told);
    stop();
}

static void all_of_many_expire_and_none_twice(void **state)
{
    (void)state;
    enum { KEYS = 30000, EACH = 500 };
    static char names[EACH][16];
    static struct weir_event events[EACH];
    static uint8_t told[KEYS];
    start(PIPELINE("index ttl 1s"));
    memset(told, 0, sizeof told);
    for (int at = 0; at < KEYS; at += EACH) {
        for (int i = 0; i < EACH; i++) {
            snprintf(names[i], sizeof *names, "%d", at + i);
            events[i] = (struct weir_event){ .host = text("h"), .service = text(names[i]), .has_ttl = true, .ttl = 0.05f };
        }
        assert_int_equal(put(events, EACH, NULL, 0), 1);
    }
    wait_for(KEYS);
    FILE *file = sunk(KEYS);
    for (int i = 0, key; i < KEYS; i++) {
        assert_int_equal(fscanf(file, "h %d %*d 1\n", &key), 1);
        told[key]++;
    }
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(told[i], 1);
    fclose(file);
    assert_int_equal(tally("size"), 0);
    harness_counters_refresh(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "(inside)", "events"), KEYS);
    stop();
}

static void a_full_index_refuses_new_keys_until_others_expire(void **state)
{
    (void)state;
    char error[200];
    struct weir_event events[12];
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" };
    start(PIPELINE("index ttl 1s limit 10"));
    for (int i = 0; i < 12; i++)
        events[i] = (struct weir_event){ .host = text("h"), .service = text(names[i]), .has_ttl = true, .ttl = i ? 1000 : 0.05f };
    assert_int_equal(put(events, 10, NULL, 0), 1);
    assert_int_equal(put(events + 10, 2, error, sizeof error), 0);
    assert_string_equal(error, "riemann.index: the index is full");
    assert_int_equal(put(events + 3, 1, NULL, 0), 1); /* a key that it has */
    wait_for(1);
    assert_int_equal(tally("size"), 9);
    assert_int_equal(tally("refused"), 2);
    assert_int_equal(put(events + 11, 1, NULL, 0), 1);
    assert_int_equal(tally("size"), 10);
    stop();
}

/* A pool that listens has no workers: its loops expire. */
static void an_index_on_the_loop_expires_too(void **state)
{
    (void)state;
    start("pool io threads 1\npipeline riemann {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 16MiB\n    decode riemann\n"
          "    index ttl 1s\n    call \"sink.c\" sink\n    encode riemann\n    reply\n}\n");
    struct weir_event event = { .host = text("h"), .service = text("s"), .has_ttl = true, .ttl = 0 };
    assert_int_equal(put(&event, 1, NULL, 0), 1);
    wait_for(1);
    fclose(sunk(1));
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_expires_is_told_to_the_stages_behind),
        cmocka_unit_test(all_of_many_expire_and_none_twice),
        cmocka_unit_test(a_full_index_refuses_new_keys_until_others_expire),
        cmocka_unit_test(an_index_on_the_loop_expires_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
