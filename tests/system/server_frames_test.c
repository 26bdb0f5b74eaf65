/* What comes in by a connection, whole and broken: frames in any pieces, garbage, a half-close. */
#include <setjmp.h>
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

static struct harness_server server;

static int start(void **state)
{
    (void)state;
    harness_run_riemann(&server);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_stop(&server);
    return 0;
}

static int connected(void)
{
    int fd = harness_connect(server.port);
    assert_true(fd >= 0);
    return fd;
}

static void expect_alive(void)
{
    uint8_t message[256];
    int fd = connected();
    assert_true(harness_send(fd, message, harness_message(message, sizeof message, 1, "alive")));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
}

static void a_frame_comes_byte_by_byte(void **state)
{
    (void)state;
    uint8_t message[512];
    size_t size = harness_message(message, sizeof message, 3, "bytes");
    int fd = connected();
    for (size_t i = 0; i < size; i++)
        assert_true(harness_send(fd, message + i, 1));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
}

/* Every seventh of 1,000 is broken, so that an answer in the wrong place is seen. */
static void a_thousand_frames_in_one_write_are_answered_in_order(void **state)
{
    (void)state;
    static uint8_t all[1000 * 64];
    static const uint8_t broken[] = { 0, 0, 0, 3, 0x32, 0x7f, 0x1a };
    size_t size = 0;
    for (int i = 0; i < 1000; i++) {
        if (i % 7 == 3) {
            memcpy(all + size, broken, sizeof broken);
            size += sizeof broken;
        } else {
            size += harness_message(all + size, 64, 1, "many");
        }
    }
    int fd = connected();
    assert_true(harness_send(fd, all, size));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), i % 7 != 3);
    close(fd);
}

static void an_empty_frame_is_an_empty_message(void **state)
{
    (void)state;
    int fd = connected();
    assert_true(harness_send(fd, "\0\0\0\0", 4));
    uint8_t ack[6];
    assert_true(harness_receive(fd, ack, sizeof ack));
    assert_memory_equal(ack, "\0\0\0\2\20\1", 6);
    close(fd);
}

static void a_frame_that_does_not_parse_is_answered_and_the_connection_lives(void **state)
{
    (void)state;
    char error[200];
    uint8_t message[256];
    harness_counters_refresh(&server);
    uint64_t before = harness_counter(&server, "ways_in", "riemann", "malformed");
    int fd = connected();
    assert_true(harness_send(fd, "\0\0\0\2\0\1", 6));
    assert_int_equal(harness_reply(fd, error, sizeof error), 0);
    assert_true(strlen(error) > 0);
    assert_true(harness_send(fd, message, harness_message(message, sizeof message, 1, "lives")));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    harness_counters_refresh(&server);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "malformed"), before + 1);
}

static void garbage_closes_at_once(void **state)
{
    (void)state;
    static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = connected();
    uint64_t start_ns = weir_clock_ns();
    assert_true(harness_send(fd, get, sizeof get - 1));
    assert_int_equal(harness_drain(fd), 0);
    assert_true(weir_clock_ns() - start_ns < 1000000000u);
    close(fd);
    expect_alive();
}

static void a_claim_of_2_gb_takes_no_memory_and_closes(void **state)
{
    (void)state;
    static const uint8_t header[] = { 0x7f, 0xff, 0xff, 0xff, 1, 2, 3 }, negative[] = { 0x80, 0, 0, 0 }, over[] = { 1, 0, 0, 1 };
    size_t before = harness_resident(&server);
    int fd = connected();
    assert_true(harness_send(fd, header, sizeof header));
    assert_int_equal(harness_drain(fd), 0);
    close(fd);
    fd = connected();
    assert_true(harness_send(fd, negative, sizeof negative));
    assert_int_equal(harness_drain(fd), 0);
    close(fd);
    fd = connected();
    assert_true(harness_send(fd, over, sizeof over)); /* 16 MiB + 1 */
    assert_int_equal(harness_drain(fd), 0);
    close(fd);
    assert_true(harness_resident(&server) < before + harness_memory((size_t)8 << 20));
    harness_counters_refresh(&server);
    assert_true(harness_counter(&server, "ways_in", "riemann", "bad_lengths") >= 3);
    /* S16: the log tells the length, once a second at most. */
    char text[512] = "";
    FILE *log = fopen(server.errors, "r");
    assert_non_null(log);
    assert_non_null(fgets(text, sizeof text, log));
    fclose(log);
    assert_non_null(strstr(text, "riemann: a frame claims"));
    assert_non_null(strstr(text, "at most 16777216 are allowed"));
}

static void replies_owed_come_before_a_bad_length_closes(void **state)
{
    (void)state;
    uint8_t all[4096];
    size_t size = 0;
    for (int i = 0; i < 20; i++)
        size += harness_message(all + size, 128, 1, "owed");
    memset(all + size, 0xff, 4);
    int fd = connected();
    assert_true(harness_send(fd, all, size + 4));
    for (int i = 0; i < 20; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    assert_int_equal(harness_drain(fd), 0);
    close(fd);
}

static void a_large_frame_in_pieces_is_taken(void **state)
{
    (void)state;
    size_t room = (size_t)4 << 20;
    uint8_t *message = malloc(room);
    size_t size = harness_message(message, room, 60000, "large");
    assert_true(size > (size_t)1 << 20);
    int fd = connected();
    for (size_t at = 0; at < size; at += 100000)
        assert_true(harness_send(fd, message + at, size - at < 100000 ? size - at : 100000));
    assert_int_equal(harness_reply(fd, NULL, 0), 1);
    /* The same, with small ones around it, in one write. */
    uint8_t small[128];
    size_t small_size = harness_message(small, sizeof small, 1, "small");
    assert_true(harness_send(fd, small, small_size));
    assert_true(harness_send(fd, message, size));
    assert_true(harness_send(fd, small, small_size));
    for (int i = 0; i < 3; i++)
        assert_int_equal(harness_reply(fd, NULL, 0), 1);
    close(fd);
    free(message);
}

static void a_half_close_gets_its_replies_and_then_the_end(void **state)
{
    (void)state;
    static uint8_t all[2000 * 64];
    size_t size = 0;
    for (int i = 0; i < 2000; i++)
        size += harness_message(all + size, 64, 1, "half");
    int fd = connected();
    assert_true(harness_send(fd, all, size));
    shutdown(fd, SHUT_WR);
    assert_int_equal(harness_drain(fd), 2000 * 6);
    close(fd);
}

/* S18 */
static void short_connections_leave_nothing_behind(void **state)
{
    (void)state;
    uint8_t message[128];
    size_t size = harness_message(message, sizeof message, 1, "short");
    long count = harness_count(2000, 10000);
    for (long i = 0; i < count; i++) {
        int fd = connected();
        assert_true(harness_send(fd, message, size));
        shutdown(fd, SHUT_WR);
        assert_int_equal(harness_drain(fd), 6);
        close(fd);
    }
    for (int i = 0; i < 100; i++) {
        harness_counters_refresh(&server);
        if (harness_counter(&server, "ways_in", "riemann", "connections") == 0)
            break;
        usleep(10000);
    }
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "connections"), 0);
    assert_int_equal(harness_counter(&server, "ways_in", "riemann", "in_flight"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frame_comes_byte_by_byte),
        cmocka_unit_test(a_thousand_frames_in_one_write_are_answered_in_order),
        cmocka_unit_test(an_empty_frame_is_an_empty_message),
        cmocka_unit_test(a_frame_that_does_not_parse_is_answered_and_the_connection_lives),
        cmocka_unit_test(garbage_closes_at_once),
        cmocka_unit_test(a_claim_of_2_gb_takes_no_memory_and_closes),
        cmocka_unit_test(replies_owed_come_before_a_bad_length_closes),
        cmocka_unit_test(a_large_frame_in_pieces_is_taken),
        cmocka_unit_test(a_half_close_gets_its_replies_and_then_the_end),
        cmocka_unit_test(short_connections_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
