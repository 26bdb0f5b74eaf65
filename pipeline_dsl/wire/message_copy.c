/* A message's own bytes are all that a copy needs: the codec's tree, which only the size estimators read, stays behind. */
#include <errno.h>
#include <string.h>

#include "pipeline_dsl/wire/message.h"

static bool copy_bytes(struct weir_bytes *to, const struct weir_bytes *from, struct weir_arena *arena)
{
    *to = *from;
    if (!from->data)
        return true;
    void *copy = weir_arena_alloc(arena, from->size ? from->size : 1);
    if (copy && from->size)
        memcpy(copy, from->data, from->size);
    to->data = copy;
    return copy != NULL;
}

static bool copy_tags(struct weir_event *to, const struct weir_event *from, struct weir_arena *arena)
{
    struct weir_bytes *tags = weir_arena_alloc(arena, from->tag_count * sizeof *tags);
    for (uint32_t i = 0; tags && i < from->tag_count; i++)
        if (!copy_bytes(&tags[i], &from->tags[i], arena))
            return false;
    to->tags = tags;
    return tags != NULL;
}

static bool copy_attributes(struct weir_event *to, const struct weir_event *from, struct weir_arena *arena)
{
    struct weir_attribute *attributes = weir_arena_alloc(arena, from->attribute_count * sizeof *attributes);
    for (uint32_t i = 0; attributes && i < from->attribute_count; i++)
        if (!copy_bytes(&attributes[i].key, &from->attributes[i].key, arena) ||
            !copy_bytes(&attributes[i].value, &from->attributes[i].value, arena))
            return false;
    to->attributes = attributes;
    return attributes != NULL;
}

int weir_event_copy(struct weir_event *to, const struct weir_event *from, struct weir_arena *arena)
{
    *to = *from;
    bool good = copy_bytes(&to->host, &from->host, arena) && copy_bytes(&to->service, &from->service, arena) &&
                copy_bytes(&to->state, &from->state, arena) && copy_bytes(&to->description, &from->description, arena) &&
                (!from->tag_count || copy_tags(to, from, arena)) && (!from->attribute_count || copy_attributes(to, from, arena));
    return good ? 0 : -ENOMEM;
}

int weir_message_copy(struct weir_message *to, const struct weir_message *from, struct weir_arena *arena)
{
    struct weir_message copy = *from;
    copy.raw = NULL;
    copy.events = weir_arena_alloc(arena, from->event_count * sizeof *copy.events);
    if (!copy.events || !copy_bytes(&copy.error, &from->error, arena) || !copy_bytes(&copy.query, &from->query, arena))
        return -ENOMEM;
    for (size_t i = 0; i < from->event_count; i++)
        if (weir_event_copy(&copy.events[i], &from->events[i], arena) != 0)
            return -ENOMEM;
    *to = copy;
    return 0;
}
