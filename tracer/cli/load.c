/*
 * weir load: drives a server with many clients of one kind, at one level or a sweep of levels, and says what came back, how fast,
 * and where more clients stopped helping. The driver is client/load; what is printed is load_level, and the pictures load_plot.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "tracer/cli/load_level.h"
#include "tracer/cli/load_profile.h"
#include "tracer/cli/load_replay.h"
#include "tracer/cli/duration.h"
#include "tracer/cli/load_manual.h"
#include "tracer/cli/verb.h"

#define CLIENTS_MOST 100000u
#define IN_FLIGHT_MOST 1000000u
#define UNDER_WAY_MOST 50000000u
#define LOOPS_MOST 1000000000000u
#define THREADS_MOST 256u
#define LEVELS_MOST 64u
#define DESCRIPTION_MOST 4096u
#define PROGRESS_NS 500000000u
#define TICK_NS 100000000u
#define RECORD_NS 10000000000u            /* of a level, for its figures */
#define RECORD_SAVED_NS 86400000000000u   /* and for a profile that is kept */

enum argument {
    MODE, CLIENTS, SHARE, EVENTS, LINGER, IN_FLIGHT, UDP, RAMP, DURATION, LOOPS, RATE, QUERY, QUERY_SHARE, THREADS, WAIT, REPLAY,
    HOSTS, SERVICES, TAGS, ATTRIBUTES, DESCRIPTION, METRIC, PROFILE, NO_PROFILE, PLOT, JSON
};

static const struct option options[] = {
    { "mode", required_argument, NULL, MODE },
    { "clients", required_argument, NULL, CLIENTS },
    { "connections", required_argument, NULL, CLIENTS },
    { "share", required_argument, NULL, SHARE },
    { "events", required_argument, NULL, EVENTS },
    { "linger", required_argument, NULL, LINGER },
    { "in-flight", required_argument, NULL, IN_FLIGHT },
    { "udp", no_argument, NULL, UDP },
    { "ramp", required_argument, NULL, RAMP },
    { "duration", required_argument, NULL, DURATION },
    { "loops", required_argument, NULL, LOOPS },
    { "rate", required_argument, NULL, RATE },
    { "query", required_argument, NULL, QUERY },
    { "query-share", required_argument, NULL, QUERY_SHARE },
    { "threads", required_argument, NULL, THREADS },
    { "wait", required_argument, NULL, WAIT },
    { "replay", required_argument, NULL, REPLAY },
    { "hosts", required_argument, NULL, HOSTS },
    { "services", required_argument, NULL, SERVICES },
    { "tags", required_argument, NULL, TAGS },
    { "attributes", required_argument, NULL, ATTRIBUTES },
    { "description", required_argument, NULL, DESCRIPTION },
    { "metric", required_argument, NULL, METRIC },
    { "profile", required_argument, NULL, PROFILE },
    { "no-profile", no_argument, NULL, NO_PROFILE },
    { "plot", required_argument, NULL, PLOT },
    { "json", no_argument, NULL, JSON },
    { NULL, 0, NULL, 0 },
};

/* What the command line asked for. */
struct wish {
    struct weir_load_options load;
    size_t clients[LEVELS_MOST], levels;
    struct weir_workload_shape shape;
    const char *query, *replay, *profile, *plot;
    bool json, has_share, has_linger, has_shape, no_profile;
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

/* "100,1000,2000" */
static bool parse_levels(const char *text, struct wish *wish)
{
    char copy[1024], *rest = NULL;
    if (strlen(text) >= sizeof copy || !*text || text[strlen(text) - 1] == ',' || *text == ',' || strstr(text, ",,"))
        return false;
    strcpy(copy, text);
    wish->levels = 0;
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        uint64_t value;
        if (wish->levels == LEVELS_MOST || !parse_count(word, CLIENTS_MOST, &value))
            return false;
        wish->clients[wish->levels++] = value;
    }
    return wish->levels > 0;
}

static bool parse_mode(const char *text, enum weir_load_mode *mode)
{
    for (int i = WEIR_LOAD_PIPELINED; i <= WEIR_LOAD_SYNC; i++)
        if (strcmp(text, weir_load_mode_name((enum weir_load_mode)i)) == 0) {
            *mode = (enum weir_load_mode)i;
            return true;
        }
    return false;
}

/* "1%" or "0.01" */
static bool parse_share(const char *text, double *share)
{
    char *rest;
    size_t digits = strspn(text, "0123456789.");
    *share = strtod(text, &rest);
    if (!digits || rest != text + digits)
        return false;
    if (strcmp(rest, "%") == 0)
        *share /= 100;
    else if (*rest)
        return false;
    return *share > 0 && *share <= 1;
}

static bool parse_metric(const char *text, enum weir_metric_kind *kind)
{
    static const struct { const char *name; enum weir_metric_kind kind; } kinds[] = {
        { "int", WEIR_METRIC_INT }, { "double", WEIR_METRIC_DOUBLE }, { "float", WEIR_METRIC_FLOAT },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(text, kinds[i].name) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    return false;
}

/* A count of something into a size_t. */
static int parse_size(const char *name, uint64_t least, uint64_t most, size_t *size, const char *what)
{
    uint64_t value;
    if (least == 0 && strcmp(optarg, "0") == 0)
        value = 0;
    else if (!parse_count(optarg, most, &value))
        return bad(name, optarg, what);
    *size = value;
    return 0;
}

static int parse_text(const char *name, const char **text)
{
    *text = optarg;
    return *optarg ? 0 : weir_cli_usage(&weir_verb_load, "--%s needs a value that isn't empty", name);
}

static int parse_time(const char *name, uint64_t *ns)
{
    return weir_cli_duration(optarg, ns) ? 0 : bad(name, optarg, "a duration like 10s, 500ms or 2min");
}

/* How the events look. */
static int parse_shape(int option, const char *name, struct weir_workload_shape *shape)
{
    switch (option) {
    case HOSTS:
        return parse_size(name, 1, 1000000, &shape->hosts, "a number of hosts from 1 to 1000000");
    case SERVICES:
        return parse_size(name, 1, 1000000, &shape->services, "a number of services from 1 to 1000000");
    case TAGS:
        return parse_size(name, 0, WEIR_WORKLOAD_TAGS_MOST, &shape->tags, "a number of tags from 0 to 64");
    case ATTRIBUTES:
        return parse_size(name, 0, WEIR_WORKLOAD_TAGS_MOST, &shape->attributes, "a number of attributes from 0 to 64");
    case DESCRIPTION:
        return parse_size(name, 0, DESCRIPTION_MOST, &shape->description_bytes, "a number of bytes from 0 to 4096");
    default:
        return parse_metric(optarg, &shape->metric) ? 0 : bad(name, optarg, "int, double or float");
    }
}

static int parse_option(int option, const char *name, struct wish *wish)
{
    struct weir_load_options *load = &wish->load;
    switch (option) {
    case MODE:
        return parse_mode(optarg, &load->mode) ? 0 : bad(name, optarg, "sync, batch or pipelined");
    case CLIENTS:
        return parse_levels(optarg, wish) ? 0 : bad(name, optarg, "a number from 1 to 100000, or several like 100,1000,2000");
    case SHARE:
        return parse_size(name, 1, CLIENTS_MOST, &load->share, "a number of clients on one connection, from 1 to 100000");
    case EVENTS:
        return parse_size(name, 1, WEIR_WORKLOAD_EVENTS_MOST, &load->events,
                          "a number of events in one message, from 1 to 100000");
    case IN_FLIGHT:
        return parse_size(name, 1, IN_FLIGHT_MOST, &load->in_flight, "a number of messages from 1 to 1000000");
    case THREADS:
        return parse_size(name, 1, THREADS_MOST, &load->threads, "a number of threads from 1 to 256");
    case LOOPS:
        return parse_count(optarg, LOOPS_MOST, &load->loops)
                   ? 0
                   : bad(name, optarg, "a number of messages for each client, from 1 to 1000000000000");
    case LINGER:
        wish->has_linger = true;
        return parse_time(name, &load->linger_ns);
    case RAMP:
        return parse_time(name, &load->ramp_ns);
    case DURATION:
        return parse_time(name, &load->duration_ns);
    case WAIT:
        return parse_time(name, &load->wait_ns);
    case RATE:
        return parse_rate(optarg, &load->rate) ? 0 : bad(name, optarg, "a number of messages per second, like 5000");
    case QUERY_SHARE:
        wish->has_share = true;
        return parse_share(optarg, &load->query_share) ? 0 : bad(name, optarg, "a share of the messages, like 1%");
    case UDP:
        load->datagram = true;
        return 0;
    case JSON:
        wish->json = true;
        return 0;
    case QUERY:
        return parse_text(name, &wish->query);
    case REPLAY:
        return parse_text(name, &wish->replay);
    case PROFILE:
        return parse_text(name, &wish->profile);
    case NO_PROFILE:
        wish->no_profile = true;
        return 0;
    case PLOT:
        return parse_text(name, &wish->plot);
    default:
        wish->has_shape = true;
        return parse_shape(option, name, &wish->shape);
    }
}

/* What says something that another option makes meaningless. */
static int check_pairs(const struct wish *wish)
{
    const struct weir_load_options *load = &wish->load;
    if (load->datagram && (load->mode == WEIR_LOAD_SYNC || load->in_flight))
        return weir_cli_usage(&weir_verb_load, "nobody answers a datagram, so none is waited for; leave out %s or take tcp",
                              load->in_flight ? "--in-flight" : "--mode sync");
    if (load->mode == WEIR_LOAD_SYNC && load->in_flight > 1)
        return weir_cli_usage(&weir_verb_load, "mode sync has one message under way; leave out --in-flight or take mode pipelined");
    if (wish->has_linger && load->mode != WEIR_LOAD_BATCH)
        return weir_cli_usage(&weir_verb_load, "--linger needs --mode batch, where events wait for others");
    if (wish->replay && wish->has_shape)
        return weir_cli_usage(&weir_verb_load, "--replay sends events as they were recorded; leave it out to shape made-up ones");
    return 0;
}

/* Better told before the load than after it: can `path` be written? `image` is one that will be. */
static int check_place(const char *path, bool image)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    if (image && dot && strcmp(dot, ".svg") != 0)
        return weir_cli_usage(&weir_verb_load, "--plot draws SVG; give it a name like x.svg instead of '%s'", path);
    char folder[PATH_MAX] = ".";
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (access(folder, W_OK | X_OK) != 0 && (!image || access(path, W_OK) != 0))
        return weir_cli_usage(&weir_verb_load, "nothing can be written to '%s': %s", path, strerror(errno));
    return 0;
}

/* What doesn't go together. */
static int check(struct wish *wish)
{
    struct weir_load_options *load = &wish->load;
    int rc = check_pairs(wish);
    if (!rc && wish->plot)
        rc = check_place(wish->plot, true);
    if (!rc && wish->profile)
        rc = check_place(wish->profile, false);
    if (rc)
        return rc;
    if (wish->has_share && !wish->query)
        return weir_cli_usage(&weir_verb_load, "--query-share needs --query 'EXPRESSION', which says what is asked");
    if (wish->query && load->datagram)
        return weir_cli_usage(&weir_verb_load, "a query needs an answer, and a datagram has none; leave out --udp or --query");
    if (wish->query && load->mode == WEIR_LOAD_BATCH)
        return weir_cli_usage(&weir_verb_load, "mode batch sends events alone; ask queries in mode sync or pipelined");
    if (wish->profile && wish->no_profile)
        return weir_cli_usage(&weir_verb_load, "--profile saves what --no-profile leaves out; give one of them");
    if (wish->query && !wish->has_share)
        load->query_share = 0.01;
    if (!load->in_flight)
        load->in_flight = load->mode == WEIR_LOAD_PIPELINED ? 64 : 1;
    uint64_t messages = load->in_flight * (load->mode == WEIR_LOAD_BATCH ? load->events : 1);
    for (size_t i = 0; i < wish->levels; i++)
        if (messages > UNDER_WAY_MOST / wish->clients[i])
            return weir_cli_usage(&weir_verb_load, "%zu clients with %zu messages in flight each are more than 50000000 in all",
                                  wish->clients[i], load->in_flight);
    if (!load->duration_ns && !load->loops)
        load->duration_ns = 10000000000u;
    return 0;
}

static int parse(int argc, char **argv, struct wish *wish)
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
        int rc = parse_option(option, options[at].name, wish);
        if (rc)
            return rc;
    }
    if (optind == argc)
        return weir_cli_usage(&weir_verb_load, "say which server, like: weir load tcp 127.0.0.1:5555");
    if (strcmp(argv[optind], "udp") == 0)
        wish->load.datagram = true;
    else if (strcmp(argv[optind], "tcp") != 0)
        return weir_cli_usage(&weir_verb_load, "'%s' can't be driven; only tcp and udp can", argv[optind]);
    if (argc - optind < 2)
        return weir_cli_usage(&weir_verb_load, "%s needs an address, like 127.0.0.1:5555", argv[optind]);
    if (argc - optind > 2)
        return weir_cli_usage(&weir_verb_load, "'%s' is one argument too many", argv[optind + 2]);
    wish->load.address = argv[optind + 1];
    return check(wish);
}

/* --- running ---------------------------------------------------------------------------------------------------------- */

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

/* The one sweep that runs: what its levels share, and what is known of the one at work. */
struct running {
    const struct wish *wish;
    size_t level;
    struct load_server server;
    struct load_profile profile;
    bool records, shows;            /* a profile of each level; a progress line */
    struct weir_load_progress shown;
    struct weir_error *later;       /* the first thing that went wrong and leaves a report to print */
};

/* One line on the terminal, written over and over. */
static void show(struct running *running, const struct weir_load_progress *progress)
{
    uint64_t time = progress->elapsed_ns - running->shown.elapsed_ns;
    size_t clients = running->wish->clients[running->level];
    char a[32], b[32], c[32];
    fprintf(stderr, "\r\033[K%zu client%s (level %zu of %zu), %s: %s events/s, %s failed", clients, clients == 1 ? "" : "s",
            running->level + 1, running->wish->levels, load_duration((double)progress->elapsed_ns, a),
            load_grouped((double)(progress->acked_events - running->shown.acked_events) * 1e9 / (double)time, b),
            load_grouped((double)progress->failed, c));
    fflush(stderr);
    running->shown = *progress;
}

/* The recorder looks at the time in which all clients send: from the ramp's end to the end of the sending. */
static void on_progress(void *context, const struct weir_load_progress *progress)
{
    struct running *running = context;
    const struct weir_load_options *load = &running->wish->load;
    if (progress->elapsed_ns >= load->ramp_ns)
        load_profile_go(&running->profile);
    if (load->duration_ns && progress->elapsed_ns >= load->ramp_ns + load->duration_ns)
        load_profile_halt(&running->profile);
    if (running->shows && progress->elapsed_ns >= running->shown.elapsed_ns + PROGRESS_NS)
        show(running, progress);
}

/* Says once, in one line, that there will be no profiles; the load goes on. */
static void give_up_recording(struct running *running, const char *why)
{
    running->records = false;
    fprintf(stderr, "weir load: goes on without the server's profile: %s\n", why);
}

static void start_recording(struct running *running)
{
    struct weir_error error = WEIR_ERROR_INIT;
    uint64_t most_ns = running->wish->profile ? RECORD_SAVED_NS : RECORD_NS;
    running->profile = (struct load_profile){ 0 };
    if (running->records && load_profile_start(&running->profile, running->server.pid, most_ns, &error))
        give_up_recording(running, error.text);
}

static void stop_recording(struct running *running, bool ran, struct load_profile_summary *summary)
{
    const struct wish *wish = running->wish;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_buffer path = WEIR_BUFFER_INIT;
    if (wish->profile)
        weir_buffer_printf(&path, "%s-%zu.wprof", wish->profile, wish->clients[running->level]);
    int rc = load_profile_stop(&running->profile, wish->profile ? weir_buffer_text(&path) : NULL, summary, &error);
    if (rc && summary->known && !running->later->exit)
        *running->later = error;
    else if (rc && !summary->known)
        give_up_recording(running, error.text);
    else if (running->records && ran && !summary->known)
        fprintf(stderr, "weir load: the level of %zu client%s was too short for a profile of the server\n",
                wish->clients[running->level], wish->clients[running->level] == 1 ? "" : "s");
    weir_buffer_release(&path);
}

static int run_level(struct running *running, struct load_level *level, struct weir_error *error)
{
    struct load_server before;
    level->options = running->wish->load;
    level->options.clients = running->wish->clients[running->level];
    level->options.progress = on_progress;
    level->options.progress_ns = TICK_NS;
    level->options.context = running;
    running->shown = (struct weir_load_progress){ 0 };
    start_recording(running);
    load_server_look(&running->server);
    before = running->server;
    int rc = weir_load_run(&level->options, &level->report, error);
    load_server_look(&running->server);
    stop_recording(running, rc == 0, &level->profile);
    level->server = load_server_between(&before, &running->server);
    level->options.progress = NULL;
    level->options.context = NULL;
    if (running->shows)
        fputs("\r\033[K", stderr);
    return rc;
}

static int run_sweep(const struct wish *wish, struct load_sweep *sweep, struct weir_error *later, struct weir_error *error)
{
    static struct running running; /* too large for a stack */
    uint64_t start = weir_clock_ns();
    running.wish = wish;
    running.later = later;
    running.shows = isatty(STDERR_FILENO);
    running.records = !wish->no_profile && (wish->profile || wish->levels > 1);
    load_server_find(&running.server, wish->load.address, wish->load.datagram);
    if (running.records && !running.server.pid)
        give_up_recording(&running, running.server.unknown);
    for (; running.level < wish->levels; running.level++) {
        struct load_level *level = &sweep->levels[running.level];
        level->started_ns = weir_clock_ns() - start;
        int rc = run_level(&running, level, running.level ? later : error);
        if (rc && running.level)
            break; /* what the levels before showed is worth printing */
        if (rc)
            return rc;
        sweep->count++;
        if (level->report.end == WEIR_LOAD_STOPPED || level->report.end == WEIR_LOAD_LOST)
            break;
    }
    load_sweep_judge(sweep);
    return 0;
}

static int make_workload(struct wish *wish, struct weir_workload *workload, struct weir_error *error)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int rc = wish->replay ? load_replay(workload, wish->replay, wish->load.events, error)
                          : weir_workload_init(workload, &wish->shape, wish->load.events, (int64_t)now.tv_sec * 1000000, error);
    if (!rc && wish->load.mode != WEIR_LOAD_BATCH && workload->each_count < wish->load.events)
        wish->load.events = workload->each_count; /* that is all a message gets */
    if (!rc && wish->query)
        rc = weir_workload_query(workload, wish->query, error);
    return rc;
}

/* --- the verb --------------------------------------------------------------------------------------------------------- */

static int print(const struct wish *wish, const struct load_sweep *sweep, struct weir_error *error)
{
    struct weir_buffer out = WEIR_BUFFER_INIT, picture = WEIR_BUFFER_INIT;
    int rc = 0;
    if (wish->json)
        rc = load_print_json(&out, sweep);
    else if (wish->levels > 1)
        load_print_table(&out, sweep);
    else
        load_print_level(&out, &sweep->levels[0]);
    if (wish->plot)
        load_plot(&picture, sweep);
    if (rc || out.failed || picture.failed)
        rc = weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for the report");
    if (!rc)
        rc = weir_cli_out(out.data, out.length);
    if (!rc && wish->plot)
        rc = weir_file_write(wish->plot, picture.data, picture.length, "the picture", error);
    weir_buffer_release(&out);
    weir_buffer_release(&picture);
    return rc;
}

static int run(int argc, char **argv)
{
    struct wish wish = {
        .load = { .events = 100, .threads = 1, .linger_ns = 10000000, .wait_ns = 5000000000u },
        .clients = { 1 },
        .levels = 1,
        .shape = weir_workload_usual,
    };
    int rc = parse(argc, argv, &wish);
    if (rc)
        return rc;
    struct weir_error error = WEIR_ERROR_INIT, later = WEIR_ERROR_INIT;
    struct weir_workload workload = { .bytes = WEIR_BUFFER_INIT };
    struct load_level *levels = calloc(wish.levels, sizeof *levels);
    struct load_sweep sweep = { .levels = levels, .wanted = wish.levels };
    bool failed = false;
    raise_files();
    wish.load.stop_fd = signals();
    rc = levels ? make_workload(&wish, &workload, &error)
                : weir_error_set(&error, WEIR_EXIT_FOUND, ENOMEM, "out of memory for the levels");
    wish.load.workload = &workload;
    if (!rc)
        rc = run_sweep(&wish, &sweep, &later, &error);
    if (!rc)
        rc = print(&wish, &sweep, &error);
    if (wish.load.stop_fd >= 0)
        close(wish.load.stop_fd);
    for (size_t i = 0; i < sweep.count; i++) {
        failed = failed || weir_load_failed(&levels[i].report) || levels[i].report.connections_lost;
        weir_load_report_release(&levels[i].report);
    }
    free(levels);
    weir_workload_release(&workload);
    if (rc < 0)
        return weir_cli_fail("load", &error);
    if (later.exit)
        return weir_cli_fail("load", &later);
    return rc ? rc : failed ? WEIR_EXIT_FOUND : WEIR_EXIT_DONE;
}

const struct weir_verb weir_verb_load = {
    .name = "load",
    .usage = "tcp|udp ADDR [--mode pipelined|batch|sync] [--clients N,N,…] [--share K] [--events 100] [--in-flight 64] "
             "[--linger 10ms] "
             "[--duration 10s | --loops N] [--ramp DUR] [--rate R] [--query EXPR] [--query-share 1%] [--threads 1] [--wait 5s] "
             "[--replay FILE] [--profile PREFIX | --no-profile] [--plot x.svg] [--json] [event shape]",
    .summary = "drives a server with clients: throughput, latency, failures, and where more clients stop helping",
    .run = run,
    .manual = load_manual,
};
