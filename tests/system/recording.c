#include "tests/system/recording.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracer/capabilities.h"
#include "tracer/session.h"

bool recording_can(void)
{
    struct weir_capability features[WEIR_CAPABILITY_COUNT];
    if (weir_capabilities_probe(features) == 0)
        return true;
    for (size_t i = 0; i < WEIR_CAPABILITY_COUNT; i++)
        if (!features[i].ok)
            fprintf(stderr, "no %s here: %s\n", features[i].name, features[i].missing);
    const char *require = getenv("WEIR_REQUIRE");
    if (require && strcmp(require, "bpf") == 0)
        fail_msg("WEIR_REQUIRE=bpf, and BPF is not there");
    return false;
}

static pid_t spawn(const char *command)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return pid;
}

int recording_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t recording_load(const struct harness_server *server, const char *options)
{
    char command[512];
    snprintf(command, sizeof command, "exec %s load tcp 127.0.0.1:%d %s --json >%s/load.json", harness_weir(), server->port,
             options, server->folder);
    return spawn(command);
}

void recording_load_wait(pid_t load)
{
    assert_int_equal(recording_wait(load), 0);
}

void recording_load_runs(struct harness_server *server, const char *way)
{
    for (int i = 0; i < 200; i++) {
        usleep(50000);
        harness_counters_refresh(server);
        if (harness_counter(server, "ways_in", way, "answered") > 0) {
            usleep(500000);
            return;
        }
    }
    fail_msg("the load got no answer");
}

struct weir_profile *recording_take(const struct harness_server *server, enum weir_mode mode, unsigned duration_ms)
{
    return recording_take_with(server, &(struct weir_session_options){ .mode = mode }, duration_ms);
}

struct weir_profile *recording_take_with(const struct harness_server *server, const struct weir_session_options *more,
                                         unsigned duration_ms)
{
    static const volatile sig_atomic_t never = 0;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_profile *profile = NULL;
    char target[16];
    snprintf(target, sizeof target, "%d", (int)server->pid);
    struct weir_session_options options = *more;
    options.target = target;
    options.duration_ns = duration_ms * 1000000ull;
    options.stop = &never;
    if (weir_session_record(&options, &profile, &error) != 0)
        fail_msg("recording failed: %s", error.text);
    for (uint32_t i = 0; i < profile->violation_count; i++)
        fprintf(stderr, "violated: %s\n", profile->violations[i]);
    assert_false(weir_profile_lossy(profile));
    return profile;
}

pid_t recording_start(const struct harness_server *server, const char *name, const char *options)
{
    char command[512];
    snprintf(command, sizeof command, "exec %s record %d %s -o %s/%s 2>%s/%s.err", harness_weir(), (int)server->pid, options,
             server->folder, name, server->folder, name);
    return spawn(command);
}

struct weir_profile *recording_open(const struct harness_server *server, const char *name)
{
    char path[160];
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_profile *profile = weir_profile_new();
    assert_non_null(profile);
    snprintf(path, sizeof path, "%s/%s", server->folder, name);
    if (weir_profile_load(profile, path, &error) != 0)
        fail_msg("can't load the profile: %s", error.text);
    return profile;
}

bool recording_crowded(const struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.pool_count; i++)
        if (profile->pools[i].state_ns[WEIR_STATE_RUNNABLE] > 0.05 * (double)profile->duration_ns * profile->pools[i].threads)
            return true;
    return false;
}

const struct weir_profile_row *recording_row(const struct weir_profile *profile, const char *name)
{
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (strcmp(profile->rows[i].name, name) == 0)
            return &profile->rows[i];
    fail_msg("the profile has no row %s", name);
    return NULL;
}

double recording_truth(const struct weir_profile *profile, const struct weir_profile_row *row)
{
    return profile->cpu_ns ? (double)row->own_cpu_ns / (double)profile->cpu_ns : 0;
}
