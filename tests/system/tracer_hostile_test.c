/* A target that lies: the tracer says so in one sentence, or records what it can; it never crashes or hangs. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/system/recording.h"

static char folder[] = "/tmp/weir-hostile-XXXXXX";

static int build(void **state)
{
    (void)state;
    char command[1024], libraries[512];
    if (!mkdtemp(folder))
        return -1;
    snprintf(libraries, sizeof libraries, "%s", harness_weir());
    char *bin = strstr(libraries, "/bin/weir");
    if (!bin)
        return -1;
    *bin = 0;
    const char *sanitizer = strstr(libraries, "san-") ? "-fsanitize=address,undefined" : "";
    snprintf(command, sizeof command,
             "gcc -std=gnu11 -O1 -g -D_GNU_SOURCE -I. %s tests/system/hostile/server.c -rdynamic %s/lib/weir/libweir-base.a "
             "-lprotobuf-c -lm -o %s/server",
             sanitizer, libraries, folder);
    return system(command);
}

static int clean(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

/* Records the liar. Returns the exit code; `text` is what the tracer said, `heard` (if not null) what the liar did. */
static int record_and_hear(const char *lie, const char *options, char *text, size_t size, char *heard, size_t heard_size)
{
    char command[512], server[64], path[64], ready[8] = "";
    int pipe_fds[2];
    snprintf(server, sizeof server, "%s/server", folder);
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t liar = fork();
    assert_true(liar >= 0);
    if (liar == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(pipe_fds[1], 1);
        execl(server, server, lie, (char *)NULL);
        _exit(127);
    }
    close(pipe_fds[1]);
    assert_true(read(pipe_fds[0], ready, sizeof ready - 1) > 0);
    snprintf(command, sizeof command, "timeout 20 %s record %d %s -o %s/x.wprof >%s/said 2>&1", harness_weir(), (int)liar,
             options, folder, folder);
    int status = system(command);
    ssize_t length = heard ? read(pipe_fds[0], heard, heard_size - 1) : 0;
    if (heard)
        heard[length > 0 ? length : 0] = 0;
    close(pipe_fds[0]);
    kill(liar, SIGKILL);
    recording_wait(liar);
    snprintf(path, sizeof path, "%s/said", folder);
    FILE *said = fopen(path, "r");
    assert_non_null(said);
    text[fread(text, 1, size - 1, said)] = 0;
    fclose(said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int record(const char *lie, const char *options, char *text, size_t size)
{
    return record_and_hear(lie, options, text, size, NULL, 0);
}

static void contracts_that_lie(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const lies[] = { "magic", "major", "topology", "unmapped", "tags", "odd" };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char text[4096];
        int exit = record(lies[i], "--duration 50ms", text, sizeof text);
        if (exit != 3)
            fail_msg("%s: exit %d: %s", lies[i], exit, text);
        assert_null(strstr(text, "ERROR: AddressSanitizer"));
    }
}

static void a_storm_of_lies(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    static const char *const options[] = { "--duration 1s", "--duration 1s --exact" };
    for (size_t i = 0; i < 2; i++) {
        char text[65536], path[64];
        struct weir_error error = WEIR_ERROR_INIT;
        int exit = record("storm", options[i], text, sizeof text);
        if (exit != 0 && exit != 3)
            fail_msg("exit %d: %s", exit, text);
        if (exit == 3)
            continue;
        struct weir_profile *profile = weir_profile_new();
        snprintf(path, sizeof path, "%s/x.wprof", folder);
        assert_int_equal(weir_profile_load(profile, path, &error), 0);
        assert_true(weir_profile_lossy(profile)); /* nobody may take it for the truth */
        for (uint32_t k = 0; k < profile->row_count; k++)
            assert_true(profile->rows[k].share >= 0 && profile->rows[k].share <= 1);
        weir_profile_free(profile);
    }
}

/* A 5-byte nop would be turned into a call that overwrites what a leaf function keeps below its stack pointer. Ours is one byte. */
static void a_leaf_keeps_its_data(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    char text[4096], heard[32] = "";
    int exit = record_and_hear("leaf", "--duration 1s", text, sizeof text, heard, sizeof heard);
    if (exit != 0)
        fail_msg("exit %d: %s", exit, text);
    assert_string_equal(heard, "unchanged\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contracts_that_lie),
        cmocka_unit_test(a_storm_of_lies),
        cmocka_unit_test(a_leaf_keeps_its_data),
    };
    return cmocka_run_group_tests(tests, build, clean);
}
