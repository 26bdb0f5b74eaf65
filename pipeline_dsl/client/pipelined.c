/*
 * DESIGN: three marks on one connection, as in client.c: answered <= handed <= pushed, each written by one side only.
 *
 * The writer pops what is queued, copies small frames side by side into one buffer and writes that by one call; a large frame
 * goes out from where it lies. It marks a request as handed before it writes it, since its reply may come before the write
 * returns. When the window is full it sleeps until a quarter is free, so that it wakes for many requests instead of one; no reply
 * can be missed for it, as three quarters are still owed.
 *
 * Only the writer begins and ends connections. The reader's last act is to shut the socket down, which gets the writer out of a
 * write that blocks; the writer's, after a write that failed, is the same, and the reader then still reads what had come. With
 * the reader gone the writer fails what is left, in order, for the reason that came first, and closes the socket.
 *
 * A promise that was pushed while the connection went down is found by the writer's look into the queue, which it goes on with
 * while it waits to connect again.
 */
#include "pipeline_dsl/client/pipelined.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/dial.h"

#define OUT_BYTES ((size_t)256 << 10)
#define LARGE_BYTES ((size_t)64 << 10)
#define INBOX_FIRST ((size_t)64 << 10)

_Thread_local bool weir_pipelined_thread;

static uint64_t outstanding(struct weir_pipelined *pipelined)
{
    return atomic_load(&pipelined->handed) - atomic_load(&pipelined->answered);
}

static bool quarter_free(struct weir_pipelined *pipelined)
{
    return pipelined->options.in_flight - outstanding(pipelined) >= (pipelined->options.in_flight + 3) / 4;
}

static void set_reason(struct weir_pipelined *pipelined, enum weir_client_result result)
{
    int none = 0;
    atomic_compare_exchange_strong(&pipelined->reason, &none, 1 + (int)result);
}

static enum weir_client_result reason_of(int code)
{
    return code == ECONNRESET || code == EPIPE ? WEIR_CLIENT_RESET : WEIR_CLIENT_BROKEN;
}

/* --- the reader ----------------------------------------------------------------------------------------------------------- */

/* Matches all whole replies. False when one is none, or answers nothing. */
static bool match_all(struct weir_pipelined *pipelined, uint64_t connection)
{
    const uint8_t *payload;
    size_t size;
    enum weir_frame_kind kind;
    while ((kind = weir_inbox_next(&pipelined->inbox, &payload, &size)) == WEIR_FRAME_WHOLE) {
        uint64_t at = atomic_load_explicit(&pipelined->answered, memory_order_relaxed);
        if (at == atomic_load(&pipelined->handed))
            return false;
        struct weir_promise *promise = pipelined->in_flight[at % pipelined->options.in_flight];
        atomic_store(&pipelined->answered, at + 1);
        if (!weir_promise_answer(promise, connection, payload, size))
            return false;
    }
    return kind == WEIR_FRAME_MORE;
}

/* Has nothing come since the last time, though something was owed at both? */
static bool silent(struct weir_pipelined *pipelined, uint64_t *owed_at)
{
    uint64_t answered = atomic_load(&pipelined->answered);
    bool owed = outstanding(pipelined) > 0, still = *owed_at == answered;
    *owed_at = owed ? answered : UINT64_MAX;
    return owed && still;
}

static void *read_replies(void *argument)
{
    struct weir_pipelined *pipelined = argument;
    uint64_t connection = atomic_load(&pipelined->connections), owed_at = UINT64_MAX;
    weir_pipelined_thread = true;
    for (;;) {
        bool full;
        ssize_t got = weir_inbox_fill(&pipelined->inbox, pipelined->fd, 0, &full);
        if (got == -EAGAIN || got == -EWOULDBLOCK) {
            if (!silent(pipelined, &owed_at))
                continue;
            set_reason(pipelined, WEIR_CLIENT_UNANSWERED);
            break;
        }
        if (got <= 0) {
            set_reason(pipelined, got == 0 ? WEIR_CLIENT_CLOSED : reason_of((int)-got));
            break;
        }
        owed_at = UINT64_MAX;
        if (!match_all(pipelined, connection)) {
            atomic_store(&pipelined->reason, 1 + WEIR_CLIENT_BAD_REPLY);
            break;
        }
        if (atomic_load(&pipelined->closing) || (atomic_load(&pipelined->wants_room) && quarter_free(pipelined)))
            weir_wake_all(&pipelined->writer_wake);
    }
    atomic_store(&pipelined->up, false);
    shutdown(pipelined->fd, SHUT_RDWR);
    atomic_store(&pipelined->reader_done, true);
    weir_wake_all(&pipelined->writer_wake);
    return NULL;
}

/* --- the writer ----------------------------------------------------------------------------------------------------------- */

static bool may_hand(struct weir_pipelined *pipelined)
{
    if (!atomic_load_explicit(&pipelined->wants_room, memory_order_relaxed)) {
        if (outstanding(pipelined) < pipelined->options.in_flight)
            return true;
        atomic_store(&pipelined->wants_room, true);
    }
    if (!quarter_free(pipelined))
        return false;
    atomic_store(&pipelined->wants_room, false);
    return true;
}

static struct weir_promise *pop(struct weir_pipelined *pipelined)
{
    struct weir_promise *promise = weir_ring_pop(&pipelined->queue);
    if (promise)
        atomic_fetch_sub(&pipelined->queued_bytes, promise->size);
    return promise;
}

static bool batch_due(struct weir_pipelined *pipelined)
{
    if (!pipelined->batch)
        return false;
    uint64_t due = atomic_load(&pipelined->batch->due);
    return due != WEIR_WAKE_NEVER && (atomic_load(&pipelined->closing) || due <= weir_clock_ns());
}

/* What goes out next: what is queued, then the batch if its time has come (or `any`). A batch that fills meanwhile is pushed
 * under the same lock, so that no batch overtakes another. */
static struct weir_promise *next_request(struct weir_pipelined *pipelined, bool any)
{
    struct weir_promise *promise = pop(pipelined);
    if (promise || !pipelined->batch || !(any || batch_due(pipelined)))
        return promise;
    pthread_mutex_lock(&pipelined->batch->mutex);
    promise = pop(pipelined);
    if (!promise)
        promise = weir_batch_take(pipelined->batch);
    pthread_mutex_unlock(&pipelined->batch->mutex);
    return promise;
}

static void hand(struct weir_pipelined *pipelined, struct weir_promise *promise)
{
    uint64_t at = atomic_load_explicit(&pipelined->handed, memory_order_relaxed);
    if (promise->size > LARGE_BYTES) {
        pipelined->large = promise->frame;
        promise->frame = (struct weir_buffer)WEIR_BUFFER_INIT;
    } else {
        memcpy(pipelined->out + pipelined->out_length, promise->frame.data, promise->size);
        pipelined->out_length += promise->size;
        weir_buffer_clear(&promise->frame);
    }
    pipelined->stream += promise->size;
    promise->end = pipelined->stream;
    pipelined->in_flight[at % pipelined->options.in_flight] = promise;
    atomic_store(&pipelined->handed, at + 1);
}

/* Fills the buffers of one write. False when there is nothing to write. */
static bool gather(struct weir_pipelined *pipelined)
{
    while (pipelined->out_length + LARGE_BYTES <= OUT_BYTES && !pipelined->large.length && may_hand(pipelined)) {
        struct weir_promise *promise = next_request(pipelined, false);
        if (!promise)
            break;
        hand(pipelined, promise);
    }
    return pipelined->out_length || pipelined->large.length;
}

static bool write_all(struct weir_pipelined *pipelined)
{
    struct iovec pieces[2] = { { pipelined->out, pipelined->out_length }, { pipelined->large.data, pipelined->large.length } };
    size_t at = 0;
    while (at < pieces[0].iov_len + pieces[1].iov_len) {
        struct iovec rest[2] = { pieces[0], pieces[1] };
        size_t first = at < rest[0].iov_len ? at : rest[0].iov_len;
        rest[0].iov_base = pipelined->out + first;
        rest[0].iov_len -= first;
        if (rest[1].iov_len) {
            rest[1].iov_base = pipelined->large.data + (at - first);
            rest[1].iov_len -= at - first;
        }
        struct msghdr header = { .msg_iov = rest, .msg_iovlen = 2 };
        ssize_t taken = sendmsg(pipelined->fd, &header, MSG_NOSIGNAL);
        if (taken < 0 && errno == EINTR)
            continue;
        if (taken < 0) {
            set_reason(pipelined, reason_of(errno));
            return false;
        }
        at += (size_t)taken;
        pipelined->taken += (uint64_t)taken;
        atomic_fetch_add_explicit(&pipelined->writes, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&pipelined->written_bytes, (uint64_t)taken, memory_order_relaxed);
    }
    pipelined->out_length = 0;
    weir_buffer_release(&pipelined->large);
    return true;
}

/* Is there a reason not to sleep? */
static bool writer_called(struct weir_pipelined *pipelined)
{
    if (atomic_load(&pipelined->reader_done))
        return true;
    bool more = weir_ring_ready(&pipelined->queue) || batch_due(pipelined);
    return more ? may_hand(pipelined) : atomic_load(&pipelined->closing) && !outstanding(pipelined);
}

/* Sleeps until there is something to do. False when all is done and the client is closing. */
static bool rest(struct weir_pipelined *pipelined)
{
    unsigned ticket = weir_wake_prepare(&pipelined->writer_wake);
    if (writer_called(pipelined)) {
        weir_wake_cancel(&pipelined->writer_wake);
    } else {
        uint64_t due = pipelined->batch ? atomic_load(&pipelined->batch->due) : WEIR_WAKE_NEVER;
        if (due <= weir_clock_ns())
            due = WEIR_WAKE_NEVER; /* it waits for room, and that the reader announces */
        weir_wake_sleep(&pipelined->writer_wake, ticket, due);
    }
    bool closing = atomic_load(&pipelined->closing);
    bool idle = !weir_ring_ready(&pipelined->queue) && !batch_due(pipelined) && !outstanding(pipelined);
    return !(closing && idle);
}

/* Fails what is queued and gathered. */
static void fail_queued(struct weir_pipelined *pipelined, enum weir_client_result result, uint64_t connection)
{
    struct weir_promise *promise;
    while ((promise = next_request(pipelined, true)))
        weir_promise_fail(promise, result, WEIR_REACH_NOTHING, connection);
}

/* Fails what the connection leaves behind, in the order in which it was sent. */
static void fail_outstanding(struct weir_pipelined *pipelined, uint64_t connection)
{
    enum weir_client_result result = (enum weir_client_result)(atomic_load(&pipelined->reason) - 1);
    uint64_t handed = atomic_load(&pipelined->handed);
    for (uint64_t at = atomic_load(&pipelined->answered); at < handed; at++) {
        struct weir_promise *promise = pipelined->in_flight[at % pipelined->options.in_flight];
        enum weir_reach reach = promise->end <= pipelined->taken                   ? WEIR_REACH_WHOLE
                                : promise->end - promise->size < pipelined->taken ? WEIR_REACH_PART
                                                                                   : WEIR_REACH_NOTHING;
        atomic_store(&pipelined->answered, at + 1);
        weir_promise_fail(promise, result, reach, connection);
    }
    fail_queued(pipelined, result, connection);
}

static bool start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the application's */
    bool started = pthread_create(thread, NULL, run, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static void prepare(struct weir_pipelined *pipelined, int fd)
{
    uint64_t silence_ns = pipelined->options.silence_ns;
    struct timeval silence = { (time_t)(silence_ns / 1000000000u), (suseconds_t)(silence_ns % 1000000000u / 1000u) };
    int on = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (silence_ns)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    atomic_store(&pipelined->handed, 0);
    atomic_store(&pipelined->answered, 0);
    atomic_store(&pipelined->reason, 0);
    atomic_store(&pipelined->wants_room, false);
    atomic_store(&pipelined->reader_done, false);
    pipelined->stream = pipelined->taken = 0;
    pipelined->out_length = 0;
    weir_inbox_clear(&pipelined->inbox);
    pthread_mutex_lock(&pipelined->fd_mutex);
    pipelined->fd = fd;
    pthread_mutex_unlock(&pipelined->fd_mutex);
}

/* One connection, from its first request to the last promise. */
static void serve(struct weir_pipelined *pipelined, int fd)
{
    prepare(pipelined, fd);
    if (atomic_load(&pipelined->given_up)) {
        set_reason(pipelined, WEIR_CLIENT_UNANSWERED);
        shutdown(fd, SHUT_RDWR);
    }
    uint64_t connection = atomic_fetch_add(&pipelined->connections, 1) + 1;
    bool reading = start_thread(&pipelined->reader, read_replies, pipelined), good = reading;
    if (good) {
        atomic_store(&pipelined->up, true);
        if (atomic_load(&pipelined->reader_done))
            atomic_store(&pipelined->up, false); /* it ended so soon that its own word came first */
        weir_wake_all(&pipelined->up_wake);
    }
    while (good && !atomic_load(&pipelined->reader_done))
        good = gather(pipelined) ? write_all(pipelined) : rest(pipelined);
    bool all_done = !outstanding(pipelined) && atomic_load(&pipelined->closing) && !atomic_load(&pipelined->reason);
    atomic_store(&pipelined->up, false);
    set_reason(pipelined, all_done ? WEIR_CLIENT_UNANSWERED : WEIR_CLIENT_BROKEN);
    shutdown(fd, SHUT_RDWR);
    if (reading)
        pthread_join(pipelined->reader, NULL);
    if (atomic_load(&pipelined->answered))
        weir_backoff_reset(&pipelined->backoff);
    weir_buffer_release(&pipelined->large);
    if (!all_done)
        atomic_fetch_add(&pipelined->connections_lost, 1); /* before anybody hears of it */
    fail_outstanding(pipelined, connection);
    pthread_mutex_lock(&pipelined->fd_mutex);
    close(fd);
    pipelined->fd = -1;
    pthread_mutex_unlock(&pipelined->fd_mutex);
}

/* Waits for `delay_ns`, or for closing; whatever comes into the queue meanwhile fails. */
static void wait_down(struct weir_pipelined *pipelined, uint64_t delay_ns)
{
    uint64_t until = weir_clock_ns() + delay_ns;
    while (!atomic_load(&pipelined->closing) && weir_clock_ns() < until) {
        unsigned ticket = weir_wake_prepare(&pipelined->writer_wake);
        bool gathered = pipelined->batch && atomic_load(&pipelined->batch->due) != WEIR_WAKE_NEVER;
        if (weir_ring_ready(&pipelined->queue) || gathered || atomic_load(&pipelined->closing))
            weir_wake_cancel(&pipelined->writer_wake);
        else
            weir_wake_sleep(&pipelined->writer_wake, ticket, until);
        fail_queued(pipelined, WEIR_CLIENT_DOWN, 0);
    }
}

/* A socket, or -1 when the client is closing. */
static int connect_again(struct weir_pipelined *pipelined)
{
    struct weir_dial_options dial = { .timeout_ns = pipelined->options.connect_timeout_ns, .cancel_fd = pipelined->cancel_fd,
                                      .send_buffer_bytes = pipelined->options.send_buffer_bytes };
    for (;;) {
        wait_down(pipelined, weir_backoff_delay(&pipelined->backoff));
        if (atomic_load(&pipelined->closing))
            return -1;
        int fd = weir_dial(pipelined->address, &dial, NULL);
        if (fd >= 0)
            return fd;
    }
}

static void *run(void *argument)
{
    struct weir_pipelined *pipelined = argument;
    weir_pipelined_thread = true;
    int fd = pipelined->fd;
    while (!atomic_load(&pipelined->closing) || fd >= 0) {
        if (fd < 0)
            fd = connect_again(pipelined);
        if (fd >= 0)
            serve(pipelined, fd);
        fd = -1;
    }
    fail_queued(pipelined, WEIR_CLIENT_DOWN, 0);
    atomic_store(&pipelined->finished, true);
    weir_wake_all(&pipelined->up_wake);
    return NULL;
}

/* --- from outside --------------------------------------------------------------------------------------------------------- */

static void release(struct weir_pipelined *pipelined)
{
    if (pipelined->cancel_fd >= 0)
        close(pipelined->cancel_fd);
    weir_ring_release(&pipelined->queue);
    weir_inbox_release(&pipelined->inbox);
    free(pipelined->in_flight);
    free(pipelined->out);
    pthread_mutex_destroy(&pipelined->fd_mutex);
}

int weir_pipelined_start(struct weir_pipelined *pipelined, const char *address, const struct weir_riemann_options *options,
                         struct weir_batch *batch, int fd, struct weir_error *error)
{
    pipelined->address = address;
    pipelined->options = *options;
    pipelined->batch = batch;
    pipelined->fd = fd;
    pipelined->backoff = (struct weir_backoff){ options->backoff_first_ns, options->backoff_most_ns, 0, 0 };
    pthread_mutex_init(&pipelined->fd_mutex, NULL);
    pipelined->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pipelined->in_flight = calloc(options->in_flight, sizeof *pipelined->in_flight);
    pipelined->out = malloc(OUT_BYTES);
    atomic_store(&pipelined->up, fd >= 0);
    int rc = weir_inbox_init(&pipelined->inbox, INBOX_FIRST, options->reply_max_bytes);
    if (!rc)
        rc = weir_ring_init(&pipelined->queue, options->queue);
    if (rc || !pipelined->in_flight || !pipelined->out) {
        release(pipelined);
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a client of %s", address);
    }
    if (pipelined->cancel_fd < 0 || !start_thread(&pipelined->writer, run, pipelined)) {
        release(pipelined);
        return weir_error_set(error, WEIR_EXIT_FOUND, EAGAIN, "no more files or threads for a client of %s", address);
    }
    return 0;
}

int weir_pipelined_push(struct weir_pipelined *pipelined, struct weir_promise *promise)
{
    size_t before = atomic_fetch_add(&pipelined->queued_bytes, promise->size);
    if ((before && before + promise->size > pipelined->options.queue_max_bytes) || !weir_ring_push(&pipelined->queue, promise)) {
        atomic_fetch_sub(&pipelined->queued_bytes, promise->size);
        return -EAGAIN;
    }
    weir_wake_all(&pipelined->writer_wake);
    return 0;
}

void weir_pipelined_nudge(struct weir_pipelined *pipelined)
{
    weir_wake_all(&pipelined->writer_wake);
}

static void wait_finished(struct weir_pipelined *pipelined, uint64_t until)
{
    while (!atomic_load(&pipelined->finished) && weir_clock_ns() < until) {
        unsigned ticket = weir_wake_prepare(&pipelined->up_wake);
        if (atomic_load(&pipelined->finished))
            weir_wake_cancel(&pipelined->up_wake);
        else
            weir_wake_sleep(&pipelined->up_wake, ticket, until);
    }
}

void weir_pipelined_stop(struct weir_pipelined *pipelined, uint64_t wait_ns)
{
    uint64_t one = 1, now = weir_clock_ns();
    bool up = atomic_load(&pipelined->up);
    atomic_store(&pipelined->closing, true);
    weir_wake_all(&pipelined->writer_wake);
    if (up)
        wait_finished(pipelined, wait_ns > WEIR_WAKE_NEVER - now ? WEIR_WAKE_NEVER : now + wait_ns);
    ssize_t written = write(pipelined->cancel_fd, &one, sizeof one);
    (void)written; /* an eventfd takes it */
    if (!atomic_load(&pipelined->finished)) {
        atomic_store(&pipelined->given_up, true);
        pthread_mutex_lock(&pipelined->fd_mutex);
        set_reason(pipelined, WEIR_CLIENT_UNANSWERED);
        if (pipelined->fd >= 0)
            shutdown(pipelined->fd, SHUT_RDWR);
        pthread_mutex_unlock(&pipelined->fd_mutex);
    }
    pthread_join(pipelined->writer, NULL);
    release(pipelined);
}
