/*
 * DESIGN. One loop, woken at random moments 5 to 15 ms apart: it empties the ring buffers, reads the logs that wait for long and
 * the queue blocks, and every 100 ms closes a slice. Nothing wakes it from the kernel's side, so the target never pays for a
 * wakeup of the tracer.
 *
 * The end, in this order, so that nothing stamped is lost: the last snapshot; up to 20 ms for items under way to finish; the
 * points that ask for stamping are dropped; ring buffers and logs are read; everything else is detached; the ring buffers once more.
 */
#include "tracer/session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "tracer/aggregate.h"
#include "tracer/machine.h"
#include "tracer/probe.h"
#include "tracer/slots.h"
#include "tracer/sockets.h"
#include "tracer/states.h"
#include "tracer/target.h"
#include "tracer/window.h"

#define SETTLE_NS 10000000u
#define DRAIN_NS 20000000u
#define TICK_LEAST_NS 5000000u
#define TICK_SPREAD_NS 10000000u
#define LOG_AGE_NS 10000000u
#define FIRST_PROGRESS_NS 200000000u /* a rate over less says little */
#define PROGRESS_NS 1000000000u
#define THREADS_MOST 4096

struct session {
    const struct weir_session_options *options;
    struct weir_target target;
    struct weir_probe probe;
    struct weir_window window;
    struct weir_profile *profile;
    struct weir_symbols *symbols;
    struct weir_contract_thread slots[WEIR_THREAD_SLOTS], placed[WEIR_THREAD_SLOTS];
    struct weir_profile_queue_count *queues;
    struct weir_profile_way_count *ways;
    struct weir_sockets sockets;
    struct weir_machine machine_begin, machine_end;
    uint64_t tracer_cpu_ns, hits;    /* when the window began */
    struct weir_probe_counts before; /* likewise: what was lost before it is missing from no figure */
    uint64_t threads_lost; /* no room for them in the probes */
    uint64_t random;
    const char *ended_by;
};

/* --- what the ring buffers bring -------------------------------------------------------------------------------------------- */

static void on_sample(void *context, const struct weir_probe_sample *sample, size_t size)
{
    struct session *session = context;
    if (size >= sizeof *sample)
        weir_window_sample(&session->window, sample);
}

static void on_flush(void *context, const struct weir_probe_flush *flush, size_t size)
{
    struct session *session = context;
    size_t header = offsetof(struct weir_probe_flush, log) + offsetof(struct weir_contract_log, records);
    if (size < header || flush->count > (size - header) / sizeof flush->log.records[0])
        return;
    weir_items_add(&session->window.items, flush->slot, flush->generation, flush->log.base, flush->log.records, flush->count);
}

/* Reads the logs whose oldest record was written before `before_ticks`. Of the others it sees how many records came before them. */
static void read_logs(struct session *session, uint64_t before_ticks)
{
    struct weir_contract_log log;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        const struct weir_contract_thread *slot = &session->slots[i];
        if (slot->generation == 0 || weir_target_read_log(&session->target, i, before_ticks, &log) != 0)
            continue;
        /* What was handed over before these is in the ring buffer by now. */
        if (weir_items_gap(&session->window.items, i, slot->generation, log.base))
            weir_probe_drain(&session->probe);
        weir_items_add(&session->window.items, i, slot->generation, log.base, log.records, log.count);
    }
}

/* --- threads ---------------------------------------------------------------------------------------------------------------- */

/* Tells the probes which thread has which slot, when that has changed. Before the attach also what each of them does. */
static int place_threads(struct session *session, bool guess)
{
    int rc = weir_target_read_threads(&session->target, session->slots);
    bool changed = guess;
    for (uint32_t i = 0; !rc && i < WEIR_THREAD_SLOTS; i++)
        changed |=
            session->slots[i].tid != session->placed[i].tid || session->slots[i].generation != session->placed[i].generation;
    if (rc || !changed)
        return rc;
    struct weir_probe_listed *listed = calloc(THREADS_MOST, sizeof *listed);
    if (!listed)
        return -ENOMEM;
    uint64_t now_ns = weir_clock_ns();
    int count = weir_probe_threads(&session->probe, &session->target, listed, THREADS_MOST);
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++) {
        const struct weir_contract_thread *slot = &session->slots[i];
        for (int k = 0; slot->tid && k < count; k++) {
            if (listed[k].inner_tid != slot->tid)
                continue;
            session->threads_lost += !weir_probe_place_thread(&session->probe, listed[k].tid, i);
            if (guess)
                weir_probe_guess_thread(&session->probe, i, listed[k].runnable, slot->tag, slot->wait, now_ns);
        }
    }
    free(listed);
    memcpy(session->placed, session->slots, sizeof session->placed);
    weir_probe_places_changed(&session->probe);
    return count > 0 ? 0 : count < 0 ? count : -ESRCH;
}

/* --- begin ------------------------------------------------------------------------------------------------------------------ */

static uint64_t hits_so_far(const struct session *session)
{
    struct weir_probe_counts counts = weir_probe_counts(&session->probe);
    uint64_t hits = counts.flushes + counts.fires + counts.thread_starts;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        hits += session->probe.threads[i].switches;
    return hits;
}

static uint64_t own_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare_ticks(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* What an empty stamp costs: the median distance of two that follow each other. */
static double stamp_floor_ns(double ns_per_tick)
{
    enum { STAMPS = 255 };
    uint64_t at[STAMPS + 1];
    for (int i = 0; i <= STAMPS; i++)
        at[i] = weir_clock_ticks();
    for (int i = 0; i < STAMPS; i++)
        at[i] = at[i + 1] - at[i];
    qsort(at, STAMPS, sizeof at[0], compare_ticks);
    return (double)at[STAMPS / 2] * ns_per_tick;
}

static int open_all(struct session *session, struct weir_error *error)
{
    const struct weir_session_options *options = session->options;
    const struct weir_probe_sink sink = { on_sample, on_flush, session };
    int rc = weir_target_open(&session->target, options->target, error);
    if (rc)
        return rc;
    session->profile = weir_profile_new();
    session->queues = calloc((size_t)session->target.contract.queue_count + 1, sizeof *session->queues);
    session->ways = calloc((size_t)session->target.contract.way_count + 1, sizeof *session->ways);
    if (!session->profile || !session->queues || !session->ways)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "out of memory");
    rc = weir_topology_read(&session->profile->topology, &session->profile->arena, session->target.topology_data,
                            session->target.contract.topology_bytes, error);
    if (rc)
        return rc;
    session->profile->mode = options->mode;
    rc = weir_window_init(&session->window, session->profile);
    if (rc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "out of memory");
    session->symbols =
        weir_symbols_open(session->target.process.pid, session->target.process.exe_fd, session->target.process.exe);
    const struct weir_probe_options wanted = { .exact = options->mode == WEIR_MODE_EXACT, .perf_events = options->perf_events,
                                               .period_ns = options->period_ns ? options->period_ns : WEIR_SESSION_PERIOD_NS };
    rc = weir_probe_open(&session->probe, &session->target, &wanted, &sink, error);
    if (rc)
        return rc;
    rc = place_threads(session, true);
    if (rc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "can't read the threads of process %d: %s",
                              (int)session->target.process.pid, strerror(-rc));
    return weir_probe_attach(&session->probe, &session->target, error);
}

static void tell(struct session *session, const struct weir_profile_way_count *ways, uint64_t now_ns)
{
    const struct weir_snapshot *begin = &session->window.begin;
    const struct weir_process *process = &session->target.process;
    struct weir_session_progress progress = { .pid = (int)process->pid,
                                              .name = process->name,
                                              .topology = session->profile->topology.name,
                                              .replaced = process->replaced };
    if (!session->options->progress)
        return;
    if (ways && now_ns > begin->ns) {
        double items = 0, events = 0;
        progress.elapsed_ns = now_ns - begin->ns;
        for (uint32_t i = 0; i < begin->way_count; i++) {
            items += (double)weir_profile_grown(begin->ways[i].accepted, ways[i].accepted);
            events += (double)weir_profile_grown(begin->ways[i].events, ways[i].events);
        }
        uint64_t cpu_ns = weir_process_cpu_ns(process);
        progress.items_per_s = items * 1e9 / (double)progress.elapsed_ns;
        progress.events_per_s = events * 1e9 / (double)progress.elapsed_ns;
        progress.cpu_share =
            cpu_ns > begin->process_cpu_ns ? (double)(cpu_ns - begin->process_cpu_ns) / (double)progress.elapsed_ns : 0;
    }
    session->options->progress(session->options->context, &progress);
}

static int begin(struct session *session, struct weir_error *error)
{
    struct weir_window *window = &session->window;
    const struct timespec settle = { 0, SETTLE_NS };
    struct timespec wall;
    nanosleep(&settle, NULL);
    weir_probe_drain(&session->probe);
    int rc = place_threads(session, false);
    read_logs(session, UINT64_MAX);
    session->before = weir_probe_counts(&session->probe);
    for (int tries = 0; !rc && tries < 10 &&
                        (rc = weir_snapshot_take(&window->begin, &session->target, &session->probe, session->slots)) == -EAGAIN;
         tries++)
        rc = tries < 9 ? 0 : rc;
    if (rc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "can't read the counters of process %d: %s",
                              (int)session->target.process.pid, strerror(-rc));
    window->ns_per_tick = window->items.ns_per_tick = weir_clock_ns_per_tick(window->pair, weir_clock_pair());
    weir_window_begin(window);
    weir_machine_note(&session->machine_begin, session->target.process.pid);
    weir_sockets_open(&session->sockets, session->target.process.pid, &session->profile->topology);
    weir_probe_drain(&session->probe); /* all of that takes a while on a crowded machine, and the target stamps */
    clock_gettime(CLOCK_REALTIME, &wall);
    session->profile->start_unix_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
    session->profile->probe_floor_ns = stamp_floor_ns(window->ns_per_tick);
    session->tracer_cpu_ns = own_cpu_ns();
    session->hits = hits_so_far(session);
    return 0;
}

/* --- the loop --------------------------------------------------------------------------------------------------------------- */

/* xorshift: the ticks only have to be free of the workload's rhythm. */
static uint64_t draw(struct session *session)
{
    session->random ^= session->random << 13;
    session->random ^= session->random >> 7;
    session->random ^= session->random << 17;
    return session->random;
}

/* Sleeps, but not over a signal or the target's end; empties the ring buffers meanwhile when they fill fast. True when the
 * target has exited. */
static bool wait_until(struct session *session, uint64_t until_ns)
{
    struct pollfd exit = { .fd = session->target.process.pidfd, .events = POLLIN };
    for (;;) {
        uint64_t now_ns = weir_clock_ns(), gap_ns = until_ns > now_ns ? until_ns - now_ns : 0;
        bool last = gap_ns <= session->probe.drain_gap_ns;
        if (!last)
            gap_ns = session->probe.drain_gap_ns;
        struct timespec gap = { (time_t)(gap_ns / 1000000000u), (long)(gap_ns % 1000000000u) };
        int ready = ppoll(&exit, 1, &gap, NULL);
        if (ready || last)
            return ready > 0;
        weir_probe_drain(&session->probe);
    }
}

static uint64_t ticks_before(const struct session *session, uint64_t age_ns)
{
    return weir_clock_ticks() - (uint64_t)((double)age_ns / session->window.ns_per_tick);
}

/* Closes a slice. -EAGAIN: not now. */
static int slice(struct session *session)
{
    struct weir_window *window = &session->window;
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        window->now.threads[i].on_cpu_ns = window->last.threads[i].on_cpu_ns;
    int rc = place_threads(session, false);
    if (!rc)
        rc = weir_snapshot_take(&window->now, &session->target, &session->probe, session->slots);
    weir_probe_drain(&session->probe);
    return rc ? rc : weir_window_slice(window);
}

/* What is only read at random moments: queues, slots, connections. -EAGAIN: not now. */
static int look(struct session *session, uint64_t now_ns)
{
    struct weir_window *window = &session->window;
    int rc = weir_target_read_queues(&session->target, session->queues);
    if (!rc)
        weir_window_depths(window, session->queues, now_ns);
    if (!rc)
        rc = weir_slots_look(window, &session->target, now_ns);
    if (!rc)
        rc = weir_target_read_ways(&session->target, session->ways);
    if (!rc)
        weir_window_connections(window, session->ways);
    weir_sockets_look(&session->sockets, session->profile->ways, now_ns);
    return rc;
}

static void run(struct session *session)
{
    struct weir_window *window = &session->window;
    uint64_t begin_ns = window->begin.ns, end_ns = begin_ns + session->options->duration_ns;
    uint64_t next_slice_ns = begin_ns + WEIR_PROFILE_SLICE_NS, next_progress_ns = begin_ns + FIRST_PROGRESS_NS;
    int rc = 0;
    while (!session->ended_by) {
        uint64_t tick_ns = weir_clock_ns() + TICK_LEAST_NS + draw(session) % TICK_SPREAD_NS;
        uint64_t edge_ns = next_slice_ns < end_ns ? next_slice_ns : end_ns;
        bool at_edge = edge_ns <= tick_ns;
        if (wait_until(session, at_edge ? edge_ns : tick_ns) || rc) {
            session->ended_by = "target exit";
            break;
        }
        uint64_t now_ns = weir_clock_ns();
        weir_probe_drain(&session->probe);
        weir_probe_tick(&session->probe, now_ns);
        read_logs(session, ticks_before(session, LOG_AGE_NS));
        if (*session->options->stop)
            session->ended_by = "signal";
        else if (now_ns >= end_ns)
            session->ended_by = "duration";
        if (session->ended_by)
            break;
        if (at_edge) {
            rc = slice(session);
            next_slice_ns = rc == -EAGAIN ? now_ns + TICK_LEAST_NS : next_slice_ns + WEIR_PROFILE_SLICE_NS;
        } else {
            rc = look(session, now_ns); /* a slice's edge is no random moment: it comes every 100 ms */
        }
        rc = rc == -EAGAIN ? 0 : rc;
        if (now_ns >= next_progress_ns && !rc && weir_target_read_ways(&session->target, window->now.ways) == 0) {
            tell(session, window->now.ways, now_ns);
            next_progress_ns = now_ns - (now_ns - begin_ns) % PROGRESS_NS + PROGRESS_NS;
        }
    }
}

/* --- end -------------------------------------------------------------------------------------------------------------------- */

/* Have all items that were accepted within the window been answered? */
static bool is_drained(struct session *session)
{
    struct weir_window *window = &session->window;
    if (weir_target_read_ways(&session->target, window->now.ways) != 0)
        return true;
    for (uint32_t i = 0; i < window->now.way_count; i++) {
        const struct weir_profile_way_count *way = &window->now.ways[i];
        if (way->answered + way->abandoned + way->discarded < window->last.ways[i].accepted)
            return false;
    }
    return true;
}

static void drain(struct session *session)
{
    uint64_t until_ns = weir_clock_ns() + DRAIN_NS;
    while (session->options->mode == WEIR_MODE_EXACT && weir_clock_ns() < until_ns && !is_drained(session))
        if (wait_until(session, weir_clock_ns() + 1000000u))
            break;
    weir_probe_stop_asking(&session->probe, &session->target);
    weir_probe_drain(&session->probe);
    read_logs(session, UINT64_MAX);
}

static void end(struct session *session)
{
    struct weir_window *window = &session->window;
    bool gone = weir_process_exited(&session->target.process);
    for (int tries = 0; !gone && tries < 10 && slice(session) == -EAGAIN; tries++)
        ;
    weir_window_end(window);
    weir_machine_note(&session->machine_end, session->target.process.pid);
    weir_probe_drain(&session->probe);
    uint64_t cpu_ns = own_cpu_ns() - session->tracer_cpu_ns, hits = hits_so_far(session) - session->hits;
    if (!gone) {
        drain(session);
        weir_symbols_refresh(session->symbols);
    }
    weir_probe_detach(&session->probe);
    weir_probe_drain(&session->probe);
    uint64_t duration_ns = weir_clock_ns() - window->begin.ns;
    session->profile->tracer_cpu_share = duration_ns ? (double)cpu_ns / (double)duration_ns : 0;
    session->profile->probe_hits_per_s = duration_ns ? (double)hits * 1e9 / (double)duration_ns : 0;
}

static void violate(struct weir_profile *profile, const char *text)
{
    const char **list = weir_arena_alloc(&profile->arena, (profile->violation_count + 1) * sizeof *list);
    if (!list || !text)
        return;
    if (profile->violation_count)
        memcpy(list, profile->violations, profile->violation_count * sizeof *list);
    list[profile->violation_count++] = text;
    profile->violations = list;
}

static const uint64_t *wakeups_of(const void *context, uint32_t queue)
{
    return weir_probe_wakeups(context, queue);
}

static int make_profile(struct session *session, struct weir_error *error)
{
    struct weir_profile *profile = session->profile;
    const struct weir_process *process = &session->target.process;
    struct utsname system;
    struct weir_probe_counts counts = weir_probe_counts(&session->probe);
    int rc = weir_aggregate(&session->window, wakeups_of, &session->probe);
    if (!rc)
        rc = weir_aggregate_stacks(&session->window, session->symbols);
    if (!rc)
        rc = weir_sleeps_set(&session->window, session->symbols);
    if (rc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "out of memory while summing up");
    profile->pid = (uint32_t)process->pid;
    profile->exe = weir_arena_dup(&profile->arena, process->exe, strlen(process->exe));
    profile->kind = WEIR_TARGET_BUILT;
    weir_machine_set(profile, &session->machine_begin, &session->machine_end);
    profile->kernel = uname(&system) == 0 ? weir_arena_dup(&profile->arena, system.release, strlen(system.release)) : "";
    profile->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    profile->ended_by = session->ended_by;
    profile->sample_period_ns = session->probe.sampler.period_ns;
    profile->samples_lost = counts.samples_lost - session->before.samples_lost;
    uint64_t records_lost = counts.records_lost - session->before.records_lost;
    if (records_lost > profile->records_lost)
        profile->records_lost = records_lost;
    profile->threads_lost = session->window.last.thread_overflow + session->threads_lost + counts.threads_lost;
    if (session->probe.warning[0])
        violate(profile, weir_arena_dup(&profile->arena, session->probe.warning, strlen(session->probe.warning)));
    if (session->window.items.hostile || counts.hostile)
        violate(profile, weir_arena_printf(&profile->arena, "%llu item records of the server can't be, and were left out",
                                           (unsigned long long)(session->window.items.hostile + counts.hostile)));
    weir_profile_verify(profile);
    return 0;
}

int weir_session_record(const struct weir_session_options *options, struct weir_profile **profile, struct weir_error *error)
{
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "out of memory");
    session->options = options;
    session->random = weir_clock_ns() | 1;
    session->target.process.pidfd = session->target.process.exe_fd = session->target.process.mem_fd = -1;
    session->sockets.fd = -1;
    session->probe.listen_link = session->probe.ask_link = -1;
    int rc = open_all(session, error);
    if (!rc) {
        tell(session, NULL, 0);
        rc = begin(session, error);
    }
    if (!rc) {
        run(session);
        end(session);
        rc = make_profile(session, error);
    }
    weir_probe_close(&session->probe);
    weir_symbols_close(session->symbols);
    weir_window_release(&session->window);
    weir_target_close(&session->target);
    weir_sockets_close(&session->sockets);
    weir_machine_release(&session->machine_begin);
    weir_machine_release(&session->machine_end);
    free(session->queues);
    free(session->ways);
    if (rc)
        weir_profile_free(session->profile);
    else
        *profile = session->profile;
    free(session);
    return rc;
}
