/*
 * DESIGN. A thread's states are the sums that the scheduler's tracepoints made of each kind of sleep, and the kernel's own sum of its
 * time on a CPU. What these lack of the window is known, too: the hypervisor had stolen the CPU, or interrupts used it, from a thread
 * that ran; a thread that came or went within the window was elsewhere for the rest.
 *
 * The places tell the same time apart by where the thread was. They are read together with the sums, but hold no more places than
 * they have room for, so they are brought to the sums at the end: what they lack has no place.
 */
#include "tracer/states.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCALED_MOST 0.05 /* a smaller difference between places and sums is spread over the places */
#define ELSEWHERE "(elsewhere)"

static const enum weir_state state_of[WEIR_PROBE_OFF_KINDS] = {
    [WEIR_WAIT_NONE] = WEIR_STATE_OTHER, [WEIR_WAIT_IDLE] = WEIR_STATE_IDLE, [WEIR_WAIT_FULL] = WEIR_STATE_BACKPRESSURED,
    [WEIR_WAIT_SLOT] = WEIR_STATE_STARVED, [WEIR_WAIT_IO] = WEIR_STATE_IO, [WEIR_WAIT_LOCK] = WEIR_STATE_LOCK,
    [WEIR_WAIT_PAUSE] = WEIR_STATE_OTHER, [WEIR_PROBE_RUNNABLE] = WEIR_STATE_RUNNABLE,
};

/* One slot's states in the window. `there`: it had the same thread all the time. False: there was none. */
static bool slot_states(const struct weir_window *window, uint32_t slot, double states[WEIR_STATE_COUNT], bool *there)
{
    const struct weir_snapshot_thread *begin = &window->begin.threads[slot], *end = &window->last.threads[slot];
    double duration_ns = (double)window->profile->duration_ns, sum = 0;
    memset(states, 0, WEIR_STATE_COUNT * sizeof *states);
    if (!end->seen || end->pool >= window->profile->topology.pool_count)
        return false;
    states[WEIR_STATE_RUNNING] = (double)weir_profile_grown(begin->on_cpu_ns, end->on_cpu_ns);
    for (unsigned k = 0; k < WEIR_PROBE_OFF_KINDS; k++)
        states[state_of[k]] += (double)weir_profile_grown(begin->off_ns[k], end->off_ns[k]);
    for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
        sum += states[k];
    *there = begin->seen && begin->generation == end->generation;
    if (sum == 0 && !begin->seen)
        return false;
    if (*there && sum < duration_ns)
        states[WEIR_STATE_RUNNABLE] += duration_ns - sum;
    for (unsigned k = 0; sum > duration_ns && k < WEIR_STATE_COUNT; k++)
        states[k] *= duration_ns / sum;
    return true;
}

int weir_states_set(struct weir_window *window)
{
    struct weir_profile *profile = window->profile;
    profile->threads = weir_arena_zalloc(&profile->arena, WEIR_THREAD_SLOTS * sizeof *profile->threads);
    if (!profile->threads)
        return -ENOMEM;
    for (uint32_t slot = 0; slot < WEIR_THREAD_SLOTS; slot++) {
        const struct weir_snapshot_thread *begin = &window->begin.threads[slot], *end = &window->last.threads[slot];
        struct weir_profile_thread *thread = &profile->threads[profile->thread_count];
        double sum = 0;
        bool there;
        if (!slot_states(window, slot, thread->state_ns, &there))
            continue;
        thread->tid = end->tid;
        thread->pool = end->pool;
        thread->switches = weir_profile_grown(begin->switches, end->switches);
        thread->preempted = weir_profile_grown(begin->preempted, end->preempted);
        profile->thread_count++;
        struct weir_profile_pool *pool = &profile->pools[end->pool];
        pool->threads++;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++) {
            pool->state_ns[k] += thread->state_ns[k];
            sum += thread->state_ns[k];
        }
        if (!there)
            pool->state_ns[WEIR_STATE_OTHER] += (double)profile->duration_ns - sum;
    }
    return 0;
}

/* --- sleeps ----------------------------------------------------------------------------------------------------------------- */

struct sleeps {
    struct weir_window *window;
    struct weir_symbols *symbols;
    struct weir_profile_sleep *list;
    size_t count, capacity;
};

static int add(struct sleeps *sleeps, struct weir_profile_sleep sleep)
{
    if (sleeps->count == sleeps->capacity) {
        size_t capacity = sleeps->capacity ? 2 * sleeps->capacity : 256;
        struct weir_profile_sleep *list = realloc(sleeps->list, capacity * sizeof *list);
        if (!list)
            return -ENOMEM;
        sleeps->list = list;
        sleeps->capacity = capacity;
    }
    sleeps->list[sleeps->count++] = sleep;
    return 0;
}

static const char *name_site(struct sleeps *sleeps, uint64_t site)
{
    char text[512];
    if (!site)
        return NULL;
    weir_symbols_name(sleeps->symbols, site, 1, text, sizeof text);
    return weir_arena_dup(&sleeps->window->profile->arena, text, strlen(text));
}

static uint32_t slots_of(const struct weir_profile *profile, uint32_t stage)
{
    for (uint32_t i = 0; i < profile->slots_count; i++)
        if (profile->slots[i].stage == stage)
            return i;
    return WEIR_NONE;
}

/* What a place that a thread slept in is called in the profile, without a time. */
static struct weir_profile_sleep sleep_at(struct sleeps *sleeps, uint32_t pool, const struct weir_probe_place *place)
{
    const struct weir_profile *profile = sleeps->window->profile;
    uint32_t kind = place->wait & 0xff, object = place->wait >> 8;
    struct weir_profile_sleep sleep = { .pool = pool,
                                        .row = weir_rows_leaf(&sleeps->window->rows, place->tag),
                                        .state = state_of[kind],
                                        .queue = WEIR_NONE,
                                        .slots = WEIR_NONE };
    bool of_queue = kind == WEIR_WAIT_IDLE || kind == WEIR_WAIT_FULL || kind == WEIR_WAIT_LOCK;
    if (of_queue && object < profile->topology.queue_count)
        sleep.queue = object;
    if (kind == WEIR_WAIT_SLOT)
        sleep.slots = slots_of(profile, object);
    if (sleep.state == WEIR_STATE_LOCK || sleep.state == WEIR_STATE_IO || sleep.state == WEIR_STATE_OTHER)
        sleep.site = name_site(sleeps, place->site);
    return sleep;
}

static const struct weir_probe_place *same_place(const struct weir_probe_places *places, const struct weir_probe_place *place)
{
    static const struct weir_probe_place nothing;
    for (unsigned i = 0; places && i < WEIR_PROBE_PLACES; i++) {
        const struct weir_probe_place *at = &places->list[i];
        if (at->count && at->tag == place->tag && at->wait == place->wait && at->site == place->site)
            return at;
    }
    return &nothing;
}

/* Adds what the slot's places show of the window; the sums of each state go to `sums`. */
static int add_places(struct sleeps *sleeps, uint32_t slot, double sums[WEIR_STATE_COUNT])
{
    const struct weir_snapshot_thread *begin = &sleeps->window->begin.threads[slot], *end = &sleeps->window->last.threads[slot];
    int rc = 0;
    for (unsigned i = 0; !rc && end->places && i < WEIR_PROBE_PLACES; i++) {
        const struct weir_probe_place *to = &end->places->list[i], *from = same_place(begin->places, to);
        if (!to->count || (to->wait & 0xff) >= WEIR_PROBE_OFF_KINDS)
            continue;
        struct weir_profile_sleep sleep = sleep_at(sleeps, end->pool, to);
        double ns = (double)weir_profile_grown(from->ns, to->ns);
        double runnable_ns = (double)weir_profile_grown(from->runnable_ns, to->runnable_ns);
        if (sleep.state != WEIR_STATE_RUNNABLE && ns > 0) {
            sleep.ns = ns;
            sleep.count = weir_profile_grown(from->count, to->count);
            sums[sleep.state] += ns;
            rc = add(sleeps, sleep);
        }
        if (!rc && runnable_ns > 0) {
            sums[WEIR_STATE_RUNNABLE] += runnable_ns;
            rc = add(sleeps, (struct weir_profile_sleep){ .pool = sleep.pool,
                                                          .row = sleep.row,
                                                          .state = WEIR_STATE_RUNNABLE,
                                                          .queue = WEIR_NONE,
                                                          .slots = WEIR_NONE,
                                                          .ns = runnable_ns,
                                                          .count = weir_profile_grown(from->count, to->count) });
        }
    }
    return rc;
}

static int add_slot(struct sleeps *sleeps, uint32_t slot)
{
    double states[WEIR_STATE_COUNT], sums[WEIR_STATE_COUNT] = { 0 };
    size_t first = sleeps->count;
    bool there;
    if (!slot_states(sleeps->window, slot, states, &there))
        return 0;
    int rc = add_places(sleeps, slot, sums);
    for (unsigned k = WEIR_STATE_RUNNING + 1; !rc && k < WEIR_STATE_COUNT; k++) {
        double missing = states[k] - sums[k];
        bool scales = sums[k] > 0 && missing <= SCALED_MOST * sums[k];
        for (size_t i = first; scales && i < sleeps->count; i++)
            if (sleeps->list[i].state == k)
                sleeps->list[i].ns *= states[k] / sums[k];
        if (!scales && missing > 0)
            rc = add(sleeps, (struct weir_profile_sleep){ .pool = sleeps->window->last.threads[slot].pool,
                                                          .row = WEIR_ROW_RUNTIME,
                                                          .state = (enum weir_state)k,
                                                          .queue = WEIR_NONE,
                                                          .slots = WEIR_NONE,
                                                          .site = k == WEIR_STATE_RUNNABLE ? NULL : ELSEWHERE,
                                                          .ns = missing });
    }
    return rc;
}

static int compare(const struct weir_profile_sleep *x, const struct weir_profile_sleep *y)
{
    const uint32_t a[] = { x->pool, x->state, x->row, x->queue, x->slots }, b[] = { y->pool, y->state, y->row, y->queue, y->slots };
    for (size_t i = 0; i < sizeof a / sizeof *a; i++)
        if (a[i] != b[i])
            return a[i] < b[i] ? -1 : 1;
    return strcmp(x->site ? x->site : "", y->site ? y->site : "");
}

static int by_place(const void *a, const void *b)
{
    return compare(a, b);
}

/* Most time first, pool by pool. */
static int by_time(const void *a, const void *b)
{
    const struct weir_profile_sleep *x = a, *y = b;
    if (x->pool != y->pool)
        return x->pool < y->pool ? -1 : 1;
    return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : compare(x, y);
}

/* Threads of one pool that slept in the same place for the same reason share one entry. */
static size_t merge(struct weir_profile_sleep *list, size_t count)
{
    size_t kept = 0;
    if (count)
        qsort(list, count, sizeof *list, by_place);
    for (size_t i = 0; i < count; i++) {
        if (kept && compare(&list[kept - 1], &list[i]) == 0) {
            list[kept - 1].ns += list[i].ns;
            list[kept - 1].count += list[i].count;
        } else {
            list[kept++] = list[i];
        }
    }
    if (kept)
        qsort(list, kept, sizeof *list, by_time);
    return kept;
}

int weir_sleeps_set(struct weir_window *window, struct weir_symbols *symbols)
{
    struct weir_profile *profile = window->profile;
    struct sleeps sleeps = { .window = window, .symbols = symbols };
    int rc = 0;
    for (uint32_t slot = 0; !rc && slot < WEIR_THREAD_SLOTS; slot++)
        rc = add_slot(&sleeps, slot);
    if (!rc) {
        profile->sleep_count = (uint32_t)merge(sleeps.list, sleeps.count);
        profile->sleeps = weir_arena_alloc(&profile->arena, ((size_t)profile->sleep_count + 1) * sizeof *profile->sleeps);
        if (!profile->sleeps)
            rc = -ENOMEM;
        else if (profile->sleep_count)
            memcpy(profile->sleeps, sleeps.list, profile->sleep_count * sizeof *profile->sleeps);
    }
    free(sleeps.list);
    return rc;
}
