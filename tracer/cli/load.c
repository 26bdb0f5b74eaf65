/* weir load: drives a server with pipelined connections, and says what came back and how fast. */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buffer.h"
#include "pipeline_dsl/client/load.h"
#include "pipeline_dsl/client/workload.h"
#include "tracer/cli/verb.h"

#define CONNECTIONS_MOST 100000u
#define IN_FLIGHT_MOST 1000000u
#define UNDER_WAY_MOST 50000000u
#define THREADS_MOST 256u
#define DURATION_MOST_NS (30ull * 24 * 3600 * 1000000000ull)

enum argument { CONNECTIONS, EVENTS, IN_FLIGHT, DURATION, LOOPS, RATE, THREADS, WAIT, JSON };

static const struct option options[] = {
    { "connections", required_argument, NULL, CONNECTIONS }, { "clients", required_argument, NULL, CONNECTIONS },
    { "events", required_argument, NULL, EVENTS },           { "in-flight", required_argument, NULL, IN_FLIGHT },
    { "duration", required_argument, NULL, DURATION },       { "loops", required_argument, NULL, LOOPS },
    { "rate", required_argument, NULL, RATE },               { "threads", required_argument, NULL, THREADS },
    { "wait", required_argument, NULL, WAIT },               { "json", no_argument, NULL, JSON },
    { NULL, 0, NULL, 0 },
};

/* --- arguments -------------------------------------------------------------------------------------------------------- */

static bool parse_count(const char *text, uint64_t most, uint64_t *value)
{
    char *rest;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *value = strtoull(text, &rest, 10);
    return !errno && !*rest && *value >= 1 && *value <= most;
}

/* "10s", "500ms", "1.5min"; a number alone is seconds. */
static bool parse_duration(const char *text, uint64_t *ns)
{
    static const struct { const char *name; double ns; } units[] = {
        { "", 1e9 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 },
    };
    size_t digits = strspn(text, "0123456789.");
    char *rest;
    double number = strtod(text, &rest);
    if (!digits || *text == '.' || rest != text + digits)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double value = number * units[i].ns;
        if (strcmp(rest, units[i].name) == 0 && value >= 1 && value <= (double)DURATION_MOST_NS) {
            *ns = (uint64_t)value;
            return true;
        }
    }
    return false;
}

static bool parse_rate(const char *text, double *rate)
{
    char *rest;
    size_t digits = strspn(text, "0123456789.");
    *rate = strtod(text, &rest);
    return digits && rest == text + digits && (!*rest || strcmp(rest, "/s") == 0) && *rate >= 1e-3 && *rate <= 1e9;
}

static int bad(const char *name, const char *text, const char *what)
{
    return weir_cli_usage(&weir_verb_load, "--%s '%s' is not %s", name, text, what);
}

static int parse_option(int option, const char *name, struct weir_load_options *load, bool *json)
{
    uint64_t value;
    switch (option) {
    case CONNECTIONS:
        if (!parse_count(optarg, CONNECTIONS_MOST, &value))
            return bad(name, optarg, "a number from 1 to 100000");
        load->connections = value;
        return 0;
    case EVENTS:
        if (!parse_count(optarg, WEIR_WORKLOAD_EVENTS_MOST, &value))
            return bad(name, optarg, "a number of events in one message, from 1 to 100000");
        load->events = value;
        return 0;
    case IN_FLIGHT:
        if (!parse_count(optarg, IN_FLIGHT_MOST, &value))
            return bad(name, optarg, "a number of messages from 1 to 1000000");
        load->in_flight = value;
        return 0;
    case LOOPS:
        if (!parse_count(optarg, UINT64_MAX - 1, &load->loops))
            return bad(name, optarg, "a number of messages that each connection is to send");
        return 0;
    case THREADS:
        if (!parse_count(optarg, THREADS_MOST, &value))
            return bad(name, optarg, "a number of threads from 1 to 256");
        load->threads = value;
        return 0;
    case DURATION:
        return parse_duration(optarg, &load->duration_ns) ? 0 : bad(name, optarg, "a duration like 10s, 500ms or 2min");
    case WAIT:
        return parse_duration(optarg, &load->wait_ns) ? 0 : bad(name, optarg, "a duration like 5s or 500ms");
    case RATE:
        return parse_rate(optarg, &load->rate) ? 0 : bad(name, optarg, "a number of messages per second, like 5000");
    case JSON:
        *json = true;
        return 0;
    default:
        return weir_bug("option %d", option), 0;
    }
}

static int parse(int argc, char **argv, struct weir_load_options *load, bool *json)
{
    int option, at = 0;
    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, ":", options, &at)) != -1) {
        if (option == ':')
            return weir_cli_usage(&weir_verb_load, "%s needs a value", argv[optind - 1]);
        if (option == '?' && optopt)
            return weir_cli_usage(&weir_verb_load, "%s takes no value and no short form", argv[optind - 1]);
        if (option == '?')
            return weir_cli_usage(&weir_verb_load, "there is no option %s", argv[optind - 1]);
        int rc = parse_option(option, options[at].name, load, json);
        if (rc)
            return rc;
    }
    if (optind == argc)
        return weir_cli_usage(&weir_verb_load, "say which server, like: weir load tcp 127.0.0.1:5555");
    if (strcmp(argv[optind], "tcp") != 0)
        return weir_cli_usage(&weir_verb_load, "'%s' can't be driven; only tcp can", argv[optind]);
    if (argc - optind < 2)
        return weir_cli_usage(&weir_verb_load, "tcp needs an address, like 127.0.0.1:5555");
    if (argc - optind > 2)
        return weir_cli_usage(&weir_verb_load, "'%s' is one argument too many", argv[optind + 2]);
    if (load->connections * load->in_flight > UNDER_WAY_MOST)
        return weir_cli_usage(&weir_verb_load, "%zu connections with %zu messages in flight each are more than 50000000 in all",
                              load->connections, load->in_flight);
    load->address = argv[optind + 1];
    if (!load->duration_ns && !load->loops)
        load->duration_ns = 10000000000u;
    return 0;
}

/* --- the report ------------------------------------------------------------------------------------------------------- */

static double per_s(double number, uint64_t duration_ns)
{
    return duration_ns ? number * 1e9 / (double)duration_ns : 0;
}

/* 1234567 -> "1,234,567" */
static const char *grouped(double number, char text[32])
{
    char plain[32];
    int length = snprintf(plain, sizeof plain, "%.0f", number), to = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text[to++] = ',';
        text[to++] = plain[i];
    }
    text[to] = '\0';
    return text;
}

/* Three significant digits and the unit: "812 us", "1.23 ms". */
static const char *duration(double ns, char text[32])
{
    static const struct { double ns; const char *name; } units[] = { { 1e9, "s" }, { 1e6, "ms" }, { 1e3, "us" }, { 1, "ns" } };
    size_t i = 0;
    while (i < 3 && ns < units[i].ns)
        i++;
    double value = ns / units[i].ns;
    snprintf(text, 32, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[i].name);
    return text;
}

static const struct { const char *name, *key; double q; } quantiles[] = {
    { "p50", "p50", .5 }, { "p90", "p90", .9 }, { "p99", "p99", .99 }, { "p99.9", "p999", .999 }, { "max", "max", 1 },
};
#define QUANTILES (sizeof quantiles / sizeof *quantiles)

static uint64_t quantile(const struct weir_histogram *latency, size_t i)
{
    return quantiles[i].q < 1 ? weir_histogram_quantile(latency, quantiles[i].q) : latency->max;
}

/* The names of failures in JSON; people read weir_client_result_name(). */
static const char *const failure_keys[WEIR_CLIENT_RESULTS] = {
    [WEIR_CLIENT_REFUSED] = "refused",     [WEIR_CLIENT_CLOSED] = "closed",         [WEIR_CLIENT_RESET] = "reset",
    [WEIR_CLIENT_BAD_REPLY] = "bad_reply", [WEIR_CLIENT_UNANSWERED] = "unanswered", [WEIR_CLIENT_BROKEN] = "broken",
    [WEIR_CLIENT_DOWN] = "down",
};

static void print_failures(struct weir_buffer *out, const struct weir_load_report *report)
{
    char number[32];
    const char *label = "errors";
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++) {
        if (!failure_keys[i] || !report->results[i])
            continue;
        weir_buffer_printf(out, "  %-11s %12s %s", label, grouped((double)report->results[i], number),
                           weir_client_result_name((enum weir_client_result)i));
        if (i == WEIR_CLIENT_REFUSED)
            weir_buffer_printf(out, ": %s", report->refusal);
        weir_buffer_putc(out, '\n');
        label = "";
    }
    if (report->connections_lost)
        weir_buffer_printf(out, "  %-11s %12s connections lost\n", label, grouped((double)report->connections_lost, number));
}

static void print_text(struct weir_buffer *out, const struct weir_load_options *load, const struct weir_load_report *report)
{
    static const char *const ends[] = { "", "", " (stopped by a signal)", " (no connection was left)" };
    char a[32];
    double acked = (double)report->results[WEIR_CLIENT_ACKED];
    weir_buffer_printf(out, "%s  %zu connection%s, %zu in flight on each, %zu event%s a message", load->address, load->connections,
                       load->connections == 1 ? "" : "s", load->in_flight, load->events, load->events == 1 ? "" : "s");
    if (load->rate > 0)
        weir_buffer_printf(out, ", %s messages/s wanted", grouped(load->rate, a));
    weir_buffer_printf(out, "\n\n  %-11s %12s events/s\n", "throughput",
                       grouped(per_s(acked * (double)load->events, report->duration_ns), a));
    weir_buffer_printf(out, "  %-11s %12s messages/s\n", "", grouped(per_s(acked, report->duration_ns), a));
    double bytes = report->sent ? (double)report->sent_bytes / (double)report->sent * acked : 0;
    weir_buffer_printf(out, "  %-11s %12.1f MB/s\n", "", per_s(bytes, report->duration_ns) / 1e6);
    for (size_t i = 0; i < QUANTILES; i++)
        weir_buffer_printf(out, "  %-11s %12s %s\n", i ? "" : "latency",
                           report->latency.count ? duration((double)quantile(&report->latency, i), a) : "-", quantiles[i].name);
    weir_buffer_printf(out, "  %-11s %12s sent\n", "messages", grouped((double)report->sent, a));
    weir_buffer_printf(out, "  %-11s %12s acknowledged\n", "", grouped(acked, a));
    weir_buffer_printf(out, "  %-11s %12s failed\n", "", grouped((double)weir_load_failed(report), a));
    print_failures(out, report);
    weir_buffer_printf(out, "  %-11s %12s until the last answer%s\n", "duration", duration((double)report->duration_ns, a),
                       ends[report->end]);
    weir_buffer_printf(out, "  %-11s %12s", "own CPU", duration((double)report->cpu_ns, a));
    if (report->duration_ns)
        weir_buffer_printf(out, ", %.0f %% of one CPU", (double)report->cpu_ns / (double)report->duration_ns * 100);
    if (acked > 0)
        weir_buffer_printf(out, ", %.1f ns an event", (double)report->cpu_ns / (acked * (double)load->events));
    weir_buffer_putc(out, '\n');
}

static json_t *latency_json(const struct weir_histogram *latency)
{
    if (!latency->count)
        return json_null();
    json_t *object = json_object();
    for (size_t i = 0; i < QUANTILES; i++)
        json_object_set_new(object, quantiles[i].key, json_integer((json_int_t)quantile(latency, i)));
    return object;
}

static int print_json(struct weir_buffer *out, const struct weir_load_options *load, const struct weir_load_report *report)
{
    static const char *const ends[] = { "duration", "loops", "signal", "lost" };
    double acked = (double)report->results[WEIR_CLIENT_ACKED];
    json_t *errors = json_object();
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        if (failure_keys[i])
            json_object_set_new(errors, failure_keys[i], json_integer((json_int_t)report->results[i]));
    json_t *root = json_pack(
        "{s:i, s:s, s:[{s:I, s:I, s:I, s:f, s:f, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:s*}]}", "version", 1, "address",
        load->address, "levels", "clients", (json_int_t)load->connections, "in_flight", (json_int_t)load->in_flight, "events",
        (json_int_t)load->events, "events_per_s", per_s(acked * (double)load->events, report->duration_ns), "messages_per_s",
        per_s(acked, report->duration_ns), "latency_ns", latency_json(&report->latency), "sent", (json_int_t)report->sent, "acked",
        (json_int_t)report->results[WEIR_CLIENT_ACKED], "failed", (json_int_t)weir_load_failed(report), "duration_ns",
        (json_int_t)report->duration_ns, "cpu_ns", (json_int_t)report->cpu_ns, "sent_bytes", (json_int_t)report->sent_bytes,
        "connections_lost", (json_int_t)report->connections_lost, "ended_by", ends[report->end], "errors", errors, "refusal",
        report->refusal[0] ? report->refusal : NULL);
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text)
        return -ENOMEM;
    weir_buffer_puts(out, text);
    weir_buffer_putc(out, '\n');
    free(text);
    return 0;
}

/* --- the verb --------------------------------------------------------------------------------------------------------- */

/* Every connection is a descriptor: take as many as the hard limit gives. */
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* SIGINT and SIGTERM as a descriptor, also where they were inherited as ignored. */
static int signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int run(int argc, char **argv)
{
    struct weir_load_options load = { .connections = 1, .events = 100, .in_flight = 64, .threads = 1, .wait_ns = 5000000000u };
    bool json = false;
    int rc = parse(argc, argv, &load, &json);
    if (rc)
        return rc;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_load_report report;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    raise_files();
    load.stop_fd = signals();
    rc = weir_load_run(&load, &report, &error);
    if (load.stop_fd >= 0)
        close(load.stop_fd);
    if (rc)
        return weir_cli_fail("load", &error);
    if (json)
        rc = print_json(&out, &load, &report);
    else
        print_text(&out, &load, &report);
    if (rc || out.failed) {
        weir_error_set(&error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for the report");
        rc = weir_cli_fail("load", &error);
    } else {
        rc = weir_cli_out(out.data, out.length);
    }
    weir_buffer_release(&out);
    return rc ? rc : weir_load_failed(&report) || report.connections_lost ? WEIR_EXIT_FOUND : WEIR_EXIT_DONE;
}

const struct weir_verb weir_verb_load = {
    .name = "load",
    .usage = "tcp ADDR [--connections N] [--events 100] [--in-flight 64] [--duration 10s | --loops N] [--rate R] [--threads 1] "
             "[--wait 5s] [--json]",
    .summary = "drives a server with pipelined connections: throughput, latency, failures",
    .run = run,
};
