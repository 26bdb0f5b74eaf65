#include "pipeline_dsl/runtime/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION 1u
#define PENDING_MOST ((size_t)1 << 20)

struct header {
    uint32_t version, kind;
    int32_t fd, owner;
    uint64_t name_bytes; /* with its NUL; 0: no name */
    uint64_t data_bytes;
};

/* --- leaving ------------------------------------------------------------------------------------------------------------- */

int weir_takeover_begin(struct weir_takeover_writer *writer, struct weir_error *error)
{
    *writer = (struct weir_takeover_writer){ .fd = memfd_create("weir-takeover", MFD_CLOEXEC), .pending = WEIR_BUFFER_INIT };
    if (writer->fd < 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't keep the connections for the new server: %s", strerror(errno));
    return 0;
}

static void flush(struct weir_takeover_writer *writer)
{
    const char *data = writer->pending.data;
    size_t left = writer->pending.length;
    if (writer->pending.failed && !writer->code)
        writer->code = -ENOMEM;
    while (left && !writer->code) {
        ssize_t wrote = write(writer->fd, data, left);
        if (wrote < 0 && errno != EINTR)
            writer->code = -errno;
        else if (wrote > 0) {
            data += wrote;
            left -= (size_t)wrote;
        }
    }
    weir_buffer_clear(&writer->pending);
}

void weir_takeover_add(struct weir_takeover_writer *writer, const struct weir_takeover_record *record)
{
    struct header header = { .version = VERSION, .kind = record->kind, .fd = record->fd, .owner = record->owner,
                             .name_bytes = record->name ? strlen(record->name) + 1 : 0, .data_bytes = record->data_bytes };
    weir_buffer_add(&writer->pending, (const char *)&header, sizeof header);
    weir_buffer_add(&writer->pending, record->name ? record->name : "", header.name_bytes);
    weir_buffer_add(&writer->pending, record->data ? record->data : "", record->data_bytes);
    if (writer->pending.length >= PENDING_MOST)
        flush(writer);
}

void weir_takeover_keep_open(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0)
        fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC);
}

int weir_takeover_flush(struct weir_takeover_writer *writer, struct weir_error *error)
{
    flush(writer);
    if (writer->code)
        return weir_error_set(error, WEIR_EXIT_USAGE, -writer->code, "can't keep the connections for the new server: %s",
                              strerror(-writer->code));
    return 0;
}

int weir_takeover_end(struct weir_takeover_writer *writer, struct weir_error *error)
{
    char number[16];
    int rc = weir_takeover_flush(writer, error);
    if (rc != 0)
        return rc;
    snprintf(number, sizeof number, "%d", writer->fd);
    if (setenv(WEIR_TAKEOVER_ENV, number, 1) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "can't tell the new server what it takes over: no memory");
    weir_takeover_keep_open(writer->fd);
    return 0;
}

void weir_takeover_writer_release(struct weir_takeover_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
    weir_buffer_release(&writer->pending);
}

/* --- taking over --------------------------------------------------------------------------------------------------------- */

int weir_takeover_open(struct weir_takeover *takeover, struct weir_error *error)
{
    const char *number = getenv(WEIR_TAKEOVER_ENV);
    *takeover = (struct weir_takeover){ .data = NULL };
    if (!number)
        return 0;
    int fd = atoi(number);
    struct stat found;
    unsetenv(WEIR_TAKEOVER_ENV);
    if (fd <= STDERR_FILENO || fstat(fd, &found) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EBADF,
                              WEIR_TAKEOVER_ENV " is set, but names no open file; unset it, only a server that reloads sets it");
    void *data = found.st_size > 0 ? mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int code = errno;
    close(fd);
    if (data == MAP_FAILED)
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't read what the server before left: %s", strerror(code));
    takeover->data = data;
    takeover->size = (size_t)found.st_size;
    uint32_t version = VERSION;
    if (takeover->size >= sizeof(struct header))
        memcpy(&version, takeover->data, sizeof version);
    if (version == VERSION)
        return 0;
    weir_takeover_close(takeover);
    return weir_error_set(error, WEIR_EXIT_USAGE, EPROTO,
                          "the running server was built by another weir, which leaves its connections in another form; restart it");
}

void weir_takeover_close(struct weir_takeover *takeover)
{
    if (takeover->data)
        munmap((void *)takeover->data, takeover->size);
    *takeover = (struct weir_takeover){ .data = NULL };
}

bool weir_takeover_next(struct weir_takeover *takeover, struct weir_takeover_record *record)
{
    struct header header;
    size_t left = takeover->size - takeover->position;
    if (left < sizeof header)
        return false;
    const uint8_t *at = takeover->data + takeover->position;
    memcpy(&header, at, sizeof header);
    left -= sizeof header;
    at += sizeof header;
    if (header.version != VERSION || header.name_bytes > left || header.data_bytes > left - header.name_bytes ||
        (header.name_bytes && at[header.name_bytes - 1]))
        return false;
    *record = (struct weir_takeover_record){ .kind = (enum weir_takeover_kind)header.kind, .fd = header.fd, .owner = header.owner,
        .name = header.name_bytes ? (const char *)at : NULL, .data = at + header.name_bytes, .data_bytes = header.data_bytes };
    takeover->position += sizeof header + header.name_bytes + header.data_bytes;
    return true;
}

void weir_takeover_rewind(struct weir_takeover *takeover)
{
    takeover->position = 0;
}
