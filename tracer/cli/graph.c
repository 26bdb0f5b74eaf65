#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/dot.h"
#include "viz/render.h"

struct options {
    const char *path, *out, *format;
};

static bool ends_in(const char *text, const char *suffix)
{
    size_t size = strlen(text), tail = strlen(suffix);
    return size >= tail && strcmp(text + size - tail, suffix) == 0;
}

/* In upper case, too. Null when it is no format that can be drawn. */
static const char *format_named(const char *name)
{
    static const char *const formats[] = { "dot", "svg", "png" };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(name, formats[i]) == 0)
            return formats[i];
    return NULL;
}

static int read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        bool value = strcmp(argv[i], "-o") == 0 || strcmp(argv[i], "--format") == 0;
        if (value && i + 1 == argc)
            return weir_cli_usage(&weir_verb_graph, "%s needs a value", argv[i]);
        if (strcmp(argv[i], "-o") == 0)
            options->out = argv[++i];
        else if (strcmp(argv[i], "--format") == 0)
            options->format = argv[++i];
        else if (argv[i][0] == '-' && argv[i][1])
            return weir_cli_usage(&weir_verb_graph, "there is no option '%s'", argv[i]);
        else if (options->path)
            return weir_cli_usage(&weir_verb_graph, "one file at a time: '%s' is one too many", argv[i]);
        else
            options->path = argv[i];
    }
    if (!options->path)
        return weir_cli_usage(&weir_verb_graph, "name the profile or the .weir file to draw");
    if (!options->out)
        return weir_cli_usage(&weir_verb_graph, "say where to draw it with -o, such as -o graph.svg");
    const char *dot = strrchr(options->out, '.'), *slash = strrchr(options->out, '/');
    bool stdout_wanted = strcmp(options->out, "-") == 0, suffix = dot && (!slash || dot > slash);
    const char *wanted = options->format ? options->format : stdout_wanted ? "dot" : suffix ? dot + 1 : "";
    options->format = format_named(wanted);
    if (options->format)
        return WEIR_EXIT_DONE;
    return weir_cli_usage(&weir_verb_graph, "can't draw '%s': choose .dot, .svg or .png", *wanted ? wanted : options->out);
}

/* The DOT text. Returns an exit code; what went wrong is printed. */
static int draw(const char *path, struct weir_buffer *dot)
{
    struct weir_error error = WEIR_ERROR_INIT;
    if (ends_in(path, ".weir")) {
        struct weir_arena arena;
        struct weir_topology topology;
        weir_arena_init(&arena, 0, SIZE_MAX);
        int exit = weir_cli_load_pipeline("graph", path, &arena, &topology);
        if (exit == WEIR_EXIT_DONE && weir_dot_topology(&topology, dot, &error) != 0)
            exit = weir_cli_fail("graph", &error);
        weir_arena_release(&arena);
        return exit;
    }
    struct weir_cli_profile loaded;
    int exit = weir_cli_profile_load("graph", path, false, &loaded);
    if (exit == WEIR_EXIT_DONE && weir_dot_profile(loaded.profile, &loaded.verdict, dot, &error) != 0)
        exit = weir_cli_fail("graph", &error);
    weir_cli_profile_release(&loaded);
    return exit;
}

static int write_out(const struct options *options, const struct weir_buffer *data)
{
    struct weir_error error = WEIR_ERROR_INIT;
    if (strcmp(options->out, "-") == 0)
        return weir_cli_out(data->data, data->length);
    return weir_file_write(options->out, data->data, data->length, "the graph", &error) ? weir_cli_fail("graph", &error) : WEIR_EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct options options = { 0 };
    struct weir_buffer dot = WEIR_BUFFER_INIT, picture = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = read_options(argc, argv, &options);
    if (exit != WEIR_EXIT_DONE)
        return exit;
    exit = draw(options.path, &dot);
    if (exit == WEIR_EXIT_DONE && strcmp(options.format, "dot") == 0)
        exit = write_out(&options, &dot);
    else if (exit == WEIR_EXIT_DONE && weir_render_dot(dot.data, options.format, &picture, &error) != 0)
        exit = weir_cli_fail("graph", &error);
    else if (exit == WEIR_EXIT_DONE)
        exit = write_out(&options, &picture);
    weir_buffer_release(&dot);
    weir_buffer_release(&picture);
    return exit;
}

const struct weir_verb weir_verb_graph = {
    .name = "graph",
    .usage = "PROFILE|FILE.weir -o OUT.dot|OUT.svg|OUT.png|- [--format dot|svg|png]",
    .summary = "draws a profile, or the structure of a pipeline file",
    .run = run,
};
