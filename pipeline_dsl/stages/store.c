/*
 * DESIGN: a message becomes one JSON array of its events, on the worker's thread, and the database takes it apart: one parameter
 * for any number of events, of which the arrays and maps may have any length each. Parallel arrays for `unnest` would need the
 * tags and attributes flattened into texts of their own inside of texts. What comes of it at the other end is in postgres.c.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "pipeline_dsl/stages/stages.h"

/* U+FFFD: for what is no UTF-8, and for NUL, which no text in PostgreSQL holds. */
#define REPLACEMENT "\xef\xbf\xbd"

static bool plain(unsigned char byte)
{
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

static void put_string(struct weir_buffer *out, struct weir_bytes bytes)
{
    const char *text = (const char *)bytes.data;
    weir_buffer_putc(out, '"');
    for (size_t at = 0; at < bytes.size;) {
        size_t run = 0;
        while (at + run < bytes.size && plain((unsigned char)text[at + run]))
            run++;
        weir_buffer_add(out, text + at, run);
        at += run;
        if (at == bytes.size)
            break;
        unsigned char byte = (unsigned char)text[at];
        size_t length = weir_utf8_length(text + at, bytes.size - at);
        if (!byte || !length)
            weir_buffer_puts(out, REPLACEMENT);
        else if (byte < 0x20 || byte == '"' || byte == '\\')
            weir_buffer_printf(out, "\\u%04x", byte);
        else
            weir_buffer_add(out, text + at, length);
        at += length ? length : 1;
    }
    weir_buffer_putc(out, '"');
}

static void put_text(struct weir_buffer *out, const char *name, struct weir_bytes bytes)
{
    if (!bytes.data)
        return;
    weir_buffer_printf(out, ",\"%s\":", name);
    put_string(out, bytes);
}

/* JSON has no infinities; as texts PostgreSQL knows them. */
static void put_number(struct weir_buffer *out, const char *name, double number, int digits)
{
    if (isfinite(number))
        weir_buffer_printf(out, ",\"%s\":%.*g", name, digits, number);
    else
        weir_buffer_printf(out, ",\"%s\":\"%s\"", name, isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
}

static void put_metric(struct weir_buffer *out, const struct weir_event *event)
{
    switch (event->metric_kind) {
    case WEIR_METRIC_NIL:
        break;
    case WEIR_METRIC_INT:
        weir_buffer_printf(out, ",\"metric\":%lld,\"metric_int\":%lld", (long long)event->metric_int, (long long)event->metric_int);
        break;
    case WEIR_METRIC_DOUBLE:
        put_number(out, "metric", event->metric_double, 17);
        break;
    case WEIR_METRIC_FLOAT:
        put_number(out, "metric", event->metric_double, 9);
        break;
    }
}

static void put_event(struct weir_buffer *out, const struct weir_event *event, int64_t now_us)
{
    weir_buffer_printf(out, "{\"time\":%lld", (long long)(event->has_time ? event->time_us : now_us));
    put_text(out, "host", event->host);
    put_text(out, "service", event->service);
    put_text(out, "state", event->state);
    put_text(out, "description", event->description);
    put_metric(out, event);
    if (event->has_ttl)
        put_number(out, "ttl", (double)event->ttl, 9);
    for (uint32_t i = 0; i < event->tag_count; i++) {
        weir_buffer_puts(out, i ? "," : ",\"tags\":[");
        put_string(out, event->tags[i]);
    }
    if (event->tag_count)
        weir_buffer_putc(out, ']');
    for (uint32_t i = 0; i < event->attribute_count; i++) {
        weir_buffer_puts(out, i ? "," : ",\"attributes\":{");
        put_string(out, event->attributes[i].key);
        weir_buffer_putc(out, ':');
        if (event->attributes[i].value.data)
            put_string(out, event->attributes[i].value);
        else
            weir_buffer_puts(out, "null");
    }
    if (event->attribute_count)
        weir_buffer_putc(out, '}');
    weir_buffer_putc(out, '}');
}

void weir_store_request(const struct weir_message *message, int64_t now_us, struct weir_buffer *out)
{
    for (size_t i = 0; i < message->event_count; i++) {
        weir_buffer_putc(out, i ? ',' : '[');
        put_event(out, &message->events[i], now_us);
    }
    weir_buffer_putc(out, ']');
}

enum weir_outcome weir_stage_store(struct weir_thread *thread, struct weir_item *item, uint32_t index)
{
    struct weir_slots *slots = &thread->slots[index];
    if (!item->message.event_count) {
        weir_slots_pass(thread, slots, item);
        return WEIR_GONE;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    weir_store_request(&item->message, (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000, &item->request);
    if (!item->request.failed) {
        weir_slots_send(thread, slots, item);
        return WEIR_GONE;
    }
    weir_slots_fail(slots, item, "no memory for the rows of the message");
    weir_slots_pass(thread, slots, item);
    return WEIR_GONE;
}
