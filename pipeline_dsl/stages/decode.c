#include <stdio.h>

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/stages/stages.h"
#include "pipeline_dsl/wire/graphite.h"

#define COMPLAINT_NS 1000000000u

/* Who is owed no reply is not told, so the operator is: one line a second at most, for the whole server. */
static void complain(const struct weir_item *item, const char *text)
{
    static uint64_t complained_ns;
    uint64_t now = weir_clock_ns(), before = __atomic_load_n(&complained_ns, __ATOMIC_RELAXED);
    if (before && now - before < COMPLAINT_NS)
        return;
    if (__atomic_compare_exchange_n(&complained_ns, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        fprintf(stderr, "%s: %s\n", item->way->name, text);
}

static enum weir_outcome refuse(struct weir_thread *thread, struct weir_item *item, const struct weir_error *error)
{
    item->malformed = 1;
    weir_item_refuse(item, "%s", error->text);
    if (!weir_item_owes_reply(item))
        complain(item, error->text);
    weir_loop_refuse(thread, item);
    return WEIR_GONE;
}

static enum weir_outcome pass(struct weir_thread *thread, struct weir_item *item, uint32_t stage)
{
    item->decoded = true;
    item->events = (uint32_t)item->message.event_count;
    weir_thread_add_events(thread, stage, item->events);
    return WEIR_NEXT;
}

enum weir_outcome weir_stage_decode(struct weir_thread *thread, struct weir_item *item, uint32_t stage)
{
    struct weir_error error = WEIR_ERROR_INIT;
    weir_item_take_arena(thread, item, item->way->decode_max_bytes);
    if (weir_message_decode(&item->message, &item->arena, item->payload, item->payload_bytes, &error) != 0)
        return refuse(thread, item, &error);
    return pass(thread, item, stage);
}

enum weir_outcome weir_stage_decode_graphite(struct weir_thread *thread, struct weir_item *item, uint32_t stage)
{
    struct weir_error error = WEIR_ERROR_INIT;
    size_t bad;
    weir_item_take_arena(thread, item, item->way->decode_max_bytes);
    if (weir_graphite_decode(&item->message, &item->arena, item->payload, item->payload_bytes, &bad, &error) != 0)
        return refuse(thread, item, &error);
    item->malformed = (uint32_t)bad;
    if (bad)
        complain(item, error.text);
    return pass(thread, item, stage);
}
