/* weir build FILE -o BIN [--emit-c]: compiles a pipeline file into a server. */
#include <stdio.h>
#include <string.h>

#include "pipeline_dsl/compile/compile.h"
#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/verb.h"

static int emit(const char *path, struct weir_arena *arena, struct weir_topology *topology, struct weir_buffer *source)
{
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = weir_cli_load_pipeline("build", path, arena, topology);
    if (exit == WEIR_EXIT_DONE && weir_compile_emit(topology, source, &error) != 0)
        exit = weir_cli_fail("build", &error);
    return exit;
}

static int link_server(const struct weir_topology *topology, const struct weir_buffer *source, const char *output)
{
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_compile_kit kit;
    struct weir_buffer log = WEIR_BUFFER_INIT;
    int rc = weir_compile_kit_find(&kit, &error);
    if (rc == 0)
        rc = weir_compile_link(&kit, topology, source, output, &log, &error);
    fputs(weir_buffer_text(&log), stderr);
    weir_compile_kit_release(&kit);
    weir_buffer_release(&log);
    return rc == 0 ? WEIR_EXIT_DONE : weir_cli_fail("build", &error);
}

static int run(int argc, char **argv)
{
    const char *file = NULL, *output = NULL;
    bool emits = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--emit-c") == 0)
            emits = true;
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            output = argv[++i];
        else if (argv[i][0] == '-' || file)
            return weir_cli_usage(&weir_verb_build, "'%s' is not understood here", argv[i]);
        else
            file = argv[i];
    }
    if (!file)
        return weir_cli_usage(&weir_verb_build, "which pipeline file?");
    if (!output && !emits)
        return weir_cli_usage(&weir_verb_build, "where to? -o BIN names the server, --emit-c prints the C file");

    struct weir_arena arena;
    struct weir_topology topology;
    struct weir_buffer source = WEIR_BUFFER_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    int exit = emit(file, &arena, &topology, &source);
    if (exit == WEIR_EXIT_DONE && emits)
        exit = weir_cli_out(source.data, source.length);
    if (exit == WEIR_EXIT_DONE && output)
        exit = link_server(&topology, &source, output);
    weir_buffer_release(&source);
    weir_arena_release(&arena);
    return exit;
}

const struct weir_verb weir_verb_build = {
    .name = "build",
    .usage = "FILE [-o BIN] [--emit-c]",
    .summary = "compiles a pipeline file into a native server; --emit-c prints the C file",
    .run = run,
};
