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
    .manual =
        "The first cause explains most of the time of whoever holds the server back; others follow with `then:`. Below each stands its\n"
        "evidence, and the line of the file that would mend it.\n\n"
        "  round_trip  clients wait for each answer before they ask again\n"
        "  size        messages are walked to guess their size\n"
        "  starved     workers wait for slots of a `forward` or `store`: too few, or of connections that serve one by one\n"
        "  stage       one stage takes the time of its pool; full queues before it are evidence, and a longer one changes nothing\n"
        "  pool        a pool is used up by no single stage, or one loop of it is\n"
        "  lock        threads wait for a lock, with the function that takes it\n"
        "  cpu         the CPUs are used up, with those who use them\n"
        "  downstream  clients leave their answers unread, a pool behind a full queue idles, or who a `forward` or `store` asks is slow\n"
        "  idle        no cause: it is not the server\n"
        "  unclear     what was measured does not tell, with what is missing\n",
    .run = run,
};
