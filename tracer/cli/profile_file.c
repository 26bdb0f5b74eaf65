#include "tracer/cli/profile_file.h"

#include <stdio.h>
#include <string.h>

#include "tracer/standing.h"
#include "tracer/verdict.h"

/* Nothing of this name lies here, or a program: then a running server is meant. */
static bool is_running(const char *path)
{
    char magic[4];
    FILE *file = fopen(path, "rb");
    if (!file)
        return errno == ENOENT && !strchr(path, '/') && !strstr(path, ".wprof");
    bool program = fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "\177ELF", sizeof magic) == 0;
    fclose(file);
    return program;
}

static int load(const char *verb, const char *path, bool counts_do, struct weir_profile *profile, struct weir_error *error)
{
    if (!is_running(path))
        return weir_profile_load(profile, path, error);
    int rc = weir_standing_take(path, profile, error);
    if (rc == 0 && !counts_do)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, EINVAL,
                            "%s is a running server, which counts but measures no time; record it first: weir record %s -o x.wprof; "
                            "weir %s x.wprof", path, path, verb);
    return rc;
}

int weir_cli_profile_load(const char *verb, const char *path, bool counts_do, struct weir_cli_profile *loaded)
{
    struct weir_error error = WEIR_ERROR_INIT;
    *loaded = (struct weir_cli_profile){ .profile = weir_profile_new() };
    weir_arena_init(&loaded->arena, 0, SIZE_MAX);
    if (!loaded->profile) {
        weir_error_set(&error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to read %s", path);
        return weir_cli_fail(verb, &error);
    }
    int rc = load(verb, path, counts_do, loaded->profile, &error);
    if (rc == 0) {
        weir_profile_verify(loaded->profile);
        rc = weir_verdict_of(loaded->profile, &loaded->arena, &loaded->verdict, &error);
    }
    return rc ? weir_cli_fail(verb, &error) : WEIR_EXIT_DONE;
}

void weir_cli_profile_release(struct weir_cli_profile *loaded)
{
    weir_profile_free(loaded->profile);
    weir_arena_release(&loaded->arena);
}

int weir_cli_profile_show(const struct weir_verb *verb, int argc, char **argv, bool counts_do, weir_cli_view *as_text,
                          weir_cli_view *as_json)
{
    const char *path = NULL;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (argv[i][0] == '-' && argv[i][1])
            return weir_cli_usage(verb, "there is no option '%s'", argv[i]);
        else if (path)
            return weir_cli_usage(verb, "one profile at a time: '%s' is one too many", argv[i]);
        else
            path = argv[i];
    }
    if (!path)
        return weir_cli_usage(verb, "name the profile to %s", verb->name);
    struct weir_cli_profile loaded;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    int exit = weir_cli_profile_load(verb->name, path, counts_do, &loaded);
    if (exit == WEIR_EXIT_DONE) {
        int rc = (json ? as_json : as_text)(&loaded, &out, &error);
        exit = rc ? weir_cli_fail(verb->name, &error) : weir_cli_out(out.data, out.length);
    }
    weir_buffer_release(&out);
    weir_cli_profile_release(&loaded);
    return exit;
}
