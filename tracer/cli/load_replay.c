#include "tracer/cli/load_replay.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/wire/frame.h"

#define FILE_MOST ((size_t)1 << 30)

struct events {
    struct weir_event *list;
    size_t count, room;
    struct weir_arena arena; /* their strings */
};

static int no_memory(const char *path, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for the events of %s", path);
}

static struct weir_event *add(struct events *events)
{
    if (events->count == events->room) {
        size_t room = events->room * 2 + 64;
        struct weir_event *grown = realloc(events->list, room * sizeof *grown);
        if (!grown)
            return NULL;
        events->list = grown;
        events->room = room;
    }
    events->list[events->count] = (struct weir_event){ 0 };
    return &events->list[events->count++];
}

static int read_file(const char *path, struct weir_buffer *content, struct weir_error *error)
{
    char piece[65536];
    size_t got;
    FILE *file = fopen(path, "rb");
    if (!file)
        return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't read %s: %s", path, strerror(errno));
    while ((got = fread(piece, 1, sizeof piece, file)) > 0 && content->length < FILE_MOST)
        weir_buffer_add(content, piece, got);
    bool bad = ferror(file);
    int code = errno;
    fclose(file);
    if (!bad && content->length >= FILE_MOST)
        return weir_error_set(error, WEIR_EXIT_USAGE, EFBIG, "%s holds 1 GiB or more; replay a part of it", path);
    if (bad)
        return weir_error_set(error, WEIR_EXIT_USAGE, code, "can't read %s: %s", path, strerror(code));
    return content->failed ? no_memory(path, error) : 0;
}

/* --- frames --------------------------------------------------------------------------------------------------------------- */

static int read_frames(struct events *events, const struct weir_buffer *content, const char *path, struct weir_error *error)
{
    for (size_t at = 0; at < content->length;) {
        struct weir_frame frame = weir_frame_cut(content->data + at, content->length - at, (size_t)16 << 20);
        struct weir_message message;
        if (frame.kind != WEIR_FRAME_WHOLE)
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s is cut off, or holds no frames, at byte %zu", path, at);
        if (weir_message_decode(&message, &events->arena, content->data + at + frame.offset, frame.length, NULL) != 0)
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s holds no message at byte %zu", path, at);
        for (size_t i = 0; i < message.event_count; i++) {
            struct weir_event *event = add(events);
            if (!event)
                return no_memory(path, error);
            *event = message.events[i];
        }
        at += frame.total;
    }
    return 0;
}

/* --- JSON ----------------------------------------------------------------------------------------------------------------- */

static struct weir_bytes copy_text(struct events *events, const json_t *value)
{
    size_t size = json_string_length(value);
    const char *copy = json_is_string(value) ? weir_arena_dup(&events->arena, json_string_value(value), size) : NULL;
    return (struct weir_bytes){ (const uint8_t *)copy, copy ? size : 0 };
}

static void read_metric(struct weir_event *event, const json_t *value)
{
    event->metric_kind = json_is_integer(value) ? WEIR_METRIC_INT : WEIR_METRIC_DOUBLE;
    event->metric_int = json_integer_value(value);
    event->metric_double = json_number_value(value);
}

static bool is_plain(const char *name)
{
    static const char *const names[] = {
        "host", "service", "state", "description", "metric", "ttl", "time", "tags", "attributes"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "metric_", 7) == 0 || strncmp(name, "time_", 5) == 0;
}

static bool read_lists(struct events *events, struct weir_event *event, json_t *object)
{
    json_t *tags = json_object_get(object, "tags"), *more = json_object_get(object, "attributes"), *value;
    size_t tag_count = json_is_array(tags) ? json_array_size(tags) : 0, index;
    size_t most = json_object_size(object) + (json_is_object(more) ? json_object_size(more) : 0);
    struct weir_bytes *list = weir_arena_alloc(&events->arena, (tag_count + 1) * sizeof *list);
    struct weir_attribute *attributes = weir_arena_alloc(&events->arena, (most + 1) * sizeof *attributes);
    const char *name;
    if (!list || !attributes)
        return false;
    event->tags = list;
    event->attributes = attributes;
    json_array_foreach(tags, index, value)
        if (json_is_string(value))
            list[event->tag_count++] = copy_text(events, value);
    for (int round = 0; round < 2; round++) {
        json_object_foreach(round ? more : object, name, value) {
            if (!json_is_string(value) || (!round && is_plain(name)))
                continue;
            const char *key = weir_arena_dup(&events->arena, name, strlen(name));
            if (!key)
                return false;
            attributes[event->attribute_count++] =
                (struct weir_attribute){ { (const uint8_t *)key, strlen(name) }, copy_text(events, value) };
        }
    }
    return true;
}

static bool all_text(json_t *value)
{
    size_t index;
    const char *name;
    json_t *item;
    bool good = true;
    if (json_is_array(value))
        json_array_foreach(value, index, item)
            good = good && json_is_string(item);
    else
        json_object_foreach(value, name, item)
            good = good && (json_is_string(item) || json_is_null(item));
    return good;
}

/* What the value should be, or null if that is what it is. */
static const char *wrong(const char *name, json_t *value)
{
    if (json_is_null(value))
        return NULL;
    if (strcmp(name, "tags") == 0)
        return json_is_array(value) && all_text(value) ? NULL : "a list of texts";
    if (strcmp(name, "attributes") == 0)
        return json_is_object(value) && all_text(value) ? NULL : "an object of texts";
    if (is_plain(name) && (*name == 'm' || *name == 't'))
        return json_is_number(value) ? NULL : "a number"; /* metric…, time…, ttl */
    return json_is_string(value) ? NULL : "text";
}

static int check_event(json_t *object, const char *path, size_t line, struct weir_error *error)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s, line %zu: an event is an object, like {\"host\":\"a\"}", path, line);
    json_object_foreach(object, name, value)
        if (wrong(name, value))
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s, line %zu: the \"%.64s\" of an event is %s", path, line, name,
                                  wrong(name, value));
    return 0;
}

/* Null values are absent ones. */
static bool read_event(struct events *events, json_t *object)
{
    struct weir_event *event = add(events);
    if (!event)
        return false;
    event->host = copy_text(events, json_object_get(object, "host"));
    event->service = copy_text(events, json_object_get(object, "service"));
    event->state = copy_text(events, json_object_get(object, "state"));
    event->description = copy_text(events, json_object_get(object, "description"));
    static const char *const metrics[] = { "metric", "metric_sint64", "metric_d", "metric_f" };
    const json_t *ttl = json_object_get(object, "ttl"), *time = json_object_get(object, "time");
    const json_t *micros = json_object_get(object, "time_micros");
    for (size_t i = 0; i < sizeof metrics / sizeof *metrics && event->metric_kind == WEIR_METRIC_NIL; i++)
        if (json_is_number(json_object_get(object, metrics[i])))
            read_metric(event, json_object_get(object, metrics[i]));
    event->has_ttl = json_is_number(ttl);
    event->ttl = (float)json_number_value(ttl);
    double seconds = json_number_value(time);
    event->has_time = json_is_number(time) && fabs(seconds) < 9e12;
    event->time_us = event->has_time ? (int64_t)(seconds * 1e6) : 0;
    if (json_is_integer(micros)) {
        event->has_time = true;
        event->time_us = json_integer_value(micros);
    }
    return read_lists(events, event, object);
}

static int read_json(struct events *events, const struct weir_buffer *content, const char *path, struct weir_error *error)
{
    json_error_t said;
    size_t at = 0, line = 1, counted = 0;
    for (;;) {
        while (at < content->length && strchr(" \t\r\n,", content->data[at]) && content->data[at])
            at++;
        if (at == content->length)
            return 0;
        json_t *value = json_loadb(content->data + at, content->length - at, JSON_DISABLE_EOF_CHECK, &said), *object;
        size_t index;
        for (; counted < at; counted++)
            line += content->data[counted] == '\n';
        if (!value)
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s, line %zu: %s", path,
                                  line + (size_t)(said.line > 0 ? said.line - 1 : 0), said.text);
        at += (size_t)said.position;
        bool list = json_is_array(value);
        int rc = 0;
        for (index = 0; !rc && index < (list ? json_array_size(value) : 1); index++) {
            object = list ? json_array_get(value, index) : value;
            rc = check_event(object, path, line, error);
            if (!rc && !read_event(events, object))
                rc = no_memory(path, error);
        }
        json_decref(value);
        if (rc)
            return rc;
    }
}

int load_replay(struct weir_workload *workload, const char *path, size_t per_message, struct weir_error *error)
{
    struct weir_buffer content = WEIR_BUFFER_INIT;
    struct events events = { 0 };
    weir_arena_init(&events.arena, 65536, SIZE_MAX);
    int rc = read_file(path, &content, error);
    if (!rc && content.length)
        rc = content.data[0] == '\0' ? read_frames(&events, &content, path, error) : read_json(&events, &content, path, error);
    if (!rc && !events.count)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s holds no events to replay", path);
    if (!rc)
        rc = weir_workload_replay(workload, events.list, events.count, per_message, error);
    free(events.list);
    weir_arena_release(&events.arena);
    weir_buffer_release(&content);
    return rc;
}
