#include "pipeline_dsl/stages/index_takeover.h"

#include "pipeline_dsl/stages/index.h"

#define VERSION 1u

/* In front of an entry's strings. A piece begins with the version. */
struct kept {
    int64_t time_us;
    uint64_t metric; /* its bits */
    float ttl;
    uint32_t flags;
    uint64_t size; /* of the strings */
};

void weir_index_leave(void *object, const char *name, struct weir_takeover_writer *writer)
{
    const uint32_t version = VERSION;
    struct weir_index_walk walk;
    struct weir_buffer piece = WEIR_BUFFER_INIT;
    weir_index_walk_init(&walk, object);
    while (weir_index_walk_next(&walk)) {
        weir_buffer_clear(&piece);
        weir_buffer_add(&piece, &version, sizeof version);
        for (uint32_t i = 0; i < walk.count; i++) {
            const struct weir_index_entry *entry = walk.entries[i];
            struct kept kept = { .time_us = entry->time_us, .ttl = entry->ttl, .flags = entry->flags,
                                 .size = weir_index_entry_filled(entry) };
            memcpy(&kept.metric, &entry->metric, sizeof kept.metric);
            weir_buffer_add(&piece, &kept, sizeof kept);
            weir_buffer_add(&piece, entry->packed, kept.size);
        }
        if (!piece.failed)
            weir_takeover_add(writer, &(struct weir_takeover_record){ .kind = WEIR_TAKEOVER_STATE, .fd = -1, .owner = -1, .name = name,
                                          .data = piece.data, .data_bytes = piece.length });
    }
    weir_buffer_release(&piece);
}

/* The entry is made again, so that it lies as an entry must; the index then makes its own. */
static void take_one(struct weir_index *index, struct weir_arena *arena, const struct kept *kept, const uint8_t *strings)
{
    struct weir_event event;
    struct weir_index_entry *entry = weir_arena_alloc(arena, sizeof *entry + kept->size);
    if (!entry)
        return;
    *entry = (struct weir_index_entry){ .time_us = kept->time_us, .ttl = kept->ttl, .flags = (uint8_t)kept->flags };
    memcpy(&entry->metric, &kept->metric, sizeof kept->metric);
    memcpy(entry->packed, strings, kept->size);
    if (weir_index_entry_view(entry, arena, &event))
        weir_index_put(index, &event, 0);
}

void weir_index_take(void *object, const void *data, size_t size)
{
    const uint8_t *at = data, *end = at + size;
    uint32_t version = 0;
    struct weir_arena arena;
    if (size < sizeof version)
        return;
    memcpy(&version, at, sizeof version);
    at += sizeof version;
    if (version != VERSION)
        return;
    weir_arena_init(&arena, 0, SIZE_MAX);
    for (struct kept kept; (size_t)(end - at) >= sizeof kept; at += kept.size) {
        memcpy(&kept, at, sizeof kept);
        at += sizeof kept;
        if (kept.size > (size_t)(end - at))
            break;
        weir_arena_reset(&arena);
        take_one(object, &arena, &kept, at);
    }
    weir_arena_release(&arena);
}
