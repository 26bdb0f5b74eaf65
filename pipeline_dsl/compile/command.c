#include "pipeline_dsl/compile/command.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void add(struct weir_command *command, const char *text, size_t size)
{
    if (command->failed)
        return;
    if (command->count + 2 > command->capacity) {
        size_t capacity = command->capacity ? command->capacity * 2 : 32;
        char **arguments = realloc(command->arguments, capacity * sizeof *arguments);
        if (!arguments) {
            command->failed = true;
            return;
        }
        command->arguments = arguments;
        command->capacity = capacity;
    }
    char *copy = strndup(text, size);
    if (!copy) {
        command->failed = true;
        return;
    }
    command->arguments[command->count++] = copy;
    command->arguments[command->count] = NULL;
}

void weir_command_add(struct weir_command *command, const char *argument)
{
    add(command, argument, strlen(argument));
}

void weir_command_printf(struct weir_command *command, const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) {
        command->failed = true;
        return;
    }
    add(command, text, (size_t)length);
    free(text);
}

void weir_command_add_path(struct weir_command *command, const char *path)
{
    weir_command_printf(command, "%s%s", *path == '-' ? "./" : "", path);
}

void weir_command_add_words(struct weir_command *command, const char *text)
{
    static const char blanks[] = " \t\r\n";
    for (text += strspn(text, blanks); *text; text += strspn(text, blanks)) {
        size_t size = strcspn(text, blanks);
        add(command, text, size);
        text += size;
    }
}

static void read_all(int fd, struct weir_buffer *log)
{
    char chunk[4096];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return;
        weir_buffer_add(log, chunk, (size_t)got);
    }
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int weir_command_run(struct weir_command *command, struct weir_buffer *log)
{
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (command->failed || !command->count)
        return -ENOMEM;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    int code = posix_spawnp(&pid, command->arguments[0], &actions, NULL, command->arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code == 0) {
        read_all(ends[0], log);
        code = wait_for(pid);
    } else {
        code = -code;
    }
    close(ends[0]);
    return code;
}

void weir_command_release(struct weir_command *command)
{
    for (size_t i = 0; i < command->count; i++)
        free(command->arguments[i]);
    free(command->arguments);
    *command = (struct weir_command)WEIR_COMMAND_INIT;
}
