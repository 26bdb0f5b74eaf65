#include "viz/json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "viz/escape.h"
#include "viz/view.h"

#define PRECISION 12 /* digits: more would show how doubles round */

/* Null when it is no number. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(uint64_t value)
{
    return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

static json_t *text(const char *value)
{
    struct weir_buffer safe = WEIR_BUFFER_INIT;
    if (!value)
        return json_null();
    weir_escape_utf8(&safe, value);
    json_t *made = json_string(weir_buffer_text(&safe));
    weir_buffer_release(&safe);
    return made ? made : json_null();
}

static json_t *texts(const char *const *list, uint32_t n)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(array, text(list[i]));
    return array;
}

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *quantiles(const struct weir_histogram *histogram)
{
    if (!histogram || !histogram->count)
        return json_null();
    json_t *object = json_object();
    set(object, "p50", number(weir_view_quantile(histogram, 0.5)));
    set(object, "p90", number(weir_view_quantile(histogram, 0.9)));
    set(object, "p99", number(weir_view_quantile(histogram, 0.99)));
    set(object, "p999", number(weir_view_quantile(histogram, 0.999)));
    set(object, "max", number(weir_view_max(histogram)));
    set(object, "mean", number(weir_histogram_mean(histogram)));
    set(object, "count", count(histogram->count));
    return object;
}

static json_t *target(const struct weir_profile *profile)
{
    static const char *const kinds[] = { "built", "bound", "marked" };
    json_t *object = json_object();
    set(object, "pid", count(profile->pid));
    set(object, "exe", text(profile->exe));
    set(object, "pipeline", text(profile->topology.name));
    set(object, "kind", json_string(kinds[profile->kind]));
    set(object, "kernel", text(profile->kernel));
    set(object, "cpus", count(profile->cpus));
    return object;
}

static json_t *window(const struct weir_profile *profile)
{
    json_t *object = json_object();
    set(object, "duration_ns", count(profile->duration_ns));
    set(object, "mode", json_string(weir_mode_name(profile->mode)));
    set(object, "cpu_ns", count(profile->cpu_ns));
    set(object, "start_unix_ns", count(profile->start_unix_ns));
    set(object, "ended_by", text(profile->ended_by));
    return object;
}

static json_t *kept_lost(uint64_t kept, uint64_t lost)
{
    json_t *object = json_object();
    set(object, "kept", count(kept));
    set(object, "lost", count(lost));
    return object;
}

static json_t *depth(const struct weir_histogram *histogram, double mean)
{
    json_t *object = json_object();
    bool any = histogram->count != 0;
    set(object, "mean", any ? number(mean) : json_null());
    set(object, "p50", number(weir_view_quantile(histogram, 0.5)));
    set(object, "p99", number(weir_view_quantile(histogram, 0.99)));
    set(object, "max", number(weir_view_max(histogram)));
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
        set(object, "name", text(profile->topology.ways[i].name));
        set(object, "accepted", count(end->accepted));
        set(object, "answered", count(end->answered));
        set(object, "abandoned", count(end->abandoned));
        set(object, "discarded", count(end->discarded));
        set(object, "in_flight", count(end->in_flight));
        set(object, "accepted_bytes", count(end->accepted_bytes));
        set(object, "events", count(end->events));
        set(object, "malformed", count(end->malformed));
        set(object, "bad_lengths", count(end->bad_lengths));
        set(object, "truncated", count(end->truncated));
        set(object, "kernel_drops", count(end->kernel_drops));
        set(object, "refused", count(end->refused));
        set(object, "failed_handshakes", count(end->failed_handshakes));
        set(object, "connections", count(end->connections));
        set(object, "opened", count(end->opened));
        set(added, "accepted", count(weir_profile_grown(begin->accepted, end->accepted)));
        set(added, "answered", count(weir_profile_grown(begin->answered, end->answered)));
        set(added, "abandoned", count(weir_profile_grown(begin->abandoned, end->abandoned)));
        set(added, "discarded", count(weir_profile_grown(begin->discarded, end->discarded)));
        set(added, "events", count(weir_profile_grown(begin->events, end->events)));
        set(added, "overlapped", count(weir_profile_grown(begin->overlapped, end->overlapped)));
        set(object, "overlapped", count(end->overlapped));
        set(object, "per_connection", connections(&profile->ways[i]));
        set(object, "backlog", depth(&profile->ways[i].backlog, weir_histogram_mean(&profile->ways[i].backlog)));
        set(object, "backlog_limit", profile->ways[i].backlog_limit ? count(profile->ways[i].backlog_limit) : json_null());
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
        set(object, "symbol", text(row->hot[i].symbol));
        set(object, "share", number(row->hot[i].share));
        set(object, "samples", count(row->hot[i].samples));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *interval(double low, double high)
{
    json_t *array = json_array();
    json_array_append_new(array, number(low));
    json_array_append_new(array, number(high));
    return array;
}

/* Times below the cost of a stamp are not the target's: they read as that cost, which stands beside them. */
static json_t *service(const struct weir_profile *profile, const struct weir_histogram *histogram)
{
    if (!histogram || !histogram->count)
        return json_null();
    json_t *object = json_object();
    set(object, "p50", number(fmax(weir_view_quantile(histogram, 0.5), profile->probe_floor_ns)));
    set(object, "p99", number(fmax(weir_view_quantile(histogram, 0.99), profile->probe_floor_ns)));
    set(object, "max", number(fmax(weir_view_max(histogram), profile->probe_floor_ns)));
    set(object, "floor", number(profile->probe_floor_ns));
    set(object, "count", count(histogram->count));
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
        set(object, "name", text(row->name));
        set(object, "part_of", row->part_of == WEIR_NONE ? json_null() : text(profile->rows[row->part_of].name));
        set(object, "way_in", row->way == WEIR_NONE ? json_null() : text(topology->ways[row->way].name));
        set(object, "pool", row->pool == WEIR_NONE ? json_null() : text(topology->pools[row->pool].name));
        set(object, "cpu_share", number(weir_view_share(profile, row)));
        set(object, "cpu_share_under", json_null());
        set(object, "cpu_share_ci95", empty ? json_null() : interval(row->share_low, row->share_high));
        set(object, "cpu_ns_per_item", number(weir_view_ns_per_item(profile, row)));
        set(object, "cpu_ns_per_event", number(weir_view_ns_per_event(profile, row)));
        set(object, "items_per_s", number(weir_view_items_per_s(profile, row)));
        set(object, "service_ns", service(profile, row->service));
        set(object, "hot", hot_functions(row));
        set(object, "cpu_ns", empty ? json_null() : number(row->cpu_ns));
        set(object, "own_cpu_ns", row->own_cpu_ns ? count(row->own_cpu_ns) : json_null());
        set(object, "samples", count(row->samples));
        set(object, "items", counts ? count(row->items) : json_null());
        set(object, "events", counts && row->events ? count(row->events) : json_null());
        set(object, "stamped", counts ? count(row->stamped) : json_null());
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
        set(object, "from", text(profile->topology.stages[edge->from].full_name));
        set(object, "to", text(profile->topology.stages[edge->to].full_name));
        set(object, "items_per_s", number(weir_view_per_s(profile, (double)edge->items)));
        set(object, "bytes_per_s", number(weir_view_per_s(profile, weir_view_edge_bytes(edge))));
        set(object, "events_per_s", edge->events ? number(weir_view_per_s(profile, (double)edge->events)) : json_null());
        set(object, "items", count(edge->items));
        set(object, "bytes", isfinite(weir_view_edge_bytes(edge)) ? count(edge->bytes) : json_null());
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *queue_window(const struct weir_profile_queue *queue)
{
    json_t *object = json_object();
    set(object, "in", count(weir_profile_grown(queue->begin.in, queue->end.in)));
    set(object, "out", count(weir_profile_grown(queue->begin.out, queue->end.out)));
    set(object, "dropped", count(weir_profile_grown(queue->begin.dropped, queue->end.dropped)));
    set(object, "rejected", count(weir_profile_grown(queue->begin.rejected, queue->end.rejected)));
    return object;
}

/* Of the threads that slept on the queue; a reply ring's event loops sleep on much else. */
static json_t *wakeups(const struct weir_profile *profile, uint32_t index)
{
    const struct weir_profile_queue *queue = &profile->queues[index];
    if (profile->topology.queues[index].kind == WEIR_QUEUE_REPLY)
        return json_null();
    json_t *object = json_object();
    set(object, "count", count(queue->wakeups));
    set(object, "per_item", number(weir_view_wakeups_per_item(profile, index)));
    set(object, "unused", count(queue->wakeups_unused));
    set(object, "moved", count(queue->wakeups_moved));
    return object;
}

static json_t *lock_waits(const struct weir_profile *profile, uint32_t index)
{
    json_t *object = json_object();
    set(object, "push", number(weir_view_lock_ns_per_item(profile, index, WEIR_PART_PUSH)));
    set(object, "pop", number(weir_view_lock_ns_per_item(profile, index, WEIR_PART_POP)));
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
        set(object, "name", text(shape->name));
        set(object, "kind", json_string(kinds[shape->kind]));
        set(object, "from_pool", shape->from_pool == WEIR_NONE ? json_null() : text(topology->pools[shape->from_pool].name));
        set(object, "to_pool", shape->to_pool == WEIR_NONE ? json_null() : text(topology->pools[shape->to_pool].name));
        set(object, "depth_items", depth(&queue->depth_items, queue->depth_items_mean));
        set(object, "depth_bytes", depth(&queue->depth_bytes, queue->depth_bytes_mean));
        set(object, "limit_items", shape->limit_items ? count(shape->limit_items) : json_null());
        set(object, "limit_bytes", shape->limit_bytes ? count(shape->limit_bytes) : json_null());
        set(object, "limit_per", json_string(shape->kind == WEIR_QUEUE_REPLY ? "connection" : "queue"));
        set(object, "fill", number(weir_view_fill(profile, i)));
        set(object, "wait_ns", quantiles(&queue->wait));
        set(object, "wakeup_ns", quantiles(&queue->wakeup));
        set(object, "wakeups", wakeups(profile, i));
        set(object, "lock_ns_per_item", lock_waits(profile, i));
        set(object, "in", count(queue->end.in));
        set(object, "out", count(queue->end.out));
        set(object, "dropped", count(queue->end.dropped));
        set(object, "rejected", count(queue->end.rejected));
        set(object, "queued", count(queue->end.queued));
        set(object, "queued_bytes", count(queue->end.queued_bytes));
        set(object, "parked", count(queue->end.parked));
        set(object, "unstamped", count(queue->unstamped));
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
        set(object, "name", text(profile->topology.pools[i].name));
        set(object, "threads", count(profile->pools[i].threads));
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            set(states, weir_state_name((enum weir_state)k), number(weir_view_state(profile, i, (enum weir_state)k)));
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
            set(states, weir_state_name((enum weir_state)k), number(sum > 0 ? thread->state_ns[k] / sum : NAN));
        set(object, "tid", count(thread->tid));
        set(object, "pool", text(profile->topology.pools[thread->pool].name));
        set(object, "states", states);
        set(object, "switches", count(thread->switches));
        set(object, "preempted", count(thread->preempted));
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
        set(object, "pool", text(topology->pools[sleep->pool].name));
        set(object, "row", text(profile->rows[sleep->row].name));
        set(object, "state", text(weir_state_name(sleep->state)));
        set(object, "queue", sleep->queue == WEIR_NONE ? json_null() : text(topology->queues[sleep->queue].name));
        set(object, "slots", sleep->slots == WEIR_NONE ? json_null()
                                                       : text(topology->stages[profile->slots[sleep->slots].stage].full_name));
        set(object, "site", sleep->site ? text(sleep->site) : json_null());
        set(object, "share", number(weir_view_sleep_share(profile, sleep)));
        set(object, "ns", number(sleep->ns));
        set(object, "count", count(sleep->count));
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
        set(one, "pid", count(profile->neighbours[i].pid));
        set(one, "name", text(profile->neighbours[i].name));
        set(one, "cpu_ns", number(profile->neighbours[i].cpu_ns));
        json_array_append_new(neighbours, one);
    }
    set(object, "busy_ns", known ? number(profile->machine_busy_ns) : json_null());
    set(object, "steal_ns", known ? number(profile->machine_steal_ns) : json_null());
    set(object, "neighbours", neighbours);
    return object;
}

static json_t *slots_window(const struct weir_profile_slot_count *begin, const struct weir_profile_slot_count *end)
{
    json_t *object = json_object();
    set(object, "taken", count(weir_profile_grown(begin->taken, end->taken)));
    set(object, "finished", count(weir_profile_grown(begin->finished, end->finished)));
    set(object, "failed", count(weir_profile_grown(begin->failed, end->failed)));
    set(object, "lost", count(weir_profile_grown(begin->lost, end->lost)));
    set(object, "retried", count(weir_profile_grown(begin->retried, end->retried)));
    set(object, "reconnects", count(weir_profile_grown(begin->reconnects, end->reconnects)));
    set(object, "waits", count(weir_profile_grown(begin->waits, end->waits)));
    set(object, "waited_ns", count(weir_profile_grown(begin->waited_ns, end->waited_ns)));
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
        set(object, "stage", text(stage->full_name));
        set(object, "connections", count(stage->connections));
        set(object, "in_flight_limit", count(stage->in_flight));
        set(object, "in_flight", depth(&slots->in_use, slots->in_use_mean));
        set(object, "full_share", number(weir_view_slots_full(profile, slots)));
        set(object, "open_mean", number(slots->open_mean));
        set(object, "wait_ns", quantiles(&slots->wait));
        set(object, "service_ns", quantiles(&slots->service));
        set(object, "taken", count(end->taken));
        set(object, "finished", count(end->finished));
        set(object, "failed", count(end->failed));
        set(object, "lost", count(end->lost));
        set(object, "retried", count(end->retried));
        set(object, "in_use", count(end->in_use));
        set(object, "open", count(end->open));
        set(object, "reconnects", count(end->reconnects));
        set(object, "unfilled", count(end->unfilled));
        set(object, "alone_ns", end->alone_ns ? count(end->alone_ns) : json_null());
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
    set(object, "line", text(line));
    set(object, "where", text(where));
    return object;
}

static json_t *verdict_object(const struct weir_verdict *verdict)
{
    if (!verdict)
        return json_null();
    json_t *object = json_object(), *causes = json_array();
    set(object, "kind", text(verdict->kind));
    set(object, "stage", text(verdict->stage));
    set(object, "text", text(verdict->text));
    set(object, "evidence", texts(verdict->evidence, verdict->evidence_count));
    for (uint32_t i = 0; i < verdict->cause_count; i++) {
        const struct weir_verdict_cause *cause = &verdict->causes[i];
        json_t *one = json_object();
        set(one, "kind", text(cause->kind));
        set(one, "stage", text(cause->stage));
        set(one, "text", text(cause->text));
        set(one, "explained", number(cause->explained));
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
    set(object, "tracer_cpu_share", number(profile->tracer_cpu_share));
    set(object, "target_probe_cpu_share", weir_view_empty(profile) ? json_null() : number(profile->target_probe_cpu_share));
    set(object, "probe_hits_per_s", number(profile->probe_hits_per_s));
    set(object, "probe_floor_ns", number(profile->probe_floor_ns));
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
    set(root, "threads_lost", count(profile->threads_lost));
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
