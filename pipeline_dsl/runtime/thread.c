/*
 * DESIGN: the slots, logs and the contract itself are static, so that a tracer finds them by arithmetic alone. Each word of a
 * slot, a cell or a log has one writer, its thread; all stores are atomic and relaxed, which costs nothing on a word of one's
 * own, and only the log needs release order, since a reader must see a record before the count that covers it.
 *
 * Untraced, a crossing is one load and one store for the tag and one for the count; no clock is read. The light mode thins
 * the items at birth by a geometric skip: whether one item is stamped says nothing about the next, so no rhythm of the traffic
 * can lock in with it, and a skip may be drawn anew at any moment without a bias. Its mean is the weight of the items chosen.
 * The mean follows the traffic from one 10 ms slice to the next, and never within one: a burst then shows in the sum of the
 * weights instead of vanishing under a cap.
 */
#include "pipeline_dsl/runtime/thread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define SLICE_NS 10000000u
#define SLICE_ITEMS 10u  /* about as many stamped items a slice, thread and way in */
#define FLUSH_RECORDS 8u

#define SEMAPHORE __attribute__((section(".probes")))
WEIR_TRACE_SEMAPHORE(thread_start) SEMAPHORE = 0;
WEIR_TRACE_SEMAPHORE(items_flush) SEMAPHORE = 0;
WEIR_TRACE_SEMAPHORE(trace_on) SEMAPHORE = 0;
WEIR_TRACE_SEMAPHORE(trace_exact) SEMAPHORE = 0;

__attribute__((visibility("default"))) struct weir_contract weir_contract;
/* Each on cache lines of its own: a thread writes its slot at every crossing. */
static _Alignas(64) struct weir_contract_thread slots[WEIR_THREAD_SLOTS];
static _Alignas(64) struct weir_contract_log logs[WEIR_THREAD_SLOTS];
static uint8_t slot_taken[WEIR_THREAD_SLOTS];

/* 10 ms in ticks. Guessed until weir_contract_publish() has measured the scale; only the size of a slice hangs on it. */
static uint64_t slice_ticks = 20000000;

/* The two points that are never executed: they carry the semaphores that ask for stamping. */
WEIR_STANDS_ALONE static void never(void)
{
    WEIR_TRACE_POINT(trace_on, 0, 0, 0);
    WEIR_TRACE_POINT(trace_exact, 0, 0, 0);
}

WEIR_STANDS_ALONE static void point_thread_start(uint32_t index, weir_u32 tid)
{
    WEIR_TRACE_POINT(thread_start, index, tid, 0);
}

WEIR_STANDS_ALONE static void point_items_flush(uint32_t index, const struct weir_contract_log *log, weir_u32 count)
{
    WEIR_TRACE_POINT(items_flush, index, (uintptr_t)log, count);
}

void weir_contract_publish(const struct weir_plan *plan)
{
    struct weir_clock_pair first = weir_clock_pair();
    struct weir_contract *contract = &weir_contract;
    contract->major = WEIR_CONTRACT_MAJOR;
    contract->minor = WEIR_CONTRACT_MINOR;
    contract->size = sizeof *contract;
    contract->topology = (uintptr_t)plan->topology;
    contract->topology_bytes = plan->topology_bytes;
    contract->tag_count = weir_plan_tag_count(plan);
    contract->threads = (uintptr_t)slots;
    contract->cells = (uintptr_t)plan->cells;
    contract->logs = (uintptr_t)logs;
    contract->queues = (uintptr_t)plan->queue_blocks;
    contract->ways = (uintptr_t)plan->way_blocks;
    contract->queue_count = plan->queue_count;
    contract->way_count = plan->way_count;
    contract->shards = plan->shards;
    contract->slots = (uintptr_t)plan->slot_blocks;
    contract->slot_count = plan->slots_count;
    contract->start_ns = first.ns;
    contract->features = WEIR_CONTRACT_TAG_TICKS | WEIR_CONTRACT_TAKES;
    usleep(1500);
    slice_ticks = (uint64_t)(SLICE_NS / weir_clock_ns_per_tick(first, weir_clock_pair()));
    __atomic_store_n(&contract->magic, WEIR_CONTRACT_MAGIC, __ATOMIC_RELEASE);
}

static uint32_t slot_find(void)
{
    for (uint32_t i = 0; i < WEIR_THREAD_SLOTS; i++)
        if (!__atomic_exchange_n(&slot_taken[i], 1, __ATOMIC_ACQUIRE))
            return i;
    return WEIR_NONE;
}

/* A thread without a slot writes into blocks of its own that nobody reads. */
static void slot_private(struct weir_thread *thread, const struct weir_plan *plan)
{
    __atomic_fetch_add(&weir_contract.thread_overflow, 1, __ATOMIC_RELAXED);
    thread->slot = calloc(1, sizeof *thread->slot);
    thread->cells = calloc(weir_plan_tag_count(plan), sizeof *thread->cells);
    thread->log = calloc(1, sizeof *thread->log);
    if (!thread->slot || !thread->cells || !thread->log)
        weir_bug("no memory for a thread of pool %s", plan->name);
}

void weir_thread_start(struct weir_thread *thread, const struct weir_plan *plan, uint32_t pool)
{
    *thread = (struct weir_thread){ .index = slot_find(), .thinners = calloc(plan->way_count + 1, sizeof *thread->thinners) };
    if (!thread->thinners)
        weir_bug("no memory for a thread of pool %s", plan->name);
    if (thread->index == WEIR_NONE) {
        slot_private(thread, plan);
    } else {
        thread->slot = &slots[thread->index];
        thread->cells = plan->cells + (size_t)thread->index * weir_plan_tag_count(plan);
        thread->log = &logs[thread->index];
    }
    weir_u32 tid = (weir_u32)syscall(SYS_gettid);
    thread->random = (weir_clock_ticks() ^ (uint64_t)tid << 32) | 1;
    struct weir_contract_thread *slot = thread->slot;
    __atomic_store_n(&slot->generation, slot->generation + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->pool, pool, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->wait, WEIR_WAIT_NONE, __ATOMIC_RELAXED);
    weir_thread_at(thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
    __atomic_store_n(&slot->tid, tid, __ATOMIC_RELEASE);
    if (weir_thread_start_semaphore)
        point_thread_start(thread->index, tid);
}

void weir_thread_stop(struct weir_thread *thread)
{
    weir_thread_flush(thread);
    weir_thread_at(thread, WEIR_TAG(WEIR_INSTANCE_RUNTIME, 0));
    __atomic_store_n(&thread->slot->tid, 0, __ATOMIC_RELEASE);
    while (thread->spare_count)
        weir_arena_release(&thread->spares[--thread->spare_count]);
    while (thread->kept) {
        struct weir_kept *kept = thread->kept;
        thread->kept = kept->next;
        free(kept);
    }
    free(thread->thinners);
    if (thread->index == WEIR_NONE) {
        free(thread->slot);
        free(thread->cells);
        free(thread->log);
    } else {
        __atomic_store_n(&slot_taken[thread->index], 0, __ATOMIC_RELEASE);
    }
}

void weir_thread_account(struct weir_thread *thread)
{
    uint64_t now = weir_clock_ticks();
    if (thread->exact) {
        weir_u64 *ticks = &thread->cells[thread->tag].ticks;
        __atomic_store_n(ticks, *ticks + (now - thread->last_ticks), __ATOMIC_RELAXED);
    }
    thread->exact = weir_trace_exact_semaphore != 0;
    thread->last_ticks = now;
    __atomic_store_n(&thread->slot->tag_ticks, thread->exact ? now : 0, __ATOMIC_RELAXED);
}

void weir_thread_add_events(struct weir_thread *thread, uint32_t stage, uint64_t events)
{
    weir_u64 *sum = &thread->cells[WEIR_TAG(stage, WEIR_PART_NONE)].events;
    __atomic_store_n(sum, *sum + events, __ATOMIC_RELAXED);
}

void weir_thread_add_own_cpu(struct weir_thread *thread, uint32_t stage, uint64_t cpu_ns)
{
    weir_u64 *sum = &thread->cells[WEIR_TAG(stage, WEIR_PART_NONE)].own_cpu_ns;
    __atomic_store_n(sum, *sum + cpu_ns, __ATOMIC_RELAXED);
}

bool weir_thread_should_flush(const struct weir_thread *thread)
{
    uint32_t count = thread->log->count;
    if (!count || !weir_items_flush_semaphore)
        return false;
    return count >= FLUSH_RECORDS || weir_clock_ticks() - thread->log->oldest_ticks >= slice_ticks;
}

void weir_thread_flush(struct weir_thread *thread)
{
    struct weir_contract_log *log = thread->log;
    if (!log->count)
        return;
    uint32_t tag = thread->tag;
    weir_thread_at(thread, WEIR_TAG(WEIR_INSTANCE_TRACING, 0));
    if (weir_items_flush_semaphore)
        point_items_flush(thread->index, log, log->count);
    /* Count first: a reader that comes between the two finds nothing, rather than old records under new numbers. */
    uint32_t count = log->count;
    __atomic_store_n(&log->count, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&log->base, log->base + count, __ATOMIC_RELEASE);
    weir_thread_at(thread, tag);
}

void weir_thread_sleep_begin(struct weir_thread *thread, enum weir_wait kind, uint32_t object)
{
    if (__builtin_expect(thread->log->count != 0, 0) && weir_thread_should_flush(thread))
        weir_thread_flush(thread);
    weir_thread_wait(thread, kind, object);
}

/* xorshift64*: good enough to choose items, and it needs no lock. */
static double draw(struct weir_thread *thread)
{
    uint64_t x = thread->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    thread->random = x;
    return ((double)((x * 2685821657736338717u) >> 11) + 0.5) / 9007199254740992.0;
}

/* How many items until the next one that is stamped: geometric, with the mean `weight`. */
static uint32_t draw_skip(struct weir_thread *thread, uint32_t weight)
{
    if (weight <= 1)
        return 1;
    double skip = 1 + floor(log(draw(thread)) / log1p(-1.0 / weight));
    return skip < 1e9 ? (uint32_t)skip : 1000000000u;
}

static void slice_next(struct weir_thread *thread, struct weir_thinner *thinner, uint64_t now)
{
    double slices = (double)(now - thinner->slice_ticks) / (double)slice_ticks;
    double mean = thinner->births / slices / SLICE_ITEMS;
    thinner->weight = mean <= 1 ? 1 : mean < 1e6 ? (uint32_t)(mean + 0.5) : 1000000u;
    thinner->skip = draw_skip(thread, thinner->weight);
    thinner->births = 0;
    thinner->slice_ticks = now;
}

uint32_t weir_thread_choose_traced(struct weir_thread *thread, uint32_t way)
{
    if (weir_trace_exact_semaphore)
        return 1;
    struct weir_thinner *thinner = &thread->thinners[way];
    uint64_t now = weir_clock_ticks();
    if (now - thinner->slice_ticks >= slice_ticks)
        slice_next(thread, thinner, now);
    thinner->births++;
    if (--thinner->skip)
        return 0;
    thinner->skip = draw_skip(thread, thinner->weight);
    return thinner->weight;
}

void weir_thread_log(struct weir_thread *thread, const struct weir_contract_record *record)
{
    struct weir_contract_log *log = thread->log;
    uint32_t count = log->count;
    if (count == 0)
        __atomic_store_n(&log->oldest_ticks, weir_clock_ticks(), __ATOMIC_RELAXED);
    /* Without the ticks that it doesn't use: a short segment has three of ten. */
    memcpy(&log->records[count], record, offsetof(struct weir_contract_record, ticks) + record->tick_count * sizeof record->ticks[0]);
    __atomic_store_n(&log->count, count + 1, __ATOMIC_RELEASE);
    if (count + 1 == WEIR_LOG_RECORDS)
        weir_thread_flush(thread);
}
