/*
 * index: the latest event of every host and service, the working state of a Riemann server.
 * It stands behind decode; its stage takes events in and answers queries.
 *
 * The key is (host, service), each of which may be absent, which differs from "". The last write wins, also one with an older
 * time. An event whose state is "expired" deletes its key. An event without a time gets the server's.
 *
 * An event is overdue when its ttl is less than its age; then it stays until the reaper takes it (index_reaper.h). Without a ttl
 * the index's own holds; so it does where the ttl is no number (NaN). A negative ttl is overdue at once, an infinite one never, and
 * the age of an event with a time in the future begins at that time.
 *
 * A full index refuses events with new keys, and goes on with those that it has.
 *
 * Units: time in us since the epoch; ttl in s.
 * Owns: copies of the events, one packed block each.
 * Threads: any; the map is split into shards with a lock each.
 * Errors: -ENOSPC when a new key would exceed the limit, -ENOMEM.
 */
#ifndef WEIR_STAGES_INDEX_H
#define WEIR_STAGES_INDEX_H

#include "pipeline_dsl/stages/index_table.h"

#define WEIR_INDEX_SHARDS (1u << WEIR_INDEX_SHARD_BITS)

struct weir_index;

/* A way through the index that holds a lock for some microseconds at a time. What is there from the begin to the end of the walk
 * is met exactly once.
 *
 * `entries` don't change until the next call: who writes to one of them meanwhile leaves it behind, and makes another. */
struct weir_index_walk {
    struct weir_index *index;
    uint32_t shard;
    uint64_t place; /* in that shard, as weir_index_table_place() */
    uint32_t pinned_shard;
    uint32_t count;
    struct weir_index_entry *entries[WEIR_INDEX_SEGMENT_SLOTS]; /* [count] */
};

struct weir_index {
    struct weir_index_shard shards[WEIR_INDEX_SHARDS];
    uint64_t seed;                   /* of the hash: nobody outside can know which keys share a slot */
    uint64_t limit;                  /* entries; 0: none */
    float default_ttl;               /* of an event without one */
    _Alignas(64) size_t entry_count; /* atomic */
    struct weir_index_walk reaper;   /* of whoever has set `reaping` (index_reaper.h) */
    bool reaping;                    /* atomic */
};

/* `ttl_ns` 0: Riemann's default of 60 s. */
void weir_index_init(struct weir_index *index, uint64_t ttl_ns, uint64_t limit);
/* Nobody walks through it any more. */
void weir_index_release(struct weir_index *index);

/* Stores a copy, or deletes the key. `now_us` is the time of an event without one. */
int weir_index_put(struct weir_index *index, const struct weir_event *event, int64_t now_us);
/* The same for the events of a message, with fewer locks. Stores each that it can, and returns the first error. */
int weir_index_put_all(struct weir_index *index, const struct weir_event *events, size_t count, int64_t now_us);

/* What it counts: [0] keys that it has now, [1] events with new keys that found it full, [2] entries that were overdue, and taken out. */
enum { WEIR_INDEX_SIZE, WEIR_INDEX_REFUSED, WEIR_INDEX_EXPIRED, WEIR_INDEX_TALLIES };
extern const char *const weir_index_tally_names[WEIR_INDEX_TALLIES];
void weir_index_tally(void *index, uint64_t values[WEIR_INDEX_TALLIES]);

/* --- all entries, some at a time ----------------------------------------------------------------------------------------- */

void weir_index_walk_init(struct weir_index_walk *walk, struct weir_index *index);
/* Fills `entries` with the next ones. Returns their count, 0 at the end. */
uint32_t weir_index_walk_next(struct weir_index_walk *walk);
/* With the one of this key, if there is one; the walk goes nowhere. */
uint32_t weir_index_walk_key(struct weir_index_walk *walk, struct weir_bytes host, struct weir_bytes service);
/* Goes to where an entry may be overdue. False: there is none up to the end. */
bool weir_index_walk_seek(struct weir_index_walk *walk, int64_t now_us);
/* With the overdue ones of the next `segments_most` segments, at most until some are found; they are no longer in the index.
 * Returns false at the end. */
bool weir_index_walk_overdue(struct weir_index_walk *walk, int64_t now_us, uint32_t segments_most);
/* Lets go of `entries`. Needed after a walk that did not come to its end. */
void weir_index_walk_end(struct weir_index_walk *walk);

#endif
