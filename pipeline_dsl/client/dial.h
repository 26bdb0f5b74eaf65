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

#include <stdint.h>

#include "base/error.h"

/* Connects to "127.0.0.1:5555", "[::1]:5555" or "localhost:5555", trying each address of a name, each for at most
 * `timeout_ns`. Returns a non-blocking socket with TCP_NODELAY, or -errno. */
int weir_dial(const char *address, uint64_t timeout_ns, struct weir_error *error);

#endif
