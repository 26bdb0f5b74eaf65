#include "viz/prediction.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "viz/escape.h"
#include "viz/figure.h"
#include "viz/grid.h"
#include "viz/value.h"

typedef struct weir_figure written(double value);

/* --- table ---------------------------------------------------------------------------------------------------------------------- */

static void figures(struct weir_grid *grid, const struct weir_prediction_figure *figure, written *write)
{
    weir_grid_cell(grid, write(figure->now).text, 0);
    weir_grid_cell(grid, write(figure->value).text, 0);
    weir_grid_cell(grid, write(figure->low).text, 0);
    weir_grid_cell(grid, write(figure->high).text, 0);
}

static void row(struct weir_grid *grid, const char *name, const char *of, const struct weir_prediction_figure *figure, written *write)
{
    weir_grid_cell(grid, name, 40);
    weir_grid_cell(grid, of, 20);
    figures(grid, figure, write);
}

static void heads(struct weir_grid *grid, const char *first, const char *second)
{
    const char *const names[] = { first, second, "NOW", "THEN", "FROM", "TO" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        weir_grid_cell(grid, names[i], 0);
}

static void whole(struct weir_grid *grid, const struct weir_prediction *prediction)
{
    heads(grid, "SERVER", "");
    row(grid, "messages", "", &prediction->messages_per_s, weir_figure_rate);
    if (isfinite(prediction->events_per_s.value))
        row(grid, "events", "", &prediction->events_per_s, weir_figure_rate);
    if (prediction->refused_per_s.now > 0 || prediction->refused_per_s.value > 0)
        row(grid, "refused", "", &prediction->refused_per_s, weir_figure_rate);
    row(grid, "latency p50", "", &prediction->latency_p50_ns, weir_figure_ns);
    row(grid, "latency p99", "", &prediction->latency_p99_ns, weir_figure_ns);
    row(grid, "CPUs", "", &prediction->cpus, weir_figure_number);
}

static void pools(struct weir_grid *grid, const struct weir_prediction *prediction)
{
    heads(grid, "POOL BUSY", "THREADS");
    for (uint32_t i = 0; i < prediction->pool_count; i++) {
        const struct weir_prediction_pool *pool = &prediction->pools[i];
        char threads[48];
        if (pool->threads_now && pool->threads_now != pool->threads)
            snprintf(threads, sizeof threads, "%u, now %u", pool->threads, pool->threads_now);
        else
            snprintf(threads, sizeof threads, "%u", pool->threads);
        row(grid, pool->name, threads, &pool->busy, weir_figure_percent);
    }
}

static void stages(struct weir_grid *grid, const struct weir_prediction *prediction)
{
    heads(grid, "STAGE, OF CPU", "POOL");
    for (uint32_t i = 0; i < prediction->stage_count; i++)
        row(grid, prediction->stages[i].name, prediction->stages[i].pool, &prediction->stages[i].cpu_share, weir_figure_percent);
}

int weir_prediction_table(const struct weir_prediction *prediction, struct weir_buffer *out, struct weir_error *error)
{
    void (*const parts[])(struct weir_grid *, const struct weir_prediction *) = { whole, pools, stages };
    weir_buffer_printf(out, "%s messages, ", weir_figure_rate(prediction->messages_per_s.value).text);
    weir_buffer_printf(out, "%s now; then the limit is ", weir_figure_rate(prediction->messages_per_s.now).text);
    weir_escape_plain(out, prediction->next, WEIR_ESCAPE_ANY);
    weir_buffer_puts(out, "\n\n");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct weir_grid grid;
        weir_grid_init(&grid, "llrrrr");
        parts[i](&grid, prediction);
        weir_grid_write(&grid, out);
        weir_grid_release(&grid);
        weir_buffer_putc(out, '\n');
    }
    weir_buffer_printf(out, "The measured file, simulated in the same way, does %s; latencies of now are simulated.\n",
                       weir_figure_rate(prediction->simulated_per_s).text);
    return out->failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to show the prediction") : 0;
}

/* --- JSON ----------------------------------------------------------------------------------------------------------------------- */

static json_t *figure_object(const struct weir_prediction_figure *figure)
{
    json_t *object = json_object(), *interval = json_array();
    json_object_set_new(object, "now", weir_value_number(figure->now));
    json_object_set_new(object, "predicted", weir_value_number(figure->value));
    json_array_append_new(interval, weir_value_number(figure->low));
    json_array_append_new(interval, weir_value_number(figure->high));
    json_object_set_new(object, "ci95", interval);
    return object;
}

static json_t *stages_array(const struct weir_prediction *prediction)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < prediction->stage_count; i++) {
        json_t *object = json_object();
        json_object_set_new(object, "name", weir_value_text(prediction->stages[i].name));
        json_object_set_new(object, "pool", weir_value_text(prediction->stages[i].pool));
        json_object_set_new(object, "cpu_share", figure_object(&prediction->stages[i].cpu_share));
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *pools_array(const struct weir_prediction *prediction)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < prediction->pool_count; i++) {
        json_t *object = json_object();
        json_object_set_new(object, "name", weir_value_text(prediction->pools[i].name));
        json_object_set_new(object, "threads", json_integer(prediction->pools[i].threads));
        json_object_set_new(object, "threads_now", json_integer(prediction->pools[i].threads_now));
        json_object_set_new(object, "busy", figure_object(&prediction->pools[i].busy));
        json_array_append_new(array, object);
    }
    return array;
}

int weir_prediction_json(const struct weir_prediction *prediction, struct weir_buffer *out, struct weir_error *error)
{
    json_t *root = json_object(), *next = json_object();
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "messages_per_s", figure_object(&prediction->messages_per_s));
    json_object_set_new(root, "events_per_s", figure_object(&prediction->events_per_s));
    json_object_set_new(root, "refused_per_s", figure_object(&prediction->refused_per_s));
    json_object_set_new(root, "latency_p50_ns", figure_object(&prediction->latency_p50_ns));
    json_object_set_new(root, "latency_p99_ns", figure_object(&prediction->latency_p99_ns));
    json_object_set_new(root, "cpus", figure_object(&prediction->cpus));
    json_object_set_new(root, "simulated_per_s", weir_value_number(prediction->simulated_per_s));
    json_object_set_new(next, "text", weir_value_text(prediction->next));
    json_object_set_new(next, "stage", weir_value_text(prediction->next_stage));
    json_object_set_new(root, "next", next);
    json_object_set_new(root, "pools", pools_array(prediction));
    json_object_set_new(root, "stages", stages_array(prediction));
    char *made = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    json_decref(root);
    if (made)
        weir_buffer_puts(out, made);
    weir_buffer_putc(out, '\n');
    bool failed = !made || out->failed;
    free(made);
    return failed ? weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "there is not enough memory to show the prediction") : 0;
}
