/*
 * index_table: the hash table of one shard of the index.
 * It stands between index, which chooses the shard and what happens to an event, and index_entry.
 *
 * Units: hashes of 32 bits, whose top WEIR_INDEX_SHARD_BITS have chosen the shard; due times in units of 2^20 us (1.05 s) since the epoch.
 * Owns: its segments and the entries in them.
 * Threads: the shard's mutex guards all of it.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_STAGES_INDEX_TABLE_H
#define WEIR_STAGES_INDEX_TABLE_H

#include "pipeline_dsl/runtime/mutex.h"
#include "pipeline_dsl/stages/index_entry.h"

#define WEIR_INDEX_SHARD_BITS 5u
#define WEIR_INDEX_SEGMENT_BITS 8u
#define WEIR_INDEX_SEGMENT_SLOTS (1u << WEIR_INDEX_SEGMENT_BITS)

struct weir_index_slot {
    struct weir_index_entry *entry; /* null: empty */
    uint32_t hash;
    uint32_t due; /* the entry is not overdue before; it may be later than that. Of an empty slot UINT32_MAX */
};

struct weir_index_segment {
    uint32_t count;
    uint32_t depth; /* how many bits of the hash lead here */
    struct weir_index_slot slots[WEIR_INDEX_SEGMENT_SLOTS];
};

struct weir_index_shard {
    _Alignas(64) struct weir_mutex mutex; /* no two shards on one cache line */
    struct weir_index_segment **directory; /* [1 << depth]. Requires: mutex, as all below */
    uint32_t depth;
    uint64_t refused; /* events that found the index full */
    uint64_t expired; /* entries that were overdue, and removed */
};

int weir_index_table_init(struct weir_index_shard *shard);
void weir_index_table_release(struct weir_index_shard *shard);

/* A new entry, whose key is not there yet. The caller's still when that fails. */
int weir_index_table_add(struct weir_index_shard *shard, uint32_t hash, uint32_t due, struct weir_index_entry *entry)
    WEIR_REQUIRES(shard->mutex);
/* Empties a slot; its entry is the caller's. Others of the segment move. */
void weir_index_table_remove(struct weir_index_segment *segment, struct weir_index_slot *slot);
/* After removals: the segment of this place is joined with its neighbour while the two have little in them. */
void weir_index_table_shrink(struct weir_index_shard *shard, uint32_t place) WEIR_REQUIRES(shard->mutex);

/* The hash's bits behind those of the shard: places in the directory are its first ones. */
static inline uint32_t weir_index_table_place(uint32_t hash)
{
    return hash << WEIR_INDEX_SHARD_BITS;
}

static inline struct weir_index_segment *weir_index_table_segment(const struct weir_index_shard *shard, uint32_t place)
    WEIR_REQUIRES(shard->mutex)
{
    return shard->directory[((uint64_t)place << shard->depth) >> 32];
}

/* The slot of this hash will be looked at soon: slots of one message are far apart, and come together when they are asked for early. */
static inline void weir_index_table_prefetch(const struct weir_index_shard *shard, uint32_t hash)
    WEIR_REQUIRES(shard->mutex)
{
    __builtin_prefetch(&weir_index_table_segment(shard, weir_index_table_place(hash))->slots[hash % WEIR_INDEX_SEGMENT_SLOTS]);
}

/* The slot of a key, or null. */
static inline struct weir_index_slot *weir_index_table_find(struct weir_index_segment *segment, uint32_t hash, struct weir_bytes host,
                                                            struct weir_bytes service)
{
    for (uint32_t at = hash;; at++) {
        struct weir_index_slot *slot = &segment->slots[at % WEIR_INDEX_SEGMENT_SLOTS];
        if (!slot->entry)
            return NULL;
        if (slot->hash == hash && weir_index_entry_is(slot->entry, host, service))
            return slot;
    }
}

#endif
