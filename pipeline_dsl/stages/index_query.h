/*
 * index_query: what an index answers to a query.
 * It stands behind decode, in the index's stage, after the events of the same message; `encode` sends the reply.
 *
 * `host = H and service = S` is looked up; every other query is asked of each event. Which order the events come in is not said.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: any.
 * Errors: -EINVAL for what is no query, -E2BIG for one that takes too long, -EMSGSIZE for a reply beyond WEIR_REPLY_RING_BYTES,
 *         -ENOMEM; each with a sentence for the client.
 */
#ifndef WEIR_STAGES_INDEX_QUERY_H
#define WEIR_STAGES_INDEX_QUERY_H

#include "pipeline_dsl/stages/index.h"

/* Writes the framed reply, ok and the events, into an empty buffer; which is empty again after an error. `excess`, if not null, is
 * that of earlier queries (query.h), and gets that of this one added; any thread may do so at once. */
int weir_index_query(struct weir_index *index, struct weir_bytes text, uint64_t *excess, struct weir_buffer *reply,
                     struct weir_error *error);

#endif
