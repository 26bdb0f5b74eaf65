/* The thread that opens the connections of a stage with slots, one after the other; it may wait, and nobody waits for it. */
#include <poll.h>
#include <stdio.h>

#include "pipeline_dsl/runtime/slots.h"

#define COMPLAINT_NS 1000000000u

/* One line a second at most. */
static void complain(struct weir_slots *slots, const char *what)
{
    uint64_t now = weir_clock_ns();
    if (slots->complained_ns && now - slots->complained_ns < COMPLAINT_NS)
        return;
    slots->complained_ns = now;
    fprintf(stderr, "%s: %s; trying again\n", slots->plan->name, what);
}

/* A connection that is down; waits for one. Sets `*delays` when any was lost since the last. Null: the server ends. */
static struct weir_slots_line *wait_for_down(struct weir_slots *slots, struct weir_thread *thread, bool *delays)
{
    struct weir_slots_line *found = NULL;
    weir_mutex_lock(&slots->mutex);
    while (!slots->stopping) {
        for (uint32_t i = 0; i < slots->plan->connections && !found; i++)
            found = slots->lines[i].down ? &slots->lines[i] : NULL;
        if (found) {
            *delays |= slots->loses;
            slots->loses = false;
            break;
        }
        weir_thread_wait(thread, WEIR_WAIT_IDLE, WEIR_WAIT_LOOP);
        weir_mutex_wait(&slots->mutex, &slots->opener);
        weir_thread_sleep_end(thread);
    }
    weir_mutex_unlock(&slots->mutex);
    return found;
}

static void wait_to_try(struct weir_slots *slots, struct weir_thread *thread)
{
    struct pollfd end = { .fd = slots->cancel_fd, .events = POLLIN };
    if (__atomic_exchange_n(&slots->answered, false, __ATOMIC_RELAXED))
        weir_backoff_reset(&slots->backoff);
    weir_thread_sleep_begin(thread, WEIR_WAIT_IDLE, WEIR_WAIT_LOOP);
    poll(&end, 1, (int)(weir_backoff_delay(&slots->backoff) / 1000000u));
    weir_thread_sleep_end(thread);
}

void *weir_slots_open_lines(void *argument)
{
    struct weir_slots *slots = argument;
    struct weir_thread thread;
    struct weir_slots_line *line;
    bool delays = true; /* not behind one that has just come up */
    weir_slots_begin_thread(slots, &thread, WEIR_SLOTS_OPENS);
    while ((line = wait_for_down(slots, &thread, &delays))) {
        struct weir_error error = WEIR_ERROR_INIT;
        if (delays)
            wait_to_try(slots, &thread);
        weir_thread_sleep_begin(&thread, WEIR_WAIT_IO, 0);
        delays = slots->plan->kind->open(line, slots->cancel_fd, &error) != 0;
        weir_thread_sleep_end(&thread);
        if (delays)
            complain(slots, error.text);
        else
            weir_slots_up(line);
    }
    weir_thread_stop(&thread);
    __atomic_store_n(&slots->ended[WEIR_SLOTS_OPENS], true, __ATOMIC_RELEASE);
    return NULL;
}

int weir_slots_open_first(struct weir_slots *slots, struct weir_error *error)
{
    for (uint32_t i = 0; i < slots->plan->connections; i++) {
        struct weir_error said = WEIR_ERROR_INIT;
        int rc = slots->plan->kind->open(&slots->lines[i], slots->cancel_fd, &said);
        if (rc == 0) {
            weir_slots_up(&slots->lines[i]);
            continue;
        }
        if (said.exit == WEIR_EXIT_USAGE)
            return weir_error_set(error, said.exit, -rc, "%s: %s", slots->plan->name, said.text);
        complain(slots, said.text);
        break;
    }
    return 0;
}
