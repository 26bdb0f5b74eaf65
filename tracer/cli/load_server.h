/*
 * load_server: the process that listens on the port under load, when it is on this machine and may be looked at.
 *
 * Units: ns.
 * Owns: nothing.
 * Threads: one at a time.
 * Errors: none; what can't be known is said to be unknown.
 */
#ifndef WEIR_CLI_LOAD_SERVER_H
#define WEIR_CLI_LOAD_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#define LOAD_SERVER_THREADS 256u

struct load_server {
    int pid;           /* 0: none found */
    char unknown[160]; /* why */
    char name[32];
    unsigned threads;
    struct {
        int id;
        uint64_t cpu_ns;
        char name[32];
    } thread[LOAD_SERVER_THREADS];
    uint64_t cpu_ns, at_ns;
    uint64_t machine_busy, machine_all; /* of all CPUs, in the kernel's ticks */
};

/* What it used between two looks. */
struct load_server_use {
    bool known;
    int pid;
    char name[32];
    double cpus;         /* of all of its threads together */
    unsigned cores;      /* CPUs that it may use */
    double busiest;      /* of the one that used most, 0 to 1 */
    char thread[32];     /* its name */
    double machine;      /* CPUs that were busy with anything at all; known even without a server */
};

/* Finds who listens on "HOST:PORT", by TCP or for datagrams, if HOST is this machine. */
void load_server_find(struct load_server *server, const char *address, bool datagram);
/* Looks at its threads now. */
void load_server_look(struct load_server *server);
struct load_server_use load_server_between(const struct load_server *before, const struct load_server *after);

#endif
