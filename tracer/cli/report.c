#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/json.h"
#include "viz/table.h"

static int as_text(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error)
{
    return weir_table_profile(loaded->profile, &loaded->verdict, out, error);
}

static int as_json(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error)
{
    return weir_json_profile(loaded->profile, &loaded->verdict, out, error);
}

static int run(int argc, char **argv)
{
    return weir_cli_profile_show(&weir_verb_report, argc, argv, true, as_text, as_json);
}

const struct weir_verb weir_verb_report = {
    .name = "report",
    .usage = "PROFILE|TARGET [--json]",
    .summary = "shows what a profile measured, as a table or as JSON",
    .run = run,
};
