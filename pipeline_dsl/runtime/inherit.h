/*
 * inherit: what a server has from the one before it, which the same process was: listening sockets,
 * connections, and what its stages kept.
 * It stands between takeover.h, which reads the records, and the start of the server.
 *
 * Units: none.
 * Owns: the descriptors of records that nobody wants, which it closes.
 * Threads: the server's main thread.
 * Errors: none; a connection that can't be had is closed.
 */
#ifndef WEIR_RUNTIME_INHERIT_H
#define WEIR_RUNTIME_INHERIT_H

#include "pipeline_dsl/runtime/server.h"

/* A socket that the server before this one bound for `address` and that no way in before this one has taken. */
bool weir_inherit_listener(struct weir_server *server, uint32_t way, const char *address);
/* Everything else, what stages kept first, once the loops run. Connections whose way in is gone, or is of another protocol now, are closed, and so are
 * listeners that nobody listens on any more. */
void weir_inherit_rest(struct weir_server *server);

#endif
