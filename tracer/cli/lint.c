/* weir lint: checks a pipeline file without running anything. */
#include <inttypes.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "pipeline_dsl/lang/lang.h"
#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/verb.h"

struct options {
    const char *path, *explain;
    bool verbose, strict, json;
};

static int explain(const char *name)
{
    enum weir_code code = weir_code_find(name);
    if (code == WEIR_CODE_COUNT)
        return weir_cli_usage(&weir_verb_lint, "there is no code '%s'; codes look like %s and %s", name,
                              weir_code_name(WEIR_E032_NO_POOL), weir_code_name(WEIR_W101_REFLECT));
    struct weir_buffer text = WEIR_BUFFER_INIT;
    weir_buffer_printf(&text, "%s: %s\n\n%s", weir_code_name(code), weir_code_title(code), weir_code_story(code));
    int rc = weir_cli_out(weir_buffer_text(&text), text.length);
    weir_buffer_release(&text);
    return rc;
}

/* --- json ------------------------------------------------------------------------------------------------------------------- */

static void set_place(json_t *object, const struct weir_source *source, struct weir_span span)
{
    struct weir_place begin = weir_source_place(source, span.offset), end = weir_source_place(source, span.offset + span.length);
    json_object_set_new(object, "line", json_integer((json_int_t)begin.line));
    json_object_set_new(object, "column", json_integer((json_int_t)begin.column));
    json_object_set_new(object, "end_line", json_integer((json_int_t)end.line));
    json_object_set_new(object, "end_column", json_integer((json_int_t)end.column));
    json_object_set_new(object, "offset", json_integer((json_int_t)span.offset));
    json_object_set_new(object, "length", json_integer((json_int_t)span.length));
}

static json_t *diag_json(const struct weir_source *source, const struct weir_diag *diag)
{
    json_t *object = json_object(), *related = json_array();
    json_object_set_new(object, "code", json_string(weir_code_name(diag->code)));
    json_object_set_new(object, "severity", json_string(diag->severity == WEIR_SEVERITY_ERROR ? "error" : "warning"));
    set_place(object, source, diag->span);
    json_object_set_new(object, "message", json_string(diag->message));
    json_object_set_new(object, "hint", diag->hint ? json_string(diag->hint) : json_null());
    for (const struct weir_diag_related *at = diag->related; at; at = at->next) {
        json_t *place = json_object();
        set_place(place, source, at->span);
        json_object_set_new(place, "message", json_string(at->message));
        json_array_append_new(related, place);
    }
    json_object_set_new(object, "related", related);
    return object;
}

static json_t *queues_json(const struct weir_topology *topology)
{
    json_t *queues = json_array();
    for (uint32_t i = 0; i < topology->queue_count; i++) {
        const struct weir_topology_queue *queue = &topology->queues[i];
        bool handoff = queue->kind == WEIR_QUEUE_HANDOFF;
        json_t *object =
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:b, s:b}", "name", queue->name, "from", topology->pools[queue->from_pool].name,
                      "to", topology->pools[queue->to_pool].name, "limit_bytes", (json_int_t)queue->limit_bytes, "limit_items",
                      (json_int_t)queue->limit_items, "items_given", queue->items_given, "per_connection", queue->kind == WEIR_QUEUE_REPLY);
        json_object_set_new(object, "sized", handoff ? json_string(weir_sized_name(queue->sized)) : json_null());
        json_object_set_new(object, "full", handoff ? json_string(weir_full_name(queue->full)) : json_null());
        json_array_append_new(queues, object);
    }
    return queues;
}

static int print_json(const struct weir_diag_bag *bag, const struct weir_topology *topology)
{
    json_t *diags = json_array();
    for (size_t i = 0; i < bag->count; i++)
        json_array_append_new(diags, diag_json(&bag->source, &bag->diags[i]));
    json_t *path = json_string(bag->source.path); /* null when it is not UTF-8, which JSON can't hold */
    json_t *report =
        json_pack("{s:i, s:o?, s:I, s:I, s:o, s:o}", "version", 1, "file", path, "errors", (json_int_t)bag->error_count,
                  "warnings", (json_int_t)bag->warning_count, "diagnostics", diags, "queues", queues_json(topology));
    char *text = report ? json_dumps(report, JSON_INDENT(2)) : NULL;
    int rc = WEIR_EXIT_USAGE;
    if (text) {
        struct weir_buffer out = WEIR_BUFFER_INIT;
        weir_buffer_printf(&out, "%s\n", text);
        rc = weir_cli_out(weir_buffer_text(&out), out.length);
        weir_buffer_release(&out);
    }
    free(text);
    json_decref(report);
    return rc;
}

/* --- text ------------------------------------------------------------------------------------------------------------------- */

static void add_size(struct weir_buffer *out, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    unsigned unit = 0;
    for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    weir_buffer_printf(out, "%" PRIu64 "%s", bytes, units[unit]);
}

static const char *pool_does(const struct weir_topology *topology, uint32_t pool)
{
    for (uint32_t i = 0; i < topology->queue_count; i++)
        if (topology->queues[i].kind == WEIR_QUEUE_SLOTS && topology->queues[i].from_pool == pool)
            return "serves connections";
    return topology->pools[pool].listens ? "listens" : "takes handoffs";
}

/* What the defaults came to: pools, and each queue with its limits. */
static int print_verbose(const struct weir_topology *topology)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    for (uint32_t i = 0; i < topology->pool_count; i++)
        weir_buffer_printf(&out, "pool %s: %" PRIu32 " thread%s, %s\n", topology->pools[i].name, topology->pools[i].threads,
                           topology->pools[i].threads == 1 ? "" : "s", pool_does(topology, i));
    for (uint32_t i = 0; i < topology->queue_count; i++) {
        const struct weir_topology_queue *queue = &topology->queues[i];
        bool handoff = queue->kind == WEIR_QUEUE_HANDOFF;
        weir_buffer_printf(&out, "queue %s: %s -> %s, at most ", queue->name, topology->pools[queue->from_pool].name,
                           topology->pools[queue->to_pool].name);
        if (queue->limit_bytes) {
            add_size(&out, queue->limit_bytes);
            weir_buffer_puts(&out, " and ");
        }
        weir_buffer_printf(&out, "%" PRIu64 " items", queue->limit_items);
        if (!handoff)
            weir_buffer_puts(&out, queue->kind == WEIR_QUEUE_REPLY ? " per connection\n" : " that are finished\n");
        else
            weir_buffer_printf(&out, "%s, sized %s, full %s\n", queue->items_given ? "" : " (limit / 256)",
                               weir_sized_name(queue->sized), weir_full_name(queue->full));
    }
    for (uint32_t i = 0; i < topology->stage_count; i++)
        if (topology->stages[i].verb == WEIR_DECODE) {
            weir_buffer_printf(&out, "stage %s: a message takes at most ", topology->stages[i].full_name);
            add_size(&out, topology->stages[i].max_bytes);
            weir_buffer_putc(&out, '\n');
        }
    int rc = out.failed ? WEIR_EXIT_USAGE : weir_cli_out(weir_buffer_text(&out), out.length);
    weir_buffer_release(&out);
    return rc;
}

static int lint(const struct options *options)
{
    struct weir_arena arena;
    struct weir_topology topology;
    struct weir_diag_bag bag;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    weir_diag_bag_init(&bag);
    int failed = weir_lang_load(options->path, &arena, &topology, &bag, &error);
    int rc = WEIR_EXIT_DONE;
    if (failed && bag.error_count == 0)
        rc = weir_cli_fail("lint", &error);
    else if (options->json)
        rc = print_json(&bag, &topology);
    else {
        weir_cli_print_diags(&bag);
        if (options->verbose && !failed)
            rc = print_verbose(&topology);
    }
    if (rc == WEIR_EXIT_DONE && (bag.error_count || (options->strict && bag.warning_count)))
        rc = WEIR_EXIT_FOUND;
    weir_diag_bag_release(&bag);
    weir_arena_release(&arena);
    return rc;
}

static int run(int argc, char **argv)
{
    struct options options = { 0 };
    bool only_paths = false;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        bool option = arg[0] == '-' && arg[1] && !only_paths;
        if (option && strcmp(arg, "--") == 0)
            only_paths = true;
        else if (option && (strcmp(arg, "-v") == 0 || strcmp(arg, "--verbose") == 0))
            options.verbose = true;
        else if (option && strcmp(arg, "--strict") == 0)
            options.strict = true;
        else if (option && strcmp(arg, "--json") == 0)
            options.json = true;
        else if (option && strncmp(arg, "--explain=", 10) == 0)
            options.explain = arg + 10;
        else if (option && strcmp(arg, "--explain") == 0) {
            if (++i == argc)
                return weir_cli_usage(&weir_verb_lint, "--explain needs a code, such as E032");
            options.explain = argv[i];
        } else if (option)
            return weir_cli_usage(&weir_verb_lint, "there is no option '%s'", arg);
        else if (options.path)
            return weir_cli_usage(&weir_verb_lint, "one file at a time: '%s' is one too many", arg);
        else
            options.path = arg;
    }
    if (options.explain)
        return explain(options.explain);
    if (!options.path)
        return weir_cli_usage(&weir_verb_lint, "which file?");
    return lint(&options);
}

const struct weir_verb weir_verb_lint = {
    .name = "lint",
    .usage = "FILE [-v] [--strict] [--json] | --explain CODE",
    .summary = "check a pipeline file without running anything",
    .run = run,
};
