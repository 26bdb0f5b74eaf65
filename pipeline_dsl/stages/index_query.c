/*
 * DESIGN: what matches goes into the reply at once, encoded as it lies in the index, so that a query takes no memory beside its
 * reply. The events are pinned meanwhile, a segment at a time (index.c): the query itself runs without a lock.
 */
#include "pipeline_dsl/stages/index_query.h"

#include <errno.h>

#include "base/topology.h"
#include "pipeline_dsl/query/query.h"
#include "pipeline_dsl/stages/event_view.h"

struct answer {
    const struct weir_query *query;
    bool by_key; /* whatever has the key matches */
    struct weir_query_scratch scratch;
    struct weir_arena lists; /* of one event */
    struct weir_buffer *reply;
    struct weir_error *error;
};

static int no_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "query error: no memory for the reply");
}

static int add_if_it_matches(struct answer *answer, const struct weir_index_entry *entry)
{
    struct weir_event event;
    weir_arena_reset(&answer->lists);
    if (!weir_index_entry_view(entry, &answer->lists, &event))
        return no_memory(answer->error);
    int rc = answer->by_key ? 1 : weir_query_match(answer->query, &answer->scratch, &weir_event_view, &event, answer->error);
    if (rc <= 0)
        return rc;
    rc = weir_message_reply_add(answer->reply, &event, answer->error);
    if (rc == 0 && answer->reply->length > WEIR_REPLY_RING_BYTES)
        rc = weir_error_set(answer->error, WEIR_EXIT_USAGE, EMSGSIZE, "query error: the reply would be larger than %llu MiB; ask for less",
                            (unsigned long long)WEIR_REPLY_RING_BYTES >> 20);
    return rc;
}

static int search(struct answer *answer, struct weir_index *index)
{
    struct weir_index_walk walk;
    struct weir_bytes host, service;
    int rc = 0;
    weir_index_walk_init(&walk, index);
    answer->by_key = weir_query_key(answer->query, &host, &service);
    uint32_t count = answer->by_key ? weir_index_walk_key(&walk, host, service) : weir_index_walk_next(&walk);
    while (count && rc == 0) {
        for (uint32_t i = 0; i < count && rc == 0; i++)
            rc = add_if_it_matches(answer, walk.entries[i]);
        count = answer->by_key ? 0 : weir_index_walk_next(&walk);
    }
    weir_index_walk_end(&walk);
    return rc;
}

int weir_index_query(struct weir_index *index, struct weir_bytes text, uint64_t *excess, struct weir_buffer *reply,
                     struct weir_error *error)
{
    struct weir_query *query;
    int rc = weir_query_parse(&query, text.data, text.size, NULL, error);
    if (rc != 0)
        return rc;
    struct answer answer = { .query = query, .scratch = WEIR_QUERY_SCRATCH_INIT, .reply = reply, .error = error };
    if (excess)
        answer.scratch.work_before = __atomic_load_n(excess, __ATOMIC_RELAXED);
    weir_arena_init(&answer.lists, 0, SIZE_MAX);
    weir_message_reply_begin(reply);
    rc = search(&answer, index);
    weir_message_reply_end(reply);
    if (excess && weir_query_excess(&answer.scratch))
        __atomic_fetch_add(excess, weir_query_excess(&answer.scratch), __ATOMIC_RELAXED);
    if (rc == 0 && reply->failed)
        rc = no_memory(error);
    if (rc != 0)
        weir_buffer_release(reply);
    weir_arena_release(&answer.lists);
    weir_query_scratch_release(&answer.scratch);
    weir_query_free(query);
    return rc;
}
