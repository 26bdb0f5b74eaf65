#include "pipeline_dsl/runtime/item.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The first chunk of an arena follows the message, which decodes to some 7 times its bytes: items may wait in a queue with what
 * they were decoded into, and the queue's limit counts only what is used of that. */
#define ARENA_LEAST ((size_t)1 << 10)
#define ARENA_MOST ((size_t)1 << 20)
#define ARENA_TIMES 8u

/* A stamp for an item that was chosen. With exact ticks up, the crossing has just read the clock; else reading it is the
 * tracer's doing, and shows as such. */
static uint64_t read_ticks(struct weir_thread *thread)
{
    if (thread->exact)
        return weir_clock_ticks();
    uint32_t tag = thread->tag;
    weir_thread_at(thread, WEIR_TAG(WEIR_INSTANCE_TRACING, 0));
    uint64_t now = weir_clock_ticks();
    weir_thread_at(thread, tag);
    return now;
}

void weir_item_segment_begin(struct weir_thread *thread, struct weir_item *item, uint32_t queue, uint32_t stage)
{
    if (!item->weight) {
        if (weir_trace_exact_semaphore)
            __atomic_store_n(&thread->slot->unstamped, thread->slot->unstamped + 1, __ATOMIC_RELAXED);
        return;
    }
    bool queued = queue != WEIR_NO_QUEUE;
    item->record = (struct weir_contract_record){
        .push_ticks = queued ? item->push_ticks : 0,
        .bytes = queued ? item->size_bytes : item->payload_bytes,
        .depth_bytes = queued ? item->depth_bytes : 0,
        .depth_items = queued ? item->depth_items : 0,
        .weight = item->weight,
        .events = item->events,
        .queue = (weir_u16)queue,
        .first = (weir_u16)stage,
        .tick_count = 1,
        .way = (weir_u16)item->way_index,
    };
    item->record.ticks[0] = read_ticks(thread);
}

/* Goes on with a record that continues the item's last one: `stage` starts at `ticks`. */
static void continue_with(struct weir_item *item, uint32_t stage, uint64_t ticks)
{
    item->record = (struct weir_contract_record){
        .weight = item->weight,
        .events = item->events,
        .queue = WEIR_NO_QUEUE,
        .first = (weir_u16)stage,
        .tick_count = 1,
        .flags = WEIR_RECORD_CONTINUES,
        .way = (weir_u16)item->way_index,
    };
    item->record.ticks[0] = ticks;
}

void weir_item_stamp(struct weir_thread *thread, struct weir_item *item, uint32_t stage)
{
    struct weir_contract_record *record = &item->record;
    /* The first stage of a segment begins where the segment does. */
    if (record->tick_count == 1 && record->first == stage)
        return;
    uint64_t now = thread->exact ? thread->last_ticks : read_ticks(thread);
    if (!record->tick_count) { /* evicted from a queue: its last segment ended there */
        continue_with(item, stage, now);
        return;
    }
    uint32_t expected = record->first + record->tick_count;
    record->events = item->events;
    record->ticks[record->tick_count++] = now;
    /* A full record, or an item that leaves out the stages between: it was refused. */
    if (record->tick_count < WEIR_RECORD_TICKS && stage == expected)
        return;
    record->flags |= WEIR_RECORD_CHAINED;
    weir_thread_log(thread, record);
    continue_with(item, stage, now);
}

void weir_item_segment_end(struct weir_thread *thread, struct weir_contract_record *record)
{
    if (!record->tick_count)
        return;
    record->ticks[record->tick_count++] = read_ticks(thread);
    weir_thread_log(thread, record);
    record->tick_count = 0;
}

void weir_item_stamp_push(struct weir_item *item, uint64_t depth_items, uint64_t depth_bytes)
{
    if (weir_trace_exact_semaphore)
        item->weight = 1;
    if (!item->weight)
        return;
    item->push_ticks = weir_clock_ticks();
    item->depth_items = (uint32_t)depth_items;
    item->depth_bytes = depth_bytes;
}

static const uint8_t failed_without_text[] = { 0, 0, 0, 2, 0x10, 0 };

static void reply_error(struct weir_item *item, const char *text, size_t size)
{
    struct weir_message answer = { .has_ok = true, .ok = false, .error = { (const uint8_t *)text, size } };
    weir_buffer_release(&item->reply); /* what a query found can be large, and would wait with the refusal */
    item->reply_kind = WEIR_REPLY_BYTES;
    if (weir_message_encode_framed(&answer, &item->reply, NULL) == 0 && !item->reply.failed)
        return;
    weir_buffer_release(&item->reply);
    weir_buffer_add(&item->reply, failed_without_text, sizeof failed_without_text);
}

void weir_item_encode_reply(struct weir_item *item)
{
    static const char no_index[] = "no index";
    if (item->answer_failed)
        reply_error(item, item->answer_error, strlen(item->answer_error));
    else if (item->reply.length > sizeof weir_message_ack)
        item->reply_kind = WEIR_REPLY_BYTES;
    else if (item->decoded && item->message.query.data && !item->reply.length)
        reply_error(item, no_index, sizeof no_index - 1);
    else
        item->reply_kind = WEIR_REPLY_ACK;
}

void weir_item_refuse(struct weir_item *item, const char *format, ...)
{
    char text[256];
    va_list args;
    if (!weir_item_owes_reply(item))
        return;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length < 0)
        length = 0;
    reply_error(item, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

void weir_item_take_arena(struct weir_thread *thread, struct weir_item *item, size_t limit)
{
    struct weir_arena *arena = &item->arena;
    size_t wanted = ARENA_LEAST;
    while (wanted < ARENA_MOST && wanted < item->payload_bytes * ARENA_TIMES)
        wanted *= 2;
    if (!arena->chunk && thread->spare_count) {
        *arena = thread->spares[--thread->spare_count];
        thread->spare_bytes -= arena->first_bytes;
        if (arena->first_bytes < wanted || arena->first_bytes / 4 > wanted)
            weir_arena_release(arena);
    }
    if (!arena->chunk)
        arena->first_bytes = wanted;
    arena->limit_bytes = limit;
}

void weir_item_shed_arena(struct weir_thread *thread, struct weir_item *item)
{
    struct weir_arena *arena = &item->arena;
    weir_arena_reset(arena);
    uint32_t most = thread->loop ? WEIR_SPARE_ARENAS : 1;
    if (!arena->chunk || thread->spare_count == most || thread->spare_bytes + arena->first_bytes > WEIR_SPARE_BYTES)
        return;
    thread->spares[thread->spare_count++] = *arena;
    thread->spare_bytes += arena->first_bytes;
    arena->chunk = NULL;
}
