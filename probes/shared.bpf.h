/*
 * shared: what all BPF programs of weir stand on: the kernel's types, the settings, the maps of threads, and how a thread is found.
 * Each of the object's parts includes it; the maps of one part alone lie there.
 *
 * Units: ns of CLOCK_MONOTONIC.
 * Owns: the maps that it declares, for the object's life.
 * Threads: a thread's accounting is written by the CPU that switches it; settings are written by user space, before load or attach.
 * Errors: none; a thread that nobody placed has the slot WEIR_PROBE_OUTSIDE.
 */
#ifndef WEIR_PROBES_SHARED_BPF_H
#define WEIR_PROBES_SHARED_BPF_H

#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>

#ifndef __TARGET_ARCH_x86
#define __TARGET_ARCH_x86
#endif
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "base/histogram_bucket.h"
#include "probes/contract.h"
#include "probes/probe.h"

/* Just the fields we read; the loader finds their places in the running kernel. */
struct sched_entity {
    weir_u64 sum_exec_runtime;
} __attribute__((preserve_access_index));
struct upid {
    int nr;
} __attribute__((preserve_access_index));
struct pid {
    unsigned int level;
    struct upid numbers[1];
} __attribute__((preserve_access_index));
struct task_struct {
    unsigned int __state;
    int pid;
    int tgid;
    struct pid *thread_pid;
    struct sched_entity se;
} __attribute__((preserve_access_index));

/* Set before load. */
const volatile weir_u64 target_threads = 0; /* address of the contract's thread table */
const volatile weir_u64 target_logs = 0;
const volatile weir_u32 tag_count = 0;
const volatile weir_u32 queue_count = 0;
const volatile bool exact = false;
const volatile bool has_tag_ticks = false; /* the server says since when it counts a thread's ticks */
const volatile bool has_takes = false;     /* it counts what its threads take from queues */
/* The code of the executable itself; calls into the C library go through what lies before `target_code`. */
const volatile weir_u64 target_text = 0, target_code = 0, target_text_end = 0;
const volatile weir_u32 period_ns = 3000000; /* mean of one CPU's sampler */

weir_u32 target_tgid = 0; /* set before attach, once list_threads has told it */
weir_u32 epoch = 1; /* of `tids`: a change makes every thread look itself up again */
weir_u32 stopping = 0;
struct weir_probe_counts counts = {};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, WEIR_THREAD_SLOTS);
    __type(key, weir_u32);
    __type(value, struct weir_probe_thread);
} threads SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, weir_u32);   /* thread id as the kernel has it */
    __type(value, weir_u32); /* slot */
} tids SEC(".maps");

struct known {
    weir_u32 epoch;
    weir_u32 slot;
};
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct known);
} known SEC(".maps");

/* Address of a field of a slot, in the target. */
#define in_target(slot, field) \
    (target_threads + (slot) * sizeof(struct weir_contract_thread) + __builtin_offsetof(struct weir_contract_thread, field))

#define count(field) __sync_fetch_and_add(&counts.field, 1)

static __always_inline weir_u32 slot_of(struct task_struct *task)
{
    weir_u32 now = *(volatile weir_u32 *)&epoch;
    struct known *place = bpf_task_storage_get(&known, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (place && place->epoch == now)
        return place->slot;
    weir_u32 tid = task->pid;
    weir_u32 *found = bpf_map_lookup_elem(&tids, &tid);
    weir_u32 slot = found && *found < WEIR_THREAD_SLOTS ? *found : WEIR_PROBE_OUTSIDE;
    if (place) {
        place->slot = slot;
        place->epoch = now;
    }
    return slot;
}

/* Atomic adds are the only full barriers that BPF offers. */
static __always_inline void write_begin(struct weir_probe_thread *thread) { __sync_fetch_and_add(&thread->sequence, 1); }
static __always_inline void write_end(struct weir_probe_thread *thread) { __sync_fetch_and_add(&thread->sequence, 1); }

#endif
