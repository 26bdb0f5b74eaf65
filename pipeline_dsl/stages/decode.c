#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/stages/stages.h"

enum weir_outcome weir_stage_decode(struct weir_thread *thread, struct weir_item *item, uint32_t stage)
{
    struct weir_error error = WEIR_ERROR_INIT;
    weir_item_take_arena(thread, item, item->way->decode_max_bytes);
    if (weir_message_decode(&item->message, &item->arena, item->payload, item->payload_bytes, &error) != 0) {
        item->malformed = true;
        weir_item_refuse(item, "%s", error.text);
        weir_loop_refuse(thread, item);
        return WEIR_GONE;
    }
    item->decoded = true;
    item->events = (uint32_t)item->message.event_count;
    weir_thread_add_events(thread, stage, item->events);
    return WEIR_NEXT;
}
