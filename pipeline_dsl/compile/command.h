/*
 * command: runs another program and keeps what it says.
 *
 * Units: none.
 * Owns: its arguments.
 * Threads: owner only.
 * Errors: -errno when it can't be started; its own exit code otherwise.
 */
#ifndef WEIR_COMPILE_COMMAND_H
#define WEIR_COMPILE_COMMAND_H

#include "base/buffer.h"

struct weir_command {
    char **arguments; /* null-terminated */
    size_t count, capacity;
    bool failed; /* out of memory */
};

#define WEIR_COMMAND_INIT { NULL, 0, 0, false }

void weir_command_add(struct weir_command *command, const char *argument);
void weir_command_printf(struct weir_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A file's name, which must not read as an option. */
void weir_command_add_path(struct weir_command *command, const char *path);
/* Each word of `text`, split at blanks. */
void weir_command_add_words(struct weir_command *command, const char *text);
/* Runs it, found by PATH, without a shell; stdout and stderr are appended to `log`. Returns its exit code, 128 + N after signal N,
 * or -errno. */
int weir_command_run(struct weir_command *command, struct weir_buffer *log);
void weir_command_release(struct weir_command *command);

#endif
