/* A process that looks like a built server and lies in every word of its contract, over and over. tracer_hostile_test.c builds it:
 * what it does must never crash, hang or mislead the tracer. argv[1] chooses the lie. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/profile.h"
#include "pipeline_dsl/runtime/trace_point.h"
#include "probes/contract.h"
#include "tests/unit/tracer/synthetic.h"

WEIR_TRACE_SEMAPHORE(thread_start) __attribute__((section(".probes"))) = 0;
WEIR_TRACE_SEMAPHORE(items_flush) __attribute__((section(".probes"))) = 0;
WEIR_TRACE_SEMAPHORE(trace_on) __attribute__((section(".probes"))) = 0;
WEIR_TRACE_SEMAPHORE(trace_exact) __attribute__((section(".probes"))) = 0;

/* The point of items_flush once more, bare of the code that loads its arguments. */
#define WEIR_LEAF_POINT                                                                                                         \
    __asm__ volatile("990: .byte 0x90\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
                     "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n"                       \
                     ".8byte weir_items_flush_semaphore\n.asciz \"weir\"\n.asciz \"items_flush\"\n.asciz \"\"\n"                \
                     "994: .balign 4\n.popsection\n")

__attribute__((visibility("default"))) struct weir_contract weir_contract;
static struct weir_contract_thread threads[WEIR_THREAD_SLOTS];
static struct weir_contract_log logs[WEIR_THREAD_SLOTS];
static struct weir_contract_queue queues[2];
static struct weir_contract_way ways[1];
static struct weir_contract_cell *cells;
static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void scribble(void *to, size_t size)
{
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word = next();
        memcpy((char *)to + i, &word, 8);
    }
}

__attribute__((used, noinline, noclone)) static void never(void)
{
    WEIR_TRACE_POINT(trace_on, 0, 0, 0);
    WEIR_TRACE_POINT(trace_exact, 0, 0, 0);
}
__attribute__((noinline, noclone)) static void flush(uint64_t slot, uint64_t log, uint64_t count)
{
    WEIR_TRACE_POINT(items_flush, slot, log, count);
}
__attribute__((noinline, noclone)) static void start(uint64_t slot, uint64_t tid)
{
    WEIR_TRACE_POINT(thread_start, slot, tid, 0);
}

/* A leaf function that keeps data below its stack pointer, around the very instruction that is probed. */
__attribute__((naked, noinline, noclone, used)) static uint64_t leaf(uint64_t slot, uint64_t log, uint64_t count)
{
    (void)slot, (void)log, (void)count;
    __asm__ volatile("movabs $0x1122334455667788, %%rax\n"
                     "mov %%rax, -8(%%rsp)\n"
                     "mov %%rax, -128(%%rsp)\n" ::
                         : "rax");
    WEIR_LEAF_POINT;
    __asm__ volatile("mov -8(%%rsp), %%rax\n"
                     "xor -128(%%rsp), %%rax\n"
                     "mov -8(%%rsp), %%rcx\n"
                     "movabs $0x1122334455667788, %%rdx\n"
                     "xor %%rdx, %%rcx\n"
                     "or %%rcx, %%rax\n"
                     "ret\n" ::
                         : "rax", "rcx", "rdx");
}

/* 100,000 hits of a probed leaf; says what became of its data. */
static void keep_data_below_the_stack(void)
{
    uint64_t bad = 0;
    while (!weir_items_flush_semaphore)
        usleep(1000);
    for (int i = 0; i < 100000; i++)
        bad += leaf(0, 0, 0) != 0;
    const char *said = bad ? "corrupted\n" : "unchanged\n";
    if (write(1, said, strlen(said)) < 0)
        exit(1);
}

/* A log that is plausible enough to be read, with records that are partly right. */
static void lie_in_log(struct weir_contract_log *log)
{
    scribble(log, sizeof *log);
    log->count = (weir_u32)(next() % 70);
    log->oldest_ticks = 1;
    if (next() % 2)
        log->base = next() % 1000;
    for (unsigned i = 0; i < WEIR_LOG_RECORDS; i++) {
        struct weir_contract_record *record = &log->records[i];
        record->tick_count = (weir_u8)(next() % 12);
        record->first = (weir_u16)(next() % 9);
        record->queue = (weir_u16)(next() % 3);
        record->weight = (weir_u32)(next() % 3);
        if (next() % 2)
            for (unsigned k = 0; k < WEIR_RECORD_TICKS; k++)
                record->ticks[k] = __builtin_ia32_rdtsc();
        if (next() % 2)
            record->push_ticks = record->ticks[0] - 1000;
    }
}

static void lie_in_tables(void)
{
    for (unsigned i = 0; i < 4; i++) {
        threads[i].tag = (weir_u32)next();
        threads[i].wait = (weir_u32)next();
        threads[i].pool = (weir_u32)(next() % 4);
        threads[i].generation = (weir_u32)(next() % 3);
        threads[i].tid = next() % 2 ? (weir_u32)syscall(SYS_gettid) : (weir_u32)next();
        threads[i].unstamped = next();
    }
    scribble(cells + next() % 8 * weir_contract.tag_count, sizeof *cells * weir_contract.tag_count);
    scribble(queues, sizeof queues);
    scribble(ways, sizeof ways);
    queues[0].sequence &= ~1u;
    queues[1].sequence &= ~1u;
    ways[0].sequence &= ~1u;
    weir_contract.thread_overflow = 0;
}

static void publish(void)
{
    struct weir_topology topology;
    struct weir_buffer *encoded = calloc(1, sizeof *encoded);
    synthetic_topology(&topology);
    if (weir_topology_write(&topology, encoded, NULL) != 0)
        exit(1);
    uint32_t tags = weir_topology_tag_count(&topology);
    cells = calloc((size_t)WEIR_THREAD_SLOTS * tags, sizeof *cells);
    weir_contract = (struct weir_contract){
        .magic = WEIR_CONTRACT_MAGIC, .major = WEIR_CONTRACT_MAJOR, .size = sizeof weir_contract, .topology = (uintptr_t)encoded->data,
        .topology_bytes = (weir_u32)encoded->length, .tag_count = tags, .threads = (uintptr_t)threads, .cells = (uintptr_t)cells,
        .logs = (uintptr_t)logs, .queues = (uintptr_t)queues, .ways = (uintptr_t)ways, .queue_count = 2, .way_count = 1, .shards = 1,
    };
}

int main(int argc, char **argv)
{
    const char *lie = argc > 1 ? argv[1] : "";
    publish();
    if (strcmp(lie, "magic") == 0)
        weir_contract.magic++;
    if (strcmp(lie, "major") == 0)
        weir_contract.major++;
    if (strcmp(lie, "topology") == 0)
        scribble((void *)(uintptr_t)weir_contract.topology, weir_contract.topology_bytes);
    if (strcmp(lie, "unmapped") == 0)
        weir_contract.cells = weir_contract.threads = 0x10000;
    if (strcmp(lie, "tags") == 0)
        weir_contract.tag_count++;
    if (strcmp(lie, "odd") == 0) {
        threads[0].generation = 1;
        queues[0].sequence = 1; /* a writer that never ends */
    }
    if (write(1, "ready\n", 6) != 6)
        return 1;
    if (strcmp(lie, "leaf") == 0)
        keep_data_below_the_stack();
    bool storms = strcmp(lie, "storm") == 0;
    for (;;) {
        if (!storms) {
            usleep(1000);
            continue;
        }
        lie_in_tables();
        lie_in_log(&logs[next() % 8]);
        flush(next() % 4 ? next() % 8 : next(), next(), next() % 4 ? next() % 65 : next());
        start(next() % 4 ? next() % 8 : next(), next());
        if (next() % 16 == 0)
            usleep(50);
    }
}
