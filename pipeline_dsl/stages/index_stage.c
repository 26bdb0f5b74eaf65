#include <errno.h>
#include <string.h>
#include <time.h>

#include "pipeline_dsl/runtime/conn.h"
#include "pipeline_dsl/stages/index_query.h"
#include "pipeline_dsl/stages/stages.h"

/* Most events bring their time, and then the clock need not be read. */
static int64_t now_if_needed_us(const struct weir_message *message)
{
    bool needed = false;
    for (size_t i = 0; i < message->event_count && !needed; i++)
        needed = !message->events[i].has_time;
    struct timespec now = { 0, 0 };
    if (needed)
        clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void fail(struct weir_item *item, const char *text)
{
    item->answer_failed = true;
    item->answer_error = text ? text : "no memory";
}

enum weir_outcome weir_stage_index(struct weir_thread *thread, struct weir_item *item, struct weir_index *index, const char *name)
{
    struct weir_message *message = &item->message;
    (void)thread;
    if (message->event_count) {
        int rc = weir_index_put_all(index, message->events, message->event_count, now_if_needed_us(message));
        if (rc != 0)
            fail(item, weir_arena_printf(&item->arena, "%s: %s", name, rc == -ENOSPC ? "the index is full" : "no memory"));
    }
    if (!message->query.data || item->answer_failed || !weir_item_owes_reply(item))
        return WEIR_NEXT;
    if (weir_conn_wants_none(item)) {
        fail(item, "overloaded: replies wait for this connection to read them");
        return WEIR_NEXT;
    }
    struct weir_error error = WEIR_ERROR_INIT;
    weir_buffer_release(&item->reply); /* of an index that stands before this one */
    if (weir_index_query(index, message->query, item->conn ? &item->conn->query_excess : NULL, &item->reply, &error) != 0)
        fail(item, weir_arena_dup(&item->arena, error.text, strlen(error.text)));
    return WEIR_NEXT;
}
