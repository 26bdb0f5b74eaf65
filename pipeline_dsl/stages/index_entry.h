/*
 * index_entry: an event as the index keeps it: one packed block, the numbers in front, then every string behind its size.
 * It stands in the slots of index_table, and in the hands of who walks through the index.
 *
 * Units: time in us since the epoch; ttl in s; bytes.
 * Owns: its block.
 * Threads: a shard's mutex guards the entries in it. An entry that is pinned does not change, and may be read without.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_STAGES_INDEX_ENTRY_H
#define WEIR_STAGES_INDEX_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "pipeline_dsl/wire/message.h"

struct weir_index_entry {
    int64_t time_us;
    union {
        int64_t integer;
        double real;
    } metric;
    float ttl;
    uint32_t capacity; /* of packed */
    uint16_t pins;     /* readers without the lock, and WEIR_INDEX_ORPHAN. Only under the lock */
    uint8_t flags;     /* enum weir_metric_kind, WEIR_INDEX_HAS_TTL */
    uint8_t packed[];  /* host, service, state, description; how many tags, the tags; how many attributes, keys and values. A
                          number is a varint; in front of a string stands its size + 1, or 0 where it is absent */
};

#define WEIR_INDEX_METRIC_KIND 3u /* enum weir_metric_kind */
#define WEIR_INDEX_HAS_TTL 4u
#define WEIR_INDEX_ORPHAN 0x8000u /* no longer in the table: the last one who unpins it frees it */

/* A block for `size` bytes of strings, unfilled. */
struct weir_index_entry *weir_index_entry_new(size_t size);

/* How many bytes the event's strings take. */
size_t weir_index_entry_size(const struct weir_event *event);

/* The event's numbers and strings. `has_key`: host and service are there already. */
void weir_index_entry_fill(struct weir_index_entry *entry, const struct weir_event *event, bool has_key, int64_t now_us);

/* The event, whose strings are the entry's; its lists lie in the arena. False when that has no room. */
bool weir_index_entry_view(const struct weir_index_entry *entry, struct weir_arena *arena, struct weir_event *event);

/* How many bytes of `packed` its strings take. */
size_t weir_index_entry_filled(const struct weir_index_entry *entry);

/* Host and service alone. */
void weir_index_entry_key(const struct weir_index_entry *entry, struct weir_bytes *host, struct weir_bytes *service);

static inline const uint8_t *weir_index_entry_number(const uint8_t *packed, uint32_t *number)
{
    uint32_t value = *packed++;
    if (__builtin_expect(value >= 0x80, 0)) {
        value &= 0x7f;
        for (unsigned shift = 7;; shift += 7) {
            uint32_t byte = *packed++;
            value |= (byte & 0x7f) << shift;
            if (byte < 0x80)
                break;
        }
    }
    *number = value;
    return packed;
}

static inline const uint8_t *weir_index_entry_string(const uint8_t *packed, struct weir_bytes *bytes)
{
    uint32_t number;
    packed = weir_index_entry_number(packed, &number);
    *bytes = number ? (struct weir_bytes){ packed, number - 1 } : (struct weir_bytes){ NULL, 0 };
    return packed + bytes->size;
}

static inline bool weir_index_entry_is(const struct weir_index_entry *entry, struct weir_bytes host, struct weir_bytes service)
{
    struct weir_bytes h, s;
    const uint8_t *packed = weir_index_entry_string(entry->packed, &h);
    if (h.size != host.size || !h.data != !host.data || (h.size && memcmp(h.data, host.data, h.size) != 0))
        return false;
    weir_index_entry_string(packed, &s);
    return s.size == service.size && !s.data == !service.data && (!s.size || memcmp(s.data, service.data, s.size) == 0);
}

#endif
