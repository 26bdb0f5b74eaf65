/* A load as JSON, for machines. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "tracer/cli/load_level.h"
#include "viz/value.h"

static const char *const ends[] = { "duration", "loops", "signal", "lost" };

static json_t *latency_json(const struct weir_histogram *latency)
{
    if (!latency->count)
        return json_null();
    json_t *object = json_object();
    for (size_t i = 0; i < LOAD_QUANTILES; i++)
        json_object_set_new(object, load_quantiles[i].key, weir_value_count(load_quantile(latency, i)));
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
                            slice->latency.count ? weir_value_count(weir_histogram_quantile(&slice->latency, .5)) : json_null());
        json_object_set_new(row, "p99",
                            slice->latency.count ? weir_value_count(weir_histogram_quantile(&slice->latency, .99)) : json_null());
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *server_json(const struct load_level *level)
{
    const struct load_server_use *server = &level->server;
    if (!server->known)
        return json_null();
    return json_pack("{s:i, s:o, s:o, s:i, s:o, s:o, s:o}", "pid", server->pid, "name", weir_value_text(server->name), "cpus",
                     weir_value_number(server->cpus), "cores", (int)server->cores, "cores_share",
                     weir_value_number(load_server_share(level)), "busiest_share", weir_value_number(server->busiest),
                     "busiest_thread", weir_value_text(server->thread));
}

static json_t *text_json(const char *text)
{
    return *text ? weir_value_text(text) : json_null();
}

static json_t *profile_json(const struct load_profile_summary *profile)
{
    if (!profile->known)
        return json_null();
    return json_pack("{s:{s:s, s:o}, s:o, s:o, s:o, s:o}", "verdict", "kind", profile->kind, "text",
                     weir_value_text(profile->verdict), "busiest_stage", text_json(profile->stage), "busiest_stage_share",
                     weir_value_number(profile->stage_share), "cpus", weir_value_number(profile->cpus), "file",
                     text_json(profile->path));
}

static json_t *level_json(const struct load_level *level)
{
    const struct weir_load_options *load = &level->options;
    const struct weir_load_report *report = &level->report;
    json_t *row = json_object(), *errors = json_object();
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        if (load_failure_keys[i])
            json_object_set_new(errors, load_failure_keys[i], weir_value_count(report->results[i]));
    json_object_set_new(row, "mode", json_string(load->datagram ? "udp" : weir_load_mode_name(load->mode)));
    json_object_set_new(row, "clients", weir_value_count(load->clients));
    json_object_set_new(row, "connections", weir_value_count(report->connections));
    json_object_set_new(row, "in_flight", weir_value_count(load->mode == WEIR_LOAD_SYNC ? 1 : load->in_flight));
    json_object_set_new(row, "events", weir_value_count(load->events));
    json_object_set_new(row, "events_per_s", weir_value_number(load_level_events_per_s(level)));
    json_object_set_new(row, "messages_per_s", weir_value_number(load_per_s((double)report->measured, report->duration_ns)));
    json_object_set_new(row, "latency_ns", latency_json(&report->latency));
    json_object_set_new(row, "sent", weir_value_count(report->sent));
    json_object_set_new(row, "acked", weir_value_count(report->results[WEIR_CLIENT_ACKED]));
    json_object_set_new(row, "failed", weir_value_count(weir_load_failed(report)));
    json_object_set_new(row, "unsent", weir_value_count(report->unsent));
    if (load->datagram)
        json_object_set_new(row, "unconfirmed", weir_value_count(report->results[WEIR_CLIENT_SENT]));
    if (report->queries)
        json_object_set_new(row, "queries",
                            json_pack("{s:I, s:I, s:o}", "sent", (json_int_t)report->queries, "acked",
                                      (json_int_t)report->queries_acked, "latency_ns", latency_json(&report->query_latency)));
    json_object_set_new(row, "duration_ns", weir_value_count(report->duration_ns));
    json_object_set_new(row, "in_flight_mean", weir_value_number(report->in_flight));
    json_object_set_new(row, "slowest_client_share", weir_value_number(load_fairness(report)));
    json_object_set_new(row, "cpu_ns", weir_value_count(report->cpu_ns));
    json_object_set_new(row, "cpus", weir_value_number(load_own_cpus(report)));
    json_object_set_new(row, "server", server_json(level));
    json_object_set_new(row, "profile", profile_json(&level->profile));
    json_object_set_new(row, "sent_bytes", weir_value_count(report->sent_bytes));
    json_object_set_new(row, "connections_lost", weir_value_count(report->connections_lost));
    json_object_set_new(row, "ended_by", json_string(ends[report->end]));
    json_object_set_new(row, "errors", errors);
    if (report->refusal[0])
        json_object_set_new(row, "refusal", weir_value_text(report->refusal));
    json_object_set_new(row, "slice_ns", weir_value_count(report->slice_ns));
    json_object_set_new(row, "slices", slices_json(report));
    return row;
}

static json_t *knee_json(const struct load_sweep *sweep)
{
    static const char *const shapes[] = { "none", "knee", "flat", "unclear" };
    const struct weir_scaling *scaling = &sweep->scaling;
    json_t *knee = json_object(), *residuals = json_array();
    json_object_set_new(knee, "text", weir_value_text(sweep->knee));
    if (!sweep->has_scaling) {
        json_decref(residuals);
        return knee;
    }
    for (size_t i = 0; i < sweep->count; i++)
        json_array_append_new(residuals, weir_value_number(load_level_events_per_s(&sweep->levels[i]) /
                                                         weir_scaling_at(scaling, (double)sweep->levels[i].options.clients) - 1));
    json_object_set_new(knee, "kind", json_string(shapes[scaling->shape]));
    json_object_set_new(knee, "clients", scaling->shape == WEIR_SCALING_KNEE ? weir_value_number(scaling->knee) : json_null());
    json_object_set_new(knee, "most_events_per_s", weir_value_number(scaling->most));
    json_object_set_new(knee, "lambda", weir_value_number(scaling->lambda));
    json_object_set_new(knee, "sigma", weir_value_number(scaling->sigma));
    json_object_set_new(knee, "kappa", weir_value_number(scaling->kappa));
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
