/*
 * target: a running server that weir built, as seen from outside through its contract (probes/contract.h).
 * It stands between the process and the session: it finds the contract, checks it, and reads its tables.
 *
 * Units: ns, bytes, items.
 * Owns: the process's descriptors, the topology and the trace points, until weir_target_close().
 * Threads: owner only.
 * Errors: WEIR_EXIT_CANNOT and a sentence at opening; the reads return -errno. Every word of the target is taken as hostile.
 */
#ifndef WEIR_TRACER_TARGET_H
#define WEIR_TRACER_TARGET_H

#include "base/arena.h"
#include "base/profile.h"
#include "base/topology.h"
#include "probes/contract.h"
#include "tracer/elf.h"
#include "tracer/process.h"

#define WEIR_TARGET_POINTS 256u

struct weir_target {
    struct weir_process process;
    struct weir_contract contract;
    uint64_t bias;             /* what to add to the file's addresses */
    uint64_t contract_address; /* in the process */
    struct weir_arena arena;
    struct weir_topology topology;
    const void *topology_data; /* as the contract carries it, so that a profile can take it over */
    struct weir_elf_point points[WEIR_TARGET_POINTS];
    uint32_t point_count;
    uint64_t code_segment, code_text, code_end; /* in the process, as weir_elf_code() has them */
};

/* `name`: a PID, a process name or the path of an executable. */
int weir_target_open(struct weir_target *target, const char *name, struct weir_error *error);
void weir_target_close(struct weir_target *target);

/* Checks what a contract says about itself against the topology it carries. */
int weir_target_check_contract(const struct weir_contract *contract, struct weir_error *error);
int weir_target_check_topology(const struct weir_contract *contract, const struct weir_topology *topology,
                               struct weir_error *error);

/* All thread slots. */
int weir_target_read_threads(const struct weir_target *target, struct weir_contract_thread threads[WEIR_THREAD_SLOTS]);
/* One slot's cells, [tag_count]. */
int weir_target_read_cells(const struct weir_target *target, uint32_t slot, struct weir_contract_cell *cells);
/* One snapshot of every queue or way in, shards summed. -EAGAIN: a block was being written each time that we looked. */
int weir_target_read_queues(const struct weir_target *target, struct weir_profile_queue_count *queues);
int weir_target_read_ways(const struct weir_target *target, struct weir_profile_way_count *ways);
/* The same for every pool of slots; a time at capacity that still lasts counts up to `now_ns`. */
int weir_target_read_slots(const struct weir_target *target, struct weir_profile_slot_count *slots, uint64_t now_ns);
/* How long in the pool of slots `index`. */
int weir_target_read_slot_times(const struct weir_target *target, uint32_t index, struct weir_contract_slot_times *times);
/* What waits in one slot's log. `log->count` records are good; 0 when it is empty or was handed over meanwhile. Reads the
 * records only if the oldest one was written before `before_ticks`. */
int weir_target_read_log(const struct weir_target *target, uint32_t slot, uint64_t before_ticks, struct weir_contract_log *log);
/* Threads that found no slot, by now. */
int weir_target_read_overflow(const struct weir_target *target, uint32_t *threads);

#endif
