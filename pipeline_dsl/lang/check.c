/*
 * DESIGN: the checker fills the topology while it checks, and whoever calls it throws the result away when there were errors.
 * After an error it goes on as if the fix had been made, so that one mistake is one diagnostic; a pipeline with a syntax error
 * in it is not walked at all. Every look-up is by hash: a pipeline of n stages costs n steps.
 */
#include "pipeline_dsl/lang/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline_dsl/lang/checker.h"

const char *weir_checker_text(const struct weir_checker *checker, struct weir_span span)
{
    return checker->bag->source.text + span.offset;
}

char *weir_checker_dup(struct weir_checker *checker, struct weir_span span)
{
    char *copy = weir_arena_dup(checker->arena, weir_checker_text(checker, span), span.length);
    if (!copy)
        checker->bag->failed = true;
    return copy;
}

const char *weir_checker_path(struct weir_checker *checker, struct weir_span string)
{
    const char *path = weir_lexer_string(&checker->bag->source, string, checker->arena);
    const char *source = checker->bag->source.path, *slash = strrchr(source, '/');
    if (path && path[0] != '/' && slash)
        path = weir_arena_printf(checker->arena, "%.*s/%s", (int)(slash - source), source, path);
    checker->bag->failed |= !path;
    return path;
}

const char *weir_checker_full_path(struct weir_checker *checker, struct weir_span string)
{
    const char *path = weir_checker_path(checker, string);
    if (!path || path[0] == '/')
        return path;
    char *folder = getcwd(NULL, 0);
    if (folder)
        path = weir_arena_printf(checker->arena, "%s/%s", folder, path);
    checker->bag->failed |= !path;
    free(folder);
    return path;
}

static void not_built(struct weir_checker *checker, const struct weir_tree_unbuilt *unbuilt)
{
    if (unbuilt->span.length == 0)
        return;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E013_NOT_BUILT, unbuilt->span,
                                           "this version of weir doesn't build %s yet", unbuilt->what);
    weir_diag_hint(checker->bag, diag, "remove it for now; `weir lint --explain E013` lists what is built");
}

/* --- names -------------------------------------------------------------------------------------------------------------------- */

/* E030 unless the name is free. */
static bool declare(struct weir_checker *checker, const struct weir_tree_entry *entry, const char *name, uint32_t value)
{
    uint32_t before = weir_names_add(&checker->names, name, strlen(name), value);
    if (before == WEIR_NAMES_NOT_FOUND)
        return true;
    bool pool = WEIR_NAME_KIND(before) == WEIR_NAME_POOL;
    struct weir_span span = pool ? checker->pool_nodes[WEIR_NAME_INDEX(before)]->name_span
                                 : checker->pipeline_nodes[WEIR_NAME_INDEX(before)]->name_span;
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E030_NAME_TAKEN, entry->name_span, "the name '%s' is taken by a %s",
                                           name, pool ? "pool" : "pipeline");
    weir_diag_relate(checker->bag, diag, span, "'%s' is defined here", name);
    weir_diag_hint(checker->bag, diag, "choose another name; pools and pipelines share one name space");
    return false;
}

static void declare_pool(struct weir_checker *checker, const struct weir_tree_entry *entry, uint32_t index)
{
    struct weir_topology_pool *pool = &checker->topology->pools[index];
    checker->pool_nodes[index] = entry;
    checker->pool_listener[index] = checker->pool_taker[index] = WEIR_NONE;
    pool->name = weir_checker_dup(checker, entry->name_span);
    pool->threads = (uint32_t)entry->threads.value;
    if (pool->name && entry->name_span.length && !declare(checker, entry, pool->name, WEIR_NAME_VALUE(WEIR_NAME_POOL, index)))
        checker->pool_named[index] = true;
    not_built(checker, &entry->unbuilt);
    checker->bound |= entry->unbuilt.span.length != 0;
}

/* Verbs that a pipeline has once: a second one is wrong under any name, and the walk says why. */
static bool comes_once(const struct weir_tree_stage *node)
{
    static const bool once[WEIR_VERB_COUNT] = {
        [WEIR_LISTEN] = true, [WEIR_FRAME] = true, [WEIR_DECODE] = true, [WEIR_ENCODE] = true,
        [WEIR_THEN] = true,   [WEIR_REPLY] = true, [WEIR_DROP] = true,
    };
    return node->verb < WEIR_VERB_COUNT && once[node->verb];
}

/* E031: the fix is a number behind the verb that is still free. */
static void complain_about_stage(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t before,
                                 const struct weir_topology_stage *stage)
{
    const struct weir_tree_stage *first = checker->stage_nodes[before];
    /* The `as` of a broken line may not have been reached. */
    if (first->broken || node->broken || (first->verb == node->verb && comes_once(node)))
        return;
    struct weir_span span = node->as_span.length ? node->as_span : node->verb_span;
    struct weir_diag *diag =
        weir_diag_add(checker->bag, WEIR_E031_STAGE_TAKEN, span, "there are two stages of the name '%s'", stage->full_name);
    if (!diag)
        return;
    weir_diag_relate(checker->bag, diag, first->as_span.length ? first->as_span : first->verb_span, "the first one is here");
    char name[2 * WEIR_NAME_MAX + 16];
    for (unsigned number = 2; number < 1000000; number++) {
        int length = snprintf(name, sizeof name, "%s%u", stage->full_name, number);
        if (weir_names_find(&checker->names, name, (size_t)length) != WEIR_NAMES_NOT_FOUND)
            continue;
        weir_diag_hint(checker->bag, diag, "give it a name of its own: `as %s%u`", stage->name, number);
        return;
    }
}

static void declare_stage(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t pipeline, uint32_t index)
{
    struct weir_topology_stage *stage = &checker->topology->stages[index];
    checker->stage_nodes[index] = node;
    stage->pipeline = pipeline;
    stage->verb = node->verb;
    stage->pool = stage->finish_pool = stage->queue = stage->target = WEIR_NONE;
    if (node->broken || node->foreign ||
        (node->unbuilt.span.length && (node->verb == WEIR_LISTEN || node->verb == WEIR_FRAME || node->verb == WEIR_DECODE)))
        checker->incomplete[pipeline] = true;
    checker->bound |= node->foreign;
    if (!node->broken)
        not_built(checker, &node->unbuilt);
    if (!node->broken && !node->foreign && node->verb == WEIR_FILTER)
        weir_check_query(checker, node, stage);
    if (node->as_span.length)
        stage->name = weir_checker_dup(checker, node->as_span);
    else if (node->verb < WEIR_VERB_COUNT && !node->foreign)
        stage->name = weir_verb_name(node->verb);
    /* The stages of a second pipeline of one name would all collide with those of the first. */
    if (!stage->name || !checker->topology->pipelines[pipeline].name[0])
        return;
    stage->full_name = weir_arena_printf(checker->arena, "%s.%s", checker->topology->pipelines[pipeline].name, stage->name);
    if (!stage->full_name) {
        checker->bag->failed = true;
        return;
    }
    uint32_t before =
        weir_names_add(&checker->names, stage->full_name, strlen(stage->full_name), WEIR_NAME_VALUE(WEIR_NAME_STAGE, index));
    if (before != WEIR_NAMES_NOT_FOUND)
        complain_about_stage(checker, node, WEIR_NAME_INDEX(before), stage);
}

static void declare_pipeline(struct weir_checker *checker, const struct weir_tree_entry *entry, uint32_t index,
                             uint32_t first_stage)
{
    struct weir_topology_pipeline *pipeline = &checker->topology->pipelines[index];
    checker->pipeline_nodes[index] = entry;
    checker->incomplete[index] = entry->broken;
    *pipeline = (struct weir_topology_pipeline){ weir_checker_dup(checker, entry->name_span), first_stage, entry->stage_count,
                                                 WEIR_NONE };
    if (!pipeline->name)
        return;
    /* Of a pipeline whose braces don't fit nobody knows what it is the second of. */
    bool lost = entry->broken && weir_names_find(&checker->names, pipeline->name, strlen(pipeline->name)) != WEIR_NAMES_NOT_FOUND;
    bool own =
        entry->name_span.length && !lost && declare(checker, entry, pipeline->name, WEIR_NAME_VALUE(WEIR_NAME_PIPELINE, index));
    if (!own)
        pipeline->name = "";
    uint32_t at = first_stage;
    for (const struct weir_tree_stage *node = entry->stages; node; node = node->next)
        declare_stage(checker, node, index, at++);
}

static void declare_all(struct weir_checker *checker)
{
    uint32_t pool = 0, ordinal = 0, counts[WEIR_GROUP_COUNT] = { 0 }, stage_counts[WEIR_GROUP_COUNT] = { 0 };
    for (const struct weir_tree_entry *entry = checker->tree->first; entry; entry = entry->next)
        if (entry->kind == WEIR_TREE_PIPELINE) {
            enum weir_group group = checker->groups[ordinal++];
            counts[group]++;
            stage_counts[group] += entry->stage_count;
        }
    checker->listen_count = counts[WEIR_GROUP_LISTENS];
    checker->entered_count = checker->listen_count + counts[WEIR_GROUP_TAIL];
    checker->entered_stage_count = stage_counts[WEIR_GROUP_LISTENS] + stage_counts[WEIR_GROUP_TAIL];
    uint32_t next[WEIR_GROUP_COUNT] = { [WEIR_GROUP_TAIL] = checker->listen_count, [WEIR_GROUP_UNENTERED] = checker->entered_count };
    uint32_t next_stage[WEIR_GROUP_COUNT] = { [WEIR_GROUP_TAIL] = stage_counts[WEIR_GROUP_LISTENS],
                                              [WEIR_GROUP_UNENTERED] = checker->entered_stage_count };
    ordinal = 0;
    for (const struct weir_tree_entry *entry = checker->tree->first; entry; entry = entry->next) {
        if (entry->kind == WEIR_TREE_POOL)
            declare_pool(checker, entry, pool++);
        else if (entry->kind == WEIR_TREE_PROCESS) {
            if (!entry->broken)
                not_built(checker, &entry->unbuilt);
            checker->bound = true;
        } else if (entry->kind == WEIR_TREE_PIPELINE) {
            enum weir_group group = checker->groups[ordinal++];
            declare_pipeline(checker, entry, next[group]++, next_stage[group]);
            next_stage[group] += entry->stage_count;
        }
    }
}

/* --- the whole ------------------------------------------------------------------------------------------------------------------ */

static bool allocate(struct weir_checker *checker)
{
    const struct weir_tree *tree = checker->tree;
    struct weir_topology *topology = checker->topology;
    struct weir_arena *scratch = &checker->bag->arena;
    uint32_t pools = tree->pool_count + tree->stage_count; /* a stage with slots adds one */
    topology->pools = weir_arena_zalloc(checker->arena, pools * sizeof *topology->pools);
    topology->pipelines = weir_arena_zalloc(checker->arena, tree->pipeline_count * sizeof *topology->pipelines);
    topology->stages = weir_arena_zalloc(checker->arena, tree->stage_count * sizeof *topology->stages);
    topology->queues = weir_arena_zalloc(checker->arena, ((size_t)tree->stage_count + tree->pipeline_count) * sizeof *topology->queues);
    topology->ways = weir_arena_zalloc(checker->arena, tree->pipeline_count * sizeof *topology->ways);
    topology->expectations = weir_arena_zalloc(checker->arena, tree->expectation_count * sizeof *topology->expectations);
    topology->pool_count = tree->pool_count;
    topology->pipeline_count = tree->pipeline_count;
    topology->stage_count = tree->stage_count;
    checker->pool_nodes = weir_arena_zalloc(scratch, pools * sizeof *checker->pool_nodes);
    checker->pool_named = weir_arena_zalloc(scratch, pools * sizeof *checker->pool_named);
    checker->pool_listener = weir_arena_zalloc(scratch, pools * sizeof *checker->pool_listener);
    checker->pool_taker = weir_arena_zalloc(scratch, pools * sizeof *checker->pool_taker);
    checker->groups = weir_arena_zalloc(scratch, tree->pipeline_count * sizeof *checker->groups);
    checker->entrances = weir_arena_zalloc(scratch, tree->pipeline_count * sizeof *checker->entrances);
    checker->pipeline_nodes = weir_arena_zalloc(scratch, tree->pipeline_count * sizeof *checker->pipeline_nodes);
    checker->incomplete = weir_arena_zalloc(scratch, tree->pipeline_count * sizeof *checker->incomplete);
    checker->stage_nodes = weir_arena_zalloc(scratch, tree->stage_count * sizeof *checker->stage_nodes);
    return topology->pools && topology->pipelines && topology->stages && topology->queues && topology->ways &&
           topology->expectations && checker->groups && checker->entrances && checker->pool_nodes && checker->pool_named &&
           checker->pool_listener && checker->pool_taker && checker->pipeline_nodes && checker->incomplete &&
           checker->stage_nodes;
}

static void check_expectations(struct weir_checker *checker)
{
    struct weir_scope scope = {
        .topology = checker->topology,
        .names = &checker->names,
        .incomplete = checker->incomplete,
        .entered_count = checker->pipeline_unknown || checker->bound ? checker->topology->pipeline_count : checker->entered_count,
        .names_lost = checker->tree->names_lost,
    };
    for (const struct weir_tree_entry *entry = checker->tree->first; entry; entry = entry->next)
        for (const struct weir_tree_expectation *node = entry->expectations; node; node = node->next)
            if (!node->broken && weir_check_terms(&scope, checker->bag, checker->arena, node,
                                                  &checker->topology->expectations[checker->topology->expectation_count]))
                checker->topology->expectation_count++;
}

/* A file that would make no server at all. */
static void check_something_runs(struct weir_checker *checker)
{
    const struct weir_tree *tree = checker->tree;
    if (tree->broken || checker->bound || checker->entered_count)
        return;
    if (tree->pipeline_count == 0) {
        const struct weir_source *source = &checker->bag->source;
        struct weir_span start = { 0, 0 };
        struct weir_diag *diag =
            tree->first
                ? weir_diag_add(checker->bag, WEIR_E022_EMPTY_FILE, tree->first->span, "the file has no pipeline")
                : weir_diag_add(checker->bag, WEIR_E022_EMPTY_FILE, start,
                                source->length ? "there is nothing in the file but comments and blanks" : "the file is empty");
        weir_diag_hint(checker->bag, diag, "`weir lint --explain E022` shows the least that makes a server");
        return;
    }
    weir_diag_hint(checker->bag,
                   weir_diag_add(checker->bag, WEIR_E049_NO_LISTENER, checker->pipeline_nodes[0]->name_span,
                                 "no pipeline of the file listens, so that nothing would ever run"),
                   "begin one with `listen tcp 127.0.0.1:5555 on POOL`");
}

/* Leaves out what nothing enters, and numbers the instances. */
static void finish(struct weir_checker *checker)
{
    struct weir_topology *topology = checker->topology;
    topology->pipeline_count = checker->entered_count;
    topology->stage_count = checker->entered_stage_count;
    weir_check_instances(checker);
}

int weir_check(const struct weir_tree *tree, struct weir_diag_bag *bag, struct weir_arena *arena, struct weir_topology *topology)
{
    struct weir_checker checker = { .tree = tree, .bag = bag, .arena = arena, .topology = topology };
    memset(topology, 0, sizeof *topology);
    if (!allocate(&checker))
        return -ENOMEM;
    weir_check_groups(&checker);
    declare_all(&checker);
    if (!bag->failed && !checker.names.failed) {
        weir_check_flows(&checker);
        weir_check_pools(&checker);
        check_expectations(&checker);
        check_something_runs(&checker);
        finish(&checker);
    }
    bool failed = bag->failed || checker.names.failed;
    weir_names_release(&checker.names);
    return failed ? -ENOMEM : 0;
}
