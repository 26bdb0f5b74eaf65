/*
 * probe: what the BPF programs and the tracer's user space say to each other.
 * It stands between probes/weir.bpf.c, which fills these, and tracer/probe.c, which reads them.
 *
 * Units: ns of CLOCK_MONOTONIC.
 * Owns: nothing; everything lies in BPF maps.
 * Threads: a weir_probe_thread is written by the CPU that switches its thread, one at a time; user space reads it as a seqlock.
 * Errors: what could not be handed over is counted in weir_probe_counts, never silently dropped.
 */
#ifndef WEIR_PROBES_PROBE_H
#define WEIR_PROBES_PROBE_H

#include "probes/contract.h"

#define WEIR_PROBE_OUTSIDE WEIR_THREAD_SLOTS /* the "slot" of threads of the process that have none */
#define WEIR_PROBE_FRAMES 32

/* The ring buffer of item logs. In light mode, too: right after an attach nothing is thinned yet, another tracer may be asking for
 * every item, and where CPUs are scarce this one may not run for a tenth of a second. That is 130,000 records. */
#define WEIR_PROBE_ITEMS_BYTES (16u << 20)

/* Cookies of the probed points. */
enum weir_probe_point { WEIR_POINT_THREAD_START = 1, WEIR_POINT_ITEMS_FLUSH, WEIR_POINT_ASK };

enum weir_probe_state { WEIR_PROBE_UNKNOWN, WEIR_PROBE_RUNNING, WEIR_PROBE_OFF, WEIR_PROBE_EXITED };

/* What an off-CPU thread waits for: enum weir_wait, or that it could run. */
#define WEIR_PROBE_RUNNABLE WEIR_WAIT_KINDS
#define WEIR_PROBE_OFF_KINDS (WEIR_WAIT_KINDS + 1)

/* Different places (tag, wait word, call site) that are kept apart for each thread. */
#define WEIR_PROBE_PLACES 64u
#define WEIR_PROBE_NO_PLACE WEIR_PROBE_PLACES

/* Where and why a thread was off a CPU. Part of its slot's accounting: written and read under its sequence. */
struct weir_probe_place {
    weir_u32 tag;
    weir_u32 wait;        /* kind | object << 8 as in the thread's word; the kind may be WEIR_PROBE_RUNNABLE */
    weir_u64 site;        /* in the executable: where the C library's call that slept returns to; 0: not looked for, or not found */
    weir_u64 ns;          /* until it was woken */
    weir_u64 runnable_ns; /* from then until it ran; of the kind RUNNABLE: all of it */
    weir_u64 count;       /* 0: the place is free */
};
struct weir_probe_places {
    struct weir_probe_place list[WEIR_PROBE_PLACES];
};

/* How the threads that slept on one queue were woken. */
struct weir_probe_wakes {
    weir_u64 wakeups;
    weir_u64 unused; /* took nothing from any queue before they slept again */
    weir_u64 moved;  /* ran on another CPU than the waker's */
};

/* One thread slot's accounting. The sums hold what had ended at `since_ns`; since then the thread is in `state`. */
struct weir_probe_thread {
    weir_u32 sequence; /* odd while being written */
    weir_u32 state;    /* enum weir_probe_state */
    weir_u32 exec_known; /* 0: exec_ns was never read */
    weir_u32 off_kind;
    weir_u32 off_object;
    weir_u32 off_tag;
    weir_u64 since_ns;
    weir_u64 waking_ns; /* latest wakeup while off; written by the waker's CPU */
    weir_u64 exec_ns;   /* the kernel's sum_exec_runtime when it was last read */
    weir_u64 on_cpu_ns;
    weir_u64 off_ns[WEIR_PROBE_OFF_KINDS];
    weir_u64 switches;  /* that took it off a CPU */
    weir_u64 preempted; /* of those: it could have run on */
    weir_u64 off_counts; /* the sleep counts in off_tags: the server counts its ticks there, too */
    weir_u64 off_site;
    weir_u32 off_place;  /* where the last sleep was counted, or WEIR_PROBE_NO_PLACE */
    weir_u32 waking_cpu; /* the waker's */
    weir_u32 takes;      /* the server's count, when it last slept on a queue */
    weir_u32 woken_by;   /* the queue that it slept on last, plus one, until it sleeps again; 0: none */
    weir_u64 run_since_ns, run_exec_ns; /* when it came onto the CPU last, and the kernel's sum then; 0: not seen */
    weir_u64 padding[1];
};

/* One thread of the target. */
struct weir_probe_listed {
    weir_u32 tid, tgid; /* as the kernel has them */
    weir_u32 inner_tid; /* as the thread itself has it */
    weir_u32 runnable;  /* it runs or could run */
};

/* One CPU sample. */
struct weir_probe_sample {
    weir_u32 slot; /* or WEIR_PROBE_OUTSIDE */
    weir_u32 tag;
    weir_u64 time_ns;
    weir_u32 frame_count;
    weir_u32 reserved;
    weir_u64 frames[WEIR_PROBE_FRAMES]; /* user addresses, innermost first */
};

/* One hand-over of a thread's item log: its header and the first `count` records, as they lie in the target. */
struct weir_probe_flush {
    weir_u32 slot;
    weir_u32 generation;
    weir_u32 count;
    weir_u32 reserved;
    struct weir_contract_log log; /* cut short behind the last record handed over */
};

/* Counted since the programs were loaded. */
struct weir_probe_counts {
    weir_u64 samples_lost;    /* no room in the ring buffer */
    weir_u64 flushes;
    weir_u64 records_lost;    /* no room, or not readable */
    weir_u64 fires;           /* of the sampler, on all CPUs */
    weir_u64 reads_failed;    /* a thread's tag was not readable */
    weir_u64 hostile;         /* arguments that the contract does not allow */
    weir_u64 thread_starts;
    weir_u64 threads_lost;    /* no room to note which slot a thread has */
};

#endif
