#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/escape.h"
#include "viz/json.h"

static void print_line(struct weir_buffer *out, const char *before, const char *text)
{
    weir_buffer_puts(out, before);
    weir_escape_plain(out, text, WEIR_ESCAPE_ANY);
    weir_buffer_putc(out, '\n');
}

static void print_evidence(struct weir_buffer *out, const char *const *evidence, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        print_line(out, "  - ", evidence[i]);
}

static void print_cause(struct weir_buffer *out, const char *before, const struct weir_verdict_cause *cause)
{
    print_line(out, before, cause->text);
    print_evidence(out, cause->evidence, cause->evidence_count);
    if (cause->change) {
        print_line(out, "  change, ", cause->where);
        print_line(out, "      ", cause->change);
    }
}

static int as_text(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error)
{
    const struct weir_verdict *verdict = &loaded->verdict;
    (void)error;
    for (uint32_t i = 0; i < verdict->cause_count; i++)
        print_cause(out, i ? "then: " : "", &verdict->causes[i]);
    if (!verdict->cause_count) {
        print_line(out, "", verdict->text);
        print_evidence(out, verdict->evidence, verdict->evidence_count);
    }
    return 0;
}

static int as_json(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error)
{
    return weir_json_verdict(&loaded->verdict, out, error);
}

static int run(int argc, char **argv)
{
    return weir_cli_profile_show(&weir_verb_explain, argc, argv, false, as_text, as_json);
}

const struct weir_verb weir_verb_explain = {
    .name = "explain",
    .usage = "PROFILE [--json]",
    .summary = "says what holds the server back, with the evidence",
    .run = run,
};
