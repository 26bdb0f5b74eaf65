/*
 * DESIGN: 32 shards, chosen by the first bits of the key's hash; in each a hash table under a mutex (index_table.c). The events of
 * a message are sorted by shard first, so that a message of 100 takes 30 locks and not 100, and a shard that another thread holds
 * just now is left for the end. An event is one block, so that a write that fits the old block is a copy and no malloc; series
 * report again and again with the same shape.
 *
 * Events of one key stay in their order: they share a shard, and the sort is stable.
 *
 * Who walks through the index pins what the next segment holds, and reads it without the lock: however long a query takes for an
 * event, and however large that is, writers wait for no more than the pinning. A write to a pinned entry makes a new block
 * instead, and the old one goes when it is unpinned.
 *
 * Lock order: one shard's mutex at a time, innermost.
 */
#include "pipeline_dsl/stages/index.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/error.h"

#define SORTED_MOST ((size_t)256) /* events that are sorted at once */
#define PLACES ((uint64_t)1 << 32)

/* --- keys ---------------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(uint64_t hash, struct weir_bytes bytes)
{
    const uint8_t *data = bytes.data;
    size_t size = bytes.size;
    uint64_t word = 0;
    hash = mix(hash, data ? size + 1 : 0);
    if (size < 8) {
        for (size_t i = 0; i < size; i++)
            word = word << 8 | data[i];
        return mix(hash, word);
    }
    for (; size > 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        hash = mix(hash, word);
    }
    memcpy(&word, data + size - 8, 8); /* the last 8, some of them again */
    return mix(hash, word);
}

static uint32_t hash_key(const struct weir_index *index, struct weir_bytes host, struct weir_bytes service)
{
    return (uint32_t)(hash_bytes(hash_bytes(index->seed, host), service) >> 32);
}

static size_t shard_of(uint32_t hash)
{
    return hash >> (32 - WEIR_INDEX_SHARD_BITS);
}

/* --- time ---------------------------------------------------------------------------------------------------------------- */

static float ttl_of(const struct weir_index *index, bool has_ttl, float ttl)
{
    return has_ttl && !isnan(ttl) ? ttl : index->default_ttl;
}

static uint32_t due_unit(double us)
{
    return us < 0 ? 0 : us >= 0x1p52 ? UINT32_MAX : (uint32_t)((uint64_t)us >> 20);
}

/* A client's time may be any number, so ages are doubles. */
static bool overdue(const struct weir_index *index, const struct weir_index_entry *entry, int64_t now_us)
{
    double ttl = (double)ttl_of(index, entry->flags & WEIR_INDEX_HAS_TTL, entry->ttl);
    return ttl < ((double)now_us - (double)entry->time_us) / 1e6;
}

/* --- the map ------------------------------------------------------------------------------------------------------------- */

void weir_index_init(struct weir_index *index, uint64_t ttl_ns, uint64_t limit)
{
    *index = (struct weir_index){ .limit = limit, .default_ttl = ttl_ns ? (float)ttl_ns / 1e9f : 60.0f };
    if (getrandom(&index->seed, sizeof index->seed, 0) != (ssize_t)sizeof index->seed)
        weir_bug("the kernel has no random numbers");
    for (uint32_t i = 0; i < WEIR_INDEX_SHARDS; i++)
        if (weir_index_table_init(&index->shards[i]) != 0)
            weir_bug("no memory for an empty index");
    weir_index_walk_init(&index->reaper, index);
}

void weir_index_release(struct weir_index *index)
{
    for (uint32_t i = 0; i < WEIR_INDEX_SHARDS; i++)
        weir_index_table_release(&index->shards[i]);
}

/* An entry that is no longer in the table. */
static void drop(struct weir_index_entry *entry)
{
    if (entry->pins)
        entry->pins |= WEIR_INDEX_ORPHAN;
    else
        free(entry);
}

static void take_out(struct weir_index *index, struct weir_index_segment *segment, struct weir_index_slot *slot)
{
    weir_index_table_remove(segment, slot);
    __atomic_fetch_sub(&index->entry_count, 1, __ATOMIC_RELAXED);
}

/* Counts one more entry, unless that is one too many. */
static bool has_room(struct weir_index *index)
{
    size_t before = __atomic_fetch_add(&index->entry_count, 1, __ATOMIC_RELAXED);
    if (!index->limit || before < index->limit)
        return true;
    __atomic_fetch_sub(&index->entry_count, 1, __ATOMIC_RELAXED);
    return false;
}

static int put_new(struct weir_index *index, struct weir_index_shard *shard, uint32_t hash, uint32_t due, size_t size,
                   const struct weir_event *event, int64_t now_us)
    WEIR_REQUIRES(shard->mutex)
{
    if (!has_room(index)) {
        shard->refused++;
        return -ENOSPC;
    }
    struct weir_index_entry *entry = weir_index_entry_new(size);
    if (entry && weir_index_table_add(shard, hash, due, entry) == 0) {
        weir_index_entry_fill(entry, event, false, now_us);
        return 0;
    }
    free(entry);
    __atomic_fetch_sub(&index->entry_count, 1, __ATOMIC_RELAXED);
    return -ENOMEM;
}

/* Whether an event of this size is written into the old one's block: not when somebody reads that, nor when it would keep far more
 * memory than it needs. */
static bool fits(const struct weir_index_entry *entry, size_t size)
{
    return size <= entry->capacity && !entry->pins && entry->capacity / 4 <= size + 64;
}

static int put(struct weir_index *index, struct weir_index_shard *shard, uint32_t hash, const struct weir_event *event, int64_t now_us)
    WEIR_REQUIRES(shard->mutex)
{
    static const char expired[] = "expired";
    struct weir_index_segment *segment = weir_index_table_segment(shard, weir_index_table_place(hash));
    struct weir_index_slot *slot = weir_index_table_find(segment, hash, event->host, event->service);
    if (event->state.size == sizeof expired - 1 && memcmp(event->state.data, expired, sizeof expired - 1) == 0) {
        if (slot) {
            drop(slot->entry);
            take_out(index, segment, slot);
            weir_index_table_shrink(shard, weir_index_table_place(hash));
        }
        return 0;
    }
    size_t size = weir_index_entry_size(event);
    double time_us = (double)(event->has_time ? event->time_us : now_us);
    uint32_t due = due_unit(time_us + (double)ttl_of(index, event->has_ttl, event->ttl) * 1e6);
    if (!slot)
        return put_new(index, shard, hash, due, size, event, now_us);
    bool same = fits(slot->entry, size);
    if (!same) {
        struct weir_index_entry *entry = weir_index_entry_new(size);
        if (!entry)
            return -ENOMEM;
        drop(slot->entry);
        slot->entry = entry;
    }
    slot->due = due;
    weir_index_entry_fill(slot->entry, event, same, now_us);
    return 0;
}

int weir_index_put(struct weir_index *index, const struct weir_event *event, int64_t now_us)
{
    uint32_t hash = hash_key(index, event->host, event->service);
    struct weir_index_shard *shard = &index->shards[shard_of(hash)];
    weir_mutex_lock(&shard->mutex);
    int rc = put(index, shard, hash, event, now_us);
    weir_mutex_unlock(&shard->mutex);
    return rc;
}

/* Events in the order of their shards: those of shard s are events[order[first[s]]] to events[order[first[s + 1] - 1]]. */
struct sorted {
    const struct weir_event *events;
    int64_t now_us;
    uint32_t hashes[SORTED_MOST];
    uint16_t order[SORTED_MOST];
    uint16_t first[WEIR_INDEX_SHARDS + 1];
};

static void sort(const struct weir_index *index, struct sorted *sorted, size_t count)
{
    uint16_t next[WEIR_INDEX_SHARDS] = { 0 };
    for (size_t i = 0; i < count; i++) {
        sorted->hashes[i] = hash_key(index, sorted->events[i].host, sorted->events[i].service);
        next[shard_of(sorted->hashes[i])]++;
    }
    uint16_t sum = 0;
    for (size_t s = 0; s < WEIR_INDEX_SHARDS; s++) {
        uint16_t of_shard = next[s];
        sorted->first[s] = next[s] = sum;
        sum = (uint16_t)(sum + of_shard);
    }
    sorted->first[WEIR_INDEX_SHARDS] = sum;
    for (size_t i = 0; i < count; i++)
        sorted->order[next[shard_of(sorted->hashes[i])]++] = (uint16_t)i;
}

static int put_shard(struct weir_index *index, struct weir_index_shard *shard, const struct sorted *sorted)
    WEIR_REQUIRES(shard->mutex)
{
    size_t s = (size_t)(shard - index->shards);
    int rc = 0;
    for (size_t at = sorted->first[s]; at < sorted->first[s + 1]; at++)
        weir_index_table_prefetch(shard, sorted->hashes[sorted->order[at]]);
    for (size_t at = sorted->first[s]; at < sorted->first[s + 1]; at++) {
        uint16_t i = sorted->order[at];
        int one = put(index, shard, sorted->hashes[i], &sorted->events[i], sorted->now_us);
        rc = rc ? rc : one;
    }
    return rc;
}

static int put_sorted(struct weir_index *index, const struct sorted *sorted)
{
    struct weir_index_shard *held_elsewhere[WEIR_INDEX_SHARDS];
    size_t left = 0;
    int rc = 0, one;
    for (size_t s = 0; s < WEIR_INDEX_SHARDS; s++) {
        struct weir_index_shard *shard = &index->shards[s];
        if (sorted->first[s] == sorted->first[s + 1])
            continue;
        if (!weir_mutex_try(&shard->mutex)) {
            held_elsewhere[left++] = shard;
            continue;
        }
        one = put_shard(index, shard, sorted);
        weir_mutex_unlock(&shard->mutex);
        rc = rc ? rc : one;
    }
    for (size_t i = 0; i < left; i++) {
        struct weir_index_shard *shard = held_elsewhere[i];
        weir_mutex_lock(&shard->mutex);
        one = put_shard(index, shard, sorted);
        weir_mutex_unlock(&shard->mutex);
        rc = rc ? rc : one;
    }
    return rc;
}

int weir_index_put_all(struct weir_index *index, const struct weir_event *events, size_t count, int64_t now_us)
{
    struct sorted sorted;
    int rc = 0;
    if (count == 1)
        return weir_index_put(index, events, now_us);
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < SORTED_MOST ? count - at : SORTED_MOST;
        sorted.events = events + at;
        sorted.now_us = now_us;
        sort(index, &sorted, some);
        int one = put_sorted(index, &sorted);
        rc = rc ? rc : one;
    }
    return rc;
}

const char *const weir_index_tally_names[WEIR_INDEX_TALLIES] = { "size", "refused", "expired" };

void weir_index_tally(void *object, uint64_t values[WEIR_INDEX_TALLIES])
{
    struct weir_index *index = object;
    values[WEIR_INDEX_SIZE] = __atomic_load_n(&index->entry_count, __ATOMIC_RELAXED);
    values[WEIR_INDEX_REFUSED] = values[WEIR_INDEX_EXPIRED] = 0;
    for (uint32_t i = 0; i < WEIR_INDEX_SHARDS; i++) {
        struct weir_index_shard *shard = &index->shards[i];
        weir_mutex_lock(&shard->mutex);
        values[WEIR_INDEX_REFUSED] += shard->refused;
        values[WEIR_INDEX_EXPIRED] += shard->expired;
        weir_mutex_unlock(&shard->mutex);
    }
}

/* --- walks --------------------------------------------------------------------------------------------------------------- */

void weir_index_walk_init(struct weir_index_walk *walk, struct weir_index *index)
{
    walk->index = index;
    walk->shard = 0;
    walk->place = 0;
    walk->count = 0;
}

/* A segment may begin before the walk's place, when it has been joined with one that the walk has been to. The entries are far
 * apart in memory; what is asked for early comes together. */
static void pin_all(struct weir_index_walk *walk, struct weir_index_segment *segment, uint64_t from)
{
    for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
        if (segment->slots[i].entry && weir_index_table_place(segment->slots[i].hash) >= from) {
            walk->entries[walk->count++] = segment->slots[i].entry;
            __builtin_prefetch(segment->slots[i].entry, 1);
            __builtin_prefetch((const char *)segment->slots[i].entry + 64);
        }
    for (uint32_t i = 0; i < walk->count; i++)
        walk->entries[i]->pins++;
}

/* Whether an entry may be overdue. */
static bool some_due(const struct weir_index_segment *segment, int64_t now_us)
{
    uint32_t now = due_unit((double)now_us), some = 0;
    for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
        some |= segment->slots[i].due <= now;
    return some;
}

static void pin_overdue(struct weir_index_walk *walk, struct weir_index_shard *shard, struct weir_index_segment *segment, int64_t now_us)
    WEIR_REQUIRES(shard->mutex)
{
    uint32_t now = due_unit((double)now_us);
    if (!some_due(segment, now_us))
        return;
    for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
        if (segment->slots[i].due <= now)
            __builtin_prefetch(segment->slots[i].entry, 1);
    for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS;) {
        struct weir_index_slot *slot = &segment->slots[i];
        if (!slot->entry || slot->due > now || !overdue(walk->index, slot->entry, now_us)) {
            i++;
            continue;
        }
        struct weir_index_entry *entry = slot->entry;
        entry->pins = (uint16_t)((entry->pins + 1u) | WEIR_INDEX_ORPHAN);
        walk->entries[walk->count++] = entry;
        take_out(walk->index, segment, slot); /* another may have moved to here */
        shard->expired++;
    }
}

void weir_index_walk_end(struct weir_index_walk *walk)
{
    if (!walk->count)
        return;
    struct weir_index_shard *shard = &walk->index->shards[walk->pinned_shard];
    uint32_t free_count = 0;
    weir_mutex_lock(&shard->mutex);
    for (uint32_t i = 0; i < walk->count; i++)
        if (--walk->entries[i]->pins == WEIR_INDEX_ORPHAN)
            walk->entries[free_count++] = walk->entries[i];
    weir_mutex_unlock(&shard->mutex);
    for (uint32_t i = 0; i < free_count; i++)
        free(walk->entries[i]);
    walk->count = 0;
}

/* The place behind the segment that has this one. */
static uint64_t behind(const struct weir_index_segment *segment, uint64_t place)
{
    uint64_t size = PLACES >> segment->depth;
    return (place & ~(size - 1)) + size;
}

/* The segment at the walk's place, which then goes on behind it. */
static struct weir_index_segment *next_segment(struct weir_index_walk *walk, struct weir_index_shard *shard)
    WEIR_REQUIRES(shard->mutex)
{
    struct weir_index_segment *segment = weir_index_table_segment(shard, (uint32_t)walk->place);
    walk->place = behind(segment, walk->place);
    walk->pinned_shard = walk->shard;
    return segment;
}

/* The shard where the walk goes on; null at the end. */
static struct weir_index_shard *next_shard(struct weir_index_walk *walk)
{
    if (walk->place == PLACES) {
        walk->shard++;
        walk->place = 0;
    }
    return walk->shard < WEIR_INDEX_SHARDS ? &walk->index->shards[walk->shard] : NULL;
}

uint32_t weir_index_walk_next(struct weir_index_walk *walk)
{
    struct weir_index_shard *shard;
    weir_index_walk_end(walk);
    while (!walk->count && (shard = next_shard(walk))) {
        weir_mutex_lock(&shard->mutex);
        uint64_t from = walk->place;
        pin_all(walk, next_segment(walk, shard), from);
        weir_mutex_unlock(&shard->mutex);
    }
    return walk->count;
}

uint32_t weir_index_walk_key(struct weir_index_walk *walk, struct weir_bytes host, struct weir_bytes service)
{
    uint32_t hash = hash_key(walk->index, host, service);
    struct weir_index_shard *shard = &walk->index->shards[shard_of(hash)];
    weir_index_walk_end(walk);
    walk->pinned_shard = (uint32_t)shard_of(hash);
    weir_mutex_lock(&shard->mutex);
    struct weir_index_segment *segment = weir_index_table_segment(shard, weir_index_table_place(hash));
    struct weir_index_slot *slot = weir_index_table_find(segment, hash, host, service);
    if (slot) {
        walk->entries[walk->count++] = slot->entry;
        slot->entry->pins++;
    }
    weir_mutex_unlock(&shard->mutex);
    return walk->count;
}

bool weir_index_walk_seek(struct weir_index_walk *walk, int64_t now_us)
{
    struct weir_index_shard *shard;
    bool found = false;
    while (!found && (shard = next_shard(walk))) {
        weir_mutex_lock(&shard->mutex);
        const struct weir_index_segment *segment = weir_index_table_segment(shard, (uint32_t)walk->place);
        found = some_due(segment, now_us);
        if (!found)
            walk->place = behind(segment, walk->place);
        weir_mutex_unlock(&shard->mutex);
    }
    return found;
}

bool weir_index_walk_overdue(struct weir_index_walk *walk, int64_t now_us, uint32_t segments_most)
{
    struct weir_index_shard *shard = NULL;
    weir_index_walk_end(walk);
    for (uint32_t i = 0; i < segments_most && !walk->count && (shard = next_shard(walk)); i++) {
        weir_mutex_lock(&shard->mutex);
        uint32_t place = (uint32_t)walk->place;
        pin_overdue(walk, shard, next_segment(walk, shard), now_us);
        if (walk->count)
            weir_index_table_shrink(shard, place);
        weir_mutex_unlock(&shard->mutex);
    }
    return shard != NULL;
}
