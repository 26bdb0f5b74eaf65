/*
 * message: Riemann's messages, decoded and encoded.
 * It stands after frame and before index on the way of an event, and at both ends of a client.
 *
 * Units: bytes; time in us since the epoch; ttl in s.
 * Owns: nothing; everything decoded lies in the arena given, bytes are copied there.
 * Threads: owner only.
 * Errors: -EBADMSG for what is no message, -ENOMEM when the arena's limit is reached. Never allocates by a claimed length.
 */
#ifndef WEIR_WIRE_MESSAGE_H
#define WEIR_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/error.h"

struct weir_attribute {
    struct weir_bytes key, value;
};

enum weir_metric_kind { WEIR_METRIC_NIL, WEIR_METRIC_INT, WEIR_METRIC_DOUBLE, WEIR_METRIC_FLOAT };

struct weir_event {
    struct weir_bytes host, service, state, description;
    const struct weir_bytes *tags;
    const struct weir_attribute *attributes;
    uint32_t tag_count, attribute_count;
    int64_t time_us;
    float ttl;
    bool has_time, has_ttl;
    enum weir_metric_kind metric_kind; /* sint64 before double before float, when several are on the wire */
    int64_t metric_int;
    double metric_double;              /* of DOUBLE and FLOAT */
};

struct weir_message {
    bool has_ok, ok;
    struct weir_bytes error;
    struct weir_bytes query;
    struct weir_event *events;
    size_t event_count;
    void *raw; /* the codec's own tree, in the same arena; only the size estimators look at it */
};

/* Decodes one message (without its frame header) into `arena`. Attributes named host, service, state or description overwrite
 * those fields; attributes named tags, time, ttl or metric are left out; of two with one name the last counts. Bytes are kept
 * as they came. `*message` is untouched on failure. */
int weir_message_decode(struct weir_message *message, struct weir_arena *arena, const void *data, size_t size,
                        struct weir_error *error);

/* A copy that lies wholly in `arena`. -ENOMEM; then `*to` of a message is untouched. */
int weir_event_copy(struct weir_event *to, const struct weir_event *from, struct weir_arena *arena);
int weir_message_copy(struct weir_message *to, const struct weir_message *from, struct weir_arena *arena);

/* Appends the encoded message, without a frame header / with its 4-byte big-endian length in front. What is no UTF-8 goes out
 * with U+FFFD in its place. An integer and a double go out as a float too, as near as one comes; a FLOAT goes alone. */
int weir_message_encode(const struct weir_message *message, struct weir_buffer *out, struct weir_error *error);
int weir_message_encode_framed(const struct weir_message *message, struct weir_buffer *out, struct weir_error *error);

/* A framed reply, ok, that gets its events one by one: begun in an empty buffer. Running out of memory shows in `out->failed`. */
void weir_message_reply_begin(struct weir_buffer *out);
int weir_message_reply_add(struct weir_buffer *out, const struct weir_event *event, struct weir_error *error);
void weir_message_reply_end(struct weir_buffer *out);

/* How much memory a decoded message holds, bytes. `typed` knows the message's type and visits its fields directly;
 * `reflect` knows nothing: it walks the protobuf descriptors field by field, and sums what it finds, as a type-blind
 * estimator must (Netty 3's DefaultObjectSizeEstimator did so in Riemann). Both give the same sum. */
size_t weir_message_size_typed(const struct weir_message *message);
size_t weir_message_size_reflect(const struct weir_message *message);

/* The framed acknowledgement: 00 00 00 02 10 01. */
extern const uint8_t weir_message_ack[6];

#endif
