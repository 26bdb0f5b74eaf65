/*
 * DESIGN. All probes of weir in one object, since the kernel's types are read once an object (10 to 18 ms).
 *
 *   on_switch, on_waking  where each thread's time goes. On-CPU time is the kernel's own sum_exec_runtime, so that what the
 *                         hypervisor steals does not count. A thread's tag and wait word can only be read while it is the
 *                         current one, so they are read when it leaves the CPU and kept until it comes back.
 *   start_samplers        starts one timer a CPU; its callback samples the interrupted thread and arms itself again after a
 *                         random delay. A fixed rate would lock in phase with periodic work.
 *   on_perf               the same sample from a perf event, for kernels that refuse timers.
 *   list_threads          the target's threads, by all their names: the kernel's thread ids, which the programs see, are not those
 *                         of /proc where the tracer or the target lives in a container.
 *   on_point              the target's own points: a thread took a slot; an item log is handed over.
 *
 * The item log is copied whole into the ring buffer and taken apart in user space. Aggregating in the program costs the target
 * about 62 ns a record in its own time; a copy of 64 records costs a quarter of a microsecond.
 *
 * Programs decide nothing that user space can decide, and whatever they can't hand over they count.
 */
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

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TIMER_PINNED 2 /* BPF_F_TIMER_CPU_PIN: newer than Debian 12's header */
#define CLOCK_MONOTONIC 1
#define TASK_DEAD 0x80
#define STALE_WAKEUP_NS 1000000
#define REFRESH_NS 20000000
#define NO_SLOT 0xffffffffu /* the index of a thread that found all slots taken */

/* How well the kernel's sum at `since_ns` is known: of a running thread it is up to a tick old. */
enum { EXEC_UNKNOWN, EXEC_EXACT, EXEC_LAGS };

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
struct seq_file;
struct bpf_iter_meta {
    struct seq_file *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
} __attribute__((preserve_access_index));

/* Set before load. */
const volatile weir_u64 target_threads = 0; /* address of the contract's thread table */
const volatile weir_u64 target_logs = 0;
const volatile weir_u32 tag_count = 0;
const volatile weir_u32 queue_count = 0;
const volatile bool exact = false;
const volatile bool has_tag_ticks = false; /* the server says since when it counts a thread's ticks */
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

struct place {
    weir_u32 epoch;
    weir_u32 slot;
};
struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct place);
} places SEC(".maps");

/* Off-CPU time of [slot][tag], exact mode; resized before load. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, weir_u32);
    __type(value, weir_u64);
} off_tags SEC(".maps");

/* Wakeup delays of [queue][bucket]; resized before load. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, weir_u32);
    __type(value, weir_u64);
} wakeups SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 512 * 1024);
} samples SEC(".maps");

/* Resized before load: the exact mode hands over every item. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1024 * 1024);
} items SEC(".maps");

struct sampler {
    struct bpf_timer timer;
};
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1); /* a CPU each; resized before load */
    __type(key, weir_u32);
    __type(value, struct sampler);
} samplers SEC(".maps");

/* Address of a field of a slot, in the target. */
#define in_target(slot, field) \
    (target_threads + (slot) * sizeof(struct weir_contract_thread) + __builtin_offsetof(struct weir_contract_thread, field))

#define count(field) __sync_fetch_and_add(&counts.field, 1)

static __always_inline weir_u32 slot_of(struct task_struct *task)
{
    weir_u32 now = *(volatile weir_u32 *)&epoch;
    struct place *place = bpf_task_storage_get(&places, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
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

static __always_inline void account_running(struct weir_probe_thread *thread, weir_u64 exec_ns, weir_u64 now)
{
    if (thread->exec_known) {
        if (exec_ns > thread->exec_ns)
            thread->on_cpu_ns += exec_ns - thread->exec_ns;
    } else if (thread->state != WEIR_PROBE_UNKNOWN && now > thread->since_ns) {
        /* It was there before us and has not switched since: the clock is all we have. */
        thread->on_cpu_ns += now - thread->since_ns;
    }
    thread->exec_ns = exec_ns;
    thread->exec_known = EXEC_EXACT;
}

/* A thread's time on a CPU begins a little before the tracepoint that tells us: 1 to 7 us, more when an idle CPU had to wake. What
 * the kernel's sum has beyond the clock was spent on coming back from the last sleep, so it is taken off that. */
static __always_inline void account_coming_back(struct weir_probe_thread *thread, weir_u32 slot, weir_u64 exec_ns, weir_u64 now)
{
    weir_u64 ran = exec_ns - thread->exec_ns, lasted = now - thread->since_ns;
    if (thread->exec_known != EXEC_EXACT || thread->state != WEIR_PROBE_RUNNING || exec_ns < thread->exec_ns ||
        now < thread->since_ns || ran <= lasted)
        return;
    weir_u64 early = ran - lasted, *runnable = &thread->off_ns[WEIR_PROBE_RUNNABLE];
    *runnable -= early < *runnable ? early : *runnable;
    if (exact && thread->off_counts && thread->off_tag < tag_count) {
        weir_u32 index = slot * tag_count + thread->off_tag;
        weir_u64 *off = bpf_map_lookup_elem(&off_tags, &index);
        if (off)
            *off -= early < *off ? early : *off;
    }
}

static __always_inline void leave_cpu(struct task_struct *prev, bool runnable, bool dead, weir_u64 now)
{
    weir_u32 slot = slot_of(prev);
    struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread)
        return;
    struct {
        weir_u32 tag, wait, pool, reserved;
        weir_u64 unstamped, tag_ticks;
    } at = {};
    if (bpf_probe_read_user(&at, sizeof at, (void *)in_target(slot, tag)))
        count(reads_failed);
    weir_u32 kind = at.wait & 0xff;
    write_begin(thread);
    account_coming_back(thread, slot, prev->se.sum_exec_runtime, now);
    account_running(thread, prev->se.sum_exec_runtime, now);
    thread->state = dead ? WEIR_PROBE_EXITED : WEIR_PROBE_OFF;
    thread->since_ns = now;
    thread->off_kind = runnable ? WEIR_PROBE_RUNNABLE : kind < WEIR_WAIT_KINDS ? kind : WEIR_WAIT_NONE;
    thread->off_object = at.wait >> 8;
    thread->off_tag = at.tag;
    thread->off_counts = !has_tag_ticks || at.tag_ticks;
    thread->switches++;
    /* A waker may come before the switch that it undoes; an older stamp was for a task that never left. */
    if (runnable || now - thread->waking_ns > STALE_WAKEUP_NS)
        thread->waking_ns = 0;
    write_end(thread);
}

static __always_inline void enter_cpu(struct task_struct *next, weir_u64 now)
{
    weir_u32 slot = slot_of(next);
    struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread)
        return;
    write_begin(thread);
    if (thread->state == WEIR_PROBE_OFF && now > thread->since_ns) {
        weir_u64 since = thread->since_ns, waking = thread->waking_ns;
        weir_u32 kind = thread->off_kind;
        weir_u64 ready = now;
        if (kind == WEIR_PROBE_RUNNABLE)
            ready = since;
        else if (waking && waking <= now)
            ready = waking < since ? since : waking;
        if (kind < WEIR_WAIT_KINDS)
            thread->off_ns[kind] += ready - since;
        thread->off_ns[WEIR_PROBE_RUNNABLE] += now - ready;
        if (kind == WEIR_WAIT_IDLE && thread->off_object < queue_count && waking) {
            weir_u32 index = thread->off_object * WEIR_HISTOGRAM_BUCKETS + weir_histogram_bucket(now - ready);
            weir_u64 *bucket = bpf_map_lookup_elem(&wakeups, &index);
            if (bucket)
                __sync_fetch_and_add(bucket, 1);
        }
        if (exact && thread->off_counts && thread->off_tag < tag_count) {
            weir_u32 index = slot * tag_count + thread->off_tag;
            weir_u64 *off = bpf_map_lookup_elem(&off_tags, &index);
            if (off)
                *off += now - since;
        }
    }
    thread->exec_ns = next->se.sum_exec_runtime;
    thread->exec_known = EXEC_EXACT;
    thread->state = WEIR_PROBE_RUNNING;
    thread->since_ns = now;
    thread->waking_ns = 0;
    write_end(thread);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
    bool out = prev->tgid == target_tgid, in = next->tgid == target_tgid;
    if (!out && !in)
        return 0;
    weir_u64 now = bpf_ktime_get_ns();
    if (out)
        leave_cpu(prev, preempt || prev_state == 0, prev_state & TASK_DEAD, now);
    if (in)
        enter_cpu(next, now);
    return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
    if (task->tgid != target_tgid)
        return 0;
    weir_u32 slot = slot_of(task);
    struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
    if (thread)
        *(volatile weir_u64 *)&thread->waking_ns = bpf_ktime_get_ns();
    return 0;
}

static __always_inline void take_sample(struct task_struct *task)
{
    if (task->tgid != target_tgid)
        return;
    struct weir_probe_sample *sample = bpf_ringbuf_reserve(&samples, sizeof *sample, 0);
    if (!sample) {
        count(samples_lost);
        return;
    }
    weir_u64 now = bpf_ktime_get_ns();
    weir_u32 slot = slot_of(task), tag = 0;
    if (slot < WEIR_THREAD_SLOTS) {
        if (bpf_probe_read_user(&tag, sizeof tag, (void *)in_target(slot, tag)))
            count(reads_failed);
        /* A thread that runs for long without a switch: bring its sum up to date. */
        struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
        if (thread && thread->state == WEIR_PROBE_RUNNING && thread->exec_known && now - thread->since_ns > REFRESH_NS) {
            write_begin(thread);
            account_running(thread, task->se.sum_exec_runtime, now);
            thread->exec_known = EXEC_LAGS;
            thread->since_ns = now;
            write_end(thread);
        }
    }
    sample->slot = slot;
    sample->tag = tag;
    sample->time_ns = now;
    sample->reserved = 0;
    long size = bpf_get_task_stack(task, sample->frames, sizeof sample->frames, BPF_F_USER_STACK);
    sample->frame_count = size > 0 ? size / sizeof sample->frames[0] : 0;
    bpf_ringbuf_submit(sample, BPF_RB_NO_WAKEUP);
}

static int on_timer(void *map, weir_u32 *cpu, struct sampler *sampler)
{
    if (*(volatile weir_u32 *)&stopping)
        return 0;
    count(fires);
    take_sample(bpf_get_current_task_btf());
    bpf_timer_start(&sampler->timer, period_ns / 2 + bpf_get_prandom_u32() % period_ns, TIMER_PINNED);
    return 0;
}

/* Run once on each CPU, by a thread that is pinned there. */
SEC("syscall")
int start_samplers(void *ctx)
{
    weir_u32 cpu = bpf_get_smp_processor_id();
    struct sampler *sampler = bpf_map_lookup_elem(&samplers, &cpu);
    if (!sampler)
        return 1;
    if (bpf_timer_init(&sampler->timer, &samplers, CLOCK_MONOTONIC))
        return 2;
    if (bpf_timer_set_callback(&sampler->timer, on_timer))
        return 3;
    return bpf_timer_start(&sampler->timer, bpf_get_prandom_u32() % period_ns, TIMER_PINNED) ? 4 : 0;
}

SEC("perf_event")
int on_perf(void *ctx)
{
    count(fires);
    take_sample(bpf_get_current_task_btf());
    return 0;
}

SEC("iter/task")
int list_threads(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    if (!task)
        return 0;
    struct weir_probe_listed listed = { .tid = task->pid, .tgid = task->tgid, .runnable = task->__state == 0 };
    struct pid *pid = task->thread_pid;
    if (pid) {
        /* The last of the ids is that of the innermost namespace. */
        weir_u64 number = bpf_core_field_offset(struct pid, numbers) + (weir_u64)pid->level * bpf_core_type_size(struct upid) +
                          bpf_core_field_offset(struct upid, nr);
        bpf_probe_read_kernel(&listed.inner_tid, sizeof listed.inner_tid, (char *)pid + number);
    }
    bpf_seq_write(ctx->meta->seq, &listed, sizeof listed);
    return 0;
}

static __always_inline void hand_over(weir_u32 slot, weir_u32 asked, weir_u32 size_class)
{
    weir_u64 log_size =
        __builtin_offsetof(struct weir_contract_log, records) + (weir_u64)size_class * sizeof(struct weir_contract_record);
    struct weir_probe_flush *flush = bpf_ringbuf_reserve(&items, __builtin_offsetof(struct weir_probe_flush, log) +
        __builtin_offsetof(struct weir_contract_log, records) + size_class * sizeof(struct weir_contract_record), 0);
    if (!flush) {
        __sync_fetch_and_add(&counts.records_lost, asked);
        return;
    }
    flush->slot = slot;
    flush->count = asked;
    flush->generation = 0;
    flush->reserved = 0;
    if (bpf_copy_from_user(&flush->log, log_size, (void *)(target_logs + slot * sizeof(struct weir_contract_log))) ||
        bpf_copy_from_user(&flush->generation, sizeof flush->generation, (void *)in_target(slot, generation))) {
        __sync_fetch_and_add(&counts.records_lost, asked);
        bpf_ringbuf_discard(flush, BPF_RB_NO_WAKEUP);
        return;
    }
    bpf_ringbuf_submit(flush, BPF_RB_NO_WAKEUP);
}

/* A slot's thread has just started: it looks itself up at its next switch. */
static __always_inline void start_thread(weir_u32 slot)
{
    weir_u32 tid = (weir_u32)bpf_get_current_pid_tgid();
    struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread)
        return;
    count(thread_starts);
    bpf_map_update_elem(&tids, &tid, &slot, BPF_ANY);
    write_begin(thread);
    thread->state = WEIR_PROBE_RUNNING;
    thread->exec_known = EXEC_UNKNOWN;
    thread->since_ns = bpf_ktime_get_ns();
    write_end(thread);
    __sync_fetch_and_add(&epoch, 1);
}

SEC("kprobe/weir_point")
int on_point(struct pt_regs *ctx)
{
    weir_u32 slot = (weir_u32)PT_REGS_PARM1(ctx);
    weir_u64 records = PT_REGS_PARM3(ctx);
    switch (bpf_get_attach_cookie(ctx)) {
    case WEIR_POINT_THREAD_START:
        if (slot < WEIR_THREAD_SLOTS)
            start_thread(slot);
        else if (slot != NO_SLOT)
            count(hostile);
        break;
    case WEIR_POINT_ITEMS_FLUSH:
        count(flushes);
        if (slot == NO_SLOT && records <= WEIR_LOG_RECORDS)
            __sync_fetch_and_add(&counts.records_lost, records); /* its log lies where nobody looks */
        else if (slot >= WEIR_THREAD_SLOTS || records > WEIR_LOG_RECORDS)
            count(hostile);
        else if (records <= 8)
            hand_over(slot, records, 8);
        else if (records <= 24)
            hand_over(slot, records, 24);
        else
            hand_over(slot, records, WEIR_LOG_RECORDS);
        break;
    }
    return 0;
}
