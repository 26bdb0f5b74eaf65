/*
 * profile_file: how the verbs that read a profile get it: loaded, verified anew, with its verdict.
 *
 * Units: as in base/profile.h.
 * Owns: the profile, until weir_cli_profile_release().
 * Threads: one at a time.
 * Errors: printed to stderr; the result is the exit code.
 */
#ifndef WEIR_CLI_PROFILE_FILE_H
#define WEIR_CLI_PROFILE_FILE_H

#include "base/arena.h"
#include "base/profile.h"
#include "base/verdict.h"
#include "tracer/cli/verb.h"

struct weir_cli_profile {
    struct weir_profile *profile;
    struct weir_arena arena; /* of the verdict, and for whoever needs some */
    struct weir_verdict verdict;
};

/* For verb `verb` ("report"). `path` is a profile, or, where no file has that name or only a program, a running server: with
 * `counts_do` what that has counted so far is enough for the verb, which needs no measuring then; else it is refused. Returns 0, or
 * an exit code; release it either way. */
int weir_cli_profile_load(const char *verb, const char *path, bool counts_do, struct weir_cli_profile *loaded);
void weir_cli_profile_release(struct weir_cli_profile *loaded);

/* A view of a profile as bytes. Returns 0 or -errno. */
typedef int weir_cli_view(const struct weir_cli_profile *loaded, struct weir_buffer *out, struct weir_error *error);

/* A whole verb that takes "PROFILE [--json]" and prints one view of it. Returns the exit code. */
int weir_cli_profile_show(const struct weir_verb *verb, int argc, char **argv, bool counts_do, weir_cli_view *as_text,
                          weir_cli_view *as_json);

#endif
