#include "pipeline_dsl/lang/lang.h"

#include <string.h>

#include "pipeline_dsl/lang/check.h"
#include "pipeline_dsl/lang/parse.h"
#include "pipeline_dsl/lang/print.h"

static int no_memory(const struct weir_diag_bag *diags, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to check %s", diags->source.path);
}

static int has_errors(const struct weir_diag_bag *diags, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, EBADMSG, "%s has %zu error%s", diags->source.path, diags->error_count,
                          diags->error_count == 1 ? "" : "s");
}

/* The file's name without folder and ".weir". */
static char *topology_name(struct weir_arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".weir") == 0)
        length -= 5;
    return weir_arena_dup(arena, name, length);
}

/* From the source in the bag. */
static int load(struct weir_arena *arena, struct weir_topology *topology, struct weir_diag_bag *diags, struct weir_error *error)
{
    struct weir_tree tree;
    int rc = weir_parse(&tree, diags);
    if (rc == 0 && !tree.no_text)
        rc = weir_check(&tree, diags, arena, topology);
    weir_diag_bag_sort(diags);
    topology->name = topology_name(arena, diags->source.path);
    if (rc != 0 || diags->failed || !topology->name)
        return no_memory(diags, error);
    return diags->error_count ? has_errors(diags, error) : 0;
}

int weir_lang_load(const char *path, struct weir_arena *arena, struct weir_topology *topology, struct weir_diag_bag *diags,
                   struct weir_error *error)
{
    memset(topology, 0, sizeof *topology);
    int rc = weir_source_open(&diags->source, &diags->arena, path, error);
    if (rc == 0)
        rc = load(arena, topology, diags, error);
    if (rc != 0)
        memset(topology, 0, sizeof *topology);
    return rc;
}

int weir_lang_load_memory(const char *path, const void *data, size_t size, struct weir_arena *arena,
                          struct weir_topology *topology, struct weir_diag_bag *diags, struct weir_error *error)
{
    memset(topology, 0, sizeof *topology);
    int rc = weir_source_from_memory(&diags->source, &diags->arena, path, data, size, error);
    if (rc == 0)
        rc = load(arena, topology, diags, error);
    if (rc != 0)
        memset(topology, 0, sizeof *topology);
    return rc;
}

static int format(struct weir_buffer *out, struct weir_diag_bag *diags, struct weir_error *error)
{
    struct weir_tree tree;
    int rc = weir_parse(&tree, diags);
    weir_diag_bag_sort(diags);
    if (rc == 0 && diags->error_count)
        return has_errors(diags, error);
    if (rc == 0)
        rc = weir_print(&tree, &diags->source, &diags->arena, out);
    return rc ? no_memory(diags, error) : 0;
}

int weir_lang_format(const char *path, struct weir_buffer *out, struct weir_diag_bag *diags, struct weir_error *error)
{
    int rc = weir_source_open(&diags->source, &diags->arena, path, error);
    return rc ? rc : format(out, diags, error);
}

int weir_lang_format_memory(const char *path, const void *data, size_t size, struct weir_buffer *out, struct weir_diag_bag *diags,
                            struct weir_error *error)
{
    int rc = weir_source_from_memory(&diags->source, &diags->arena, path, data, size, error);
    return rc ? rc : format(out, diags, error);
}

int weir_lang_expectation(const char *text, const struct weir_topology *topology, struct weir_arena *arena,
                          struct weir_topology_expectation *expectation, struct weir_diag_bag *diags, struct weir_error *error)
{
    struct weir_tree tree;
    memset(expectation, 0, sizeof *expectation);
    int rc = weir_source_from_memory(&diags->source, &diags->arena, "--expect", text, strlen(text), error);
    if (rc != 0)
        return rc;
    rc = weir_parse_expectation(&tree, diags);
    if (rc == 0 && !tree.broken)
        rc = weir_check_expectation(&tree, diags, arena, topology, expectation);
    weir_diag_bag_sort(diags);
    if (rc != 0 || diags->failed)
        return no_memory(diags, error);
    return diags->error_count ? has_errors(diags, error) : 0;
}
