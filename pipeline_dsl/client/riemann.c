/*
 * DESIGN: this file takes requests: it finds each a promise, encodes it there, on the caller's thread, and hands it to the kind
 * of client that was opened. Everything about connections lies in pipelined.c and sync.c.
 */
#include "pipeline_dsl/client/riemann.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/dial.h"
#include "pipeline_dsl/client/pipelined.h"
#include "pipeline_dsl/client/sync.h"

#define PROMISES_MOST ((size_t)1 << 30)

struct weir_riemann {
    struct weir_pipelined pipelined; /* PIPELINED, BATCHING */
    struct weir_sync sync;           /* SYNC */
    int datagram_fd;                 /* DATAGRAM */
    struct weir_batch batch;         /* BATCHING */
    struct weir_riemann_options options;
    struct weir_promise_pool *pool;
    char *address;
    atomic_uint_fast64_t refused_down, refused_overloaded;
};

/* --- open and close ------------------------------------------------------------------------------------------------------- */

static void set_default(size_t *value, size_t otherwise)
{
    *value = *value ? *value : otherwise;
}

static void set_default_ns(uint64_t *value, uint64_t otherwise)
{
    *value = *value ? *value : otherwise;
}

static void fill_defaults(struct weir_riemann_options *options)
{
    set_default(&options->queue, 1024);
    set_default(&options->in_flight, 1024);
    set_default(&options->queue_max_bytes, (size_t)64 << 20);
    set_default(&options->reply_max_bytes, (size_t)16 << 20);
    set_default(&options->replies_max_bytes, (size_t)64 << 20);
    set_default(&options->batch_events, 100);
    set_default(&options->datagram_max_bytes, 16384);
    set_default_ns(&options->linger_ns, 10000000);
    set_default_ns(&options->connect_timeout_ns, 5000000000);
    set_default_ns(&options->backoff_first_ns, 100000000);
    set_default_ns(&options->backoff_most_ns, 5000000000);
    if (options->backoff_most_ns < options->backoff_first_ns)
        options->backoff_most_ns = options->backoff_first_ns;
}

static int make_pool(struct weir_riemann *client, struct weir_error *error)
{
    const struct weir_riemann_options *options = &client->options;
    size_t each = options->kind == WEIR_RIEMANN_BATCHING ? options->batch_events : 1;
    if (options->queue > PROMISES_MOST || options->in_flight > PROMISES_MOST ||
        each > PROMISES_MOST / (options->queue + options->in_flight))
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL,
                              "a queue of %zu and %zu in flight, of %zu each, are too many promises", options->queue,
                              options->in_flight, each);
    int rc = weir_promise_pool_make(&client->pool, (options->queue + options->in_flight) * each, options->replies_max_bytes);
    return rc ? weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a client of %s", client->address) : 0;
}

/* The first connection; -1 in `*fd` when nobody is there and that is fine. */
static int dial_first(struct weir_riemann *client, int *fd, struct weir_error *error)
{
    const struct weir_riemann_options *options = &client->options;
    struct weir_error said = WEIR_ERROR_INIT;
    struct weir_dial_options dial = { .timeout_ns = options->connect_timeout_ns, .cancel_fd = -1,
                                      .datagram = options->kind == WEIR_RIEMANN_DATAGRAM,
                                      .send_buffer_bytes = options->send_buffer_bytes };
    *fd = weir_dial(client->address, &dial, &said);
    if (*fd >= 0)
        return 0;
    int rc = *fd;
    *fd = -1;
    if (options->may_start_down && rc != -EINVAL && !dial.datagram)
        return 0;
    return weir_error_set(error, said.exit, -rc, "%s", said.text);
}

static int start(struct weir_riemann *client, int fd, struct weir_error *error)
{
    switch (client->options.kind) {
    case WEIR_RIEMANN_BATCHING:
        weir_batch_init(&client->batch, client->options.batch_events, client->options.linger_ns);
        return weir_pipelined_start(&client->pipelined, client->address, &client->options, &client->batch, fd, error);
    case WEIR_RIEMANN_PIPELINED:
        return weir_pipelined_start(&client->pipelined, client->address, &client->options, NULL, fd, error);
    case WEIR_RIEMANN_SYNC:
        return weir_sync_start(&client->sync, client->address, &client->options, fd, error);
    case WEIR_RIEMANN_DATAGRAM:
        client->datagram_fd = fd;
        return 0;
    }
    return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "there is no client of kind %d", (int)client->options.kind);
}

static void release(struct weir_riemann *client)
{
    if (client->pool)
        weir_promise_pool_leave(client->pool);
    free(client->address);
    free(client);
}

int weir_riemann_open(struct weir_riemann **client, const char *address, const struct weir_riemann_options *options,
                      struct weir_error *error)
{
    struct weir_riemann *made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    if (!made)
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a client of %s", address);
    memset(made, 0, sizeof *made);
    made->options = options ? *options : (struct weir_riemann_options){ 0 };
    made->address = strdup(address);
    made->datagram_fd = -1;
    fill_defaults(&made->options);
    int fd = -1, rc = made->address ? make_pool(made, error) : weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory");
    if (!rc)
        rc = dial_first(made, &fd, error);
    if (!rc)
        rc = start(made, fd, error);
    if (rc) {
        if (fd >= 0)
            close(fd);
        release(made);
        return rc;
    }
    *client = made;
    return 0;
}

static bool threaded(const struct weir_riemann *client)
{
    return client->options.kind == WEIR_RIEMANN_PIPELINED || client->options.kind == WEIR_RIEMANN_BATCHING;
}

void weir_riemann_close(struct weir_riemann *client, uint64_t wait_ns)
{
    if (!client)
        return;
    if (threaded(client))
        weir_pipelined_stop(&client->pipelined, wait_ns);
    if (client->options.kind == WEIR_RIEMANN_BATCHING)
        weir_batch_release(&client->batch);
    if (client->options.kind == WEIR_RIEMANN_SYNC)
        weir_sync_stop(&client->sync);
    if (client->datagram_fd >= 0)
        close(client->datagram_fd);
    release(client);
}

/* --- refusals ------------------------------------------------------------------------------------------------------------- */

static int refuse_down(struct weir_riemann *client, struct weir_error *error)
{
    atomic_fetch_add_explicit(&client->refused_down, 1, memory_order_relaxed);
    return weir_error_set(error, WEIR_EXIT_FOUND, ENOTCONN, "not connected to %s; nothing was sent", client->address);
}

static int refuse_overloaded(struct weir_riemann *client, struct weir_error *error)
{
    atomic_fetch_add_explicit(&client->refused_overloaded, 1, memory_order_relaxed);
    return weir_error_set(error, WEIR_EXIT_FOUND, EAGAIN,
                          "overloaded: the queue to %s is full, or too many promises are held; nothing was sent",
                          client->address);
}

static int check_up(struct weir_riemann *client, struct weir_error *error)
{
    if (!threaded(client))
        return 0;
    if (atomic_load_explicit(&client->pipelined.closing, memory_order_relaxed))
        return weir_error_set(error, WEIR_EXIT_FOUND, ESHUTDOWN, "the client of %s is closing; nothing was sent",
                              client->address);
    return atomic_load_explicit(&client->pipelined.up, memory_order_relaxed) ? 0 : refuse_down(client, error);
}

/* Sleeps until a promise comes back, or `until`. */
static void wait_for_room(struct weir_promise_pool *pool, uint64_t until)
{
    unsigned ticket = weir_wake_prepare(&pool->room);
    if ((uint32_t)atomic_load(&pool->free))
        weir_wake_cancel(&pool->room);
    else
        weir_wake_sleep(&pool->room, ticket, until);
}

static struct weir_promise *take(struct weir_riemann *client, weir_riemann_done *done, void *context, bool wanted)
{
    struct weir_promise *promise = weir_promise_take(client->pool, done, context, wanted);
    if (promise || !client->options.room_wait_ns || weir_pipelined_thread)
        return promise;
    uint64_t until = weir_clock_ns() + client->options.room_wait_ns;
    do {
        wait_for_room(client->pool, until);
        promise = weir_promise_take(client->pool, done, context, wanted);
    } while (!promise && weir_clock_ns() < until);
    return promise;
}

/* --- sending -------------------------------------------------------------------------------------------------------------- */

static int push(struct weir_riemann *client, struct weir_promise *promise)
{
    uint64_t until = 0;
    for (;;) {
        if (weir_pipelined_push(&client->pipelined, promise) == 0)
            return 0;
        if (!client->options.room_wait_ns || weir_pipelined_thread)
            return -EAGAIN;
        uint64_t now = weir_clock_ns();
        until = until ? until : now + client->options.room_wait_ns;
        if (now >= until || !atomic_load(&client->pipelined.up))
            return -EAGAIN;
        usleep(100); /* the queue is full though promises are left: rare, and the writer is at work */
    }
}

/* What was gathered goes before what comes now. Holds the batch's lock. */
static int push_gathered(struct weir_riemann *client)
{
    struct weir_promise *first = weir_batch_take(&client->batch);
    if (!first || weir_pipelined_push(&client->pipelined, first) == 0)
        return 0;
    weir_batch_untake(&client->batch, first);
    weir_pipelined_nudge(&client->pipelined);
    return -EAGAIN;
}

static int push_in_order(struct weir_riemann *client, struct weir_promise *promise)
{
    if (client->options.kind == WEIR_RIEMANN_PIPELINED)
        return push(client, promise);
    pthread_mutex_lock(&client->batch.mutex);
    int rc = push_gathered(client);
    if (!rc)
        rc = weir_pipelined_push(&client->pipelined, promise);
    pthread_mutex_unlock(&client->batch.mutex);
    return rc;
}

/* Gathers an event; whoever fills the batch sends it off. */
static int gather(struct weir_riemann *client, struct weir_promise *promise)
{
    pthread_mutex_lock(&client->batch.mutex);
    int rc = weir_batch_full(&client->batch) ? push_gathered(client) : 0;
    bool first = !client->batch.count;
    if (!rc)
        rc = weir_batch_add(&client->batch, promise);
    if (!rc && weir_batch_full(&client->batch))
        push_gathered(client); /* if the queue is full, the writer fetches it */
    else if (!rc && first)
        weir_pipelined_nudge(&client->pipelined); /* it must know when to wake */
    pthread_mutex_unlock(&client->batch.mutex);
    return rc;
}

static int send_datagram(struct weir_riemann *client, struct weir_promise *promise, struct weir_error *error)
{
    size_t size = promise->frame.length - WEIR_FRAME_HEADER;
    if (size > client->options.datagram_max_bytes)
        return weir_error_set(error, WEIR_EXIT_USAGE, EMSGSIZE, "a message of %zu bytes is more than a datagram of %zu holds",
                              size, client->options.datagram_max_bytes);
    ssize_t sent;
    do
        sent = send(client->datagram_fd, promise->frame.data + WEIR_FRAME_HEADER, size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return weir_error_set(error, WEIR_EXIT_FOUND, errno, "can't send to %s: %s", client->address, strerror(errno));
    weir_promise_count(promise);
    weir_promise_fail(promise, WEIR_CLIENT_SENT, WEIR_REACH_WHOLE, 0);
    return 0;
}

/* Hands a filled promise to the kind of client that this is. On failure the promise goes back. */
static int dispatch(struct weir_riemann *client, struct weir_promise *promise, bool event, uint64_t timeout_ns,
                    struct weir_error *error)
{
    int rc;
    promise->size = promise->frame.length;
    switch (client->options.kind) {
    case WEIR_RIEMANN_SYNC:
        rc = weir_sync_call(&client->sync, promise, timeout_ns);
        if (rc == 0 || rc == -ETIMEDOUT)
            return rc;
        break;
    case WEIR_RIEMANN_DATAGRAM:
        rc = send_datagram(client, promise, error);
        if (rc == 0)
            return 0;
        weir_promise_undo(promise);
        return rc;
    default:
        weir_promise_count(promise); /* first, since it may be fulfilled before the push returns */
        rc = event ? gather(client, promise) : push_in_order(client, promise);
        if (rc == 0)
            return 0;
        atomic_fetch_sub_explicit(&client->pool->sent, 1, memory_order_relaxed);
    }
    weir_promise_undo(promise);
    if (rc == -ENOMEM)
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a message to %s", client->address);
    return rc == -ENOTCONN ? refuse_down(client, error) : refuse_overloaded(client, error);
}

/* Encodes into the promise's frame; `bare`: without a frame header. On failure the promise goes back. */
static int fill(struct weir_promise *promise, const struct weir_message *message, bool bare, struct weir_error *error)
{
    int rc = (bare ? weir_message_encode : weir_message_encode_framed)(message, &promise->frame, error);
    if (rc) {
        promise->frame.failed = false;
        weir_promise_undo(promise);
    }
    return rc;
}

int weir_riemann_send_frame(struct weir_riemann *client, const void *frame, size_t size, weir_riemann_done *done, void *context,
                            struct weir_promise **promise, struct weir_error *error)
{
    struct weir_frame cut = weir_frame_cut(frame, size, UINT32_MAX);
    if (cut.kind != WEIR_FRAME_WHOLE || cut.total != size)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%zu bytes for %s are not one whole frame", size, client->address);
    int rc = check_up(client, error);
    if (rc)
        return rc;
    struct weir_promise *taken = take(client, done, context, promise != NULL);
    if (!taken)
        return refuse_overloaded(client, error);
    weir_buffer_add(&taken->frame, frame, size);
    if (taken->frame.failed) {
        taken->frame.failed = false;
        weir_promise_undo(taken);
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a message to %s", client->address);
    }
    rc = dispatch(client, taken, false, UINT64_MAX, error);
    if (!rc && promise)
        *promise = taken;
    return rc;
}

static int send_message(struct weir_riemann *client, const struct weir_message *message, bool event, uint64_t timeout_ns,
                        weir_riemann_done *done, void *context, struct weir_promise **promise, struct weir_error *error)
{
    int rc = check_up(client, error);
    if (rc)
        return rc;
    struct weir_promise *taken = take(client, done, context, promise != NULL);
    if (!taken)
        return refuse_overloaded(client, error);
    event = event && client->options.kind == WEIR_RIEMANN_BATCHING;
    rc = fill(taken, message, event, error);
    if (rc)
        return rc;
    rc = dispatch(client, taken, event, timeout_ns, error);
    if ((rc == 0 || rc == -ETIMEDOUT) && promise)
        *promise = taken;
    return rc;
}

int weir_riemann_send(struct weir_riemann *client, const struct weir_message *message, weir_riemann_done *done, void *context,
                      struct weir_promise **promise, struct weir_error *error)
{
    if (message->query.data && client->options.kind == WEIR_RIEMANN_DATAGRAM)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "a query needs an answer, and a datagram has none; use tcp");
    return send_message(client, message, false, UINT64_MAX, done, context, promise, error);
}

int weir_riemann_send_event(struct weir_riemann *client, const struct weir_event *event, weir_riemann_done *done, void *context,
                            struct weir_promise **promise, struct weir_error *error)
{
    struct weir_message message = { .events = (struct weir_event *)(uintptr_t)event, .event_count = 1 };
    return send_message(client, &message, true, UINT64_MAX, done, context, promise, error);
}

/* --- on top --------------------------------------------------------------------------------------------------------------- */

static int say_outcome(const struct weir_riemann *client, const struct weir_outcome *outcome, struct weir_error *error)
{
    static const int codes[WEIR_CLIENT_RESULTS] = {
        [WEIR_CLIENT_REFUSED] = EREMOTEIO,    [WEIR_CLIENT_CLOSED] = EPIPE,         [WEIR_CLIENT_RESET] = ECONNRESET,
        [WEIR_CLIENT_BAD_REPLY] = EBADMSG,    [WEIR_CLIENT_UNANSWERED] = ECANCELED, [WEIR_CLIENT_BROKEN] = EIO,
        [WEIR_CLIENT_DOWN] = ENOTCONN,
    };
    if (!weir_client_result_failed(outcome->result))
        return 0;
    if (outcome->result == WEIR_CLIENT_REFUSED && outcome->reply && outcome->reply->error.data)
        return weir_error_set(error, WEIR_EXIT_FOUND, EREMOTEIO, "%s refused: %.*s", client->address,
                              (int)outcome->reply->error.size, (const char *)outcome->reply->error.data);
    return weir_error_set(error, WEIR_EXIT_FOUND, codes[outcome->result], "%s: %s", client->address,
                          weir_client_result_name(outcome->result));
}

int weir_riemann_call(struct weir_riemann *client, const struct weir_message *message, uint64_t timeout_ns,
                      struct weir_promise **promise, struct weir_error *error)
{
    struct weir_promise *answer = NULL;
    int rc = send_message(client, message, false, timeout_ns, NULL, NULL, &answer, error);
    if (rc && rc != -ETIMEDOUT)
        return rc;
    if (!rc && weir_promise_wait(answer, timeout_ns) != 0)
        rc = -ETIMEDOUT;
    rc = rc ? weir_error_set(error, WEIR_EXIT_FOUND, ETIMEDOUT, "%s gave no answer in time", client->address)
            : say_outcome(client, weir_promise_outcome(answer), error);
    if (rc == 0 && promise)
        *promise = answer;
    else
        weir_promise_release(answer);
    return rc;
}

int weir_riemann_flush(struct weir_riemann *client)
{
    if (client->options.kind != WEIR_RIEMANN_BATCHING)
        return 0;
    pthread_mutex_lock(&client->batch.mutex);
    int rc = push_gathered(client);
    pthread_mutex_unlock(&client->batch.mutex);
    return rc;
}

int weir_riemann_wait_up(struct weir_riemann *client, uint64_t timeout_ns)
{
    if (!threaded(client))
        return 0;
    struct weir_pipelined *pipelined = &client->pipelined;
    uint64_t now = weir_clock_ns(), until = timeout_ns > WEIR_WAKE_NEVER - now ? WEIR_WAKE_NEVER : now + timeout_ns;
    while (!atomic_load(&pipelined->up)) {
        if (weir_clock_ns() >= until)
            return -ETIMEDOUT;
        unsigned ticket = weir_wake_prepare(&pipelined->up_wake);
        if (atomic_load(&pipelined->up))
            weir_wake_cancel(&pipelined->up_wake);
        else
            weir_wake_sleep(&pipelined->up_wake, ticket, until);
    }
    return 0;
}

void weir_riemann_counts(const struct weir_riemann *client, struct weir_riemann_counts *counts)
{
    struct weir_promise_pool *pool = client->pool;
    const struct weir_pipelined *pipelined = &client->pipelined;
    const struct weir_sync *sync = &client->sync;
    *counts = (struct weir_riemann_counts){ 0 };
    uint64_t ended = 0;
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        ended += counts->results[i] = atomic_load(&pool->results[i]);
    counts->sent = atomic_load(&pool->sent);
    counts->outstanding = counts->sent > ended ? counts->sent - ended : 0;
    uint64_t out = atomic_load(&pool->holders) - 1;
    counts->held = out > counts->outstanding ? out - counts->outstanding : 0;
    counts->refused_down = atomic_load(&client->refused_down);
    counts->refused_overloaded = atomic_load(&client->refused_overloaded);
    counts->late = atomic_load(&pool->late);
    counts->connections = atomic_load(&pipelined->connections) + atomic_load(&sync->connections);
    counts->connections_lost = atomic_load(&pipelined->connections_lost) + atomic_load(&sync->connections_lost);
    counts->writes = atomic_load(&pipelined->writes) + atomic_load(&sync->writes);
    counts->written_bytes = atomic_load(&pipelined->written_bytes) + atomic_load(&sync->written_bytes);
    counts->lost_nothing = atomic_load(&pool->lost[WEIR_REACH_NOTHING]);
    counts->lost_part = atomic_load(&pool->lost[WEIR_REACH_PART]);
    counts->lost_whole = atomic_load(&pool->lost[WEIR_REACH_WHOLE]);
}
