#include <stdbool.h>
#include <string.h>

#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "tracer/predict.h"
#include "viz/prediction.h"

struct options {
    const char *profile, *file;
    bool json;
};

static int read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            options->json = true;
        else if (argv[i][0] == '-' && argv[i][1])
            return weir_cli_usage(&weir_verb_predict, "there is no option '%s'", argv[i]);
        else if (!options->profile)
            options->profile = argv[i];
        else if (!options->file)
            options->file = argv[i];
        else
            return weir_cli_usage(&weir_verb_predict, "one profile and one file: '%s' is one too many", argv[i]);
    }
    return options->file ? WEIR_EXIT_DONE : weir_cli_usage(&weir_verb_predict, "name a profile, and the changed file");
}

static int predict(const struct options *options, struct weir_cli_profile *loaded)
{
    struct weir_topology topology;
    struct weir_prediction prediction;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = weir_cli_load_pipeline("predict", options->file, &loaded->arena, &topology);
    if (exit != WEIR_EXIT_DONE)
        return exit;
    int rc = weir_predict(loaded->profile, &topology, &loaded->arena, &prediction, &error);
    if (!rc)
        rc = (options->json ? weir_prediction_json : weir_prediction_table)(&prediction, &out, &error);
    exit = rc ? weir_cli_fail("predict", &error) : weir_cli_out(out.data, out.length);
    weir_buffer_release(&out);
    return exit;
}

static int run(int argc, char **argv)
{
    struct options options = { 0 };
    struct weir_cli_profile loaded;
    int exit = read_options(argc, argv, &options);
    if (exit != WEIR_EXIT_DONE)
        return exit;
    exit = weir_cli_profile_load("predict", options.profile, false, &loaded);
    if (exit == WEIR_EXIT_DONE)
        exit = predict(&options, &loaded);
    weir_cli_profile_release(&loaded);
    return exit;
}

const struct weir_verb weir_verb_predict = {
    .name = "predict",
    .usage = "PROFILE FILE [--json]",
    .summary = "says what a changed file would do, by what its stages cost in a profile",
    .manual =
        "Simulates FILE, with the costs that PROFILE has of its stages, the clients that it had, and the CPUs that others left.\n"
        "What may differ from the measured file: where the handoffs stand, threads, limits, what happens when a queue is full,\n"
        "connections and in_flight. A stage is known by its full name; one that was not measured must be a `busy` of known cost.\n"
        "A lock that threads of a stage wait for is passed on no faster than it was.\n\n"
        "FROM and TO are the interval that measurement and chance leave, wider by what the simulation of the measured file is off;\n"
        "FROM also has room for others on the machine (clients, a database) whose use of the CPUs grows with the messages.\n\n"
        "EXAMPLE\n"
        "  weir record server -o x.wprof && weir explain x.wprof     # says which line to change\n"
        "  weir predict x.wprof changed.weir                         # and what that would give\n",
    .run = run,
};
