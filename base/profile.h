/*
 * profile: what was measured on one topology in one window, before anybody judges or draws it.
 * The tracer's aggregate makes it; every view, the verdict and the check read it.
 *
 * Units: ns of CLOCK_MONOTONIC, bytes, items; shares are 0 to 1.
 * Owns: everything it points to, through its arena.
 * Threads: any (read only, once made).
 * Errors: reading rejects what is not a profile, is cut short, or has counts that don't fit its topology.
 */
#ifndef WEIR_BASE_PROFILE_H
#define WEIR_BASE_PROFILE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/histogram.h"
#include "base/topology.h"

#define WEIR_PROFILE_VERSION 1u
#define WEIR_PROFILE_SLICE_NS 100000000ull

/* COUNTERS: nothing was measured; it holds what the server counted since it started. */
enum weir_mode { WEIR_MODE_LIGHT, WEIR_MODE_EXACT, WEIR_MODE_COUNTERS };
const char *weir_mode_name(enum weir_mode mode); /* "light", … */
enum weir_target_kind { WEIR_TARGET_BUILT, WEIR_TARGET_BOUND, WEIR_TARGET_MARKED };

/* What a thread did; the order of the columns in reports. */
enum weir_state {
    WEIR_STATE_RUNNING, WEIR_STATE_RUNNABLE, WEIR_STATE_IDLE, WEIR_STATE_BACKPRESSURED, WEIR_STATE_STARVED,
    WEIR_STATE_IO, WEIR_STATE_LOCK, WEIR_STATE_OTHER, WEIR_STATE_COUNT
};
const char *weir_state_name(enum weir_state state);

/* What a counter grew by. A target's counters are only said to grow: one that fell gives 0. */
static inline uint64_t weir_profile_grown(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

struct weir_profile_hot {
    const char *symbol;
    uint64_t samples;
    double share; /* of all CPU time of the process in the window */
};

/* A row of the stage table: "(runtime)", "(tracing)", "(outside)", a stage, a part of one, or a stage for one way in. Parts follow
 * their stage. Rows whose part_of is WEIR_NONE sum to the process's CPU time. */
struct weir_profile_row {
    const char *name;    /* "riemann.handoff", "riemann.handoff.size", "(runtime)" */
    uint32_t part_of;    /* row index, or WEIR_NONE */
    uint32_t stage;      /* topology index, or WEIR_NONE for the rows in parentheses */
    enum weir_part part;
    uint32_t way;        /* WEIR_NONE: all of them */
    uint32_t pool;       /* WEIR_NONE: none or several */
    double cpu_ns;       /* on-CPU time whose innermost stage this is */
    double share;        /* cpu_ns / the window's cpu_ns; 0 when that is 0 */
    double share_low, share_high; /* 95 % interval of this window's realised share */
    uint64_t samples;    /* CPU samples behind it (light) */
    uint64_t items;      /* that entered in the window; from the always-on counters */
    uint64_t events;     /* in those items; 0 where unknown */
    uint64_t stamped;    /* items that passed by the item log, weighted. Exact mode: equal to `items` */
    uint64_t own_cpu_ns; /* what the stage measured itself in the window (`busy`); 0: it doesn't */
    struct weir_histogram *service; /* wall time in the stage of an item, ns; null where not measured */
    struct weir_profile_hot *hot;   /* most samples first */
    uint32_t hot_count;
};

/* The counters of a queue since the server started, at one moment. in = out + dropped + rejected + queued. */
struct weir_profile_queue_count {
    uint64_t in, out, dropped, rejected, queued, queued_bytes, parked, in_bytes;
};

struct weir_profile_queue {
    struct weir_profile_queue_count begin, end; /* at the window's ends */
    struct weir_histogram depth_items, depth_bytes; /* weighted by time, ns */
    double depth_items_mean, depth_bytes_mean; /* time averages; exact mode: sum of waits / time for items */
    struct weir_histogram wait;   /* push to pop, ns */
    struct weir_histogram wakeup; /* waking to running of a thread that slept on this queue, ns */
    uint64_t unstamped;           /* items that passed without a stamp, pushed before the attach */
    uint64_t wakeups;             /* of threads that slept on this queue; of a pool that takes from several, by what each gave */
    uint64_t wakeups_unused;      /* of those: found it empty and slept again */
    uint64_t wakeups_moved;       /* of those: ran on another CPU than the waker's */
};

/* The counters of a pool of slots (`forward`, `store`) since the server started, at one moment.
 * taken = finished + failed + lost + in_use. */
struct weir_profile_slot_count {
    uint64_t taken, finished, failed, lost; /* failed: answered with an error; lost: with its connection, reported */
    uint64_t retried;                       /* sent again after a lost connection; counts in `taken` once */
    uint64_t in_use, open, reconnects;      /* open: connections that are up now */
    uint64_t waits, waited_ns, full_ns;     /* a worker found all slots taken; for how long; time at capacity */
    uint64_t unfilled;                      /* slots of connections that are down */
    uint64_t alone_ns; /* the shortest time of a request that had its connection to itself; 0: there was none yet. No sum */
};

struct weir_profile_slots {
    uint32_t stage;                 /* topology index; capacity is its connections x in_flight */
    struct weir_profile_slot_count begin, end;
    struct weir_histogram in_use;   /* weighted by time, ns */
    double in_use_mean, open_mean;  /* time averages */
    struct weir_histogram wait;     /* of a worker for a slot, ns; only of those that had to wait */
    struct weir_histogram service;  /* slot taken to completion, ns */
};

/* accepted = answered + abandoned + discarded + in_flight, at each moment. */
struct weir_profile_way_count {
    uint64_t accepted, answered, abandoned, discarded, in_flight, accepted_bytes, malformed, bad_lengths, connections, opened, events;
    uint64_t overlapped; /* accepted while an earlier request of the same connection was not answered yet */
    uint64_t truncated;  /* datagrams larger than the limit */
    uint64_t kernel_drops; /* datagrams that the kernel dropped at the full socket */
    uint64_t refused;      /* connections and datagrams whose sender may not come */
    uint64_t failed_handshakes; /* of TLS */
};

struct weir_profile_way {
    struct weir_profile_way_count begin, end;
    /* Per connection, at random moments; weighted by connections. Empty where nobody could look. */
    struct weir_histogram in_flight;     /* requests outstanding on one connection */
    struct weir_histogram receive_bytes; /* in the kernel's receive queue of one connection */
    struct weir_histogram send_bytes;    /* in its send queue */
    struct weir_histogram backlog;       /* connections that wait to be accepted; weighted by looks */
    uint64_t backlog_limit;
    struct weir_histogram round_trip;    /* the least that the kernel saw of a connection to the client, ns; of TCP */
};

/* What flows from a stage to the next one of its pipeline, in the window; or, of a stage that gave items up, to the pipeline's reply.
 * Bytes and events are 0 where nobody knows them. */
struct weir_profile_edge {
    uint32_t from, to; /* topology stages */
    uint64_t items, bytes, events;
};

struct weir_profile_pool {
    uint32_t threads;                    /* seen */
    double state_ns[WEIR_STATE_COUNT];   /* sums to threads x window */
};

/* One pool thread. Its states sum to the time in the window during which it was there. */
struct weir_profile_thread {
    uint32_t tid, pool;
    double state_ns[WEIR_STATE_COUNT];
    uint64_t switches, preempted; /* times it left a CPU; of those: while it could have run on */
};

/* Time that the threads of a pool were off CPU in one place for one reason. The sums over `state` are those of the pool. */
struct weir_profile_sleep {
    uint32_t pool;
    uint32_t row;            /* where: the innermost row that has a thread's tag */
    enum weir_state state;   /* never RUNNING */
    uint32_t queue;          /* idle, backpressured, lock: whose; else WEIR_NONE */
    uint32_t slots;          /* starved: index in `slots`; else WEIR_NONE */
    const char *site;        /* lock, io, other: the function that slept, outside of the C library; null: unknown */
    double ns;
    uint64_t count;
};

/* Another process that used the machine's CPUs in the window. */
struct weir_profile_neighbour {
    uint32_t pid;
    const char *name;
    double cpu_ns;
};

/* One stack that CPU samples showed. Frames are indexes in `symbols`, innermost first. */
struct weir_profile_stack {
    uint32_t row;
    uint64_t samples;
    uint32_t *frames;
    uint32_t frame_count;
};

/* 100 ms of the window, the last one shorter. */
struct weir_profile_slice {
    uint64_t start_ns, duration_ns; /* start counts from the window's */
    double *row_cpu_ns;             /* [row_count] */
    uint64_t *row_samples;          /* [row_count] */
    uint64_t *row_items;            /* [row_count] */
    struct weir_profile_queue_count *queues; /* [queue_count], cumulative, at its end */
};

struct weir_profile {
    struct weir_arena arena;
    struct weir_topology topology;
    /* target and machine */
    uint32_t pid;
    const char *exe;
    enum weir_target_kind kind;
    const char *kernel; /* "6.18.44" */
    uint32_t cpus;
    /* window */
    enum weir_mode mode;
    uint64_t start_unix_ns;
    uint64_t duration_ns;
    uint64_t cpu_ns;     /* of the whole process in the window */
    double machine_busy_ns; /* of all CPUs that the target may use: not idle, this process included; 0: unknown */
    double machine_steal_ns; /* taken by the hypervisor */
    const char *ended_by; /* "duration", "signal", "target exit" */
    uint64_t sample_period_ns; /* mean, of one CPU's sampler; 0: none */
    /* losses */
    uint64_t samples_kept, samples_lost;
    uint64_t records_kept, records_lost;
    uint64_t threads_lost; /* threads without a slot */
    /* measurements */
    struct weir_profile_row *rows;
    struct weir_profile_queue *queues; /* one for each of the topology's */
    struct weir_profile_way *ways;
    struct weir_profile_edge *edges;
    struct weir_profile_pool *pools;
    struct weir_profile_slots *slots; /* one for each stage that has some, in the order of the stages */
    struct weir_profile_thread *threads;
    struct weir_profile_sleep *sleeps;
    struct weir_profile_neighbour *neighbours; /* most CPU first, a few */
    struct weir_profile_stack *stacks;
    const char **symbols;
    struct weir_profile_slice *slices;
    uint32_t row_count, edge_count, stack_count, symbol_count, slice_count;
    uint32_t slots_count, thread_count, sleep_count, neighbour_count;
    /* overhead */
    double tracer_cpu_share;       /* of one CPU */
    double target_probe_cpu_share; /* row "(tracing)" */
    double probe_hits_per_s;
    double probe_floor_ns;         /* calibrated cost of an empty stamp: service times below read "<= floor" */
    /* what is wrong with it: sums, states, conservation */
    const char **violations;
    uint32_t violation_count;
};

struct weir_profile *weir_profile_new(void);
void weir_profile_free(struct weir_profile *profile);

/* Is anything lost or violated, so that a gate must not trust it? */
bool weir_profile_lossy(const struct weir_profile *profile);

/* Fills `violations` (shares, states, conservation of queues, of slots and of ways in). */
void weir_profile_verify(struct weir_profile *profile);

/* The file format (base/profile.proto, after 8 bytes of magic "weirprof"). */
int weir_profile_write(const struct weir_profile *profile, struct weir_buffer *out, struct weir_error *error);
int weir_profile_read(struct weir_profile *profile, const void *data, size_t size, struct weir_error *error);
int weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error);
int weir_profile_load(struct weir_profile *profile, const char *path, struct weir_error *error);

/* The topology alone, as the contract carries it (message Topology of base/profile.proto). Reading checks every index. */
int weir_topology_write(const struct weir_topology *topology, struct weir_buffer *out, struct weir_error *error);
int weir_topology_read(struct weir_topology *topology, struct weir_arena *arena, const void *data, size_t size, struct weir_error *error);

#endif
