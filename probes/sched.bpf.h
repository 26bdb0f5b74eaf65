/*
 * sched: where a thread's time goes, taken down whenever the scheduler switches it.
 * It stands between the scheduler's tracepoints (weir.bpf.c) and the maps that tracer/snapshot.c reads.
 *
 * Units: ns of CLOCK_MONOTONIC; on-CPU time is the kernel's sum_exec_runtime.
 * Owns: the maps of places, of off-CPU time by tag, and of wakeups.
 * Threads: on the CPU that switches, interrupts off; so each thread has one writer. What threads share is added to atomically.
 * Errors: a tag that can't be read counts in reads_failed; a sleep that finds no place counts in its kind's sum alone.
 */
#ifndef WEIR_PROBES_SCHED_BPF_H
#define WEIR_PROBES_SCHED_BPF_H

#include "base/histogram_bucket.h"
#include "probes/shared.bpf.h"

#define STALE_WAKEUP_NS 1000000
#define INTERRUPT_MOST_NS 100000
#define PLACE_TRIES 16
#define STACK_WORDS 64
#define TASK_BLOCKED_IN_KERNEL 0x2 /* TASK_UNINTERRUPTIBLE */
#define SYSCALL_NANOSLEEP 35
#define SYSCALL_FUTEX 202
#define SYSCALL_CLOCK_NANOSLEEP 230

/* The kernel's struct pt_regs, which the C library's header names otherwise. */
struct pt_regs___kernel {
    unsigned long orig_ax, sp;
} __attribute__((preserve_access_index));

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
    /* A waker may come before the switch that it undoes, or while we are at it; an older stamp was for a task that never left. */
    weir_u64 waking = *(volatile weir_u64 *)&thread->waking_ns;
    if (runnable || (waking < now && now - waking > STALE_WAKEUP_NS))
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

#endif
