/* weir run FILE [server options]: compiles a pipeline file into a cache folder, and becomes the server. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/control.h"
#include "tracer/cli/server_cache.h"
#include "tracer/cli/verb.h"

/* So that the server can have the file built anew on SIGHUP, wherever it has gone by then. */
static void leave_file(const char *file)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        setenv(WEIR_CONTROL_ENV_TOOL, path, 1);
    }
    if (realpath(file, path))
        setenv(WEIR_CONTROL_ENV_FILE, path, 1);
}

static int run(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-')
        return weir_cli_usage(&weir_verb_run, "which pipeline file?");
    struct weir_buffer path = WEIR_BUFFER_INIT;
    int exit = weir_cli_cached_server("run", argv[1], &path);
    if (exit == WEIR_EXIT_DONE) {
        struct weir_error error = WEIR_ERROR_INIT;
        leave_file(argv[1]);
        argv[1] = path.data;
        execv(path.data, argv + 1);
        weir_error_set(&error, WEIR_EXIT_USAGE, errno, "can't run the compiled server %s: %s", path.data, strerror(errno));
        exit = weir_cli_fail("run", &error);
    }
    weir_buffer_release(&path);
    return exit;
}

const struct weir_verb weir_verb_run = {
    .name = "run",
    .usage = "FILE [--listen PIPELINE=ADDR] [--drain DUR] [--counters FILE] [--self-metrics DUR]",
    .summary = "compiles a pipeline file and runs the server",
    .run = run,
    .manual = "Builds into a cache, where a file that has not changed is found again, and becomes the server. The options are those of\n"
              "a server that `weir build` wrote; its --help explains them.\n"
              "\n"
              "  --listen PIPELINE=ADDR  listen there instead of where the pipeline file says\n"
              "  --drain DUR             after SIGTERM or SIGINT, at most so long until the last reply is written (5s)\n"
              "  --self-metrics DUR      every DUR, events about itself, named as Riemann names its own\n"
              "  --counters FILE         at the end, and on SIGUSR1, write what was counted there, as JSON\n"
              "\n"
              "It prints what it listens on, one line each. SIGUSR1 writes what was counted, to stderr without --counters, and\n"
              "`weir report PID` shows it. SIGHUP starts the file anew, as `weir reload` does.\n",
};
