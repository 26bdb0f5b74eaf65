/*
 * item: one message on its way through the server, from the frame that was cut to the reply that was written.
 * Every stage gets it, and exactly one thread owns it at any moment: whoever took it from a queue, until it hands it on.
 *
 * Units: bytes; ticks.
 * Owns: its payload, its arena and its reply.
 * Threads: owner only. It is born and ends on the event loop of its connection, or else inside (inside.h).
 * Errors: none.
 */
#ifndef WEIR_RUNTIME_ITEM_H
#define WEIR_RUNTIME_ITEM_H

#include "base/arena.h"
#include "base/buffer.h"
#include "pipeline_dsl/runtime/block.h"
#include "pipeline_dsl/runtime/thread.h"
#include "pipeline_dsl/wire/message.h"

/* What a stage returns: go on with the next one, or the item is no longer ours (handed over, finished, parked). */
enum weir_outcome { WEIR_NEXT, WEIR_GONE };

enum weir_reply_kind { WEIR_REPLY_NONE, WEIR_REPLY_ACK, WEIR_REPLY_BYTES };

struct weir_item {
    struct weir_item *next; /* in a list of its owner's */
    struct weir_loop *loop; /* where it was born and ends; null: inside */
    struct weir_conn *conn; /* used by that loop alone; null: none */
    struct weir_source *source; /* of what was born inside */
    const struct weir_plan_way *way;
    uint32_t way_index;
    uint32_t lane; /* in a shared tail: what it adds to the ids of the stages there; else 0 */
    uint64_t sequence; /* of the request on its connection */

    struct weir_block *block; /* holds the payload */
    const uint8_t *payload;
    size_t payload_bytes;
    size_t size_bytes; /* as the queue that it is in counts it */

    struct weir_arena arena; /* what it was decoded into */
    struct weir_message message;
    bool decoded;
    uint32_t malformed; /* messages in the payload that are none: itself, or lines of it */
    bool never_waits; /* where a queue is full it is refused, also with `full block` */
    uint32_t events;

    /* the answer, made by the stages; `encode` turns it into the reply */
    bool answer_failed;
    const char *answer_error; /* static, or in the arena */
    enum weir_reply_kind reply_kind;
    struct weir_buffer reply; /* framed; of kind BYTES, or what a query found, of no kind until it is encoded */

    struct weir_loop *slots_loop; /* the event loop that goes on with it behind its slot; null: a worker does */
    uint32_t slots_queue;         /* by which it gets it back */
    struct weir_buffer request;   /* what a pool of slots sends of it; until its slot is free again */
    uint64_t born_ns; /* when it arrived, if its latency is measured; else 0 */

    /* for the tracer */
    uint64_t slot_ns; /* when it took its slot; 0: not stamped */
    uint64_t alone_ns; /* when it was given to a connection that had nothing else to do; else 0 */
    uint32_t weight; /* 0: not stamped */
    uint64_t push_ticks, depth_bytes;
    uint32_t depth_items;
    struct weir_contract_record record; /* of the segment it is in; tick_count 0: none is under way */
};

/* First in, first out, by `next`. `last` means something where there is a first. */
struct weir_item_list {
    struct weir_item *first, *last;
};

static inline void weir_item_list_add(struct weir_item_list *list, struct weir_item *item)
{
    item->next = NULL;
    if (list->first)
        list->last->next = item;
    else
        list->first = item;
    list->last = item;
}

/* Null: it is empty. */
static inline struct weir_item *weir_item_list_take(struct weir_item_list *list)
{
    struct weir_item *item = list->first;
    if (item)
        list->first = item->next;
    return item;
}

/* `more` goes behind `list`, and is empty then. */
static inline void weir_item_list_append(struct weir_item_list *list, struct weir_item_list *more)
{
    if (!more->first)
        return;
    if (list->first)
        list->last->next = more->first;
    else
        list->first = more->first;
    list->last = more->last;
    more->first = NULL;
}

/* Opens a record when the item is stamped: the segment starts now, with `stage`. `queue`: what led here, or WEIR_NO_QUEUE. */
void weir_item_segment_begin(struct weir_thread *thread, struct weir_item *item, uint32_t queue, uint32_t stage);
/* The slow side of weir_item_enter(). */
void weir_item_stamp(struct weir_thread *thread, struct weir_item *item, uint32_t stage);
/* Closes the record and puts it into the log. The record may be a copy, when the item has been handed over meanwhile. */
void weir_item_segment_end(struct weir_thread *thread, struct weir_contract_record *record);
/* Under the lock of the queue that has just admitted it: when, and how full that is now. */
void weir_item_stamp_push(struct weir_item *item, uint64_t depth_items, uint64_t depth_bytes);

/* The crossing: the thread, with the item, enters a stage. */
static inline void weir_item_enter(struct weir_thread *thread, struct weir_item *item, uint32_t stage)
{
    weir_thread_at(thread, WEIR_TAG(stage, WEIR_PART_NONE));
    weir_thread_count(thread, stage);
    if (__builtin_expect(item->weight, 0))
        weir_item_stamp(thread, item, stage);
}

/* Does its way in owe a reply? Where it doesn't, stages that make one pass over it. */
static inline bool weir_item_owes_reply(const struct weir_item *item)
{
    return item->way->reply_stage != 0;
}

/* The answer becomes a framed reply: what a query found, an acknowledgement, or ok=false with its reason. Without memory for it: an
 * acknowledgement can't fail, and an error is sent without its text. A query that found nothing looks like an acknowledgement, and
 * is one; a query that no index has seen is an error. */
void weir_item_encode_reply(struct weir_item *item);
/* ok=false with this reason, instead of whatever the stages would have answered; nothing, where no reply is owed. */
void weir_item_refuse(struct weir_item *item, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Empties the arena, and keeps it for the thread's next message where there is room; else it stays with the item. */
void weir_item_shed_arena(struct weir_thread *thread, struct weir_item *item);
/* An empty arena for decoding the payload, with `limit` bytes at most. */
void weir_item_take_arena(struct weir_thread *thread, struct weir_item *item, size_t limit);

#endif
