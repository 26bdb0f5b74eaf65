#include "tracer/stacks.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256u

static bool is_free(const struct weir_stacks_entry *entry)
{
    return entry->samples == 0 && entry->pending == 0;
}

static uint64_t hash(uint32_t row, const uint64_t *frames, uint32_t frame_count)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ row;
    for (uint32_t i = 0; i < frame_count; i++)
        h = (h ^ frames[i]) * 0xff51afd7ed558ccdu, h ^= h >> 32;
    return h;
}

static struct weir_stacks_entry *find(const struct weir_stacks *stacks, uint32_t row, const uint64_t *frames,
                                      uint32_t frame_count)
{
    uint32_t at = (uint32_t)hash(row, frames, frame_count) & (stacks->capacity - 1);
    for (;; at = (at + 1) & (stacks->capacity - 1)) {
        struct weir_stacks_entry *entry = &stacks->entries[at];
        if (is_free(entry) || (entry->row == row && entry->frame_count == frame_count &&
                                    memcmp(entry->frames, frames, frame_count * sizeof *frames) == 0))
            return entry;
    }
}

static void grow(struct weir_stacks *stacks)
{
    struct weir_stacks larger = { .capacity = stacks->capacity ? stacks->capacity * 2 : FIRST_CAPACITY,
                                  .used = stacks->used,
                                  .dropped = stacks->dropped };
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (!larger.entries)
        return;
    for (uint32_t i = 0; i < stacks->capacity; i++) {
        const struct weir_stacks_entry *entry = &stacks->entries[i];
        if (!is_free(entry))
            *find(&larger, entry->row, entry->frames, entry->frame_count) = *entry;
    }
    free(stacks->entries);
    *stacks = larger;
}

void weir_stacks_add(struct weir_stacks *stacks, uint32_t row, const uint64_t *frames, uint32_t frame_count)
{
    if (frame_count > WEIR_STACK_FRAMES)
        frame_count = WEIR_STACK_FRAMES;
    if (frame_count == 0)
        return;
    if (stacks->used * 4 >= stacks->capacity * 3 && stacks->used < WEIR_STACKS_MOST)
        grow(stacks);
    struct weir_stacks_entry *entry =
        stacks->capacity && stacks->used < stacks->capacity ? find(stacks, row, frames, frame_count) : NULL;
    if (!entry || (is_free(entry) && stacks->used >= WEIR_STACKS_MOST)) {
        stacks->dropped++;
        return;
    }
    if (is_free(entry)) {
        entry->row = row;
        entry->frame_count = frame_count;
        memcpy(entry->frames, frames, frame_count * sizeof *frames);
        stacks->used++;
    }
    entry->pending++;
}

void weir_stacks_fold(struct weir_stacks *stacks)
{
    for (uint32_t i = 0; i < stacks->capacity; i++) {
        stacks->entries[i].samples += stacks->entries[i].pending;
        stacks->entries[i].pending = 0;
    }
}

void weir_stacks_release(struct weir_stacks *stacks)
{
    free(stacks->entries);
    *stacks = (struct weir_stacks){ .entries = NULL };
}
