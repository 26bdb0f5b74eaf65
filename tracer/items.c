/*
 * DESIGN. Two sources bring the same records: the hand-over in the ring buffer, and the log as read from outside for what waits
 * longer. Each record has a sequence number, so whichever comes second is skipped.
 *
 * A stage counts an item by the tick at which the item entered it, held against the moments at which that thread's own counters
 * were read. That is what makes the two counts equal in exact mode, under load too.
 *
 * A reply has two segments: a worker finishes the item, an event loop sends what came back through the ring. The server counts
 * the item in the first; how long it took and how large it was is told by the second. The ring holds the item, and its block
 * counts it, until it is written: that is where the wait ends, and the sending, which is the reply's service, lies within it.
 */
#include "tracer/items.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHT_MOST 1000000u

int weir_items_init(struct weir_items *items, const struct weir_topology *topology)
{
    memset(items, 0, sizeof *items);
    items->instance_count = topology->instance_count;
    items->queue_count = topology->queue_count;
    items->stages = calloc((size_t)items->instance_count + 1, sizeof *items->stages);
    items->queues = calloc((size_t)items->queue_count + 1, sizeof *items->queues);
    for (uint32_t i = 0; items->stages && i < items->instance_count; i++) {
        const struct weir_topology_instance *instance = &topology->instances[i];
        const struct weir_topology_stage *stage = &topology->stages[instance->stage];
        items->stages[i].replies = stage->verb == WEIR_REPLY && stage->queue != WEIR_NONE;
        items->stages[i].ring = WEIR_NONE;
        for (uint32_t k = 0; items->stages[i].replies && k < topology->queue_count; k++)
            if (topology->queues[k].stage == instance->stage && weir_topology_ring_way(topology, k) == instance->way)
                items->stages[i].ring = k;
    }
    for (uint32_t i = 0; items->queues && i < items->queue_count; i++)
        items->queues[i].is_ring = topology->queues[i].kind == WEIR_QUEUE_REPLY;
    items->begin_ticks = UINT64_MAX;
    items->end_ticks = UINT64_MAX;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        items->slots[i].begin_ticks = items->slots[i].end_ticks = UINT64_MAX;
    if (items->stages && items->queues)
        return 0;
    weir_items_release(items);
    return -ENOMEM;
}

void weir_items_release(struct weir_items *items)
{
    for (uint32_t i = 0; items->stages && i < items->instance_count; i++)
        free(items->stages[i].service);
    free(items->stages);
    free(items->queues);
    items->stages = NULL;
    items->queues = NULL;
}

void weir_items_begin(struct weir_items *items, uint32_t slot, uint64_t ticks)
{
    items->slots[slot].begin_ticks = ticks;
}

void weir_items_end(struct weir_items *items, uint32_t slot, uint64_t ticks)
{
    items->slots[slot].end_ticks = ticks;
}

bool weir_items_gap(const struct weir_items *items, uint32_t slot, uint32_t generation, uint64_t base)
{
    return items->slots[slot].known && items->slots[slot].generation == generation && base > items->slots[slot].next;
}

static bool is_sane(const struct weir_items *items, const struct weir_contract_record *record)
{
    if (record->tick_count < 1 || record->tick_count > WEIR_RECORD_TICKS || record->weight == 0 || record->weight > WEIGHT_MOST)
        return false;
    uint32_t stages = record->tick_count - 1u;
    if (record->first < WEIR_INSTANCE_FIRST || record->first - WEIR_INSTANCE_FIRST + stages > items->instance_count)
        return false;
    if (record->queue != WEIR_NO_QUEUE &&
        (record->queue >= items->queue_count || (record->push_ticks && record->push_ticks > record->ticks[0])))
        return false;
    for (uint32_t i = 0; i < stages; i++)
        if (record->ticks[i] > record->ticks[i + 1])
            return false;
    return true;
}

static double clipped(double from, double to, double low, double high)
{
    double a = from > low ? from : low, b = to < high ? to : high;
    return b > a ? b - a : 0;
}

static void add_wait(struct weir_items *items, uint32_t slot, const struct weir_contract_record *record)
{
    struct weir_items_queue *queue = &items->queues[record->queue];
    uint64_t pop = record->ticks[queue->is_ring ? record->tick_count - 1 : 0];
    /* What was held counts also for an item that leaves after the window's end. */
    queue->held_ns += record->weight * items->ns_per_tick *
                      clipped((double)record->push_ticks, (double)pop, (double)items->begin_ticks, (double)items->end_ticks);
    if (record->push_ticks < items->begin_ticks && pop >= items->begin_ticks)
        queue->across_begin += record->weight;
    if (record->push_ticks < items->end_ticks && pop >= items->end_ticks)
        queue->across_end += record->weight;
    if (pop < items->slots[slot].begin_ticks || pop >= items->slots[slot].end_ticks)
        return;
    weir_histogram_add(&queue->wait, (uint64_t)((double)(pop - record->push_ticks) * items->ns_per_tick), record->weight);
    if (record->depth_items > queue->depth_items_max)
        queue->depth_items_max = record->depth_items;
    if (record->depth_bytes > queue->depth_bytes_max)
        queue->depth_bytes_max = record->depth_bytes;
}

static void add_stage(struct weir_items *items, uint32_t instance, const struct weir_contract_record *record, uint64_t from,
                      uint64_t to)
{
    struct weir_items_stage *stage = &items->stages[instance];
    bool is_sent = stage->ring != WEIR_NONE && record->queue == stage->ring;
    if (!is_sent)
        stage->stamped += record->weight;
    if (stage->replies && !is_sent)
        return;
    if (!(record->flags & WEIR_RECORD_CONTINUES)) {
        stage->bytes += (double)record->bytes * record->weight;
        stage->bytes_weight += record->weight;
    }
    if (!stage->service)
        stage->service = calloc(1, sizeof *stage->service);
    if (stage->service)
        weir_histogram_add(stage->service, (uint64_t)((double)(to - from) * items->ns_per_tick), record->weight);
}

static void add_record(struct weir_items *items, uint32_t slot, const struct weir_contract_record *record)
{
    if (!is_sane(items, record)) {
        items->hostile++;
        return;
    }
    if (items->slots[slot].begin_ticks == UINT64_MAX)
        return; /* the window is not open yet */
    items->kept++;
    if (record->queue != WEIR_NO_QUEUE && record->push_ticks && !(record->flags & WEIR_RECORD_CONTINUES))
        add_wait(items, slot, record);
    for (uint32_t i = 0; i + 1 < record->tick_count; i++) {
        uint64_t entered = record->ticks[i];
        if (entered >= items->slots[slot].begin_ticks && entered < items->slots[slot].end_ticks)
            add_stage(items, record->first - WEIR_INSTANCE_FIRST + i, record, entered, record->ticks[i + 1]);
    }
}

void weir_items_add(struct weir_items *items, uint32_t slot, uint32_t generation, uint64_t base,
                    const struct weir_contract_record *records, uint32_t count)
{
    if (slot >= WEIR_THREAD_SLOTS || count > WEIR_LOG_RECORDS || base > UINT64_MAX - count) {
        items->hostile++;
        return;
    }
    if (!items->slots[slot].known || items->slots[slot].generation != generation) {
        items->slots[slot].known = true;
        items->slots[slot].generation = generation;
        items->slots[slot].next = base;
    }
    uint64_t next = items->slots[slot].next;
    if (base + count <= next)
        return;
    if (base > next) {
        /* More than a ring buffer full at once is no loss but a lie. */
        if (base - next > UINT32_MAX)
            items->hostile++;
        else if (items->slots[slot].begin_ticks != UINT64_MAX)
            items->lost += base - next;
        next = base;
    }
    for (uint32_t i = (uint32_t)(next - base); i < count; i++)
        add_record(items, slot, &records[i]);
    items->slots[slot].next = base + count;
}
