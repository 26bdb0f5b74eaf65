#include "pipeline_dsl/client/workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES_LEAST 4u
#define BYTES_MOST ((size_t)8 << 20)
#define EVENT_BYTES 115u
#define KEYS_MOST 20000u /* events made up before they repeat, unless a message has more */

const struct weir_workload_shape weir_workload_usual = { .hosts = 100, .services = 20, .tags = 2, .attributes = 1,
                                                         .metric = WEIR_METRIC_FLOAT };

struct texts {
    char host[40], service[40], description[40];
};

static struct weir_bytes text(const char *string)
{
    return (struct weir_bytes){ (const uint8_t *)string, strlen(string) };
}

/* What is the same in all events of a shape. */
struct common {
    struct weir_bytes tags[WEIR_WORKLOAD_TAGS_MOST];
    struct weir_attribute attributes[WEIR_WORKLOAD_TAGS_MOST];
    char names[WEIR_WORKLOAD_TAGS_MOST][16], keys[WEIR_WORKLOAD_TAGS_MOST][16];
    char *description; /* null: each event has its own */
};

static int common_init(struct common *common, const struct weir_workload_shape *shape)
{
    static const char *const tags[] = { "fleet", "linux" };
    memset(common, 0, sizeof *common);
    for (size_t i = 0; i < shape->tags && i < WEIR_WORKLOAD_TAGS_MOST; i++) {
        snprintf(common->names[i], sizeof common->names[i], "tag-%02zu", i);
        common->tags[i] = text(i < 2 ? tags[i] : common->names[i]);
    }
    for (size_t i = 0; i < shape->attributes && i < WEIR_WORKLOAD_TAGS_MOST; i++) {
        snprintf(common->keys[i], sizeof common->keys[i], "key-%02zu", i);
        common->attributes[i] = (struct weir_attribute){ text(i ? common->keys[i] : "zone"), text("eu-1a") };
    }
    if (!shape->description_bytes)
        return 0;
    common->description = malloc(shape->description_bytes + 1);
    if (!common->description)
        return -ENOMEM;
    for (size_t i = 0; i < shape->description_bytes; i++)
        common->description[i] = "one CPU of many is busy. "[i % 25];
    common->description[shape->description_bytes] = '\0';
    return 0;
}

/* Event `number` of the whole ring. Hosts vary fastest; after hosts x services events every key was there once. */
static void event_fill(struct weir_event *event, struct texts *texts, const struct weir_workload_shape *shape,
                       const struct common *common, size_t number, int64_t time_us)
{
    static const char *const states[] = { "ok", "ok", "ok", "warning", "ok", "ok", "ok", "critical" };
    unsigned percent = (unsigned)(number * 37 % 101);
    snprintf(texts->host, sizeof texts->host, "web-%03zu.example.com", number % shape->hosts);
    snprintf(texts->service, sizeof texts->service, "cpu-%02zu/cpu-user", number / shape->hosts % shape->services);
    snprintf(texts->description, sizeof texts->description, "%u%% of one CPU", percent);
    *event = (struct weir_event){
        .host = text(texts->host),
        .service = text(texts->service),
        .state = text(states[number % (sizeof states / sizeof *states)]),
        .description = text(common->description ? common->description : texts->description),
        .tags = common->tags,
        .tag_count = (uint32_t)shape->tags,
        .attributes = common->attributes,
        .attribute_count = (uint32_t)shape->attributes,
        .has_time = true,
        .time_us = time_us + (int64_t)number,
        .has_ttl = true,
        .ttl = 300,
        .metric_kind = shape->metric == WEIR_METRIC_NIL ? WEIR_METRIC_FLOAT : shape->metric,
        .metric_int = percent,
        .metric_double = percent / 4.0,
    };
}

static int no_memory(struct weir_error *error, size_t events)
{
    return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for messages of %zu events", events);
}

/* One message of `count` events, and each of them alone if `each`. */
static int append(struct weir_workload *workload, size_t at, struct weir_event *list, size_t count, struct weir_error *error)
{
    struct weir_message message = { .events = list, .event_count = count };
    int rc = weir_message_encode_framed(&message, &workload->bytes, error);
    workload->starts[at + 1] = workload->bytes.length;
    for (size_t i = 0; !rc && i < count; i++) {
        message = (struct weir_message){ .events = &list[i], .event_count = 1 };
        rc = weir_message_encode(&message, &workload->each, error);
        workload->each_starts[++workload->each_count] = workload->each.length;
    }
    return rc;
}

static int prepare(struct weir_workload *workload, size_t messages, size_t events, struct weir_error *error)
{
    *workload = (struct weir_workload){ .bytes = WEIR_BUFFER_INIT, .each = WEIR_BUFFER_INIT, .query = WEIR_BUFFER_INIT,
                                        .count = messages, .events = events };
    workload->starts = calloc(messages + 1, sizeof *workload->starts);
    workload->each_starts = calloc(messages * events + 1, sizeof *workload->each_starts);
    return workload->starts && workload->each_starts ? 0 : no_memory(error, events);
}

int weir_workload_init(struct weir_workload *workload, const struct weir_workload_shape *shape, size_t events, int64_t time_us,
                       struct weir_error *error)
{
    /* Enough messages for every key, and no more than a cache holds well when they are large. */
    size_t keys = shape->hosts > KEYS_MOST || shape->services > KEYS_MOST ? KEYS_MOST : shape->hosts * shape->services;
    size_t count = ((keys < KEYS_MOST ? keys : KEYS_MOST) + events - 1) / events;
    if (count < MESSAGES_LEAST)
        count = MESSAGES_LEAST;
    if (count * events * (EVENT_BYTES + shape->description_bytes) > BYTES_MOST)
        count = BYTES_MOST / (events * (EVENT_BYTES + shape->description_bytes));
    if (count < 2)
        count = 2;
    struct common common;
    struct weir_event *list = calloc(events, sizeof *list);
    struct texts *texts = calloc(events, sizeof *texts);
    int rc = prepare(workload, count, events, error);
    if (common_init(&common, shape) || !list || !texts)
        rc = no_memory(error, events);
    for (size_t i = 0; !rc && i < count; i++) {
        for (size_t k = 0; k < events; k++)
            event_fill(&list[k], &texts[k], shape, &common, i * events + k, time_us);
        rc = append(workload, i, list, events, error);
    }
    free(common.description);
    free(texts);
    free(list);
    if (rc)
        weir_workload_release(workload);
    return rc;
}

int weir_workload_replay(struct weir_workload *workload, const struct weir_event *list, size_t count, size_t events,
                         struct weir_error *error)
{
    int rc = prepare(workload, (count + events - 1) / events, events, error);
    for (size_t i = 0; !rc && i < workload->count; i++) {
        size_t left = count - i * events;
        rc = append(workload, i, (struct weir_event *)(uintptr_t)(list + i * events), left < events ? left : events, error);
    }
    if (rc)
        weir_workload_release(workload);
    return rc;
}

int weir_workload_query(struct weir_workload *workload, const char *query, struct weir_error *error)
{
    struct weir_message message = { .query = text(query) };
    return weir_message_encode_framed(&message, &workload->query, error);
}

void weir_workload_release(struct weir_workload *workload)
{
    weir_buffer_release(&workload->bytes);
    weir_buffer_release(&workload->each);
    weir_buffer_release(&workload->query);
    free(workload->starts);
    free(workload->each_starts);
    *workload = (struct weir_workload){ .bytes = WEIR_BUFFER_INIT, .each = WEIR_BUFFER_INIT, .query = WEIR_BUFFER_INIT };
}
