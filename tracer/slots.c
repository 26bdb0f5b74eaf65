#include "tracer/slots.h"

#include <errno.h>

int weir_slots_init(struct weir_profile *profile)
{
    const struct weir_topology *topology = &profile->topology;
    profile->slots_count = weir_topology_slots(topology);
    profile->slots = weir_arena_zalloc(&profile->arena, ((size_t)profile->slots_count + 1) * sizeof *profile->slots);
    if (!profile->slots)
        return -ENOMEM;
    uint32_t next = 0;
    for (uint32_t i = 0; i < topology->stage_count; i++)
        if (weir_topology_has_slots(&topology->stages[i]))
            profile->slots[next++].stage = i;
    return 0;
}

int weir_slots_look(struct weir_window *window, const struct weir_target *target, uint64_t now_ns)
{
    struct weir_profile *profile = window->profile;
    uint64_t gap_ns = now_ns > window->slots_read_ns ? now_ns - window->slots_read_ns : 0;
    if (!profile->slots_count)
        return 0;
    int rc = weir_target_read_slots(target, window->now.slots, now_ns);
    if (rc)
        return rc;
    window->slots_read_ns = now_ns;
    for (uint32_t i = 0; gap_ns && i < profile->slots_count; i++) {
        struct weir_profile_slots *slots = &profile->slots[i];
        weir_histogram_add(&slots->in_use, window->now.slots[i].in_use, gap_ns);
        slots->open_mean += (double)window->now.slots[i].open * (double)gap_ns; /* a sum, until the window ends */
    }
    return 0;
}

/* What was added to a histogram of the server between two readings; only buckets are known. */
static void add_times(struct weir_histogram *histogram, const weir_u64 *before, const weir_u64 *after)
{
    for (unsigned i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++) {
        uint64_t low = weir_histogram_low(i), next = i + 1 < WEIR_HISTOGRAM_BUCKETS ? weir_histogram_low(i + 1) : low + 1;
        if (after[i] > before[i])
            weir_histogram_add(histogram, low + (next - low) / 2, after[i] - before[i]);
    }
}

void weir_slots_set(struct weir_window *window)
{
    struct weir_profile *profile = window->profile;
    for (uint32_t i = 0; i < profile->slots_count; i++) {
        struct weir_profile_slots *slots = &profile->slots[i];
        slots->begin = window->begin.slots[i];
        slots->end = window->last.slots[i];
        slots->in_use_mean = slots->in_use.count ? weir_histogram_mean(&slots->in_use) : (double)slots->end.in_use;
        slots->open_mean = slots->in_use.count ? slots->open_mean / (double)slots->in_use.count : (double)slots->end.open;
        add_times(&slots->wait, window->begin.slot_times[i].wait, window->last.slot_times[i].wait);
        add_times(&slots->service, window->begin.slot_times[i].service, window->last.slot_times[i].service);
    }
}
