/* weir record: measures a running server and saves the profile. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "probes/contract.h"
#include "tracer/cli/duration.h"
#include "tracer/cli/verb.h"
#include "tracer/session.h"
#include "viz/figure.h"

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/* Handlers are set outright: a shell's background job has these signals ignored, and still means them. */
static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    sigset_t open;
    sigemptyset(&open);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sigaction(numbers[i], &action, NULL);
        sigaddset(&open, numbers[i]);
    }
    sigprocmask(SIG_UNBLOCK, &open, NULL);
}

/* Names come from the target: control bytes must not reach a terminal. */
static void put_name(const char *name)
{
    for (; *name; name++)
        fputc((unsigned char)*name < 0x20 || *name == 0x7f ? '?' : *name, stderr);
}

static void on_progress(void *context, const struct weir_session_progress *progress)
{
    const struct weir_session_options *options = context;
    if (progress->elapsed_ns == 0) {
        fprintf(stderr, "weir record: attached to ");
        put_name(progress->name);
        fprintf(stderr, " (PID %d), %s mode, for %s\n", progress->pid, options->mode == WEIR_MODE_EXACT ? "exact" : "light",
                weir_figure_ns((double)options->duration_ns).text);
        if (progress->replaced)
            fprintf(stderr,
                    "weir record: the file of that executable has been replaced since it started; measuring the one that runs\n");
        return;
    }
    fprintf(stderr, "weir record: %5.1f s  %.0f items/s  %.0f events/s  %.0f %% of one CPU\n", (double)progress->elapsed_ns / 1e9,
            progress->items_per_s, progress->events_per_s, progress->cpu_share * 100);
}

/* NAME.wprof in the current folder; the name is the target's, so it must not lead elsewhere. */
static void default_path(const struct weir_profile *profile, struct weir_buffer *path)
{
    const char *slash = strrchr(profile->exe, '/');
    const char *name = profile->topology.name;
    if (!name || !*name)
        name = slash ? slash + 1 : profile->exe;
    for (; *name; name++)
        weir_buffer_putc(path, isalnum((unsigned char)*name) || strchr("-_+.", *name) ? *name : '_');
    weir_buffer_puts(path, ".wprof");
}

static bool is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

/* Can a file be made in the folder that `path` names? */
static int check_folder(const char *path, struct weir_error *error)
{
    struct weir_buffer folder = WEIR_BUFFER_INIT, inside = WEIR_BUFFER_INIT;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        weir_buffer_add(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    else
        weir_buffer_puts(&folder, ".");
    weir_buffer_printf(&inside, "%s/.", weir_buffer_text(&folder)); /* fails where it is a file */
    int rc = access(weir_buffer_text(&inside), W_OK) == 0
                 ? 0
                 : weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't write to the folder %s: %s", weir_buffer_text(&folder),
                                  strerror(errno));
    weir_buffer_release(&folder);
    weir_buffer_release(&inside);
    return rc;
}

/* Better now than after the recording. `path` may be null: a file in the current folder. */
static int check_out(const char *path, struct weir_error *error)
{
    struct stat there;
    if (path && is_stdout(path))
        return isatty(STDOUT_FILENO) ? weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "a profile is not for a terminal: send -o - to a "
                                                                                        "file or a pipe")
                                     : 0;
    if (path && !*path)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "-o has an empty name; give the profile one, such as x.wprof");
    if (!path || stat(path, &there) != 0 || S_ISREG(there.st_mode))
        return check_folder(path, error);
    if (S_ISDIR(there.st_mode))
        return weir_error_set(error, WEIR_EXIT_USAGE, EISDIR, "%s is a folder; name the file in it, such as %s%sx.wprof", path, path,
                              path[strlen(path) - 1] == '/' ? "" : "/");
    return access(path, W_OK) == 0 ? 0 : weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't write to %s: %s", path, strerror(errno));
}

static void put_summary(const struct weir_profile *profile, const char *path)
{
    uint64_t items = 0;
    for (uint32_t i = 0; i < profile->topology.way_count; i++)
        items += profile->ways[i].end.accepted - profile->ways[i].begin.accepted;
    fprintf(stderr, "weir record: saved %s: %.2f s (ended by %s), %llu items, %llu samples, %llu item records", path,
            (double)profile->duration_ns / 1e9, profile->ended_by, (unsigned long long)items,
            (unsigned long long)profile->samples_kept, (unsigned long long)profile->records_kept);
    if (profile->samples_lost || profile->records_lost || profile->threads_lost)
        fprintf(stderr, "; lost: %llu samples, %llu records, %llu threads", (unsigned long long)profile->samples_lost,
                (unsigned long long)profile->records_lost, (unsigned long long)profile->threads_lost);
    fputc('\n', stderr);
    if (profile->threads_lost)
        fprintf(stderr, "weir record: %llu threads of the server found no slot, for there are %u: their CPU time is in (outside), and "
                "what they did is not seen; give its pools fewer threads\n", (unsigned long long)profile->threads_lost, WEIR_THREAD_SLOTS);
    for (uint32_t i = 0; i < profile->violation_count; i++) {
        fprintf(stderr, "weir record: violated: ");
        put_name(profile->violations[i]);
        fputc('\n', stderr);
    }
}

static int save(const struct weir_profile *profile, const char *path)
{
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    int exit = WEIR_EXIT_DONE;
    if (is_stdout(path))
        exit = weir_profile_write(profile, &bytes, &error) ? weir_cli_fail("record", &error) : weir_cli_out(bytes.data, bytes.length);
    else if (weir_profile_save(profile, path, &error) != 0)
        exit = weir_cli_fail("record", &error);
    if (exit == WEIR_EXIT_DONE)
        put_summary(profile, is_stdout(path) ? "to stdout" : path);
    weir_buffer_release(&bytes);
    return exit;
}

static int run(int argc, char **argv)
{
    const char *out = NULL, *pipeline = NULL, *duration = "10s";
    struct weir_session_options options = { .stop = &stop, .progress = on_progress };
    options.context = &options;
    for (int i = 1; i < argc; i++) {
        const char **value = NULL;
        if (strcmp(argv[i], "-o") == 0)
            value = &out;
        else if (strcmp(argv[i], "--duration") == 0)
            value = &duration;
        else if (strcmp(argv[i], "--pipeline") == 0)
            value = &pipeline;
        if (value) {
            if (++i == argc)
                return weir_cli_usage(&weir_verb_record, "%s needs a value", argv[i - 1]);
            *value = argv[i];
        } else if (strcmp(argv[i], "--exact") == 0) {
            options.mode = WEIR_MODE_EXACT;
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return weir_cli_usage(&weir_verb_record, "there is no option %s", argv[i]);
        } else if (options.target) {
            return weir_cli_usage(&weir_verb_record, "one TARGET, not both '%s' and '%s'", options.target, argv[i]);
        } else {
            options.target = argv[i];
        }
    }
    if (!options.target)
        return weir_cli_usage(&weir_verb_record, "no TARGET given: a PID, a process name or the path of an executable");
    if (!weir_cli_duration(duration, &options.duration_ns))
        return weir_cli_usage(&weir_verb_record, "'%s' is not a duration; write 10s, 500ms or 2min", duration);
    if (pipeline)
        return weir_cli_usage(&weir_verb_record, "--pipeline is for servers that weir did not build, which can't be recorded "
                                                 "yet; a built server carries its own description");

    catch_signals();
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_profile *profile = NULL;
    struct weir_buffer path = WEIR_BUFFER_INIT;
    int rc = check_out(out, &error);
    if (!rc)
        rc = weir_session_record(&options, &profile, &error);
    if (rc)
        return weir_cli_fail("record", &error);
    if (strcmp(profile->ended_by, "target exit") == 0)
        fprintf(stderr, "weir record: the target has exited; saving what was measured until then\n");
    if (out)
        weir_buffer_puts(&path, out);
    else
        default_path(profile, &path);
    int exit = save(profile, weir_buffer_text(&path));
    weir_profile_free(profile);
    weir_buffer_release(&path);
    return exit;
}

const struct weir_verb weir_verb_record = {
    .name = "record",
    .usage = "TARGET [--duration 10s] [--exact] [--pipeline FILE] [-o x.wprof|-]",
    .summary = "attach to a running server, measure, detach, save",
    .run = run,
};
