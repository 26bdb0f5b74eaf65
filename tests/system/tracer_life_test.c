/* Attaching and detaching at full load, and all the ways in which a recording can end. */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/system/recording.h"
#include "tracer/target.h"

#define PIPELINE                                                                                                                 \
    "pool io threads 1\npool workers threads 2\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"   \
    "    decode riemann\n    handoff workers limit 64MiB full block\n    busy 20us as a\n    index\n    encode riemann\n    "    \
    "reply\n}\n"
#define LOAD "--connections 2 --events 10 --in-flight 16 --duration "
#define NOP 0x90

/* No breakpoint and no semaphore may be left; the kernel takes a moment after a tracer was killed. */
static void check_nothing_left(const struct harness_server *server)
{
    struct weir_target target;
    struct weir_error error = WEIR_ERROR_INIT;
    char name[16];
    snprintf(name, sizeof name, "%d", (int)server->pid);
    if (weir_target_open(&target, name, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(target.point_count, 4);
    for (uint32_t i = 0; i < target.point_count; i++) {
        uint8_t byte = 0;
        uint16_t semaphore = 1;
        for (int tries = 0; tries < 100 && (byte != NOP || semaphore); tries++) {
            assert_int_equal(weir_process_read(&target.process, target.points[i].address + target.bias, &byte, sizeof byte), 0);
            assert_int_equal(weir_process_read(&target.process, target.points[i].semaphore_address + target.bias, &semaphore,
                                               sizeof semaphore),
                             0);
            usleep(10000);
        }
        assert_int_equal(byte, NOP);
        assert_int_equal(semaphore, 0);
    }
    weir_target_close(&target);
}

static void attach_again_and_again(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    long rounds = harness_count(10, 100);
    char load[128];
    harness_run(&server, PIPELINE);
    snprintf(load, sizeof load, LOAD "%lds", rounds * 4 / 10 + 2);
    pid_t driver = recording_load(&server, load);
    usleep(300000);
    size_t before = harness_resident(&server);
    srand(1);
    for (long i = 0; i < rounds; i++) {
        bool killed = i % 2;
        pid_t recorder = recording_start(&server, "x.wprof",
                                         killed  ? (i % 4 == 1 ? "--exact" : "")
                                         : i % 4 ? "--duration 100ms --exact"
                                                 : "--duration 100ms");
        if (killed) {
            usleep((useconds_t)(rand() % 250000));
            kill(recorder, SIGKILL);
            uint64_t killed_ns = weir_clock_ns();
            assert_int_equal(recording_wait(recorder), 128 + SIGKILL);
            assert_true(weir_clock_ns() - killed_ns < 500000000u); /* reaped: nothing detaches probe by probe */
        } else {
            assert_int_equal(recording_wait(recorder), 0);
        }
    }
    check_nothing_left(&server);
    assert_true(harness_resident(&server) < before + ((size_t)8 << 20));
    recording_load_wait(driver); /* no request has failed */
    harness_stop(&server);
}

static void two_tracers_at_once(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    harness_run(&server, PIPELINE);
    pid_t driver = recording_load(&server, LOAD "4s");
    usleep(300000);
    pid_t light = recording_start(&server, "light.wprof", "--duration 2s");
    usleep(400000);
    pid_t exact = recording_start(&server, "exact.wprof", "--duration 1s --exact");
    assert_int_equal(recording_wait(exact), 0);
    assert_int_equal(recording_wait(light), 0);
    check_nothing_left(&server);
    const char *const files[] = { "light.wprof", "exact.wprof" };
    for (size_t i = 0; i < 2; i++) {
        struct weir_profile *profile = recording_open(&server, files[i]);
        const struct weir_profile_row *row = recording_row(profile, "p.a");
        double truth = recording_truth(profile, row), seen = (double)row->stamped / (double)row->items;
        assert_false(weir_profile_lossy(profile));
        double allowed = 0.015 + (i ? 0 : 4 * sqrt(truth * (1 - truth) / ((double)profile->samples_kept + 1)));
        if (fabs(row->share - truth) >= allowed)
            fail_msg("%s: p.a has %.2f %%, the server says %.2f %% (allowed: %.2f points)", files[i], row->share * 100, truth * 100,
                     allowed * 100);
        assert_true(i ? row->items - row->stamped + 6 <= 12 : seen > 0.9 && seen < 1.1);
        weir_profile_free(profile);
    }
    recording_load_wait(driver);
    harness_stop(&server);
}

/* A recording that `end` ends early: it saves, says why, and its numbers hold. */
static void ends_early(const char *ended_by, int signal, const char *prefix)
{
    struct harness_server server;
    char command[512];
    harness_run(&server, PIPELINE);
    pid_t driver = recording_load(&server, LOAD "1500ms");
    usleep(200000);
    snprintf(command, sizeof command, "%s exec %s record %d --duration 60s -o %s/x.wprof 2>%s/x.err", prefix, harness_weir(),
             (int)server.pid, server.folder, server.folder);
    pid_t recorder = fork();
    assert_true(recorder >= 0);
    if (recorder == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    usleep(700000);
    uint64_t before = weir_clock_ns();
    if (signal) {
        kill(recorder, signal);
        assert_int_equal(recording_wait(recorder), 0);
        assert_true(weir_clock_ns() - before < 2000000000u);
        recording_load_wait(driver);
    } else {
        recording_load_wait(driver);
        harness_wait(&server, SIGTERM);
        assert_int_equal(recording_wait(recorder), 0);
    }
    struct weir_profile *profile = recording_open(&server, "x.wprof");
    assert_string_equal(profile->ended_by, ended_by);
    assert_int_equal(profile->violation_count, 0);
    assert_true(profile->duration_ns > 200000000u && profile->duration_ns < 5000000000u);
    assert_true(recording_row(profile, "p.a")->items > 100);
    weir_profile_free(profile);
    if (signal)
        harness_stop(&server);
    else
        harness_remove(&server);
}

static void interrupt_ends_and_saves(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    ends_early("signal", SIGINT, "");
}

static void ignored_signals_still_end_it(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    ends_early("signal", SIGINT, "trap '' INT TERM;");
    ends_early("signal", SIGTERM, "trap '' INT TERM;");
}

static void the_targets_exit_ends_it(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    ends_early("target exit", 0, "");
}

static void few_descriptors(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char command[512];
    harness_run(&server, PIPELINE);
    snprintf(command, sizeof command, "ulimit -n 48; exec %s record %d --duration 50ms --exact -o /dev/null 2>/dev/null",
             harness_weir(), (int)server.pid);
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 0);
    /* Too few: a sentence and a clean end. */
    snprintf(command, sizeof command, "ulimit -n 12; exec %s record %d --duration 50ms -o /dev/null 2>/dev/null", harness_weir(),
             (int)server.pid);
    status = system(command);
    assert_int_equal(WEXITSTATUS(status), 3);
    check_nothing_left(&server);
    harness_stop(&server);
}

static void a_full_disk(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    struct stat full;
    char command[512];
    if (stat("/dev/full", &full) != 0 || !S_ISCHR(full.st_mode))
        skip();
    harness_run(&server, PIPELINE);
    snprintf(command, sizeof command, "%s record %d --duration 50ms -o /dev/full 2>%s/err", harness_weir(), (int)server.pid,
             server.folder);
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 2);
    check_nothing_left(&server);
    harness_stop(&server);
}

/* The profile itself, and nothing else, goes to stdout. */
static void to_stdout(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char command[512];
    harness_run(&server, PIPELINE);
    snprintf(command, sizeof command, "cd %s && %s record %d --duration 50ms -o - 2>err >there.wprof && grep -q '50 ms' err && ! test -e -",
             server.folder, harness_weir(), (int)server.pid);
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), 0);
    weir_profile_free(recording_open(&server, "there.wprof"));
    harness_stop(&server);
}

static int record(const char *target, const char *more)
{
    char command[512];
    snprintf(command, sizeof command, "%s record %s --duration 50ms -o /dev/null %s 2>/dev/null", harness_weir(), target, more);
    int status = system(command);
    return WEXITSTATUS(status);
}

static void targets_that_are_none(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    char own[16];
    snprintf(own, sizeof own, "%d", (int)getpid());
    assert_int_equal(record(own, ""), 3);           /* not a server that weir built */
    assert_int_equal(record("2147483646", ""), 2);  /* no such process */
    assert_int_equal(record("no-such-name", ""), 2);
    assert_int_equal(record("/no/such/file", ""), 2);
    assert_int_equal(record(own, "--duration 5x"), 2);
    assert_int_equal(record(own, "--duration 1"), 3); /* a number alone is seconds */
    assert_int_equal(record(own, "--pipeline x.weir"), 2);
}

/* A server in a PID namespace of its own, as containers have it: its thread ids there are not those that the probes see. */
static void a_server_in_a_container(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    int pids[2];
    char said[128] = "";
    harness_build(&server, PIPELINE, NULL, NULL);
    int lines[2];
    assert_int_equal(pipe(pids), 0);
    assert_int_equal(pipe(lines), 0);
    pid_t outer = fork();
    assert_true(outer >= 0);
    if (outer == 0) {
        pid_t inner = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
        if (inner == 0) {
            dup2(lines[1], 1);
            execl(server.binary, server.binary, (char *)NULL);
        }
        _exit(write(pids[1], &inner, sizeof inner) == sizeof inner ? 0 : 1);
    }
    assert_int_equal(recording_wait(outer), 0);
    assert_int_equal(read(pids[0], &server.pid, sizeof server.pid), sizeof server.pid);
    if (server.pid < 0) {
        harness_remove(&server);
        skip();
    }
    assert_true(read(lines[0], said, sizeof said - 1) > 0);
    server.port = atoi(strrchr(said, ':') + 1);
    pid_t driver = recording_load(&server, LOAD "1500ms");
    usleep(300000);
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_EXACT, 500);
    const struct weir_profile_row *row = recording_row(profile, "p.a"), *outside = recording_row(profile, "(outside)");
    double truth = recording_truth(profile, row);
    assert_true(row->items > 100 && row->share > truth - 0.06 && row->share < truth + 0.06);
    assert_true(outside->share < 0.05);
    weir_profile_free(profile);
    recording_load_wait(driver);
    kill(server.pid, SIGKILL);
    for (int i = 0; i < 4; i++)
        close(i < 2 ? pids[i] : lines[i - 2]);
    harness_remove(&server);
}

/* Two servers of one executable: both are listed, none is guessed; a PID decides. */
static void two_matches_are_listed(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char command[512], line[1024] = "", first[16];
    harness_run(&server, PIPELINE);
    assert_int_equal(record(server.binary, ""), 0);
    pid_t other = fork();
    assert_true(other >= 0);
    if (other == 0) {
        execl(server.binary, server.binary, (char *)NULL);
        _exit(127);
    }
    usleep(300000);
    snprintf(command, sizeof command, "%s record %s --duration 50ms -o /dev/null 2>&1", harness_weir(), server.binary);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    int status = pclose(pipe);
    assert_int_equal(WEXITSTATUS(status), 2);
    snprintf(first, sizeof first, "%d", (int)server.pid);
    assert_non_null(strstr(line, first));
    snprintf(first, sizeof first, "%d", (int)other);
    assert_non_null(strstr(line, first));
    kill(other, SIGKILL);
    recording_wait(other);
    harness_stop(&server);
}

/* The file is replaced while the server runs: what runs is measured. */
static void a_replaced_executable(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    harness_run(&server, PIPELINE);
    assert_int_equal(unlink(server.binary), 0);
    pid_t driver = recording_load(&server, LOAD "1500ms");
    usleep(300000);
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_EXACT, 500);
    const struct weir_profile_row *row = recording_row(profile, "p.a");
    assert_true(row->items > 100 && row->stamped > 100);
    assert_true(row->hot_count > 0);
    for (const char *at = row->hot[0].symbol; *at; at++)
        assert_true(*at != '['); /* a name, not a module */
    weir_profile_free(profile);
    recording_load_wait(driver);
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attach_again_and_again),
        cmocka_unit_test(two_tracers_at_once),
        cmocka_unit_test(interrupt_ends_and_saves),
        cmocka_unit_test(ignored_signals_still_end_it),
        cmocka_unit_test(the_targets_exit_ends_it),
        cmocka_unit_test(few_descriptors),
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(to_stdout),
        cmocka_unit_test(targets_that_are_none),
        cmocka_unit_test(a_server_in_a_container),
        cmocka_unit_test(two_matches_are_listed),
        cmocka_unit_test(a_replaced_executable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
