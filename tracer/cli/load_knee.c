/* What a sweep says in the end: up to how many clients throughput grew, and what stood at its limit there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracer/cli/load_level.h"

#define AT_LIMIT 0.85 /* of a CPU, or of all of them, over a level with its first and last moments */

static double own_busiest(const struct weir_load_report *report)
{
    return report->wall_ns ? (double)report->busiest_ns / (double)report->wall_ns : 0;
}

/* Most messages that can be on the wire at once. */
static double capacity(const struct load_level *level)
{
    return (double)level->report.connections * (level->options.mode == WEIR_LOAD_SYNC ? 1 : (double)level->options.in_flight);
}

/* Does the profile name threads that are busy all the time? They may wait inside of a stage, so that their CPU doesn't show it. */
static bool saturated(const struct load_profile_summary *profile)
{
    return profile->known && (strcmp(profile->kind, "stage") == 0 || strcmp(profile->kind, "pool") == 0);
}

static bool resource(const struct load_level *level, bool single, char *text, size_t size)
{
    const struct load_server_use *server = &level->server;
    const struct weir_load_report *report = &level->report;
    double cpus = (double)sysconf(_SC_NPROCESSORS_ONLN), own = load_own_cpus(report), under_way = capacity(level);
    bool full = report->in_flight >= 0.9 * under_way;
    if (server->known && load_server_share(level) >= AT_LIMIT)
        snprintf(text, size, "the server's CPU stood at its limit: it used %.0f %% of its %u core%s", load_server_share(level) * 100,
                 server->cores, server->cores == 1 ? "" : "s");
    else if (server->known && server->busiest >= AT_LIMIT)
        snprintf(text, size, "the server's CPU stood at its limit: its thread %s used %.0f %% of one CPU", server->thread,
                 server->busiest * 100);
    else if (own_busiest(report) >= AT_LIMIT)
        snprintf(text, size,
                 "the driver's own CPU stood at its limit (%.0f %% of one CPU for its busiest thread), so this is not the "
                 "server's; give it more --threads or a machine of its own",
                 own_busiest(report) * 100);
    else if (saturated(&level->profile))
        snprintf(text, size, "threads of the server stood at their limit, though not its CPU (%.2f CPUs used)", server->cpus);
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

/* What the server's profile adds to that. */
static void add_profile(const struct load_profile_summary *profile, char *text, size_t size)
{
    size_t at = strlen(text);
    if (profile->known && profile->stage[0])
        snprintf(text + at, size - at, "; of the server's CPU time %s took most (%.0f %%)", profile->stage, profile->stage_share * 100);
    at = strlen(text);
    if (profile->known && strcmp(profile->kind, "unclear") != 0)
        snprintf(text + at, size - at, "; its profile says: %s", profile->verdict);
}

bool load_limit(const struct load_level *level, bool single, char *text, size_t size)
{
    bool found = resource(level, single, text, size);
    add_profile(&level->profile, text, size);
    return found;
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
    char why[LOAD_WHY], a[32], b[32];
    double last_level = (double)last->options.clients;
    double best = 0;
    for (size_t i = 0; i < sweep->count; i++)
        best = fmax(best, load_level_events_per_s(&sweep->levels[i]));
    bool levels_off = weir_scaling_at(scaling, last_level) < 0.9 * scaling->most;
    /* Falling is what was seen, too, not only what the law would have. */
    bool falls = levels_off && scaling->peak < last_level && load_level_events_per_s(last) < 0.9 * best;
    levels_off = levels_off && (falls || scaling->peak >= last_level);
    double most = scaling->peak < last_level ? fmin(scaling->most, best) : scaling->most;
    load_limit(scaling->shape == WEIR_SCALING_KNEE ? level_at(sweep, scaling->knee) : first, false, why, sizeof why);
    switch (scaling->shape) {
    case WEIR_SCALING_KNEE:
        snprintf(sweep->knee, sizeof sweep->knee, "linear up to about %s client%s, %s about %s events/s; at %zu clients %s",
                 load_grouped(rounded(scaling->knee), a), rounded(scaling->knee) == 1 ? "" : "s",
                 falls        ? "falling after, from"
                 : levels_off ? "levelling off after, towards"
                              : "flat after, at",
                 load_grouped(rounded(most), b), level_at(sweep, scaling->knee)->options.clients, why);
        break;
    case WEIR_SCALING_FLAT:
        if (first->options.clients == 1)
            snprintf(sweep->knee, sizeof sweep->knee, "flat from the first level on: 1 client brings the most there is; with it %s", why);
        else
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
    if (sweep->count > 1 && sweep->levels[0].options.rate > 0)
        snprintf(sweep->knee, sizeof sweep->knee, "none to be found at a given rate, which no number of clients changes; leave out --rate");
    else if (points && sweep->count > 1) {
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
