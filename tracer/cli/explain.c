#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/escape.h"
#include "viz/json.h"

static int as_text(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error)
{
    const struct weir_verdict *verdict = &loaded->verdict;
    (void)error;
    weir_escape_plain(out, verdict->text, WEIR_ESCAPE_ANY);
    weir_buffer_putc(out, '\n');
    for (uint32_t i = 0; i < verdict->evidence_count; i++) {
        weir_buffer_puts(out, "  - ");
        weir_escape_plain(out, verdict->evidence[i], WEIR_ESCAPE_ANY);
        weir_buffer_putc(out, '\n');
    }
    return 0;
}

static int as_json(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error)
{
    return weir_json_verdict(&loaded->verdict, out, error);
}

static int run(int argc, char **argv)
{
    return weir_cli_profile_show(&weir_verb_explain, argc, argv, as_text, as_json);
}

const struct weir_verb weir_verb_explain = {
    .name = "explain",
    .usage = "PROFILE [--json]",
    .summary = "says what holds the server back, with the evidence",
    .run = run,
};
