#include "viz/json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "viz/value.h"
#include "viz/view.h"

#define PRECISION 12 /* digits: more would show how doubles round */

static json_t *texts(const char *const *list, uint32_t n)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(array, weir_value_text(list[i]));
    return array;
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* Or are there only the server's own counters? */
static bool is_measured(const struct weir_profile *profile)
{
    return profile->mode != WEIR_MODE_COUNTERS;
}

static json_t *quantiles(const struct weir_histogram *histogram)
{
    if (!histogram || !histogram->count)
        return json_null();
    json_t *object = json_object();
    set(object, "p50", weir_value_number(weir_view_quantile(histogram, 0.5)));
    set(object, "p90", weir_value_number(weir_view_quantile(histogram, 0.9)));
    set(object, "p99", weir_value_number(weir_view_quantile(histogram, 0.99)));
    set(object, "p999", weir_value_number(weir_view_quantile(histogram, 0.999)));
    set(object, "max", weir_value_number(weir_view_max(histogram)));
    set(object, "mean", weir_value_number(weir_histogram_mean(histogram)));
    set(object, "count", weir_value_count(histogram->count));
    return object;
}

static json_t *target(const struct weir_profile *profile)
{
    static const char *const kinds[] = { "built", "bound", "marked" };
    json_t *object = json_object();
    set(object, "pid", weir_value_count(profile->pid));
    set(object, "exe", weir_value_text(profile->exe));
    set(object, "pipeline", weir_value_text(profile->topology.name));
    set(object, "kind", json_string(kinds[profile->kind]));
    set(object, "kernel", weir_value_text(profile->kernel));
    set(object, "cpus", weir_value_count(profile->cpus));
    return object;
}

static json_t *window(const struct weir_profile *profile)
{
    json_t *object = json_object();
    set(object, "duration_ns", weir_value_count(profile->duration_ns));
    set(object, "mode", json_string(weir_mode_name(profile->mode)));
    set(object, "cpu_ns", is_measured(profile) ? weir_value_count(profile->cpu_ns) : json_null());
    set(object, "start_unix_ns", weir_value_count(profile->start_unix_ns));
    set(object, "ended_by", weir_value_text(profile->ended_by));
    return object;
}

static json_t *kept_lost(uint64_t kept, uint64_t lost)
{
    json_t *object = json_object();
    set(object, "kept", weir_value_count(kept));
    set(object, "lost", weir_value_count(lost));
    return object;
}

static json_t *depth(const struct weir_histogram *histogram, double mean)
{
    json_t *object = json_object();
    bool any = histogram->count != 0;
    set(object, "mean", any ? weir_value_number(mean) : json_null());
    set(object, "p50", weir_value_number(weir_view_quantile(histogram, 0.5)));
    set(object, "p99", weir_value_number(weir_view_quantile(histogram, 0.99)));
    set(object, "max", weir_value_number(weir_view_max(histogram)));
    return object;
}

/* At random moments, of each open connection. */
static json_t *connections(const struct weir_profile_way *way)
{
    json_t *object = json_object();
    set(object, "in_flight", depth(&way->in_flight, weir_histogram_mean(&way->in_flight)));
    set(object, "receive_bytes", depth(&way->receive_bytes, weir_histogram_mean(&way->receive_bytes)));
    set(object, "send_bytes", depth(&way->send_bytes, weir_histogram_mean(&way->send_bytes)));
    return object;
}

static json_t *ways_in(const struct weir_profile *profile)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->topology.way_count; i++) {
        const struct weir_profile_way_count *begin = &profile->ways[i].begin, *end = &profile->ways[i].end;
        json_t *object = json_object(), *added = json_object();
        set(object, "name", weir_value_text(profile->topology.ways[i].name));
        set(object, "accepted", weir_value_count(end->accepted));
        set(object, "answered", weir_value_count(end->answered));
        set(object, "abandoned", weir_value_count(end->abandoned));
        set(object, "discarded", weir_value_count(end->discarded));
        set(object, "in_flight", weir_value_count(end->in_flight));
        set(object, "accepted_bytes", weir_value_count(end->accepted_bytes));
        set(object, "events", weir_value_count(end->events));
        set(object, "malformed", weir_value_count(end->malformed));
        set(object, "bad_lengths", weir_value_count(end->bad_lengths));
        set(object, "truncated", weir_value_count(end->truncated));
        set(object, "kernel_drops", weir_value_count(end->kernel_drops));
        set(object, "refused", weir_value_count(end->refused));
        set(object, "failed_handshakes", weir_value_count(end->failed_handshakes));
        set(object, "connections", weir_value_count(end->connections));
        set(object, "opened", weir_value_count(end->opened));
        set(added, "accepted", weir_value_count(weir_profile_grown(begin->accepted, end->accepted)));
        set(added, "answered", weir_value_count(weir_profile_grown(begin->answered, end->answered)));
        set(added, "abandoned", weir_value_count(weir_profile_grown(begin->abandoned, end->abandoned)));
        set(added, "discarded", weir_value_count(weir_profile_grown(begin->discarded, end->discarded)));
        set(added, "events", weir_value_count(weir_profile_grown(begin->events, end->events)));
        set(added, "overlapped", weir_value_count(weir_profile_grown(begin->overlapped, end->overlapped)));
        set(object, "overlapped", weir_value_count(end->overlapped));
        set(object, "per_connection", connections(&profile->ways[i]));
        set(object, "backlog", depth(&profile->ways[i].backlog, weir_histogram_mean(&profile->ways[i].backlog)));
        set(object, "round_trip_ns", depth(&profile->ways[i].round_trip, weir_histogram_mean(&profile->ways[i].round_trip)));
        set(object, "backlog_limit", profile->ways[i].backlog_limit ? weir_value_count(profile->ways[i].backlog_limit) : json_null());
        set(object, "window", added);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *hot_functions(const struct weir_profile_row *row)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < row->hot_count; i++) {
        json_t *object = json_object();
        set(object, "symbol", weir_value_text(row->hot[i].symbol));
        set(object, "share", weir_value_number(row->hot[i].share));
        set(object, "samples", weir_value_count(row->hot[i].samples));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *interval(double low, double high)
{
    json_t *array = json_array();
    json_array_append_new(array, weir_value_number(low));
    json_array_append_new(array, weir_value_number(high));
    return array;
}

/* Times below the cost of a stamp are not the target's: they read as that cost, which stands beside them. */
static json_t *service(const struct weir_profile *profile, const struct weir_histogram *histogram)
{
    if (!histogram || !histogram->count)
        return json_null();
    json_t *object = json_object();
    set(object, "p50", weir_value_number(fmax(weir_view_quantile(histogram, 0.5), profile->probe_floor_ns)));
    set(object, "p99", weir_value_number(fmax(weir_view_quantile(histogram, 0.99), profile->probe_floor_ns)));
    set(object, "max", weir_value_number(fmax(weir_view_max(histogram), profile->probe_floor_ns)));
    set(object, "floor", weir_value_number(profile->probe_floor_ns));
    set(object, "count", weir_value_count(histogram->count));
    return object;
}

static json_t *stages(const struct weir_profile *profile)
{
    const struct weir_topology *topology = &profile->topology;
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        bool counts = row->stage != WEIR_NONE && row->part == WEIR_PART_NONE, empty = weir_view_empty(profile);
        json_t *object = json_object();
        set(object, "name", weir_value_text(row->name));
        set(object, "part_of", row->part_of == WEIR_NONE ? json_null() : weir_value_text(profile->rows[row->part_of].name));
        set(object, "way_in", row->way == WEIR_NONE ? json_null() : weir_value_text(topology->ways[row->way].name));
        set(object, "pool", row->pool == WEIR_NONE ? json_null() : weir_value_text(topology->pools[row->pool].name));
        set(object, "cpu_share", weir_value_number(weir_view_share(profile, row)));
        set(object, "cpu_share_under", json_null());
        set(object, "cpu_share_ci95", empty ? json_null() : interval(row->share_low, row->share_high));
        set(object, "cpu_ns_per_item", weir_value_number(weir_view_ns_per_item(profile, row)));
        set(object, "cpu_ns_per_event", weir_value_number(weir_view_ns_per_event(profile, row)));
        set(object, "items_per_s", weir_value_number(weir_view_items_per_s(profile, row)));
        set(object, "service_ns", service(profile, row->service));
        set(object, "hot", hot_functions(row));
        set(object, "cpu_ns", empty ? json_null() : weir_value_number(row->cpu_ns));
        set(object, "own_cpu_ns", row->own_cpu_ns ? weir_value_count(row->own_cpu_ns) : json_null());
        set(object, "samples", weir_value_count(row->samples));
        set(object, "items", counts ? weir_value_count(row->items) : json_null());
        set(object, "events", counts && row->events ? weir_value_count(row->events) : json_null());
        set(object, "stamped", counts ? weir_value_count(row->stamped) : json_null());
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *edges(const struct weir_profile *profile)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->edge_count; i++) {
        const struct weir_profile_edge *edge = &profile->edges[i];
        json_t *object = json_object();
        set(object, "from", weir_value_text(profile->topology.stages[edge->from].full_name));
        set(object, "to", weir_value_text(profile->topology.stages[edge->to].full_name));
        set(object, "items_per_s", weir_value_number(weir_view_per_s(profile, (double)edge->items)));
        set(object, "bytes_per_s", weir_value_number(weir_view_per_s(profile, weir_view_edge_bytes(edge))));
        set(object, "events_per_s", edge->events ? weir_value_number(weir_view_per_s(profile, (double)edge->events)) : json_null());
        set(object, "items", weir_value_count(edge->items));
        set(object, "bytes", isfinite(weir_view_edge_bytes(edge)) ? weir_value_count(edge->bytes) : json_null());
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *queue_window(const struct weir_profile_queue *queue)
{
    json_t *object = json_object();
    set(object, "in", weir_value_count(weir_profile_grown(queue->begin.in, queue->end.in)));
    set(object, "out", weir_value_count(weir_profile_grown(queue->begin.out, queue->end.out)));
    set(object, "dropped", weir_value_count(weir_profile_grown(queue->begin.dropped, queue->end.dropped)));
    set(object, "rejected", weir_value_count(weir_profile_grown(queue->begin.rejected, queue->end.rejected)));
    return object;
}

/* Of the threads that slept on the queue; a reply ring's event loops sleep on much else. */
static json_t *wakeups(const struct weir_profile *profile, uint32_t index)
{
    const struct weir_profile_queue *queue = &profile->queues[index];
    if (profile->topology.queues[index].kind == WEIR_QUEUE_REPLY || !is_measured(profile))
        return json_null();
    json_t *object = json_object();
    set(object, "count", weir_value_count(queue->wakeups));
    set(object, "per_item", weir_value_number(weir_view_wakeups_per_item(profile, index)));
    set(object, "unused", weir_value_count(queue->wakeups_unused));
    set(object, "moved", weir_value_count(queue->wakeups_moved));
    return object;
}

static json_t *lock_waits(const struct weir_profile *profile, uint32_t index)
{
    json_t *object = json_object();
    set(object, "push", weir_value_number(weir_view_lock_ns_per_item(profile, index, WEIR_PART_PUSH)));
    set(object, "pop", weir_value_number(weir_view_lock_ns_per_item(profile, index, WEIR_PART_POP)));
    return object;
}

static json_t *queues(const struct weir_profile *profile)
{
    static const char *const kinds[] = { "handoff", "reply", "slots" };
    const struct weir_topology *topology = &profile->topology;
    json_t *array = json_array();
    for (uint32_t i = 0; i < topology->queue_count; i++) {
        const struct weir_topology_queue *shape = &topology->queues[i];
        const struct weir_profile_queue *queue = &profile->queues[i];
        json_t *object = json_object();
        set(object, "name", weir_value_text(shape->name));
        set(object, "kind", json_string(kinds[shape->kind]));
        set(object, "from_pool", shape->from_pool == WEIR_NONE ? json_null() : weir_value_text(topology->pools[shape->from_pool].name));
        set(object, "to_pool", shape->to_pool == WEIR_NONE ? json_null() : weir_value_text(topology->pools[shape->to_pool].name));
        set(object, "depth_items", depth(&queue->depth_items, queue->depth_items_mean));
        set(object, "depth_bytes", depth(&queue->depth_bytes, queue->depth_bytes_mean));
        set(object, "limit_items", shape->limit_items ? weir_value_count(shape->limit_items) : json_null());
        set(object, "limit_bytes", shape->limit_bytes ? weir_value_count(shape->limit_bytes) : json_null());
        set(object, "limit_per", json_string(shape->kind == WEIR_QUEUE_REPLY ? "connection" : "queue"));
        set(object, "fill", weir_value_number(weir_view_fill(profile, i)));
        set(object, "wait_ns", quantiles(&queue->wait));
        set(object, "wakeup_ns", quantiles(&queue->wakeup));
        set(object, "wakeups", wakeups(profile, i));
        set(object, "lock_ns_per_item", lock_waits(profile, i));
        set(object, "in", weir_value_count(queue->end.in));
        set(object, "out", weir_value_count(queue->end.out));
        set(object, "dropped", weir_value_count(queue->end.dropped));
        set(object, "rejected", weir_value_count(queue->end.rejected));
        set(object, "queued", weir_value_count(queue->end.queued));
        set(object, "queued_bytes", weir_value_count(queue->end.queued_bytes));
        set(object, "parked", weir_value_count(queue->end.parked));
        set(object, "unstamped", weir_value_count(queue->unstamped));
        set(object, "window", queue_window(queue));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *pools(const struct weir_profile *profile)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        json_t *object = json_object(), *states = json_object();
        set(object, "name", weir_value_text(profile->topology.pools[i].name));
        set(object, "threads", is_measured(profile) ? weir_value_count(profile->pools[i].threads) : json_null());
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            set(states, weir_state_name((enum weir_state)k), weir_value_number(weir_view_state(profile, i, (enum weir_state)k)));
        set(object, "states", states);
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *threads(const struct weir_profile *profile)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->thread_count; i++) {
        const struct weir_profile_thread *thread = &profile->threads[i];
        json_t *object = json_object(), *states = json_object();
        double sum = 0;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            sum += thread->state_ns[k];
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            set(states, weir_state_name((enum weir_state)k), weir_value_number(sum > 0 ? thread->state_ns[k] / sum : NAN));
        set(object, "tid", weir_value_count(thread->tid));
        set(object, "pool", weir_value_text(profile->topology.pools[thread->pool].name));
        set(object, "states", states);
        set(object, "switches", weir_value_count(thread->switches));
        set(object, "preempted", weir_value_count(thread->preempted));
        json_array_append_new(array, object);
    }
    return array;
}

/* Where the threads of each pool were off a CPU, and for what: `share` is of the pool's time. */
static json_t *sleeps(const struct weir_profile *profile)
{
    const struct weir_topology *topology = &profile->topology;
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->sleep_count; i++) {
        const struct weir_profile_sleep *sleep = &profile->sleeps[i];
        json_t *object = json_object();
        set(object, "pool", weir_value_text(topology->pools[sleep->pool].name));
        set(object, "row", weir_value_text(profile->rows[sleep->row].name));
        set(object, "state", weir_value_text(weir_state_name(sleep->state)));
        set(object, "queue", sleep->queue == WEIR_NONE ? json_null() : weir_value_text(topology->queues[sleep->queue].name));
        set(object, "slots", sleep->slots == WEIR_NONE ? json_null()
                                                       : weir_value_text(topology->stages[profile->slots[sleep->slots].stage].full_name));
        set(object, "site", sleep->site ? weir_value_text(sleep->site) : json_null());
        set(object, "share", weir_value_number(weir_view_sleep_share(profile, sleep)));
        set(object, "ns", weir_value_number(sleep->ns));
        set(object, "count", weir_value_count(sleep->count));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *machine(const struct weir_profile *profile)
{
    json_t *object = json_object(), *neighbours = json_array();
    bool known = profile->machine_busy_ns > 0;
    for (uint32_t i = 0; i < profile->neighbour_count; i++) {
        json_t *one = json_object();
        set(one, "pid", weir_value_count(profile->neighbours[i].pid));
        set(one, "name", weir_value_text(profile->neighbours[i].name));
        set(one, "cpu_ns", weir_value_number(profile->neighbours[i].cpu_ns));
        json_array_append_new(neighbours, one);
    }
    set(object, "busy_ns", known ? weir_value_number(profile->machine_busy_ns) : json_null());
    set(object, "steal_ns", known ? weir_value_number(profile->machine_steal_ns) : json_null());
    set(object, "neighbours", neighbours);
    return object;
}

static json_t *slots_window(const struct weir_profile_slot_count *begin, const struct weir_profile_slot_count *end)
{
    json_t *object = json_object();
    set(object, "taken", weir_value_count(weir_profile_grown(begin->taken, end->taken)));
    set(object, "finished", weir_value_count(weir_profile_grown(begin->finished, end->finished)));
    set(object, "failed", weir_value_count(weir_profile_grown(begin->failed, end->failed)));
    set(object, "lost", weir_value_count(weir_profile_grown(begin->lost, end->lost)));
    set(object, "retried", weir_value_count(weir_profile_grown(begin->retried, end->retried)));
    set(object, "reconnects", weir_value_count(weir_profile_grown(begin->reconnects, end->reconnects)));
    set(object, "waits", weir_value_count(weir_profile_grown(begin->waits, end->waits)));
    set(object, "waited_ns", weir_value_count(weir_profile_grown(begin->waited_ns, end->waited_ns)));
    return object;
}

static json_t *slots(const struct weir_profile *profile)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < profile->slots_count; i++) {
        const struct weir_profile_slots *slots = &profile->slots[i];
        const struct weir_topology_stage *stage = &profile->topology.stages[slots->stage];
        const struct weir_profile_slot_count *end = &slots->end;
        json_t *object = json_object();
        set(object, "stage", weir_value_text(stage->full_name));
        set(object, "connections", weir_value_count(stage->connections));
        set(object, "in_flight_limit", weir_value_count(stage->in_flight));
        set(object, "in_flight", depth(&slots->in_use, slots->in_use_mean));
        set(object, "full_share", weir_value_number(weir_view_slots_full(profile, slots)));
        set(object, "open_mean", slots->in_use.count ? weir_value_number(slots->open_mean) : json_null());
        set(object, "wait_ns", quantiles(&slots->wait));
        set(object, "service_ns", quantiles(&slots->service));
        set(object, "taken", weir_value_count(end->taken));
        set(object, "finished", weir_value_count(end->finished));
        set(object, "failed", weir_value_count(end->failed));
        set(object, "lost", weir_value_count(end->lost));
        set(object, "retried", weir_value_count(end->retried));
        set(object, "in_use", weir_value_count(end->in_use));
        set(object, "open", weir_value_count(end->open));
        set(object, "reconnects", weir_value_count(end->reconnects));
        set(object, "unfilled", weir_value_count(end->unfilled));
        set(object, "alone_ns", end->alone_ns ? weir_value_count(end->alone_ns) : json_null());
        set(object, "window", slots_window(&slots->begin, end));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *change(const char *line, const char *where)
{
    if (!line)
        return json_null();
    json_t *object = json_object();
    set(object, "line", weir_value_text(line));
    set(object, "where", weir_value_text(where));
    return object;
}

static json_t *verdict_object(const struct weir_verdict *verdict)
{
    if (!verdict)
        return json_null();
    json_t *object = json_object(), *causes = json_array();
    set(object, "kind", weir_value_text(verdict->kind));
    set(object, "stage", weir_value_text(verdict->stage));
    set(object, "text", weir_value_text(verdict->text));
    set(object, "evidence", texts(verdict->evidence, verdict->evidence_count));
    for (uint32_t i = 0; i < verdict->cause_count; i++) {
        const struct weir_verdict_cause *cause = &verdict->causes[i];
        json_t *one = json_object();
        set(one, "kind", weir_value_text(cause->kind));
        set(one, "stage", weir_value_text(cause->stage));
        set(one, "text", weir_value_text(cause->text));
        set(one, "explained", weir_value_number(cause->explained));
        set(one, "change", change(cause->change, cause->where));
        set(one, "evidence", texts(cause->evidence, cause->evidence_count));
        json_array_append_new(causes, one);
    }
    set(object, "causes", causes);
    return object;
}

static json_t *overhead(const struct weir_profile *profile)
{
    json_t *object = json_object();
    bool measured = is_measured(profile);
    set(object, "tracer_cpu_share", measured ? weir_value_number(profile->tracer_cpu_share) : json_null());
    set(object, "target_probe_cpu_share", weir_view_empty(profile) ? json_null() : weir_value_number(profile->target_probe_cpu_share));
    set(object, "probe_hits_per_s", measured ? weir_value_number(profile->probe_hits_per_s) : json_null());
    set(object, "probe_floor_ns", measured ? weir_value_number(profile->probe_floor_ns) : json_null());
    return object;
}

static int append(const char *data, size_t size, void *out)
{
    weir_buffer_add(out, data, size);
    return ((struct weir_buffer *)out)->failed ? -1 : 0;
}

/* Takes `root`. */
static int dump(json_t *root, struct weir_buffer *out, struct weir_error *error)
{
    bool good = root && json_dump_callback(root, append, out, JSON_INDENT(2) | JSON_REAL_PRECISION(PRECISION)) == 0;
    json_decref(root);
    weir_buffer_putc(out, '\n');
    if (!good || out->failed)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to write the report");
    return 0;
}

int weir_json_profile(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out,
                      struct weir_error *error)
{
    json_t *root = json_object();
    set(root, "version", json_integer(1));
    set(root, "target", target(profile));
    set(root, "window", window(profile));
    set(root, "samples", kept_lost(profile->samples_kept, profile->samples_lost));
    set(root, "records", kept_lost(profile->records_kept, profile->records_lost));
    set(root, "threads_lost", weir_value_count(profile->threads_lost));
    set(root, "lossy", json_boolean(weir_profile_lossy(profile)));
    set(root, "ways_in", ways_in(profile));
    set(root, "stages", stages(profile));
    set(root, "edges", edges(profile));
    set(root, "queues", queues(profile));
    set(root, "pools", pools(profile));
    set(root, "threads", threads(profile));
    set(root, "sleeps", sleeps(profile));
    set(root, "machine", machine(profile));
    set(root, "slots", slots(profile));
    set(root, "verdict", verdict_object(verdict));
    set(root, "overhead", overhead(profile));
    set(root, "violations", texts(profile->violations, profile->violation_count));
    return dump(root, out, error);
}

int weir_json_verdict(const struct weir_verdict *verdict, struct weir_buffer *out, struct weir_error *error)
{
    return dump(verdict_object(verdict), out, error);
}
