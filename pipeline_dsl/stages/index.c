/*
 * DESIGN: 32 shards, chosen by the top bits of the key's hash; in each a chained hash table under a mutex, doubled when it holds
 * as many entries as buckets. The events of a message are sorted by shard first, so that a message of 100 takes 30 locks and not
 * 100, and a shard that another thread holds just now is left for the end. An event is one block: the numbers in front, then every
 * string behind the other, each with its size, so that a write that fits the old block is a copy and no malloc; series report
 * again and again with the same shape.
 *
 * Events of one key stay in their order: they share a shard, and the sort is stable.
 *
 * Lock order: one shard's mutex at a time, innermost.
 */
#include "pipeline_dsl/stages/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "pipeline_dsl/stages/stages.h"

#define ABSENT UINT32_MAX /* a string's size when it is nil */
#define FIRST_BUCKETS ((size_t)16)
#define SWEEP_US 1000000u
#define SORTED_MOST ((size_t)256) /* events that are sorted at once */

struct weir_index_entry {
    struct weir_index_entry *next;
    uint64_t hash;
    int64_t time_us;
    int64_t metric_int;
    double metric_double;
    float ttl;
    bool has_ttl;
    uint8_t metric_kind;
    uint32_t tag_count, attribute_count;
    uint32_t capacity; /* of packed */
    uint8_t packed[];  /* strings: 4 bytes of size, then the bytes. host, service, state, description, tags, keys and values */
};

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
    hash = mix(hash, data ? size + 1 : 0);
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        hash = mix(hash, word);
    }
    if (size) {
        uint64_t word = 0;
        memcpy(&word, data, size);
        hash = mix(hash, word);
    }
    return hash;
}

static uint64_t hash_key(struct weir_bytes host, struct weir_bytes service)
{
    return hash_bytes(hash_bytes(0, host), service);
}

static size_t shard_of(uint64_t hash)
{
    _Static_assert(WEIR_INDEX_SHARDS == 1u << 5, "the top 5 bits choose");
    return hash >> (64 - 5);
}

static const uint8_t *unpack(const uint8_t *packed, struct weir_bytes *bytes)
{
    uint32_t size;
    memcpy(&size, packed, sizeof size);
    packed += sizeof size;
    *bytes = size == ABSENT ? (struct weir_bytes){ NULL, 0 } : (struct weir_bytes){ packed, size };
    return packed + bytes->size;
}

static bool equal(struct weir_bytes a, struct weir_bytes b)
{
    return !a.data == !b.data && a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* The link that points to the key's entry, or the empty one at the chain's end. */
static struct weir_index_entry **find(struct weir_index_shard *shard, uint64_t hash, struct weir_bytes host,
                                      struct weir_bytes service) WEIR_REQUIRES(shard->mutex)
{
    struct weir_index_entry **link = &shard->buckets[hash & (shard->bucket_count - 1)];
    for (; *link; link = &(*link)->next) {
        struct weir_bytes h, s;
        if ((*link)->hash != hash)
            continue;
        unpack(unpack((*link)->packed, &h), &s);
        if (equal(h, host) && equal(s, service))
            break;
    }
    return link;
}

/* --- packing ------------------------------------------------------------------------------------------------------------- */

static size_t packed_size(const struct weir_event *event)
{
    size_t size = 4 * sizeof(uint32_t) + event->host.size + event->service.size + event->state.size + event->description.size;
    for (uint32_t i = 0; i < event->tag_count; i++)
        size += sizeof(uint32_t) + event->tags[i].size;
    for (uint32_t i = 0; i < event->attribute_count; i++)
        size += 2 * sizeof(uint32_t) + event->attributes[i].key.size + event->attributes[i].value.size;
    return size;
}

static uint8_t *pack(uint8_t *packed, struct weir_bytes bytes)
{
    uint32_t size = bytes.data ? (uint32_t)bytes.size : ABSENT;
    memcpy(packed, &size, sizeof size);
    packed += sizeof size;
    if (bytes.size)
        memcpy(packed, bytes.data, bytes.size);
    return packed + bytes.size;
}

static void fill(struct weir_index_entry *entry, const struct weir_event *event, int64_t now_us)
{
    entry->time_us = event->has_time ? event->time_us : now_us;
    entry->ttl = event->ttl;
    entry->has_ttl = event->has_ttl;
    entry->metric_kind = (uint8_t)event->metric_kind;
    entry->metric_int = event->metric_int;
    entry->metric_double = event->metric_double;
    entry->tag_count = event->tag_count;
    entry->attribute_count = event->attribute_count;
    uint8_t *packed = pack(pack(pack(pack(entry->packed, event->host), event->service), event->state), event->description);
    for (uint32_t i = 0; i < event->tag_count; i++)
        packed = pack(packed, event->tags[i]);
    for (uint32_t i = 0; i < event->attribute_count; i++)
        packed = pack(pack(packed, event->attributes[i].key), event->attributes[i].value);
}

/* --- the map ------------------------------------------------------------------------------------------------------------- */

void weir_index_init(struct weir_index *index, uint64_t ttl_ns, uint64_t limit)
{
    *index = (struct weir_index){ .limit = limit, .default_ttl = ttl_ns ? (float)ttl_ns / 1e9f : 60.0f };
    for (uint32_t i = 0; i < WEIR_INDEX_SHARDS; i++) {
        struct weir_index_shard *shard = &index->shards[i];
        weir_mutex_init(&shard->mutex);
        shard->bucket_count = FIRST_BUCKETS;
        shard->buckets = calloc(FIRST_BUCKETS, sizeof *shard->buckets);
        if (!shard->buckets)
            weir_bug("no memory for an empty index");
    }
}

void weir_index_release(struct weir_index *index)
{
    for (uint32_t i = 0; i < WEIR_INDEX_SHARDS; i++) {
        struct weir_index_shard *shard = &index->shards[i];
        for (size_t bucket = 0; bucket < shard->bucket_count; bucket++)
            while (shard->buckets[bucket]) {
                struct weir_index_entry *entry = shard->buckets[bucket];
                shard->buckets[bucket] = entry->next;
                free(entry);
            }
        free(shard->buckets);
        weir_mutex_release(&shard->mutex);
    }
}

/* A table that can't grow only gets slower. */
static void grow(struct weir_index_shard *shard)
    WEIR_REQUIRES(shard->mutex)
{
    size_t count = shard->bucket_count * 2;
    struct weir_index_entry **buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return;
    for (size_t bucket = 0; bucket < shard->bucket_count; bucket++)
        while (shard->buckets[bucket]) {
            struct weir_index_entry *entry = shard->buckets[bucket];
            shard->buckets[bucket] = entry->next;
            entry->next = buckets[entry->hash & (count - 1)];
            buckets[entry->hash & (count - 1)] = entry;
        }
    free(shard->buckets);
    shard->buckets = buckets;
    shard->bucket_count = count;
}

static bool overdue(const struct weir_index *index, const struct weir_index_entry *entry, int64_t now_us)
{
    float ttl = entry->has_ttl ? entry->ttl : index->default_ttl;
    return (double)ttl < ((double)now_us - (double)entry->time_us) / 1e6; /* a client's time may be any number */
}

/* Makes room below the limit by dropping what is overdue in this shard; once a second, or each new key would cost a walk over all. */
static void sweep(struct weir_index *index, struct weir_index_shard *shard, int64_t now_us)
    WEIR_REQUIRES(shard->mutex)
{
    if ((uint64_t)now_us - (uint64_t)shard->swept_us < SWEEP_US) /* a clock that was set back counts as due */
        return;
    shard->swept_us = now_us;
    for (size_t bucket = 0; bucket < shard->bucket_count; bucket++)
        for (struct weir_index_entry **link = &shard->buckets[bucket]; *link;) {
            struct weir_index_entry *entry = *link;
            if (!overdue(index, entry, now_us)) {
                link = &entry->next;
                continue;
            }
            *link = entry->next;
            free(entry);
            shard->entry_count--;
            __atomic_fetch_sub(&index->entry_count, 1, __ATOMIC_RELAXED);
        }
}

static void remove_entry(struct weir_index *index, struct weir_index_shard *shard, struct weir_index_entry **link)
    WEIR_REQUIRES(shard->mutex)
{
    struct weir_index_entry *entry = *link;
    if (!entry)
        return;
    *link = entry->next;
    free(entry);
    shard->entry_count--;
    __atomic_fetch_sub(&index->entry_count, 1, __ATOMIC_RELAXED);
}

static bool over_limit(struct weir_index *index)
{
    return index->limit && __atomic_load_n(&index->entry_count, __ATOMIC_RELAXED) >= index->limit;
}

static int put(struct weir_index *index, struct weir_index_shard *shard, uint64_t hash, const struct weir_event *event, int64_t now_us)
    WEIR_REQUIRES(shard->mutex)
{
    static const char expired[] = "expired";
    struct weir_index_entry **link = find(shard, hash, event->host, event->service);
    if (event->state.size == sizeof expired - 1 && memcmp(event->state.data, expired, sizeof expired - 1) == 0) {
        remove_entry(index, shard, link);
        return 0;
    }
    size_t size = packed_size(event);
    if (size >= ABSENT / 2)
        return -ENOMEM;
    bool is_new = !*link;
    if (is_new && over_limit(index)) {
        sweep(index, shard, now_us);
        if (over_limit(index))
            return -ENOSPC;
        link = find(shard, hash, event->host, event->service);
    }
    if (is_new || (*link)->capacity < size) {
        /* A little more than needed: descriptions and states change their length. */
        uint32_t capacity = (uint32_t)(size + size / 8 + 7) & ~7u;
        struct weir_index_entry *entry = malloc(sizeof *entry + capacity);
        if (!entry)
            return -ENOMEM;
        entry->hash = hash;
        entry->capacity = capacity;
        entry->next = is_new ? NULL : (*link)->next;
        free(*link);
        *link = entry;
    }
    fill(*link, event, now_us);
    if (is_new) {
        __atomic_fetch_add(&index->entry_count, 1, __ATOMIC_RELAXED);
        if (++shard->entry_count > shard->bucket_count)
            grow(shard);
    }
    return 0;
}

int weir_index_put(struct weir_index *index, const struct weir_event *event, int64_t now_us)
{
    uint64_t hash = hash_key(event->host, event->service);
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
    uint64_t hashes[SORTED_MOST];
    uint16_t order[SORTED_MOST];
    uint16_t first[WEIR_INDEX_SHARDS + 1];
};

static void sort(struct sorted *sorted, size_t count)
{
    uint16_t next[WEIR_INDEX_SHARDS] = { 0 };
    for (size_t i = 0; i < count; i++) {
        sorted->hashes[i] = hash_key(sorted->events[i].host, sorted->events[i].service);
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
        sort(&sorted, some);
        int one = put_sorted(index, &sorted);
        rc = rc ? rc : one;
    }
    return rc;
}

size_t weir_index_count(const struct weir_index *index)
{
    return __atomic_load_n(&index->entry_count, __ATOMIC_RELAXED);
}

/* Strings are copied into the arena by their size; a NUL follows each. */
static const uint8_t *unpack_dup(const uint8_t *packed, struct weir_arena *arena, struct weir_bytes *bytes)
{
    packed = unpack(packed, bytes);
    if (bytes->data)
        bytes->data = (const uint8_t *)weir_arena_dup(arena, bytes->data, bytes->size);
    return packed;
}

static void copy_out(const struct weir_index_entry *entry, struct weir_arena *arena, struct weir_event *event)
{
    struct weir_bytes *tags = weir_arena_alloc(arena, entry->tag_count * sizeof *tags + 1);
    struct weir_attribute *attributes = weir_arena_alloc(arena, entry->attribute_count * sizeof *attributes + 1);
    *event = (struct weir_event){
        .time_us = entry->time_us, .has_time = true,
        .ttl = entry->ttl, .has_ttl = entry->has_ttl,
        .metric_kind = (enum weir_metric_kind)entry->metric_kind,
        .metric_int = entry->metric_int, .metric_double = entry->metric_double,
        .tags = tags, .tag_count = tags ? entry->tag_count : 0,
        .attributes = attributes, .attribute_count = attributes ? entry->attribute_count : 0,
    };
    const uint8_t *packed = unpack_dup(entry->packed, arena, &event->host);
    packed = unpack_dup(packed, arena, &event->service);
    packed = unpack_dup(packed, arena, &event->state);
    packed = unpack_dup(packed, arena, &event->description);
    for (uint32_t i = 0; i < event->tag_count; i++)
        packed = unpack_dup(packed, arena, &tags[i]);
    for (uint32_t i = 0; i < event->attribute_count; i++)
        packed = unpack_dup(unpack_dup(packed, arena, &attributes[i].key), arena, &attributes[i].value);
}

bool weir_index_get(struct weir_index *index, struct weir_bytes host, struct weir_bytes service, struct weir_arena *arena,
                    struct weir_event *event)
{
    uint64_t hash = hash_key(host, service);
    struct weir_index_shard *shard = &index->shards[shard_of(hash)];
    weir_mutex_lock(&shard->mutex);
    struct weir_index_entry *entry = *find(shard, hash, host, service);
    if (entry)
        copy_out(entry, arena, event);
    weir_mutex_unlock(&shard->mutex);
    return entry != NULL;
}

/* --- the stage ----------------------------------------------------------------------------------------------------------- */

/* Most events bring their time, and then the clock need not be read. */
static int64_t now_if_needed_us(const struct weir_index *index, const struct weir_message *message)
{
    bool needed = index->limit != 0;
    for (size_t i = 0; i < message->event_count && !needed; i++)
        needed = !message->events[i].has_time;
    struct timespec now = { 0, 0 };
    if (needed)
        clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

enum weir_outcome weir_stage_index(struct weir_thread *thread, struct weir_item *item, struct weir_index *index, const char *name)
{
    (void)thread;
    if (!item->message.event_count && !item->message.query.data)
        return WEIR_NEXT;
    int rc = weir_index_put_all(index, item->message.events, item->message.event_count, now_if_needed_us(index, &item->message));
    if (rc != 0) {
        const char *text = weir_arena_printf(&item->arena, "%s: %s", name, rc == -ENOSPC ? "the index is full" : "no memory");
        item->answer_failed = true;
        item->answer_error = text ? text : "no memory";
    } else if (item->message.query.data) {
        item->answer_failed = true;
        item->answer_error = "queries are not built into this version of weir";
    }
    return WEIR_NEXT;
}
