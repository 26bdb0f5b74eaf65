/*
 * DESIGN: the main thread runs a libuv loop of its own, with the listening sockets, the signals and, while the server ends, a
 * tick of 10 ms. It belongs to no pool and handles no item.
 *
 * The end comes in three steps, each with a limit, so that neither a client that never reads nor a stage that never returns can
 * hold it up:
 *   draining   no new connections or requests; each connection closes when its replies are written, and every other item
 *              goes on to its end. At most `drain_ns`
 *   ending     loops close what is left, workers send back what is queued without working on it, slots what is in flight. A
 *              loop ends when all of its items are back; only when all loops have ended, and what was born inside too, can no
 *              item be on its way to a worker, and workers end. At most 2 s
 *   ended      every thread is joined, or known to be stuck
 */
#include "pipeline_dsl/runtime/server.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/inherit.h"
#include "pipeline_dsl/runtime/seqlock.h"
#include "pipeline_dsl/runtime/tls.h"

#define TICK_MS 10
#define END_NS 2000000000u
#define ACCEPTS_A_TURN 64
#define RETRY_MS 100
#define COMPLAINT_NS 1000000000u

/* --- accepting ----------------------------------------------------------------------------------------------------------- */

static struct weir_loop *least_loaded(struct weir_server *server, uint32_t pool)
{
    struct weir_loop *best = NULL;
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < server->loop_count; i++) {
        struct weir_loop *loop = &server->loops[i];
        uint32_t load = __atomic_load_n(&loop->load, __ATOMIC_RELAXED);
        if (loop->pool == pool && load < least) {
            least = load;
            best = loop;
        }
    }
    return best;
}

void weir_server_adopt(struct weir_server *server, int fd, uint32_t way, struct weir_arrival *arrival)
{
    if (!arrival)
        arrival = weir_arrival_new(fd, way);
    if (arrival)
        arrival->tls_context = server->listeners[way].tls_context;
    if (arrival)
        weir_loop_adopt(least_loaded(server, server->plan->ways[way].pool), arrival);
    else
        close(fd);
}

/* A way in by datagrams has one socket, which a loop reads by itself. */
static bool accepts(const struct weir_server *server, uint32_t way)
{
    return server->plan->ways[way].transport != WEIR_UDP;
}

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_retry(uv_timer_t *timer)
{
    struct weir_acceptor *acceptor = timer->data;
    if (acceptor->server->state == WEIR_SERVER_RUNNING)
        uv_poll_start(&acceptor->poll, UV_READABLE, on_acceptable);
}

/* One line a second at most: who can't connect must be able to find out why. */
static void complain(struct weir_acceptor *acceptor, int code)
{
    uint64_t now = weir_clock_ns();
    if (acceptor->complained_ns && now - acceptor->complained_ns < COMPLAINT_NS)
        return;
    acceptor->complained_ns = now;
    fprintf(stderr, "%s: can't accept more connections: %s; they wait until others have gone%s\n",
            acceptor->server->plan->ways[acceptor->way].name, strerror(code),
            code == EMFILE ? "; raise the limit of open files (ulimit -n)" : "");
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    struct weir_acceptor *acceptor = poll->data;
    struct weir_server *server = acceptor->server;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(server->listeners[acceptor->way].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            weir_server_adopt(server, fd, acceptor->way, NULL);
            continue;
        }
        /* Without descriptors the socket stays readable: wait, rather than spin, until a connection has gone. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            complain(acceptor, errno);
            uv_poll_stop(poll);
            uv_timer_start(&acceptor->retry, on_retry, RETRY_MS, 0);
        }
        return;
    }
}

/* --- starting ------------------------------------------------------------------------------------------------------------ */

static uint32_t threads_of(const struct weir_plan *plan, bool listens)
{
    uint32_t threads = 0;
    for (uint32_t i = 0; i < plan->pool_count; i++)
        if (plan->pools[i].listens == listens)
            threads += plan->pools[i].threads;
    return threads;
}

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        weir_bug("no memory for the server's own tables (%zu x %zu bytes)", count, size);
    return memory;
}

int weir_server_bind(struct weir_server *server, const struct weir_plan *plan, const char *const *addresses,
                     struct weir_error *error)
{
    *server = (struct weir_server){ .plan = plan };
    server->listeners = zeroed(plan->way_count, sizeof *server->listeners);
    server->acceptors = zeroed(plan->way_count, sizeof *server->acceptors);
    for (uint32_t i = 0; i < plan->way_count; i++)
        server->listeners[i].fd = -1;
    int rc = weir_takeover_open(&server->takeover, error);
    for (uint32_t i = 0; rc == 0 && i < plan->way_count; i++) {
        const struct weir_plan_way *way = &plan->ways[i];
        const char *address = addresses[i] ? addresses[i] : way->address;
        if (!weir_inherit_listener(server, i, address))
            rc = weir_listener_open(&server->listeners[i], way, address, error);
        if (rc == 0 && way->tls)
            rc = way->tls->context_new(way, &server->listeners[i].tls_context, error);
    }
    for (uint32_t i = 0; rc != 0 && i < plan->way_count; i++)
        if (!server->listeners[i].inherited)
            weir_listener_close(&server->listeners[i]);
    return rc;
}

static uint32_t init_queues_of(struct weir_server *server, uint32_t pool, enum weir_queue_kind kind, uint32_t filled)
{
    const struct weir_plan *plan = server->plan;
    for (uint32_t i = 0; i < plan->queue_count; i++) {
        /* An event loop takes nothing from an intake: what its slots have finished comes back by a list of its own. */
        if (plan->queues[i].kind != kind || plan->queues[i].to_pool != pool || plan->pools[pool].listens)
            continue;
        weir_queue_init(&server->queues[i], plan, i, &server->intakes[pool], threads_of(plan, true));
        server->intake_queues[filled++] = &server->queues[i];
    }
    return filled;
}

static void init_queues(struct weir_server *server)
{
    const struct weir_plan *plan = server->plan;
    uint32_t filled = 0;
    server->intakes = zeroed(plan->pool_count, sizeof *server->intakes);
    server->queues = zeroed(plan->queue_count, sizeof *server->queues);
    server->intake_queues = zeroed(plan->queue_count, sizeof *server->intake_queues);
    for (uint32_t pool = 0; pool < plan->pool_count; pool++) {
        uint32_t first = filled;
        filled = init_queues_of(server, pool, WEIR_QUEUE_HANDOFF, filled);
        filled = init_queues_of(server, pool, WEIR_QUEUE_SLOTS, filled);
        weir_intake_init(&server->intakes[pool], server->intake_queues + first, filled - first);
    }
}

static int start_slots(struct weir_server *server, struct weir_error *error)
{
    const struct weir_plan *plan = server->plan;
    int rc = 0;
    server->slots = zeroed(plan->slots_count, sizeof *server->slots);
    for (uint32_t i = 0; i < plan->slots_count && rc == 0; i++) {
        rc = weir_slots_start(&server->slots[i], plan, i, server->queues, error);
        server->slots_count += rc == 0;
    }
    return rc;
}

static int start_pool(struct weir_server *server, uint32_t pool, struct weir_error *error)
{
    const struct weir_plan *plan = server->plan;
    for (uint32_t i = 0; i < plan->pools[pool].threads; i++) {
        int rc;
        if (plan->pools[pool].listens) {
            rc = weir_loop_start(&server->loops[server->loop_count], plan, server->queues, server->slots, pool, i, error);
            server->loop_count += rc == 0;
        } else if (server->intakes[pool].queue_count) {
            rc = weir_worker_start(&server->workers[server->worker_count], plan, &server->intakes[pool], server->queues,
                                   server->slots, pool, i, error);
            server->worker_count += rc == 0;
        } else {
            rc = 0; /* a pool that nothing uses, or that of a stage with slots */
        }
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* --- ending -------------------------------------------------------------------------------------------------------------- */

/* Items of all ways in, and of what was born inside, that have not ended. */
static bool in_flight(const struct weir_server *server)
{
    struct weir_contract_way block;
    for (uint32_t i = 0; i < (server->plan->way_count + 1) * server->plan->shards; i++) {
        weir_seqlock_read(&server->plan->way_blocks[i], &block, sizeof block);
        if (block.in_flight)
            return true;
    }
    return false;
}

static bool all_done(const struct weir_server *server)
{
    for (uint32_t i = 0; i < server->loop_count; i++)
        if (__atomic_load_n(&server->loops[i].load, __ATOMIC_RELAXED))
            return false;
    return !in_flight(server);
}

static bool loops_ended(const struct weir_server *server)
{
    for (uint32_t i = 0; i < server->loop_count; i++)
        if (!__atomic_load_n(&server->loops[i].ended, __ATOMIC_ACQUIRE))
            return false;
    return true;
}

static bool workers_ended(const struct weir_server *server)
{
    for (uint32_t i = 0; i < server->slots_count; i++)
        if (!weir_slots_ended(&server->slots[i]))
            return false;
    for (uint32_t i = 0; i < server->worker_count; i++)
        if (!__atomic_load_n(&server->workers[i].ended, __ATOMIC_ACQUIRE))
            return false;
    return true;
}

static void stop_accepting(struct weir_server *server)
{
    weir_self_stop(&server->self);
    if (!server->leaves)
        weir_reload_stop(&server->reload);
    for (uint32_t i = 0; i < server->plan->way_count; i++) {
        if (accepts(server, i)) {
            uv_poll_stop(&server->acceptors[i].poll);
            uv_timer_stop(&server->acceptors[i].retry);
        }
        if (!server->leaves)
            weir_listener_close(&server->listeners[i]);
    }
}

static void end(struct weir_server *server)
{
    server->state = WEIR_SERVER_ENDING;
    server->deadline_ns = weir_clock_ns() + END_NS;
    weir_inside_close(&server->inside);
    for (uint32_t i = 0; i < server->plan->pool_count; i++)
        weir_intake_discard(&server->intakes[i]);
    for (uint32_t i = 0; i < server->slots_count; i++)
        weir_slots_stop(&server->slots[i]);
    for (uint32_t i = 0; i < server->loop_count; i++)
        weir_loop_stop(&server->loops[i]);
}

/* Whether all threads are done. */
static bool end_workers(struct weir_server *server)
{
    if (!loops_ended(server) || weir_inside_count(&server->inside))
        return false;
    for (uint32_t i = 0; i < server->plan->pool_count; i++)
        weir_intake_close(&server->intakes[i]);
    return workers_ended(server);
}

static void on_tick(uv_timer_t *timer)
{
    struct weir_server *server = timer->data;
    bool late = weir_clock_ns() >= server->deadline_ns;
    if (server->state == WEIR_SERVER_DRAINING && (all_done(server) || late)) {
        server->timed_out = !all_done(server);
        end(server);
    } else if (server->state == WEIR_SERVER_ENDING) {
        bool done = end_workers(server);
        if (!done && !late)
            return;
        server->stuck = !done;
        server->state = WEIR_SERVER_ENDED;
        uv_stop(&server->uv);
    }
}

static void drain(struct weir_server *server)
{
    server->state = WEIR_SERVER_DRAINING;
    for (uint32_t i = 0; i < server->plan->source_count; i++)
        if (server->tickers[i].source->tick)
            uv_timer_stop(&server->tickers[i].timer);
    server->deadline_ns = weir_clock_ns() + server->drain_ns;
    stop_accepting(server);
    for (uint32_t i = 0; i < server->plan->pool_count; i++)
        weir_intake_hurry(&server->intakes[i]);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        if (server->leaves)
            weir_loop_leave(&server->loops[i]);
        else
            weir_loop_drain(&server->loops[i]);
    }
    /* Everybody waits for one that leaves. */
    uv_timer_start(&server->tick, on_tick, 0, server->leaves ? 1 : TICK_MS);
}

static void on_reload(uv_async_t *async)
{
    struct weir_server *server = async->data;
    if (server->state != WEIR_SERVER_RUNNING || !__atomic_load_n(&server->reload.ready, __ATOMIC_ACQUIRE))
        return;
    server->leaves = true;
    drain(server);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct weir_server *server = handle->data;
    if (number == SIGUSR1) {
        weir_counters_write(server->plan, server->counters_path, NULL);
    } else if (number == SIGHUP) {
        weir_reload_hangup(&server->reload);
    } else if (server->leaves && !sigismember(&server->reload.later, number)) {
        sigaddset(&server->reload.later, number);
    } else if (server->state == WEIR_SERVER_RUNNING) {
        drain(server);
    } else {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* --- start, run, release -------------------------------------------------------------------------------------------------- */

static void on_source_tick(uv_timer_t *timer)
{
    struct weir_ticker *ticker = timer->data;
    ticker->source->tick(ticker->source);
}

static void start_tickers(struct weir_server *server)
{
    for (uint32_t i = 0; i < server->plan->source_count; i++) {
        struct weir_ticker *ticker = &server->tickers[i];
        ticker->source = &server->plan->sources[i];
        if (!ticker->source->tick)
            continue;
        uint64_t ms = ticker->source->tick_ns / 1000000 ? ticker->source->tick_ns / 1000000 : 1;
        uv_timer_init(&server->uv, &ticker->timer);
        ticker->timer.data = ticker;
        uv_timer_start(&ticker->timer, on_source_tick, ms, ms);
    }
}

static const int handled_signals[] = { SIGTERM, SIGINT, SIGUSR1, SIGHUP };

void weir_server_mask_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < 4; i++)
        sigaddset(&set, handled_signals[i]);
    pthread_sigmask(how, &set, NULL);
}

/* Signals, listening sockets and timers of the main thread. */
static void init_main_loop(struct weir_server *server)
{
    uv_loop_init(&server->uv);
    uv_timer_init(&server->uv, &server->tick);
    uv_async_init(&server->uv, &server->reloads, on_reload);
    server->tick.data = server->reloads.data = server;
    for (int i = 0; i < 4; i++) {
        uv_signal_init(&server->uv, &server->signals[i]);
        server->signals[i].data = server;
        uv_signal_start(&server->signals[i], on_signal, handled_signals[i]);
    }
    weir_server_mask_signals(SIG_UNBLOCK);
    for (uint32_t i = 0; i < server->plan->way_count; i++) {
        if (!accepts(server, i))
            continue;
        struct weir_acceptor *acceptor = &server->acceptors[i];
        *acceptor = (struct weir_acceptor){ .server = server, .way = i };
        uv_poll_init(&server->uv, &acceptor->poll, server->listeners[i].fd);
        uv_timer_init(&server->uv, &acceptor->retry);
        acceptor->poll.data = acceptor->retry.data = acceptor;
        uv_poll_start(&acceptor->poll, UV_READABLE, on_acceptable);
    }
    start_tickers(server);
}

/* Every thread has its slot, so that whoever reads the server's first line finds them all. */
static void wait_for_threads(const struct weir_server *server)
{
    for (uint32_t i = 0; i < server->loop_count; i++)
        while (!__atomic_load_n(&server->loops[i].started, __ATOMIC_ACQUIRE))
            usleep(50);
    for (uint32_t i = 0; i < server->worker_count; i++)
        while (!__atomic_load_n(&server->workers[i].started, __ATOMIC_ACQUIRE))
            usleep(50);
}

/* The listener keeps its own descriptor, as it does where connections are accepted. */
static int adopt_datagrams(struct weir_server *server, struct weir_error *error)
{
    for (uint32_t i = 0; i < server->plan->way_count; i++) {
        if (accepts(server, i))
            continue;
        int fd = fcntl(server->listeners[i].fd, F_DUPFD_CLOEXEC, 0);
        struct weir_arrival *arrival = fd < 0 ? NULL : weir_arrival_new(fd, i);
        if (!arrival)
            return weir_error_set(error, WEIR_EXIT_USAGE, errno, "can't read the socket of pipeline %s: %s", server->plan->ways[i].name,
                                  strerror(errno));
        arrival->inherited = server->listeners[i].inherited;
        weir_server_adopt(server, fd, i, arrival);
    }
    return 0;
}

int weir_server_start(struct weir_server *server, struct weir_error *error)
{
    const struct weir_plan *plan = server->plan;
    weir_contract_publish(plan);
    init_queues(server);
    server->loops = zeroed(threads_of(plan, true), sizeof *server->loops);
    server->workers = zeroed(threads_of(plan, false), sizeof *server->workers);
    server->tickers = zeroed(plan->source_count, sizeof *server->tickers);
    weir_inside_init(&server->inside, plan, server->intakes, server->loops, threads_of(plan, true));
    /* Signals are for the main thread. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = start_slots(server, error);
    for (uint32_t pool = 0; pool < plan->pool_count && rc == 0; pool++)
        rc = start_pool(server, pool, error);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0) {
        wait_for_threads(server);
        init_main_loop(server);
        weir_inherit_rest(server);
        rc = adopt_datagrams(server, error);
    }
    return rc;
}

void weir_server_run(struct weir_server *server)
{
    uv_run(&server->uv, UV_RUN_DEFAULT);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void weir_server_release(struct weir_server *server)
{
    const struct weir_plan *plan = server->plan;
    for (uint32_t i = 0; i < server->loop_count; i++)
        weir_loop_release(&server->loops[i]);
    for (uint32_t i = 0; i < server->worker_count; i++)
        weir_worker_release(&server->workers[i]);
    for (uint32_t i = 0; i < server->slots_count; i++)
        weir_slots_release(&server->slots[i]);
    for (uint32_t i = 0; i < plan->queue_count; i++)
        if (server->queues[i].ring)
            weir_queue_release(&server->queues[i]);
    for (uint32_t i = 0; i < plan->pool_count; i++)
        weir_intake_release(&server->intakes[i]);
    weir_inside_release(&server->inside);
    uv_walk(&server->uv, close_handle, NULL);
    uv_run(&server->uv, UV_RUN_DEFAULT);
    uv_loop_close(&server->uv);
    for (uint32_t i = 0; i < plan->way_count; i++)
        weir_listener_close(&server->listeners[i]);
    for (uint32_t i = 0; i < plan->way_count; i++)
        if (server->listeners[i].tls_context)
            plan->ways[i].tls->context_free(server->listeners[i].tls_context);
    free(server->listeners);
    free(server->acceptors);
    free(server->intakes);
    free(server->intake_queues);
    free(server->queues);
    free(server->slots);
    free(server->loops);
    free(server->workers);
    free(server->tickers);
}
