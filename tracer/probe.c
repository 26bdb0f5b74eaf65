/*
 * DESIGN. Two multi links on the target's executable, both with its PID. The first listens (thread_start, items_flush); the second
 * holds points that are never executed, only for their semaphores: while it lives the server stamps. They are two so that a detach
 * can stop the stamping first and still receive what was stamped.
 *
 * The links go through /proc/self/fd of the descriptor that was opened at the start: the file that really runs, and it needs
 * fewer capabilities than /proc/PID/exe.
 *
 * Many mistakes attach without an error (a wrong semaphore, an unprobeable site), so the breakpoint byte and the semaphore of each
 * point are read back.
 */
#include "tracer/probe.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/histogram_bucket.h"
#include "tracer/capabilities.h"
#include <weir.skel.h>

#define ATTACH_UPROBE_MULTI 48 /* BPF_TRACE_UPROBE_MULTI: newer than Debian 12's header */
#define BREAKPOINT 0xcc
#define TRIES_MOST 1000
#define STOP_STEPS 40
#define GAP_LEAST_NS 1000000u
#define GAP_MOST_NS 1000000000u

/* The part of union bpf_attr that this link uses, as Linux 6.6 and later lay it out. */
struct link_attr {
    uint32_t program, target;
    uint32_t attach_type, flags;
    uint64_t path, offsets, semaphores, cookies;
    uint32_t count, multi_flags, pid, padding;
};

int weir_probe_link_points(int program, const char *path, const uint64_t *offsets, const uint64_t *semaphores,
                           const uint64_t *cookies, uint32_t count, pid_t pid)
{
    struct link_attr attr = {
        .program = (uint32_t)program, .attach_type = ATTACH_UPROBE_MULTI, .path = (uintptr_t)path, .offsets = (uintptr_t)offsets,
        .semaphores = (uintptr_t)semaphores, .cookies = (uintptr_t)cookies, .count = count, .pid = (uint32_t)pid,
    };
    _Static_assert(sizeof attr == 64, "the layout that the kernel expects");
    int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof attr);
    return fd < 0 ? -errno : fd;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

static int on_sample(void *context, void *data, size_t size)
{
    const struct weir_probe_sink *sink = context;
    sink->sample(sink->context, data, size);
    return 0;
}

static int on_flush(void *context, void *data, size_t size)
{
    struct weir_probe *probe = context;
    probe->drained_bytes += size;
    probe->sink.flush(probe->sink.context, data, size);
    return 0;
}

/* --- load ------------------------------------------------------------------------------------------------------------------- */

static int load(struct weir_probe *probe, const struct weir_target *target, uint32_t period_ns, bool timers)
{
    struct weir_bpf *bpf = weir_bpf__open();
    if (!bpf)
        return -errno;
    const struct weir_contract *contract = &target->contract;
    bpf->rodata->target_threads = contract->threads;
    bpf->rodata->target_logs = contract->logs;
    bpf->rodata->tag_count = contract->tag_count;
    bpf->rodata->queue_count = contract->queue_count;
    bpf->rodata->exact = probe->exact;
    bpf->rodata->has_tag_ticks = contract->features & WEIR_CONTRACT_TAG_TICKS;
    bpf->rodata->has_takes = contract->features & WEIR_CONTRACT_TAKES;
    bpf->rodata->target_text = target->code_segment;
    bpf->rodata->target_code = target->code_text;
    bpf->rodata->target_text_end = target->code_end;
    bpf->rodata->period_ns = period_ns;
    bpf_map__set_max_entries(bpf->maps.off_tags, probe->exact ? WEIR_THREAD_SLOTS * contract->tag_count : 1);
    bpf_map__set_max_entries(bpf->maps.wakeups, contract->queue_count ? contract->queue_count * WEIR_HISTOGRAM_BUCKETS : 1);
    bpf_map__set_max_entries(bpf->maps.wakes, contract->queue_count ? contract->queue_count : 1);
    bpf_map__set_max_entries(bpf->maps.samplers, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    bpf_program__set_expected_attach_type(bpf->progs.on_point, (enum bpf_attach_type)ATTACH_UPROBE_MULTI);
    bpf_program__set_flags(bpf->progs.on_point, BPF_F_SLEEPABLE);
    bpf_program__set_autoload(timers ? bpf->progs.on_perf : bpf->progs.start_samplers, false);
    if (!timers)
        bpf_map__set_autocreate(bpf->maps.samplers, false);
    int rc = weir_bpf__load(bpf);
    if (rc) {
        weir_bpf__destroy(bpf);
        return rc;
    }
    probe->bpf = bpf;
    return 0;
}

static void *map_memory(struct bpf_map *map, size_t *size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *size = (bpf_map__max_entries(map) * (size_t)bpf_map__value_size(map) + page - 1) & ~(page - 1);
    void *memory = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
    return memory == MAP_FAILED ? NULL : memory;
}

int weir_probe_open(struct weir_probe *probe, const struct weir_target *target, const struct weir_probe_options *options,
                    const struct weir_probe_sink *sink, struct weir_error *error)
{
    *probe = (struct weir_probe){ .listen_link = -1,
                                  .ask_link = -1,
                                  .exact = options->exact,
                                  .tag_count = target->contract.tag_count,
                                  .queue_count = target->contract.queue_count,
                                  .sink = *sink };
    probe->sampler.period_ns = options->period_ns;
    int rc = weir_capabilities_check(error);
    if (rc)
        return rc;
    libbpf_print_fn_t printer = libbpf_set_print(quiet);
    rc = options->perf_events ? -ENOTSUP : load(probe, target, options->period_ns, true);
    if (rc && rc != -EPERM)
        rc = load(probe, target, options->period_ns, false);
    libbpf_set_print(printer);
    if (rc) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, -rc,
                            "the kernel refuses weir's probes (%s); `weir doctor` says what is missing", strerror(-rc));
        goto out;
    }
    probe->threads = map_memory(probe->bpf->maps.threads, &probe->threads_size);
    probe->places = map_memory(probe->bpf->maps.places, &probe->places_size);
    probe->wakes = map_memory(probe->bpf->maps.wakes, &probe->wakes_size);
    probe->off_tags = map_memory(probe->bpf->maps.off_tags, &probe->off_tags_size);
    probe->wakeups = map_memory(probe->bpf->maps.wakeups, &probe->wakeups_size);
    probe->rings = ring_buffer__new(bpf_map__fd(probe->bpf->maps.samples), on_sample, &probe->sink, NULL);
    if (!probe->threads || !probe->places || !probe->wakes || !probe->off_tags || !probe->wakeups || !probe->rings ||
        ring_buffer__add(probe->rings, bpf_map__fd(probe->bpf->maps.items), on_flush, probe) != 0) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "can't map the probes' memory");
        goto out;
    }
    rc = 0;
out:
    if (rc)
        weir_probe_close(probe);
    return rc;
}

/* The part of union bpf_iter_link_info that asks for one process, as Linux 6.1 and later lay it out. */
struct iter_task {
    uint32_t tid, pid, pid_fd;
};

int weir_probe_list_threads(struct bpf_program *lister, pid_t pid, struct weir_probe_listed *threads, size_t limit)
{
    struct iter_task task = { .pid = (uint32_t)pid };
    LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = (union bpf_iter_link_info *)&task, .link_info_len = sizeof task);
    struct bpf_link *link = bpf_program__attach_iter(lister, &options);
    if (!link)
        return -errno;
    int fd = bpf_iter_create(bpf_link__fd(link));
    int rc = fd < 0 ? -errno : 0;
    size_t size = 0;
    while (!rc && size < limit * sizeof *threads) {
        ssize_t got = read(fd, (char *)threads + size, limit * sizeof *threads - size);
        if (got <= 0) {
            rc = got < 0 && errno != EINTR ? -errno : 0;
            if (got == 0)
                break;
        } else {
            size += (size_t)got;
        }
    }
    if (fd >= 0)
        close(fd);
    bpf_link__destroy(link);
    return rc ? rc : (int)(size / sizeof *threads);
}

int weir_probe_threads(struct weir_probe *probe, const struct weir_target *target, struct weir_probe_listed *threads, size_t limit)
{
    int count = weir_probe_list_threads(probe->bpf->progs.list_threads, target->process.pid, threads, limit);
    if (count > 0)
        probe->bpf->bss->target_tgid = threads[0].tgid;
    return count;
}

bool weir_probe_place_thread(struct weir_probe *probe, uint32_t tid, uint32_t slot)
{
    return bpf_map_update_elem(bpf_map__fd(probe->bpf->maps.tids), &tid, &slot, BPF_ANY) == 0;
}

void weir_probe_places_changed(struct weir_probe *probe)
{
    __atomic_fetch_add(&probe->bpf->data->epoch, 1, __ATOMIC_SEQ_CST);
}

void weir_probe_guess_thread(struct weir_probe *probe, uint32_t slot, bool runnable, uint32_t tag, uint32_t wait, uint64_t now_ns)
{
    struct weir_probe_thread *thread = &probe->threads[slot];
    uint32_t kind = wait & 0xff;
    thread->state = runnable ? WEIR_PROBE_RUNNING : WEIR_PROBE_OFF;
    thread->since_ns = now_ns;
    thread->off_tag = tag;
    thread->off_kind = kind < WEIR_WAIT_KINDS ? kind : WEIR_WAIT_NONE;
    thread->off_object = wait >> 8;
    thread->off_place = WEIR_PROBE_NO_PLACE;
}

/* --- attach ----------------------------------------------------------------------------------------------------------------- */

struct points {
    uint64_t offsets[WEIR_TARGET_POINTS], semaphores[WEIR_TARGET_POINTS], cookies[WEIR_TARGET_POINTS];
    uint32_t count;
};

static uint32_t collect(const struct weir_target *target, const char *name, uint64_t cookie, struct points *points)
{
    uint32_t before = points->count;
    for (uint32_t i = 0; i < target->point_count; i++) {
        if (strcmp(target->points[i].name, name) != 0)
            continue;
        points->offsets[points->count] = target->points[i].offset;
        points->semaphores[points->count] = target->points[i].semaphore_offset;
        points->cookies[points->count++] = cookie;
    }
    return points->count - before;
}

static int link_points(struct weir_probe *probe, const struct weir_target *target, const struct points *points, int *link,
                       struct weir_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", target->process.exe_fd);
    int fd = weir_probe_link_points(bpf_program__fd(probe->bpf->progs.on_point), path, points->offsets, points->semaphores,
                                    points->cookies, points->count, target->process.pid);
    if (fd == -ESRCH)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ESRCH, "process %d has exited", (int)target->process.pid);
    if (fd < 0)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -fd, "can't attach to the trace points of process %d (%s): %s",
                              (int)target->process.pid, target->process.name,
                              fd == -524 ? "the instruction there is not probeable" : strerror(-fd));
    *link = fd;
    return 0;
}

/* Sets the warning when a point of `name` does not carry its breakpoint, or its semaphore did not rise. */
static void verify_armed(struct weir_probe *probe, const struct weir_target *target, const char *name)
{
    for (uint32_t i = 0; i < target->point_count; i++) {
        const struct weir_elf_point *point = &target->points[i];
        uint8_t byte = 0;
        uint16_t semaphore = 0;
        if (strcmp(point->name, name) != 0 ||
            weir_process_read(&target->process, point->address + target->bias, &byte, sizeof byte) != 0)
            continue;
        if (byte != BREAKPOINT)
            snprintf(probe->warning, sizeof probe->warning, "trace point %s is not armed: no breakpoint at %#llx", name,
                     (unsigned long long)(point->address + target->bias));
        else if (point->semaphore_address && (weir_process_read(&target->process, point->semaphore_address + target->bias,
                                                                &semaphore, sizeof semaphore) != 0 ||
                                              semaphore == 0))
            snprintf(probe->warning, sizeof probe->warning, "trace point %s is not armed: its semaphore did not rise", name);
    }
}

static int attach_scheduler(struct weir_probe *probe, struct weir_error *error)
{
    struct weir_bpf *bpf = probe->bpf;
    bpf->links.on_switch = bpf_program__attach(bpf->progs.on_switch);
    bpf->links.on_waking = bpf_program__attach(bpf->progs.on_waking);
    if (!bpf->links.on_switch || !bpf->links.on_waking)
        return weir_error_set(error, WEIR_EXIT_CANNOT, errno, "can't attach to the scheduler: %s", strerror(errno));
    return 0;
}

int weir_probe_attach(struct weir_probe *probe, const struct weir_target *target, struct weir_error *error)
{
    struct weir_bpf *bpf = probe->bpf;
    struct points listen = { .count = 0 }, ask = { .count = 0 };
    uint32_t flushes = collect(target, "items_flush", WEIR_POINT_ITEMS_FLUSH, &listen);
    collect(target, "thread_start", WEIR_POINT_THREAD_START, &listen);
    uint32_t on = collect(target, "trace_on", WEIR_POINT_ASK, &ask);
    if (probe->exact)
        on = collect(target, "trace_exact", WEIR_POINT_ASK, &ask) ? on : 0;
    if (!flushes || !on)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOENT,
                              "the executable of process %d lacks the trace points of weir (items_flush, trace_on, trace_exact)",
                              (int)target->process.pid);
    if (!bpf->bss->target_tgid)
        weir_bug("probes are attached before their target's threads were listed");
    int rc = attach_scheduler(probe, error);
    if (!rc)
        rc = bpf_program__autoload(bpf->progs.start_samplers)
                 ? weir_sampler_start_timers(&probe->sampler, bpf_program__fd(bpf->progs.start_samplers),
                                             probe->sampler.period_ns, error)
                 : weir_sampler_start_events(&probe->sampler, bpf_program__fd(bpf->progs.on_perf), probe->sampler.period_ns,
                                             error);
    if (!rc)
        rc = link_points(probe, target, &listen, &probe->listen_link, error);
    if (!rc)
        rc = link_points(probe, target, &ask, &probe->ask_link, error);
    if (rc) {
        weir_probe_detach(probe);
        return rc;
    }
    if (probe->sampler.cpus_left_out)
        snprintf(probe->warning, sizeof probe->warning, "%u CPUs are not sampled: this process may not run there",
                 probe->sampler.cpus_left_out);
    verify_armed(probe, target, "items_flush");
    verify_armed(probe, target, "thread_start");
    verify_armed(probe, target, "trace_on");
    if (probe->exact)
        verify_armed(probe, target, "trace_exact");
    return 0;
}

static void close_link(int *link)
{
    if (*link >= 0)
        close(*link);
    *link = -1;
}

/* Closing a link waits for the kernel's grace periods, 20 to 60 ms, although the breakpoints and the semaphores are gone at its
 * beginning. So it is done aside; the semaphore tells when the target has stopped stamping. */
static void *close_aside(void *link)
{
    close_link(link);
    return NULL;
}

static bool still_asks(const struct weir_target *target)
{
    for (uint32_t i = 0; i < target->point_count; i++) {
        const struct weir_elf_point *point = &target->points[i];
        uint16_t semaphore = 0;
        if (strncmp(point->name, "trace_", 6) == 0 && point->semaphore_address &&
            weir_process_read(&target->process, point->semaphore_address + target->bias, &semaphore, sizeof semaphore) == 0 && semaphore)
            return true;
    }
    return false;
}

void weir_probe_stop_asking(struct weir_probe *probe, const struct weir_target *target)
{
    if (probe->ask_link < 0)
        return;
    probe->closing = pthread_create(&probe->closer, NULL, close_aside, &probe->ask_link) == 0;
    if (!probe->closing)
        close_link(&probe->ask_link);
    /* Another tracer may go on asking, so this has an end. */
    const struct timespec step = { 0, 500000 };
    for (int i = 0; i < STOP_STEPS && still_asks(target); i++)
        nanosleep(&step, NULL);
}

void weir_probe_detach(struct weir_probe *probe)
{
    close_link(&probe->listen_link);
    if (probe->closing)
        pthread_join(probe->closer, NULL);
    probe->closing = false;
    close_link(&probe->ask_link);
    if (!probe->bpf)
        return;
    __atomic_store_n(&probe->bpf->bss->stopping, 1, __ATOMIC_RELAXED);
    weir_sampler_stop(&probe->sampler);
    weir_bpf__detach(probe->bpf);
}

void weir_probe_close(struct weir_probe *probe)
{
    weir_probe_detach(probe);
    ring_buffer__free(probe->rings);
    const struct {
        void *memory;
        size_t size;
    } mapped[] = { { probe->threads, probe->threads_size },   { probe->places, probe->places_size },
                   { probe->wakes, probe->wakes_size },       { probe->off_tags, probe->off_tags_size },
                   { probe->wakeups, probe->wakeups_size } };
    for (size_t i = 0; i < sizeof mapped / sizeof *mapped; i++)
        if (mapped[i].memory)
            munmap(mapped[i].memory, mapped[i].size);
    weir_bpf__destroy(probe->bpf);
    *probe = (struct weir_probe){ .listen_link = -1, .ask_link = -1 };
}

/* --- read ------------------------------------------------------------------------------------------------------------------- */

void weir_probe_drain(struct weir_probe *probe)
{
    probe->drained_bytes = 0;
    ring_buffer__consume(probe->rings);
    double part = (double)probe->drained_bytes / WEIR_PROBE_ITEMS_BYTES;
    uint64_t now_ns = weir_clock_ns(), gap_ns = now_ns - probe->drained_ns;
    probe->drained_ns = now_ns;
    probe->drain_gap_ns =
        part > 0 && (double)gap_ns / part / 4 < GAP_MOST_NS ? (uint64_t)((double)gap_ns / part / 4) : GAP_MOST_NS;
    if (probe->drain_gap_ns < GAP_LEAST_NS)
        probe->drain_gap_ns = GAP_LEAST_NS;
}

void weir_probe_tick(struct weir_probe *probe, uint64_t now_ns)
{
    weir_sampler_tick(&probe->sampler, now_ns);
}

void weir_probe_read_thread(const struct weir_probe *probe, uint32_t slot, struct weir_probe_thread *thread,
                            struct weir_probe_places *places)
{
    const struct weir_probe_thread *source = &probe->threads[slot];
    for (int tries = 0; tries < TRIES_MOST; tries++) {
        uint32_t before = __atomic_load_n(&source->sequence, __ATOMIC_ACQUIRE);
        memcpy(thread, source, sizeof *thread);
        if (places)
            memcpy(places, &probe->places[slot], sizeof *places);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!(before & 1) && __atomic_load_n(&source->sequence, __ATOMIC_RELAXED) == before)
            return;
    }
}

const uint64_t *weir_probe_off_tags(const struct weir_probe *probe, uint32_t slot)
{
    return probe->exact ? probe->off_tags + (size_t)slot * probe->tag_count : NULL;
}

const uint64_t *weir_probe_wakeups(const struct weir_probe *probe, uint32_t queue)
{
    return probe->wakeups + (size_t)queue * WEIR_HISTOGRAM_BUCKETS;
}

struct weir_probe_wakes weir_probe_wakes(const struct weir_probe *probe, uint32_t queue)
{
    return probe->wakes[queue];
}

struct weir_probe_counts weir_probe_counts(const struct weir_probe *probe)
{
    return probe->bpf->bss->counts;
}
