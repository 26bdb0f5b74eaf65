/* A sweep of `weir load` takes the server's profile along: what it shows, keeps, and says where there is none to be had. */
#include <arpa/inet.h>
#include <netinet/in.h>
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
#include <jansson.h>

#include "tests/system/recording.h"

#define PIPELINE                                                                                                                 \
    "pool io threads 1\npool workers threads 1\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"   \
    "    handoff workers limit 64MiB full block\n    decode riemann\n    busy 300us as slow\n    encode riemann\n    reply\n}\n"
#define PAUSING                                                                                                                  \
    "pool io threads 1\npool workers threads 2\npipeline p {\n    listen tcp 127.0.0.1:0 on io\n    frame length32 max 1MiB\n"   \
    "    handoff workers limit 64MiB full block\n    decode riemann\n    busy 1ms pause 9ms as slow\n    encode riemann\n    reply\n}\n"

/* Runs `weir load tcp 127.0.0.1:PORT OPTIONS` in the folder; returns its JSON, and what it said. */
static json_t *sweep(const char *folder, int port, const char *options, char *said, size_t size)
{
    char command[512], path[128];
    snprintf(command, sizeof command, "cd %s && %s load tcp 127.0.0.1:%d --json %s >sweep.json 2>said", folder, harness_weir(), port,
             options);
    int status = system(command);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
    snprintf(path, sizeof path, "%s/said", folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    fclose(file);
    snprintf(path, sizeof path, "%s/sweep.json", folder);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static json_t *level(json_t *root, size_t number)
{
    return json_array_get(json_object_get(root, "levels"), number);
}

static void check_level(json_t *row)
{
    const json_t *profile = json_object_get(row, "profile");
    assert_string_equal(json_string_value(json_object_get(profile, "busiest_stage")), "p.slow");
    double share = json_number_value(json_object_get(profile, "busiest_stage_share"));
    assert_true(share > 0.5 && share <= 1);
    assert_true(json_number_value(json_object_get(profile, "cpus")) > 0);
    assert_true(json_string_length(json_object_get(json_object_get(profile, "verdict"), "text")) > 0);
    assert_true(json_integer_value(json_object_get(json_object_get(row, "server"), "cores")) >= 1);
}

static void a_sweep_takes_profiles_along(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char said[1024];
    harness_run(&server, PIPELINE);
    json_t *root = sweep(server.folder, server.port, "--clients 1,2,4 --in-flight 4 --events 1 --duration 2s", said, sizeof said);
    assert_string_equal(said, "");
    for (size_t i = 0; i < 3; i++) {
        check_level(level(root, i));
        assert_true(json_is_null(json_object_get(json_object_get(level(root, i), "profile"), "file")));
    }
    json_decref(root);
    harness_stop(&server);
}

static void profiles_are_kept(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char said[1024];
    harness_run(&server, PIPELINE);
    json_t *root = sweep(server.folder, server.port, "--clients 3 --events 1 --duration 2s --profile kept", said, sizeof said);
    assert_string_equal(said, "");
    check_level(level(root, 0));
    assert_string_equal(json_string_value(json_object_get(json_object_get(level(root, 0), "profile"), "file")), "kept-3.wprof");
    json_decref(root);
    struct weir_profile *profile = recording_open(&server, "kept-3.wprof");
    assert_true(recording_row(profile, "p.slow")->items > 0);
    weir_profile_free(profile);
    root = sweep(server.folder, server.port, "--clients 1,2 --events 1 --duration 300ms --no-profile", said, sizeof said);
    assert_string_equal(said, "");
    assert_true(json_is_null(json_object_get(level(root, 1), "profile")));
    json_decref(root);
    harness_stop(&server);
}

/* Threads that wait inside of a stage are as busy as those that compute, and no CPU shows it. */
static void threads_that_are_busy_waiting_are_the_limit(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char said[1024];
    harness_run(&server, PAUSING);
    json_t *root = sweep(server.folder, server.port, "--clients 8,16,32 --mode sync --events 1 --duration 2s", said, sizeof said);
    assert_string_equal(said, "");
    const char *knee = json_string_value(json_object_get(json_object_get(root, "knee"), "text"));
    if (!strstr(knee, "threads of the server stood at their limit"))
        fail_msg("%s", knee);
    assert_null(strstr(knee, "falling"));
    json_decref(root);
    harness_stop(&server);
}

/* Where a profile can't be saved, the report is there all the same: its folder goes while it is taken. */
static void unsaved_profiles_lose_nothing(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char command[512];
    harness_run(&server, PIPELINE);
    snprintf(command, sizeof command, "cd %s && mkdir none && { (sleep 1; rmdir none) & %s load tcp 127.0.0.1:%d --duration 3s --profile none/x >report 2>said; }", server.folder,
             harness_weir(), server.port);
    int status = system(command);
    assert_int_equal(WEXITSTATUS(status), WEIR_EXIT_USAGE);
    snprintf(command, sizeof command, "cd %s && grep -q 'events/s' report && grep -q 'none/x-1.wprof' said && [ $(wc -l <said) = 1 ]",
             server.folder);
    assert_int_equal(system(command), 0);
    harness_stop(&server);
}

/* Who listens is no server of weir's: one line for all levels, which end as they would without it. */
static void a_stranger_has_no_profile(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-load-XXXXXX", said[1024], command[64];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    json_t *root = sweep(folder, ntohs(address.sin_port), "--clients 1,2 --duration 300ms --wait 100ms", said, sizeof said);
    assert_non_null(strstr(said, "weir load: goes on without the server's profile: "));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(level(root, 1), "server"), "pid")), getpid());
    assert_true(json_is_null(json_object_get(level(root, 1), "profile")));
    json_decref(root);
    close(fd);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_takes_profiles_along),
        cmocka_unit_test(profiles_are_kept),
        cmocka_unit_test(threads_that_are_busy_waiting_are_the_limit),
        cmocka_unit_test(unsaved_profiles_lose_nothing),
        cmocka_unit_test(a_stranger_has_no_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
