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
#include "tracer/cli/load_server.h"

struct load_level {
    struct weir_load_options options;
    struct weir_load_report report;
    struct load_server_use server; /* known: false when there is no local server */
    uint64_t started_ns;           /* since the first level's start */
};

struct load_sweep {
    struct load_level *levels; /* [count] */
    size_t count;
    bool has_scaling;
    struct weir_scaling scaling;
    char knee[512]; /* the sentence; "" for one level */
};

/* Throughput of a level. */
double load_level_events_per_s(const struct load_level *level);
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
