#include "tracer/cli/profile_file.h"

#include "tracer/cli/verb.h"
#include "tracer/verdict.h"

int weir_cli_profile_load(const char *verb, const char *path, struct weir_cli_profile *loaded)
{
    struct weir_error error = WEIR_ERROR_INIT;
    *loaded = (struct weir_cli_profile){ .profile = weir_profile_new() };
    weir_arena_init(&loaded->arena, 0, SIZE_MAX);
    if (!loaded->profile) {
        weir_error_set(&error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to read %s", path);
        return weir_cli_fail(verb, &error);
    }
    int rc = weir_profile_load(loaded->profile, path, &error);
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
