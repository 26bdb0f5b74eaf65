/*
 * DESIGN: two ways to the same number: the bytes of all structs, arrays and strings that the unpacked tree consists of.
 *
 * reflect_message() knows nothing about Riemann. It is what an estimator must do that is handed "some object": ask the type
 * for its fields, tell from each field's label and type where its value lies and whether it is there, and go down into
 * those that are messages. It's written as well as such a walk can be. typed_* know each field by name, so that
 * all the questions are answered when weir is compiled.
 *
 * The walks are not inlined into each other's callers: a profile then shows them by their own names.
 */
#include "pipeline_dsl/wire/message.h"

#include <string.h>

#include <riemann.pb-c.h>

#define NOT_INLINED __attribute__((noinline))

static size_t unknown_fields(const ProtobufCMessage *message)
{
    size_t size = message->n_unknown_fields * sizeof *message->unknown_fields;
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        size += message->unknown_fields[i].len;
    return size;
}

/* --- reflect ---------------------------------------------------------------------------------------------------------- */

static size_t reflect_message(const ProtobufCMessage *message);

/* The size of one element of an array of this type. */
static size_t reflect_element_size(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_INT32: case PROTOBUF_C_TYPE_SINT32: case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32: case PROTOBUF_C_TYPE_FIXED32: case PROTOBUF_C_TYPE_FLOAT: case PROTOBUF_C_TYPE_ENUM:
        return 4;
    case PROTOBUF_C_TYPE_INT64: case PROTOBUF_C_TYPE_SINT64: case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64: case PROTOBUF_C_TYPE_FIXED64: case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING: case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    }
    return 0;
}

/* What a value holds beyond its place in a struct or array. */
static size_t reflect_value(ProtobufCType type, const void *value, const void *default_value)
{
    switch (type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *text = *(const char *const *)value;
        return text && text != default_value ? strlen(text) + 1 : 0;
    }
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)value)->len;
    case PROTOBUF_C_TYPE_MESSAGE: {
        const ProtobufCMessage *message = *(const ProtobufCMessage *const *)value;
        return message ? reflect_message(message) : 0;
    }
    default:
        return 0;
    }
}

/* Is an optional field, or the chosen one of a union, there? Strings and messages say so by their pointer. */
static bool reflect_is_set(const uint8_t *base, const ProtobufCFieldDescriptor *field)
{
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
        return *(const uint32_t *)(base + field->quantifier_offset) == field->id;
    if (field->label != PROTOBUF_C_LABEL_OPTIONAL || field->type == PROTOBUF_C_TYPE_STRING ||
        field->type == PROTOBUF_C_TYPE_MESSAGE)
        return true;
    return *(const protobuf_c_boolean *)(base + field->quantifier_offset);
}

static size_t reflect_repeated(const uint8_t *base, const ProtobufCFieldDescriptor *field)
{
    size_t count = *(const size_t *)(base + field->quantifier_offset);
    const uint8_t *element = *(const uint8_t *const *)(base + field->offset);
    size_t element_size = reflect_element_size(field->type);
    size_t size = count * element_size;
    for (size_t i = 0; i < count; i++, element += element_size)
        size += reflect_value(field->type, element, NULL);
    return size;
}

static NOT_INLINED size_t reflect_message(const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *descriptor = message->descriptor;
    const uint8_t *base = (const uint8_t *)message;
    size_t size = descriptor->sizeof_message + unknown_fields(message);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        if (field->label == PROTOBUF_C_LABEL_REPEATED)
            size += reflect_repeated(base, field);
        else if (reflect_is_set(base, field))
            size += reflect_value(field->type, base + field->offset, field->default_value);
    }
    return size;
}

NOT_INLINED size_t weir_message_size_reflect(const struct weir_message *message)
{
    return message->raw ? reflect_message(message->raw) : 0;
}

/* --- typed ------------------------------------------------------------------------------------------------------------ */

/* An absent string has the length 0. */
static size_t typed_event(const WeirRiemann__Event *event)
{
    size_t size = sizeof *event + unknown_fields(&event->base) + event->host.len + event->service.len + event->state.len +
                  event->description.len + event->n_tags * sizeof *event->tags +
                  event->n_attributes * sizeof *event->attributes;
    for (size_t i = 0; i < event->n_tags; i++)
        size += event->tags[i].len;
    for (size_t i = 0; i < event->n_attributes; i++) {
        const WeirRiemann__Attribute *attribute = event->attributes[i];
        size += sizeof *attribute + unknown_fields(&attribute->base) + attribute->key.len + attribute->value.len;
    }
    return size;
}

NOT_INLINED size_t weir_message_size_typed(const struct weir_message *message)
{
    const WeirRiemann__Msg *raw = message->raw;
    if (!raw)
        return 0;
    size_t size = sizeof *raw + unknown_fields(&raw->base) + raw->error.len + raw->n_events * sizeof *raw->events;
    if (raw->query)
        size += sizeof *raw->query + unknown_fields(&raw->query->base) + raw->query->string.len;
    for (size_t i = 0; i < raw->n_events; i++)
        size += typed_event(raw->events[i]);
    return size;
}
