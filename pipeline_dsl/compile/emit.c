/*
 * DESIGN: the file is meant to be read: first what it is made from, then names for the ids, then one function for each stage and
 * one driver for each segment, then the tables that tie them together, and main. The topology's bytes come last.
 *
 * A stage's function is PIPELINE__STAGE. Names have no double underscore of their own, so none can collide, and the drivers,
 * PIPELINE__segment__N and PIPELINE__behind__STAGE, collide with none of them. A user's function is called by an alias, so that
 * it may have any name.
 *
 * A stage's id is a constant, but in a shared tail. There the ids of all its stages follow each other once for what belongs to no
 * way in and once for each way in, and an item knows by how much its own run of them lies behind the first: its lane, which it is
 * given where it enters the tail, from a table of the tail's by way in.
 */
#include <inttypes.h>
#include <string.h>

#include "base/profile.h"
#include "pipeline_dsl/compile/emit.h"

#define put weir_emit_put

void weir_emit_name(struct weir_emit *emit, uint32_t stage)
{
    const struct weir_topology_stage *s = weir_emit_stage(emit, stage);
    put(emit, "%s__%s", emit->topology->pipelines[s->pipeline].name, s->name);
}

void weir_emit_id(struct weir_emit *emit, uint32_t stage)
{
    put(emit, "ID_");
    weir_emit_name(emit, stage);
}

void weir_emit_pool(struct weir_emit *emit, uint32_t pool)
{
    for (const char *c = emit->topology->pools[pool].name; *c; c++)
        if (*c == '.')
            weir_buffer_puts(emit->out, "__");
        else
            weir_buffer_putc(emit->out, *c);
}

/* Of the runs of ids that a pipeline has. */
static uint32_t run_count(const struct weir_emit *emit, uint32_t pipeline)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < emit->topology->instance_count; i++)
        count += emit->topology->instances[i].stage == emit->topology->pipelines[pipeline].first_stage;
    return count;
}

bool weir_emit_shared(const struct weir_emit *emit, uint32_t pipeline)
{
    return run_count(emit, pipeline) > 1;
}

uint32_t weir_emit_lane(const struct weir_emit *emit, uint32_t pipeline, uint32_t way)
{
    const struct weir_topology *t = emit->topology;
    uint32_t first = WEIR_NONE;
    for (uint32_t i = 0; i < t->instance_count; i++) {
        if (t->instances[i].stage != t->pipelines[pipeline].first_stage)
            continue;
        if (first == WEIR_NONE)
            first = i;
        if (t->instances[i].way == way)
            return i - first;
    }
    return 0;
}

void weir_emit_id_of_way(struct weir_emit *emit, uint32_t stage, uint32_t way)
{
    uint32_t lane = weir_emit_lane(emit, weir_emit_stage(emit, stage)->pipeline, way);
    weir_emit_id(emit, stage);
    if (lane)
        put(emit, " + %u", lane);
}

/* The id of a stage as the item in it counts there. */
static void put_item_id(struct weir_emit *emit, uint32_t stage)
{
    weir_emit_id(emit, stage);
    if (weir_emit_shared(emit, weir_emit_stage(emit, stage)->pipeline))
        put(emit, " + item->lane");
}

/* The lane that the item, or its copy, gets in the pipeline that it enters. */
static void put_lane(struct weir_emit *emit, uint32_t pipeline)
{
    if (weir_emit_shared(emit, pipeline))
        put(emit, "lanes__%s[item->way_index]", emit->topology->pipelines[pipeline].name);
    else
        put(emit, "0");
}

void weir_emit_queue(struct weir_emit *emit, uint32_t queue)
{
    const struct weir_topology_queue *q = &emit->topology->queues[queue];
    bool several = false;
    for (uint32_t i = 0; i < emit->topology->queue_count; i++)
        several |= i != queue && emit->topology->queues[i].stage == q->stage;
    put(emit, "QUEUE_");
    weir_emit_name(emit, q->stage);
    if (several)
        put(emit, "__%s", emit->topology->ways[q->way].name);
}

void weir_emit_string(struct weir_emit *emit, const char *text)
{
    weir_buffer_putc(emit->out, '"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        /* Octal escapes end after three digits; a question mark could begin a trigraph. */
        if (*c < 0x20 || *c >= 0x7f || *c == '"' || *c == '\\' || *c == '?')
            put(emit, "\\%03o", *c);
        else
            weir_buffer_putc(emit->out, (char)*c);
    }
    weir_buffer_putc(emit->out, '"');
}

uint32_t weir_emit_find(const struct weir_emit *emit, uint32_t pipeline, enum weir_verb_kind verb)
{
    const struct weir_topology_pipeline *p = &emit->topology->pipelines[pipeline];
    for (uint32_t s = p->first_stage; s < p->first_stage + p->stage_count; s++)
        if (weir_emit_stage(emit, s)->verb == verb)
            return s;
    return WEIR_NONE;
}

uint32_t weir_emit_self(const struct weir_emit *emit)
{
    for (uint32_t stage = 0; stage < emit->topology->stage_count; stage++)
        if (weir_emit_stage(emit, stage)->verb == WEIR_DECODE && weir_emit_stage(emit, stage)->codec == WEIR_RIEMANN)
            return stage;
    return WEIR_NONE;
}

uint32_t weir_emit_find_on_way(const struct weir_emit *emit, uint32_t pipeline, enum weir_verb_kind verb)
{
    const struct weir_topology *t = emit->topology;
    for (uint32_t steps = 0; steps < t->pipeline_count && pipeline < t->pipeline_count; steps++) {
        uint32_t found = weir_emit_find(emit, pipeline, verb);
        if (found != WEIR_NONE)
            return found;
        pipeline = t->stages[t->pipelines[pipeline].first_stage + t->pipelines[pipeline].stage_count - 1].target;
    }
    return WEIR_NONE;
}

bool weir_emit_splits(const struct weir_emit *emit, uint32_t stage)
{
    enum weir_verb_kind verb = weir_emit_stage(emit, stage)->verb;
    return verb == WEIR_INDEX || verb == WEIR_BATCH || stage == weir_emit_self(emit);
}

bool weir_emit_bears(const struct weir_emit *emit, uint32_t stage)
{
    enum weir_verb_kind verb = weir_emit_stage(emit, stage)->verb;
    return verb == WEIR_INDEX || verb == WEIR_TEE || stage == weir_emit_self(emit);
}

void weir_emit_driver(struct weir_emit *emit, uint32_t first)
{
    const struct weir_topology_pipeline *pipeline = &emit->topology->pipelines[weir_emit_stage(emit, first)->pipeline];
    unsigned number = 1;
    for (uint32_t stage = pipeline->first_stage; stage < first; stage++)
        number += weir_emit_hands_over(weir_emit_stage(emit, stage));
    if (first > pipeline->first_stage && weir_emit_splits(emit, first - 1))
        put(emit, "%s__behind__%s", pipeline->name, weir_emit_stage(emit, first - 1)->name);
    else
        put(emit, "%s__segment__%u", pipeline->name, number);
}

static bool on_connection(enum weir_verb_kind verb)
{
    return verb == WEIR_LISTEN || verb == WEIR_FRAME;
}

/* --- head ---------------------------------------------------------------------------------------------------------------- */

static void put_head(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "/*\n * %s: a server, written by weir from %s.weir. Change that file, not this one.\n *\n", t->name, t->name);
    for (uint32_t p = 0; p < t->pipeline_count; p++) {
        const struct weir_topology_pipeline *pipeline = &t->pipelines[p];
        put(emit, " * pipeline %s\n", pipeline->name);
        for (uint32_t i = 0; i < pipeline->stage_count; i++) {
            const struct weir_topology_stage *s = &t->stages[pipeline->first_stage + i];
            put(emit, " *     %-16s on pool %s", s->name, t->pools[s->pool].name);
            if (s->verb == WEIR_HANDOFF)
                put(emit, ", to pool %s", t->pools[t->queues[s->queue].to_pool].name);
            else if (weir_topology_has_slots(s))
                put(emit, ", by %u slots and back", s->connections * s->in_flight);
            else if (s->finish_pool != s->pool)
                put(emit, ", finished on pool %s", t->pools[s->finish_pool].name);
            put(emit, "\n");
        }
    }
    put(emit, " */\n#include \"pipeline_dsl/stages/stages.h\"\n\n"
              "/* Each stage is a function of its own, so that every profiler shows the pipeline. */\n"
              "#define STAGE WEIR_STANDS_ALONE static\n\n");
}

static uint32_t shards(const struct weir_topology *t)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < t->pool_count; i++)
        if (t->pools[i].listens && t->pools[i].threads > most)
            most = t->pools[i].threads;
    return most;
}

static void put_pipeline_ids(struct weir_emit *emit, uint32_t index)
{
    const struct weir_topology_pipeline *pipeline = &emit->topology->pipelines[index];
    uint32_t runs = run_count(emit, index);
    for (uint32_t i = 0; i < pipeline->stage_count; i++) {
        put(emit, "    ");
        weir_emit_id(emit, pipeline->first_stage + i);
        put(emit, "%s,\n", index || i ? "" : " = WEIR_INSTANCE_FIRST");
    }
    if (runs < 2)
        return;
    put(emit, "    ID_%s__ways__end = ", pipeline->name);
    weir_emit_id(emit, pipeline->first_stage);
    put(emit, " + %u, /* and as often again for each of %u ways in: item->lane */\n", runs * pipeline->stage_count - 1, runs - 1);
}

static void put_ids(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    put(emit, "/* What a thread's tag says: where it is. */\nenum {\n");
    for (uint32_t i = 0; i < t->pipeline_count; i++)
        put_pipeline_ids(emit, i);
    put(emit, "    ID_END\n};\n\nenum {");
    for (uint32_t i = 0; i < t->pool_count; i++) {
        put(emit, " POOL_");
        weir_emit_pool(emit, i);
        put(emit, ",");
    }
    put(emit, " POOLS };\nenum {");
    for (uint32_t i = 0; i < t->queue_count; i++) {
        put(emit, " ");
        weir_emit_queue(emit, i);
        put(emit, ",");
    }
    put(emit, " QUEUES };\nenum {");
    for (uint32_t i = 0; i < t->stage_count; i++)
        if (weir_topology_has_slots(&t->stages[i])) {
            put(emit, " SLOTS_");
            weir_emit_name(emit, i);
            put(emit, ",");
        }
    put(emit, " SLOTS };\nenum { WAYS = %u, SHARDS = %u }; /* shards: event loops of the largest pool that listens */\n", t->way_count,
        shards(t));
    put(emit, "enum {");
    for (uint32_t i = 0; i < t->stage_count; i++)
        if (weir_emit_bears(emit, i)) {
            put(emit, " SOURCE_");
            weir_emit_name(emit, i);
            put(emit, ",");
        }
    put(emit, " SOURCES }; /* stages that bear items */\nstatic struct weir_source sources[SOURCES + 1];\n\n");
}

/* What stages refer to before it is there: lanes by way in, and the drivers that others go on with. */
static void put_tails(struct weir_emit *emit)
{
    const struct weir_topology *t = emit->topology;
    for (uint32_t p = 0; p < t->pipeline_count; p++) {
        if (t->pipelines[p].way != WEIR_NONE)
            continue;
        if (weir_emit_shared(emit, p)) {
            put(emit, "/* What an item of each way in adds to the ids of `%s`. */\nstatic const uint16_t lanes__%s[WAYS + 1] = {",
                t->pipelines[p].name, t->pipelines[p].name);
            for (uint32_t way = 0; way < t->way_count; way++)
                put(emit, " %u,", weir_emit_lane(emit, p, way));
            put(emit, " };\n");
        }
        put(emit, "static weir_driver ");
        weir_emit_driver(emit, t->pipelines[p].first_stage);
        put(emit, ";\n\n");
    }
}

/* --- stages -------------------------------------------------------------------------------------------------------------- */

static void put_connection_stage(struct weir_emit *emit, uint32_t stage, const struct weir_topology_stage *s)
{
    if (s->verb == WEIR_LISTEN) {
        put(emit, "STAGE ptrdiff_t ");
        weir_emit_name(emit, stage);
        put(emit, "(struct weir_conn *conn, void *span, size_t room)\n{\n    return weir_%s_receive(conn, span, room);\n}\n\n",
            s->transport == WEIR_UDP ? "datagram" : "conn");
    } else {
        put(emit, "STAGE struct weir_item *");
        weir_emit_name(emit, stage);
        put(emit, "(struct weir_conn *conn, const void *data, size_t size, size_t *used)\n{\n"
                  "    return weir_conn_%s(conn, data, size, used);\n}\n\n", s->framing == WEIR_LINES ? "lines" : "frame");
    }
}

static void put_call_of(struct weir_emit *emit, uint32_t stage, const struct weir_topology_stage *s)
{
    switch (s->verb) {
    case WEIR_DECODE:
        put(emit, "weir_stage_decode%s(thread, item, ", s->codec == WEIR_GRAPHITE ? "_graphite" : "");
        put_item_id(emit, stage);
        break;
    case WEIR_ENCODE:
        put(emit, "weir_stage_encode(thread, item");
        break;
    case WEIR_HANDOFF:
        put(emit, "weir_stage_handoff(thread, item, ");
        weir_emit_queue(emit, s->queue);
        static const char *const sized[] = { "BYTES", "ARENA", "TYPED", "REFLECT" };
        put(emit, ", WEIR_SIZED_%s", sized[emit->topology->queues[s->queue].sized]);
        break;
    case WEIR_INDEX:
        put(emit, "weir_stage_index(thread, item, &index__");
        weir_emit_name(emit, stage);
        put(emit, ", \"%s\"", s->full_name);
        break;
    case WEIR_FILTER:
        put(emit, "weir_stage_filter(thread, item, filter__");
        weir_emit_name(emit, stage);
        put(emit, ", \"%s\"", s->full_name);
        break;
    case WEIR_BUSY:
        put(emit, "weir_stage_busy(thread, item, ");
        put_item_id(emit, stage);
        put(emit, ", %" PRIu64 "u, %" PRIu64 "u", s->cpu_ns, s->pause_ns);
        break;
    case WEIR_CALL:
        put(emit, "weir_stage_call(thread, item, \"%s\", call__", s->full_name);
        weir_emit_name(emit, stage);
        break;
    case WEIR_BATCH:
        put(emit, "weir_stage_batch(thread, item, &batch__");
        weir_emit_name(emit, stage);
        break;
    case WEIR_TEE:
        put(emit, "weir_stage_tee(thread, item, &sources[SOURCE_");
        weir_emit_name(emit, stage);
        put(emit, "], ");
        put_lane(emit, s->target);
        break;
    case WEIR_THEN:
        put(emit, "weir_stage_then(thread, item, ");
        put_lane(emit, s->target);
        break;
    case WEIR_DROP:
        put(emit, "weir_stage_drop(thread, item");
        break;
    case WEIR_FORWARD:
    case WEIR_STORE:
        put(emit, "weir_stage_%s(thread, item, SLOTS_", weir_verb_name(s->verb));
        weir_emit_name(emit, stage);
        break;
    default:
        put(emit, "weir_stage_reply(thread, item");
        break;
    }
    put(emit, ")");
}

static void put_item_stage(struct weir_emit *emit, uint32_t stage, const struct weir_topology_stage *s)
{
    if (s->verb == WEIR_INDEX) {
        put(emit, "static struct weir_index index__");
        weir_emit_name(emit, stage);
        put(emit, ";\n\n");
    }
    if (s->verb == WEIR_BATCH) {
        put(emit, "static weir_driver ");
        weir_emit_driver(emit, stage + 1);
        put(emit, ";\nstatic const struct weir_batch batch__");
        weir_emit_name(emit, stage);
        put(emit, " = { .events = %" PRIu64 "u, .within_ns = %" PRIu64 "u, .run = ", s->limit, s->within_ns);
        weir_emit_driver(emit, stage + 1);
        put(emit, " };\n\n");
    }
    if (s->verb == WEIR_FILTER) {
        put(emit, "static struct weir_query *filter__");
        weir_emit_name(emit, stage);
        put(emit, ";\n\n");
    }
    if (s->verb == WEIR_CALL) {
        put(emit, "/* from ");
        for (const char *c = s->text; *c; c++) /* nothing may end the comment */
            weir_buffer_putc(emit->out, (unsigned char)*c < 0x20 || (*c == '*' && c[1] == '/') ? '_' : *c);
        put(emit, " */\nextern int call__");
        weir_emit_name(emit, stage);
        put(emit, "(struct weir_item *item, struct weir_call *call) __asm__(\"%s\");\n\n", s->symbol);
    }
    put(emit, "STAGE enum weir_outcome ");
    weir_emit_name(emit, stage);
    put(emit, "(struct weir_thread *thread, struct weir_item *item)\n{\n    weir_item_enter(thread, item, ");
    put_item_id(emit, stage);
    put(emit, ");\n    return ");
    put_call_of(emit, stage, s);
    put(emit, ";\n}\n\n");
    if (s->verb == WEIR_REPLY && s->queue != WEIR_NONE) {
        put(emit, "STAGE void ");
        weir_emit_name(emit, stage);
        put(emit, "__send(struct weir_conn *conn)\n{\n    weir_conn_send(conn);\n}\n\n");
    }
}

/* Where a driver's stages end: behind the next stage that hands the item over, or behind which others enter, or behind the pipeline's last. */
static uint32_t driver_end(const struct weir_emit *emit, const struct weir_topology_pipeline *pipeline, uint32_t first)
{
    uint32_t end = pipeline->first_stage + pipeline->stage_count, stage = first;
    while (stage < end && !weir_emit_hands_over(weir_emit_stage(emit, stage)) && !weir_emit_splits(emit, stage))
        stage++;
    return stage < end ? stage + 1 : end;
}

/* The driver of what is born at an index: a step of its expiry, then the stages behind it. */
static void put_expiry(struct weir_emit *emit, uint32_t index)
{
    put(emit, "/* What the index takes out when it is overdue. */\nstatic void expire__");
    weir_emit_name(emit, index);
    put(emit, "(struct weir_thread *thread, struct weir_item *item)\n{\n    weir_item_enter(thread, item, ");
    weir_emit_id(emit, index);
    put(emit, ");\n    if (weir_stage_expire(thread, item) == WEIR_NEXT)\n        ");
    weir_emit_driver(emit, index + 1);
    put(emit, "(thread, item);\n}\n\n");
}

/* The driver of the stages from `first`: those of a segment, or of the rest of one where others enter it. Returns the stage behind
 * the segment. */
static uint32_t put_driver(struct weir_emit *emit, const struct weir_topology_pipeline *pipeline, uint32_t first)
{
    const struct weir_topology *t = emit->topology;
    uint32_t end = driver_end(emit, pipeline, first), last = end - 1;
    bool splits = weir_emit_splits(emit, last), goes_on = splits && t->stages[last].verb != WEIR_BATCH;
    uint32_t behind = splits ? put_driver(emit, pipeline, end) : end;
    /* A reply is finished by the pool that brings the item to it. */
    put(emit, "/* On pool %s: ", t->pools[t->stages[first].finish_pool].name);
    put(emit, first == last ? "`%s`" : "from `%s` to `%s`", t->stages[first].name, t->stages[last].name);
    /* The driver that is called last, with what is still there. */
    uint32_t next = goes_on ? end : t->stages[last].verb == WEIR_THEN ? t->pipelines[t->stages[last].target].first_stage : WEIR_NONE;
    put(emit, next != WEIR_NONE ? ", and on. */\n" : ". */\n");
    put(emit, "static void ");
    weir_emit_driver(emit, first);
    put(emit, "(struct weir_thread *thread, struct weir_item *item)\n{\n");
    for (uint32_t stage = first; stage < end - (next == WEIR_NONE); stage++) {
        put(emit, "    if (");
        weir_emit_name(emit, stage);
        put(emit, "(thread, item) != WEIR_NEXT)\n        return;\n");
    }
    put(emit, "    ");
    if (next != WEIR_NONE)
        weir_emit_driver(emit, next);
    else
        weir_emit_name(emit, last);
    put(emit, "(thread, item);\n}\n\n");
    if (t->stages[last].verb == WEIR_INDEX)
        put_expiry(emit, last);
    return behind;
}

static void put_pipeline(struct weir_emit *emit, const struct weir_topology_pipeline *pipeline)
{
    uint32_t end = pipeline->first_stage + pipeline->stage_count;
    put(emit, "/* --- pipeline %s */\n\n", pipeline->name);
    for (uint32_t stage = pipeline->first_stage; stage < end; stage++) {
        const struct weir_topology_stage *s = weir_emit_stage(emit, stage);
        if (on_connection(s->verb))
            put_connection_stage(emit, stage, s);
        else
            put_item_stage(emit, stage, s);
    }
    for (uint32_t stage = pipeline->first_stage; stage < end;)
        stage = on_connection(weir_emit_stage(emit, stage)->verb) ? stage + 1 : put_driver(emit, pipeline, stage);
}

/* --- the whole ----------------------------------------------------------------------------------------------------------- */

static int check(const struct weir_topology *t, struct weir_error *error)
{
    if (!t->way_count)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL,
                              "%s.weir has no pipeline that listens, so there is no server to build", t->name);
    for (uint32_t i = 0; i < t->way_count; i++) {
        const struct weir_emit emit = { t, NULL };
        uint32_t pipeline = t->ways[i].pipeline;
        if (!t->ways[i].replies)
            continue;
        if (weir_emit_find(&emit, pipeline, WEIR_FRAME) == WEIR_NONE || weir_emit_find_on_way(&emit, pipeline, WEIR_REPLY) == WEIR_NONE)
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "pipeline %s can't be built: it needs a `frame` and ends in `reply`",
                                  t->ways[i].name);
    }
    return 0;
}

int weir_compile_emit(const struct weir_topology *topology, struct weir_buffer *out, struct weir_error *error)
{
    struct weir_emit emit = { topology, out };
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    int rc = check(topology, error);
    if (rc == 0)
        rc = weir_topology_write(topology, &bytes, error);
    if (rc != 0)
        goto out;
    put_head(&emit);
    put_ids(&emit);
    put_tails(&emit);
    for (uint32_t i = 0; i < topology->pipeline_count; i++)
        put_pipeline(&emit, &topology->pipelines[i]);
    weir_emit_tables(&emit);
    weir_emit_main(&emit, bytes.length);
    weir_emit_topology(&emit, &bytes);
    if (out->failed)
        rc = weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "no memory for the C file of %s", topology->name);
out:
    weir_buffer_release(&bytes);
    return rc;
}
