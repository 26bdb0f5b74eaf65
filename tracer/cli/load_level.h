/*
 * load_level: one level of `weir load`, as it was asked for and as it went, and what is printed of all of them.
 *
 * Units: ns, events, clients; CPU as a number of CPUs (1.5: one and a half).
 * Owns: its report.
 * Threads: one at a time.
 * Errors: running out of memory shows in the buffer.
 */
#ifndef WEIR_CLI_LOAD_LEVEL_H
#define WEIR_CLI_LOAD_LEVEL_H

#include "base/buffer.h"
#include "pipeline_dsl/client/load.h"
#include "pipeline_dsl/client/scaling.h"
#include "tracer/cli/load_profile.h"
#include "tracer/cli/load_server.h"

struct load_level {
    struct weir_load_options options;
    struct weir_load_report report;
    struct load_server_use server; /* known: false when there is no local server */
    struct load_profile_summary profile;
    uint64_t started_ns;           /* since the first level's start */
};

struct load_sweep {
    struct load_level *levels; /* [count] */
    size_t wanted; /* levels that were asked for; fewer ran where it was cut short */
    size_t count;
    bool has_scaling;
    struct weir_scaling scaling;
    char knee[1400]; /* the sentence; "" for one level */
};

/* The quantiles of latency that are shown, and their names for people and in JSON. */
#define LOAD_QUANTILES 5u
extern const struct load_quantile {
    const char *name, *key;
    double q;
} load_quantiles[LOAD_QUANTILES];
uint64_t load_quantile(const struct weir_histogram *latency, size_t i);
/* The names of failures in JSON, null for what is none; people read weir_client_result_name(). */
extern const char *const load_failure_keys[WEIR_CLIENT_RESULTS];

/* Throughput of a level; `number` in so much time as a rate. */
double load_level_events_per_s(const struct load_level *level);
double load_per_s(double number, uint64_t duration_ns);
/* CPUs that the driver used. */
double load_own_cpus(const struct weir_load_report *report);
/* The server's CPU time as a share of its cores, by its profile where there is one; 0 when the server isn't known. */
double load_server_share(const struct load_level *level);
/* The slowest client's part of what it would have with fair shares, 0 to 1. */
double load_fairness(const struct weir_load_report *report);

/* Which resource stood at its limit in this level; false when none did, with what is known. In a sweep connections that wait one
 * by one are no limit, since each level has more of them; of a single level that is what there is to say. */
#define LOAD_WHY 900u
bool load_limit(const struct load_level *level, bool single, char *text, size_t size);
/* Fits the law over all levels and says where the knee is, and what stood at its limit there. */
void load_sweep_judge(struct load_sweep *sweep);

/* One level in full; a sweep as a table; both as JSON; the pictures. */
void load_print_level(struct weir_buffer *out, const struct load_level *level);
void load_print_table(struct weir_buffer *out, const struct load_sweep *sweep);
int load_print_json(struct weir_buffer *out, const struct load_sweep *sweep);
void load_plot(struct weir_buffer *out, const struct load_sweep *sweep);

/* Numbers for people: "1,234,567"; "812 us", "1.23 ms". */
const char *load_grouped(double number, char text[32]);
const char *load_duration(double ns, char text[32]);

#endif
