#include <string.h>

#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/json.h"
#include "viz/table.h"

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (argv[i][0] == '-' && argv[i][1])
            return weir_cli_usage(&weir_verb_report, "there is no option '%s'", argv[i]);
        else if (path)
            return weir_cli_usage(&weir_verb_report, "one profile at a time: '%s' is one too many", argv[i]);
        else
            path = argv[i];
    }
    if (!path)
        return weir_cli_usage(&weir_verb_report, "name the profile to report");
    struct weir_cli_profile loaded;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = weir_cli_profile_load("report", path, &loaded);
    if (exit == WEIR_EXIT_DONE) {
        int rc = json ? weir_json_profile(loaded.profile, &loaded.verdict, &out, &error)
                      : weir_table_profile(loaded.profile, &loaded.verdict, &out, &error);
        exit = rc ? weir_cli_fail("report", &error) : weir_cli_out(out.data, out.length);
    }
    weir_buffer_release(&out);
    weir_cli_profile_release(&loaded);
    return exit;
}

const struct weir_verb weir_verb_report = {
    .name = "report",
    .usage = "PROFILE [--json]",
    .summary = "shows what a profile measured, as a table or as JSON",
    .run = run,
};
