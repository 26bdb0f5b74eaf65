/* weir fmt: puts a pipeline file into its one canonical form, in place. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/buffer.h"
#include "pipeline_dsl/lang/lang.h"
#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/verb.h"

/* Compares with the file's bytes, not with the source, which has lost its byte order mark. */
static int same_as_file(const char *path, const struct weir_buffer *text, bool *same, struct weir_error *error)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't open %s: %s", path, strerror(errno));
    *same = true;
    size_t at = 0;
    char piece[4096];
    for (size_t got; *same && (got = fread(piece, 1, sizeof piece, file)) > 0; at += got)
        *same = got <= text->length - at && memcmp(piece, text->data + at, got) == 0;
    *same = *same && at == text->length;
    fclose(file);
    return 0;
}

/* The file itself, also where `given` is a link to it, with its permissions kept. */
static int replace(const char *given, const struct weir_buffer *text, struct weir_error *error)
{
    struct stat old;
    char *path = realpath(given, NULL);
    if (!path || stat(path, &old) != 0) {
        int code = errno;
        free(path);
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't write %s: %s", given, strerror(code));
    }
    int rc = weir_file_write(path, weir_buffer_text(text), text->length, "the formatted file", error);
    if (rc == 0 && chmod(path, old.st_mode & 07777) != 0)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't keep the permissions of %s: %s", given, strerror(errno));
    free(path);
    return rc;
}

static int format(const char *path, bool only_check)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    struct weir_diag_bag bag;
    struct weir_error error = WEIR_ERROR_INIT;
    bool same = false;
    struct stat status;
    weir_diag_bag_init(&bag);
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return weir_cli_usage(&weir_verb_fmt, "%s is no regular file, and a file is formatted in place", path);
    int rc = weir_lang_format(path, &text, &bag, &error);
    if (rc != 0) {
        weir_cli_print_diags(&bag);
        rc = bag.error_count ? WEIR_EXIT_USAGE : weir_cli_fail("fmt", &error);
        goto out;
    }
    rc = same_as_file(path, &text, &same, &error);
    if (rc == 0 && !same && !only_check)
        rc = replace(path, &text, &error);
    if (rc != 0)
        rc = weir_cli_fail("fmt", &error);
    else if (!same && only_check) {
        fprintf(stderr, "weir fmt: %s is not in canonical form; `weir fmt %s` puts it there\n", path, path);
        rc = WEIR_EXIT_FOUND;
    }
out:
    weir_diag_bag_release(&bag);
    weir_buffer_release(&text);
    return rc;
}

static int run(int argc, char **argv)
{
    const char *path = NULL;
    bool only_check = false, only_paths = false;
    for (int i = 1; i < argc; i++) {
        bool option = argv[i][0] == '-' && argv[i][1] && !only_paths;
        if (option && strcmp(argv[i], "--") == 0)
            only_paths = true;
        else if (option && strcmp(argv[i], "--check") == 0)
            only_check = true;
        else if (option)
            return weir_cli_usage(&weir_verb_fmt, "there is no option '%s'", argv[i]);
        else if (path)
            return weir_cli_usage(&weir_verb_fmt, "one file at a time: '%s' is one too many", argv[i]);
        else
            path = argv[i];
    }
    return path ? format(path, only_check) : weir_cli_usage(&weir_verb_fmt, "which file?");
}

const struct weir_verb weir_verb_fmt = {
    .name = "fmt",
    .usage = "[--check] FILE",
    .summary = "put a pipeline file into its canonical form, in place",
    .run = run,
};
