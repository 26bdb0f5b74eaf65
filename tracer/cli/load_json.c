/* A load as JSON, for machines. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "tracer/cli/load_level.h"

static const char *const ends[] = { "duration", "loops", "signal", "lost" };

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
    for (size_t i = 0; i < LOAD_QUANTILES; i++)
        json_object_set_new(object, load_quantiles[i].key, count_json(load_quantile(latency, i)));
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

static json_t *server_json(const struct load_level *level)
{
    const struct load_server_use *server = &level->server;
    if (!server->known)
        return json_null();
    return json_pack("{s:i, s:s, s:f, s:i, s:f, s:f, s:s}", "pid", server->pid, "name", server->name, "cpus", server->cpus, "cores",
                     (int)server->cores, "cores_share", load_server_share(level), "busiest_share", server->busiest, "busiest_thread",
                     server->thread);
}

static json_t *text_json(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static json_t *profile_json(const struct load_profile_summary *profile)
{
    if (!profile->known)
        return json_null();
    return json_pack("{s:{s:s, s:s}, s:o, s:f, s:f, s:o}", "verdict", "kind", profile->kind, "text", profile->verdict, "busiest_stage",
                     text_json(profile->stage), "busiest_stage_share", profile->stage_share, "cpus", profile->cpus, "file",
                     text_json(profile->path));
}

static json_t *level_json(const struct load_level *level)
{
    const struct weir_load_options *load = &level->options;
    const struct weir_load_report *report = &level->report;
    json_t *row = json_object(), *errors = json_object();
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        if (load_failure_keys[i])
            json_object_set_new(errors, load_failure_keys[i], count_json(report->results[i]));
    json_object_set_new(row, "mode", json_string(load->datagram ? "udp" : weir_load_mode_name(load->mode)));
    json_object_set_new(row, "clients", count_json(load->clients));
    json_object_set_new(row, "connections", count_json(report->connections));
    json_object_set_new(row, "in_flight", count_json(load->mode == WEIR_LOAD_SYNC ? 1 : load->in_flight));
    json_object_set_new(row, "events", count_json(load->events));
    json_object_set_new(row, "events_per_s", json_real(load_level_events_per_s(level)));
    json_object_set_new(row, "messages_per_s", json_real(load_per_s((double)report->measured, report->duration_ns)));
    json_object_set_new(row, "latency_ns", latency_json(&report->latency));
    json_object_set_new(row, "sent", count_json(report->sent));
    json_object_set_new(row, "acked", count_json(report->results[WEIR_CLIENT_ACKED]));
    json_object_set_new(row, "failed", count_json(weir_load_failed(report)));
    json_object_set_new(row, "unsent", count_json(report->unsent));
    if (load->datagram)
        json_object_set_new(row, "unconfirmed", count_json(report->results[WEIR_CLIENT_SENT]));
    if (report->queries)
        json_object_set_new(row, "queries",
                            json_pack("{s:I, s:I, s:o}", "sent", (json_int_t)report->queries, "acked",
                                      (json_int_t)report->queries_acked, "latency_ns", latency_json(&report->query_latency)));
    json_object_set_new(row, "duration_ns", count_json(report->duration_ns));
    json_object_set_new(row, "in_flight_mean", json_real(report->in_flight));
    json_object_set_new(row, "slowest_client_share", json_real(load_fairness(report)));
    json_object_set_new(row, "cpu_ns", count_json(report->cpu_ns));
    json_object_set_new(row, "cpus", json_real(load_own_cpus(report)));
    json_object_set_new(row, "server", server_json(level));
    json_object_set_new(row, "profile", profile_json(&level->profile));
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
