/*
 * DESIGN: protobuf-c unpacks into the arena, and the events are then views of what it copied there: each string is copied
 * once. The unpacked tree stays (message->raw), since the size estimators walk it.
 *
 * All events, tags and attributes of a message lie in one piece, so that the second pass takes from the arena once.
 *
 * An attribute named like a fixed field overwrites it, as in Riemann, where both are entries of one map; the names that a
 * string can't fill (tags, time, ttl, metric) are ignored. An attribute that comes twice stays twice: the last one counts.
 */
#include "pipeline_dsl/wire/message.h"

#include <stdio.h>
#include <string.h>

#include <riemann.pb-c.h>

const uint8_t weir_message_ack[6] = { 0, 0, 0, 2, 0x10, 1 };

struct source {
    struct weir_arena *arena;
    bool exhausted; /* protobuf-c answers null for bad bytes and for no memory alike */
};

static void *take(void *data, size_t size)
{
    struct source *source = data;
    void *piece = weir_arena_alloc(source->arena, size);
    if (!piece)
        source->exhausted = true;
    return piece;
}

static void give_back(void *data, void *piece)
{
    (void)data;
    (void)piece; /* the arena goes all at once */
}

static struct weir_bytes bytes_of(protobuf_c_boolean has, ProtobufCBinaryData data)
{
    static const uint8_t empty[1];
    if (!has)
        return (struct weir_bytes){ NULL, 0 };
    return (struct weir_bytes){ data.len ? data.data : empty, data.len };
}

static bool is(struct weir_bytes key, const char *name, size_t size)
{
    return key.size == size && memcmp(key.data, name, size) == 0;
}

#define IS(key, name) is(key, name, sizeof name - 1)

/* The fixed field that `key` overwrites, or null. `ignored` says that no field and no attribute may have this name. */
static struct weir_bytes *fixed_field(struct weir_event *event, struct weir_bytes key, bool *ignored)
{
    *ignored = false;
    switch (key.size) {
    case 3:
        *ignored = IS(key, "ttl");
        return NULL;
    case 4:
        *ignored = IS(key, "time") || IS(key, "tags");
        return IS(key, "host") ? &event->host : NULL;
    case 5:
        return IS(key, "state") ? &event->state : NULL;
    case 6:
        *ignored = IS(key, "metric");
        return NULL;
    case 7:
        return IS(key, "service") ? &event->service : NULL;
    case 11:
        return IS(key, "description") ? &event->description : NULL;
    default:
        return NULL;
    }
}

static int64_t us_of_seconds(int64_t seconds)
{
    int64_t us;
    if (__builtin_mul_overflow(seconds, (int64_t)1000000, &us))
        return seconds < 0 ? INT64_MIN : INT64_MAX;
    return us;
}

static void metric_of(struct weir_event *event, const WeirRiemann__Event *raw)
{
    if (raw->has_metric_sint64) {
        event->metric_kind = WEIR_METRIC_INT;
        event->metric_int = raw->metric_sint64;
    } else if (raw->has_metric_d) {
        event->metric_kind = WEIR_METRIC_DOUBLE;
        event->metric_double = raw->metric_d;
    } else if (raw->has_metric_f) {
        event->metric_kind = WEIR_METRIC_FLOAT;
        event->metric_double = (double)raw->metric_f;
    }
}

static void event_of(struct weir_event *event, const WeirRiemann__Event *raw, struct weir_bytes *tags,
                     struct weir_attribute *attributes)
{
    *event = (struct weir_event){
        .host = bytes_of(raw->has_host, raw->host),
        .service = bytes_of(raw->has_service, raw->service),
        .state = bytes_of(raw->has_state, raw->state),
        .description = bytes_of(raw->has_description, raw->description),
        .tags = tags,
        .attributes = attributes,
        .tag_count = (uint32_t)raw->n_tags,
        .has_time = raw->has_time_micros || raw->has_time,
        .has_ttl = raw->has_ttl,
        .ttl = raw->has_ttl ? raw->ttl : 0,
    };
    if (event->has_time)
        event->time_us = raw->has_time_micros ? raw->time_micros : us_of_seconds(raw->time);
    metric_of(event, raw);
    for (size_t i = 0; i < raw->n_tags; i++)
        tags[i] = bytes_of(true, raw->tags[i]);
    for (size_t i = 0; i < raw->n_attributes; i++) {
        struct weir_bytes key = bytes_of(true, raw->attributes[i]->key);
        struct weir_bytes value = bytes_of(raw->attributes[i]->has_value, raw->attributes[i]->value);
        bool ignored;
        struct weir_bytes *fixed = fixed_field(event, key, &ignored);
        if (fixed)
            *fixed = value;
        else if (!ignored)
            attributes[event->attribute_count++] = (struct weir_attribute){ key, value };
    }
}

/* Fills message->events from the tree. False when the arena is at its limit. */
static bool events_of(struct weir_message *message, struct weir_arena *arena, const WeirRiemann__Msg *raw)
{
    size_t tag_count = 0, attribute_count = 0;
    for (size_t i = 0; i < raw->n_events; i++) {
        tag_count += raw->events[i]->n_tags;
        attribute_count += raw->events[i]->n_attributes;
    }
    if (!raw->n_events)
        return true;
    size_t events_size = raw->n_events * sizeof(struct weir_event);
    size_t attributes_size = attribute_count * sizeof(struct weir_attribute);
    uint8_t *piece = weir_arena_alloc(arena, events_size + attributes_size + tag_count * sizeof(struct weir_bytes));
    if (!piece)
        return false;
    message->events = (struct weir_event *)piece;
    message->event_count = raw->n_events;
    struct weir_attribute *attributes = (struct weir_attribute *)(piece + events_size);
    struct weir_bytes *tags = (struct weir_bytes *)(piece + events_size + attributes_size);
    for (size_t i = 0; i < raw->n_events; i++) {
        event_of(&message->events[i], raw->events[i], tags, attributes);
        tags += raw->events[i]->n_tags;
        attributes += raw->events[i]->n_attributes;
    }
    return true;
}

static int out_of_memory(const struct weir_arena *arena, size_t size, struct weir_error *error)
{
    if (arena->limit_bytes == SIZE_MAX)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "out of memory for a message of %zu bytes", size);
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM,
                          "a message of %zu bytes needs more than the %zu bytes of memory that one may decode to", size,
                          arena->limit_bytes);
}

int weir_message_decode(struct weir_message *message, struct weir_arena *arena, const void *data, size_t size,
                        struct weir_error *error)
{
    struct source source = { arena, false };
    ProtobufCAllocator allocator = { take, give_back, &source };
    WeirRiemann__Msg *raw = weir_riemann__msg__unpack(&allocator, size, data);
    if (!raw && source.exhausted)
        return out_of_memory(arena, size, error);
    if (!raw)
        return weir_error_set(error, WEIR_EXIT_USAGE, EBADMSG, "parse error: %zu bytes that are no Riemann message", size);

    struct weir_message decoded = {
        .has_ok = raw->has_ok,
        .ok = raw->has_ok && raw->ok,
        .error = bytes_of(raw->has_error, raw->error),
        .raw = raw,
    };
    if (raw->query)
        decoded.query = bytes_of(true, raw->query->string); /* a query without its text is an empty one */
    if (!events_of(&decoded, arena, raw))
        return out_of_memory(arena, size, error);
    *message = decoded;
    return 0;
}
