#include "pipeline_dsl/client/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/wire/message.h"

#define HOSTS 100u
#define SERVICES 20u
#define MESSAGES_LEAST 4u
#define BYTES_MOST ((size_t)8 << 20)
#define EVENT_BYTES 115u

struct texts {
    char host[32], service[32], description[40];
};

static struct weir_bytes text(const char *string)
{
    return (struct weir_bytes){ (const uint8_t *)string, strlen(string) };
}

/* Event `number` of the whole ring. Hosts vary fastest; after HOSTS x SERVICES events every key was there once. */
static void event_fill(struct weir_event *event, struct texts *texts, size_t number, int64_t time_us)
{
    static const char *const states[] = { "ok", "ok", "ok", "warning", "ok", "ok", "ok", "critical" };
    static const struct weir_bytes tags[] = { { (const uint8_t *)"fleet", 5 }, { (const uint8_t *)"linux", 5 } };
    static const struct weir_attribute attribute = { { (const uint8_t *)"zone", 4 }, { (const uint8_t *)"eu-1a", 5 } };
    unsigned host = (unsigned)(number % HOSTS), service = (unsigned)(number / HOSTS % SERVICES);
    unsigned percent = (unsigned)(number * 37 % 101);
    snprintf(texts->host, sizeof texts->host, "web-%03u.example.com", host);
    snprintf(texts->service, sizeof texts->service, "cpu-%02u/cpu-user", service);
    snprintf(texts->description, sizeof texts->description, "%u%% of one CPU", percent);
    *event = (struct weir_event){
        .host = text(texts->host),
        .service = text(texts->service),
        .state = text(states[number % (sizeof states / sizeof *states)]),
        .description = text(texts->description),
        .tags = tags,
        .tag_count = 2,
        .attributes = &attribute,
        .attribute_count = 1,
        .has_time = true,
        .time_us = time_us + (int64_t)number,
        .has_ttl = true,
        .ttl = 300,
        .metric_kind = WEIR_METRIC_FLOAT,
        .metric_double = percent / 4.0,
    };
}

int weir_workload_init(struct weir_workload *workload, size_t events, int64_t time_us, struct weir_error *error)
{
    /* Enough messages for every key, and no more than a cache holds well when they are large. */
    size_t count = (HOSTS * SERVICES + events - 1) / events;
    if (count < MESSAGES_LEAST)
        count = MESSAGES_LEAST;
    if (count * events * EVENT_BYTES > BYTES_MOST)
        count = 2;
    *workload = (struct weir_workload){ .bytes = WEIR_BUFFER_INIT, .count = count };
    struct weir_event *list = calloc(events, sizeof *list);
    struct texts *texts = calloc(events, sizeof *texts);
    workload->starts = calloc(count + 1, sizeof *workload->starts);
    int rc = -ENOMEM;
    if (!list || !texts || !workload->starts) {
        weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for messages of %zu events", events);
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < events; k++)
            event_fill(&list[k], &texts[k], i * events + k, time_us);
        struct weir_message message = { .events = list, .event_count = events };
        rc = weir_message_encode_framed(&message, &workload->bytes, error);
        if (rc)
            goto out;
        workload->starts[i + 1] = workload->bytes.length;
    }
    rc = 0;
out:
    free(texts);
    free(list);
    if (rc)
        weir_workload_release(workload);
    return rc;
}

void weir_workload_release(struct weir_workload *workload)
{
    weir_buffer_release(&workload->bytes);
    free(workload->starts);
    *workload = (struct weir_workload){ .bytes = WEIR_BUFFER_INIT };
}
