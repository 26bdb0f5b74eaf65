#include "pipeline_dsl/stages/index_reaper.h"

#include <time.h>

#include "pipeline_dsl/runtime/loop.h"

#define SEGMENTS_A_STEP 64u
#define TICK_MOST_NS 5000000000u
#define TICK_LEAST_NS 100000000u

uint64_t weir_index_tick_ns(float ttl)
{
    double tenth_ns = (double)ttl * 1e8;
    return tenth_ns > TICK_MOST_NS ? TICK_MOST_NS : tenth_ns > TICK_LEAST_NS ? (uint64_t)tenth_ns : TICK_LEAST_NS;
}

static int64_t clock_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void finish(struct weir_index *index)
{
    weir_index_walk_init(&index->reaper, index);
    __atomic_store_n(&index->reaping, false, __ATOMIC_RELEASE);
}

/* A new item goes on where the last one stopped; without one the next tick does. */
static void go_on(struct weir_index *index, struct weir_source *source)
{
    struct weir_item *item = weir_inside_bear(source);
    if (item)
        weir_inside_send(item);
    else
        __atomic_store_n(&index->reaping, false, __ATOMIC_RELEASE);
}

static void tick(struct weir_source *source)
{
    struct weir_index *index = source->object;
    if (__atomic_exchange_n(&index->reaping, true, __ATOMIC_ACQUIRE))
        return;
    if (weir_index_walk_seek(&index->reaper, clock_us()))
        go_on(index, source);
    else
        finish(index);
}

void weir_index_expires(struct weir_index *index, struct weir_source *source)
{
    source->object = index;
    source->tick = tick;
    source->tick_ns = weir_index_tick_ns(index->default_ttl);
}

static struct weir_bytes copy(struct weir_arena *arena, struct weir_bytes bytes)
{
    if (bytes.data)
        bytes.data = (const uint8_t *)weir_arena_dup(arena, bytes.data, bytes.size);
    return bytes;
}

/* An event for each entry. What it takes the index has just given back, so the arena needs no limit. */
static void tell(struct weir_item *item, const struct weir_index_walk *walk, int64_t now_us)
{
    static const struct weir_bytes expired = { (const uint8_t *)"expired", 7 };
    item->arena.limit_bytes = SIZE_MAX;
    struct weir_event *events = weir_arena_zalloc(&item->arena, walk->count * sizeof *events);
    for (uint32_t i = 0; events && i < walk->count; i++) {
        struct weir_bytes host, service;
        weir_index_entry_key(walk->entries[i], &host, &service);
        events[i] = (struct weir_event){ .host = copy(&item->arena, host), .service = copy(&item->arena, service), .state = expired,
                                         .has_time = true, .time_us = now_us };
    }
    item->message = (struct weir_message){ .events = events, .event_count = events ? walk->count : 0 };
    item->events = (uint32_t)item->message.event_count;
}

enum weir_outcome weir_stage_expire(struct weir_thread *thread, struct weir_item *item)
{
    struct weir_source *source = item->source;
    struct weir_index *index = source->object;
    struct weir_index_walk *walk = &index->reaper;
    int64_t now_us = clock_us();
    bool more = weir_index_walk_overdue(walk, now_us, SEGMENTS_A_STEP);
    if (walk->count)
        tell(item, walk, now_us);
    weir_index_walk_end(walk);
    if (more)
        go_on(index, source);
    else
        finish(index);
    if (item->events)
        return WEIR_NEXT;
    weir_loop_discard(thread, item);
    return WEIR_GONE;
}
