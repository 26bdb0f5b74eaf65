#include "pipeline_dsl/stages/index_entry.h"

#include <stdlib.h>

#define PACKED offsetof(struct weir_index_entry, packed)

struct weir_index_entry *weir_index_entry_new(size_t size)
{
    /* What malloc would round up to anyway: 16 bytes a step, of which it keeps 8. */
    size_t whole = ((PACKED + size + 8 + 15) & ~(size_t)15) - 8;
    if (whole - PACKED > UINT32_MAX)
        return NULL;
    struct weir_index_entry *entry = malloc(whole);
    if (entry) {
        entry->capacity = (uint32_t)(whole - PACKED);
        entry->pins = 0;
        entry->flags = 0;
    }
    return entry;
}

/* --- sizes --------------------------------------------------------------------------------------------------------------- */

static size_t number_size(size_t number)
{
    size_t size = 1;
    for (; __builtin_expect(number >= 0x80, 0); number >>= 7)
        size++;
    return size;
}

static size_t string_size(struct weir_bytes bytes)
{
    return number_size(bytes.size + 1) + bytes.size;
}

size_t weir_index_entry_size(const struct weir_event *event)
{
    size_t size = string_size(event->host) + string_size(event->service) + string_size(event->state) + string_size(event->description);
    size += number_size(event->tag_count) + number_size(event->attribute_count);
    for (uint32_t i = 0; i < event->tag_count; i++)
        size += string_size(event->tags[i]);
    for (uint32_t i = 0; i < event->attribute_count; i++)
        size += string_size(event->attributes[i].key) + string_size(event->attributes[i].value);
    return size;
}

/* --- writing ------------------------------------------------------------------------------------------------------------- */

static uint8_t *put_number(uint8_t *packed, uint32_t number)
{
    for (; __builtin_expect(number >= 0x80, 0); number >>= 7)
        *packed++ = (uint8_t)(number | 0x80);
    *packed++ = (uint8_t)number;
    return packed;
}

static uint8_t *put_string(uint8_t *packed, struct weir_bytes bytes)
{
    packed = put_number(packed, bytes.data ? (uint32_t)bytes.size + 1 : 0);
    if (bytes.size)
        memcpy(packed, bytes.data, bytes.size);
    return packed + bytes.size;
}

void weir_index_entry_fill(struct weir_index_entry *entry, const struct weir_event *event, bool has_key, int64_t now_us)
{
    entry->time_us = event->has_time ? event->time_us : now_us;
    entry->ttl = event->ttl;
    entry->flags = (uint8_t)(event->metric_kind | (event->has_ttl ? WEIR_INDEX_HAS_TTL : 0));
    if (event->metric_kind == WEIR_METRIC_INT)
        entry->metric.integer = event->metric_int;
    else
        entry->metric.real = event->metric_double;
    uint8_t *packed = entry->packed;
    if (has_key)
        packed += string_size(event->host) + string_size(event->service);
    else
        packed = put_string(put_string(packed, event->host), event->service);
    packed = put_string(put_string(packed, event->state), event->description);
    packed = put_number(packed, event->tag_count);
    for (uint32_t i = 0; i < event->tag_count; i++)
        packed = put_string(packed, event->tags[i]);
    packed = put_number(packed, event->attribute_count);
    for (uint32_t i = 0; i < event->attribute_count; i++)
        packed = put_string(put_string(packed, event->attributes[i].key), event->attributes[i].value);
}

/* --- reading ------------------------------------------------------------------------------------------------------------- */

void weir_index_entry_key(const struct weir_index_entry *entry, struct weir_bytes *host, struct weir_bytes *service)
{
    weir_index_entry_string(weir_index_entry_string(entry->packed, host), service);
}

size_t weir_index_entry_filled(const struct weir_index_entry *entry)
{
    struct weir_bytes bytes;
    const uint8_t *packed = entry->packed;
    for (int i = 0; i < 4; i++)
        packed = weir_index_entry_string(packed, &bytes);
    for (unsigned strings_each = 1; strings_each <= 2; strings_each++) { /* a tag is one, an attribute two */
        uint32_t count;
        packed = weir_index_entry_number(packed, &count);
        for (uint64_t i = (uint64_t)count * strings_each; i; i--)
            packed = weir_index_entry_string(packed, &bytes);
    }
    return (size_t)(packed - entry->packed);
}

bool weir_index_entry_view(const struct weir_index_entry *entry, struct weir_arena *arena, struct weir_event *event)
{
    *event = (struct weir_event){
        .time_us = entry->time_us, .has_time = true,
        .ttl = entry->ttl, .has_ttl = entry->flags & WEIR_INDEX_HAS_TTL,
        .metric_kind = (enum weir_metric_kind)(entry->flags & WEIR_INDEX_METRIC_KIND),
    };
    if (event->metric_kind == WEIR_METRIC_INT)
        event->metric_int = entry->metric.integer;
    else
        event->metric_double = entry->metric.real;
    const uint8_t *packed = weir_index_entry_string(entry->packed, &event->host);
    packed = weir_index_entry_string(packed, &event->service);
    packed = weir_index_entry_string(packed, &event->state);
    packed = weir_index_entry_string(packed, &event->description);
    packed = weir_index_entry_number(packed, &event->tag_count);
    if (event->tag_count) {
        struct weir_bytes *tags = weir_arena_alloc(arena, event->tag_count * sizeof *tags);
        if (!tags)
            return false;
        for (uint32_t i = 0; i < event->tag_count; i++)
            packed = weir_index_entry_string(packed, &tags[i]);
        event->tags = tags;
    }
    packed = weir_index_entry_number(packed, &event->attribute_count);
    if (event->attribute_count) {
        struct weir_attribute *attributes = weir_arena_alloc(arena, event->attribute_count * sizeof *attributes);
        if (!attributes)
            return false;
        for (uint32_t i = 0; i < event->attribute_count; i++)
            packed = weir_index_entry_string(weir_index_entry_string(packed, &attributes[i].key), &attributes[i].value);
        event->attributes = attributes;
    }
    return true;
}
