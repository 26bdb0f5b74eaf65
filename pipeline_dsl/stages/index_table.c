/*
 * DESIGN: extendible hashing. A directory, chosen into by the first bits of the hash, leads to segments of 256 slots with open
 * addressing. A segment that is seven eighths full is split by the next bit of the hash; where the directory has no such bit it is
 * doubled first. So a table of any size grows by some microseconds at a time, and neither a walk over all of it nor the reaper
 * ever holds the lock for longer than a segment takes.
 *
 * A slot has what a look-up and the reaper need, the hash and when the entry is due: both go through 16 bytes a key, and touch
 * an entry only when it is the one they mean.
 *
 * Bits of the hash: the first 5 choose the shard, the last 8 the slot, those between the segment. A directory that has used
 * them all (2^19 segments a shard, a billion keys) grows no more; the hash is seeded, so that nobody can bring that about.
 *
 * What was split is joined again when both halves fit a quarter of a segment. Only the directory keeps the size of its largest
 * moment, 8 bytes for each segment that there was.
 */
#include "pipeline_dsl/stages/index_table.h"

#include <errno.h>
#include <stdlib.h>

#define SPLIT_AT (WEIR_INDEX_SEGMENT_SLOTS - WEIR_INDEX_SEGMENT_SLOTS / 8)
#define JOIN_AT (WEIR_INDEX_SEGMENT_SLOTS / 4)
#define DEPTH_MOST (32u - WEIR_INDEX_SHARD_BITS - WEIR_INDEX_SEGMENT_BITS)

static void segment_clear(struct weir_index_segment *segment, uint32_t depth)
{
    segment->count = 0;
    segment->depth = depth;
    for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
        segment->slots[i] = (struct weir_index_slot){ .due = UINT32_MAX };
}

int weir_index_table_init(struct weir_index_shard *shard)
{
    weir_mutex_init(&shard->mutex);
    shard->depth = 0;
    shard->directory = malloc(sizeof *shard->directory);
    struct weir_index_segment *segment = malloc(sizeof *segment);
    if (!shard->directory || !segment) {
        free(segment);
        return -ENOMEM;
    }
    segment_clear(segment, 0);
    shard->directory[0] = segment;
    return 0;
}

void weir_index_table_release(struct weir_index_shard *shard)
{
    size_t places = (size_t)1 << shard->depth;
    for (size_t at = 0, next; at < places; at = next) {
        struct weir_index_segment *segment = shard->directory[at];
        next = at + (places >> segment->depth);
        for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
            free(segment->slots[i].entry);
        free(segment);
    }
    free(shard->directory);
    weir_mutex_release(&shard->mutex);
}

static void segment_add(struct weir_index_segment *segment, struct weir_index_slot slot)
{
    uint32_t at = slot.hash;
    while (segment->slots[at % WEIR_INDEX_SEGMENT_SLOTS].entry)
        at++;
    segment->slots[at % WEIR_INDEX_SEGMENT_SLOTS] = slot;
    segment->count++;
}

static int double_directory(struct weir_index_shard *shard)
    WEIR_REQUIRES(shard->mutex)
{
    size_t places = (size_t)1 << shard->depth;
    struct weir_index_segment **directory = malloc(2 * places * sizeof *directory);
    if (!directory)
        return -ENOMEM;
    for (size_t i = 0; i < 2 * places; i++)
        directory[i] = shard->directory[i / 2];
    free(shard->directory);
    shard->directory = directory;
    shard->depth++;
    return 0;
}

/* The directory's places that begin like `place`, as many bits as the segment has, lead to it. */
static void lead_to(struct weir_index_shard *shard, struct weir_index_segment *segment, uint32_t place)
    WEIR_REQUIRES(shard->mutex)
{
    size_t count = (size_t)1 << (shard->depth - segment->depth);
    size_t first = (((uint64_t)place << shard->depth) >> 32) & ~(count - 1);
    for (size_t i = 0; i < count; i++)
        shard->directory[first + i] = segment;
}

/* Half of the segment's hashes, more or less, move to a new one behind it. */
static int split(struct weir_index_shard *shard, struct weir_index_segment *segment, uint32_t place)
    WEIR_REQUIRES(shard->mutex)
{
    if (segment->depth == DEPTH_MOST)
        return -ENOMEM;
    struct weir_index_segment *upper = malloc(sizeof *upper);
    if (!upper || (segment->depth == shard->depth && double_directory(shard) != 0)) {
        free(upper);
        return -ENOMEM;
    }
    struct weir_index_segment whole = *segment;
    segment_clear(segment, whole.depth + 1);
    segment_clear(upper, whole.depth + 1);
    uint32_t bit = 0x80000000u >> WEIR_INDEX_SHARD_BITS >> whole.depth;
    for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
        if (whole.slots[i].entry)
            segment_add(whole.slots[i].hash & bit ? upper : segment, whole.slots[i]);
    lead_to(shard, upper, place | bit << WEIR_INDEX_SHARD_BITS);
    return 0;
}

int weir_index_table_add(struct weir_index_shard *shard, uint32_t hash, uint32_t due, struct weir_index_entry *entry)
{
    uint32_t place = weir_index_table_place(hash);
    struct weir_index_segment *segment = weir_index_table_segment(shard, place);
    /* Split as often as all hashes fall on one side. Without memory for that the segment fills up; one slot stays empty, where
     * look-ups end. */
    while (segment->count >= SPLIT_AT && split(shard, segment, place) == 0)
        segment = weir_index_table_segment(shard, place);
    if (segment->count == WEIR_INDEX_SEGMENT_SLOTS - 1)
        return -ENOMEM;
    segment_add(segment, (struct weir_index_slot){ entry, hash, due });
    return 0;
}

void weir_index_table_shrink(struct weir_index_shard *shard, uint32_t place)
{
    for (;;) {
        struct weir_index_segment *segment = weir_index_table_segment(shard, place);
        if (!segment->depth)
            return;
        struct weir_index_segment *other = weir_index_table_segment(shard, place ^ (0x80000000u >> (segment->depth - 1)));
        if (other->depth != segment->depth || segment->count + other->count > JOIN_AT)
            return;
        for (uint32_t i = 0; i < WEIR_INDEX_SEGMENT_SLOTS; i++)
            if (other->slots[i].entry)
                segment_add(segment, other->slots[i]);
        segment->depth--;
        lead_to(shard, segment, place);
        free(other);
    }
}

void weir_index_table_remove(struct weir_index_segment *segment, struct weir_index_slot *slot)
{
    uint32_t hole = (uint32_t)(slot - segment->slots), at = hole;
    segment->count--;
    for (;;) {
        at = (at + 1) % WEIR_INDEX_SEGMENT_SLOTS;
        struct weir_index_slot *next = &segment->slots[at];
        if (!next->entry)
            break;
        /* It may fill the hole if that lies between where it would stand best and where it stands. */
        uint32_t from_best = (at - next->hash) % WEIR_INDEX_SEGMENT_SLOTS, from_hole = (at - hole) % WEIR_INDEX_SEGMENT_SLOTS;
        if (from_best >= from_hole) {
            segment->slots[hole] = *next;
            hole = at;
        }
    }
    segment->slots[hole] = (struct weir_index_slot){ .due = UINT32_MAX };
}
