#include "tracer/cli/server_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline_dsl/compile/compile.h"
#include "tracer/cli/pipeline_file.h"
#include "tracer/cli/verb.h"

/* One level of the cache folder. It holds programs that will be run, so it must be the user's alone. */
static int make_folder(const char *path, bool ours, struct weir_error *error)
{
    struct stat found;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't make the cache folder %s: %s", path, strerror(errno));
    if (!ours)
        return 0;
    if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() || (found.st_mode & 022))
        return weir_error_set(error, WEIR_EXIT_USAGE, EPERM,
                              "the cache folder %s is not yours alone; remove it, or set XDG_CACHE_HOME to another place", path);
    return 0;
}

static int find_cache(struct weir_buffer *folder, struct weir_error *error)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        weir_buffer_puts(folder, cache);
    else if (home && home[0] == '/')
        weir_buffer_printf(folder, "%s/.cache", home);
    else
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOENT,
                              "neither XDG_CACHE_HOME nor HOME names a folder for the compiled server; `weir build` needs neither");
    int rc = make_folder(weir_buffer_text(folder), false, error);
    if (rc != 0)
        return rc;
    weir_buffer_puts(folder, "/weir");
    return make_folder(weir_buffer_text(folder), true, error);
}

/* Builds the server unless the cache has it. */
static int make_server(const struct weir_topology *topology, const struct weir_buffer *source, struct weir_buffer *path,
                       struct weir_error *error)
{
    struct weir_compile_kit kit;
    struct weir_buffer log = WEIR_BUFFER_INIT;
    char key[17];
    int rc = weir_compile_kit_find(&kit, error);
    if (rc == 0)
        rc = find_cache(path, error);
    if (rc == 0)
        rc = weir_compile_key(&kit, topology, source, key, error);
    /* A folder for the key, so that the process is called like the pipeline file: `weir record NAME` finds it. */
    if (rc == 0) {
        weir_buffer_printf(path, "/%s", key);
        rc = make_folder(weir_buffer_text(path), true, error);
    }
    if (rc == 0) {
        weir_buffer_printf(path, "/%s", topology->name);
        if (access(weir_buffer_text(path), X_OK) != 0)
            rc = weir_compile_link(&kit, topology, source, weir_buffer_text(path), &log, error);
    }
    fputs(weir_buffer_text(&log), stderr);
    weir_compile_kit_release(&kit);
    weir_buffer_release(&log);
    return rc;
}

int weir_cli_cached_server(const char *verb, const char *file, struct weir_buffer *path)
{
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_arena arena;
    struct weir_topology topology;
    struct weir_buffer source = WEIR_BUFFER_INIT;
    weir_arena_init(&arena, 0, SIZE_MAX);
    int exit = weir_cli_load_pipeline(verb, file, &arena, &topology);
    if (exit == WEIR_EXIT_DONE) {
        int rc = weir_compile_emit(&topology, &source, &error);
        if (rc == 0)
            rc = make_server(&topology, &source, path, &error);
        if (rc != 0)
            exit = weir_cli_fail(verb, &error);
    }
    weir_buffer_release(&source);
    weir_arena_release(&arena);
    return exit;
}
