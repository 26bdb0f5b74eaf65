/*
 * DESIGN: one table says what each metric can be asked of, in which unit, and whether it has percentiles. What the profile
 * holds decides it: a queue has waits, a stage has CPU time, a pool has thread states.
 */
#include <stdio.h>
#include <string.h>

#include "pipeline_dsl/lang/checker.h"
#include "pipeline_dsl/lang/print.h"

enum { OF_POOL = 1, OF_PIPELINE = 2, OF_STAGE = 4, OF_QUEUE = 8, OF_HANDOFF = 16, OF_PART = 32 };
#define UNIT(unit) (1u << (unit))

static const struct rule {
    unsigned of, units;
    bool statistics;
    const char *place; /* "a queue": where it is measured */
    const char *value; /* how its values are written */
} rules[] = {
    [WEIR_METRIC_CPU] = { OF_POOL | OF_PIPELINE | OF_STAGE | OF_PART, UNIT(WEIR_SHARE), false, "a stage, a pipeline or a pool",
                          "a share, such as `5%`" },
    [WEIR_METRIC_UNDER] = { OF_POOL | OF_PIPELINE | OF_STAGE | OF_PART, UNIT(WEIR_SHARE), false, "a stage, a pipeline or a pool",
                            "a share, such as `5%`" },
    [WEIR_METRIC_WAIT] = { OF_QUEUE, UNIT(WEIR_NS), true, "a queue", "a duration, such as `20ms`" },
    [WEIR_METRIC_WAKEUP] = { OF_QUEUE, UNIT(WEIR_NS), true, "a queue", "a duration, such as `50us`" },
    [WEIR_METRIC_DEPTH] = { OF_QUEUE, UNIT(WEIR_PLAIN) | UNIT(WEIR_BYTES), true, "a queue",
                            "items, such as `100`, or bytes, such as `1MiB`" },
    [WEIR_METRIC_FILL] = { OF_QUEUE, UNIT(WEIR_SHARE), true, "a queue", "a share, such as `80%`" },
    [WEIR_METRIC_SERVICE] = { OF_STAGE, UNIT(WEIR_NS), true, "a stage", "a duration, such as `200us`" },
    [WEIR_METRIC_THROUGHPUT] = { OF_STAGE | OF_PIPELINE, UNIT(WEIR_PER_S), false, "a stage or a pipeline",
                                 "a rate, such as `10000/s`" },
    [WEIR_METRIC_STARVED] = { OF_POOL, UNIT(WEIR_SHARE), false, "a pool", "a share, such as `10%`" },
    [WEIR_METRIC_DROPS] = { OF_HANDOFF | OF_PIPELINE, UNIT(WEIR_PLAIN) | UNIT(WEIR_PER_S) | UNIT(WEIR_SHARE), false,
                            "a handoff or a pipeline", "a count, such as `0`, a rate, such as `10/s`, or a share, such as `1%`" },
};

struct asked {
    const struct weir_scope *scope;
    struct weir_diag_bag *bag;
    const struct weir_tree_term *node;
    struct weir_topology_term *term;
};

static const char *text_of(const struct asked *asked, struct weir_span span)
{
    return asked->bag->source.text + span.offset;
}

/* --- the reference -------------------------------------------------------------------------------------------------------------- */

static uint32_t find(const struct asked *asked, struct weir_span span)
{
    return weir_names_find(asked->scope->names, text_of(asked, span), span.length);
}

static bool is_kind(uint32_t found, enum weir_name_kind kind)
{
    return found != WEIR_NAMES_NOT_FOUND && WEIR_NAME_KIND(found) == kind;
}

/* The names that there are, for one that is near to none of them. */
struct names {
    char text[256];
    size_t used;
};

static void add_name(struct names *names, const char *name)
{
    if (name && names->used + strlen(name) + 2 < sizeof names->text)
        names->used += (size_t)snprintf(names->text + names->used, sizeof names->text - names->used, "%s%s", names->used ? " " : "", name);
}

static bool find_pool(const struct asked *asked)
{
    const struct weir_topology *topology = asked->scope->topology;
    struct weir_span span = asked->node->names[0];
    uint32_t found = find(asked, span);
    if (is_kind(found, WEIR_NAME_POOL)) {
        asked->term->pool = WEIR_NAME_INDEX(found);
        return true;
    }
    if (asked->scope->names_lost)
        return false;
    struct weir_nearest nearest = weir_nearest(text_of(asked, span), span.length);
    struct weir_diag *diag =
        weir_diag_add(asked->bag, WEIR_E032_NO_POOL, span, "there is no pool '%.*s'", (int)span.length, text_of(asked, span));
    struct names all = { .used = 0 };
    for (uint32_t i = 0; diag && i < topology->pool_count; i++) {
        weir_nearest_offer(&nearest, topology->pools[i].name, strlen(topology->pools[i].name));
        add_name(&all, topology->pools[i].name);
    }
    if (nearest.best)
        weir_diag_hint(asked->bag, diag, "did you mean `pool %s`?", nearest.best);
    else if (all.used)
        weir_diag_hint(asked->bag, diag, "the pools are: %s", all.text);
    return false;
}

static bool no_pipeline(const struct asked *asked, uint32_t found)
{
    const struct weir_topology *topology = asked->scope->topology;
    struct weir_span span = asked->node->names[0];
    const char *name = text_of(asked, span);
    if (asked->scope->names_lost)
        return false;
    if (is_kind(found, WEIR_NAME_POOL)) {
        struct weir_diag *diag =
            weir_diag_add(asked->bag, WEIR_E033_NO_STAGE, span, "'%.*s' is a pool, not a pipeline", (int)span.length, name);
        weir_diag_hint(asked->bag, diag, "write `%s(pool %.*s)`", weir_metric_name(asked->node->metric), (int)span.length, name);
        return false;
    }
    struct weir_diag *diag =
        weir_diag_add(asked->bag, WEIR_E033_NO_STAGE, span, "there is no pipeline '%.*s'", (int)span.length, name);
    if (!diag)
        return false;
    /* A stage named without its pipeline is the commonest slip. */
    for (uint32_t i = 0; i < topology->stage_count && asked->node->name_count == 1; i++) {
        const struct weir_topology_stage *stage = &topology->stages[i];
        if (stage->full_name && strlen(stage->name) == span.length && memcmp(stage->name, name, span.length) == 0) {
            weir_diag_hint(asked->bag, diag, "did you mean `%s`?", stage->full_name);
            return false;
        }
    }
    struct weir_nearest nearest = weir_nearest(name, span.length);
    struct names all = { .used = 0 };
    for (uint32_t i = 0; i < topology->pipeline_count; i++) {
        weir_nearest_offer(&nearest, topology->pipelines[i].name, strlen(topology->pipelines[i].name));
        add_name(&all, topology->pipelines[i].name);
    }
    if (nearest.best)
        weir_diag_hint(asked->bag, diag, "did you mean `%s`?", nearest.best);
    else if (all.used)
        weir_diag_hint(asked->bag, diag, "the pipelines are: %s; a stage is written `PIPELINE.STAGE`", all.text);
    return false;
}

static bool no_stage(const struct asked *asked, const struct weir_topology_pipeline *pipeline)
{
    struct weir_span span = asked->node->names[1];
    const char *name = text_of(asked, span);
    struct weir_diag *diag =
        weir_diag_add(asked->bag, WEIR_E033_NO_STAGE, span, "'%s' has no stage '%.*s'", pipeline->name, (int)span.length, name);
    struct weir_nearest nearest = weir_nearest(name, span.length);
    struct names all = { .used = 0 };
    for (uint32_t i = 0; diag && i < pipeline->stage_count; i++) {
        const char *stage = asked->scope->topology->stages[pipeline->first_stage + i].name;
        if (!stage)
            continue;
        weir_nearest_offer(&nearest, stage, strlen(stage));
        add_name(&all, stage);
    }
    if (nearest.best)
        weir_diag_hint(asked->bag, diag, "did you mean `%s.%s`?", pipeline->name, nearest.best);
    else if (all.used)
        weir_diag_hint(asked->bag, diag, "its stages are: %s", all.text);
    return false;
}

static bool find_part(const struct asked *asked)
{
    struct weir_span span = asked->node->names[2];
    const char *name = text_of(asked, span);
    for (enum weir_part part = WEIR_PART_SIZE; part <= WEIR_PART_POP; part++)
        if (strlen(weir_part_name(part)) == span.length && memcmp(weir_part_name(part), name, span.length) == 0) {
            asked->term->part = part;
            return true;
        }
    struct weir_diag *diag = weir_diag_add(asked->bag, WEIR_E010_UNEXPECTED, span,
                                           "expected a part: size, push or pop, found '%.*s'", (int)span.length, name);
    struct weir_nearest nearest = weir_nearest(name, span.length);
    for (enum weir_part part = WEIR_PART_SIZE; part <= WEIR_PART_POP; part++)
        weir_nearest_offer(&nearest, weir_part_name(part), strlen(weir_part_name(part)));
    if (nearest.best)
        weir_diag_hint(asked->bag, diag, "did you mean `%s`?", nearest.best);
    return false;
}

static bool find_reference(const struct asked *asked)
{
    if (asked->node->is_pool)
        return find_pool(asked);
    uint32_t found = find(asked, asked->node->names[0]);
    if (!is_kind(found, WEIR_NAME_PIPELINE))
        return no_pipeline(asked, found);
    uint32_t index = WEIR_NAME_INDEX(found);
    const struct weir_topology_pipeline *pipeline = &asked->scope->topology->pipelines[index];
    if (asked->node->name_count == 1)
        asked->term->pipeline = index;
    else {
        /* "pipeline.stage" stands in the source as it does in the table, but for blanks around the dot. */
        char name[2 * WEIR_NAME_MAX + 2];
        int length = snprintf(name, sizeof name, "%s.%.*s", pipeline->name, (int)asked->node->names[1].length,
                              text_of(asked, asked->node->names[1]));
        uint32_t stage = weir_names_find(asked->scope->names, name, (size_t)length);
        if (!is_kind(stage, WEIR_NAME_STAGE))
            return asked->scope->incomplete && asked->scope->incomplete[index] ? false : no_stage(asked, pipeline);
        asked->term->stage = WEIR_NAME_INDEX(stage);
        if (asked->node->name_count == 3 && !find_part(asked))
            return false;
    }
    if (index < asked->scope->entered_count)
        return true;
    weir_diag_hint(asked->bag,
                   weir_diag_add(asked->bag, WEIR_E084_NOT_MEASURED, asked->node->ref_span,
                                 "nothing enters '%s', so that this is never measured", pipeline->name),
                   "remove the expectation, or let '%s' listen", pipeline->name);
    return false;
}

/* --- does the metric suit it? ------------------------------------------------------------------------------------------------------ */

static bool has_queue(enum weir_verb_kind verb)
{
    return verb == WEIR_HANDOFF || verb == WEIR_REPLY || verb == WEIR_FORWARD || verb == WEIR_STORE;
}

static unsigned kind_of(const struct asked *asked)
{
    const struct weir_topology_term *term = asked->term;
    if (term->pool != WEIR_NONE)
        return OF_POOL;
    if (term->pipeline != WEIR_NONE)
        return OF_PIPELINE;
    enum weir_verb_kind verb = asked->scope->topology->stages[term->stage].verb;
    return OF_STAGE | (verb == WEIR_HANDOFF ? OF_QUEUE | OF_HANDOFF : has_queue(verb) ? OF_QUEUE : 0);
}

/* Names a few things that the metric could have been asked of. */
static void suggest(const struct asked *asked, struct weir_diag *diag, unsigned of)
{
    const struct weir_topology *topology = asked->scope->topology;
    const struct weir_topology_term *term = asked->term;
    const char *metric = weir_metric_name(term->metric);
    if (!diag)
        return;
    uint32_t pipeline = term->pipeline != WEIR_NONE ? term->pipeline
                        : term->stage != WEIR_NONE  ? topology->stages[term->stage].pipeline
                                                    : WEIR_NONE;
    uint32_t pool = term->stage != WEIR_NONE ? topology->stages[term->stage].pool : WEIR_NONE;
    if (of == OF_POOL && pool != WEIR_NONE && pool < topology->pool_count) {
        weir_diag_hint(asked->bag, diag, "write `%s(pool %s)`", metric, topology->pools[pool].name);
        return;
    }
    char found[200] = "";
    size_t used = 0;
    unsigned count = 0;
    for (uint32_t i = 0; i < topology->stage_count && of & (OF_QUEUE | OF_HANDOFF) && count < 3; i++) {
        const struct weir_topology_stage *stage = &topology->stages[i];
        bool suits = stage->verb == WEIR_HANDOFF || (has_queue(stage->verb) && of & OF_QUEUE);
        bool leads_here = stage->queue != WEIR_NONE && topology->queues[stage->queue].to_pool == term->pool;
        bool near = pipeline == WEIR_NONE ? leads_here : stage->pipeline == pipeline;
        if (!suits || !near || !stage->full_name || used + strlen(stage->full_name) + 20 >= sizeof found)
            continue;
        used += (size_t)snprintf(found + used, sizeof found - used, "%s`%s(%s)`", used ? " or " : "", metric, stage->full_name);
        count++;
    }
    if (used)
        weir_diag_hint(asked->bag, diag, "write %s", found);
    else if (of & OF_STAGE)
        weir_diag_hint(asked->bag, diag, "name a stage: `%s(PIPELINE.STAGE)`", metric);
    else
        weir_diag_hint(asked->bag, diag, "`weir lint --explain E080` lists what can be asked of what");
}

static bool check_part(const struct asked *asked, const struct rule *rule)
{
    const struct weir_topology_term *term = asked->term;
    if (term->part == WEIR_PART_NONE)
        return true;
    const struct weir_topology_stage *stage = &asked->scope->topology->stages[term->stage];
    const char *metric = weir_metric_name(term->metric);
    struct weir_span span = asked->node->names[2];
    struct weir_diag *diag;
    if (!(rule->of & OF_PART))
        diag = weir_diag_add(asked->bag, WEIR_E080_BAD_REFERENCE, span, "`%s` is measured of a whole stage, not of its parts",
                             metric);
    else if (stage->verb == WEIR_HANDOFF || (has_queue(stage->verb) && term->part != WEIR_PART_SIZE))
        return true;
    else
        diag = weir_diag_add(asked->bag, WEIR_E080_BAD_REFERENCE, span, "'%s' has no part '%s'%s", stage->full_name,
                             weir_part_name(term->part), stage->verb == WEIR_REPLY ? ": nothing sizes a reply" : "");
    weir_diag_hint(asked->bag, diag, "write `%s(%s)`", metric, stage->full_name);
    return false;
}

static bool check_reference(const struct asked *asked, const struct rule *rule)
{
    if (kind_of(asked) & rule->of)
        return check_part(asked, rule);
    struct weir_span span = asked->node->ref_span;
    struct weir_diag *diag =
        weir_diag_add(asked->bag, WEIR_E080_BAD_REFERENCE, span, "`%s` is measured of %s, and `%.*s` is none",
                      weir_metric_name(asked->node->metric), rule->place, (int)span.length, text_of(asked, span));
    suggest(asked, diag, rule->of);
    return false;
}

static bool check_value(const struct asked *asked, const struct rule *rule)
{
    const struct weir_tree_term *node = asked->node;
    const char *metric = weir_metric_name(node->metric);
    if (node->statistic_span.length && node->statistic != WEIR_MEAN && !rule->statistics) {
        struct weir_diag *diag =
            weir_diag_add(asked->bag, WEIR_E082_BAD_STATISTIC, node->statistic_span,
                          "`%s` is one figure for the whole window: it has no %s", metric, weir_statistic_name(node->statistic));
        weir_diag_hint(asked->bag, diag, "remove `%s`", weir_statistic_name(node->statistic));
        return false;
    }
    if (!(rule->units & UNIT(node->unit))) {
        struct weir_diag *diag =
            weir_diag_add(asked->bag, WEIR_E081_BAD_UNIT, node->value_span, "`%s` is compared with %s", metric, rule->value);
        bool plain = node->unit == WEIR_PLAIN;
        const char *unit = rule->units == UNIT(WEIR_SHARE) ? "%" : rule->units == UNIT(WEIR_NS) ? "ms" : "/s";
        if (plain)
            weir_diag_hint(asked->bag, diag, "write `%.*s%s`, if that is meant", (int)node->value_span.length,
                           text_of(asked, node->value_span), unit);
        return false;
    }
    if (node->unit == WEIR_SHARE && node->value > 1) {
        weir_diag_hint(asked->bag,
                       weir_diag_add(asked->bag, WEIR_E083_OUT_OF_RANGE, node->value_span,
                                     "a share is at most 100%%, so that this says nothing"),
                       "write a share between 0%% and 100%%");
        return false;
    }
    return true;
}

bool weir_check_terms(const struct weir_scope *scope, struct weir_diag_bag *bag, struct weir_arena *arena,
                      const struct weir_tree_expectation *node, struct weir_topology_expectation *expectation)
{
    struct weir_topology_term *terms = weir_arena_zalloc(arena, node->term_count * sizeof *terms);
    struct weir_buffer text = WEIR_BUFFER_INIT;
    weir_print_expectation(node, &bag->source, &text);
    *expectation = (struct weir_topology_expectation){ weir_arena_dup(arena, weir_buffer_text(&text), text.length), terms, 0 };
    bool good = true;
    bag->failed |= !terms || !expectation->text || text.failed;
    weir_buffer_release(&text);
    uint32_t group = 0;
    for (const struct weir_tree_term *at = node->terms; at && !bag->failed; at = at->next) {
        struct weir_topology_term *term = &terms[expectation->term_count++];
        group += at->or_before;
        *term = (struct weir_topology_term){
            .metric = at->metric,
            .pool = WEIR_NONE,
            .pipeline = WEIR_NONE,
            .stage = WEIR_NONE,
            .statistic = at->statistic,
            .comparison = at->comparison,
            .value = at->value,
            .unit = at->unit,
            .group = group,
        };
        struct asked asked = { scope, bag, at, term };
        const struct rule *rule = &rules[at->metric];
        good = find_reference(&asked) && check_reference(&asked, rule) && check_value(&asked, rule) && good;
    }
    return good && !bag->failed;
}

/* --- against a topology that exists ------------------------------------------------------------------------------------------------- */

int weir_check_expectation(const struct weir_tree *tree, struct weir_diag_bag *bag, struct weir_arena *arena,
                           const struct weir_topology *topology, struct weir_topology_expectation *expectation)
{
    struct weir_names names = WEIR_NAMES_INIT;
    /* Stages first: the pool of a `forward` or `store` is called like it, and whoever writes that name means the stage. */
    for (uint32_t i = 0; i < topology->stage_count; i++)
        weir_names_add(&names, topology->stages[i].full_name, strlen(topology->stages[i].full_name),
                       WEIR_NAME_VALUE(WEIR_NAME_STAGE, i));
    for (uint32_t i = 0; i < topology->pool_count; i++)
        weir_names_add(&names, topology->pools[i].name, strlen(topology->pools[i].name), WEIR_NAME_VALUE(WEIR_NAME_POOL, i));
    for (uint32_t i = 0; i < topology->pipeline_count; i++)
        weir_names_add(&names, topology->pipelines[i].name, strlen(topology->pipelines[i].name),
                       WEIR_NAME_VALUE(WEIR_NAME_PIPELINE, i));
    struct weir_scope scope = { .topology = topology, .names = &names, .entered_count = topology->pipeline_count };
    weir_check_terms(&scope, bag, arena, tree->first->expectations, expectation);
    bool failed = bag->failed || names.failed;
    weir_names_release(&names);
    return failed ? -ENOMEM : 0;
}
