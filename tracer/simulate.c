/* Builds the world of a model, plays it, and measures. What happens in it is simulate_flow.c. */
#include "tracer/simulate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "tracer/simulate_world.h"

/* --- the integrals ------------------------------------------------------------------------------------------------------------ */

/* Nothing changes for that long. */
static void pass(struct world *world, double ns)
{
    double rate = weir_clock_rate(&world->clock);
    for (uint32_t i = 0; i < world->model->pool_count; i++) {
        struct pool *pool = &world->pools[i];
        for (unsigned k = 0; k < USES; k++)
            pool->use_ns[k] += pool->count[k] * ns;
        pool->runnable_ns += pool->count[RUNNING] * ns * (1 - rate);
    }
    for (uint32_t i = 0; i < world->model->queue_count; i++)
        world->queues[i].depth_ns += world->queues[i].items.count * ns;
    for (uint32_t i = 0; i < world->model->slots_count; i++)
        if (world->slots[i].total == weir_world_capacity(&world->model->slots[i]))
            world->slots[i].full_ns += ns;
    for (uint32_t i = 0; i < world->model->lock_count; i++)
        world->locks[i].held_ns += world->locks[i].held ? ns : 0;
    for (uint32_t i = 0; i < world->model->way_count; i++)
        world->under_way_ns[i] += world->under_way[i] * ns;
}

/* The measurement begins here. */
static void forget(struct world *world)
{
    world->began_ns = world->clock.now_ns;
    for (uint32_t i = 0; i < world->model->pool_count; i++) {
        for (unsigned k = 0; k < USES; k++)
            world->pools[i].use_ns[k] = 0;
        world->pools[i].runnable_ns = 0;
    }
    for (uint32_t i = 0; i < world->model->queue_count; i++)
        world->queues[i].depth_ns = 0;
    for (uint32_t i = 0; i < world->model->slots_count; i++)
        world->slots[i].full_ns = 0;
    for (uint32_t i = 0; i < world->model->lock_count; i++)
        world->locks[i].held_ns = 0;
    for (uint32_t i = 0; i < world->model->way_count; i++) {
        world->under_way_ns[i] = 0;
        world->result->ways[i] = (struct weir_simulate_way_result){ 0 };
    }
    for (uint32_t i = 0; i < world->model->labels; i++)
        world->result->label_cpu_ns[i] = 0;
    world->result->cpu_ns = 0;
}

static void play(struct world *world, const struct weir_simulate_run *run)
{
    struct weir_clock_event event;
    bool measuring = false;
    while (!world->failed && !world->clock.failed) {
        double at_ns = weir_clock_peek(&world->clock);
        if (isinf(at_ns) || at_ns > run->most_ns)
            break;
        pass(world, at_ns - world->clock.now_ns);
        if (!weir_clock_next(&world->clock, &event))
            break;
        weir_world_handle(world, &event);
        if (!measuring && (world->answered >= run->warmup_items || world->clock.now_ns > run->most_ns / 4)) {
            measuring = true;
            world->answered = 0;
            forget(world);
        } else if (measuring && world->answered >= run->items) {
            break;
        }
    }
}

/* --- begin and end ------------------------------------------------------------------------------------------------------------ */

static void *room(struct world *world, size_t count, size_t size)
{
    void *piece = calloc(count + 1, size);
    world->failed |= !piece;
    return piece;
}

static void build_threads(struct world *world)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < world->model->pool_count; i++) {
        world->pools[i].first_thread = at;
        for (uint32_t k = 0; k < world->model->pools[i].threads; k++, at++) {
            world->threads[at] = (struct thread){ .pool = i, .item = NONE };
            world->pools[i].count[IDLE]++;
            if (!world->model->pools[i].listens)
                weir_world_append(&world->pools[i].idle, world->thread_next, at);
        }
    }
}

/* Connections are spread over the loops; a closed way's clients begin at moments of the first millisecond. */
static void build_connections(struct world *world)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < world->model->way_count; i++) {
        const struct weir_simulate_way *way = &world->model->ways[i];
        world->first_connection[i] = at;
        for (uint32_t k = 0; k < way->connections; k++, at++) {
            uint32_t loop = world->pools[way->pool].first_thread + k % world->model->pools[way->pool].threads;
            world->connections[at] = (struct connection){ .way = i, .thread = loop, .oldest = NONE, .newest = NONE };
            for (uint32_t w = 0; w < way->window; w++)
                weir_clock_after(&world->clock, 1e6 * weir_clock_uniform(&world->clock), EVENT_REQUEST, at);
        }
        if (!way->window && way->rate_per_s > 0 && way->connections)
            weir_clock_after(&world->clock, 0, EVENT_ARRIVAL, i);
    }
}

static void build(struct world *world)
{
    const struct weir_simulate_model *model = world->model;
    for (uint32_t i = 0; i < model->pool_count; i++)
        world->thread_count += model->pools[i].threads;
    for (uint32_t i = 0; i < model->way_count; i++)
        world->connection_count += model->ways[i].connections;
    world->pools = room(world, model->pool_count, sizeof *world->pools);
    world->queues = room(world, model->queue_count, sizeof *world->queues);
    world->slots = room(world, model->slots_count, sizeof *world->slots);
    world->locks = room(world, model->lock_count, sizeof *world->locks);
    world->threads = room(world, world->thread_count, sizeof *world->threads);
    world->thread_next = room(world, world->thread_count, sizeof *world->thread_next);
    world->connections = room(world, world->connection_count, sizeof *world->connections);
    world->first_connection = room(world, model->way_count, sizeof *world->first_connection);
    world->turn = room(world, model->way_count, sizeof *world->turn);
    world->under_way_ns = room(world, model->way_count, sizeof *world->under_way_ns);
    world->under_way = room(world, model->way_count, sizeof *world->under_way);
    world->result->ways = room(world, model->way_count, sizeof *world->result->ways);
    world->result->pools = room(world, model->pool_count, sizeof *world->result->pools);
    world->result->depth_mean = room(world, model->queue_count, sizeof(double));
    world->result->slots_full = room(world, model->slots_count, sizeof(double));
    world->result->lock_held = room(world, model->lock_count, sizeof(double));
    world->result->label_cpu_ns = room(world, model->labels, sizeof(double));
    for (uint32_t i = 0; i < model->slots_count && !world->failed; i++) {
        world->slots[i].in_use = room(world, model->slots[i].connections, sizeof(uint32_t));
        world->slots[i].free_at_ns = room(world, model->slots[i].connections, sizeof(double));
    }
    if (world->failed)
        return;
    build_threads(world);
    build_connections(world);
}

static void release(struct world *world)
{
    for (uint32_t i = 0; world->slots && i < world->model->slots_count; i++) {
        free(world->slots[i].in_use);
        free(world->slots[i].free_at_ns);
    }
    free(world->pools);
    free(world->queues);
    free(world->slots);
    free(world->locks);
    free(world->threads);
    free(world->thread_next);
    free(world->connections);
    free(world->first_connection);
    free(world->turn);
    free(world->under_way_ns);
    free(world->under_way);
    free(world->items);
    free(world->item_next);
    weir_clock_release(&world->clock);
}

static void conclude(struct world *world)
{
    struct weir_simulate_result *result = world->result;
    double ns = world->clock.now_ns - world->began_ns;
    result->duration_ns = ns;
    for (uint32_t i = 0; i < world->model->pool_count && ns > 0; i++) {
        const struct pool *pool = &world->pools[i];
        double whole_ns = ns * world->model->pools[i].threads;
        result->pools[i] = (struct weir_simulate_use){
            .running = (pool->use_ns[RUNNING] - pool->runnable_ns) / whole_ns, .runnable = pool->runnable_ns / whole_ns,
            .asleep = pool->use_ns[ASLEEP] / whole_ns, .blocked = pool->use_ns[BLOCKED] / whole_ns,
            .starved = pool->use_ns[STARVED] / whole_ns,
        };
    }
    for (uint32_t i = 0; i < world->model->queue_count && ns > 0; i++)
        result->depth_mean[i] = world->queues[i].depth_ns / ns;
    for (uint32_t i = 0; i < world->model->slots_count && ns > 0; i++)
        result->slots_full[i] = world->slots[i].full_ns / ns;
    for (uint32_t i = 0; i < world->model->lock_count && ns > 0; i++)
        result->lock_held[i] = world->locks[i].held_ns / ns;
    for (uint32_t i = 0; i < world->model->way_count && ns > 0; i++)
        result->ways[i].in_flight_mean = world->under_way_ns[i] / ns;
}

int weir_simulate(const struct weir_simulate_model *model, const struct weir_simulate_run *run, struct weir_simulate_result *result)
{
    struct world world = { .model = model, .result = result };
    *result = (struct weir_simulate_result){ 0 };
    weir_clock_init(&world.clock, model->cpus, run->seed);
    build(&world);
    if (!world.failed)
        play(&world, run);
    bool failed = world.failed || world.clock.failed;
    if (failed)
        weir_simulate_release(result);
    else
        conclude(&world);
    release(&world);
    return failed ? -ENOMEM : 0;
}

void weir_simulate_release(struct weir_simulate_result *result)
{
    free(result->ways);
    free(result->pools);
    free(result->depth_mean);
    free(result->slots_full);
    free(result->lock_held);
    free(result->label_cpu_ns);
    *result = (struct weir_simulate_result){ 0 };
}
