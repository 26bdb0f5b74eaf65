/* What a server counted, for people and tests that want to hold it against something else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "pipeline_dsl/runtime/seqlock.h"
#include "pipeline_dsl/runtime/server.h"

/* A pipeline file may have any name. */
static void print_string(struct weir_buffer *out, const char *text)
{
    weir_buffer_putc(out, '"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == '"' || *c == '\\')
            weir_buffer_printf(out, "\\u%04x", *c);
        else
            weir_buffer_putc(out, (char)*c);
    weir_buffer_putc(out, '"');
}

static void print_word(struct weir_buffer *out, const char *name, uint64_t value)
{
    weir_buffer_printf(out, ",\"%s\":%llu", name, (unsigned long long)value);
}

void weir_counters_way(const struct weir_plan *plan, uint32_t index, struct weir_contract_way *sum)
{
    struct weir_contract_way one;
    memset(sum, 0, sizeof *sum);
    for (uint32_t shard = 0; shard < plan->shards; shard++) {
        weir_seqlock_read(&plan->way_blocks[(size_t)index * plan->shards + shard], &one, sizeof one);
        sum->connections += one.connections;
        for (size_t i = 1; i < sizeof one / sizeof(weir_u64); i++)
            ((weir_u64 *)sum)[i] += ((const weir_u64 *)&one)[i];
    }
}

static void print_way(const struct weir_plan *plan, uint32_t index, struct weir_buffer *out)
{
    struct weir_contract_way sum;
    weir_counters_way(plan, index, &sum);
    weir_buffer_printf(out, "%s\n  {\"name\":\"%s\"", index ? "," : "", plan->ways[index].name);
    print_word(out, "accepted", sum.accepted);
    print_word(out, "answered", sum.answered);
    print_word(out, "abandoned", sum.abandoned);
    print_word(out, "discarded", sum.discarded);
    print_word(out, "in_flight", sum.in_flight);
    print_word(out, "accepted_bytes", sum.accepted_bytes);
    print_word(out, "malformed", sum.malformed);
    print_word(out, "bad_lengths", sum.bad_lengths);
    print_word(out, "truncated", sum.truncated);
    print_word(out, "kernel_drops", sum.kernel_drops);
    print_word(out, "refused", sum.refused);
    print_word(out, "failed_handshakes", sum.failed_handshakes);
    print_word(out, "connections", sum.connections);
    print_word(out, "opened", sum.opened);
    print_word(out, "events", sum.events);
    weir_buffer_puts(out, "}");
}

void weir_counters_queue(const struct weir_plan *plan, uint32_t index, struct weir_contract_queue *sum)
{
    struct weir_contract_queue one;
    memset(sum, 0, sizeof *sum);
    for (uint32_t shard = 0; shard < plan->shards; shard++) {
        weir_seqlock_read(&plan->queue_blocks[(size_t)index * plan->shards + shard], &one, sizeof one);
        for (size_t i = 1; i < sizeof one / sizeof(weir_u64); i++)
            ((weir_u64 *)sum)[i] += ((const weir_u64 *)&one)[i];
    }
}

static void print_queue(const struct weir_plan *plan, uint32_t index, struct weir_buffer *out)
{
    struct weir_contract_queue sum;
    weir_counters_queue(plan, index, &sum);
    weir_buffer_printf(out, "%s\n  {\"name\":\"%s\"", index ? "," : "", plan->queues[index].name);
    print_word(out, "in", sum.in);
    print_word(out, "out", sum.out);
    print_word(out, "dropped", sum.dropped);
    print_word(out, "rejected", sum.rejected);
    print_word(out, "queued", sum.queued_items);
    print_word(out, "queued_bytes", sum.queued_bytes);
    print_word(out, "parked", sum.parked);
    print_word(out, "in_bytes", sum.in_bytes);
    weir_buffer_puts(out, "}");
}

static void print_slots(const struct weir_plan *plan, uint32_t index, struct weir_buffer *out)
{
    struct weir_contract_slots block;
    weir_seqlock_read(&plan->slot_blocks[index], &block, sizeof block);
    weir_buffer_printf(out, "%s\n  {\"name\":\"%s\"", index ? "," : "", plan->slots[index].name);
    print_word(out, "connections", plan->slots[index].connections);
    print_word(out, "in_flight_limit", plan->slots[index].in_flight);
    print_word(out, "taken", block.taken);
    print_word(out, "finished", block.finished);
    print_word(out, "failed", block.failed);
    print_word(out, "lost", block.lost);
    print_word(out, "retried", block.retried);
    print_word(out, "in_use", block.in_use);
    print_word(out, "open", block.open);
    print_word(out, "reconnects", block.reconnects);
    print_word(out, "unfilled", block.unfilled);
    print_word(out, "alone_ns", block.alone_ns);
    print_word(out, "waits", block.waits);
    print_word(out, "waited_ns", block.waited_ns);
    print_word(out, "full_ns", block.full_ns + (block.full_since_ns ? weir_clock_ns() - block.full_since_ns : 0));
    weir_buffer_puts(out, "}");
}

static void print_tallies(const struct weir_plan *plan, uint32_t stage, struct weir_buffer *out)
{
    uint64_t values[WEIR_TALLY_MOST];
    for (uint32_t i = 0; i < plan->tally_count; i++) {
        const struct weir_plan_tally *tally = &plan->tallies[i];
        if (tally->stage != stage)
            continue;
        tally->read(tally->object, values);
        for (uint32_t k = 0; k < tally->count; k++)
            print_word(out, tally->names[k], values[k]);
    }
}

static void print_stage(const struct weir_plan *plan, uint32_t index, struct weir_buffer *out)
{
    uint64_t entries = 0, events = 0, own_cpu_ns = 0;
    uint32_t tags = weir_plan_tag_count(plan), tag = WEIR_TAG(WEIR_INSTANCE_FIRST + index, WEIR_PART_NONE);
    for (uint32_t slot = 0; slot < WEIR_THREAD_SLOTS; slot++) {
        const struct weir_contract_cell *cell = &plan->cells[(size_t)slot * tags + tag];
        entries += __atomic_load_n(&cell->entries, __ATOMIC_RELAXED);
        events += __atomic_load_n(&cell->events, __ATOMIC_RELAXED);
        own_cpu_ns += __atomic_load_n(&cell->own_cpu_ns, __ATOMIC_RELAXED);
    }
    weir_buffer_printf(out, "%s\n  {\"name\":\"%s\"", index ? "," : "", plan->stages[index]);
    print_word(out, "entries", entries);
    print_word(out, "events", events);
    print_word(out, "own_cpu_ns", own_cpu_ns);
    print_tallies(plan, WEIR_INSTANCE_FIRST + index, out);
    weir_buffer_puts(out, "}");
}

static void print_all(const struct weir_plan *plan, struct weir_buffer *out)
{
    struct timespec cpu;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    weir_buffer_puts(out, "{\"version\":1,\n \"pipeline\":");
    print_string(out, plan->name);
    weir_buffer_printf(out, ",\n \"cpu_ns\":%llu,\n \"thread_overflow\":%u,\n \"ways_in\":[",
                       (unsigned long long)cpu.tv_sec * 1000000000u + (unsigned long long)cpu.tv_nsec,
                       __atomic_load_n(&weir_contract.thread_overflow, __ATOMIC_RELAXED));
    for (uint32_t i = 0; i < plan->way_count + (plan->source_count > 0); i++)
        print_way(plan, i, out);
    weir_buffer_puts(out, "],\n \"queues\":[");
    for (uint32_t i = 0; i < plan->queue_count; i++)
        print_queue(plan, i, out);
    weir_buffer_puts(out, "],\n \"slots\":[");
    for (uint32_t i = 0; i < plan->slots_count; i++)
        print_slots(plan, i, out);
    weir_buffer_puts(out, "],\n \"stages\":[");
    for (uint32_t i = 0; i < plan->stage_count; i++)
        print_stage(plan, i, out);
    weir_buffer_puts(out, "]}\n");
}

int weir_counters_write(const struct weir_plan *plan, const char *path, struct weir_error *error)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    print_all(plan, &text);
    int rc = 0;
    if (text.failed)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "can't write the counters: no memory");
    else if (path)
        rc = weir_file_write(path, text.data, text.length, "the counters", error);
    else
        fwrite(text.data, 1, text.length, stderr);
    weir_buffer_release(&text);
    return rc;
}
