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
#define INTERRUPT_MOST_NS 100000
#define PLACE_TRIES 16
#define STACK_WORDS 64
#define TASK_BLOCKED_IN_KERNEL 0x2 /* TASK_UNINTERRUPTIBLE */
#define SYSCALL_NANOSLEEP 35
#define SYSCALL_FUTEX 202
#define SYSCALL_CLOCK_NANOSLEEP 230
#define NO_SLOT 0xffffffffu /* the index of a thread that found all slots taken */

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
/* The kernel's struct pt_regs, which the C library's header names otherwise. */
struct pt_regs___kernel {
    unsigned long orig_ax, sp;
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

/* Where and why each slot's thread was off a CPU. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, WEIR_THREAD_SLOTS);
    __type(key, weir_u32);
    __type(value, struct weir_probe_places);
} places SEC(".maps");

/* A piece of the current thread's stack. */
struct stack {
    weir_u64 words[STACK_WORDS];
};
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, weir_u32);
    __type(value, struct stack);
} stacks SEC(".maps");

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

/* Of [queue]; resized before load. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, weir_u32);
    __type(value, struct weir_probe_wakes);
} wakes SEC(".maps");

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
    thread->exec_known = 1;
}

/* Time that counts as spent off the CPU at `tag`, exact mode. */
static __always_inline weir_u64 *off_tag(weir_u32 slot, weir_u32 tag)
{
    weir_u32 index = slot * tag_count + tag;
    return tag < tag_count ? bpf_map_lookup_elem(&off_tags, &index) : 0;
}

static __always_inline void take_off(weir_u64 *from, weir_u64 ns)
{
    *from -= ns < *from ? ns : *from;
}

/* The kernel's sum and the clock differ at both ends of a run on the CPU.
 *
 * It begins a little before the tracepoint that tells us: 1 to 7 us, more when an idle CPU had to wake. What the kernel's sum has
 * beyond the clock was spent on coming back from the last sleep, so it is taken off that.
 *
 * What the clock has beyond the sum, interrupts took. Mostly it is the last of them: it woke the thread that is to run here now, and
 * such threads come at the same stage again and again, so it can't be spread over all of them. So it is no time of the tag where the
 * thread had to leave. What is longer the hypervisor took, anywhere in the run. */
static __always_inline void account_edges(struct weir_probe_thread *thread, struct weir_probe_places *list, weir_u32 slot, weir_u32 tag,
                                          bool interrupted, weir_u64 exec_ns, weir_u64 now)
{
    weir_u64 ran = exec_ns - thread->run_exec_ns, lasted = now - thread->run_since_ns;
    if (!thread->run_since_ns || thread->state != WEIR_PROBE_RUNNING || exec_ns < thread->run_exec_ns || now < thread->run_since_ns)
        return;
    if (ran <= lasted) {
        weir_u64 *off = exact && interrupted ? off_tag(slot, tag) : 0;
        if (off)
            *off += lasted - ran < INTERRUPT_MOST_NS ? lasted - ran : INTERRUPT_MOST_NS;
        return;
    }
    weir_u64 early = ran - lasted;
    take_off(&thread->off_ns[WEIR_PROBE_RUNNABLE], early);
    if (thread->off_place < WEIR_PROBE_PLACES)
        take_off(&list->list[thread->off_place].runnable_ns, early);
    weir_u64 *off = exact && thread->off_counts ? off_tag(slot, thread->off_tag) : 0;
    if (off)
        take_off(off, early);
}

/* Where the C library's call that sleeps returns to: the first word on the stack that points behind a call in the executable's own
 * code, if that call leaves the executable. The C library has no frame pointers to follow. */
static __always_inline weir_u64 find_site(weir_u64 sp)
{
    weir_u32 zero = 0;
    struct stack *stack = bpf_map_lookup_elem(&stacks, &zero);
    if (!stack || bpf_probe_read_user(stack, sizeof *stack, (void *)sp))
        return 0;
    for (int i = 0; i < STACK_WORDS; i++) {
        weir_u64 site = stack->words[i];
        struct {
            weir_u8 indirect, operation; /* ff 15: by the table of addresses; e8: by an offset */
            int offset;
        } __attribute__((packed)) call;
        if (site <= target_code || site >= target_text_end || bpf_probe_read_user(&call, sizeof call, (void *)(site - sizeof call)))
            continue;
        weir_u64 callee = site + (weir_u64)(long long)call.offset;
        if ((call.indirect == 0xff && call.operation == 0x15) ||
            (call.operation == 0xe8 && callee >= target_text && callee < target_code))
            return site;
    }
    return 0;
}

/* The server doesn't say why the thread sleeps: what it asked the kernel for does. */
static __always_inline weir_u32 kind_of_sleep(struct task_struct *task, unsigned int state, weir_u64 *site)
{
    struct pt_regs___kernel *regs = (void *)bpf_task_pt_regs(task);
    weir_u64 call = BPF_CORE_READ(regs, orig_ax);
    *site = find_site(BPF_CORE_READ(regs, sp));
    if (call == SYSCALL_FUTEX)
        return WEIR_WAIT_LOCK;
    if (call == SYSCALL_NANOSLEEP || call == SYSCALL_CLOCK_NANOSLEEP)
        return WEIR_WAIT_NONE;
    /* No system call: a page fault, for the file's page or for the memory map's lock. */
    return (long long)call >= 0 || state & TASK_BLOCKED_IN_KERNEL ? WEIR_WAIT_IO : WEIR_WAIT_NONE;
}

/* A thread that slept on a queue and was woken sleeps on it again: had it taken anything? */
static __always_inline void account_wakeup(struct weir_probe_thread *thread, weir_u32 queue, weir_u32 takes)
{
    if (has_takes && thread->woken_by == queue + 1 && thread->takes == takes) {
        struct weir_probe_wakes *wake = bpf_map_lookup_elem(&wakes, &queue);
        if (wake)
            __sync_fetch_and_add(&wake->unused, 1);
    }
    thread->woken_by = 0;
    thread->takes = takes;
}

static __always_inline void leave_cpu(struct task_struct *prev, unsigned int state, bool runnable, bool dead, weir_u64 now)
{
    weir_u32 slot = slot_of(prev);
    struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
    struct weir_probe_places *list = bpf_map_lookup_elem(&places, &slot);
    if (dead) {
        weir_u32 tid = prev->pid;
        bpf_map_delete_elem(&tids, &tid);
    }
    if (!thread || !list)
        return;
    struct {
        weir_u32 tag, wait, pool, takes;
        weir_u64 unstamped, tag_ticks;
    } at = {};
    if (bpf_probe_read_user(&at, sizeof at, (void *)in_target(slot, tag)))
        count(reads_failed);
    weir_u32 kind = at.wait & 0xff, object = at.wait >> 8;
    weir_u64 site = 0;
    if (runnable) {
        kind = WEIR_PROBE_RUNNABLE;
        object = 0;
    } else if (kind == WEIR_WAIT_NONE || kind >= WEIR_WAIT_KINDS) {
        kind = dead ? WEIR_WAIT_NONE : kind_of_sleep(prev, state, &site);
        object = WEIR_WAIT_NOTHING;
    }
    write_begin(thread);
    account_edges(thread, list, slot, at.tag, runnable && (!has_tag_ticks || at.tag_ticks), prev->se.sum_exec_runtime, now);
    account_running(thread, prev->se.sum_exec_runtime, now);
    if (kind == WEIR_WAIT_IDLE)
        account_wakeup(thread, object, at.takes);
    thread->state = dead ? WEIR_PROBE_EXITED : WEIR_PROBE_OFF;
    thread->since_ns = now;
    thread->off_kind = kind;
    thread->off_object = object;
    thread->off_tag = at.tag;
    thread->off_site = site;
    thread->off_counts = !has_tag_ticks || at.tag_ticks;
    thread->switches++;
    thread->preempted += runnable;
    /* A waker may come before the switch that it undoes; an older stamp was for a task that never left. */
    if (runnable || now - thread->waking_ns > STALE_WAKEUP_NS)
        thread->waking_ns = 0;
    write_end(thread);
}

/* The place of a sleep in the slot's list, or WEIR_PROBE_NO_PLACE when all that it may have are others'. */
static __always_inline weir_u32 find_place(struct weir_probe_places *list, weir_u32 tag, weir_u32 wait, weir_u64 site)
{
    weir_u32 first = (tag * 0x9e3779b1u ^ wait * 0x85ebca6bu ^ (weir_u32)site * 0xc2b2ae35u) >> 16;
    for (weir_u32 i = 0; i < PLACE_TRIES; i++) {
        weir_u32 index = (first + i) % WEIR_PROBE_PLACES;
        struct weir_probe_place *place = &list->list[index];
        if (!place->count) {
            place->tag = tag;
            place->wait = wait;
            place->site = site;
            return index;
        }
        if (place->tag == tag && place->wait == wait && place->site == site)
            return index;
    }
    return WEIR_PROBE_NO_PLACE;
}

static __always_inline void account_sleep(struct weir_probe_thread *thread, struct weir_probe_places *list, weir_u64 slept_ns,
                                          weir_u64 runnable_ns)
{
    weir_u32 kind = thread->off_kind;
    if (kind < WEIR_WAIT_KINDS)
        thread->off_ns[kind] += slept_ns;
    thread->off_ns[WEIR_PROBE_RUNNABLE] += runnable_ns;
    weir_u32 index = find_place(list, thread->off_tag, WEIR_WAIT_WORD(kind, thread->off_object), thread->off_site);
    thread->off_place = index;
    if (index >= WEIR_PROBE_PLACES)
        return;
    struct weir_probe_place *place = &list->list[index];
    place->ns += slept_ns;
    place->runnable_ns += runnable_ns;
    place->count++;
}

static __always_inline void enter_cpu(struct task_struct *next, weir_u64 now)
{
    weir_u32 slot = slot_of(next);
    struct weir_probe_thread *thread = bpf_map_lookup_elem(&threads, &slot);
    struct weir_probe_places *list = bpf_map_lookup_elem(&places, &slot);
    if (!thread || !list)
        return;
    write_begin(thread);
    if (thread->state == WEIR_PROBE_OFF && now > thread->since_ns) {
        weir_u64 since = thread->since_ns, waking = thread->waking_ns;
        weir_u32 kind = thread->off_kind, queue = thread->off_object;
        weir_u64 ready = now;
        if (kind == WEIR_PROBE_RUNNABLE)
            ready = since;
        else if (waking && waking <= now)
            ready = waking < since ? since : waking;
        account_sleep(thread, list, ready - since, now - ready);
        if (kind == WEIR_WAIT_IDLE && queue < queue_count && waking) {
            weir_u32 index = queue * WEIR_HISTOGRAM_BUCKETS + weir_histogram_bucket(now - ready);
            weir_u64 *bucket = bpf_map_lookup_elem(&wakeups, &index);
            struct weir_probe_wakes *wake = bpf_map_lookup_elem(&wakes, &queue);
            if (bucket)
                __sync_fetch_and_add(bucket, 1);
            if (wake) {
                __sync_fetch_and_add(&wake->wakeups, 1);
                if (thread->waking_cpu != bpf_get_smp_processor_id())
                    __sync_fetch_and_add(&wake->moved, 1);
            }
            thread->woken_by = queue + 1;
        }
        weir_u64 *off = exact && thread->off_counts ? off_tag(slot, thread->off_tag) : 0;
        if (off)
            *off += now - since;
    }
    thread->exec_ns = next->se.sum_exec_runtime;
    thread->run_exec_ns = thread->exec_ns;
    thread->exec_known = 1;
    thread->state = WEIR_PROBE_RUNNING;
    thread->since_ns = thread->run_since_ns = now;
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
        leave_cpu(prev, prev_state, preempt || prev_state == 0, prev_state & TASK_DEAD, now);
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
    if (thread) {
        *(volatile weir_u32 *)&thread->waking_cpu = bpf_get_smp_processor_id();
        *(volatile weir_u64 *)&thread->waking_ns = bpf_ktime_get_ns();
    }
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
    if (bpf_map_update_elem(&tids, &tid, &slot, BPF_ANY))
        count(threads_lost);
    write_begin(thread);
    thread->state = WEIR_PROBE_RUNNING;
    thread->exec_known = 0;
    thread->run_since_ns = 0;
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
