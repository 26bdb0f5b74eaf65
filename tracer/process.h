/*
 * process: one running process, found by what the user calls it and held by descriptors, so that a recycled PID can't confuse us.
 * It stands before target, which looks for a weir server in it.
 *
 * Units: addresses of the process; ns.
 * Owns: its descriptors, until weir_process_close().
 * Threads: owner only.
 * Errors: WEIR_EXIT_USAGE for a name that fits none or several, WEIR_EXIT_CANNOT for what may not be read, naming the capability.
 */
#ifndef WEIR_TRACER_PROCESS_H
#define WEIR_TRACER_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/error.h"

struct weir_process {
    pid_t pid;
    int pidfd;             /* readable once it has exited */
    int exe_fd;            /* the executable as it was started, even when the file has been replaced */
    int mem_fd;            /* -1: memory is read by process_vm_readv only */
    clockid_t cpu_clock;   /* CPU time of the whole process */
    char exe[PATH_MAX];    /* where the executable lay, without " (deleted)" */
    char name[64];         /* its last part */
    bool replaced;         /* the path holds another file by now, or none */
};

/* Finds the one process that is meant by `target`: a PID, the path of an executable (anything with a slash) or a process name. */
int weir_process_find(const char *target, pid_t *pid, struct weir_error *error);

int weir_process_open(struct weir_process *process, pid_t pid, struct weir_error *error);
void weir_process_close(struct weir_process *process);
bool weir_process_exited(const struct weir_process *process);

/* Where the first mapping of the executable at file offset `offset` starts; false when there is none. */
bool weir_process_mapping(const struct weir_process *process, uint64_t offset, uint64_t *start);

/* Copies memory of the process, all or nothing. Returns 0 or -errno (-ESRCH: it is gone). */
int weir_process_read(const struct weir_process *process, uint64_t address, void *to, size_t size);
/* The same for several pieces, in order: `local` and `remote` sum to the same size. */
int weir_process_read_pieces(const struct weir_process *process, const struct iovec *local, size_t local_count,
                             const struct iovec *remote, size_t remote_count);

/* CPU time of the whole process so far, ns; 0 once it is gone. */
uint64_t weir_process_cpu_ns(const struct weir_process *process);

#endif
