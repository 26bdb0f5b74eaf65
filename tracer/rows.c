#include "tracer/rows.h"

#include <errno.h>
#include <stdlib.h>

static uint32_t parts_of(enum weir_verb_kind verb, enum weir_part parts[3])
{
    if (verb == WEIR_HANDOFF) {
        parts[0] = WEIR_PART_SIZE, parts[1] = WEIR_PART_PUSH, parts[2] = WEIR_PART_POP;
        return 3;
    }
    if (verb == WEIR_REPLY || verb == WEIR_FORWARD || verb == WEIR_STORE) {
        parts[0] = WEIR_PART_PUSH, parts[1] = WEIR_PART_POP;
        return 2;
    }
    return 0;
}

/* Who runs a part: a handoff is popped by those it leads to, a reply is finished by those who hand it back, and what slots have
 * finished is pushed by the threads of its connections. */
static uint32_t part_pool(const struct weir_topology *topology, const struct weir_topology_stage *stage, enum weir_part part)
{
    bool has_queue = stage->queue < topology->queue_count;
    if (part == WEIR_PART_POP)
        return has_queue ? topology->queues[stage->queue].to_pool : stage->pool;
    if (has_queue && weir_topology_has_slots(stage))
        return topology->queues[stage->queue].from_pool;
    return stage->verb == WEIR_REPLY ? stage->finish_pool : stage->pool;
}

static uint32_t add(struct weir_profile *profile, const char *name, uint32_t part_of)
{
    struct weir_profile_row *row = &profile->rows[profile->row_count];
    *row = (struct weir_profile_row){ .name = name, .part_of = part_of, .stage = WEIR_NONE, .way = WEIR_NONE, .pool = WEIR_NONE };
    return profile->row_count++;
}

static void set_tag(struct weir_rows *rows, uint32_t id, uint32_t part, struct weir_rows_tag tag)
{
    uint32_t index = WEIR_TAG(id, part);
    if (index < rows->tag_count)
        rows->tags[index] = tag;
}

/* The rows of one stage: the stage, its parts, and one for each way in where several share it. */
static void add_stage(struct weir_rows *rows, struct weir_profile *profile, uint32_t index)
{
    const struct weir_topology *topology = &profile->topology;
    const struct weir_topology_stage *stage = &topology->stages[index];
    enum weir_part parts[3];
    uint32_t part_rows[4] = { WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE };
    uint32_t part_count = parts_of(stage->verb, parts), instances = 0;
    uint32_t row = add(profile, stage->full_name, WEIR_NONE);
    rows->stage_rows[index] = row;
    profile->rows[row].stage = index;
    profile->rows[row].pool = stage->pool;
    for (uint32_t i = 0; i < part_count; i++) {
        uint32_t part =
            add(profile, weir_arena_printf(&profile->arena, "%s.%s", stage->full_name, weir_part_name(parts[i])), row);
        profile->rows[part].stage = index;
        profile->rows[part].part = parts[i];
        profile->rows[part].pool = part_pool(topology, stage, parts[i]);
        part_rows[parts[i]] = part;
    }
    for (uint32_t i = 0; i < topology->instance_count; i++)
        instances += topology->instances[i].stage == index;
    for (uint32_t i = 0; i < topology->instance_count; i++) {
        const struct weir_topology_instance *instance = &topology->instances[i];
        if (instance->stage != index)
            continue;
        uint32_t way = WEIR_NONE;
        if (instances > 1) {
            way = add(profile, instance->name, row);
            profile->rows[way].stage = index;
            profile->rows[way].way = instance->way;
            profile->rows[way].pool = instance->pool;
        } else {
            profile->rows[row].way = instance->way;
        }
        for (uint32_t part = 0; part < 4; part++)
            set_tag(rows, WEIR_INSTANCE_FIRST + i, part, (struct weir_rows_tag){ row, part_rows[part], way });
    }
}

int weir_rows_build(struct weir_rows *rows, struct weir_profile *profile)
{
    const struct weir_topology *topology = &profile->topology;
    size_t most = WEIR_ROW_STAGES + (size_t)topology->stage_count * 4 + topology->instance_count;
    rows->tag_count = weir_topology_tag_count(topology);
    rows->tags = calloc(rows->tag_count, sizeof *rows->tags);
    rows->stage_rows = calloc((size_t)topology->stage_count + 1, sizeof *rows->stage_rows);
    profile->rows = weir_arena_zalloc(&profile->arena, most * sizeof *profile->rows);
    profile->row_count = 0;
    if (!rows->tags || !rows->stage_rows || !profile->rows) {
        weir_rows_release(rows);
        return -ENOMEM;
    }
    add(profile, "(runtime)", WEIR_NONE);
    add(profile, "(tracing)", WEIR_NONE);
    add(profile, "(outside)", WEIR_NONE);
    for (uint32_t i = 0; i < rows->tag_count; i++)
        rows->tags[i] =
            (struct weir_rows_tag){ i >> WEIR_TAG_PART_BITS == WEIR_INSTANCE_TRACING ? WEIR_ROW_TRACING : WEIR_ROW_RUNTIME,
                                    WEIR_NONE, WEIR_NONE };
    for (uint32_t i = 0; i < topology->stage_count; i++)
        add_stage(rows, profile, i);
    rows->row_count = profile->row_count;
    return 0;
}

void weir_rows_release(struct weir_rows *rows)
{
    free(rows->tags);
    free(rows->stage_rows);
    *rows = (struct weir_rows){ .tags = NULL };
}

static struct weir_rows_tag rows_of(const struct weir_rows *rows, uint32_t tag)
{
    return tag < rows->tag_count ? rows->tags[tag] : (struct weir_rows_tag){ WEIR_ROW_RUNTIME, WEIR_NONE, WEIR_NONE };
}

uint32_t weir_rows_leaf(const struct weir_rows *rows, uint32_t tag)
{
    struct weir_rows_tag at = rows_of(rows, tag);
    return at.part != WEIR_NONE ? at.part : at.stage;
}

void weir_rows_add(const struct weir_rows *rows, double *sums, uint32_t tag, double value)
{
    struct weir_rows_tag at = rows_of(rows, tag);
    sums[at.stage] += value;
    if (at.part != WEIR_NONE)
        sums[at.part] += value;
    if (at.way != WEIR_NONE)
        sums[at.way] += value;
}

void weir_rows_add_count(const struct weir_rows *rows, uint64_t *sums, uint32_t tag, uint64_t value)
{
    struct weir_rows_tag at = rows_of(rows, tag);
    sums[at.stage] += value;
    if (at.part != WEIR_NONE)
        sums[at.part] += value;
    if (at.way != WEIR_NONE)
        sums[at.way] += value;
}
