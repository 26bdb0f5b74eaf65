/*
 * DESIGN. Blocks that the server writes as seqlocks are read by one process_vm_readv in three pieces each: sequence, block,
 * sequence again. The kernel copies the pieces in order, so equal even sequences prove that nothing was written in between.
 */
#include "tracer/target.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/capabilities.h"

#define TOPOLOGY_MOST ((uint32_t)16 << 20)
#define SHARDS_MOST WEIR_THREAD_SLOTS
#define BLOCKS_AT_ONCE 64u
#define TRIES_MOST 200

static bool room_at(uint64_t address, uint64_t size)
{
    return address && address % 8 == 0 && address + size > address && address + size <= INT64_MAX;
}

int weir_target_check_contract(const struct weir_contract *contract, struct weir_error *error)
{
    if (contract->magic != WEIR_CONTRACT_MAGIC)
        return weir_error_set(error, WEIR_EXIT_CANNOT, EPROTO,
                              "the server's weir_contract is not one (its magic number is wrong)");
    if (contract->major != WEIR_CONTRACT_MAJOR)
        return weir_error_set(
            error, WEIR_EXIT_CANNOT, EPROTO,
            "the server speaks version %u of the contract and this weir speaks version %u; use the weir that built it",
            contract->major, WEIR_CONTRACT_MAJOR);
    if (contract->size >= sizeof *contract && contract->shards > SHARDS_MOST)
        return weir_error_set(error, WEIR_EXIT_CANNOT, E2BIG,
                              "the server has %u event loops, and weir can trace %u threads of a server at most; give its listening "
                              "pools fewer threads", contract->shards, WEIR_THREAD_SLOTS);
    if (contract->size < sizeof *contract || contract->topology_bytes == 0 || contract->topology_bytes > TOPOLOGY_MOST ||
        contract->tag_count == 0 || contract->tag_count > UINT32_MAX / WEIR_THREAD_SLOTS || contract->shards == 0 ||
        contract->queue_count > UINT16_MAX || contract->way_count > UINT16_MAX || contract->slot_count > UINT16_MAX)
        return weir_error_set(error, WEIR_EXIT_CANNOT, EPROTO, "the server's weir_contract has sizes that can't be");
    uint64_t tags = contract->tag_count;
    if (!contract->topology || contract->topology + contract->topology_bytes < contract->topology ||
        !room_at(contract->threads, WEIR_THREAD_SLOTS * sizeof(struct weir_contract_thread)) ||
        !room_at(contract->cells, WEIR_THREAD_SLOTS * tags * sizeof(struct weir_contract_cell)) ||
        !room_at(contract->logs, WEIR_THREAD_SLOTS * sizeof(struct weir_contract_log)) ||
        (contract->queue_count &&
         !room_at(contract->queues, (uint64_t)contract->queue_count * contract->shards * sizeof(struct weir_contract_queue))) ||
        (contract->way_count &&
         !room_at(contract->ways, (uint64_t)contract->way_count * contract->shards * sizeof(struct weir_contract_way))) ||
        (contract->slot_count && !room_at(contract->slots, contract->slot_count * sizeof(struct weir_contract_slots))))
        return weir_error_set(error, WEIR_EXIT_CANNOT, EPROTO, "the server's weir_contract has addresses that can't be");
    return 0;
}

int weir_target_check_topology(const struct weir_contract *contract, const struct weir_topology *topology,
                               struct weir_error *error)
{
    if (contract->tag_count != weir_topology_tag_count(topology) || contract->queue_count != topology->queue_count ||
        contract->way_count != topology->way_count || contract->slot_count != weir_topology_slots(topology))
        return weir_error_set(error, WEIR_EXIT_CANNOT, EPROTO,
                              "the server's weir_contract does not fit the pipelines that it carries");
    return 0;
}

static int find_contract(struct weir_target *target, struct weir_elf *elf, struct weir_error *error)
{
    struct weir_process *process = &target->process;
    uint64_t address, offset, base, start;
    if (!weir_elf_symbol(elf, WEIR_CONTRACT_SYMBOL, sizeof target->contract, &address))
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOENT,
                              "process %d (%s) is not a server that weir built: it exports no %s", (int)process->pid,
                              process->name, WEIR_CONTRACT_SYMBOL);
    target->bias = 0;
    if (weir_elf_is_shared(elf)) {
        weir_elf_base(elf, &offset, &base);
        if (!weir_process_mapping(process, offset, &start))
            return weir_error_set(error, WEIR_EXIT_CANNOT, ENOENT, "can't find where the executable of process %d is mapped",
                                  (int)process->pid);
        target->bias = start - base;
    }
    target->contract_address = address + target->bias;
    int rc = weir_process_read(process, target->contract_address, &target->contract, sizeof target->contract);
    if (rc == -EPERM || rc == -EACCES)
        return weir_capabilities_refused("the memory", (int)process->pid, error);
    if (rc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "can't read the contract of process %d: %s", (int)process->pid,
                              strerror(-rc));
    return weir_target_check_contract(&target->contract, error);
}

static int read_topology(struct weir_target *target, struct weir_error *error)
{
    const struct weir_contract *contract = &target->contract;
    void *data = weir_arena_alloc(&target->arena, contract->topology_bytes);
    if (!data)
        return weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "out of memory while reading the server's pipelines");
    int rc = weir_process_read(&target->process, contract->topology, data, contract->topology_bytes);
    if (rc)
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "can't read the pipelines of process %d: %s",
                              (int)target->process.pid, strerror(-rc));
    target->topology_data = data;
    struct weir_error inner = WEIR_ERROR_INIT;
    if ((rc = weir_topology_read(&target->topology, &target->arena, data, contract->topology_bytes, &inner)))
        return weir_error_set(error, WEIR_EXIT_CANNOT, -rc, "the pipelines that process %d carries can't be read: %s",
                              (int)target->process.pid, inner.text);
    return weir_target_check_topology(contract, &target->topology, error);
}

static void read_code(struct weir_target *target, struct weir_elf *elf)
{
    target->point_count = (uint32_t)weir_elf_points(elf, "weir", target->points, WEIR_TARGET_POINTS);
    weir_elf_code(elf, &target->code_segment, &target->code_text, &target->code_end);
    target->code_segment += target->bias;
    target->code_text += target->bias;
    target->code_end += target->bias;
}

int weir_target_open(struct weir_target *target, const char *name, struct weir_error *error)
{
    struct weir_elf *elf = NULL;
    pid_t pid = 0;
    memset(target, 0, sizeof *target);
    target->process.pidfd = target->process.exe_fd = target->process.mem_fd = -1;
    weir_arena_init(&target->arena, 0, SIZE_MAX);
    int rc = weir_process_find(name, &pid, error);
    if (!rc)
        rc = weir_process_open(&target->process, pid, error);
    if (!rc)
        rc = weir_elf_open(&elf, target->process.exe_fd, error);
    if (!rc)
        rc = find_contract(target, elf, error);
    if (!rc)
        rc = read_topology(target, error);
    if (!rc)
        read_code(target, elf);
    weir_elf_close(elf);
    if (rc)
        weir_target_close(target);
    return rc;
}

void weir_target_close(struct weir_target *target)
{
    weir_process_close(&target->process);
    weir_arena_release(&target->arena);
}

/* --- the tables ------------------------------------------------------------------------------------------------------------- */

int weir_target_read_threads(const struct weir_target *target, struct weir_contract_thread threads[WEIR_THREAD_SLOTS])
{
    return weir_process_read(&target->process, target->contract.threads, threads, WEIR_THREAD_SLOTS * sizeof *threads);
}

int weir_target_read_cells(const struct weir_target *target, uint32_t slot, struct weir_contract_cell *cells)
{
    size_t size = target->contract.tag_count * sizeof *cells;
    return weir_process_read(&target->process, target->contract.cells + slot * size, cells, size);
}

int weir_target_read_overflow(const struct weir_target *target, uint32_t *threads)
{
    return weir_process_read(&target->process, target->contract_address + offsetof(struct weir_contract, thread_overflow),
                             threads, sizeof *threads);
}

union block {
    uint32_t sequence;
    struct weir_contract_queue queue;
    struct weir_contract_way way;
    struct weir_contract_slots slots;
};
_Static_assert(sizeof(struct weir_contract_queue) == sizeof(union block) &&
                   sizeof(struct weir_contract_way) == sizeof(union block) &&
                   sizeof(struct weir_contract_slots) == sizeof(union block),
               "all kinds of block have one size");

/* Reads `count` (at most BLOCKS_AT_ONCE) consecutive blocks, each of them whole. */
static int read_blocks(const struct weir_target *target, uint64_t address, uint32_t count, union block *blocks)
{
    uint32_t before[BLOCKS_AT_ONCE], after[BLOCKS_AT_ONCE], index[BLOCKS_AT_ONCE];
    struct iovec local[3 * BLOCKS_AT_ONCE], remote[3 * BLOCKS_AT_ONCE];
    uint32_t left = count;
    for (uint32_t i = 0; i < count; i++)
        index[i] = i;
    for (int tries = 0; left && tries < TRIES_MOST; tries++) {
        for (uint32_t i = 0; i < left; i++) {
            uint32_t k = index[i];
            void *there = (void *)(uintptr_t)(address + k * sizeof *blocks);
            local[3 * i] = (struct iovec){ &before[k], sizeof before[k] };
            local[3 * i + 1] = (struct iovec){ &blocks[k], sizeof blocks[k] };
            local[3 * i + 2] = (struct iovec){ &after[k], sizeof after[k] };
            remote[3 * i] = remote[3 * i + 2] = (struct iovec){ there, sizeof before[k] };
            remote[3 * i + 1] = (struct iovec){ there, sizeof blocks[k] };
        }
        int rc = weir_process_read_pieces(&target->process, local, 3 * left, remote, 3 * left);
        if (rc)
            return rc;
        uint32_t torn = 0;
        for (uint32_t i = 0; i < left; i++) {
            uint32_t k = index[i];
            if ((before[k] & 1) || before[k] != after[k])
                index[torn++] = k;
        }
        left = torn;
    }
    return left ? -EAGAIN : 0;
}

static void add_queue(struct weir_profile_queue_count *sum, const struct weir_contract_queue *queue)
{
    sum->in += queue->in;
    sum->out += queue->out;
    sum->dropped += queue->dropped;
    sum->rejected += queue->rejected;
    sum->queued += queue->queued_items;
    sum->queued_bytes += queue->queued_bytes;
    sum->parked += queue->parked;
    sum->in_bytes += queue->in_bytes;
}

static void add_way(struct weir_profile_way_count *sum, const struct weir_contract_way *way)
{
    sum->accepted += way->accepted;
    sum->answered += way->answered;
    sum->abandoned += way->abandoned;
    sum->discarded += way->discarded;
    sum->in_flight += way->in_flight;
    sum->accepted_bytes += way->accepted_bytes;
    sum->malformed += way->malformed;
    sum->bad_lengths += way->bad_lengths;
    sum->connections += way->connections;
    sum->opened += way->opened;
    sum->events += way->events;
    sum->truncated += way->truncated;
    sum->kernel_drops += way->kernel_drops;
    sum->refused += way->refused;
    sum->failed_handshakes += way->failed_handshakes;
    sum->overlapped += way->overlapped;
}

/* Walks the [count][shards] blocks at `address` and sums each row's shards into `queues` or `ways`. */
static int read_table(const struct weir_target *target, uint64_t address, uint32_t count, struct weir_profile_queue_count *queues,
                      struct weir_profile_way_count *ways)
{
    union block blocks[BLOCKS_AT_ONCE];
    uint64_t total = (uint64_t)count * target->contract.shards;
    for (uint64_t first = 0; first < total; first += BLOCKS_AT_ONCE) {
        uint32_t some = total - first < BLOCKS_AT_ONCE ? (uint32_t)(total - first) : BLOCKS_AT_ONCE;
        int rc = read_blocks(target, address + first * sizeof *blocks, some, blocks);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < some; i++) {
            uint64_t row = (first + i) / target->contract.shards;
            if (queues)
                add_queue(&queues[row], &blocks[i].queue);
            else
                add_way(&ways[row], &blocks[i].way);
        }
    }
    return 0;
}

int weir_target_read_queues(const struct weir_target *target, struct weir_profile_queue_count *queues)
{
    memset(queues, 0, target->contract.queue_count * sizeof *queues);
    return read_table(target, target->contract.queues, target->contract.queue_count, queues, NULL);
}

int weir_target_read_ways(const struct weir_target *target, struct weir_profile_way_count *ways)
{
    memset(ways, 0, target->contract.way_count * sizeof *ways);
    return read_table(target, target->contract.ways, target->contract.way_count, NULL, ways);
}

static void set_slots(struct weir_profile_slot_count *to, const struct weir_contract_slots *from, uint64_t now_ns)
{
    *to = (struct weir_profile_slot_count){
        .taken = from->taken, .finished = from->finished, .failed = from->failed, .lost = from->lost, .retried = from->retried,
        .in_use = from->in_use, .open = from->open, .reconnects = from->reconnects, .waits = from->waits,
        .waited_ns = from->waited_ns, .full_ns = from->full_ns, .unfilled = from->unfilled,
        .alone_ns = from->alone_ns,
    };
    if (from->full_since_ns && now_ns > from->full_since_ns)
        to->full_ns += now_ns - from->full_since_ns;
}

int weir_target_read_slots(const struct weir_target *target, struct weir_profile_slot_count *slots, uint64_t now_ns)
{
    union block blocks[BLOCKS_AT_ONCE];
    for (uint32_t first = 0; first < target->contract.slot_count; first += BLOCKS_AT_ONCE) {
        uint32_t left = target->contract.slot_count - first, some = left < BLOCKS_AT_ONCE ? left : BLOCKS_AT_ONCE;
        int rc = read_blocks(target, target->contract.slots + first * sizeof *blocks, some, blocks);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < some; i++)
            set_slots(&slots[first + i], &blocks[i].slots, now_ns);
    }
    return 0;
}

int weir_target_read_slot_times(const struct weir_target *target, uint32_t index, struct weir_contract_slot_times *times)
{
    uint64_t at = target->contract.slots + index * sizeof(struct weir_contract_slots) + offsetof(struct weir_contract_slots, times);
    uint64_t address = 0;
    int rc = weir_process_read(&target->process, at, &address, sizeof address);
    return rc ? rc : weir_process_read(&target->process, address, times, sizeof *times);
}

int weir_target_read_log(const struct weir_target *target, uint32_t slot, uint64_t before_ticks, struct weir_contract_log *log)
{
    enum { HEADER = offsetof(struct weir_contract_log, records) };
    uint64_t address = target->contract.logs + slot * sizeof *log;
    log->count = 0;
    int rc = weir_process_read(&target->process, address, log, HEADER);
    if (rc || log->count == 0 || log->count > WEIR_LOG_RECORDS || log->oldest_ticks > before_ticks) {
        log->count = 0;
        return rc;
    }
    /* The count is read before the records and the base after them, as the contract's protocol asks. */
    uint64_t base_after;
    size_t records = sizeof log->records[0] * WEIR_LOG_RECORDS;
    struct iovec local[] = { { log, HEADER }, { log->records, records }, { &base_after, sizeof base_after } };
    struct iovec remote[] = { { (void *)(uintptr_t)address, HEADER }, { (void *)(uintptr_t)(address + HEADER), records },
                              { (void *)(uintptr_t)address, sizeof base_after } };
    rc = weir_process_read_pieces(&target->process, local, 3, remote, 3);
    if (rc || base_after != log->base || log->count > WEIR_LOG_RECORDS)
        log->count = 0;
    return rc;
}
