#include "pipeline_dsl/runtime/inherit.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool weir_inherit_listener(struct weir_server *server, uint32_t way, const char *address)
{
    struct weir_takeover_record record;
    weir_takeover_rewind(&server->takeover);
    while (weir_takeover_next(&server->takeover, &record)) {
        bool taken = record.kind != WEIR_TAKEOVER_LISTENER || !record.name || strcmp(record.name, address) != 0 ||
                     !weir_listener_fits(record.fd, server->plan->ways[way].transport);
        for (uint32_t i = 0; i < way && !taken; i++)
            taken = server->listeners[i].fd == record.fd;
        if (taken)
            continue;
        weir_listener_inherit(&server->listeners[way], &server->plan->ways[way], address, record.fd);
        return true;
    }
    return false;
}

/* The way in whose listener has this descriptor; way_count: none. */
static uint32_t way_of(const struct weir_server *server, int listener_fd)
{
    uint32_t way = 0;
    while (way < server->plan->way_count && server->listeners[way].fd != listener_fd)
        way++;
    return way;
}

/* Whether a connection that was in the clear and framed as it was is understood on this way in. */
static bool goes_on(const struct weir_plan_way *way, const struct weir_takeover_record *record)
{
    struct weir_takeover_conn state;
    if (record->data_bytes != sizeof state || way->tls)
        return false;
    memcpy(&state, record->data, sizeof state);
    return state.framing == (uint8_t)way->framing;
}

/* The connection of a record, with what came before it. Null: it can't be had, and is closed. */
static struct weir_arrival *arrival_of(const struct weir_takeover_record *record, uint32_t way,
                                       const struct weir_takeover_record *input, const struct weir_takeover_record *output)
{
    static struct weir_block_cache none;
    struct weir_arrival *arrival = weir_arrival_new(record->fd, way);
    struct weir_takeover_conn state;
    if (!arrival)
        return NULL;
    memcpy(&state, record->data, sizeof state);
    arrival->skips = state.skips;
    arrival->ended = state.ended;
    if (input->data_bytes) {
        arrival->input = weir_block_take(&none, input->data_bytes);
        if (arrival->input)
            memcpy(arrival->input->data, input->data, arrival->input_bytes = input->data_bytes);
    }
    weir_buffer_add(&arrival->output, output->data ? output->data : "", output->data_bytes);
    if (arrival->output.failed || (input->data_bytes && !arrival->input)) {
        weir_arrival_free(arrival);
        return NULL;
    }
    return arrival;
}

static void take_state(struct weir_server *server)
{
    struct weir_takeover_record record;
    weir_takeover_rewind(&server->takeover);
    while (weir_takeover_next(&server->takeover, &record))
        for (uint32_t i = 0; i < server->plan->keeper_count && record.kind == WEIR_TAKEOVER_STATE && record.name; i++) {
            const struct weir_plan_keeper *keeper = &server->plan->keepers[i];
            if (strcmp(keeper->name, record.name) == 0)
                keeper->take(keeper->object, record.data, record.data_bytes);
        }
}

void weir_inherit_rest(struct weir_server *server)
{
    struct weir_takeover_record record, input = { .data_bytes = 0 }, output = { .data_bytes = 0 };
    take_state(server);
    weir_takeover_rewind(&server->takeover);
    while (weir_takeover_next(&server->takeover, &record)) {
        uint32_t way = way_of(server, record.kind == WEIR_TAKEOVER_LISTENER ? record.fd : record.owner);
        if (record.kind == WEIR_TAKEOVER_INPUT) {
            input = record;
        } else if (record.kind == WEIR_TAKEOVER_OUTPUT) {
            output = record;
        } else if (record.kind == WEIR_TAKEOVER_LISTENER && way == server->plan->way_count) {
            weir_listener_discard(record.fd, record.name);
        } else if (record.kind == WEIR_TAKEOVER_CONN) {
            struct weir_arrival *arrival = NULL;
            fcntl(record.fd, F_SETFD, FD_CLOEXEC);
            if (way < server->plan->way_count && goes_on(&server->plan->ways[way], &record))
                arrival = arrival_of(&record, way, &input, &output);
            if (arrival)
                weir_server_adopt(server, record.fd, way, arrival);
            else
                close(record.fd);
            input.data_bytes = output.data_bytes = 0;
        } else if (record.kind == WEIR_TAKEOVER_CHILD) {
            server->reload.tool = record.fd;
        }
    }
    weir_takeover_close(&server->takeover);
}
