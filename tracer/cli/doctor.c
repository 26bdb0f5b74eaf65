/* weir doctor: what this kernel and this user can measure. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/buffer.h"
#include "tracer/capabilities.h"
#include "tracer/cli/verb.h"

static int put_json(const struct weir_capability *features, size_t lacking, const struct utsname *system)
{
    json_t *list = json_array();
    for (size_t i = 0; i < WEIR_CAPABILITY_COUNT; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b, s:s*, s:s*}", "name", features[i].name, "gives",
                                              features[i].gives, "needed", features[i].needed, "ok", features[i].ok, "missing",
                                              features[i].ok ? NULL : features[i].missing, "remedy",
                                              features[i].ok ? NULL : features[i].remedy));
    json_t *all =
        json_pack("{s:i, s:s, s:b, s:o}", "version", 1, "kernel", system->release, "can_record", lacking == 0, "features", list);
    char *text = all ? json_dumps(all, JSON_INDENT(1)) : NULL;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_buffer_printf(&out, "%s\n", text ? text : "{}");
    int rc = weir_cli_out(out.data, out.length);
    weir_buffer_release(&out);
    free(text);
    json_decref(all);
    return rc;
}

static int put_table(const struct weir_capability *features, size_t lacking, const struct utsname *system)
{
    struct weir_buffer out = WEIR_BUFFER_INIT;
    weir_buffer_printf(&out, "Linux %s on %s\n", system->release, system->machine);
    for (size_t i = 0; i < WEIR_CAPABILITY_COUNT; i++) {
        const struct weir_capability *feature = &features[i];
        weir_buffer_printf(&out, "  %-18s %-4s %s\n", feature->name, feature->ok ? "ok" : "no",
                           feature->ok ? feature->gives : feature->missing);
        if (!feature->ok)
            weir_buffer_printf(&out, "  %-18s      remedy: %s\n", "", feature->remedy);
    }
    weir_buffer_puts(&out, lacking ? "weir can't record here.\n" : "weir can record here.\n");
    int rc = weir_cli_out(out.data, out.length);
    weir_buffer_release(&out);
    return rc;
}

static int run(int argc, char **argv)
{
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") != 0)
            return weir_cli_usage(&weir_verb_doctor, "there is no option or argument '%s'", argv[i]);
        json = true;
    }
    struct weir_capability features[WEIR_CAPABILITY_COUNT];
    struct utsname system;
    size_t lacking = weir_capabilities_probe(features);
    if (uname(&system) != 0)
        memset(&system, 0, sizeof system);
    int rc = json ? put_json(features, lacking, &system) : put_table(features, lacking, &system);
    return rc ? rc : lacking ? WEIR_EXIT_CANNOT : WEIR_EXIT_DONE;
}

const struct weir_verb weir_verb_doctor = {
    .name = "doctor",
    .usage = "[--json]",
    .summary = "say what this kernel and this user can measure",
    .run = run,
};
