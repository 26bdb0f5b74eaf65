/*
 * DESIGN: one pass that writes fields in the order of their numbers, into memory that is surely enough; no tree, and no second pass
 * for exact sizes. An event's length stands before its bytes: two places are left for it, and only an event below 128 or above
 * 16,383 bytes is moved when its length is known. protobuf-c's packer gives the same bytes from a tree, at several times the cost;
 * clients encode every event that they send.
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

/* Nearly all text is ASCII: looked at in words, the last of which overlaps the one before. */
static bool is_ascii(const uint8_t *data, size_t size)
{
    uint64_t seen = 0, word;
    uint32_t half;
    if (size >= 8) {
        for (size_t at = 0; at + 8 < size; at += 8) {
            memcpy(&word, data + at, 8);
            seen |= word;
        }
        memcpy(&word, data + size - 8, 8);
        seen |= word;
    } else if (size >= 4) {
        memcpy(&half, data, 4);
        seen = half;
        memcpy(&half, data + size - 4, 4);
        seen |= half;
    } else {
        for (size_t at = 0; at < size; at++)
            seen |= data[at];
    }
    return !(seen & 0x8080808080808080u);
}

static bool valid(struct weir_bytes bytes)
{
    return !bytes.data || is_ascii(bytes.data, bytes.size) || weir_utf8_valid(bytes.data, bytes.size);
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

#define BLOCK_MOST ((size_t)6)   /* tag and length of anything below 32 GiB */
#define FIELDS_MOST ((size_t)80) /* of an event: its own, those of 4 strings, and 5 numbers of at most 11, 11, 5, 11 and 5 bytes */

static size_t event_most(const struct weir_event *event)
{
    size_t most = FIELDS_MOST + event->host.size + event->service.size + event->state.size + event->description.size;
    for (uint32_t i = 0; i < event->tag_count; i++)
        most += BLOCK_MOST + event->tags[i].size;
    for (uint32_t i = 0; i < event->attribute_count; i++)
        most += 3 * BLOCK_MOST + event->attributes[i].key.size + event->attributes[i].value.size;
    return most;
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

/* Sets the length of what was written behind `gap`, two bytes left for it; returns the end. */
static uint8_t *close_gap(uint8_t *gap, uint8_t *end)
{
    size_t size = (size_t)(end - gap) - 2, width = varint_size(size);
    if (width != 2)
        memmove(gap + width, gap + 2, size);
    put_varint(gap, size);
    return gap + width + size;
}

static uint8_t *put_event(uint8_t *at, const struct weir_event *event)
{
    *at++ = MSG_EVENT;
    uint8_t *gap = at;
    at += 2;
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
    return close_gap(gap, put_metric(at, event));
}

static size_t message_most(const struct weir_message *message)
{
    size_t most = FIELDS_MOST + message->error.size + message->query.size;
    for (size_t i = 0; i < message->event_count; i++)
        most += event_most(&message->events[i]);
    return most;
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
    size_t most = message_most(message), header = framed ? WEIR_FRAME_HEADER : 0, before = out->length;
    uint8_t *start = (uint8_t *)weir_buffer_extend(out, header + most);
    if (!start)
        return no_memory(message, error);
    size_t size = (size_t)(put_message(start + header, message) - start) - header;
    if (size > most)
        weir_bug("%zu bytes encoded where at most %zu were foreseen", size, most);
    weir_buffer_cut(out, before + header + size);
    if (framed && size > UINT32_MAX) {
        weir_buffer_cut(out, before);
        return weir_error_set(error, WEIR_EXIT_USAGE, EMSGSIZE, "a message of %zu bytes doesn't fit a frame of 4 GiB", size);
    }
    if (framed)
        weir_frame_header(start, (uint32_t)size);
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
    size_t before = out->length;
    uint8_t *start = (uint8_t *)weir_buffer_extend(out, event_most(event));
    if (!start)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "out of memory while encoding a reply of %zu bytes", out->length);
    weir_buffer_cut(out, before + (size_t)(put_event(start, event) - start));
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
