/*
 * sockets: how full the kernel's queues in front of a target's listeners and on their connections are.
 * It stands beside the queue blocks: the session looks at random moments, and each look counts in the profile's ways in.
 *
 * Units: bytes, connections.
 * Owns: a socket to the kernel, until weir_sockets_close().
 * Threads: owner only; opening uses one more for a moment, to enter the target's network namespace.
 * Errors: none: where the kernel or the rights refuse a look, the ways in have no such figures.
 */
#ifndef WEIR_TRACER_SOCKETS_H
#define WEIR_TRACER_SOCKETS_H

#include <stdint.h>
#include <sys/types.h>

#include "base/profile.h"

#define WEIR_SOCKETS_MOST 64u

struct weir_sockets {
    int fd; /* -1: nobody can look */
    struct weir_sockets_listener {
        uint32_t way;
        uint8_t family;
        uint16_t port;       /* in network order */
        uint32_t address[4]; /* all 0: any */
    } listeners[WEIR_SOCKETS_MOST];
    uint32_t count;
    uint64_t next_ns; /* before that another look would cost too much */
};

void weir_sockets_open(struct weir_sockets *sockets, pid_t pid, const struct weir_topology *topology);
void weir_sockets_close(struct weir_sockets *sockets);

/* Looks, unless the last look was too short a time ago: `ways` are the profile's. */
void weir_sockets_look(struct weir_sockets *sockets, struct weir_profile_way *ways, uint64_t now_ns);

#endif
