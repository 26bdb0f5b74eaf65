#include "pipeline_dsl/runtime/handoff.h"

#include "pipeline_dsl/runtime/conn.h"

static void refuse(struct weir_thread *thread, const struct weir_queue *queue, struct weir_item *item, const char *how)
{
    weir_item_refuse(item, "overloaded: %s at %s", how, queue->plan->name);
    weir_loop_refuse(thread, item);
}

bool weir_handoff_push(struct weir_thread *thread, struct weir_queue *queue, struct weir_item *item, bool resumes)
{
    struct weir_item *evicted;
    weir_thread_at(thread, WEIR_TAG(queue->plan->stage + item->lane, WEIR_PART_PUSH));
    /* Once it is admitted the item is another thread's; its record of this segment is closed from a copy. */
    struct weir_contract_record record;
    record.tick_count = 0;
    if (item->record.tick_count) {
        item->record.events = item->events;
        record = item->record;
    }
    enum weir_push outcome = weir_queue_push(queue, thread, item, resumes, &evicted);
    switch (outcome) {
    case WEIR_PUSH_ADMITTED:
        weir_item_segment_end(thread, &record);
        break;
    case WEIR_PUSH_REJECTED:
        refuse(thread, queue, item, "rejected");
        break;
    case WEIR_PUSH_DROPPED:
        refuse(thread, queue, item, "dropped");
        break;
    case WEIR_PUSH_PARK:
        if (!resumes)
            weir_conn_park(item->conn, queue, item);
        break;
    }
    while (evicted) {
        struct weir_item *next = evicted->next;
        evicted->record.tick_count = 0; /* that segment ended with its push */
        refuse(thread, queue, evicted, "dropped");
        evicted = next;
    }
    return outcome != WEIR_PUSH_PARK;
}
