/*
 * control: what `weir reload` and a running server say to each other.
 * It stands between the command line and runtime/reload.c.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 *
 * The server listens on a SOCK_SEQPACKET socket with an abstract name that has its start time in it (the contract's start_ns). One
 * packet asks, one answers:
 *
 *   request  "reload" NUL program NUL pipeline file NUL
 *   answer   "ok", or "error " and a sentence
 *
 * Only the server's own user and root are heard.
 */
#ifndef WEIR_RUNTIME_CONTROL_H
#define WEIR_RUNTIME_CONTROL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define WEIR_CONTROL_PACKET ((size_t)16384)
#define WEIR_CONTROL_RELOAD "reload"

/* `weir run` leaves these to the server, so that SIGHUP can build its pipeline file anew. */
#define WEIR_CONTROL_ENV_TOOL "WEIR_RELOAD_TOOL" /* path of the weir command */
#define WEIR_CONTROL_ENV_FILE "WEIR_RELOAD_FILE" /* path of the pipeline file */

/* Fills in the address; returns its length. */
static inline socklen_t weir_control_address(struct sockaddr_un *address, uint64_t start_ns)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "weir/%llx", (unsigned long long)start_ns);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

#endif
