#include "tracer/cli/load_level.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct load_quantile load_quantiles[LOAD_QUANTILES] = {
    { "p50", "p50", .5 }, { "p90", "p90", .9 }, { "p99", "p99", .99 }, { "p99.9", "p999", .999 }, { "max", "max", 1 },
};

const char *const load_failure_keys[WEIR_CLIENT_RESULTS] = {
    [WEIR_CLIENT_REFUSED] = "refused",     [WEIR_CLIENT_CLOSED] = "closed",         [WEIR_CLIENT_RESET] = "reset",
    [WEIR_CLIENT_BAD_REPLY] = "bad_reply", [WEIR_CLIENT_UNANSWERED] = "unanswered", [WEIR_CLIENT_BROKEN] = "broken",
    [WEIR_CLIENT_DOWN] = "down",
};

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

uint64_t load_quantile(const struct weir_histogram *latency, size_t i)
{
    return load_quantiles[i].q < 1 ? weir_histogram_quantile(latency, load_quantiles[i].q) : latency->max;
}

static const char *quantile_text(const struct weir_histogram *latency, size_t i, char text[32])
{
    return latency->count ? load_duration((double)load_quantile(latency, i), text) : "-";
}

double load_per_s(double number, uint64_t duration_ns)
{
    return duration_ns ? number * 1e9 / (double)duration_ns : 0;
}

double load_level_events_per_s(const struct load_level *level)
{
    return load_per_s((double)level->report.measured_events, level->report.duration_ns);
}

double load_own_cpus(const struct weir_load_report *report)
{
    return report->wall_ns ? (double)report->cpu_ns / (double)report->wall_ns : 0;
}

double load_server_share(const struct load_level *level)
{
    double cpus = level->profile.known ? level->profile.cpus : level->server.cpus;
    return level->server.known && level->server.cores ? cpus / level->server.cores : 0;
}

double load_fairness(const struct weir_load_report *report)
{
    return report->client_mean > 0 ? (double)report->client_least / report->client_mean : 0;
}

/* --- text ----------------------------------------------------------------------------------------------------------------- */

static void print_failures(struct weir_buffer *out, const struct weir_load_report *report)
{
    char number[32];
    const char *label = "errors";
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++) {
        if (!load_failure_keys[i] || !report->results[i])
            continue;
        weir_buffer_printf(out, "  %-11s %12s %s", label, load_grouped((double)report->results[i], number),
                           weir_client_result_name((enum weir_client_result)i));
        if (i == WEIR_CLIENT_REFUSED || (i == WEIR_CLIENT_BROKEN && !report->results[WEIR_CLIENT_REFUSED] && report->refusal[0]))
            weir_buffer_printf(out, ": %s", report->refusal);
        weir_buffer_putc(out, '\n');
        label = "";
    }
    if (report->connections_lost)
        weir_buffer_printf(out, "  %-11s %12s connections lost\n", label, load_grouped((double)report->connections_lost, number));
}

/* What the rate asked for beyond what was sent. */
static void print_unsent(struct weir_buffer *out, const struct load_level *level)
{
    char a[32];
    if (level->report.unsent)
        weir_buffer_printf(out, "  %-11s %12s due, but never sent: no %s had room for %s in time\n", "",
                           load_grouped((double)level->report.unsent, a), level->options.datagram ? "socket" : "connection",
                           level->report.unsent == 1 ? "it" : "them");
}

/* Why there are no figures of what was acknowledged. */
static void print_unmeasured(struct weir_buffer *out, const struct load_level *level)
{
    char a[32];
    if (level->options.ramp_ns && !level->report.measured && level->report.sent)
        weir_buffer_printf(out, "  nothing was measured: it was over before the ramp of %s, from whose end figures count\n",
                           load_duration((double)level->options.ramp_ns, a));
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

/* What the server's profile of this level says. */
static void print_profile(struct weir_buffer *out, const struct load_profile_summary *profile)
{
    weir_buffer_puts(out, profile->verdict);
    if (profile->stage[0])
        weir_buffer_printf(out, "; busiest stage %s (%.0f %% of its CPU time)", profile->stage, profile->stage_share * 100);
    weir_buffer_putc(out, '\n');
}

static void print_cpu(struct weir_buffer *out, const struct load_level *level)
{
    const struct weir_load_report *report = &level->report;
    char a[32];
    weir_buffer_printf(out, "  %-11s %12s", "own CPU", load_duration((double)report->cpu_ns, a));
    if (report->wall_ns)
        weir_buffer_printf(out, ", %.0f %% of one CPU", load_own_cpus(report) * 100);
    if (report->measured_events)
        weir_buffer_printf(out, ", %.1f ns an event", (double)report->cpu_ns / (double)report->measured_events);
    weir_buffer_putc(out, '\n');
    if (level->server.known)
        weir_buffer_printf(out, "  %-11s %12.2f CPUs of %u, process %d (%s); its busiest thread %s at %.0f %%\n", "server CPU",
                           level->server.cpus, level->server.cores, level->server.pid, level->server.name, level->server.thread,
                           level->server.busiest * 100);
    if (level->profile.known) {
        weir_buffer_printf(out, "  %-11s ", "profile");
        print_profile(out, &level->profile);
    }
}

void load_print_level(struct weir_buffer *out, const struct load_level *level)
{
    static const char *const said[] = { "", "", " (stopped by a signal)", " (no connection was left)" };
    const struct weir_load_report *report = &level->report;
    char a[32];
    print_heading(out, &level->options, report->connections);
    weir_buffer_printf(out, "\n  %-11s %12s events/s\n", "throughput", load_grouped(load_level_events_per_s(level), a));
    weir_buffer_printf(out, "  %-11s %12s messages/s\n", "",
                       load_grouped(load_per_s((double)report->measured, report->duration_ns), a));
    double bytes = report->sent ? (double)report->sent_bytes / (double)report->sent * (double)report->measured : 0;
    weir_buffer_printf(out, "  %-11s %12.1f MB/s\n", "", load_per_s(bytes, report->duration_ns) / 1e6);
    for (size_t i = 0; i < LOAD_QUANTILES && !level->options.datagram; i++)
        weir_buffer_printf(out, "  %-11s %12s %s\n", i ? "" : "latency", quantile_text(&report->latency, i, a),
                           load_quantiles[i].name);
    weir_buffer_printf(out, "  %-11s %12s sent\n", "messages", load_grouped((double)report->sent, a));
    weir_buffer_printf(out, "  %-11s %12s %s\n", "",
                       load_grouped((double)(report->results[WEIR_CLIENT_ACKED] + report->results[WEIR_CLIENT_SENT]), a),
                       level->options.datagram ? "taken by the network; nobody acknowledges a datagram" : "acknowledged");
    weir_buffer_printf(out, "  %-11s %12s failed\n", "", load_grouped((double)weir_load_failed(report), a));
    print_unsent(out, level);
    if (report->queries)
        weir_buffer_printf(out, "  %-11s %12s of them, p99 %s\n", "queries", load_grouped((double)report->queries, a),
                           quantile_text(&report->query_latency, 2, (char[32]){ 0 }));
    print_failures(out, report);
    if (!level->options.datagram)
        weir_buffer_printf(out, "  %-11s %12.1f messages on average, waiting for their turn included\n", "in flight",
                           report->in_flight);
    if (level->options.clients > 1 && report->measured)
        weir_buffer_printf(out, "  %-11s %11.0f %% of a fair share for the slowest client\n", "fairness", load_fairness(report) * 100);
    weir_buffer_printf(out, "  %-11s %12s of sending%s%s\n", "duration", load_duration((double)report->duration_ns, a),
                       level->options.datagram ? "" : " and answers", said[report->end]);
    print_unmeasured(out, level);
    print_cpu(out, level);
    char why[LOAD_WHY];
    if (!level->options.rate && !level->options.datagram && report->measured && load_limit(level, true, why, sizeof why))
        weir_buffer_printf(out, "\n  %s\n", why);
}

static void print_profiles(struct weir_buffer *out, const struct load_sweep *sweep)
{
    const char *heading = "\n the server, by its profile of each level\n";
    char a[32];
    for (size_t i = 0; i < sweep->count; i++) {
        if (!sweep->levels[i].profile.known)
            continue;
        weir_buffer_printf(out, "%s%8s  ", heading, load_grouped((double)sweep->levels[i].options.clients, a));
        print_profile(out, &sweep->levels[i].profile);
        heading = "";
    }
    if (!*heading)
        weir_buffer_putc(out, '\n');
}

/* That the sweep ended before its time, for whoever reads the table alone. */
static void print_cut_short(struct weir_buffer *out, const struct load_sweep *sweep)
{
    const struct load_level *last = &sweep->levels[sweep->count - 1];
    size_t missing = sweep->wanted - sweep->count;
    char a[32];
    if (last->report.end == WEIR_LOAD_STOPPED || last->report.end == WEIR_LOAD_LOST)
        weir_buffer_printf(out, "\nthe level of %s client%s ended early: %s",
                           load_grouped((double)last->options.clients, a), last->options.clients == 1 ? "" : "s",
                           last->report.end == WEIR_LOAD_STOPPED ? "stopped by a signal" : "no connection was left");
    else if (missing)
        weir_buffer_puts(out, "\nthe sweep ended early");
    else
        return;
    if (missing)
        weir_buffer_printf(out, "; %zu level%s not run", missing, missing == 1 ? " was" : "s were");
    weir_buffer_putc(out, '\n');
}

static void print_row(struct weir_buffer *out, const struct load_level *level, bool server, const struct load_sweep *sweep)
{
    const struct weir_load_report *report = &level->report;
    char a[32], b[32];
    double x = load_level_events_per_s(level);
    weir_buffer_printf(out, "%8s %12s", load_grouped((double)level->options.clients, a), load_grouped(x, b));
    for (size_t i = 0; i < LOAD_QUANTILES; i++)
        weir_buffer_printf(out, " %8s", quantile_text(&report->latency, i, a));
    weir_buffer_printf(out, " %9s %9.1f %6.0f %% %7.2f", load_grouped((double)weir_load_failed(report), a), report->in_flight,
                       load_fairness(report) * 100, load_own_cpus(report));
    if (server && level->server.known)
        weir_buffer_printf(out, " %6.0f %% %6.0f %%", load_server_share(level) * 100, level->server.busiest * 100);
    else if (server)
        weir_buffer_printf(out, " %8s %8s", "-", "-");
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
                       "p99.9", "max", "failed", "in flight", "slowest", "own CPU", server ? "   server  busiest" : "",
                       sweep->has_scaling ? "  off law" : "");
    for (size_t i = 0; i < sweep->count; i++)
        print_row(out, &sweep->levels[i], server, sweep);
    for (size_t i = 0; i < sweep->count; i++) {
        const struct weir_load_report *report = &sweep->levels[i].report;
        if (!weir_load_failed(report) && !report->unsent && (report->measured || !common.ramp_ns))
            continue;
        weir_buffer_printf(out, "\n%zu client%s\n", sweep->levels[i].options.clients, sweep->levels[i].options.clients == 1 ? "" : "s");
        print_unsent(out, &sweep->levels[i]);
        print_failures(out, report);
        print_unmeasured(out, &sweep->levels[i]);
    }
    print_cut_short(out, sweep);
    weir_buffer_puts(
        out,
        "\nlatency by quantile; in flight: messages, waiting for their turn included; slowest: what the slowest client got of a\n"
        "fair share; own CPU: how many CPUs the driver used; server: share of its cores; busiest: its busiest thread, of one CPU\n");
    print_profiles(out, sweep);
    if (sweep->has_scaling)
        print_law(out, &sweep->scaling);
    if (sweep->knee[0])
        weir_buffer_printf(out, "knee: %s\n", sweep->knee);
}

