/*
 * index: the latest event of every host and service, the working state of a Riemann server.
 * It stands behind decode; its stage takes events in.
 *
 * The key is (host, service), each of which may be absent, which differs from "". The last write wins, also one with an older
 * time. An event whose state is "expired" deletes its key. An event without a time gets the server's.
 *
 * Units: time in us since the epoch; ttl in s.
 * Owns: copies of the events, one packed block each.
 * Threads: any; the map is split into shards with a lock each.
 * Errors: -ENOSPC when a new key would exceed the limit, -ENOMEM.
 */
#ifndef WEIR_STAGES_INDEX_H
#define WEIR_STAGES_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "pipeline_dsl/runtime/mutex.h"
#include "pipeline_dsl/wire/message.h"

#define WEIR_INDEX_SHARDS 32u

struct weir_index_entry;

struct weir_index_shard {
    _Alignas(64) struct weir_mutex mutex; /* no two shards on one cache line */
    struct weir_index_entry **buckets; /* [bucket_count]: chains; a power of 2. Requires: mutex, as all below */
    size_t bucket_count, entry_count;
    int64_t swept_us; /* when a full index last looked here for what is overdue */
};

struct weir_index {
    struct weir_index_shard shards[WEIR_INDEX_SHARDS];
    uint64_t limit;      /* entries; 0: none */
    float default_ttl;   /* of an event without one */
    size_t entry_count;  /* atomic */
};

/* `ttl_ns` 0: Riemann's default of 60 s. */
void weir_index_init(struct weir_index *index, uint64_t ttl_ns, uint64_t limit);
void weir_index_release(struct weir_index *index);

/* Stores a copy, or deletes the key. `now_us` is the time of an event without one. */
int weir_index_put(struct weir_index *index, const struct weir_event *event, int64_t now_us);
/* The same for the events of a message, with fewer locks. Stores each that it can, and returns the first error. */
int weir_index_put_all(struct weir_index *index, const struct weir_event *events, size_t count, int64_t now_us);
size_t weir_index_count(const struct weir_index *index);
/* A copy of the event in `arena`. Returns whether there is one. */
bool weir_index_get(struct weir_index *index, struct weir_bytes host, struct weir_bytes service, struct weir_arena *arena,
                    struct weir_event *event);

#endif
