#include "pipeline_dsl/runtime/handoff.h"

#include "pipeline_dsl/stages/stages.h"

/* What lines were decoded to has no tree of protobuf to walk, and what was born inside came in no frame: there the arena says it. */
static size_t estimate(const struct weir_item *item, enum weir_sized sized)
{
    bool frameless = item->decoded && !item->payload_bytes;
    if ((sized >= WEIR_SIZED_TYPED && !item->message.raw) || (sized == WEIR_SIZED_BYTES && frameless))
        sized = WEIR_SIZED_ARENA;
    switch (sized) {
    case WEIR_SIZED_BYTES:
        return item->payload_bytes;
    case WEIR_SIZED_ARENA:
        return item->arena.used_bytes;
    case WEIR_SIZED_TYPED:
        return weir_message_size_typed(&item->message);
    case WEIR_SIZED_REFLECT:
        return weir_message_size_reflect(&item->message);
    }
    return item->payload_bytes;
}

enum weir_outcome weir_stage_handoff(struct weir_thread *thread, struct weir_item *item, uint32_t queue, enum weir_sized sized)
{
    struct weir_queue *to = &thread->queues[queue];
    weir_thread_at(thread, WEIR_TAG(to->plan->stage + item->lane, WEIR_PART_SIZE));
    item->size_bytes = estimate(item, sized);
    if (sized != WEIR_SIZED_BYTES) {
        item->size_bytes += item->reply.length; /* what a query found goes along */
        if (item->size_bytes > item->way->decode_max_bytes)
            item->size_bytes = item->way->decode_max_bytes;
    }
    weir_handoff_push(thread, to, item, false);
    return WEIR_GONE;
}
