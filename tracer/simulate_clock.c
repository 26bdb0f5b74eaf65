/*
 * DESIGN. Bursts that share the CPUs all proceed at the same rate, min(1, CPUs / bursts); so one virtual time serves them all, which
 * runs at that rate, and a burst ends when it has gone on by the burst's work. Nothing has to be moved when a burst comes or goes.
 */
#include "tracer/simulate_clock.h"

#include <math.h>
#include <stdlib.h>

void weir_clock_init(struct weir_clock *clock, double cpus, uint64_t seed)
{
    *clock = (struct weir_clock){ .cpus = fmax(cpus, 1e-3), .random = seed * 0x9e3779b97f4a7c15ull + 1 };
}

void weir_clock_release(struct weir_clock *clock)
{
    free(clock->timed.events);
    free(clock->bursts.events);
}

static bool before(const struct weir_clock_event *a, const struct weir_clock_event *b)
{
    return a->key < b->key || (a->key == b->key && a->order < b->order);
}

static void push(struct weir_clock *clock, struct weir_clock_heap *heap, struct weir_clock_event event)
{
    if (heap->count == heap->capacity) {
        uint32_t capacity = heap->capacity ? heap->capacity * 2 : 256;
        struct weir_clock_event *events = realloc(heap->events, capacity * sizeof *events);
        if (!events) {
            clock->failed = true;
            return;
        }
        heap->events = events;
        heap->capacity = capacity;
    }
    uint32_t at = heap->count++;
    for (; at && before(&event, &heap->events[(at - 1) / 2]); at = (at - 1) / 2)
        heap->events[at] = heap->events[(at - 1) / 2];
    heap->events[at] = event;
}

static struct weir_clock_event pop(struct weir_clock_heap *heap)
{
    struct weir_clock_event first = heap->events[0], last = heap->events[--heap->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count && before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!before(&heap->events[child], &last))
            break;
        heap->events[at] = heap->events[child];
        at = child;
    }
    heap->events[at] = last;
    return first;
}

void weir_clock_after(struct weir_clock *clock, double delay_ns, uint32_t kind, uint32_t id)
{
    push(clock, &clock->timed, (struct weir_clock_event){ clock->now_ns + fmax(delay_ns, 0), clock->order++, kind, id });
}

void weir_clock_burst(struct weir_clock *clock, double work_ns, uint32_t kind, uint32_t id)
{
    push(clock, &clock->bursts, (struct weir_clock_event){ clock->work_ns + fmax(work_ns, 0), clock->order++, kind, id });
}

double weir_clock_rate(const struct weir_clock *clock)
{
    return clock->bursts.count > clock->cpus ? clock->cpus / clock->bursts.count : 1;
}

static double burst_end(const struct weir_clock *clock)
{
    return clock->bursts.count ? clock->now_ns + (clock->bursts.events[0].key - clock->work_ns) / weir_clock_rate(clock) : INFINITY;
}

double weir_clock_peek(const struct weir_clock *clock)
{
    return fmin(burst_end(clock), clock->timed.count ? clock->timed.events[0].key : INFINITY);
}

bool weir_clock_next(struct weir_clock *clock, struct weir_clock_event *event)
{
    double burst_ns = burst_end(clock), timed_ns = clock->timed.count ? clock->timed.events[0].key : INFINITY;
    if (clock->failed || (isinf(burst_ns) && isinf(timed_ns)))
        return false;
    double to_ns = fmin(burst_ns, timed_ns);
    if (burst_ns <= timed_ns) {
        clock->work_ns = clock->bursts.events[0].key;
        *event = pop(&clock->bursts);
    } else {
        clock->work_ns += (to_ns - clock->now_ns) * weir_clock_rate(clock);
        *event = pop(&clock->timed);
    }
    clock->now_ns = to_ns;
    return true;
}

/* splitmix64 */
static uint64_t next_random(struct weir_clock *clock)
{
    uint64_t z = clock->random += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

double weir_clock_uniform(struct weir_clock *clock)
{
    return ((double)(next_random(clock) >> 11) + 0.5) / 9007199254740992.0;
}

double weir_clock_draw(struct weir_clock *clock, const struct weir_simulate_time *time)
{
    switch (time->shape) {
    case WEIR_SIMULATE_EXPONENTIAL:
        return -time->mean_ns * log(weir_clock_uniform(clock));
    case WEIR_SIMULATE_TABLE:
        if (time->factor_count)
            return time->mean_ns * time->factors[(uint32_t)(weir_clock_uniform(clock) * time->factor_count)];
        /* fall through */
    case WEIR_SIMULATE_CONSTANT:
        break;
    }
    return time->mean_ns;
}
