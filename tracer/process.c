#include "tracer/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "tracer/capabilities.h"

#define MATCHES_MOST 20
#define DELETED " (deleted)"

/* The whole of a small file of /proc, with a NUL behind it. */
static bool slurp(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t got;
    while (length < size - 1 && (got = read(fd, to + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(fd);
    to[length] = 0;
    return length > 0;
}

static bool exe_of(pid_t pid, char *path, size_t size)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)pid);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0)
        return false;
    path[length] = 0;
    return true;
}

static bool cut_deleted(char *path)
{
    size_t length = strlen(path), tail = sizeof DELETED - 1;
    if (length <= tail || strcmp(path + length - tail, DELETED) != 0)
        return false;
    path[length - tail] = 0;
    return true;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_number(const char *text)
{
    if (!*text)
        return false;
    for (; *text; text++)
        if (!isdigit((unsigned char)*text))
            return false;
    return true;
}

/* --- find ------------------------------------------------------------------------------------------------------------------- */

static bool fits(pid_t pid, const char *target, bool is_path, char *exe, size_t size)
{
    char path[64], comm[64];
    bool known = exe_of(pid, exe, size);
    if (known)
        cut_deleted(exe);
    else if (errno == ENOENT)
        return false; /* a kernel thread, or dead and not yet waited for */
    if (is_path)
        return known && strcmp(exe, target) == 0;
    if (known && strcmp(last_part(exe), target) == 0)
        return true;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if (!slurp(path, comm, sizeof comm))
        return false;
    comm[strcspn(comm, "\n")] = 0;
    if (!known)
        snprintf(exe, size, "%s", comm);
    return strcmp(comm, target) == 0;
}

static int find_by_name(const char *target, pid_t *pid, struct weir_error *error)
{
    bool is_path = strchr(target, '/') != NULL;
    char resolved[PATH_MAX], exe[PATH_MAX];
    if (is_path && realpath(target, resolved))
        target = resolved;
    DIR *proc = opendir("/proc");
    if (!proc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, errno, "can't list processes: /proc: %s", strerror(errno));
    struct weir_buffer list = WEIR_BUFFER_INIT;
    unsigned matches = 0;
    char first[PATH_MAX] = "";
    bool same_exe = true;
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t candidate = is_number(entry->d_name) ? (pid_t)atoi(entry->d_name) : 0;
        if (candidate <= 0 || candidate == getpid() || !fits(candidate, target, is_path, exe, sizeof exe))
            continue;
        *pid = candidate;
        if (!matches)
            snprintf(first, sizeof first, "%s", exe);
        same_exe &= strcmp(first, exe) == 0;
        if (++matches <= MATCHES_MOST)
            weir_buffer_printf(&list, "%s%d (%.80s)", matches > 1 ? ", " : "", (int)candidate, exe);
    }
    closedir(proc);
    int rc = 0;
    if (matches == 0)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, ESRCH,
                            "no process %s '%s'; give a PID, a process name or the path of an executable",
                            is_path ? "runs" : "is called", target);
    else if (matches > 1)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%u processes match '%s': %s%s; give one PID%s", matches, target,
                            weir_buffer_text(&list), matches > MATCHES_MOST ? ", …" : "", same_exe ? "" : ", or the path of one");
    weir_buffer_release(&list);
    return rc;
}

int weir_process_find(const char *target, pid_t *pid, struct weir_error *error)
{
    if (!is_number(target))
        return find_by_name(target, pid, error);
    char path[64], status[4096];
    long number = strtol(target, NULL, 10);
    if (number > INT_MAX || number <= 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "'%s' is not a PID", target);
    snprintf(path, sizeof path, "/proc/%ld/status", number);
    if (!slurp(path, status, sizeof status))
        return weir_error_set(error, WEIR_EXIT_USAGE, ESRCH, "there is no process %ld", number);
    const char *leader = strstr(status, "\nTgid:");
    long group = leader ? strtol(leader + 6, NULL, 10) : number;
    if (group != number)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%ld is a thread of process %ld; give that PID", number, group);
    *pid = (pid_t)number;
    return 0;
}

/* --- open ------------------------------------------------------------------------------------------------------------------- */

static int refuse(struct weir_error *error, pid_t pid, const char *what, int code)
{
    if (code == EACCES || code == EPERM)
        return weir_capabilities_refused(what, (int)pid, error);
    if (code == ENOENT)
        return weir_error_set(error, WEIR_EXIT_CANNOT, code,
                              "process %d has no executable (a kernel thread, or it has just exited)", (int)pid);
    return weir_error_set(error, code == ESRCH ? WEIR_EXIT_USAGE : WEIR_EXIT_CANNOT, code, "can't read %s of process %d: %s",
                          what, (int)pid, strerror(code));
}

int weir_process_open(struct weir_process *process, pid_t pid, struct weir_error *error)
{
    char path[64];
    int rc = -EIO;
    struct stat opened, there;
    *process = (struct weir_process){ .pid = pid, .pidfd = -1, .exe_fd = -1, .mem_fd = -1 };
    process->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (process->pidfd < 0) {
        rc = weir_error_set(error, errno == ESRCH ? WEIR_EXIT_USAGE : WEIR_EXIT_CANNOT, errno, "can't hold on to process %d: %s",
                            (int)pid, strerror(errno));
        goto out;
    }
    if (!exe_of(pid, process->exe, sizeof process->exe)) {
        rc = refuse(error, pid, "the executable", errno);
        goto out;
    }
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    process->exe_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (process->exe_fd < 0 || fstat(process->exe_fd, &opened) != 0) {
        rc = refuse(error, pid, "the executable", errno);
        goto out;
    }
    process->replaced = cut_deleted(process->exe) ||
                        (stat(process->exe, &there) == 0 && (there.st_ino != opened.st_ino || there.st_dev != opened.st_dev));
    snprintf(process->name, sizeof process->name, "%.63s", last_part(process->exe));
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    process->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
    if (clock_getcpuclockid(pid, &process->cpu_clock) != 0) {
        rc = refuse(error, pid, "the CPU clock", ESRCH);
        goto out;
    }
    rc = 0;
out:
    if (rc)
        weir_process_close(process);
    return rc;
}

void weir_process_close(struct weir_process *process)
{
    int *const fds[] = { &process->pidfd, &process->exe_fd, &process->mem_fd };
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

bool weir_process_exited(const struct weir_process *process)
{
    struct pollfd wait = { .fd = process->pidfd, .events = POLLIN };
    return poll(&wait, 1, 0) > 0;
}

bool weir_process_mapping(const struct weir_process *process, uint64_t offset, uint64_t *start)
{
    char path[64];
    struct stat opened;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)process->pid);
    FILE *maps = fopen(path, "re");
    if (!maps || fstat(process->exe_fd, &opened) != 0) {
        if (maps)
            fclose(maps);
        return false;
    }
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, maps) > 0) {
        unsigned long long low, high, at, inode;
        int name = 0;
        if (sscanf(line, "%llx-%llx %*s %llx %*s %llu %n", &low, &high, &at, &inode, &name) < 4 || at != offset)
            continue;
        line[strcspn(line, "\n")] = 0;
        /* Some file systems show another inode number here than stat does; the path then decides. */
        size_t length = strlen(process->exe);
        bool same = inode == opened.st_ino || (strncmp(line + name, process->exe, length) == 0 &&
            (line[name + (int)length] == 0 || strcmp(line + name + length, DELETED) == 0));
        if (same) {
            *start = low;
            found = true;
        }
    }
    free(line);
    fclose(maps);
    return found;
}

/* --- memory and time -------------------------------------------------------------------------------------------------------- */

int weir_process_read(const struct weir_process *process, uint64_t address, void *to, size_t size)
{
    struct iovec local = { to, size }, remote = { (void *)(uintptr_t)address, size };
    if (size == 0)
        return 0;
    errno = 0;
    if (process_vm_readv(process->pid, &local, 1, &remote, 1, 0) == (ssize_t)size)
        return 0;
    int code = errno ? errno : EFAULT;
    if (process->mem_fd >= 0 && address <= INT64_MAX && pread(process->mem_fd, to, size, (off_t)address) == (ssize_t)size)
        return 0;
    return -code;
}

int weir_process_read_pieces(const struct weir_process *process, const struct iovec *local, size_t local_count,
                             const struct iovec *remote, size_t remote_count)
{
    size_t size = 0;
    for (size_t i = 0; i < remote_count; i++)
        size += remote[i].iov_len;
    errno = 0;
    ssize_t got = process_vm_readv(process->pid, local, local_count, remote, remote_count, 0);
    return got == (ssize_t)size ? 0 : errno ? -errno : -EFAULT;
}

uint64_t weir_process_cpu_ns(const struct weir_process *process)
{
    struct timespec now;
    if (clock_gettime(process->cpu_clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
