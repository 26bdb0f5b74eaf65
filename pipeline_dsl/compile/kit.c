/* Where a server's parts lie, and a key for all of them. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline_dsl/compile/command.h"
#include "pipeline_dsl/compile/compile.h"

static int read_file(const char *path, struct weir_buffer *out)
{
    char chunk[65536];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file)
        return -errno;
    while ((got = fread(chunk, 1, sizeof chunk, file)) > 0)
        weir_buffer_add(out, chunk, got);
    int rc = ferror(file) ? -EIO : out->failed ? -ENOMEM : 0;
    fclose(file);
    return rc;
}

/* The rest of the line that starts with `word`. */
static void find_line(const char *text, const char *word, struct weir_buffer *out)
{
    size_t size = strlen(word);
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, word, size) == 0 && line[size] == ' ') {
            weir_buffer_add(out, line + size + 1, strcspn(line + size + 1, "\n"));
            return;
        }
}

static int find_dirs(struct weir_compile_kit *kit, struct weir_error *error)
{
    char exe[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (length < 0)
        return weir_error_set(error, WEIR_EXIT_CANNOT, errno, "can't find weir's own executable by /proc/self/exe: %s", strerror(errno));
    exe[length] = '\0';
    for (int i = 0; i < 2; i++) { /* the file, then bin */
        char *slash = strrchr(exe, '/');
        if (slash)
            *slash = '\0';
    }
    weir_buffer_printf(&kit->library_dir, "%s/lib/weir", exe);
    weir_buffer_printf(&kit->include_dir, "%s/include", exe);
    return 0;
}

int weir_compile_kit_find(struct weir_compile_kit *kit, struct weir_error *error)
{
    struct weir_buffer path = WEIR_BUFFER_INIT, text = WEIR_BUFFER_INIT;
    *kit = (struct weir_compile_kit){ 0 };
    int rc = find_dirs(kit, error);
    if (rc != 0)
        goto out;
    weir_buffer_printf(&path, "%s/flags", weir_buffer_text(&kit->library_dir));
    rc = read_file(weir_buffer_text(&path), &text);
    if (rc != 0) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, -rc,
                            "can't read %s, which says how servers are compiled: %s; run `make` or `make install` again",
                            weir_buffer_text(&path), strerror(-rc));
        goto out;
    }
    const char *cc = getenv("CC");
    weir_buffer_puts(&kit->cc, cc && *cc ? cc : "cc");
    find_line(weir_buffer_text(&text), "cflags", &kit->cflags);
    find_line(weir_buffer_text(&text), "libs", &kit->libs);
    rc = 0;
out:
    weir_buffer_release(&path);
    weir_buffer_release(&text);
    return rc;
}

void weir_compile_kit_release(struct weir_compile_kit *kit)
{
    weir_buffer_release(&kit->cc);
    weir_buffer_release(&kit->cflags);
    weir_buffer_release(&kit->libs);
    weir_buffer_release(&kit->library_dir);
    weir_buffer_release(&kit->include_dir);
}

/* FNV-1a, 64 bits: a cache key, no protection against a forger; the folder is its owner's alone. */
static uint64_t hash(uint64_t key, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        key = (key ^ bytes[i]) * 0x100000001b3u;
    return (key ^ 0xff) * 0x100000001b3u; /* so that "ab" "c" differs from "a" "bc" */
}

static int hash_file(uint64_t *key, const char *path, struct weir_error *error)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    int rc = read_file(path, &text);
    if (rc == 0)
        *key = hash(*key, weir_buffer_text(&text), text.length);
    else
        weir_error_set(error, WEIR_EXIT_USAGE, -rc, "can't read %s: %s", path, strerror(-rc));
    weir_buffer_release(&text);
    return rc;
}

/* What the compiler reads for a `call` file: the headers that it includes, too. One that can't be preprocessed is read as it is:
 * the build will say why. */
static int hash_call(uint64_t *key, const struct weir_compile_kit *kit, const char *path, struct weir_error *error)
{
    struct weir_command command = WEIR_COMMAND_INIT;
    struct weir_buffer text = WEIR_BUFFER_INIT;
    weir_command_add_words(&command, weir_buffer_text(&kit->cc));
    weir_command_add_words(&command, weir_buffer_text(&kit->cflags));
    weir_command_add(&command, "-D_GNU_SOURCE");
    weir_command_printf(&command, "-I%s", weir_buffer_text(&kit->include_dir));
    weir_command_add(&command, "-E");
    weir_command_add_path(&command, path);
    int rc = weir_command_run(&command, &text) == 0 && !text.failed ? 0 : hash_file(key, path, error);
    *key = hash(*key, weir_buffer_text(&text), text.length);
    weir_command_release(&command);
    weir_buffer_release(&text);
    return rc;
}

int weir_compile_key(const struct weir_compile_kit *kit, const struct weir_topology *topology, const struct weir_buffer *source,
                     char key[17], struct weir_error *error)
{
    static const char *const archives[] = { "stages", "runtime", "client", "wire", "base" };
    uint64_t value = hash(0xcbf29ce484222325u, weir_buffer_text(source), source->length);
    const struct weir_buffer *texts[] = { &kit->cc, &kit->cflags, &kit->libs };
    for (size_t i = 0; i < 3; i++)
        value = hash(value, weir_buffer_text(texts[i]), texts[i]->length);
    int rc = 0;
    for (uint32_t i = 0; i < topology->stage_count && rc == 0; i++)
        if (topology->stages[i].verb == WEIR_CALL)
            rc = hash_call(&value, kit, topology->stages[i].text, error);
    for (size_t i = 0; i < sizeof archives / sizeof *archives && rc == 0; i++) {
        struct weir_buffer path = WEIR_BUFFER_INIT;
        weir_buffer_printf(&path, "%s/libweir-%s.a", weir_buffer_text(&kit->library_dir), archives[i]);
        rc = hash_file(&value, weir_buffer_text(&path), error);
        weir_buffer_release(&path);
    }
    snprintf(key, 17, "%016llx", (unsigned long long)value);
    return rc;
}
