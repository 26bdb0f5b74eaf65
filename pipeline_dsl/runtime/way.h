/*
 * way: what came in by one listener and what became of it, one event loop's share.
 * The block is the contract's; each change moves an item from one word to another, so that
 * accepted = answered + abandoned + discarded + in_flight holds in every snapshot.
 *
 * Units: items, bytes.
 * Owns: nothing.
 * Threads: the loop's own thread writes; others read by weir_seqlock_read().
 * Errors: none.
 */
#ifndef WEIR_RUNTIME_WAY_H
#define WEIR_RUNTIME_WAY_H

#include "pipeline_dsl/runtime/seqlock.h"

/* `overlaps`: an earlier request of the same connection is not answered yet. */
static inline void weir_way_accept(struct weir_contract_way *way, weir_u64 bytes, bool overlaps)
{
    weir_seqlock_begin(&way->sequence);
    weir_word_add(&way->accepted, 1);
    weir_word_add(&way->in_flight, 1);
    weir_word_add(&way->accepted_bytes, bytes);
    weir_word_add(&way->overlapped, overlaps);
    weir_seqlock_end(&way->sequence);
}

/* `word` is one of answered, abandoned, discarded. */
static inline void weir_way_end(struct weir_contract_way *way, weir_u64 *word, weir_u64 items)
{
    weir_seqlock_begin(&way->sequence);
    weir_word_add(word, items);
    weir_word_sub(&way->in_flight, items);
    weir_seqlock_end(&way->sequence);
}

/* What is counted beside the law: malformed, bad_lengths, events. */
static inline void weir_way_count(struct weir_contract_way *way, weir_u64 *word, weir_u64 more)
{
    weir_seqlock_begin(&way->sequence);
    weir_word_add(word, more);
    weir_seqlock_end(&way->sequence);
}

static inline void weir_way_connections(struct weir_contract_way *way, int change)
{
    weir_seqlock_begin(&way->sequence);
    __atomic_store_n(&way->connections, way->connections + (weir_u32)change, __ATOMIC_RELEASE);
    weir_word_add(&way->opened, change > 0);
    weir_seqlock_end(&way->sequence);
}

#endif
