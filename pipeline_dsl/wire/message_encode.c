/*
 * DESIGN: the size first, then one pass that writes into memory of just that size, fields in the order of their numbers. An
 * event's size is needed twice, once for the whole and once before its bytes, and is computed twice rather than kept: that is
 * cheaper than a place to keep it. protobuf-c's packer gives the same bytes from a tree, at several times the cost; clients encode
 * every event that they send.
 *
 * Tags are field number * 8 + wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes); all that are used are below
 * 16 * 8, and so one byte.
 *
 * What is no UTF-8 is rare: such a message is copied with U+FFFD in its place, and the copy encoded.
 *
 * Clients differ in which metric field they read first, and some know only f, so every one that can be set is, with the same number:
 * an integer goes as sint64, a double as d, and both also as f, as near as a float comes. A float goes as f alone, and so comes back
 * as a float. Time goes both in seconds and in microseconds, since old clients know only the first.
 */
#include "pipeline_dsl/wire/message.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "pipeline_dsl/wire/frame.h"

enum tag {
    MSG_OK = 0x10,
    MSG_ERROR = 0x1a,
    MSG_QUERY = 0x2a,
    MSG_EVENT = 0x32,
    QUERY_STRING = 0x0a,
    EVENT_TIME = 0x08,
    EVENT_STATE = 0x12,
    EVENT_SERVICE = 0x1a,
    EVENT_HOST = 0x22,
    EVENT_DESCRIPTION = 0x2a,
    EVENT_TAG = 0x3a,
    EVENT_TTL = 0x45,
    EVENT_ATTRIBUTE = 0x4a,
    EVENT_TIME_MICROS = 0x50,
    EVENT_SINT64 = 0x68,
    EVENT_DOUBLE = 0x71,
    EVENT_FLOAT = 0x7d,
    ATTRIBUTE_KEY = 0x0a,
    ATTRIBUTE_VALUE = 0x12,
};

static size_t varint_size(uint64_t value)
{
    return ((size_t)(63 - __builtin_clzll(value | 1)) * 9 + 73) / 64; /* 7 bits a byte */
}

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* --- UTF-8 ---------------------------------------------------------------------------------------------------------------- */

/* Eight bytes of ASCII at a time: nearly all text is. */
static bool valid(struct weir_bytes bytes)
{
    size_t at = 0;
    if (!bytes.data)
        return true;
    for (uint64_t word; at + 8 <= bytes.size; at += 8) {
        memcpy(&word, bytes.data + at, 8);
        if (word & 0x8080808080808080u)
            return weir_utf8_valid(bytes.data, bytes.size);
    }
    for (; at < bytes.size; at++)
        if (bytes.data[at] & 0x80)
            return weir_utf8_valid(bytes.data, bytes.size);
    return true;
}

static bool event_valid(const struct weir_event *event)
{
    bool good = valid(event->host) && valid(event->service) && valid(event->state) && valid(event->description);
    for (uint32_t i = 0; good && i < event->tag_count; i++)
        good = valid(event->tags[i]);
    for (uint32_t i = 0; good && i < event->attribute_count; i++)
        good = valid(event->attributes[i].key) && valid(event->attributes[i].value);
    return good;
}

static bool message_valid(const struct weir_message *message)
{
    bool good = valid(message->error) && valid(message->query);
    for (size_t i = 0; good && i < message->event_count; i++)
        good = event_valid(&message->events[i]);
    return good;
}

static bool repair(struct weir_arena *scratch, struct weir_bytes *bytes)
{
    if (valid(*bytes))
        return true;
    bytes->data = weir_utf8_repair(scratch, bytes->data, &bytes->size);
    return bytes->data != NULL;
}

static bool repair_event(struct weir_arena *scratch, struct weir_event *event)
{
    struct weir_bytes *tags = weir_arena_alloc(scratch, event->tag_count * sizeof *tags + 1);
    struct weir_attribute *attributes = weir_arena_alloc(scratch, event->attribute_count * sizeof *attributes + 1);
    bool good = tags && attributes && repair(scratch, &event->host) && repair(scratch, &event->service) &&
                repair(scratch, &event->state) && repair(scratch, &event->description);
    for (uint32_t i = 0; good && i < event->tag_count; i++) {
        tags[i] = event->tags[i];
        good = repair(scratch, &tags[i]);
    }
    for (uint32_t i = 0; good && i < event->attribute_count; i++) {
        attributes[i] = event->attributes[i];
        good = repair(scratch, &attributes[i].key) && repair(scratch, &attributes[i].value);
    }
    event->tags = tags;
    event->attributes = attributes;
    return good;
}

/* Makes `message` one of valid text, in `scratch`; false when memory is out. */
static bool repair_message(struct weir_arena *scratch, struct weir_message *message)
{
    struct weir_event *events = weir_arena_alloc(scratch, message->event_count * sizeof *events + 1);
    bool good = events && repair(scratch, &message->error) && repair(scratch, &message->query);
    for (size_t i = 0; good && i < message->event_count; i++) {
        events[i] = message->events[i];
        good = repair_event(scratch, &events[i]);
    }
    message->events = events;
    return good;
}

/* --- sizes ---------------------------------------------------------------------------------------------------------------- */

static size_t bytes_size(struct weir_bytes bytes)
{
    return bytes.data ? 1 + varint_size(bytes.size) + bytes.size : 0;
}

/* Of what must be there: absent goes as empty. */
static size_t empty_size(struct weir_bytes bytes)
{
    size_t size = bytes.data ? bytes.size : 0;
    return 1 + varint_size(size) + size;
}

static size_t attribute_size(const struct weir_attribute *attribute)
{
    return empty_size(attribute->key) + bytes_size(attribute->value);
}

/* Rounded down, before 1970 too. */
static int64_t seconds(int64_t time_us)
{
    return time_us / 1000000 - (time_us % 1000000 < 0);
}

static uint64_t zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

/* The float nearest to the metric, where there is one. */
static bool has_float(const struct weir_event *event, float *is)
{
    double value = event->metric_double;
    switch (event->metric_kind) {
    case WEIR_METRIC_INT:
        *is = (float)event->metric_int;
        return true;
    case WEIR_METRIC_DOUBLE:
    case WEIR_METRIC_FLOAT:
        /* A finite double beyond a float's range has none; converting it would be undefined. */
        if (isfinite(value) && fabs(value) > (double)__FLT_MAX__)
            return false;
        *is = (float)value;
        return true;
    case WEIR_METRIC_NIL:
        break;
    }
    return false;
}

static size_t event_size(const struct weir_event *event)
{
    float ignored;
    size_t size =
        bytes_size(event->host) + bytes_size(event->service) + bytes_size(event->state) + bytes_size(event->description);
    if (event->has_time)
        size += 2 + varint_size((uint64_t)seconds(event->time_us)) + varint_size((uint64_t)event->time_us);
    for (uint32_t i = 0; i < event->tag_count; i++)
        size += empty_size(event->tags[i]);
    size += event->has_ttl ? 5 : 0;
    for (uint32_t i = 0; i < event->attribute_count; i++) {
        size_t inner = attribute_size(&event->attributes[i]);
        size += 1 + varint_size(inner) + inner;
    }
    if (event->metric_kind == WEIR_METRIC_INT)
        size += 1 + varint_size(zigzag(event->metric_int));
    else if (event->metric_kind == WEIR_METRIC_DOUBLE)
        size += 9;
    return size + (has_float(event, &ignored) ? 5 : 0);
}

/* --- bytes ---------------------------------------------------------------------------------------------------------------- */

static uint8_t *put_block(uint8_t *at, enum tag tag, const void *data, size_t size)
{
    *at++ = (uint8_t)tag;
    at = put_varint(at, size);
    if (size)
        memcpy(at, data, size);
    return at + size;
}

static uint8_t *put_bytes(uint8_t *at, enum tag tag, struct weir_bytes bytes)
{
    return bytes.data ? put_block(at, tag, bytes.data, bytes.size) : at;
}

/* What must be there: absent goes as empty. */
static uint8_t *put_empty(uint8_t *at, enum tag tag, struct weir_bytes bytes)
{
    return put_block(at, tag, bytes.data, bytes.data ? bytes.size : 0);
}

static uint8_t *put_number(uint8_t *at, enum tag tag, uint64_t value)
{
    *at++ = (uint8_t)tag;
    return put_varint(at, value);
}

/* Little-endian, `size` of the value's bytes. */
static uint8_t *put_fixed(uint8_t *at, enum tag tag, uint64_t bits, unsigned size)
{
    *at++ = (uint8_t)tag;
    for (unsigned i = 0; i < size; i++)
        *at++ = (uint8_t)(bits >> 8 * i);
    return at;
}

static uint8_t *put_float(uint8_t *at, enum tag tag, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put_fixed(at, tag, bits, sizeof bits);
}

static uint8_t *put_metric(uint8_t *at, const struct weir_event *event)
{
    float value;
    if (event->metric_kind == WEIR_METRIC_INT)
        at = put_number(at, EVENT_SINT64, zigzag(event->metric_int));
    if (event->metric_kind == WEIR_METRIC_DOUBLE) {
        uint64_t bits;
        memcpy(&bits, &event->metric_double, sizeof bits);
        at = put_fixed(at, EVENT_DOUBLE, bits, sizeof bits);
    }
    return has_float(event, &value) ? put_float(at, EVENT_FLOAT, value) : at;
}

static uint8_t *put_event(uint8_t *at, const struct weir_event *event)
{
    *at++ = MSG_EVENT;
    at = put_varint(at, event_size(event));
    if (event->has_time)
        at = put_number(at, EVENT_TIME, (uint64_t)seconds(event->time_us));
    at = put_bytes(at, EVENT_STATE, event->state);
    at = put_bytes(at, EVENT_SERVICE, event->service);
    at = put_bytes(at, EVENT_HOST, event->host);
    at = put_bytes(at, EVENT_DESCRIPTION, event->description);
    for (uint32_t i = 0; i < event->tag_count; i++)
        at = put_empty(at, EVENT_TAG, event->tags[i]);
    if (event->has_ttl)
        at = put_float(at, EVENT_TTL, event->ttl);
    for (uint32_t i = 0; i < event->attribute_count; i++) {
        *at++ = EVENT_ATTRIBUTE;
        at = put_varint(at, attribute_size(&event->attributes[i]));
        at = put_empty(at, ATTRIBUTE_KEY, event->attributes[i].key);
        at = put_bytes(at, ATTRIBUTE_VALUE, event->attributes[i].value);
    }
    if (event->has_time)
        at = put_number(at, EVENT_TIME_MICROS, (uint64_t)event->time_us);
    return put_metric(at, event);
}

static size_t message_size(const struct weir_message *message)
{
    size_t size = (message->has_ok ? 2 : 0) + bytes_size(message->error), inner = bytes_size(message->query);
    if (message->query.data)
        size += 1 + varint_size(inner) + inner;
    for (size_t i = 0; i < message->event_count; i++) {
        size_t event = event_size(&message->events[i]);
        size += 1 + varint_size(event) + event;
    }
    return size;
}

static uint8_t *put_message(uint8_t *at, const struct weir_message *message)
{
    if (message->has_ok)
        at = put_number(at, MSG_OK, message->ok);
    at = put_bytes(at, MSG_ERROR, message->error);
    if (message->query.data) {
        *at++ = MSG_QUERY;
        at = put_varint(at, bytes_size(message->query));
        at = put_bytes(at, QUERY_STRING, message->query);
    }
    for (size_t i = 0; i < message->event_count; i++)
        at = put_event(at, &message->events[i]);
    return at;
}

static int no_memory(const struct weir_message *message, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "out of memory while encoding a message of %zu events",
                          message->event_count);
}

/* Of valid text only. */
static int encode_valid(const struct weir_message *message, bool framed, struct weir_buffer *out, struct weir_error *error)
{
    size_t size = message_size(message), header = framed ? WEIR_FRAME_HEADER : 0;
    if (framed && size > UINT32_MAX)
        return weir_error_set(error, WEIR_EXIT_USAGE, EMSGSIZE, "a message of %zu bytes doesn't fit a frame of 4 GiB", size);
    uint8_t *start = (uint8_t *)weir_buffer_extend(out, size + header);
    if (!start)
        return no_memory(message, error);
    if (framed)
        weir_frame_header(start, (uint32_t)size);
    size_t put = (size_t)(put_message(start + header, message) - start);
    if (put != size + header)
        weir_bug("%zu bytes encoded where %zu were foreseen", put, size + header);
    return 0;
}

static int encode(const struct weir_message *message, bool framed, struct weir_buffer *out, struct weir_error *error)
{
    if (message_valid(message))
        return encode_valid(message, framed, out, error);
    struct weir_arena scratch;
    struct weir_message repaired = *message;
    weir_arena_init(&scratch, 0, SIZE_MAX);
    int rc = repair_message(&scratch, &repaired) ? encode_valid(&repaired, framed, out, error) : no_memory(message, error);
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

/* --- a reply in pieces ---------------------------------------------------------------------------------------------------- */

void weir_message_reply_begin(struct weir_buffer *out)
{
    weir_buffer_add(out, weir_message_ack, sizeof weir_message_ack);
}

static int add_valid(struct weir_buffer *out, const struct weir_event *event, struct weir_error *error)
{
    size_t inner = event_size(event), size = 1 + varint_size(inner) + inner;
    uint8_t *start = (uint8_t *)weir_buffer_extend(out, size);
    if (!start)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "out of memory while encoding a reply of %zu bytes", out->length);
    size_t put = (size_t)(put_event(start, event) - start);
    if (put != size)
        weir_bug("%zu bytes encoded where %zu were foreseen", put, size);
    return 0;
}

int weir_message_reply_add(struct weir_buffer *out, const struct weir_event *event, struct weir_error *error)
{
    if (event_valid(event))
        return add_valid(out, event, error);
    struct weir_arena scratch;
    struct weir_event repaired = *event;
    weir_arena_init(&scratch, 0, SIZE_MAX);
    int rc = repair_event(&scratch, &repaired)
                 ? add_valid(out, &repaired, error)
                 : weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "out of memory while encoding a reply of %zu bytes", out->length);
    weir_arena_release(&scratch);
    return rc;
}

void weir_message_reply_end(struct weir_buffer *out)
{
    if (out->length >= WEIR_FRAME_HEADER)
        weir_frame_header((uint8_t *)out->data, (uint32_t)(out->length - WEIR_FRAME_HEADER));
}
