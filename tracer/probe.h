/*
 * probe: the BPF programs in the kernel, loaded for one target and attached to it.
 * It stands between the kernel and the session: the session attaches, drains and reads through it, and nothing else touches a map.
 *
 * Units: ns of CLOCK_MONOTONIC.
 * Owns: programs, maps and links, until weir_probe_close(). When the tracer dies the kernel takes all of them away.
 * Threads: owner only; a detach uses one more for a moment.
 * Errors: WEIR_EXIT_CANNOT and a sentence that names the capability or feature that is missing.
 */
#ifndef WEIR_TRACER_PROBE_H
#define WEIR_TRACER_PROBE_H

#include <pthread.h>
#include <stdbool.h>

#include "probes/probe.h"
#include "tracer/sampler.h"
#include "tracer/target.h"

struct weir_bpf;
struct ring_buffer;

/* What the ring buffers bring, called from weir_probe_drain(). `size` is what the kernel handed over. */
struct weir_probe_sink {
    void (*sample)(void *context, const struct weir_probe_sample *sample, size_t size);
    void (*flush)(void *context, const struct weir_probe_flush *flush, size_t size);
    void *context;
};

struct weir_probe {
    struct weir_bpf *bpf;
    struct weir_sampler sampler;
    struct weir_probe_sink sink;
    struct ring_buffer *rings;
    int listen_link, ask_link;         /* thread_start and items_flush; trace_on and trace_exact; -1: none */
    pthread_t closer;                  /* closes ask_link */
    bool closing;
    struct weir_probe_thread *threads; /* the maps, mapped */
    struct weir_probe_places *places;
    struct weir_probe_wakes *wakes;
    uint64_t *off_tags, *wakeups;
    size_t threads_size, places_size, wakes_size, off_tags_size, wakeups_size;
    uint32_t tag_count, queue_count;
    bool exact;
    size_t drained_bytes;              /* of item logs, by the last drain */
    uint64_t drained_ns, drain_gap_ns; /* when that was; after how long a quarter of the buffer fills at this rate */
    char warning[256];                 /* "" or what could not be verified after the attach */
};

struct weir_probe_options {
    bool exact;
    bool perf_events;   /* sample by these even where BPF timers work */
    uint32_t period_ns; /* mean, of one CPU's sampler */
};

/* Loads everything for `target`; nothing is attached yet. */
int weir_probe_open(struct weir_probe *probe, const struct weir_target *target, const struct weir_probe_options *options,
                    const struct weir_probe_sink *sink, struct weir_error *error);
/* Lists the target's threads, up to `limit`, and tells the probes which process it is: must come before the attach. Returns how
 * many, or -errno. */
int weir_probe_threads(struct weir_probe *probe, const struct weir_target *target, struct weir_probe_listed *threads, size_t limit);
/* Says which slot a thread has, by its `tid` from that list; before the attach also what it does just now. False: no room. */
bool weir_probe_place_thread(struct weir_probe *probe, uint32_t tid, uint32_t slot);
void weir_probe_guess_thread(struct weir_probe *probe, uint32_t slot, bool runnable, uint32_t tag, uint32_t wait,
                             uint64_t now_ns);
/* Call after a round of weir_probe_place_thread(): every thread looks itself up again. */
void weir_probe_places_changed(struct weir_probe *probe);

int weir_probe_attach(struct weir_probe *probe, const struct weir_target *target, struct weir_error *error);
/* Takes away the points that ask for stamping, and waits until the target knows (20 ms at most). */
void weir_probe_stop_asking(struct weir_probe *probe, const struct weir_target *target);
/* Takes away all the rest; what is in the buffers stays. */
void weir_probe_detach(struct weir_probe *probe);
void weir_probe_close(struct weir_probe *probe);

/* Hands everything in the ring buffers to the sink. Call it again within probe->drain_gap_ns. */
void weir_probe_drain(struct weir_probe *probe);
void weir_probe_tick(struct weir_probe *probe, uint64_t now_ns);

/* A consistent copy of one slot's accounting; `places` may be null. */
void weir_probe_read_thread(const struct weir_probe *probe, uint32_t slot, struct weir_probe_thread *thread,
                            struct weir_probe_places *places);
/* Off-CPU ns of a slot, [tag_count]; only what had ended by now. */
const uint64_t *weir_probe_off_tags(const struct weir_probe *probe, uint32_t slot);
/* Wakeup delays of a queue, [WEIR_HISTOGRAM_BUCKETS]. */
const uint64_t *weir_probe_wakeups(const struct weir_probe *probe, uint32_t queue);
struct weir_probe_wakes weir_probe_wakes(const struct weir_probe *probe, uint32_t queue);
struct weir_probe_counts weir_probe_counts(const struct weir_probe *probe);

/* The same for any process, with the program list_threads of a loaded object. */
struct bpf_program;
int weir_probe_list_threads(struct bpf_program *lister, pid_t pid, struct weir_probe_listed *threads, size_t limit);

/* BPF_LINK_CREATE with an uprobe multi link, which Debian 12's libbpf can't ask for. Returns a descriptor or -errno. */
int weir_probe_link_points(int program, const char *path, const uint64_t *offsets, const uint64_t *semaphores,
                           const uint64_t *cookies, uint32_t count, pid_t pid);

#endif
