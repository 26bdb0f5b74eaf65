#include "base/file.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"

/* Returns 0 or an errno. */
static int write_all(int fd, const char *data, size_t size)
{
    while (size) {
        ssize_t written = write(fd, data, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        data += written;
        size -= (size_t)written;
    }
    return 0;
}

/* A new file beside `path`, whose name is left in `name`. The kernel applies the umask, which a mkstemp() would not. */
static int open_beside(const char *path, struct weir_buffer *name)
{
    for (unsigned i = 0; i < 1000; i++) {
        weir_buffer_clear(name);
        weir_buffer_printf(name, "%s.%d-%u", path, (int)getpid(), i);
        if (name->failed) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(name->data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

int weir_file_write(const char *path, const void *data, size_t size, const char *what, struct weir_error *error)
{
    struct weir_buffer name = WEIR_BUFFER_INIT;
    struct stat old;
    bool direct = stat(path, &old) == 0 && !S_ISREG(old.st_mode);
    int fd = direct ? open(path, O_WRONLY | O_CLOEXEC) : open_beside(path, &name);
    int code = fd < 0 ? errno : write_all(fd, data, size);
    if (fd >= 0 && close(fd) != 0 && !code)
        code = errno;
    if (!code && !direct && rename(name.data, path) != 0)
        code = errno;
    if (code && fd >= 0 && !direct)
        unlink(name.data);
    weir_buffer_release(&name);
    if (code)
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't write %s to %s: %s", what, path,
                              code == ENOSPC || code == EDQUOT ? "the disk is full; free some space or choose another place" : strerror(code));
    return 0;
}
