#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/stages/stages.h"

struct weir_call {
    struct weir_item *item;
    const char *reason; /* in the item's arena; null: none given */
};

static const struct weir_event *event_at(const struct weir_item *item, size_t event)
{
    return item->decoded && event < item->message.event_count ? &item->message.events[event] : NULL;
}

static struct weir_call_bytes bytes(const struct weir_bytes *from)
{
    return from ? (struct weir_call_bytes){ (const char *)from->data, from->size } : (struct weir_call_bytes){ NULL, 0 };
}

size_t weir_item_event_count(const struct weir_item *item)
{
    return item->decoded ? item->message.event_count : 0;
}

struct weir_call_bytes weir_item_host(const struct weir_item *item, size_t event)
{
    const struct weir_event *e = event_at(item, event);
    return bytes(e ? &e->host : NULL);
}

struct weir_call_bytes weir_item_service(const struct weir_item *item, size_t event)
{
    const struct weir_event *e = event_at(item, event);
    return bytes(e ? &e->service : NULL);
}

struct weir_call_bytes weir_item_state(const struct weir_item *item, size_t event)
{
    const struct weir_event *e = event_at(item, event);
    return bytes(e ? &e->state : NULL);
}

struct weir_call_bytes weir_item_description(const struct weir_item *item, size_t event)
{
    const struct weir_event *e = event_at(item, event);
    return bytes(e ? &e->description : NULL);
}

size_t weir_item_tag_count(const struct weir_item *item, size_t event)
{
    const struct weir_event *e = event_at(item, event);
    return e ? e->tag_count : 0;
}

struct weir_call_bytes weir_item_tag(const struct weir_item *item, size_t event, size_t tag)
{
    const struct weir_event *e = event_at(item, event);
    return bytes(e && tag < e->tag_count ? &e->tags[tag] : NULL);
}

struct weir_call_bytes weir_item_attribute(const struct weir_item *item, size_t event, const char *key)
{
    const struct weir_event *e = event_at(item, event);
    size_t size = strlen(key);
    for (uint32_t i = e ? e->attribute_count : 0; i-- > 0;)
        if (e->attributes[i].key.size == size && memcmp(e->attributes[i].key.data, key, size) == 0)
            return bytes(&e->attributes[i].value);
    return bytes(NULL);
}

enum weir_call_metric weir_item_metric(const struct weir_item *item, size_t event, int64_t *integer, double *real)
{
    const struct weir_event *e = event_at(item, event);
    if (!e || e->metric_kind == WEIR_METRIC_NIL)
        return WEIR_CALL_METRIC_NONE;
    if (e->metric_kind == WEIR_METRIC_INT) {
        *integer = e->metric_int;
        *real = (double)e->metric_int;
        return WEIR_CALL_METRIC_INT;
    }
    *real = e->metric_double;
    return WEIR_CALL_METRIC_DOUBLE;
}

int weir_item_time_us(const struct weir_item *item, size_t event, int64_t *time_us)
{
    const struct weir_event *e = event_at(item, event);
    if (!e || !e->has_time)
        return 0;
    *time_us = e->time_us;
    return 1;
}

int weir_item_ttl(const struct weir_item *item, size_t event, float *ttl)
{
    const struct weir_event *e = event_at(item, event);
    if (!e || !e->has_ttl)
        return 0;
    *ttl = e->ttl;
    return 1;
}

struct weir_call_bytes weir_item_payload(const struct weir_item *item)
{
    return (struct weir_call_bytes){ (const char *)item->payload, item->payload ? item->payload_bytes : 0 };
}

void *weir_call_alloc(struct weir_call *call, size_t size)
{
    return weir_arena_alloc(&call->item->arena, size);
}

int weir_call_fail(struct weir_call *call, const char *reason)
{
    call->reason = weir_arena_dup(&call->item->arena, reason, strlen(reason));
    return -1;
}

enum weir_outcome weir_stage_call(struct weir_thread *thread, struct weir_item *item, const char *name,
                                  int (*function)(struct weir_item *, struct weir_call *))
{
    struct weir_call call = { .item = item };
    if (!item->decoded)
        weir_item_take_arena(thread, item, item->way->decode_max_bytes);
    int rc = function(item, &call);
    if (rc == 0)
        return WEIR_NEXT;
    if (rc > 0)
        weir_item_refuse(item, "dropped at %s", name);
    else if (call.reason)
        weir_item_refuse(item, "%s: %s", name, call.reason);
    else
        weir_item_refuse(item, "%s failed with code %d", name, rc);
    weir_loop_refuse(thread, item);
    return WEIR_GONE;
}
