#include "pipeline_dsl/lang/source.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int too_large(const char *path, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, EFBIG,
                          "%s is larger than %zu MiB, which no pipeline file is; is it the right file?", path,
                          WEIR_SOURCE_MAX >> 20);
}

static int no_memory(const char *path, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to read %s", path);
}

/* Takes over text[0..length), which has room for a NUL. */
static int index_lines(struct weir_source *source, struct weir_arena *arena, const char *path, char *text, size_t length,
                       struct weir_error *error)
{
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        length -= 3;
    }
    text[length] = '\0';
    size_t count = 1;
    for (const char *at = text; (at = memchr(at, '\n', length - (size_t)(at - text))) != NULL; at++)
        count++;
    size_t *lines = weir_arena_alloc(arena, count * sizeof *lines);
    char *name = weir_arena_dup(arena, path, strlen(path));
    if (!lines || !name)
        return no_memory(path, error);
    lines[0] = 0;
    size_t line = 1;
    for (size_t i = 0; i < length; i++)
        if (text[i] == '\n')
            lines[line++] = i + 1;
    *source = (struct weir_source){ .path = name, .text = text, .length = length, .lines = lines, .line_count = count };
    return 0;
}

int weir_source_from_memory(struct weir_source *source, struct weir_arena *arena, const char *path, const void *data, size_t size,
                            struct weir_error *error)
{
    if (size > WEIR_SOURCE_MAX)
        return too_large(path, error);
    char *text = weir_arena_dup(arena, data, size);
    return text ? index_lines(source, arena, path, text, size, error) : no_memory(path, error);
}

/* Reads until the end, since a pipe has no size to ask for. */
static int read_all(int fd, struct weir_arena *arena, const char *path, char **text, size_t *length, struct weir_error *error)
{
    size_t room = 1 << 16, used = 0;
    char *data = weir_arena_alloc(arena, room + 1);
    while (data) {
        ssize_t got = read(fd, data + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't read %s: %s", path, strerror(errno));
        used += (size_t)got;
        if (used > WEIR_SOURCE_MAX)
            return too_large(path, error);
        if (got == 0) {
            *text = data;
            *length = used;
            return 0;
        }
        if (used == room) {
            char *larger = weir_arena_alloc(arena, 2 * room + 1);
            if (larger)
                memcpy(larger, data, used);
            data = larger;
            room *= 2;
        }
    }
    return no_memory(path, error);
}

int weir_source_open(struct weir_source *source, struct weir_arena *arena, const char *path, struct weir_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't open %s: %s", path, strerror(errno));
    struct stat status;
    char *text = NULL;
    size_t length = 0;
    int rc;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        rc = weir_error_set(error, WEIR_EXIT_USAGE, EISDIR, "%s is a folder, not a pipeline file", path);
    else
        rc = read_all(fd, arena, path, &text, &length, error);
    close(fd);
    return rc ? rc : index_lines(source, arena, path, text, length, error);
}

/* The last line that begins at or before `offset`, from 0. */
static size_t line_of(const struct weir_source *source, size_t offset)
{
    size_t low = 0, high = source->line_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (source->lines[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

struct weir_place weir_source_place(const struct weir_source *source, size_t offset)
{
    if (!source->lines)
        return (struct weir_place){ 1, 1 };
    size_t line = line_of(source, offset);
    size_t column = 1;
    for (size_t i = source->lines[line]; i < offset && i < source->length; i++)
        if (((unsigned char)source->text[i] & 0xc0) != 0x80)
            column++;
    return (struct weir_place){ line + 1, column };
}

struct weir_span weir_source_line(const struct weir_source *source, size_t line)
{
    if (!source->lines || line == 0 || line > source->line_count)
        return (struct weir_span){ 0, 0 };
    size_t begin = source->lines[line - 1];
    size_t end = line == source->line_count ? source->length : source->lines[line] - 1;
    if (end > begin && source->text[end - 1] == '\r')
        end--;
    return (struct weir_span){ begin, end - begin };
}
