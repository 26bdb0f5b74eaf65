/*
 * DESIGN: everything happens in a temporary folder beside the output, and the finished server is renamed into place: a failure
 * leaves the old one, and a server that runs keeps its file. Each `call` file is a translation unit of its own, compiled once
 * however many stages use it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pipeline_dsl/compile/command.h"
#include "pipeline_dsl/compile/compile.h"

struct link {
    const struct weir_compile_kit *kit;
    const struct weir_topology *topology;
    const char *folder; /* temporary */
    struct weir_buffer *log;
};

static int write_source(const char *path, const struct weir_buffer *source, struct weir_error *error)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(source->data, 1, source->length, file) == source->length;
    if (file)
        good = fclose(file) == 0 && good;
    return good ? 0 : weir_error_set(error, WEIR_EXIT_USAGE, EIO, "can't write %s: %s", path, strerror(errno));
}

static int run(struct link *link, struct weir_command *command, const char *what, struct weir_error *error)
{
    int rc = weir_command_run(command, link->log);
    if (rc < 0)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "can't run the C compiler `%s`: %s; install one, or name it in CC",
                              weir_buffer_text(&link->kit->cc), strerror(-rc));
    if (rc > 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EBADMSG, "the C compiler refused %s", what);
    return 0;
}

/* `prototypes`: included in front of a user's file; null for the generated one, which alone may include the rooms' headers. */
static int compile(struct link *link, const char *source, const char *object, const char *prototypes, const char *what,
                   struct weir_error *error)
{
    bool rooms = !prototypes;
    struct weir_command command = WEIR_COMMAND_INIT;
    weir_command_add_words(&command, weir_buffer_text(&link->kit->cc));
    weir_command_add_words(&command, weir_buffer_text(&link->kit->cflags));
    weir_command_add(&command, "-D_GNU_SOURCE");
    /* The folder's name is random; without it in the debug information the same input gives the same server. */
    weir_command_printf(&command, "-ffile-prefix-map=%s=%s", link->folder, link->topology->name);
    weir_command_add(&command, rooms ? "-w" : "-Wall");
    weir_command_printf(&command, rooms ? "-I%s/weir" : "-I%s", weir_buffer_text(&link->kit->include_dir));
    if (prototypes) {
        weir_command_add(&command, "-include");
        weir_command_add(&command, prototypes);
    }
    weir_command_add(&command, "-c");
    weir_command_add_path(&command, source);
    weir_command_add(&command, "-o");
    weir_command_add(&command, object);
    int rc = run(link, &command, what, error);
    weir_command_release(&command);
    return rc;
}

/* The first stage that calls a function from the same file. */
static bool is_first_use(const struct weir_topology *topology, uint32_t stage)
{
    for (uint32_t i = 0; i < stage; i++)
        if (topology->stages[i].verb == WEIR_CALL && strcmp(topology->stages[i].text, topology->stages[stage].text) == 0)
            return false;
    return true;
}

/* What is included in front of a `call` file: the functions as the stages call them, so that the compiler refuses one of another
 * shape, which would crash the server. */
static int write_prototypes(struct link *link, const char *file, const char *path, struct weir_error *error)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    weir_buffer_puts(&text, "#include <weir/call.h>\n");
    for (uint32_t i = 0; i < link->topology->stage_count; i++) {
        const struct weir_topology_stage *stage = &link->topology->stages[i];
        if (stage->verb == WEIR_CALL && strcmp(stage->text, file) == 0)
            weir_buffer_printf(&text, "int %s(struct weir_item *item, struct weir_call *call);\n", stage->symbol);
    }
    int rc = write_source(path, &text, error);
    weir_buffer_release(&text);
    return rc;
}

static int compile_calls(struct link *link, struct weir_command *linking, struct weir_error *error)
{
    int rc = 0;
    for (uint32_t i = 0; i < link->topology->stage_count && rc == 0; i++) {
        const struct weir_topology_stage *stage = &link->topology->stages[i];
        if (stage->verb != WEIR_CALL || !is_first_use(link->topology, i))
            continue;
        struct weir_buffer object = WEIR_BUFFER_INIT, prototypes = WEIR_BUFFER_INIT, what = WEIR_BUFFER_INIT;
        weir_buffer_printf(&object, "%s/call%u.o", link->folder, i);
        weir_buffer_printf(&what, "%s, which stage %s calls", stage->text, stage->full_name);
        weir_buffer_printf(&prototypes, "%s/call%u.h", link->folder, i);
        rc = write_prototypes(link, stage->text, weir_buffer_text(&prototypes), error);
        if (rc == 0)
            rc = compile(link, stage->text, weir_buffer_text(&object), weir_buffer_text(&prototypes), weir_buffer_text(&what), error);
        weir_command_add(linking, weir_buffer_text(&object));
        weir_buffer_release(&prototypes);
        weir_buffer_release(&object);
        weir_buffer_release(&what);
    }
    return rc;
}

static int link_all(struct link *link, struct weir_command *command, const char *binary, struct weir_error *error)
{
    weir_command_printf(command, "-L%s", weir_buffer_text(&link->kit->library_dir));
    weir_command_add(command, "-rdynamic"); /* weir_contract must be in .dynsym */
    weir_command_add(command, "-Wl,--start-group");
    weir_command_add_words(command, weir_buffer_text(&link->kit->libs));
    weir_command_add(command, "-Wl,--end-group");
    weir_command_add(command, "-o");
    weir_command_add(command, binary);
    for (uint32_t i = 0; i < link->topology->stage_count; i++)
        if (link->topology->stages[i].verb == WEIR_CALL)
            return run(link, command, "to link the server; does each `call` file define its function, and not as static?", error);
    return run(link, command, "to link the server", error);
}

static int build_in(struct link *link, const struct weir_buffer *source, const char *binary, struct weir_error *error)
{
    struct weir_buffer c = WEIR_BUFFER_INIT, o = WEIR_BUFFER_INIT;
    struct weir_command linking = WEIR_COMMAND_INIT;
    weir_buffer_printf(&c, "%s/server.c", link->folder);
    weir_buffer_printf(&o, "%s/server.o", link->folder);
    weir_command_add_words(&linking, weir_buffer_text(&link->kit->cc));
    weir_command_add_words(&linking, weir_buffer_text(&link->kit->cflags));
    weir_command_add(&linking, weir_buffer_text(&o));
    int rc = write_source(weir_buffer_text(&c), source, error);
    if (rc == 0)
        rc = compile(link, weir_buffer_text(&c), weir_buffer_text(&o), NULL, "the generated C file", error);
    if (rc == 0)
        rc = compile_calls(link, &linking, error);
    if (rc == 0)
        rc = link_all(link, &linking, binary, error);
    weir_command_release(&linking);
    weir_buffer_release(&c);
    weir_buffer_release(&o);
    return rc;
}

/* Only files of our own lie in it. */
static void remove_folder(const struct link *link)
{
    struct weir_command command = WEIR_COMMAND_INIT;
    struct weir_buffer ignored = WEIR_BUFFER_INIT;
    weir_command_add_words(&command, "rm -rf --");
    weir_command_add(&command, link->folder);
    weir_command_run(&command, &ignored);
    weir_command_release(&command);
    weir_buffer_release(&ignored);
}

int weir_compile_link(const struct weir_compile_kit *kit, const struct weir_topology *topology, const struct weir_buffer *source,
                      const char *output, struct weir_buffer *log, struct weir_error *error)
{
    struct weir_buffer folder = WEIR_BUFFER_INIT, binary = WEIR_BUFFER_INIT;
    struct stat old;
    if (stat(output, &old) == 0 && !S_ISREG(old.st_mode))
        return weir_error_set(error, WEIR_EXIT_USAGE, S_ISDIR(old.st_mode) ? EISDIR : EINVAL,
                              "can't write the server to %s: that is %s; name a file with -o", output,
                              S_ISDIR(old.st_mode) ? "a folder" : "no regular file");
    weir_buffer_printf(&folder, "%s.XXXXXX", output);
    if (folder.failed || !mkdtemp(folder.data)) {
        int rc = weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't write the server to %s: %s", output, strerror(errno));
        weir_buffer_release(&folder);
        return rc;
    }
    struct link link = { kit, topology, folder.data, log };
    weir_buffer_printf(&binary, "%s/server", folder.data);
    int rc = build_in(&link, source, weir_buffer_text(&binary), error);
    if (rc == 0 && rename(weir_buffer_text(&binary), output) != 0)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't write the server to %s: %s", output, strerror(errno));
    remove_folder(&link);
    weir_buffer_release(&binary);
    weir_buffer_release(&folder);
    return rc;
}
