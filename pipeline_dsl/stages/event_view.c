#include "pipeline_dsl/stages/event_view.h"

#include <string.h>

#include "pipeline_dsl/wire/message.h"

static bool equal(struct weir_bytes a, struct weir_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static struct weir_query_value metric_of(const struct weir_event *event)
{
    switch (event->metric_kind) {
    case WEIR_METRIC_INT:
        return weir_query_integer(event->metric_int);
    case WEIR_METRIC_DOUBLE:
    case WEIR_METRIC_FLOAT:
        return weir_query_real(event->metric_double);
    default:
        return weir_query_nil();
    }
}

/* Of two with one name the last counts. */
static struct weir_query_value attribute_of(const struct weir_event *event, struct weir_bytes name)
{
    for (uint32_t i = event->attribute_count; i-- > 0;)
        if (equal(event->attributes[i].key, name))
            return weir_query_text(event->attributes[i].value);
    return weir_query_nil();
}

static struct weir_query_value field_of(const void *subject, enum weir_query_field field, struct weir_bytes name)
{
    const struct weir_event *event = subject;
    switch (field) {
    case WEIR_QUERY_HOST:
        return weir_query_text(event->host);
    case WEIR_QUERY_SERVICE:
        return weir_query_text(event->service);
    case WEIR_QUERY_STATE:
        return weir_query_text(event->state);
    case WEIR_QUERY_DESCRIPTION:
        return weir_query_text(event->description);
    case WEIR_QUERY_METRIC:
        return metric_of(event);
    case WEIR_QUERY_TAGS:
        return weir_query_tags(event->tag_count);
    case WEIR_QUERY_TIME:
        return event->has_time ? weir_query_time(event->time_us) : weir_query_nil();
    case WEIR_QUERY_TTL:
        return event->has_ttl ? weir_query_real((double)event->ttl) : weir_query_nil();
    case WEIR_QUERY_ATTRIBUTE:
        break;
    }
    return attribute_of(event, name);
}

static bool tagged_with(const void *subject, struct weir_bytes tag)
{
    const struct weir_event *event = subject;
    for (uint32_t i = 0; i < event->tag_count; i++)
        if (equal(event->tags[i], tag))
            return true;
    return false;
}

const struct weir_query_view weir_event_view = { field_of, tagged_with };
