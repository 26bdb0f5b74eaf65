/*
 * DESIGN. Threads that take a lock in turn are a closed network: each is away for a while, waits, and holds the lock. How many wait on
 * average was measured, and how often the lock is taken: once an item. What remains of a thread's turn is split so that, by mean value
 * analysis, as many wait as did.
 */
#include "tracer/predict_lock.h"

#include <math.h>

#define HALVINGS 40
#define WAITED 0.01 /* of the pool's time: below that a lock is none that holds anybody up */

/* How many of `threads` wait, if each holds the lock for `held_ns` in a turn of `turn_ns` without waiting. Who holds it is met half way,
 * as service of constant length is. */
static double waiting(uint32_t threads, double held_ns, double turn_ns)
{
    double waits = 0, use = 0;
    for (uint32_t n = 1; n <= threads; n++) {
        double wait_ns = held_ns * (waits + use / 2);
        double rate = n / (turn_ns + wait_ns);
        waits = rate * wait_ns;
        use = fmin(rate * held_ns, 1);
    }
    return waits;
}

static const struct weir_profile_sleep *longest(const struct weir_profile *profile, uint32_t stage)
{
    const struct weir_profile_sleep *found = NULL;
    for (uint32_t i = 0; i < profile->sleep_count; i++) {
        const struct weir_profile_sleep *sleep = &profile->sleeps[i];
        const struct weir_profile_row *row = sleep->row < profile->row_count ? &profile->rows[sleep->row] : NULL;
        if (sleep->state == WEIR_STATE_LOCK && sleep->queue == WEIR_NONE && row && row->stage == stage && row->part == WEIR_PART_NONE &&
            (!found || sleep->ns > found->ns))
            found = sleep;
    }
    return found;
}

double weir_predict_held_ns(const struct weir_facts *facts, uint32_t stage, double most_ns)
{
    const struct weir_profile *profile = facts->profile;
    const struct weir_profile_sleep *sleep = longest(profile, stage);
    const struct weir_profile_row *row = weir_facts_row(profile, stage, WEIR_PART_NONE);
    if (!sleep || !row || !row->items || sleep->pool >= facts->topology->pool_count ||
        sleep->ns < WAITED * facts->pools[sleep->pool].whole_ns)
        return 0;
    uint32_t threads = profile->pools[sleep->pool].threads;
    double waits = sleep->ns / (double)profile->duration_ns, between_ns = (double)profile->duration_ns / (double)row->items;
    double turn_ns = (threads - waits) * between_ns, low = 0;
    double high = fmin(fmin(turn_ns, most_ns), between_ns); /* one has it at a time */
    for (int i = 0; i < HALVINGS; i++) {
        double middle = (low + high) / 2;
        if (waiting(threads, middle, turn_ns) < waits)
            low = middle;
        else
            high = middle;
    }
    return fmax(high, 0);
}
