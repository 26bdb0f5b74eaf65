#include <string.h>

#include "pipeline_dsl/runtime/loop.h"
#include "pipeline_dsl/stages/event_view.h"
#include "pipeline_dsl/stages/stages.h"

struct weir_query *weir_filter_query(const char *text)
{
    struct weir_query *query = NULL;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_query_parse(&query, text, strlen(text), NULL, &error) != 0)
        weir_bug("the filter that was checked at build time is no query: %s", error.text);
    return query;
}

enum weir_outcome weir_stage_filter(struct weir_thread *thread, struct weir_item *item, const struct weir_query *query, const char *name)
{
    struct weir_query_scratch scratch = WEIR_QUERY_SCRATCH_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_message *message = &item->message;
    size_t kept = 0;
    int matches = 0;
    for (size_t i = 0; i < message->event_count; i++) {
        matches = weir_query_match(query, &scratch, &weir_event_view, &message->events[i], &error);
        if (matches < 0)
            break;
        if (matches && kept++ != i)
            message->events[kept - 1] = message->events[i];
    }
    weir_query_scratch_release(&scratch);
    if (matches >= 0) {
        message->event_count = kept;
        return WEIR_NEXT;
    }
    weir_item_refuse(item, "%s: %s", name, error.text);
    weir_loop_refuse(thread, item);
    return WEIR_GONE;
}
