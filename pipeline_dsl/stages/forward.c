/* Sends a message's events on to another Riemann server, by a pool of pipelined connections. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "pipeline_dsl/client/client.h"
#include "pipeline_dsl/stages/stages.h"

#define REPLY_MOST_BYTES ((size_t)1 << 20) /* of an acknowledgement; whoever answers more was not asked to */
#define CONNECT_NS 5000000000u

static void on_done(void *context, const struct weir_client_outcome *outcome)
{
    struct weir_slots_line *line = context;
    struct weir_item *item = (struct weir_item *)(uintptr_t)outcome->tag;
    switch (outcome->result) {
    case WEIR_CLIENT_ACKED:
        weir_slots_end(line, item, WEIR_SLOTS_FINISHED);
        break;
    case WEIR_CLIENT_REFUSED: {
        struct weir_bytes said = outcome->reply ? outcome->reply->error : (struct weir_bytes){ NULL, 0 };
        weir_slots_fail(line->slots, item, "%.*s", said.size ? (int)said.size : 20,
                        said.size ? (const char *)said.data : "refused without text");
        weir_slots_end(line, item, WEIR_SLOTS_FAILED);
        break;
    }
    default:
        weir_slots_lose(line, item);
    }
}

/* A host that is gone is noticed within 30 s, whether anything is in flight or not; one that only thinks is waited for. */
static void watch_host(int fd)
{
    const int on = 1, idle_s = 10, gap_s = 5, count = 4;
    const unsigned most_ms = 30000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &gap_s, sizeof gap_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most_ms, sizeof most_ms);
}

static int open_line(struct weir_slots_line *line, int cancel_fd, struct weir_error *error)
{
    const struct weir_client_options options = {
        .in_flight = line->slots->plan->in_flight,
        .reply_max_bytes = REPLY_MOST_BYTES,
        .connect_timeout_ns = CONNECT_NS,
        .cancel_fd = cancel_fd,
        .done = on_done,
        .context = line,
    };
    struct weir_client *client;
    struct weir_error said = WEIR_ERROR_INIT;
    int rc = weir_client_connect(&client, line->slots->plan->address, &options, &said);
    if (rc != 0) /* a name that nobody knows today may be known tomorrow */
        return weir_error_set(error, WEIR_EXIT_FOUND, -rc, "%s", said.text);
    watch_host(weir_client_fd(client));
    line->link = client;
    return 0;
}

static void send_item(struct weir_slots_line *line, struct weir_item *item)
{
    /* There is room, but for a connection that has just failed to write: it ends with its next reading, and this with it. */
    if (!weir_client_push(line->link, item->request.data, item->request.length, (uintptr_t)item))
        weir_slots_lose(line, item);
}

static void attend(struct weir_slots_line *line, bool readable)
{
    weir_client_write(line->link);
    if (readable)
        weir_client_read(line->link);
}

static int line_fd(const struct weir_slots_line *line)
{
    return weir_client_fd(line->link);
}

static bool wants_write(const struct weir_slots_line *line)
{
    return weir_client_unwritten(line->link);
}

static void close_line(struct weir_slots_line *line)
{
    weir_client_free(line->link);
    line->link = NULL;
}

const struct weir_slots_kind weir_forward_riemann = {
    .open = open_line,
    .send = send_item,
    .attend = attend,
    .fd = line_fd,
    .wants_write = wants_write,
    .close = close_line,
};

/* A message that was decoded goes out as its events alone, as the stages before have left them; one that was not, as it came. */
static int make_request(struct weir_item *item, struct weir_error *error)
{
    if (item->decoded) {
        struct weir_message events = { .events = item->message.events, .event_count = item->message.event_count };
        return weir_message_encode_framed(&events, &item->request, error);
    }
    uint32_t size = (uint32_t)item->payload_bytes;
    const uint8_t header[4] = { (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size };
    weir_buffer_add(&item->request, header, sizeof header);
    weir_buffer_add(&item->request, item->payload, item->payload_bytes);
    return 0;
}

enum weir_outcome weir_stage_forward(struct weir_thread *thread, struct weir_item *item, uint32_t index)
{
    struct weir_slots *slots = &thread->slots[index];
    struct weir_error error = WEIR_ERROR_INIT;
    bool empty = item->decoded && !item->message.event_count;
    if (empty) {
        weir_slots_pass(thread, slots, item);
        return WEIR_GONE;
    }
    int rc = make_request(item, &error);
    if (rc == 0 && !item->request.failed) {
        weir_slots_send(thread, slots, item);
        return WEIR_GONE;
    }
    weir_slots_fail(slots, item, "%s", rc != 0 ? error.text : "no memory for the message");
    weir_slots_pass(thread, slots, item);
    return WEIR_GONE;
}
