#include "pipeline_dsl/client/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/dial.h"

#define INBOX_FIRST ((size_t)8 << 10)
#define NEVER UINT64_MAX

/* What became of one round trip; the promise is fulfilled from it once the mutex is free. */
struct trip {
    enum weir_client_result result;
    enum weir_reach reach;
    uint64_t connection;
    const uint8_t *payload; /* of an answer; lies in the inbox */
    size_t size;
};

static void adopt(struct weir_sync *sync, int fd)
{
    int on = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    weir_inbox_clear(&sync->inbox);
    sync->fd = fd;
    sync->owed = 0;
    sync->timeout_ns = NEVER;
    atomic_fetch_add_explicit(&sync->connections, 1, memory_order_relaxed);
}

int weir_sync_start(struct weir_sync *sync, const char *address, const struct weir_riemann_options *options, int fd,
                    struct weir_error *error)
{
    sync->address = address;
    sync->options = *options;
    sync->fd = -1;
    sync->backoff = (struct weir_backoff){ options->backoff_first_ns, options->backoff_most_ns, 0, 0 };
    if (weir_inbox_init(&sync->inbox, INBOX_FIRST, options->reply_max_bytes))
        return weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for a client of %s", address);
    pthread_mutex_init(&sync->mutex, NULL);
    if (fd >= 0)
        adopt(sync, fd);
    return 0;
}

void weir_sync_stop(struct weir_sync *sync)
{
    if (sync->fd >= 0)
        close(sync->fd);
    weir_inbox_release(&sync->inbox);
    pthread_mutex_destroy(&sync->mutex);
}

static void drop(struct weir_sync *sync)
{
    close(sync->fd);
    sync->fd = -1;
    sync->retry_at = weir_clock_ns() + weir_backoff_delay(&sync->backoff);
    atomic_fetch_add_explicit(&sync->connections_lost, 1, memory_order_relaxed);
}

static uint64_t left_of(uint64_t until)
{
    uint64_t now = until == NEVER ? 0 : weir_clock_ns();
    return until == NEVER ? NEVER : until > now ? until - now : 0;
}

/* Connects when down and the time for it has come. */
static int connect_again(struct weir_sync *sync, uint64_t until)
{
    uint64_t left = left_of(until), most = sync->options.connect_timeout_ns;
    if (weir_clock_ns() < sync->retry_at)
        return -ENOTCONN;
    struct weir_dial_options dial = { .timeout_ns = left < most ? left : most, .cancel_fd = -1,
                                      .send_buffer_bytes = sync->options.send_buffer_bytes };
    int fd = weir_dial(sync->address, &dial, NULL);
    if (fd < 0) {
        sync->retry_at = weir_clock_ns() + weir_backoff_delay(&sync->backoff);
        return -ENOTCONN;
    }
    adopt(sync, fd);
    return 0;
}

/* Sets the time that one call of the socket may take; costs nothing where it stays the same. False: there is none left. */
static bool set_timeout(struct weir_sync *sync, uint64_t until)
{
    uint64_t left = left_of(until);
    if (left == sync->timeout_ns)
        return true;
    if (!left)
        return false;
    struct timeval time = { 0, 0 };
    if (left != NEVER)
        time = (struct timeval){ (time_t)(left / 1000000000u), (suseconds_t)(left % 1000000000u / 1000u + 1) };
    if (time.tv_usec >= 1000000)
        time = (struct timeval){ time.tv_sec + 1, 0 };
    setsockopt(sync->fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(sync->fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    sync->timeout_ns = left;
    return true;
}

static enum weir_client_result reason_of(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK         ? WEIR_CLIENT_UNANSWERED
           : code == ECONNRESET || code == EPIPE         ? WEIR_CLIENT_RESET
                                                         : WEIR_CLIENT_BROKEN;
}

/* Writes the whole frame; false when the connection is over with it. */
static bool write_frame(struct weir_sync *sync, const struct weir_promise *promise, uint64_t until, struct trip *trip)
{
    size_t at = 0;
    while (at < promise->size) {
        ssize_t sent = -1;
        errno = EAGAIN;
        if (set_timeout(sync, until))
            sent = send(sync->fd, promise->frame.data + at, promise->size - at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            trip->result = reason_of(errno);
            trip->reach = at ? WEIR_REACH_PART : WEIR_REACH_NOTHING;
            if (at || trip->result != WEIR_CLIENT_UNANSWERED)
                drop(sync);
            return false;
        }
        at += (size_t)sent;
        atomic_fetch_add_explicit(&sync->writes, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&sync->written_bytes, (uint64_t)sent, memory_order_relaxed);
    }
    trip->reach = WEIR_REACH_WHOLE;
    return true;
}

/* Reads until the answer to this call is there; those to earlier ones are swallowed. */
static void read_answer(struct weir_sync *sync, atomic_uint_fast64_t *late, uint64_t until, struct trip *trip)
{
    for (;;) {
        enum weir_frame_kind kind;
        while ((kind = weir_inbox_next(&sync->inbox, &trip->payload, &trip->size)) == WEIR_FRAME_WHOLE) {
            if (!sync->owed)
                return;
            sync->owed--;
            atomic_fetch_add_explicit(late, 1, memory_order_relaxed);
        }
        trip->payload = NULL;
        trip->result = WEIR_CLIENT_BAD_REPLY;
        if (kind == WEIR_FRAME_BAD) {
            drop(sync);
            return;
        }
        bool full;
        ssize_t got = -EAGAIN;
        if (set_timeout(sync, until))
            got = weir_inbox_fill(&sync->inbox, sync->fd, 0, &full);
        if (got > 0)
            continue;
        trip->result = got == 0 ? WEIR_CLIENT_CLOSED : reason_of((int)-got);
        if (trip->result == WEIR_CLIENT_UNANSWERED)
            sync->owed++;
        else
            drop(sync);
        return;
    }
}

/* By the wall clock, since ThreadSanitizer doesn't know pthread_mutex_clocklock(): a step of that clock may shift a deadline. */
static int lock(struct weir_sync *sync, uint64_t until)
{
    if (until == NEVER)
        return pthread_mutex_lock(&sync->mutex);
    if (pthread_mutex_trylock(&sync->mutex) == 0)
        return 0;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    uint64_t at = (uint64_t)time.tv_nsec + left_of(until);
    time.tv_sec += (time_t)(at / 1000000000u);
    time.tv_nsec = (long)(at % 1000000000u);
    return pthread_mutex_timedlock(&sync->mutex, &time);
}

int weir_sync_call(struct weir_sync *sync, struct weir_promise *promise, uint64_t timeout_ns)
{
    /* A server that says nothing for so long is given up, connection and all; a caller's own deadline leaves the connection be. */
    bool silence = sync->options.silence_ns && sync->options.silence_ns < timeout_ns;
    if (silence)
        timeout_ns = sync->options.silence_ns;
    uint64_t now = timeout_ns == NEVER ? 0 : weir_clock_ns();
    uint64_t until = timeout_ns > NEVER - 1 - now ? NEVER : now + timeout_ns;
    struct trip trip = { .result = WEIR_CLIENT_UNANSWERED, .reach = WEIR_REACH_NOTHING };
    if (lock(sync, until) != 0) {
        weir_promise_count(promise);
        weir_promise_fail(promise, WEIR_CLIENT_UNANSWERED, WEIR_REACH_NOTHING, 0);
        return silence ? 0 : -ETIMEDOUT;
    }
    int rc = sync->fd < 0 ? connect_again(sync, until) : 0;
    if (!rc && sync->owed >= sync->options.in_flight)
        rc = -EAGAIN;
    if (rc) {
        pthread_mutex_unlock(&sync->mutex);
        return rc;
    }
    weir_promise_count(promise);
    trip.connection = atomic_load_explicit(&sync->connections, memory_order_relaxed);
    if (write_frame(sync, promise, until, &trip))
        read_answer(sync, &promise->pool->late, until, &trip);
    bool good = true, answered = trip.payload != NULL;
    if (answered) {
        weir_backoff_reset(&sync->backoff);
        good = weir_promise_judge(promise, trip.connection, trip.payload, trip.size);
    }
    /* What came beyond the answer answers nothing. */
    bool silent = silence && !answered && trip.result == WEIR_CLIENT_UNANSWERED;
    if (sync->fd >= 0 && (!good || silent || (answered && sync->inbox.end > sync->inbox.start)))
        drop(sync);
    pthread_mutex_unlock(&sync->mutex);
    if (answered)
        weir_promise_fulfil(promise);
    else
        weir_promise_fail(promise, trip.result, trip.reach, trip.connection);
    return !silence && !answered && trip.result == WEIR_CLIENT_UNANSWERED ? -ETIMEDOUT : 0;
}
