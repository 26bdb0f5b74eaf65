#include "pipeline_dsl/runtime/self.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/inside.h"
#include "pipeline_dsl/runtime/server.h"

#define QUANTILES 5u
#define EVENTS_A_WAY (2u + QUANTILES)
#define EVENTS_A_QUEUE 4u

/* The events under way of one interval. */
struct report {
    struct weir_self *self;
    struct weir_item *item;
    double seconds;
    int64_t time_us;
    size_t room;
};

/* `event`: its metric. */
static void add_event(struct report *report, struct weir_event event, const char *format, va_list args)
{
    struct weir_message *message = &report->item->message;
    struct weir_arena *arena = &report->item->arena;
    const struct weir_self *self = report->self;
    char name[512];
    vsnprintf(name, sizeof name, format, args);
    const char *service = weir_arena_dup(arena, name, strlen(name));
    if (!service || message->event_count == report->room)
        return;
    event.host = (struct weir_bytes){ (const uint8_t *)self->host, strlen(self->host) };
    event.service = (struct weir_bytes){ (const uint8_t *)service, strlen(name) };
    event.state = (struct weir_bytes){ (const uint8_t *)"ok", 2 };
    event.time_us = report->time_us;
    event.ttl = (float)((double)self->every_ns * 3 / 1e9); /* two that are missing are no outage yet */
    event.has_time = event.has_ttl = true;
    message->events[message->event_count++] = event;
}

__attribute__((format(printf, 3, 4))) static void add_number(struct report *report, double value, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_event(report, (struct weir_event){ .metric_kind = WEIR_METRIC_DOUBLE, .metric_double = value }, format, args);
    va_end(args);
}

__attribute__((format(printf, 3, 4))) static void add_count(struct report *report, uint64_t value, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_event(report, (struct weir_event){ .metric_kind = WEIR_METRIC_INT, .metric_int = (int64_t)value }, format, args);
    va_end(args);
}

static double rate(const struct report *report, uint64_t before, uint64_t now)
{
    return now > before ? (double)(now - before) / report->seconds : 0;
}

/* Latencies of a way in since the last time, of all loops. */
static void take_latencies(struct weir_server *server, uint32_t way, struct weir_histogram *sum)
{
    memset(sum, 0, sizeof *sum);
    for (uint32_t i = 0; i < server->loop_count; i++) {
        struct weir_loop *loop = &server->loops[i];
        weir_mutex_lock(&loop->mutex);
        if (loop->latencies) {
            weir_histogram_merge(sum, &loop->latencies[way]);
            memset(&loop->latencies[way], 0, sizeof *sum);
        }
        weir_mutex_unlock(&loop->mutex);
    }
}

static uint64_t report_way(struct report *report, uint32_t index)
{
    static const double quantiles[QUANTILES] = { 0.0, 0.5, 0.95, 0.99, 0.999 };
    static const char *const names[QUANTILES] = { "0.0", "0.5", "0.95", "0.99", "0.999" };
    struct weir_server *server = report->self->server;
    const struct weir_plan_way *way = &server->plan->ways[index];
    struct weir_contract_way now, *before = &report->self->ways[index];
    struct weir_histogram latencies;
    char server_name[128];
    static const char *const transports[] = { [WEIR_TCP] = "tcp", [WEIR_UDP] = "udp", [WEIR_UNIX] = "unix" };
    weir_counters_way(server->plan, index, &now);
    snprintf(server_name, sizeof server_name, "riemann server %s %s", transports[way->transport], server->listeners[index].address);
    if (way->transport != WEIR_UDP)
        add_count(report, now.connections, "%s conns", server_name);
    add_number(report, rate(report, before->accepted, now.accepted), "%s in rate", server_name);
    take_latencies(server, index, &latencies);
    for (unsigned i = 0; latencies.count && i < QUANTILES; i++)
        add_number(report, (double)weir_histogram_quantile(&latencies, quantiles[i]) / 1e6, "%s in latency %s", server_name, names[i]);
    uint64_t events = now.events > before->events ? now.events - before->events : 0;
    *before = now;
    return events;
}

static void report_queue(struct report *report, uint32_t index)
{
    const struct weir_plan *plan = report->self->server->plan;
    struct weir_contract_queue now, *before = &report->self->queues[index];
    const char *name = plan->queues[index].name;
    if (plan->queues[index].kind == WEIR_QUEUE_REPLY)
        return;
    weir_counters_queue(plan, index, &now);
    add_count(report, now.queued_items, "riemann %s queue size", name);
    uint64_t refused_before = before->rejected + before->dropped, refused = now.rejected + now.dropped;
    add_number(report, rate(report, before->in - refused_before, now.in - refused), "riemann %s accepted rate", name);
    add_number(report, rate(report, before->out, now.out), "riemann %s completed rate", name);
    add_number(report, rate(report, refused_before, refused), "riemann %s rejected rate", name);
    *before = now;
}

/* Riemann has one index, and calls it so. */
static void report_tally(struct report *report, uint32_t index)
{
    const struct weir_plan *plan = report->self->server->plan;
    const struct weir_plan_tally *tally = &plan->tallies[index];
    const char *name = plan->stages[tally->stage - WEIR_INSTANCE_FIRST];
    char shown[256];
    /* Of `core.index@(inside)` neither the pipeline nor the way in is told: there is one object behind all of its rows. */
    const char *dot = strchr(name, '.'), *plain = index || !dot ? name : dot + 1;
    snprintf(shown, sizeof shown, "%.*s", (int)strcspn(plain, "@"), plain);
    uint64_t values[WEIR_TALLY_MOST];
    tally->read(tally->object, values);
    for (uint32_t i = 0; i < tally->count; i++)
        add_count(report, values[i], "riemann %s %s", shown, tally->names[i]);
}

static void on_interval(uv_timer_t *timer)
{
    struct weir_self *self = timer->data;
    const struct weir_plan *plan = self->server->plan;
    struct timespec wall;
    uint64_t now_ns = weir_clock_ns(), events = 0;
    struct report report = { .self = self, .room = plan->way_count * EVENTS_A_WAY + plan->queue_count * EVENTS_A_QUEUE +
                                                 plan->tally_count * WEIR_TALLY_MOST + 1 };
    report.item = weir_inside_bear(plan->self_source);
    if (!report.item)
        return; /* the pipeline is full: these numbers go into the next interval */
    report.item->message.events = weir_arena_zalloc(&report.item->arena, report.room * sizeof *report.item->message.events);
    if (!report.item->message.events) {
        weir_inside_end(NULL, report.item);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &wall);
    report.time_us = (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
    report.seconds = (double)(now_ns - self->last_ns) / 1e9;
    self->last_ns = now_ns;
    for (uint32_t i = 0; i < plan->way_count; i++)
        events += report_way(&report, i);
    add_number(&report, (double)events / report.seconds, "riemann streams rate");
    for (uint32_t i = 0; i < plan->queue_count; i++)
        report_queue(&report, i);
    for (uint32_t i = 0; i < plan->tally_count; i++)
        report_tally(&report, i);
    report.item->decoded = true;
    report.item->events = (uint32_t)report.item->message.event_count;
    weir_inside_send(report.item);
}

int weir_self_start(struct weir_self *self, struct weir_server *server, uint64_t every_ns, struct weir_error *error)
{
    const struct weir_plan *plan = server->plan;
    *self = (struct weir_self){ .server = server, .every_ns = every_ns, .last_ns = weir_clock_ns(),
                                .ways = calloc(plan->way_count + 1, sizeof *self->ways),
                                .queues = calloc(plan->queue_count + 1, sizeof *self->queues) };
    if (!self->ways || !self->queues)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "no memory for --self-metrics");
    if (gethostname(self->host, sizeof self->host - 1) != 0)
        snprintf(self->host, sizeof self->host, "localhost");
    for (uint32_t i = 0; i < server->loop_count; i++) {
        struct weir_histogram *latencies = calloc(plan->way_count + 1, sizeof *latencies);
        weir_mutex_lock(&server->loops[i].mutex);
        server->loops[i].latencies = latencies;
        weir_mutex_unlock(&server->loops[i].mutex);
        __atomic_store_n(&server->loops[i].time_every, latencies ? WEIR_SELF_EVERY : 0, __ATOMIC_RELAXED);
    }
    uint64_t every_ms = every_ns / 1000000 ? every_ns / 1000000 : 1;
    uv_timer_init(&server->uv, &self->timer);
    self->timer.data = self;
    uv_timer_start(&self->timer, on_interval, every_ms, every_ms);
    return 0;
}

void weir_self_stop(struct weir_self *self)
{
    if (self->server)
        uv_timer_stop(&self->timer);
    free(self->ways);
    free(self->queues);
    self->ways = NULL;
    self->queues = NULL;
}
