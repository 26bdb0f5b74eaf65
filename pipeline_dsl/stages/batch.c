/*
 * DESIGN: the first item of a batch carries it: the events of those that follow are copied behind its own, into its arena, and they end
 * here. So a batch is an item like any other, it counts where it came in, and what it may hold is bounded by what one message may
 * decode to. Each thread holds one batch for each way in, so that no lock is needed and the stages behind can tell the ways apart;
 * items that were received and copies of such are kept apart, since they are counted apart.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pipeline_dsl/stages/stages.h"

#define FIRST_CAPACITY 64u

/* What one thread holds of one batch stage and way in. */
struct weir_held {
    struct weir_kept kept;
    struct weir_timer timer;
    const struct weir_batch *batch;
    uint32_t way_index;
    bool received;
    struct weir_item *carrier; /* null: nothing is held */
    size_t capacity;           /* of the carrier's events */
};

static struct weir_item *let_go(struct weir_thread *thread, struct weir_held *held)
{
    struct weir_item *carrier = held->carrier;
    held->carrier = NULL;
    weir_timer_disarm(thread, &held->timer);
    return carrier;
}

static void flush(struct weir_thread *thread, struct weir_held *held)
{
    struct weir_item *carrier = let_go(thread, held);
    if (carrier)
        held->batch->run(thread, carrier);
}

static void on_due(struct weir_thread *thread, struct weir_timer *timer, bool ends)
{
    struct weir_held *held = (struct weir_held *)((char *)timer - offsetof(struct weir_held, timer));
    if (ends)
        weir_loop_discard(thread, let_go(thread, held));
    else
        flush(thread, held);
    weir_thread_at(thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, WEIR_PART_NONE));
}

static struct weir_held *held_of(struct weir_thread *thread, const struct weir_batch *batch, const struct weir_item *item)
{
    bool received = item->loop != NULL;
    for (struct weir_kept *kept = thread->kept; kept; kept = kept->next) {
        struct weir_held *held = (struct weir_held *)kept;
        if (held->batch == batch && held->way_index == item->way_index && held->received == received)
            return held;
    }
    struct weir_held *held = calloc(1, sizeof *held);
    if (!held)
        weir_bug("no memory for a batch");
    *held = (struct weir_held){ .kept.next = thread->kept, .timer.fire = on_due, .batch = batch, .way_index = item->way_index,
                                .received = received };
    thread->kept = &held->kept;
    return held;
}

static bool reserve(struct weir_held *held, size_t more)
{
    struct weir_message *message = &held->carrier->message;
    if (message->event_count + more <= held->capacity)
        return true;
    size_t capacity = held->capacity ? held->capacity : FIRST_CAPACITY;
    while (capacity < message->event_count + more)
        capacity *= 2;
    struct weir_event *events = weir_arena_alloc(&held->carrier->arena, capacity * sizeof *events);
    if (!events)
        return false;
    memcpy(events, message->events, message->event_count * sizeof *events);
    message->events = events;
    held->capacity = capacity;
    return true;
}

/* Whether all of the item's events are with the carrier now; otherwise none of them is. */
static bool add_events(struct weir_held *held, const struct weir_item *item)
{
    struct weir_message *message = &held->carrier->message;
    size_t more = item->message.event_count;
    if (!reserve(held, more))
        return false;
    for (size_t i = 0; i < more; i++)
        if (weir_event_copy(&message->events[message->event_count + i], &item->message.events[i], &held->carrier->arena) != 0)
            return false;
    message->event_count += more;
    message->raw = NULL; /* which knows only the carrier's own */
    held->carrier->events = (uint32_t)message->event_count;
    return true;
}

static void hold(struct weir_thread *thread, struct weir_held *held, struct weir_item *item)
{
    held->carrier = item;
    held->capacity = 0;
    weir_timer_arm(thread, &held->timer, weir_clock_ns() + held->batch->within_ns);
}

enum weir_outcome weir_stage_batch(struct weir_thread *thread, struct weir_item *item, const struct weir_batch *batch)
{
    struct weir_held *held = held_of(thread, batch, item);
    if (!held->carrier) {
        hold(thread, held, item);
    } else if (add_events(held, item)) {
        item->events = 0; /* they count with the carrier */
        weir_loop_discard(thread, item);
    } else {
        /* It holds as much as one message may: the next one begins. */
        flush(thread, held);
        hold(thread, held, item);
    }
    if (held->carrier->message.event_count >= batch->events)
        flush(thread, held);
    return WEIR_GONE;
}
