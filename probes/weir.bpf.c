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
 * What a switch means for a thread's accounting stands in sched.bpf.h, and what all programs need in shared.bpf.h.
 * Programs decide nothing that user space can decide, and whatever they can't hand over they count.
 */
#include "probes/contract.h"
#include "probes/probe.h"
#include "probes/sched.bpf.h"
#include "probes/shared.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define TIMER_PINNED 2 /* BPF_F_TIMER_CPU_PIN: newer than Debian 12's header */
#define CLOCK_MONOTONIC 1
#define TASK_DEAD 0x80
#define REFRESH_NS 20000000
#define NO_SLOT 0xffffffffu /* the index of a thread that found all slots taken */

struct seq_file;
struct bpf_iter_meta {
    struct seq_file *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__task {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
} __attribute__((preserve_access_index));

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 512 * 1024);
} samples SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, WEIR_PROBE_ITEMS_BYTES);
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
