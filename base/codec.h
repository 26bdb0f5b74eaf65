/*
 * codec: what the two codecs of base (topology, profile) share: text fields, and protobuf-c's memory taken from an arena.
 * It stands inside base; no other room includes it.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: any.
 * Errors: a field that can't be read is described in the error, with WEIR_EXIT_USAGE.
 */
#ifndef WEIR_BASE_CODEC_H
#define WEIR_BASE_CODEC_H

#include <protobuf-c/protobuf-c.h>
#include <string.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/topology.h"

#define WEIR_CODEC_TEXT_MOST ((size_t)1 << 20)

/* An index is stored plus one, so that WEIR_NONE becomes 0. */
static inline uint32_t weir_codec_index(uint32_t index)
{
    return index + 1u;
}

static inline uint32_t weir_codec_index_back(uint32_t stored)
{
    return stored - 1u;
}

static inline ProtobufCBinaryData weir_codec_text(const char *text)
{
    return (ProtobufCBinaryData){ .len = text ? strlen(text) : 0, .data = (uint8_t *)text };
}

/* A copy of the field with a NUL behind it; `empty` when it has no bytes. Returns false when it holds a NUL or is too long. */
static inline bool weir_codec_text_back(struct weir_arena *arena, const ProtobufCBinaryData *field, const char *empty, const char **text)
{
    *text = empty;
    if (!field->len)
        return true;
    if (field->len > WEIR_CODEC_TEXT_MOST || memchr(field->data, 0, field->len))
        return false;
    *text = weir_arena_dup(arena, field->data, field->len);
    return *text != NULL;
}

/* protobuf-c as a user of an arena: one release instead of a walk, and the arena's limit bounds what hostile input can ask for. */
static inline void *weir_codec_alloc(void *arena, size_t size)
{
    return weir_arena_alloc(arena, size);
}

static inline void weir_codec_free(void *arena, void *piece)
{
    (void)arena;
    (void)piece;
}

#define WEIR_CODEC_ALLOCATOR(arena) { .alloc = weir_codec_alloc, .free = weir_codec_free, .allocator_data = (arena) }

/* What reading `size` bytes may take, so that a few hostile bytes can't ask for much: an empty message is 2 bytes on the wire and
 * some 200 in memory. */
static inline size_t weir_codec_limit(size_t size)
{
    size_t most = (size_t)2 << 30, room = (size_t)1 << 20;
    return size > most / 128 ? most : room + size * 128;
}

struct weir_codec_sink {
    ProtobufCBuffer base;
    struct weir_buffer *out;
};

static inline void weir_codec_append(ProtobufCBuffer *base, size_t size, const uint8_t *data)
{
    weir_buffer_add(((struct weir_codec_sink *)base)->out, data, size);
}

static inline void weir_codec_pack(const ProtobufCMessage *message, struct weir_buffer *out)
{
    struct weir_codec_sink sink = { .base = { .append = weir_codec_append }, .out = out };
    protobuf_c_message_pack_to_buffer(message, &sink.base);
}

/* `count` messages of one generated type in the arena: sets `list` (pointers to them) and `n`. False when memory is short. */
#define WEIR_CODEC_LIST(arena, list, n, count, type, init)                                                  \
    ((list) = weir_arena_alloc((arena), ((size_t)(count) + 1) * sizeof *(list)),                            \
     (n) = (count),                                                                                         \
     (list) && weir_codec_fill((void **)(list), weir_arena_alloc((arena), ((size_t)(count) + 1) * sizeof(type)), (count), \
                               sizeof(type), &(const type)init))

static inline bool weir_codec_fill(void **list, char *messages, size_t count, size_t size, const void *init)
{
    if (!messages)
        return false;
    for (size_t i = 0; i < count; i++) {
        list[i] = memcpy(messages + i * size, init, size);
    }
    return true;
}

/* `count` cleared structs in `arena`, for reading. */
#define WEIR_CODEC_ARRAY(arena, array, count) \
    (((array) = weir_arena_zalloc((arena), ((size_t)(count) + 1) * sizeof *(array))) != NULL)

#endif
