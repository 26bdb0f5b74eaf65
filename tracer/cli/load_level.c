#include "tracer/cli/load_level.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_LIMIT 0.85 /* of a CPU, or of all of them, over a level with its first and last moments */

static const struct { const char *name, *key; double q; } quantiles[] = {
    { "p50", "p50", .5 }, { "p90", "p90", .9 }, { "p99", "p99", .99 }, { "p99.9", "p999", .999 }, { "max", "max", 1 },
};
#define QUANTILES (sizeof quantiles / sizeof *quantiles)

/* The names of failures in JSON; people read weir_client_result_name(). */
static const char *const failure_keys[WEIR_CLIENT_RESULTS] = {
    [WEIR_CLIENT_REFUSED] = "refused",     [WEIR_CLIENT_CLOSED] = "closed",         [WEIR_CLIENT_RESET] = "reset",
    [WEIR_CLIENT_BAD_REPLY] = "bad_reply", [WEIR_CLIENT_UNANSWERED] = "unanswered", [WEIR_CLIENT_BROKEN] = "broken",
    [WEIR_CLIENT_DOWN] = "down",
};
static const char *const ends[] = { "duration", "loops", "signal", "lost" };

/* --- numbers -------------------------------------------------------------------------------------------------------------- */

const char *load_grouped(double number, char text[32])
{
    char plain[32];
    if (number > 0 && number < 1) {
        snprintf(text, 32, "%.3g", number);
        return text;
    }
    int length = snprintf(plain, sizeof plain, "%.0f", number), to = 0;
    for (int i = 0; i < length && to < 30; i++) {
        if (i && (length - i) % 3 == 0)
            text[to++] = ',';
        text[to++] = plain[i];
    }
    text[to] = '\0';
    return text;
}

const char *load_duration(double ns, char text[32])
{
    static const struct { double ns; const char *name; } units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } };
    size_t i = 0;
    while (i < 3 && ns < units[i].ns)
        i++;
    double value = ns / units[i].ns;
    snprintf(text, 32, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[i].name);
    return text;
}

static uint64_t quantile(const struct weir_histogram *latency, size_t i)
{
    return quantiles[i].q < 1 ? weir_histogram_quantile(latency, quantiles[i].q) : latency->max;
}

static const char *quantile_text(const struct weir_histogram *latency, size_t i, char text[32])
{
    return latency->count ? load_duration((double)quantile(latency, i), text) : "-";
}

static double per_s(double number, uint64_t duration_ns)
{
    return duration_ns ? number * 1e9 / (double)duration_ns : 0;
}

double load_level_events_per_s(const struct load_level *level)
{
    return per_s((double)level->report.measured_events, level->report.duration_ns);
}

static double own_cpus(const struct weir_load_report *report)
{
    return report->wall_ns ? (double)report->cpu_ns / (double)report->wall_ns : 0;
}

static double own_busiest(const struct weir_load_report *report)
{
    return report->wall_ns ? (double)report->busiest_ns / (double)report->wall_ns : 0;
}

/* The slowest client's part of what it would have with fair shares, 0 to 1. */
static double fairness(const struct weir_load_report *report)
{
    return report->client_mean > 0 ? (double)report->client_least / report->client_mean : 0;
}

/* --- the knee ------------------------------------------------------------------------------------------------------------- */

/* Most messages that can be on the wire at once. */
static double capacity(const struct load_level *level)
{
    return (double)level->report.connections * (level->options.mode == WEIR_LOAD_SYNC ? 1 : (double)level->options.in_flight);
}

/* Which resource stood at its limit in this level; false when none did, with what is known. In a sweep connections that wait one
 * by one are no limit, since each level has more of them; of a single level that is what there is to say. */
static bool limit(const struct load_level *level, bool single, char *text, size_t size)
{
    const struct load_server_use *server = &level->server;
    const struct weir_load_report *report = &level->report;
    double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN), own = own_cpus(report), under_way = capacity(level);
    bool full = report->in_flight >= 0.9 * under_way;
    if (server->known && server->busiest >= AT_LIMIT)
        snprintf(text, size, "the server's CPU stood at its limit: its thread %s used %.0f %% of one CPU", server->thread,
                 server->busiest * 100);
    else if (own_busiest(report) >= AT_LIMIT)
        snprintf(text, size,
                 "the driver's own CPU stood at its limit (%.0f %% of one CPU for its busiest thread), so this is not the "
                 "server's; give it more --threads or a machine of its own",
                 own_busiest(report) * 100);
    else if (full && (double)level->options.clients > under_way)
        snprintf(text, size,
                 "the round trip stood at its limit: %zu clients wait for their turn on %llu connection%s with at most %.0f "
                 "messages under way; pipeline, batch, or share less",
                 level->options.clients, (unsigned long long)report->connections, report->connections == 1 ? "" : "s", under_way);
    else if (full && single && under_way <= (double)report->connections)
        snprintf(text, size,
                 "the round trip stood at its limit: a connection never has more than 1 message under way, and waits for its "
                 "answer; pipeline or batch");
    else if (server->machine >= AT_LIMIT * cpus && server->known)
        snprintf(text, size,
                 "this machine's %.0f CPUs stood at their limit: the server used %.2f, the driver itself %.2f, and the rest went "
                 "to other processes and the kernel",
                 cpus, server->cpus, own);
    else if (server->machine >= AT_LIMIT * cpus)
        snprintf(text, size,
                 "the %.0f CPUs of this machine, where the driver runs, stood at their limit, and the driver used %.2f of them",
                 cpus, own);
    else {
        if (server->known)
            snprintf(text, size,
                     "neither the server's CPU (%.2f CPUs used) nor the driver's own (%.2f) stood at its limit, nor the round "
                     "trip: the server waits for something else",
                     server->cpus, own);
        else
            snprintf(text, size,
                     "the driver's own CPU (%.2f CPUs used) did not stand at its limit; the server's can't be seen from here", own);
        return false;
    }
    return true;
}

static const struct load_level *level_at(const struct load_sweep *sweep, double clients)
{
    const struct load_level *best = &sweep->levels[0];
    for (size_t i = 0; i < sweep->count; i++) {
        const struct load_level *level = &sweep->levels[i];
        bool beyond = (double)level->options.clients >= clients, best_beyond = (double)best->options.clients >= clients;
        if ((beyond && (!best_beyond || level->options.clients < best->options.clients)) ||
            (!beyond && !best_beyond && level->options.clients > best->options.clients))
            best = level;
    }
    return best;
}

/* Two significant digits: what a fit of a few levels is good for. */
static double rounded(double clients)
{
    double unit = pow(10, floor(log10(fmax(clients, 1))) - 1);
    return unit <= 1 ? round(clients) : round(clients / unit) * unit;
}

static void say_knee(struct load_sweep *sweep)
{
    const struct weir_scaling *scaling = &sweep->scaling;
    const struct load_level *first = level_at(sweep, 0), *last = level_at(sweep, INFINITY);
    char why[300], a[32], b[32];
    double last_level = (double)last->options.clients;
    bool levels_off = weir_scaling_at(scaling, last_level) < 0.9 * scaling->most,
         falls = levels_off && scaling->peak < last_level;
    limit(scaling->shape == WEIR_SCALING_KNEE ? level_at(sweep, scaling->knee) : first, false, why, sizeof why);
    switch (scaling->shape) {
    case WEIR_SCALING_KNEE:
        snprintf(sweep->knee, sizeof sweep->knee, "linear up to about %s client%s, %s about %s events/s; at %zu clients %s",
                 load_grouped(rounded(scaling->knee), a), rounded(scaling->knee) == 1 ? "" : "s",
                 falls        ? "falling after, from"
                 : levels_off ? "levelling off after, towards"
                              : "flat after, at",
                 load_grouped(rounded(scaling->most), b), level_at(sweep, scaling->knee)->options.clients, why);
        break;
    case WEIR_SCALING_FLAT:
        snprintf(sweep->knee, sizeof sweep->knee, "flat from the first level on, so the knee lies below %zu clients; there %s",
                 first->options.clients, why);
        break;
    case WEIR_SCALING_NO_KNEE:
        snprintf(sweep->knee, sizeof sweep->knee, "no knee seen: throughput still grows with the clients at %zu",
                 last->options.clients);
        break;
    case WEIR_SCALING_UNCLEAR:
        snprintf(sweep->knee, sizeof sweep->knee,
                 "no knee seen: the levels don't follow the scalability law (off by up to %.0f %%); measure longer",
                 scaling->worst * 100);
        break;
    }
}

void load_sweep_judge(struct load_sweep *sweep)
{
    struct weir_scaling_point *points = calloc(sweep->count, sizeof *points);
    sweep->has_scaling = false;
    sweep->knee[0] = '\0';
    if (points && sweep->count > 1) {
        for (size_t i = 0; i < sweep->count; i++)
            points[i] = (struct weir_scaling_point){ (double)sweep->levels[i].options.clients,
                                                     load_level_events_per_s(&sweep->levels[i]) };
        sweep->has_scaling = weir_scaling_fit(&sweep->scaling, points, sweep->count) == 0;
        if (sweep->has_scaling)
            say_knee(sweep);
        else
            snprintf(sweep->knee, sizeof sweep->knee,
                     "none can be told from so little: give three different levels with throughput, like --clients 1,4,16");
    }
    free(points);
}

/* --- text ----------------------------------------------------------------------------------------------------------------- */

static void print_failures(struct weir_buffer *out, const struct weir_load_report *report)
{
    char number[32];
    const char *label = "errors";
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++) {
        if (!failure_keys[i] || !report->results[i])
            continue;
        weir_buffer_printf(out, "  %-11s %12s %s", label, load_grouped((double)report->results[i], number),
                           weir_client_result_name((enum weir_client_result)i));
        if (i == WEIR_CLIENT_REFUSED)
            weir_buffer_printf(out, ": %s", report->refusal);
        weir_buffer_putc(out, '\n');
        label = "";
    }
    if (report->connections_lost)
        weir_buffer_printf(out, "  %-11s %12s connections lost\n", label, load_grouped((double)report->connections_lost, number));
}

static void print_heading(struct weir_buffer *out, const struct weir_load_options *load, uint64_t connections)
{
    char a[32], b[32];
    if (load->datagram)
        weir_buffer_printf(out, "%s  %zu client%s by UDP", load->address, load->clients, load->clients == 1 ? "" : "s");
    else
        weir_buffer_printf(out, "%s  %s, %zu client%s on %llu connection%s, %zu in flight on each", load->address,
                           weir_load_mode_name(load->mode), load->clients, load->clients == 1 ? "" : "s",
                           (unsigned long long)connections, connections == 1 ? "" : "s",
                           load->mode == WEIR_LOAD_SYNC ? (size_t)1 : load->in_flight);
    weir_buffer_printf(out, ", %zu event%s a message", load->events, load->events == 1 ? "" : "s");
    if (load->mode == WEIR_LOAD_BATCH)
        weir_buffer_printf(out, " or %s", load_duration((double)load->linger_ns, b));
    if (load->rate > 0)
        weir_buffer_printf(out, ", %s %s/s wanted", load_grouped(load->rate, a),
                           load->mode == WEIR_LOAD_BATCH ? "events" : "messages");
    weir_buffer_puts(out, "\n");
}

static void print_cpu(struct weir_buffer *out, const struct load_level *level)
{
    const struct weir_load_report *report = &level->report;
    char a[32];
    weir_buffer_printf(out, "  %-11s %12s", "own CPU", load_duration((double)report->cpu_ns, a));
    if (report->wall_ns)
        weir_buffer_printf(out, ", %.0f %% of one CPU", own_cpus(report) * 100);
    if (report->measured_events)
        weir_buffer_printf(out, ", %.1f ns an event", (double)report->cpu_ns / (double)report->measured_events);
    weir_buffer_putc(out, '\n');
    if (level->server.known)
        weir_buffer_printf(out, "  %-11s %12.2f CPUs, process %d (%s); its busiest thread %s at %.0f %%\n", "server CPU",
                           level->server.cpus, level->server.pid, level->server.name, level->server.thread,
                           level->server.busiest * 100);
}

void load_print_level(struct weir_buffer *out, const struct load_level *level)
{
    static const char *const said[] = { "", "", " (stopped by a signal)", " (no connection was left)" };
    const struct weir_load_report *report = &level->report;
    char a[32];
    print_heading(out, &level->options, report->connections);
    weir_buffer_printf(out, "\n  %-11s %12s events/s\n", "throughput", load_grouped(load_level_events_per_s(level), a));
    weir_buffer_printf(out, "  %-11s %12s messages/s\n", "",
                       load_grouped(per_s((double)report->measured, report->duration_ns), a));
    double bytes = report->sent ? (double)report->sent_bytes / (double)report->sent * (double)report->measured : 0;
    weir_buffer_printf(out, "  %-11s %12.1f MB/s\n", "", per_s(bytes, report->duration_ns) / 1e6);
    for (size_t i = 0; i < QUANTILES && !level->options.datagram; i++)
        weir_buffer_printf(out, "  %-11s %12s %s\n", i ? "" : "latency", quantile_text(&report->latency, i, a),
                           quantiles[i].name);
    weir_buffer_printf(out, "  %-11s %12s sent\n", "messages", load_grouped((double)report->sent, a));
    weir_buffer_printf(out, "  %-11s %12s %s\n", "",
                       load_grouped((double)(report->results[WEIR_CLIENT_ACKED] + report->results[WEIR_CLIENT_SENT]), a),
                       level->options.datagram ? "taken by the network; nobody acknowledges a datagram" : "acknowledged");
    weir_buffer_printf(out, "  %-11s %12s failed\n", "", load_grouped((double)weir_load_failed(report), a));
    if (report->queries)
        weir_buffer_printf(out, "  %-11s %12s of them, p99 %s\n", "queries", load_grouped((double)report->queries, a),
                           quantile_text(&report->query_latency, 2, (char[32]){ 0 }));
    print_failures(out, report);
    if (!level->options.datagram)
        weir_buffer_printf(out, "  %-11s %12.1f messages on average, waiting for their turn included\n", "in flight",
                           report->in_flight);
    if (level->options.clients > 1)
        weir_buffer_printf(out, "  %-11s %11.0f %% of a fair share for the slowest client\n", "fairness", fairness(report) * 100);
    weir_buffer_printf(out, "  %-11s %12s until the last answer%s\n", "duration", load_duration((double)report->duration_ns, a),
                       said[report->end]);
    print_cpu(out, level);
    char why[300];
    if (!level->options.rate && !level->options.datagram && report->measured && limit(level, true, why, sizeof why))
        weir_buffer_printf(out, "\n  %s\n", why);
}

static void print_row(struct weir_buffer *out, const struct load_level *level, bool server, const struct load_sweep *sweep)
{
    const struct weir_load_report *report = &level->report;
    char a[32], b[32];
    double x = load_level_events_per_s(level);
    weir_buffer_printf(out, "%8s %12s", load_grouped((double)level->options.clients, a), load_grouped(x, b));
    for (size_t i = 0; i < QUANTILES; i++)
        weir_buffer_printf(out, " %8s", quantile_text(&report->latency, i, a));
    weir_buffer_printf(out, " %9s %9.1f %6.0f %% %7.2f", load_grouped((double)weir_load_failed(report), a), report->in_flight,
                       fairness(report) * 100, own_cpus(report));
    if (server && level->server.known)
        weir_buffer_printf(out, " %6.2f %6.0f %%", level->server.cpus, level->server.busiest * 100);
    else if (server)
        weir_buffer_printf(out, " %6s %8s", "-", "-");
    if (sweep->has_scaling)
        weir_buffer_printf(out, " %+6.1f %%", (x / weir_scaling_at(&sweep->scaling, (double)level->options.clients) - 1) * 100);
    weir_buffer_putc(out, '\n');
}

static void print_law(struct weir_buffer *out, const struct weir_scaling *scaling)
{
    weir_buffer_puts(out, "scalability law: ");
    if (isfinite(scaling->lambda))
        weir_buffer_printf(out, "lambda %.4g events/s a client, sigma %.3g, kappa %.3g", scaling->lambda, scaling->sigma,
                           scaling->kappa);
    else
        weir_buffer_puts(out, "the first level is saturated already, which hides what one client gets alone");
    weir_buffer_printf(out, "; largest residual %.1f %%\n", scaling->worst * 100);
}

void load_print_table(struct weir_buffer *out, const struct load_sweep *sweep)
{
    bool server = false;
    for (size_t i = 0; i < sweep->count; i++)
        server = server || sweep->levels[i].server.known;
    struct weir_load_options common = sweep->levels[0].options;
    weir_buffer_printf(out, "%s  %s, %zu event%s a message", common.address,
                       common.datagram ? "UDP" : weir_load_mode_name(common.mode), common.events, common.events == 1 ? "" : "s");
    if (common.mode != WEIR_LOAD_SYNC && !common.datagram)
        weir_buffer_printf(out, ", %zu in flight on a connection", common.in_flight);
    if (common.share > 1)
        weir_buffer_printf(out, ", %zu clients on a connection", common.share);
    weir_buffer_printf(out, "\n\n%8s %12s %8s %8s %8s %8s %8s %9s %9s %8s %7s%s%s\n", "clients", "events/s", "p50", "p90", "p99",
                       "p99.9", "max", "failed", "in flight", "slowest", "own CPU", server ? " server  busiest" : "",
                       sweep->has_scaling ? "  off law" : "");
    for (size_t i = 0; i < sweep->count; i++)
        print_row(out, &sweep->levels[i], server, sweep);
    for (size_t i = 0; i < sweep->count; i++) {
        if (!weir_load_failed(&sweep->levels[i].report))
            continue;
        weir_buffer_printf(out, "\n%zu clients\n", sweep->levels[i].options.clients);
        print_failures(out, &sweep->levels[i].report);
    }
    weir_buffer_puts(
        out,
        "\nlatency by quantile; in flight: messages, waiting for their turn included; slowest: what the slowest client got of a\n"
        "fair share; CPU: how many CPUs were used, and how much of one by the server's busiest thread\n");
    if (sweep->has_scaling)
        print_law(out, &sweep->scaling);
    weir_buffer_printf(out, "knee: %s\n", sweep->knee);
}

/* --- JSON ----------------------------------------------------------------------------------------------------------------- */

static json_t *count_json(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *number_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *latency_json(const struct weir_histogram *latency)
{
    if (!latency->count)
        return json_null();
    json_t *object = json_object();
    for (size_t i = 0; i < QUANTILES; i++)
        json_object_set_new(object, quantiles[i].key, count_json(quantile(latency, i)));
    return object;
}

static json_t *slices_json(const struct weir_load_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->slice_count; i++) {
        const struct weir_load_slice *slice = &report->slices[i];
        json_t *row = json_pack("{s:I, s:I, s:I}", "messages", (json_int_t)slice->messages, "events", (json_int_t)slice->events,
                                "failed", (json_int_t)slice->failed);
        json_object_set_new(row, "p50",
                            slice->latency.count ? count_json(weir_histogram_quantile(&slice->latency, .5)) : json_null());
        json_object_set_new(row, "p99",
                            slice->latency.count ? count_json(weir_histogram_quantile(&slice->latency, .99)) : json_null());
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *server_json(const struct load_server_use *server)
{
    if (!server->known)
        return json_null();
    return json_pack("{s:i, s:s, s:f, s:f, s:s}", "pid", server->pid, "name", server->name, "cpus", server->cpus, "busiest_share",
                     server->busiest, "busiest_thread", server->thread);
}

static json_t *level_json(const struct load_level *level)
{
    const struct weir_load_options *load = &level->options;
    const struct weir_load_report *report = &level->report;
    json_t *row = json_object(), *errors = json_object();
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        if (failure_keys[i])
            json_object_set_new(errors, failure_keys[i], count_json(report->results[i]));
    json_object_set_new(row, "mode", json_string(load->datagram ? "udp" : weir_load_mode_name(load->mode)));
    json_object_set_new(row, "clients", count_json(load->clients));
    json_object_set_new(row, "connections", count_json(report->connections));
    json_object_set_new(row, "in_flight", count_json(load->mode == WEIR_LOAD_SYNC ? 1 : load->in_flight));
    json_object_set_new(row, "events", count_json(load->events));
    json_object_set_new(row, "events_per_s", json_real(load_level_events_per_s(level)));
    json_object_set_new(row, "messages_per_s", json_real(per_s((double)report->measured, report->duration_ns)));
    json_object_set_new(row, "latency_ns", latency_json(&report->latency));
    json_object_set_new(row, "sent", count_json(report->sent));
    json_object_set_new(row, "acked", count_json(report->results[WEIR_CLIENT_ACKED]));
    json_object_set_new(row, "failed", count_json(weir_load_failed(report)));
    if (load->datagram)
        json_object_set_new(row, "unconfirmed", count_json(report->results[WEIR_CLIENT_SENT]));
    if (report->queries)
        json_object_set_new(row, "queries",
                            json_pack("{s:I, s:I, s:o}", "sent", (json_int_t)report->queries, "acked",
                                      (json_int_t)report->queries_acked, "latency_ns", latency_json(&report->query_latency)));
    json_object_set_new(row, "duration_ns", count_json(report->duration_ns));
    json_object_set_new(row, "in_flight_mean", json_real(report->in_flight));
    json_object_set_new(row, "slowest_client_share", json_real(fairness(report)));
    json_object_set_new(row, "cpu_ns", count_json(report->cpu_ns));
    json_object_set_new(row, "cpus", json_real(own_cpus(report)));
    json_object_set_new(row, "server", server_json(&level->server));
    json_object_set_new(row, "sent_bytes", count_json(report->sent_bytes));
    json_object_set_new(row, "connections_lost", count_json(report->connections_lost));
    json_object_set_new(row, "ended_by", json_string(ends[report->end]));
    json_object_set_new(row, "errors", errors);
    if (report->refusal[0])
        json_object_set_new(row, "refusal", json_string(report->refusal));
    json_object_set_new(row, "slice_ns", count_json(report->slice_ns));
    json_object_set_new(row, "slices", slices_json(report));
    return row;
}

static json_t *knee_json(const struct load_sweep *sweep)
{
    static const char *const shapes[] = { "none", "knee", "flat", "unclear" };
    const struct weir_scaling *scaling = &sweep->scaling;
    json_t *knee = json_object(), *residuals = json_array();
    json_object_set_new(knee, "text", json_string(sweep->knee));
    if (!sweep->has_scaling) {
        json_decref(residuals);
        return knee;
    }
    for (size_t i = 0; i < sweep->count; i++)
        json_array_append_new(residuals, number_json(load_level_events_per_s(&sweep->levels[i]) /
                                                         weir_scaling_at(scaling, (double)sweep->levels[i].options.clients) - 1));
    json_object_set_new(knee, "kind", json_string(shapes[scaling->shape]));
    json_object_set_new(knee, "clients", scaling->shape == WEIR_SCALING_KNEE ? number_json(scaling->knee) : json_null());
    json_object_set_new(knee, "most_events_per_s", number_json(scaling->most));
    json_object_set_new(knee, "lambda", number_json(scaling->lambda));
    json_object_set_new(knee, "sigma", number_json(scaling->sigma));
    json_object_set_new(knee, "kappa", number_json(scaling->kappa));
    json_object_set_new(knee, "residuals", residuals);
    return knee;
}

int load_print_json(struct weir_buffer *out, const struct load_sweep *sweep)
{
    json_t *root = json_pack("{s:i, s:s}", "version", 1, "address", sweep->levels[0].options.address), *levels = json_array();
    for (size_t i = 0; i < sweep->count; i++)
        json_array_append_new(levels, level_json(&sweep->levels[i]));
    json_object_set_new(root, "levels", levels);
    if (sweep->count > 1)
        json_object_set_new(root, "knee", knee_json(sweep));
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text)
        return -ENOMEM;
    weir_buffer_puts(out, text);
    weir_buffer_putc(out, '\n');
    free(text);
    return 0;
}
