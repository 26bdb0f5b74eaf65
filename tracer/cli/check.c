#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/lang/lang.h"
#include "tracer/check.h"
#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/profile_file.h"
#include "tracer/cli/verb.h"
#include "viz/escape.h"
#include "viz/figure.h"
#include "viz/value.h"
#include "viz/view.h"

struct options {
    const char *path;
    const char **expect; /* texts of --expect */
    uint32_t expect_count;
    bool json;
};

/* Everything that is checked: the profile's own expectations, then those of --expect. */
struct work {
    struct weir_topology_expectation *expectations;
    struct weir_check *checks;
    uint32_t count;
};

static int read_options(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            options->json = true;
        } else if (strcmp(argv[i], "--baseline") == 0) {
            return weir_cli_usage(&weir_verb_check, "comparing with a baseline is not part of this version; name limits with --expect");
        } else if (strcmp(argv[i], "--expect") == 0) {
            if (i + 1 == argc)
                return weir_cli_usage(&weir_verb_check, "--expect needs an expectation, such as 'cpu(riemann.handoff) < 5%%'");
            options->expect[options->expect_count++] = argv[++i];
        } else if (argv[i][0] == '-' && argv[i][1]) {
            return weir_cli_usage(&weir_verb_check, "there is no option '%s'", argv[i]);
        } else if (options->path) {
            return weir_cli_usage(&weir_verb_check, "one profile at a time: '%s' is one too many", argv[i]);
        } else {
            options->path = argv[i];
        }
    }
    return options->path ? WEIR_EXIT_DONE : weir_cli_usage(&weir_verb_check, "name the profile to check");
}

/* One --expect, looked up in the profile's topology. Returns an exit code. */
static int parse(const char *text, struct weir_cli_profile *loaded, struct weir_topology_expectation *expectation)
{
    struct weir_diag_bag bag;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_diag_bag_init(&bag);
    int rc = weir_lang_expectation(text, &loaded->profile->topology, &loaded->arena, expectation, &bag, &error);
    if (rc == -EBADMSG)
        weir_cli_print_diags(&bag);
    weir_diag_bag_release(&bag);
    if (rc == -EBADMSG)
        return WEIR_EXIT_USAGE;
    return rc ? weir_cli_fail("check", &error) : WEIR_EXIT_DONE;
}

static int work_out(const struct options *options, struct weir_cli_profile *loaded, struct work *work)
{
    const struct weir_topology *topology = &loaded->profile->topology;
    struct weir_error error = WEIR_ERROR_INIT;
    size_t most = (size_t)topology->expectation_count + options->expect_count;
    if (most == 0)
        return weir_cli_usage(&weir_verb_check, "the profile carries no expectation; name one with --expect");
    work->expectations = weir_arena_zalloc(&loaded->arena, most * sizeof *work->expectations);
    work->checks = weir_arena_zalloc(&loaded->arena, most * sizeof *work->checks);
    if (!work->expectations || !work->checks) {
        weir_error_set(&error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to check %s", options->path);
        return weir_cli_fail("check", &error);
    }
    for (uint32_t i = 0; i < topology->expectation_count; i++)
        work->expectations[work->count++] = topology->expectations[i];
    for (uint32_t i = 0; i < options->expect_count; i++) {
        int exit = parse(options->expect[i], loaded, &work->expectations[work->count]);
        if (exit != WEIR_EXIT_DONE)
            return exit;
        work->count++;
    }
    for (uint32_t i = 0; i < work->count; i++)
        if (weir_check_evaluate(loaded->profile, &work->expectations[i], &loaded->arena, &work->checks[i], &error) != 0)
            return weir_cli_fail("check", &error);
    return WEIR_EXIT_DONE;
}

/* --- text ------------------------------------------------------------------------------------------------------------------- */

static struct weir_figure figure(double value, enum weir_value_unit unit)
{
    switch (unit) {
    case WEIR_SHARE: return weir_figure_percent(value);
    case WEIR_NS: return weir_figure_ns(value);
    case WEIR_BYTES: return weir_figure_bytes(value);
    case WEIR_PER_S: return weir_figure_rate(value);
    default: return weir_figure_number(value);
    }
}

static void write_measure(const struct weir_check_measure *measure, enum weir_value_unit unit, struct weir_buffer *out)
{
    if (!measure->measured) {
        weir_buffer_puts(out, measure->missing);
        return;
    }
    weir_buffer_puts(out, figure(measure->value, unit).text);
    if (measure->low == measure->high)
        return;
    weir_buffer_printf(out, " (%s to ", figure(measure->low, unit).text);
    weir_buffer_printf(out, "%s)", isfinite(measure->high) ? figure(measure->high, unit).text : "unknown");
}

static void write_text(const struct weir_profile *profile, const struct work *work, struct weir_buffer *out)
{
    struct weir_buffer losses = WEIR_BUFFER_INIT;
    weir_view_losses(profile, &losses);
    for (uint32_t i = 0; i < work->count; i++) {
        const struct weir_check *check = &work->checks[i];
        weir_buffer_printf(out, "%-12s  ", weir_check_result_name(check->result));
        weir_escape_plain(out, work->expectations[i].text, WEIR_ESCAPE_ANY);
        for (uint32_t k = 0; k < check->measure_count; k++) {
            weir_buffer_puts(out, k ? "; " : check->measures[k].measured ? "  measured " : "  ");
            write_measure(&check->measures[k], work->expectations[i].terms[k].unit, out);
        }
        if (check->reason && strcmp(check->reason, "the profile is lossy") == 0)
            weir_buffer_printf(out, "; the profile is lossy: %s", weir_buffer_text(&losses));
        weir_buffer_putc(out, '\n');
    }
    weir_buffer_release(&losses);
}

/* --- JSON ------------------------------------------------------------------------------------------------------------------- */

static json_t *measure_object(const struct weir_check_measure *measure, enum weir_value_unit unit)
{
    static const char *const units[] = { "items", "share", "ns", "bytes", "per_s" };
    json_t *object = json_object();
    json_object_set_new(object, "value", measure->measured ? weir_value_number(measure->value) : json_null());
    json_object_set_new(object, "low", measure->measured ? weir_value_number(measure->low) : json_null());
    json_object_set_new(object, "high", measure->measured ? weir_value_number(measure->high) : json_null());
    json_object_set_new(object, "unit", json_string(units[unit]));
    json_object_set_new(object, "missing", weir_value_text(measure->missing));
    return object;
}

static const char *result_word(enum weir_check_result result)
{
    static const char *const words[] = { "missed", "inconclusive", "ok" };
    return words[result];
}

static int write_json(const struct weir_profile *profile, const struct work *work, struct weir_buffer *out)
{
    json_t *root = json_object(), *list = json_array();
    enum weir_exit exit = weir_check_exit(work->checks, work->count);
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "result",
                        json_string(result_word(exit == WEIR_EXIT_DONE ? WEIR_CHECK_OK : exit == WEIR_EXIT_FOUND ? WEIR_CHECK_MISSED
                                                                                                                 : WEIR_CHECK_INCONCLUSIVE)));
    json_object_set_new(root, "lossy", json_boolean(weir_profile_lossy(profile)));
    for (uint32_t i = 0; i < work->count; i++) {
        const struct weir_check *check = &work->checks[i];
        json_t *object = json_object(), *measures = json_array();
        json_object_set_new(object, "text", weir_value_text(work->expectations[i].text));
        json_object_set_new(object, "result", json_string(result_word(check->result)));
        json_object_set_new(object, "reason", weir_value_text(check->reason));
        for (uint32_t k = 0; k < check->measure_count; k++)
            json_array_append_new(measures, measure_object(&check->measures[k], work->expectations[i].terms[k].unit));
        json_object_set_new(object, "measured", measures);
        json_array_append_new(list, object);
    }
    json_object_set_new(root, "expectations", list);
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (!text)
        return -ENOMEM;
    weir_buffer_puts(out, text);
    weir_buffer_putc(out, '\n');
    free(text);
    return out->failed ? -ENOMEM : 0;
}

static int check(const struct options *options, struct weir_cli_profile *loaded)
{
    struct work work = { 0 };
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = work_out(options, loaded, &work);
    if (exit != WEIR_EXIT_DONE)
        return exit;
    if (!options->json)
        write_text(loaded->profile, &work, &out);
    if ((options->json && write_json(loaded->profile, &work, &out) != 0) || out.failed) {
        weir_error_set(&error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to check %s", options->path);
        exit = weir_cli_fail("check", &error);
    } else {
        exit = weir_cli_out(out.data, out.length);
        exit = exit == WEIR_EXIT_DONE ? (int)weir_check_exit(work.checks, work.count) : exit;
    }
    weir_buffer_release(&out);
    return exit;
}

static int run(int argc, char **argv)
{
    struct options options = { .expect = calloc((size_t)argc, sizeof *options.expect) };
    struct weir_cli_profile loaded;
    int exit = options.expect ? read_options(argc, argv, &options) : WEIR_EXIT_USAGE;
    if (exit == WEIR_EXIT_DONE) {
        exit = weir_cli_profile_load("check", options.path, false, &loaded);
        if (exit == WEIR_EXIT_DONE)
            exit = check(&options, &loaded);
        weir_cli_profile_release(&loaded);
    }
    free(options.expect);
    return exit;
}

const struct weir_verb weir_verb_check = {
    .name = "check",
    .usage = "PROFILE [--expect EXPECTATION]… [--json]",
    .summary = "holds a profile against its expectations",
    .run = run,
};
