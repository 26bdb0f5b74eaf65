/*
 * DESIGN. Everything that takes time is an event of the clock: a burst of CPU time of a thread, a thread's sleep, a slot's service, a
 * client's next request. Between two events things happen at once: a thread without work takes the next item (fetch), runs its steps
 * until one takes time, and goes on there when that time is over. It is rid of its item when that was pushed into a queue, given to a
 * slot, or answered. Whoever is woken by that goes onto the list of the ready, and has its turn before time passes.
 *
 * Items, threads and connections are indexes into arrays; what waits, waits in first-in first-out lists. A connection whose item found
 * its queue full is parked, as in a real server: its loop goes on with the others, and reads it again when that item has found room.
 */
#include "tracer/simulate_world.h"

#include <math.h>
#include <stdlib.h>

void weir_world_append(struct list *list, uint32_t *next, uint32_t index)
{
    next[index] = NONE;
    if (list->count++)
        next[list->last] = index;
    else
        list->first = index;
    list->last = index;
}

static uint32_t take(struct list *list, const uint32_t *next)
{
    if (!list->count)
        return NONE;
    uint32_t index = list->first;
    list->first = next[index];
    list->count--;
    return index;
}

static void use(struct world *world, uint32_t index, enum use now)
{
    struct thread *thread = &world->threads[index];
    world->pools[thread->pool].count[thread->use]--;
    world->pools[thread->pool].count[now]++;
    thread->use = now;
}

/* --- threads ------------------------------------------------------------------------------------------------------------------ */

/* The thread needs CPU time, and then goes on at `phase`. False: it needs none. */
static bool burst(struct world *world, uint32_t index, double ns, uint32_t label, enum phase phase)
{
    struct thread *thread = &world->threads[index];
    if (!(ns > 0))
        return false;
    thread->phase = phase;
    thread->burst_ns = ns;
    thread->label = label;
    use(world, index, RUNNING);
    weir_clock_burst(&world->clock, ns, EVENT_CPU, index);
    return true;
}

static const struct weir_simulate_way *way_of(const struct world *world, uint32_t item)
{
    return &world->model->ways[world->connections[world->items[item].connection].way];
}

/* Its turn comes before time passes. */
static void make_ready(struct world *world, uint32_t index)
{
    use(world, index, RUNNING);
    weir_world_append(&world->ready, world->thread_next, index);
}

/* An idle thread has work: it comes, late, and goes on after what waking up costs it. */
static void wake(struct world *world, uint32_t index, double late_ns, double woken_ns, uint32_t label)
{
    struct thread *thread = &world->threads[index];
    thread->comes = true;
    thread->burst_ns = woken_ns;
    thread->label = label;
    weir_clock_after(&world->clock, late_ns, EVENT_WOKEN, index);
}

static bool sleeps(const struct world *world, uint32_t thread)
{
    return world->threads[thread].use == IDLE && !world->threads[thread].comes;
}

/* A listening thread has something to receive or to send. */
static void give_task(struct world *world, uint32_t thread, uint32_t item, double late_ns)
{
    weir_world_append(&world->threads[thread].tasks, world->item_next, item);
    if (sleeps(world, thread))
        wake(world, thread, late_ns, 0, 0);
}

/* --- connections -------------------------------------------------------------------------------------------------------------- */

static uint32_t new_item(struct world *world, uint32_t connection)
{
    uint32_t item = take(&world->free_items, world->item_next);
    if (item == NONE && world->item_count == world->item_capacity) {
        uint32_t capacity = world->item_capacity ? world->item_capacity * 2 : 1024;
        struct item *items = realloc(world->items, capacity * sizeof *items);
        world->items = items ? items : world->items;
        uint32_t *next = items ? realloc(world->item_next, capacity * sizeof *next) : NULL;
        world->item_next = next ? next : world->item_next;
        world->failed |= !next;
        if (world->failed)
            return NONE;
        world->item_capacity = capacity;
    }
    if (item == NONE)
        item = world->item_count++;
    world->items[item] = (struct item){ .connection = connection, .later = NONE, .slot = NONE, .sent_ns = world->clock.now_ns };
    return item;
}

/* The client sends a request. */
static void request(struct world *world, uint32_t index)
{
    struct connection *connection = &world->connections[index];
    uint32_t item = new_item(world, index);
    if (item == NONE)
        return;
    world->under_way[connection->way]++;
    if (connection->parked || connection->unread.count)
        weir_world_append(&connection->unread, world->item_next, item);
    else
        give_task(world, connection->thread, item, 0);
}

/* The connection is read: the next of its requests may be received. */
static void read_on(struct world *world, uint32_t index)
{
    struct connection *connection = &world->connections[index];
    uint32_t item = connection->parked ? NONE : take(&connection->unread, world->item_next);
    if (item != NONE)
        give_task(world, connection->thread, item, 0);
}

static void receive(struct world *world, uint32_t item)
{
    struct connection *connection = &world->connections[world->items[item].connection];
    if (connection->oldest == NONE)
        connection->oldest = item;
    else
        world->items[connection->newest].later = item;
    connection->newest = item;
}

/* It has its answer; those that now are the oldest of their connection, and have theirs, are sent. */
static void answer(struct world *world, uint32_t item)
{
    struct connection *connection = &world->connections[world->items[item].connection];
    const struct weir_simulate_way *way = way_of(world, item);
    const struct weir_simulate_step *last = &way->steps[way->step_count - 1];
    world->items[item].done = true;
    while (connection->oldest != NONE && world->items[connection->oldest].done) {
        uint32_t sent = connection->oldest;
        connection->oldest = world->items[sent].later;
        give_task(world, connection->thread, sent, last->late_ns);
    }
}

static void refuse(struct world *world, uint32_t item)
{
    world->items[item].refused = true;
    answer(world, item);
}

/* The answer has left. */
static void finish(struct world *world, uint32_t item)
{
    const struct weir_simulate_way *way = way_of(world, item);
    uint32_t index = world->items[item].connection, number = world->connections[index].way;
    struct weir_simulate_way_result *result = &world->result->ways[number];
    world->under_way[number]--;
    world->answered++;
    if (world->items[item].refused) {
        result->refused++;
    } else {
        result->answered++;
        weir_histogram_add(&result->latency, (uint64_t)(world->clock.now_ns - world->items[item].sent_ns), 1);
    }
    weir_world_append(&world->free_items, world->item_next, item);
    if (way->window)
        weir_clock_after(&world->clock, weir_clock_draw(&world->clock, &way->think), EVENT_REQUEST, index);
}

/* --- queues ------------------------------------------------------------------------------------------------------------------- */

static void put(struct world *world, uint32_t queue, uint32_t item)
{
    const struct weir_simulate_queue *shape = &world->model->queues[queue];
    struct pool *to = &world->pools[shape->to_pool];
    world->items[item].step++;
    weir_world_append(&world->queues[queue].items, world->item_next, item);
    uint32_t sleeper = take(&to->idle, world->thread_next);
    if (sleeper != NONE)
        wake(world, sleeper, shape->late_ns, shape->woken_ns, shape->label);
}

/* There is room again: who waited longest comes first. */
static void make_room(struct world *world, uint32_t index)
{
    struct queue *queue = &world->queues[index];
    uint32_t thread = take(&queue->blocked, world->thread_next);
    if (thread != NONE) {
        put(world, index, world->threads[thread].item);
        world->threads[thread].item = NONE;
        make_ready(world, thread);
        return;
    }
    uint32_t item = take(&queue->parked, world->item_next);
    if (item != NONE) {
        uint32_t connection = world->items[item].connection;
        put(world, index, item);
        world->connections[connection].parked = false;
        read_on(world, connection);
    }
}

/* The thread pushes its item. False: it has to wait for room. */
static bool push(struct world *world, uint32_t thread, uint32_t index)
{
    const struct weir_simulate_queue *shape = &world->model->queues[index];
    struct queue *queue = &world->queues[index];
    uint32_t item = world->threads[thread].item;
    if (queue->items.count < shape->limit) {
        put(world, index, item);
    } else if (shape->full == WEIR_SIMULATE_REFUSE_NEW) {
        refuse(world, item);
    } else if (shape->full == WEIR_SIMULATE_REFUSE_OLD) {
        refuse(world, take(&queue->items, world->item_next));
        put(world, index, item);
    } else if (world->model->pools[world->threads[thread].pool].listens) {
        world->connections[world->items[item].connection].parked = true;
        weir_world_append(&queue->parked, world->item_next, item);
    } else {
        weir_world_append(&queue->blocked, world->thread_next, thread);
        use(world, thread, BLOCKED);
        return false;
    }
    return true;
}

/* --- slots -------------------------------------------------------------------------------------------------------------------- */

uint32_t weir_world_capacity(const struct weir_simulate_slots *slots)
{
    return slots->connections * slots->in_flight;
}

/* The connection with the fewest requests takes the item; there is a free slot. */
static void serve(struct world *world, uint32_t index, uint32_t item)
{
    const struct weir_simulate_slots *shape = &world->model->slots[index];
    struct slots *slots = &world->slots[index];
    uint32_t least = 0;
    for (uint32_t i = 1; i < shape->connections; i++)
        if (slots->in_use[i] < slots->in_use[least])
            least = i;
    slots->in_use[least]++;
    slots->total++;
    double *free_at_ns = &slots->free_at_ns[shape->shared ? 0 : least];
    *free_at_ns = fmax(*free_at_ns, world->clock.now_ns) + weir_clock_draw(&world->clock, &shape->serial);
    world->items[item].slot = least;
    weir_clock_after(&world->clock, *free_at_ns - world->clock.now_ns + weir_clock_draw(&world->clock, &shape->delay),
                     EVENT_SERVED, item);
}

static bool take_slot(struct world *world, uint32_t thread, uint32_t index)
{
    struct slots *slots = &world->slots[index];
    if (slots->total < weir_world_capacity(&world->model->slots[index])) {
        serve(world, index, world->threads[thread].item);
        return true;
    }
    weir_world_append(&slots->starved, world->thread_next, thread);
    use(world, thread, STARVED);
    return false;
}

/* An item is back; its slot goes to whoever waits, and it goes on in the pool that sent it. */
static void served(struct world *world, uint32_t item)
{
    const struct weir_simulate_step *step = &way_of(world, item)->steps[world->items[item].step];
    struct slots *slots = &world->slots[step->slots];
    slots->in_use[world->items[item].slot]--;
    slots->total--;
    world->items[item].step++;
    struct pool *pool = &world->pools[world->model->slots[step->slots].pool];
    weir_world_append(&pool->served, world->item_next, item);
    uint32_t sleeper = take(&pool->idle, world->thread_next);
    if (sleeper != NONE)
        wake(world, sleeper, 0, 0, 0);
    uint32_t thread = take(&slots->starved, world->thread_next);
    if (thread != NONE) {
        serve(world, step->slots, world->threads[thread].item);
        world->threads[thread].item = NONE;
        make_ready(world, thread);
    }
}

/* --- locks -------------------------------------------------------------------------------------------------------------------- */

/* False: another thread has it. */
static bool take_lock(struct world *world, uint32_t thread, uint32_t index)
{
    struct lock *lock = &world->locks[index];
    if (lock->held) {
        weir_world_append(&lock->waiting, world->thread_next, thread);
        use(world, thread, ASLEEP);
        return false;
    }
    lock->held = true;
    world->items[world->threads[thread].item].step++;
    return true;
}

/* It goes to whoever waits for it. */
static void release_lock(struct world *world, uint32_t thread, uint32_t index)
{
    struct lock *lock = &world->locks[index];
    uint32_t next = take(&lock->waiting, world->thread_next);
    world->items[world->threads[thread].item].step++;
    lock->held = next != NONE;
    if (next == NONE)
        return;
    world->items[world->threads[next].item].step++;
    make_ready(world, next);
}

/* --- what threads do ---------------------------------------------------------------------------------------------------------- */

/* An item of the pool's queues, each in its turn; what is back from its slot goes first. */
static uint32_t next_item(struct world *world, uint32_t pool_index)
{
    struct pool *pool = &world->pools[pool_index];
    uint32_t item = take(&pool->served, world->item_next), queues = world->model->queue_count;
    for (uint32_t i = 0; i < queues && item == NONE; i++) {
        uint32_t queue = (pool->turn + i) % queues;
        if (world->model->queues[queue].to_pool != pool_index || !world->queues[queue].items.count)
            continue;
        item = take(&world->queues[queue].items, world->item_next);
        pool->turn = queue + 1;
        make_room(world, queue);
    }
    return item;
}

/* What a listening thread does next: it sends an answer, or receives a request. */
static uint32_t next_task(struct world *world, uint32_t index)
{
    for (;;) {
        uint32_t item = take(&world->threads[index].tasks, world->item_next);
        if (item == NONE || world->items[item].done)
            return item;
        struct connection *connection = &world->connections[world->items[item].connection];
        if (!connection->parked) {
            receive(world, item);
            return item;
        }
        weir_world_append(&connection->unread, world->item_next, item);
    }
}

/* Finds the thread an item, or lets it idle. */
static bool fetch(struct world *world, uint32_t index)
{
    struct thread *thread = &world->threads[index];
    bool listens = world->model->pools[thread->pool].listens;
    thread->item = listens ? next_task(world, index) : next_item(world, thread->pool);
    if (thread->item != NONE)
        return true;
    use(world, index, IDLE);
    if (!listens)
        weir_world_append(&world->pools[thread->pool].idle, world->thread_next, index);
    return false;
}

/* Whoever hands over to a pool that sleeps has to wake it, once. */
static bool pays_for_waking(struct world *world, uint32_t index, bool sleeps, double ns, uint32_t label)
{
    struct thread *thread = &world->threads[index];
    if (!sleeps || thread->woke)
        return false;
    thread->woke = true;
    return burst(world, index, ns, label, WAKING);
}

static const struct weir_simulate_step *step_of(const struct world *world, uint32_t item)
{
    return &way_of(world, item)->steps[world->items[item].step];
}

/* What comes behind the CPU time of a WORK step. False: the thread sleeps. */
static bool after_work(struct world *world, uint32_t index)
{
    uint32_t item = world->threads[index].item;
    double ns = weir_clock_draw(&world->clock, &step_of(world, item)->sleep);
    if (ns > 0) {
        use(world, index, ASLEEP);
        weir_clock_after(&world->clock, ns, EVENT_SLEPT, index);
        return false;
    }
    world->items[item].step++;
    return true;
}

enum outcome { GOES_ON, TAKES_TIME, IS_RID };

static enum outcome do_step(struct world *world, uint32_t index)
{
    struct thread *thread = &world->threads[index];
    const struct weir_simulate_step *step = step_of(world, thread->item);
    uint32_t loop = world->connections[world->items[thread->item].connection].thread;
    switch (step->kind) {
    case WEIR_SIMULATE_WORK:
        return !burst(world, index, weir_clock_draw(&world->clock, &step->cpu), step->label, WORKED) && after_work(world, index) ? GOES_ON :
                                                                                                                                TAKES_TIME;
    case WEIR_SIMULATE_PUSH: {
        const struct weir_simulate_queue *queue = &world->model->queues[step->queue];
        if (pays_for_waking(world, index, world->pools[queue->to_pool].idle.count > 0, queue->wake_ns, queue->label))
            return TAKES_TIME;
        return push(world, index, step->queue) ? IS_RID : TAKES_TIME;
    }
    case WEIR_SIMULATE_SLOT:
        return take_slot(world, index, step->slots) ? IS_RID : TAKES_TIME;
    case WEIR_SIMULATE_LOCK:
        return take_lock(world, index, step->lock) ? GOES_ON : TAKES_TIME;
    case WEIR_SIMULATE_UNLOCK:
        release_lock(world, index, step->lock);
        return GOES_ON;
    case WEIR_SIMULATE_ANSWER:
        if (pays_for_waking(world, index, sleeps(world, loop), step->wake_ns, step->label))
            return TAKES_TIME;
        answer(world, thread->item);
        return IS_RID;
    }
    return IS_RID;
}

/* Sends an answer. False: that takes time. */
static bool send_back(struct world *world, uint32_t index)
{
    uint32_t item = world->threads[index].item;
    const struct weir_simulate_way *way = way_of(world, item);
    const struct weir_simulate_step *last = &way->steps[way->step_count - 1];
    if (burst(world, index, weir_clock_draw(&world->clock, &last->send), last->send_label, SENT))
        return false;
    finish(world, item);
    return true;
}

/* The thread goes on until something takes time. */
static void go(struct world *world, uint32_t index)
{
    struct thread *thread = &world->threads[index];
    bool listens = world->model->pools[thread->pool].listens;
    while (thread->item != NONE || fetch(world, index)) {
        uint32_t connection = world->items[thread->item].connection;
        if (listens && world->items[thread->item].done) {
            if (!send_back(world, index))
                return;
        } else {
            enum outcome outcome;
            do
                outcome = do_step(world, index);
            while (outcome == GOES_ON);
            if (outcome == TAKES_TIME)
                return;
            if (listens)
                read_on(world, connection);
        }
        thread->item = NONE;
        thread->woke = false;
    }
}

/* --- events ------------------------------------------------------------------------------------------------------------------- */

static void burst_ended(struct world *world, uint32_t index)
{
    struct thread *thread = &world->threads[index];
    world->result->label_cpu_ns[thread->label] += thread->burst_ns;
    world->result->cpu_ns += thread->burst_ns;
    if (thread->phase == SENT) {
        finish(world, thread->item);
        thread->item = NONE;
    } else if (thread->phase == WORKED && !after_work(world, index)) {
        return;
    }
    make_ready(world, index);
}

static void arrive(struct world *world, uint32_t index)
{
    const struct weir_simulate_way *way = &world->model->ways[index];
    request(world, world->first_connection[index] + world->turn[index]++ % way->connections);
    weir_clock_after(&world->clock, -1e9 / way->rate_per_s * log(weir_clock_uniform(&world->clock)), EVENT_ARRIVAL, index);
}

void weir_world_handle(struct world *world, const struct weir_clock_event *event)
{
    switch (event->kind) {
    case EVENT_CPU:
        burst_ended(world, event->id);
        break;
    case EVENT_SLEPT:
        world->items[world->threads[event->id].item].step++;
        make_ready(world, event->id);
        break;
    case EVENT_WOKEN:
        world->threads[event->id].comes = false;
        if (!burst(world, event->id, world->threads[event->id].burst_ns, world->threads[event->id].label, WOKEN))
            make_ready(world, event->id);
        break;
    case EVENT_SERVED:
        served(world, event->id);
        break;
    case EVENT_REQUEST:
        request(world, event->id);
        break;
    case EVENT_ARRIVAL:
        arrive(world, event->id);
        break;
    }
    for (uint32_t thread; (thread = take(&world->ready, world->thread_next)) != NONE;)
        go(world, thread);
}

