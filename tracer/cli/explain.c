#include <string.h>

#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/escape.h"
#include "viz/json.h"

static void write_text(const struct weir_verdict *verdict, struct weir_buffer *out)
{
    weir_escape_plain(out, verdict->text, WEIR_ESCAPE_ANY);
    weir_buffer_putc(out, '\n');
    for (uint32_t i = 0; i < verdict->evidence_count; i++) {
        weir_buffer_puts(out, "  - ");
        weir_escape_plain(out, verdict->evidence[i], WEIR_ESCAPE_ANY);
        weir_buffer_putc(out, '\n');
    }
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (argv[i][0] == '-' && argv[i][1])
            return weir_cli_usage(&weir_verb_explain, "there is no option '%s'", argv[i]);
        else if (path)
            return weir_cli_usage(&weir_verb_explain, "one profile at a time: '%s' is one too many", argv[i]);
        else
            path = argv[i];
    }
    if (!path)
        return weir_cli_usage(&weir_verb_explain, "name the profile to explain");
    struct weir_cli_profile loaded;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = weir_cli_profile_load("explain", path, &loaded);
    if (exit == WEIR_EXIT_DONE) {
        int rc = 0;
        if (json)
            rc = weir_json_verdict(&loaded.verdict, &out, &error);
        else
            write_text(&loaded.verdict, &out);
        exit = rc ? weir_cli_fail("explain", &error) : weir_cli_out(out.data, out.length);
    }
    weir_buffer_release(&out);
    weir_cli_profile_release(&loaded);
    return exit;
}

const struct weir_verb weir_verb_explain = {
    .name = "explain",
    .usage = "PROFILE [--json]",
    .summary = "says what holds the server back, with the evidence",
    .run = run,
};
