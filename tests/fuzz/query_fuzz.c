/*
 * Any bytes as a query, and any as what an event holds: up to the first byte 0x1e stands the query, behind it the event.
 *
 * A text is a query or an error with a place inside it. What is a query matches the same way with blanks around it, and the other
 * way round in `not ( )`; a key that it claims to be decides as the query does.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "pipeline_dsl/query/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "query_fuzz: %s\n", what);
    abort();
}

#define DEMAND(condition) demand(condition, #condition)

/* Every text of the event, and the number that its first bytes are. */
struct event {
    struct weir_bytes text;
    double real;
    int64_t integer;
};

static struct weir_query_value field_of(const void *subject, enum weir_query_field field, struct weir_bytes name)
{
    const struct event *event = subject;
    switch (field) {
    case WEIR_QUERY_STATE:
        return weir_query_nil();
    case WEIR_QUERY_METRIC:
        return weir_query_integer(event->integer);
    case WEIR_QUERY_TTL:
        return weir_query_real(event->real);
    case WEIR_QUERY_TIME:
        return weir_query_time(event->integer);
    case WEIR_QUERY_TAGS:
        return weir_query_tags(event->text.size);
    case WEIR_QUERY_ATTRIBUTE:
        return name.size % 2 ? weir_query_text(event->text) : weir_query_nil();
    default:
        return weir_query_text(event->text);
    }
}

static bool same(struct weir_bytes a, struct weir_bytes b)
{
    return !a.data == !b.data && a.size == b.size && (!a.size || memcmp(a.data, b.data, a.size) == 0);
}

static bool tagged_with(const void *subject, struct weir_bytes tag)
{
    return same(((const struct event *)subject)->text, tag);
}

static const struct weir_query_view view = { field_of, tagged_with };

/* -EINVAL when the text is no query, else what matching returned. */
static int answer(const void *text, size_t size, const struct event *event)
{
    struct weir_query *query = NULL;
    struct weir_query_place place = { .line = 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    int rc = weir_query_parse(&query, text, size, &place, &error);
    DEMAND(rc == 0 || rc == -EINVAL);
    if (rc != 0) {
        DEMAND(!query && strncmp(error.text, "parse error: line ", 18) == 0);
        DEMAND(place.line >= 1 && place.column >= 1 && place.offset <= size && place.length <= size - place.offset);
        DEMAND(place.sentence < strlen(error.text) && error.text[place.sentence - 1] == ' ');
        return rc;
    }
    struct weir_query_scratch scratch = WEIR_QUERY_SCRATCH_INIT;
    int matches = weir_query_match(query, &scratch, &view, event, &error);
    DEMAND(matches == 0 || matches == 1 || matches == -E2BIG);
    DEMAND((matches == -E2BIG) == (error.text[0] != '\0'));
    struct weir_bytes host, service;
    if (weir_query_key(query, &host, &service))
        DEMAND(matches == (same(host, event->text) && same(service, event->text)));
    weir_query_scratch_release(&scratch);
    weir_query_free(query);
    return matches;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size ? memchr(data, 0x1e, size) : NULL;
    size_t text_size = end ? (size_t)(end - data) : size;
    size_t rest = end ? size - text_size - 1 : 0;
    /* Exact copies, so that a read behind them is seen. */
    uint8_t *text = malloc(text_size + 1), *held = malloc(rest + 1);
    memcpy(text, data, text_size);
    memcpy(held, end ? end + 1 : data, rest);
    struct event event = { .text = { held, rest } };
    memcpy(&event.real, held, rest < 8 ? rest : 8);
    memcpy(&event.integer, held, rest < 8 ? rest : 8);

    int rc = answer(text, text_size, &event);
    struct weir_buffer around = WEIR_BUFFER_INIT;
    weir_buffer_add(&around, " \n,not (\t", 9);
    weir_buffer_add(&around, text, text_size);
    weir_buffer_add(&around, ") \r", 3);
    int reverse = answer(around.data, around.length, &event);
    if (rc >= 0)
        DEMAND(reverse == !rc || reverse == -EINVAL); /* one parenthesis, or some bytes, may be too many */
    weir_buffer_release(&around);
    free(held);
    free(text);
    return 0;
}
