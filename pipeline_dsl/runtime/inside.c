#include "pipeline_dsl/runtime/inside.h"

#include <stdlib.h>

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/runtime/queue.h"
#include "pipeline_dsl/runtime/way.h"

#define ARENA_FIRST ((size_t)4 << 10)

void weir_inside_init(struct weir_inside *inside, const struct weir_plan *plan, struct weir_intake *intakes, struct weir_loop *loops,
                      uint32_t loop_count)
{
    *inside = (struct weir_inside){
        .plan = plan,
        .intakes = intakes,
        .loops = loops,
        .loop_count = loop_count,
        .block = &plan->way_blocks[(size_t)plan->way_count * plan->shards],
    };
    weir_mutex_init(&inside->mutex);
    for (uint32_t i = 0; i < plan->source_count; i++)
        plan->sources[i].inside = inside;
}

void weir_inside_release(struct weir_inside *inside)
{
    weir_mutex_release(&inside->mutex);
}

void weir_inside_close(struct weir_inside *inside)
{
    weir_mutex_lock(&inside->mutex);
    inside->closed = true;
    weir_mutex_unlock(&inside->mutex);
}

uint64_t weir_inside_count(struct weir_inside *inside)
{
    weir_mutex_lock(&inside->mutex);
    uint64_t count = inside->block->in_flight;
    weir_mutex_unlock(&inside->mutex);
    return count;
}

/* Whether one more may be born; then it is counted. */
static bool admit(struct weir_source *source)
{
    struct weir_inside *inside = source->inside;
    weir_mutex_lock(&inside->mutex);
    bool admitted = !inside->closed && source->outstanding < source->limit;
    if (admitted) {
        source->outstanding++;
        weir_way_accept(inside->block, 0, false);
    } else {
        source->refused++;
    }
    weir_mutex_unlock(&inside->mutex);
    return admitted;
}

struct weir_item *weir_inside_bear(struct weir_source *source)
{
    const struct weir_plan *plan = source->inside->plan;
    struct weir_item *item = calloc(1, sizeof *item);
    if (!item || !admit(source)) {
        free(item);
        return NULL;
    }
    item->source = source;
    item->way = &plan->ways[plan->way_count];
    item->way_index = plan->way_count;
    item->decoded = true;
    weir_arena_init(&item->arena, ARENA_FIRST, item->way->decode_max_bytes);
    return item;
}

/* The pool's loops take turns. Null: it has none, its threads are workers. */
static struct weir_loop *next_loop(struct weir_inside *inside, uint32_t pool)
{
    struct weir_loop *loop = NULL;
    weir_mutex_lock(&inside->mutex);
    for (uint32_t i = 0; i < inside->loop_count && !loop; i++) {
        inside->next_loop = (inside->next_loop + 1) % inside->loop_count;
        if (inside->loops[inside->next_loop].pool == pool)
            loop = &inside->loops[inside->next_loop];
    }
    weir_mutex_unlock(&inside->mutex);
    return loop;
}

void weir_inside_send(struct weir_item *item)
{
    struct weir_source *source = item->source;
    struct weir_inside *inside = source->inside;
    item->events = (uint32_t)item->message.event_count;
    item->next = NULL;
    if (inside->plan->pools[source->pool].listens)
        weir_loop_enter(next_loop(inside, source->pool), item);
    else
        weir_intake_enter(&inside->intakes[source->pool], item);
}

void weir_inside_end(struct weir_thread *thread, struct weir_item *item)
{
    struct weir_source *source = item->source;
    struct weir_inside *inside = source->inside;
    if (thread) {
        item->record.events = item->events;
        weir_item_segment_end(thread, &item->record);
        weir_item_shed_arena(thread, item);
    }
    weir_arena_release(&item->arena);
    weir_mutex_lock(&inside->mutex);
    source->outstanding--;
    weir_way_count(inside->block, &inside->block->events, item->events);
    weir_way_count(inside->block, &inside->block->malformed, item->malformed);
    weir_way_end(inside->block, &inside->block->discarded, 1);
    weir_mutex_unlock(&inside->mutex);
    free(item->block);
    weir_buffer_release(&item->reply);
    free(item);
}

void weir_inside_run(struct weir_thread *thread, struct weir_item *item)
{
    item->weight = weir_thread_choose(thread, item->way_index);
    item->never_waits |= thread->loop != NULL;
    weir_item_segment_begin(thread, item, WEIR_NO_QUEUE, item->source->run_stage + item->lane);
    item->source->run(thread, item);
}
