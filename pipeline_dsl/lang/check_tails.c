/*
 * DESIGN: a tail is walked once, when all that enters it has been: the walk needs the form, the pools and the largest item that
 * come in at its top, and these are merged from all entrances. What differs between the ways in is only kept where it matters
 * later: which pool brings each of them, and whether it is the item that was received or a copy, which owes no reply.
 *
 * Pipelines that lead in a circle are found as what is left when no more pipeline has all its entrances walked.
 */
#include <string.h>

#include "pipeline_dsl/lang/checker.h"

static bool branches(const struct weir_topology_stage *stage)
{
    return (stage->verb == WEIR_TEE || stage->verb == WEIR_THEN) && stage->target != WEIR_NONE;
}

/* --- which pipelines are entered ------------------------------------------------------------------------------------------ */

static bool listens(const struct weir_tree_entry *entry)
{
    for (const struct weir_tree_stage *node = entry->stages; node; node = node->next)
        if (!node->foreign && node->verb == WEIR_LISTEN)
            return true;
    return false;
}

static void enter_targets(struct weir_checker *checker, const struct weir_names *names, const struct weir_tree_entry *entry,
                          const struct weir_tree_entry **stack, uint32_t *depth)
{
    for (const struct weir_tree_stage *node = entry->stages; node; node = node->next) {
        if (node->foreign || node->target_span.length == 0)
            continue;
        uint32_t found = weir_names_find(names, weir_checker_text(checker, node->target_span), node->target_span.length);
        if (found == WEIR_NAMES_NOT_FOUND || checker->groups[found] != WEIR_GROUP_UNENTERED)
            continue;
        checker->groups[found] = WEIR_GROUP_TAIL;
        stack[(*depth)++] = checker->pipeline_nodes[found];
    }
}

/* In the order of the file; pipeline_nodes is scratch until the pipelines are declared. */
void weir_check_groups(struct weir_checker *checker)
{
    struct weir_names names = WEIR_NAMES_INIT;
    const struct weir_tree_entry **stack =
        weir_arena_alloc(&checker->bag->arena, (checker->tree->pipeline_count + 1) * sizeof *stack);
    uint32_t index = 0, depth = 0;
    if (!stack) {
        checker->bag->failed = true;
        return;
    }
    for (const struct weir_tree_entry *entry = checker->tree->first; entry; entry = entry->next) {
        if (entry->kind != WEIR_TREE_PIPELINE)
            continue;
        checker->groups[index] = listens(entry) ? WEIR_GROUP_LISTENS : WEIR_GROUP_UNENTERED;
        if (checker->groups[index] == WEIR_GROUP_LISTENS)
            stack[depth++] = entry;
        checker->pipeline_nodes[index] = entry;
        weir_names_add(&names, weir_checker_text(checker, entry->name_span), entry->name_span.length, index++);
    }
    while (depth)
        enter_targets(checker, &names, stack[--depth], stack, &depth);
    checker->bag->failed |= names.failed;
    weir_names_release(&names);
}

/* --- targets -------------------------------------------------------------------------------------------------------------- */

static void no_pipeline(struct weir_checker *checker, struct weir_span span, uint32_t found)
{
    const char *name = weir_checker_text(checker, span);
    struct weir_diag *diag;
    checker->pipeline_unknown = true;
    if (checker->tree->names_lost)
        return;
    if (found != WEIR_NAMES_NOT_FOUND) {
        checker->pool_named[WEIR_NAME_INDEX(found)] = true;
        diag = weir_diag_add(checker->bag, WEIR_E035_NO_PIPELINE, span, "'%.*s' is a pool, not a pipeline", (int)span.length, name);
        weir_diag_relate(checker->bag, diag, checker->pool_nodes[WEIR_NAME_INDEX(found)]->name_span, "it is defined here");
        weir_diag_hint(checker->bag, diag, "to go on in another pool write `handoff %.*s limit 64MiB full block`", (int)span.length, name);
        return;
    }
    diag = weir_diag_add(checker->bag, WEIR_E035_NO_PIPELINE, span, "there is no pipeline '%.*s'", (int)span.length, name);
    if (!diag)
        return;
    struct weir_nearest nearest = weir_nearest(name, span.length);
    for (uint32_t i = checker->listen_count; i < checker->topology->pipeline_count; i++)
        weir_nearest_offer(&nearest, checker->topology->pipelines[i].name, strlen(checker->topology->pipelines[i].name));
    if (nearest.best)
        weir_diag_hint(checker->bag, diag, "did you mean `%s`?", nearest.best);
    else
        weir_diag_hint(checker->bag, diag, "define it: `pipeline %.*s { … }`, without `listen`", (int)span.length, name);
}

static uint32_t find_target(struct weir_checker *checker, const struct weir_tree_stage *node)
{
    struct weir_span span = node->target_span;
    uint32_t found = weir_names_find(&checker->names, weir_checker_text(checker, span), span.length);
    if (found == WEIR_NAMES_NOT_FOUND || WEIR_NAME_KIND(found) != WEIR_NAME_PIPELINE) {
        no_pipeline(checker, span, found);
        return WEIR_NONE;
    }
    uint32_t target = WEIR_NAME_INDEX(found);
    if (target >= checker->listen_count)
        return target;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E050_ENTERS_LISTENER, span, "'%s' has a way in of its own",
                                           checker->topology->pipelines[target].name);
    weir_diag_relate(checker->bag, diag, checker->pipeline_nodes[target]->name_span, "it listens");
    weir_diag_hint(checker->bag, diag, "move what both share to a pipeline without `listen`, and end both with `then` that one");
    return WEIR_NONE;
}

static void find_targets(struct weir_checker *checker)
{
    for (uint32_t i = 0; i < checker->topology->stage_count; i++) {
        const struct weir_tree_stage *node = checker->stage_nodes[i];
        if (node && !node->foreign && node->target_span.length)
            checker->topology->stages[i].target = find_target(checker, node);
    }
}

/* --- what comes in at the top ----------------------------------------------------------------------------------------------- */

static void add_way(struct weir_checker *checker, struct weir_entrance *entrance, const struct weir_way_in *way, uint32_t pool, bool copy)
{
    struct weir_way_in **end = &entrance->ways;
    for (; *end; end = &(*end)->next) {
        if ((*end)->way != way->way || (*end)->pool != pool)
            continue;
        (*end)->received |= way->received && !copy;
        return;
    }
    if (checker->way_in_count++ >= WEIR_INSTANCES_MOST)
        return;
    struct weir_way_in *added = weir_arena_zalloc(&checker->bag->arena, sizeof *added);
    if (!added) {
        checker->bag->failed = true;
        return;
    }
    *added = (struct weir_way_in){ .way = way->way, .pool = pool, .received = way->received && !copy };
    *end = added;
}

static const char *form_text(enum weir_form form)
{
    return form == WEIR_FORM_FRAME ? "bytes" : form == WEIR_FORM_ENCODED ? "an encoded reply" : "a decoded message";
}

void weir_check_enter(struct weir_checker *checker, uint32_t stage, const struct weir_entrance *from, uint32_t pool)
{
    uint32_t target = checker->topology->stages[stage].target;
    bool copy = checker->topology->stages[stage].verb == WEIR_TEE;
    if (target == WEIR_NONE)
        return;
    struct weir_entrance *to = &checker->entrances[target];
    struct weir_span span = checker->stage_nodes[stage]->target_span;
    enum weir_form form = copy && from->form == WEIR_FORM_ENCODED ? WEIR_FORM_MESSAGE : from->form;
    if (to->entered && to->form != form && form != WEIR_FORM_UNKNOWN && to->form != WEIR_FORM_UNKNOWN) {
        struct weir_diag *diag =
            weir_diag_add(checker->bag, WEIR_E052_FORMS_DIFFER, span, "'%s' is entered with %s here, and with %s elsewhere",
                          checker->topology->pipelines[target].name, form_text(form), form_text(to->form));
        weir_diag_relate(checker->bag, diag, to->span, "here");
        weir_diag_hint(checker->bag, diag, "decode in both pipelines, or in neither");
        form = WEIR_FORM_UNKNOWN;
    }
    if (!to->entered) {
        struct weir_way_in *none = NULL;
        *to = *from;
        to->ways = none;
        to->span = span;
    }
    to->entered = true;
    to->form = form;
    if (from->frame_max > to->frame_max) {
        to->frame_max = from->frame_max;
        to->frame = from->frame;
    }
    if (from->decode_max > to->decode_max) {
        to->decode_max = from->decode_max;
        to->decode = from->decode;
    }
    for (const struct weir_way_in *way = from->ways; way; way = way->next)
        add_way(checker, to, way, pool == WEIR_NONE ? way->pool : pool, copy);
}

/* --- the order of the walks --------------------------------------------------------------------------------------------------- */

struct order {
    uint32_t *entrances; /* by pipeline: those that have not been walked yet */
    uint32_t *ready;     /* pipelines in the order of their walks */
    uint32_t ready_count;
};

static void walk(struct weir_checker *checker, struct order *order, uint32_t pipeline)
{
    const struct weir_topology *topology = checker->topology;
    weir_check_flow(checker, pipeline);
    for (uint32_t i = 0; i < topology->pipelines[pipeline].stage_count; i++) {
        const struct weir_topology_stage *stage = &topology->stages[topology->pipelines[pipeline].first_stage + i];
        if (branches(stage) && --order->entrances[stage->target] == 0)
            order->ready[order->ready_count++] = stage->target;
    }
}

/* A stage of a pipeline that has not been walked, and that leads to this one. */
static uint32_t who_leads_to(const struct weir_checker *checker, const struct order *order, uint32_t pipeline)
{
    for (uint32_t i = 0; i < checker->entered_stage_count; i++) {
        const struct weir_topology_stage *stage = &checker->topology->stages[i];
        if (branches(stage) && stage->target == pipeline && order->entrances[stage->pipeline])
            return i;
    }
    return WEIR_NONE;
}

/* Against the stream, from any pipeline that is left, one always comes into a circle. */
static void complain_about_circle(struct weir_checker *checker, const struct order *order, uint32_t pipeline)
{
    const struct weir_topology *topology = checker->topology;
    uint32_t stage = WEIR_NONE;
    for (uint32_t i = 0; i < checker->entered_count && pipeline != WEIR_NONE; i++) {
        stage = who_leads_to(checker, order, pipeline);
        pipeline = stage == WEIR_NONE ? WEIR_NONE : topology->stages[stage].pipeline;
    }
    if (stage == WEIR_NONE)
        return;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E051_CIRCLE, checker->stage_nodes[stage]->target_span,
                                           "items would go round in a circle for ever: '%s' leads back here",
                                           topology->pipelines[topology->stages[stage].target].name);
    uint32_t at = topology->stages[stage].pipeline;
    for (unsigned shown = 0; shown < 4; shown++) {
        uint32_t before = who_leads_to(checker, order, at);
        if (before == stage || before == WEIR_NONE)
            break;
        weir_diag_relate(checker->bag, diag, checker->stage_nodes[before]->target_span, "by way of this");
        at = topology->stages[before].pipeline;
    }
    weir_diag_hint(checker->bag, diag, "let one of them end with `reply` or `drop`");
}

static bool order_init(struct weir_checker *checker, struct order *order)
{
    struct weir_arena *scratch = &checker->bag->arena;
    size_t count = checker->topology->pipeline_count + 1;
    order->entrances = weir_arena_zalloc(scratch, count * sizeof *order->entrances);
    order->ready = weir_arena_zalloc(scratch, count * sizeof *order->ready);
    if (!order->entrances || !order->ready)
        return false;
    for (uint32_t i = 0; i < checker->entered_stage_count; i++)
        if (branches(&checker->topology->stages[i]))
            order->entrances[checker->topology->stages[i].target]++;
    for (uint32_t i = 0; i < checker->listen_count; i++)
        order->ready[order->ready_count++] = i;
    return true;
}

void weir_check_flows(struct weir_checker *checker)
{
    struct order order = { .ready_count = 0 };
    find_targets(checker);
    if (!order_init(checker, &order)) {
        checker->bag->failed = true;
        return;
    }
    for (uint32_t i = 0; i < order.ready_count; i++)
        walk(checker, &order, order.ready[i]);
    for (uint32_t i = checker->listen_count; i < checker->entered_count; i++) {
        if (!order.entrances[i])
            continue;
        complain_about_circle(checker, &order, i);
        break;
    }
    for (uint32_t i = checker->listen_count; i < checker->topology->pipeline_count; i++)
        if (i >= checker->entered_count || order.entrances[i])
            weir_check_flow(checker, i);
}

/* --- instances ---------------------------------------------------------------------------------------------------------------- */

/* The first of its kind: a way that enters by several pools is one way. */
static bool is_first(const struct weir_entrance *entrance, const struct weir_way_in *way)
{
    for (const struct weir_way_in *before = entrance->ways; before != way; before = before->next)
        if (before->way == way->way)
            return false;
    return true;
}

static uint32_t way_count(const struct weir_entrance *entrance)
{
    uint32_t count = 0;
    for (const struct weir_way_in *way = entrance->ways; way; way = way->next)
        count += is_first(entrance, way);
    return count;
}

static void add_run(struct weir_checker *checker, const struct weir_topology_pipeline *pipeline, const struct weir_way_in *way,
                    bool shared)
{
    struct weir_topology *topology = checker->topology;
    bool at_top = true;
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        const struct weir_topology_stage *stage = &topology->stages[pipeline->first_stage + i];
        struct weir_topology_instance *instance = &topology->instances[topology->instance_count++];
        *instance = (struct weir_topology_instance){ stage->full_name, pipeline->first_stage + i, way ? way->way : WEIR_NONE,
                                                     way && at_top && stage->verb != WEIR_REPLY ? way->pool : stage->pool };
        if (shared)
            instance->name = weir_arena_printf(checker->arena, "%s@%s", stage->full_name,
                                               way ? topology->ways[way->way].name : "(inside)");
        checker->bag->failed |= !instance->name;
        if (stage->verb == WEIR_HANDOFF || stage->verb == WEIR_FORWARD || stage->verb == WEIR_STORE)
            at_top = false;
    }
}

static void too_many_ways(struct weir_checker *checker)
{
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E054_TOO_MANY_WAYS, checker->pipeline_nodes[checker->listen_count]->name_span,
                                           "tails and the ways in that share them come to more than %u stages",
                                           WEIR_INSTANCES_MOST);
    weir_diag_hint(checker->bag, diag, "let fewer pipelines share a tail");
}

void weir_check_instances(struct weir_checker *checker)
{
    struct weir_topology *topology = checker->topology;
    uint64_t count = 0;
    for (uint32_t i = 0; i < topology->pipeline_count; i++) {
        uint32_t ways = way_count(&checker->entrances[i]);
        count += (uint64_t)topology->pipelines[i].stage_count * (ways > 1 ? ways + 1 : 1);
    }
    if (checker->listen_count < topology->pipeline_count && (count > WEIR_INSTANCES_MOST || checker->way_in_count > WEIR_INSTANCES_MOST)) {
        too_many_ways(checker);
        return;
    }
    topology->instances = weir_arena_zalloc(checker->arena, (size_t)count * sizeof *topology->instances);
    if (!topology->instances) {
        checker->bag->failed = true;
        return;
    }
    for (uint32_t i = 0; i < topology->pipeline_count; i++) {
        const struct weir_entrance *entrance = &checker->entrances[i];
        bool shared = way_count(entrance) > 1;
        if (shared || !entrance->ways)
            add_run(checker, &topology->pipelines[i], NULL, shared);
        for (const struct weir_way_in *way = entrance->ways; way; way = way->next)
            if (is_first(entrance, way))
                add_run(checker, &topology->pipelines[i], way, shared);
    }
}
