#include <string.h>

#include "base/buffer.h"
#include "tracer/verdict_rule.h"

static const char *taken(struct weir_arena *arena, struct weir_buffer *line)
{
    const char *text = line->failed ? NULL : weir_arena_dup(arena, weir_buffer_text(line), line->length);
    weir_buffer_release(line);
    return text;
}

static void add_size(struct weir_buffer *line, uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    unsigned unit = 0;
    while (unit < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    weir_buffer_printf(line, "%llu%s", (unsigned long long)bytes, units[unit]);
}

/* Does the stage have a name of its own, by `as`? */
static void add_as(struct weir_buffer *line, const struct weir_topology_stage *stage)
{
    if (strcmp(stage->name, weir_verb_name(stage->verb)) != 0)
        weir_buffer_printf(line, " as %s", stage->name);
}

const char *weir_line_pool(struct weir_arena *arena, const struct weir_topology_pool *pool, uint32_t threads)
{
    return weir_arena_printf(arena, "pool %s threads %u", pool->name, threads);
}

const char *weir_line_handoff_of_bytes(struct weir_arena *arena, const struct weir_topology *topology, uint32_t stage)
{
    const struct weir_topology_stage *handoff = &topology->stages[stage];
    const struct weir_topology_pipeline *pipeline = &topology->pipelines[handoff->pipeline];
    const struct weir_topology_queue *queue = &topology->queues[handoff->queue];
    struct weir_buffer line = WEIR_BUFFER_INIT;
    uint64_t limit = queue->limit_bytes;
    /* The limit has room for the largest frame, as the language demands. */
    for (uint32_t i = pipeline->first_stage; i < stage; i++)
        if (topology->stages[i].verb == WEIR_FRAME && topology->stages[i].max_bytes > limit)
            limit = topology->stages[i].max_bytes;
    weir_buffer_printf(&line, "handoff %s limit ", topology->pools[queue->to_pool].name);
    add_size(&line, limit);
    if (queue->items_given)
        weir_buffer_printf(&line, " items %llu", (unsigned long long)queue->limit_items);
    weir_buffer_printf(&line, " full %s", weir_full_name(queue->full));
    add_as(&line, handoff);
    return taken(arena, &line);
}

const char *weir_line_slots(struct weir_arena *arena, const struct weir_topology_stage *stage, uint32_t connections, uint32_t in_flight)
{
    struct weir_buffer line = WEIR_BUFFER_INIT;
    if (stage->verb == WEIR_FORWARD)
        weir_buffer_printf(&line, "forward riemann %s", stage->address ? stage->address : "…");
    else /* its connection string is nothing to print: there may be a password in it */
        weir_buffer_printf(&line, "store postgres … table %s", stage->symbol ? stage->symbol : "…");
    weir_buffer_printf(&line, " connections %u in_flight %u", connections, in_flight);
    add_as(&line, stage);
    return taken(arena, &line);
}
