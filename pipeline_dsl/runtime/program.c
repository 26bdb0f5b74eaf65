/* The command line of every built server. */
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "pipeline_dsl/runtime/server.h"

#define DRAIN_NS 5000000000u

static const char usage[] =
    "usage: %s [--listen PIPELINE=ADDR] [--drain DUR] [--counters FILE] [--self-metrics DUR]\n"
    "\n"
    "  --listen PIPELINE=ADDR  listen there instead of where the pipeline file says; port 0 lets the kernel choose; of a local\n"
    "                          socket, another path\n"
    "  --drain DUR             after SIGTERM or SIGINT, at most so long until the last reply is written (5s)\n"
    "  --self-metrics DUR      every DUR, events of its own: connections, rates, latencies, queue sizes, as Riemann names them\n"
    "  --counters FILE         at the end, and on SIGUSR1, write what was counted there, as JSON\n"
    "\n"
    "  SIGUSR1                 writes what was counted, to stderr without --counters\n"
    "  SIGHUP                  starts the program, or the file that `weir run` was given, anew; nothing is lost\n"
    "  SIGTERM, SIGINT         end it when every reply is written; a second one at once\n";

struct options {
    const char **addresses; /* [way_count] */
    const char *counters;
    uint64_t drain_ns;
    uint64_t self_ns; /* 0: no self-metrics */
};

static int parse_duration(const char *text, uint64_t *ns)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 }, { "min", 60000000000 }, { "h", 3600000000000 } };
    char *end;
    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0 && !errno && value <= UINT64_MAX / 2 / units[i].ns) {
            *ns = value * units[i].ns;
            return 0;
        }
    return -EINVAL;
}

static int parse_listen(const struct weir_plan *plan, const char *text, struct options *options, struct weir_error *error)
{
    const char *equals = strchr(text, '=');
    for (uint32_t i = 0; equals && i < plan->way_count; i++) {
        size_t length = strlen(plan->ways[i].name);
        if (length == (size_t)(equals - text) && memcmp(text, plan->ways[i].name, length) == 0) {
            options->addresses[i] = equals + 1;
            return 0;
        }
    }
    return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL,
                          "--listen takes PIPELINE=ADDR, and '%s' names no pipeline that listens, such as %s=%s", text,
                          plan->ways[0].name, plan->ways[0].address);
}

static int parse_one(const struct weir_plan *plan, const char *name, const char *value, struct options *options,
                     struct weir_error *error)
{
    bool listen = strcmp(name, "--listen") == 0, drain = strcmp(name, "--drain") == 0, counters = strcmp(name, "--counters") == 0;
    bool self = strcmp(name, "--self-metrics") == 0;
    if (!listen && !drain && !counters && !self)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "there is no option '%s'; --help shows those there are", name);
    if (!value)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "%s needs a value; --help shows which", name);
    if (listen)
        return parse_listen(plan, value, options, error);
    if (counters)
        options->counters = value;
    else if (self && (parse_duration(value, &options->self_ns) != 0 || options->self_ns < 100000000u))
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "--self-metrics takes a duration of 100ms or more, such as 10s, not '%s'",
                              value);
    else if (self && !plan->self_source)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL,
                              "--self-metrics needs a pipeline with `decode riemann`, behind which its events enter; %s has none",
                              plan->name);
    else if (self)
        return 0;
    else if (parse_duration(value, &options->drain_ns) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "--drain takes a duration such as 5s or 200ms, not '%s'", value);
    return 0;
}

static int parse(const struct weir_plan *plan, int argc, char **argv, struct options *options, struct weir_error *error)
{
    for (int i = 1; i < argc; i += 2) {
        int rc = parse_one(plan, argv[i], i + 1 < argc ? argv[i + 1] : NULL, options, error);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int serve(const struct weir_plan *plan, const struct options *options, char **argv, struct weir_error *error)
{
    static const char *const transports[] = { "tcp", "udp", "unix" };
    static struct weir_server server;
    int rc = weir_server_bind(&server, plan, options->addresses, error);
    if (rc == 0 && weir_reload_is_trial()) {
        weir_reload_report(&server, NULL);
        return 0;
    }
    if (rc == 0)
        rc = weir_server_start(&server, error);
    if (rc != 0)
        return rc;
    if (options->self_ns && (rc = weir_self_start(&server.self, &server, options->self_ns, error)) != 0)
        return rc;
    server.drain_ns = options->drain_ns;
    server.counters_path = options->counters;
    weir_reload_open(&server.reload, &server, argv);
    for (uint32_t i = 0; i < plan->way_count; i++)
        printf("%s: listening on %s %s%s\n", plan->ways[i].name, transports[plan->ways[i].transport], server.listeners[i].address,
               !plan->ways[i].tls            ? ""
               : plan->ways[i].tls_client_ca ? ", tls, clients with certificates"
                                             : ", tls");
    fflush(stdout);
    weir_server_run(&server);
    if (options->counters)
        rc = weir_counters_write(plan, options->counters, error);
    if (server.timed_out)
        fprintf(stderr, "%s: the drain's time was up before every reply was read; the rest was abandoned\n", plan->name);
    if (server.leaves) {
        rc = weir_reload_exec(&server.reload, error);
        fprintf(stderr, "%s: %s\n", plan->name, error->text);
        _exit(WEIR_EXIT_USAGE);
    }
    weir_reload_close(&server.reload);
    if (server.stuck) {
        fprintf(stderr, "%s: a stage did not return; the server ends without it\n", plan->name);
        fflush(NULL);
        _exit(rc == 0 ? WEIR_EXIT_DONE : WEIR_EXIT_USAGE);
    }
    weir_server_release(&server);
    return rc;
}

/* Every connection takes a descriptor, and the usual soft limit of 1,024 is there for programs that use select(). */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Left to itself the allocator takes the largest piece that was ever freed for what is usual, and then keeps up to 64 MiB of free
 * room at the end of each thread's heap. */
static void bound_free_room(void)
{
    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
}

int weir_server_main(const struct weir_plan *plan, int argc, char **argv)
{
    struct weir_error error = WEIR_ERROR_INIT;
    struct options options = { .drain_ns = DRAIN_NS };
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            printf(usage, name);
            return WEIR_EXIT_DONE;
        }
    signal(SIGPIPE, SIG_IGN);
    raise_descriptors();
    bound_free_room();
    options.addresses = calloc(plan->way_count + 1, sizeof *options.addresses);
    int rc = options.addresses ? 0 : weir_error_set(&error, WEIR_EXIT_USAGE, ENOMEM, "no memory to start");
    if (rc == 0)
        rc = parse(plan, argc, argv, &options, &error);
    if (rc == 0)
        rc = serve(plan, &options, argv, &error);
    free(options.addresses);
    if (rc == 0)
        return WEIR_EXIT_DONE;
    if (weir_reload_is_trial())
        weir_reload_report(NULL, &error);
    else
        fprintf(stderr, "%s: %s\n", name, error.text);
    return error.exit ? error.exit : WEIR_EXIT_USAGE;
}
