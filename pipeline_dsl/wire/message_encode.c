/*
 * DESIGN: builds protobuf-c's tree in a scratch arena and packs it straight into the buffer. Encoding whole messages is
 * rare on a server (an acknowledgement is a constant), so clarity comes before speed.
 *
 * Clients differ in which metric field they read first, so every one that is set holds the same number: an integer goes as
 * sint64, a double as d, and both also as f where a float holds that number exactly. A float goes as f alone, and so comes
 * back as a float. Time goes both in seconds and in microseconds, since old clients know only the first.
 */
#include "pipeline_dsl/wire/message.h"

#include <math.h>
#include <string.h>

#include <riemann.pb-c.h>

#include "base/utf8.h"
#include "pipeline_dsl/wire/frame.h"

struct sink {
    ProtobufCBuffer base;
    struct weir_buffer *out;
};

static void append(ProtobufCBuffer *base, size_t size, const uint8_t *data)
{
    struct sink *sink = (struct sink *)base;
    weir_buffer_add(sink->out, data, size);
}

/* Fills `to` with the bytes as a reply may show them; false when memory is out. */
static bool put(struct weir_arena *scratch, struct weir_bytes bytes, protobuf_c_boolean *has, ProtobufCBinaryData *to)
{
    if (has)
        *has = bytes.data != NULL;
    to->len = bytes.data ? bytes.size : 0;
    to->data = (uint8_t *)(uintptr_t)bytes.data; /* packing only reads */
    if (!to->len || weir_utf8_valid(bytes.data, bytes.size))
        return true;
    to->data = weir_utf8_repair(scratch, bytes.data, &to->len);
    return to->data != NULL;
}

static void put_metric(WeirRiemann__Event *raw, const struct weir_event *event)
{
    double value = event->metric_double;
    switch (event->metric_kind) {
    case WEIR_METRIC_NIL:
        return;
    case WEIR_METRIC_INT:
        raw->has_metric_sint64 = true;
        raw->metric_sint64 = event->metric_int;
        raw->metric_f = (float)event->metric_int;
        /* 2^63 is the float that INT64_MAX rounds to; it has no way back. */
        raw->has_metric_f = raw->metric_f < 0x1p63f && (int64_t)raw->metric_f == event->metric_int;
        return;
    case WEIR_METRIC_DOUBLE:
        raw->has_metric_d = true;
        raw->metric_d = value;
        /* A finite double beyond a float's range has no float; converting it would be undefined. */
        raw->has_metric_f = !isfinite(value) || (fabs(value) <= (double)__FLT_MAX__ && (double)(float)value == value);
        raw->metric_f = raw->has_metric_f ? (float)value : 0;
        return;
    case WEIR_METRIC_FLOAT:
        raw->has_metric_f = true;
        raw->metric_f = (float)value;
        return;
    }
}

static void put_time(WeirRiemann__Event *raw, int64_t time_us)
{
    raw->has_time_micros = raw->has_time = true;
    raw->time_micros = time_us;
    raw->time = time_us / 1000000 - (time_us % 1000000 < 0); /* rounded down, before 1970 too */
}

static bool put_lists(struct weir_arena *scratch, WeirRiemann__Event *raw, const struct weir_event *event)
{
    bool good = true;
    if (event->tag_count) {
        raw->tags = weir_arena_alloc(scratch, event->tag_count * sizeof *raw->tags);
        if (!raw->tags)
            return false;
        raw->n_tags = event->tag_count;
        for (uint32_t i = 0; i < event->tag_count; i++)
            good = put(scratch, event->tags[i], NULL, &raw->tags[i]) && good;
    }
    if (event->attribute_count) {
        raw->attributes = weir_arena_alloc(scratch, event->attribute_count * sizeof *raw->attributes);
        WeirRiemann__Attribute *attributes = weir_arena_alloc(scratch, event->attribute_count * sizeof *attributes);
        if (!raw->attributes || !attributes)
            return false;
        raw->n_attributes = event->attribute_count;
        for (uint32_t i = 0; i < event->attribute_count; i++) {
            weir_riemann__attribute__init(&attributes[i]);
            raw->attributes[i] = &attributes[i];
            good = put(scratch, event->attributes[i].key, NULL, &attributes[i].key) && good;
            good = put(scratch, event->attributes[i].value, &attributes[i].has_value, &attributes[i].value) && good;
        }
    }
    return good;
}

static bool put_event(struct weir_arena *scratch, WeirRiemann__Event *raw, const struct weir_event *event)
{
    weir_riemann__event__init(raw);
    bool good = put(scratch, event->host, &raw->has_host, &raw->host);
    good = put(scratch, event->service, &raw->has_service, &raw->service) && good;
    good = put(scratch, event->state, &raw->has_state, &raw->state) && good;
    good = put(scratch, event->description, &raw->has_description, &raw->description) && good;
    if (event->has_time)
        put_time(raw, event->time_us);
    raw->has_ttl = event->has_ttl;
    raw->ttl = event->ttl;
    put_metric(raw, event);
    return put_lists(scratch, raw, event) && good;
}

/* The tree of `message`, in `scratch`; null when memory is out. */
static WeirRiemann__Msg *tree(struct weir_arena *scratch, const struct weir_message *message)
{
    WeirRiemann__Msg *raw = weir_arena_alloc(scratch, sizeof *raw);
    if (!raw)
        return NULL;
    weir_riemann__msg__init(raw);
    raw->has_ok = message->has_ok;
    raw->ok = message->ok;
    if (!put(scratch, message->error, &raw->has_error, &raw->error))
        return NULL;
    if (message->query.data) {
        raw->query = weir_arena_alloc(scratch, sizeof *raw->query);
        if (!raw->query)
            return NULL;
        weir_riemann__query__init(raw->query);
        if (!put(scratch, message->query, &raw->query->has_string, &raw->query->string))
            return NULL;
    }
    if (!message->event_count)
        return raw;
    raw->events = weir_arena_alloc(scratch, message->event_count * sizeof *raw->events);
    WeirRiemann__Event *events = weir_arena_alloc(scratch, message->event_count * sizeof *events);
    if (!raw->events || !events)
        return NULL;
    raw->n_events = message->event_count;
    for (size_t i = 0; i < message->event_count; i++) {
        raw->events[i] = &events[i];
        if (!put_event(scratch, &events[i], &message->events[i]))
            return NULL;
    }
    return raw;
}

static int out_of_memory(const struct weir_message *message, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "out of memory while encoding a message of %zu events",
                          message->event_count);
}

static int encode(const struct weir_message *message, bool framed, struct weir_buffer *out, struct weir_error *error)
{
    struct weir_arena scratch;
    weir_arena_init(&scratch, 0, SIZE_MAX);
    int rc = -ENOMEM;
    WeirRiemann__Msg *raw = tree(&scratch, message);
    if (!raw) {
        rc = out_of_memory(message, error);
        goto out;
    }
    size_t size = weir_riemann__msg__get_packed_size(raw);
    if (framed && size > UINT32_MAX) {
        rc = weir_error_set(error, WEIR_EXIT_USAGE, EMSGSIZE, "a message of %zu bytes doesn't fit a frame of 4 GiB", size);
        goto out;
    }
    if (framed) {
        uint8_t header[WEIR_FRAME_HEADER];
        weir_frame_header(header, (uint32_t)size);
        weir_buffer_add(out, header, sizeof header);
    }
    struct sink sink = { { append }, out };
    weir_riemann__msg__pack_to_buffer(raw, &sink.base);
    rc = out->failed ? out_of_memory(message, error) : 0;
out:
    weir_arena_release(&scratch);
    return rc;
}

int weir_message_encode(const struct weir_message *message, struct weir_buffer *out, struct weir_error *error)
{
    return encode(message, false, out, error);
}

int weir_message_encode_framed(const struct weir_message *message, struct weir_buffer *out, struct weir_error *error)
{
    return encode(message, true, out, error);
}
