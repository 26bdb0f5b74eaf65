/*
 * dial: from the text of an address to a connected socket.
 * It stands before everything else a client does.
 *
 * Units: ns.
 * Owns: the socket is the caller's.
 * Threads: any.
 * Errors: -EINVAL for what is no address, else what the system said; the sentence names the address.
 */
#ifndef WEIR_CLIENT_DIAL_H
#define WEIR_CLIENT_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct weir_dial_options {
    uint64_t timeout_ns;   /* for each address of a name */
    int cancel_fd;         /* once readable, the dialling ends with -ECANCELED; -1: none */
    bool datagram;         /* UDP; "connecting" then only fixes the address */
    int send_buffer_bytes; /* 0: the system's */
};
/* Connects to "127.0.0.1:5555", "[::1]:5555" or "localhost:5555", trying each address of a name in turn. Returns a non-blocking
 * socket with TCP_NODELAY, or -errno. */
int weir_dial(const char *address, const struct weir_dial_options *options, struct weir_error *error);

#endif
