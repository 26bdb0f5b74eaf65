/*
 * DESIGN: the copy goes first, on the same thread, as far as the first handoff of its pipeline: it needs no queue of its own, so that
 * copies are bounded by the queues that they come to, and their order is that of the originals. It never waits there: the
 * original behind it would wait too, and the reply with it.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/stages/stages.h"

/* What the item holds now: the message that it was decoded into, or the bytes that it came as. */
static int copy_content(struct weir_item *copy, const struct weir_item *item)
{
    copy->decoded = item->decoded;
    copy->events = item->events;
    copy->payload_bytes = item->payload_bytes;
    if (item->decoded)
        return weir_message_copy(&copy->message, &item->message, &copy->arena);
    copy->block = malloc(sizeof *copy->block + item->payload_bytes);
    if (!copy->block)
        return -ENOMEM;
    copy->block->capacity = item->payload_bytes;
    memcpy(copy->block->data, item->payload, item->payload_bytes);
    copy->payload = copy->block->data;
    return 0;
}

enum weir_outcome weir_stage_tee(struct weir_thread *thread, struct weir_item *item, struct weir_source *source, uint32_t lane)
{
    struct weir_item *copy = weir_inside_bear(source);
    if (!copy)
        return WEIR_NEXT;
    copy->way_index = item->way_index;
    copy->lane = lane;
    copy->never_waits = true;
    uint32_t tag = thread->tag;
    if (copy_content(copy, item) == 0)
        weir_inside_run(thread, copy);
    else
        weir_inside_end(thread, copy);
    weir_thread_at(thread, tag);
    return WEIR_NEXT;
}
