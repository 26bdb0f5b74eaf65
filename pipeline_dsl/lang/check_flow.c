/*
 * DESIGN: an item is followed from the listener to its end. Four forms follow each other: a stream, a frame, a message, an
 * encoded reply; each verb says which form it takes and which it leaves. A wrong form is reported once, and the walk goes on as
 * if the missing stage were there. What comes in at the top of a tail is what the pipelines that enter it have made of it
 * (check_tails.c); where nothing enters it that is unknown, and so are the largest item and the pool.
 */
#include <string.h>

#include "pipeline_dsl/lang/flow.h"

/* --- names of pools ---------------------------------------------------------------------------------------------------------- */

uint32_t weir_flow_find_pool(struct weir_flow *flow, struct weir_span span)
{
    struct weir_checker *checker = flow->checker;
    const char *name = weir_checker_text(checker, span);
    uint32_t found = weir_names_find(&checker->names, name, span.length);
    if (found != WEIR_NAMES_NOT_FOUND && WEIR_NAME_KIND(found) == WEIR_NAME_POOL) {
        checker->pool_named[WEIR_NAME_INDEX(found)] = true;
        return WEIR_NAME_INDEX(found);
    }
    checker->pool_unknown = true;
    if (checker->tree->names_lost)
        return WEIR_NONE;
    struct weir_diag *diag;
    if (found != WEIR_NAMES_NOT_FOUND) {
        diag = weir_diag_add(checker->bag, WEIR_E032_NO_POOL, span, "'%.*s' is a pipeline, not a pool", (int)span.length, name);
        weir_diag_relate(checker->bag, diag, checker->pipeline_nodes[WEIR_NAME_INDEX(found)]->name_span, "it is defined here");
    } else {
        diag = weir_diag_add(checker->bag, WEIR_E032_NO_POOL, span, "there is no pool '%.*s'", (int)span.length, name);
    }
    if (!diag)
        return WEIR_NONE;
    struct weir_nearest nearest = weir_nearest(name, span.length);
    for (uint32_t i = 0; i < checker->tree->pool_count; i++)
        weir_nearest_offer(&nearest, checker->topology->pools[i].name, strlen(checker->topology->pools[i].name));
    if (nearest.best) {
        uint32_t near = weir_names_find(&checker->names, nearest.best, nearest.best_length);
        weir_diag_hint(checker->bag, diag, "did you mean `%s`?", nearest.best);
        if (near != WEIR_NAMES_NOT_FOUND && WEIR_NAME_KIND(near) == WEIR_NAME_POOL)
            weir_diag_relate(checker->bag, diag, checker->pool_nodes[WEIR_NAME_INDEX(near)]->name_span, "'%s' is defined here",
                             nearest.best);
    } else {
        weir_diag_hint(checker->bag, diag, "define it: `pool %.*s threads 2`", (int)span.length, name);
    }
    return WEIR_NONE;
}

/* --- forms ------------------------------------------------------------------------------------------------------------------- */

static void needs_frame(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    struct weir_diag *diag =
        weir_diag_add(flow->checker->bag, WEIR_E044_NEEDS_FRAME, node->verb_span,
                      "`%s` stands on a stream that nothing has cut into messages", weir_verb_name(node->verb));
    weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, flow->listen)->verb_span, "the stream begins here");
    bool lines = node->verb == WEIR_DECODE && node->codec == WEIR_GRAPHITE;
    weir_diag_hint(flow->checker->bag, diag, "add `frame %s` above it", lines ? "lines max 4KiB" : "length32 max 16MiB");
    flow->form = FRAME;
}

static void needs_message(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    if (flow->form == ENCODED) {
        struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E046_DONE_BEFORE, node->verb_span,
                                               "`%s` comes too late: the reply is encoded already", weir_verb_name(node->verb));
        weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, flow->encode)->verb_span, "here");
        weir_diag_hint(flow->checker->bag, diag, "%s", node->verb == WEIR_ENCODE ? "remove it" : "move it above `encode`");
        return;
    }
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E045_NEEDS_DECODE, node->verb_span,
                                           "`%s` needs a message, and nothing has decoded one", weir_verb_name(node->verb));
    const struct weir_tree_stage *below = node->next;
    while (below && below->verb != WEIR_DECODE)
        below = below->next;
    if (below) {
        weir_diag_relate(flow->checker->bag, diag, below->verb_span, "the message is decoded here");
        weir_diag_hint(flow->checker->bag, diag, "move it below `decode`");
    } else {
        weir_diag_hint(flow->checker->bag, diag, "add `decode riemann` above it");
    }
    flow->form = MESSAGE;
}

void weir_flow_need(struct weir_flow *flow, uint32_t stage, enum weir_form least)
{
    if (!flow->forms_matter || flow->form == UNKNOWN)
        return;
    if (flow->form == STREAM && least >= FRAME)
        needs_frame(flow, stage);
    else if (least == MESSAGE && flow->form != MESSAGE)
        needs_message(flow, stage);
}

static void done_before(struct weir_flow *flow, uint32_t stage, uint32_t before, const char *what)
{
    struct weir_diag *diag =
        weir_diag_add(flow->checker->bag, WEIR_E046_DONE_BEFORE, weir_flow_node(flow, stage)->verb_span, "the item is %s already", what);
    weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, before)->verb_span, "here");
    weir_diag_hint(flow->checker->bag, diag, "remove one of the two");
}

static void needs_no_frame(struct weir_flow *flow, uint32_t stage)
{
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E046_DONE_BEFORE, weir_flow_node(flow, stage)->verb_span,
                                           "a datagram is a whole message: there is nothing to cut");
    weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, flow->checker->topology->ways[flow->ways->way].listen_stage)->verb_span,
                     "datagrams come in here");
    weir_diag_hint(flow->checker->bag, diag, "remove the line");
}

/* --- the verbs --------------------------------------------------------------------------------------------------------------- */

static struct weir_way_in *enter_by_listener(struct weir_checker *checker, uint32_t pipeline, uint32_t pool)
{
    struct weir_way_in *way = weir_arena_zalloc(&checker->bag->arena, sizeof *way);
    if (way)
        *way = (struct weir_way_in){ .way = checker->topology->way_count, .pool = pool, .received = true };
    checker->bag->failed |= !way;
    checker->entrances[pipeline].ways = way;
    return way;
}

static bool seen_before(const struct weir_flow *flow, const struct weir_way_in *way)
{
    for (const struct weir_way_in *before = flow->ways; before != way; before = before->next)
        if (before->way == way->way && before->received)
            return true;
    return false;
}

const struct weir_way_in *weir_flow_owing(const struct weir_flow *flow, const struct weir_way_in *way)
{
    for (way = way ? way->next : flow->ways; way; way = way->next)
        if (way->received && flow->checker->topology->ways[way->way].replies && !seen_before(flow, way))
            return way;
    return NULL;
}

static void flow_listen(struct weir_flow *flow, uint32_t stage)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    uint32_t pool = weir_flow_find_pool(flow, node->pool_span);
    if (flow->listen != WEIR_NONE) {
        struct weir_diag *diag =
            weir_diag_add(checker->bag, WEIR_E041_LISTEN_TWICE, node->verb_span, "'%s' listens already", flow->name);
        weir_diag_relate(checker->bag, diag, weir_flow_node(flow, flow->listen)->verb_span, "here");
        weir_diag_hint(checker->bag, diag, "make it a pipeline of its own");
        return;
    }
    if (stage != flow->first && !checker->incomplete[flow->pipeline]) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E040_LISTEN_FIRST, node->verb_span,
                                               "`listen` comes first: what stands above it would never run");
        weir_diag_relate(checker->bag, diag, weir_flow_node(flow, flow->first)->verb_span, "'%s' begins here", flow->name);
        weir_diag_hint(checker->bag, diag, "move it to the top of the pipeline");
        flow->forms_matter = false;
    }
    flow->listen = stage;
    flow->pool = pool;
    bool datagrams = node->transport == WEIR_UDP; /* each is a whole message */
    flow->form = datagrams ? FRAME : STREAM;
    flow->frame_max = datagrams ? WEIR_DATAGRAM_MAX_BYTES : 0;
    if (pool != WEIR_NONE && checker->pool_listener[pool] == WEIR_NONE)
        checker->pool_listener[pool] = stage;
    weir_flow_stage(flow, stage)->transport = node->transport;
    weir_check_address(checker, node, stage);
    checker->topology->pipelines[flow->pipeline].way = checker->topology->way_count;
    flow->ways = enter_by_listener(checker, flow->pipeline, pool);
    checker->topology->ways[checker->topology->way_count++] =
        (struct weir_topology_way){ flow->name, flow->pipeline, stage, !datagrams };
}

/* Graphite has no replies. */
static void owe_nothing(const struct weir_flow *flow)
{
    if (flow->listen != WEIR_NONE)
        flow->checker->topology->ways[flow->checker->topology->pipelines[flow->pipeline].way].replies = false;
}

static void flow_frame(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    if (flow->forms_matter && flow->form > STREAM && flow->frame != WEIR_NONE)
        done_before(flow, stage, flow->frame, "framed");
    else if (flow->forms_matter && flow->form == FRAME && flow->ways)
        needs_no_frame(flow, stage);
    else if (flow->forms_matter && flow->form > STREAM && flow->decode != WEIR_NONE)
        done_before(flow, stage, flow->decode, "decoded");
    if (node->max.value == 0 || node->max.value > INT32_MAX) {
        struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E017_BAD_NUMBER, node->max.span,
                                               "the largest frame is between 1B and 2147483647B");
        weir_diag_hint(flow->checker->bag, diag, "write `max %s`, if you have no reason for another",
                       node->framing == WEIR_LINES ? "4KiB" : "16MiB");
    }
    if (flow->frame == WEIR_NONE) {
        flow->frame = stage;
        flow->frame_max = node->max.value <= INT32_MAX ? node->max.value : 0;
        if (flow->frame_max && node->framing == WEIR_LINES)
            flow->frame_max = node->max.value + 2 > WEIR_LINES_BUNDLE_BYTES ? node->max.value + 2 : WEIR_LINES_BUNDLE_BYTES;
    }
    if (node->framing == WEIR_LINES)
        owe_nothing(flow);
    if (flow->form == STREAM)
        flow->form = FRAME;
    weir_flow_stage(flow, stage)->framing = node->framing;
    weir_flow_stage(flow, stage)->max_bytes = node->max.value;
}

/* `length32` goes with riemann, `lines` with graphite. */
static void check_codec(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    if (!flow->forms_matter || flow->frame == WEIR_NONE || flow->decode != WEIR_NONE)
        return;
    bool lines = weir_flow_node(flow, flow->frame)->framing == WEIR_LINES, graphite = node->codec == WEIR_GRAPHITE;
    if (lines == graphite)
        return;
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E055_WRONG_CODEC, node->span, "%s",
                                           graphite ? "graphite's messages are lines, and these are frames with a length"
                                                    : "riemann's messages are frames with a length, and these are lines");
    weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, flow->frame)->span, "they are cut here");
    weir_diag_hint(flow->checker->bag, diag, "write `%s`", graphite ? "frame lines max 4KiB" : "frame length32 max 16MiB");
}

static void flow_decode(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    if (flow->forms_matter && flow->form >= MESSAGE && flow->decode != WEIR_NONE)
        done_before(flow, stage, flow->decode, "decoded");
    else
        weir_flow_need(flow, stage, FRAME);
    check_codec(flow, stage);
    if (node->codec == WEIR_GRAPHITE && flow->frame == WEIR_NONE)
        owe_nothing(flow);
    if (node->max.span.length && node->max.value == 0)
        weir_diag_add(flow->checker->bag, WEIR_E017_BAD_NUMBER, node->max.span, "a message takes at least 1B of memory");
    uint64_t max = node->max.span.length ? node->max.value : WEIR_DECODE_MAX_BYTES;
    if (flow->decode == WEIR_NONE) {
        flow->decode = stage;
        flow->decode_max = max;
    }
    flow->form = MESSAGE;
    weir_flow_stage(flow, stage)->codec = node->codec;
    weir_flow_stage(flow, stage)->max_bytes = max;
}

static void flow_encode(struct weir_flow *flow, uint32_t stage)
{
    weir_flow_need(flow, stage, MESSAGE);
    flow->encode = stage;
    if (flow->form != UNKNOWN)
        flow->form = ENCODED;
    weir_flow_stage(flow, stage)->codec = weir_flow_node(flow, stage)->codec;
}

void weir_flow_blocks(struct weir_flow *flow, uint32_t stage, const char *what)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_way_in *way = NULL;
    uint32_t pool;
    while (weir_flow_next_pool(flow, &way, &pool)) {
        if (pool == WEIR_NONE || checker->pool_listener[pool] == WEIR_NONE)
            continue;
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W102_BLOCKS_LISTENER, weir_flow_node(flow, stage)->verb_span,
                                               "%s, and the threads of '%s' read the sockets: all their connections wait with it",
                                               what, checker->topology->pools[pool].name);
        weir_diag_relate(checker->bag, diag, weir_flow_node(flow, checker->pool_listener[pool])->pool_span, "'%s' listens here",
                         checker->topology->pools[pool].name);
        weir_diag_hint(checker->bag, diag, "hand off to a pool of workers above it");
        return;
    }
}

static void flow_batch(struct weir_flow *flow, uint32_t stage)
{
    struct weir_topology_stage *made = weir_flow_stage(flow, stage);
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    const struct weir_way_in *way = weir_flow_owing(flow, NULL);
    made->within_ns = node->within.value;
    if (node->within.value == 0)
        weir_diag_hint(flow->checker->bag,
                       weir_diag_add(flow->checker->bag, WEIR_E017_BAD_NUMBER, node->within.span, "a batch that waits for no time holds nothing"),
                       "write how long the first event may wait for others: `within 100ms`");
    if (!way)
        return;
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E053_BATCH_OWED, node->verb_span,
                                           "`batch` makes one item of many, and each of them is owed a reply");
    weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, flow->checker->topology->ways[way->way].listen_stage)->verb_span,
                     "requests come in here");
    weir_diag_hint(flow->checker->bag, diag, "batch in a pipeline of its own, and lead copies to it by `tee`");
}

/* `then` and `tee`. */
static void flow_branch(struct weir_flow *flow, uint32_t stage)
{
    weir_flow_need(flow, stage, FRAME);
    struct weir_entrance from = {
        .form = flow->forms_matter ? flow->form : UNKNOWN,
        .frame = flow->frame,
        .decode = flow->decode,
        .encode = flow->encode,
        .frame_max = flow->frame_max,
        .decode_max = flow->decode_max,
        .ways = (struct weir_way_in *)flow->ways,
    };
    weir_check_enter(flow->checker, stage, &from, flow->at_top ? WEIR_NONE : flow->pool);
}

static void flow_work(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    struct weir_topology_stage *made = weir_flow_stage(flow, stage);
    bool on_events = node->verb == WEIR_INDEX || node->verb == WEIR_FILTER || node->verb == WEIR_BATCH;
    weir_flow_need(flow, stage, on_events ? MESSAGE : FRAME);
    made->ttl_ns = node->ttl.value;
    made->limit = node->limit.value;
    made->cpu_ns = node->cpu.value;
    made->pause_ns = node->pause.value;
    if (node->verb == WEIR_BATCH)
        flow_batch(flow, stage);
    if (node->verb == WEIR_BUSY && node->pause.value)
        weir_flow_blocks(flow, stage, "`pause` sleeps");
    if (node->verb != WEIR_CALL)
        return;
    weir_flow_blocks(flow, stage, "`call` may block");
    made->symbol = weir_checker_dup(flow->checker, node->symbol_span);
    made->text = weir_checker_path(flow->checker, node->text_span);
}

static void flow_reply(struct weir_flow *flow, uint32_t stage)
{
    struct weir_checker *checker = flow->checker;
    weir_flow_need(flow, stage, FRAME);
    if (flow->forms_matter && weir_flow_owing(flow, NULL) && (flow->form == FRAME || flow->form == MESSAGE)) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E047_NEEDS_ENCODE, weir_flow_node(flow, stage)->verb_span,
                                               "`reply` has nothing to write: nothing has encoded a reply");
        weir_diag_hint(checker->bag, diag, "add `%sencode riemann` above it", flow->form == FRAME ? "decode riemann` and `" : "");
    }
    weir_flow_rings(flow, stage);
}

static void flow_drop(struct weir_flow *flow, uint32_t stage)
{
    weir_flow_need(flow, stage, FRAME);
    const struct weir_way_in *way = weir_flow_owing(flow, NULL);
    if (!flow->forms_matter || !way)
        return;
    struct weir_diag_bag *bag = flow->checker->bag;
    struct weir_diag *diag = weir_diag_add(bag, WEIR_E048_REPLY_OWED, weir_flow_node(flow, stage)->verb_span,
                                           "`drop` leaves the client without the reply that its protocol promises");
    weir_diag_relate(bag, diag, weir_flow_node(flow, flow->checker->topology->ways[way->way].listen_stage)->verb_span,
                     "requests come in here, and each one is owed a reply");
    weir_diag_hint(bag, diag, "end with `encode riemann` and `reply`");
}

static void flow_stage(struct weir_flow *flow, uint32_t stage)
{
    struct weir_topology_stage *made = weir_flow_stage(flow, stage);
    made->pool = made->finish_pool = flow->pool;
    switch (weir_flow_node(flow, stage)->verb) {
    case WEIR_LISTEN:
        flow_listen(flow, stage);
        made->pool = made->finish_pool = flow->pool;
        break;
    case WEIR_FRAME: flow_frame(flow, stage); break;
    case WEIR_DECODE: flow_decode(flow, stage); break;
    case WEIR_ENCODE: flow_encode(flow, stage); break;
    case WEIR_HANDOFF: weir_flow_handoff(flow, stage); break;
    case WEIR_FORWARD:
    case WEIR_STORE: weir_flow_slots(flow, stage); break;
    case WEIR_REPLY: flow_reply(flow, stage); break;
    case WEIR_DROP: flow_drop(flow, stage); break;
    case WEIR_THEN:
    case WEIR_TEE: flow_branch(flow, stage); break;
    default: flow_work(flow, stage); break;
    }
}

static bool ends(enum weir_verb_kind verb)
{
    return verb == WEIR_REPLY || verb == WEIR_DROP || verb == WEIR_THEN;
}

/* Only what is named in a pipeline that has syntax errors, or lines for a server that runs already. */
static void name_pools(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    if (node->pool_span.length == 0)
        return;
    uint32_t pool = weir_flow_find_pool(flow, node->pool_span);
    if (node->verb == WEIR_LISTEN && pool != WEIR_NONE && flow->checker->pool_listener[pool] == WEIR_NONE)
        flow->checker->pool_listener[pool] = stage;
    if (node->verb == WEIR_LISTEN && !node->broken)
        weir_check_address(flow->checker, node, stage);
}

static void check_end(struct weir_flow *flow, const struct weir_topology_pipeline *pipeline)
{
    if (flow->end != WEIR_NONE)
        return;
    struct weir_checker *checker = flow->checker;
    const struct weir_tree_entry *entry = checker->pipeline_nodes[flow->pipeline];
    struct weir_diag *diag;
    if (pipeline->stage_count == 0)
        diag = weir_diag_add(checker->bag, WEIR_E042_NO_END, entry->name_span, "the pipeline '%s' has no stages", flow->name);
    else
        diag = weir_diag_add(checker->bag, WEIR_E042_NO_END, weir_flow_node(flow, flow->first + pipeline->stage_count - 1)->span,
                             "nothing finishes the items of '%s' after its last stage", flow->name);
    weir_diag_hint(checker->bag, diag, "%s",
                   pipeline->stage_count == 0 ? "a pipeline begins with `listen` and ends with `reply`"
                   : flow->ways && !weir_flow_owing(flow, NULL) ? "end it with `drop`"
                   : flow->form == MESSAGE    ? "end it with `encode riemann` and `reply`"
                   : flow->form == FRAME      ? "end it with `decode riemann`, `encode riemann` and `reply`"
                                              : "end it with `reply`");
}

void weir_check_flow(struct weir_checker *checker, uint32_t index)
{
    const struct weir_topology_pipeline *pipeline = &checker->topology->pipelines[index];
    const struct weir_entrance *entrance = &checker->entrances[index];
    bool entered = entrance->entered;
    struct weir_flow flow = {
        .checker = checker,
        .pipeline = index,
        .name = pipeline->name,
        .forms_matter = !checker->incomplete[index],
        .form = entrance->form,
        .pool = entered && entrance->ways ? entrance->ways->pool : WEIR_NONE,
        .at_top = entered,
        .ways = entrance->ways,
        .listen = WEIR_NONE,
        .frame = entered ? entrance->frame : WEIR_NONE,
        .decode = entered ? entrance->decode : WEIR_NONE,
        .encode = entered ? entrance->encode : WEIR_NONE,
        .frame_max = entrance->frame_max,
        .decode_max = entrance->decode_max,
        .end = WEIR_NONE,
        .first = pipeline->first_stage,
    };
    for (uint32_t stage = flow.first; stage < flow.first + pipeline->stage_count; stage++) {
        if (checker->incomplete[index]) {
            name_pools(&flow, stage);
            continue;
        }
        if (flow.end != WEIR_NONE) {
            struct weir_diag *diag =
                weir_diag_add(checker->bag, WEIR_E043_AFTER_END, weir_flow_node(&flow, stage)->verb_span,
                              "nothing reaches `%s`: the item is finished above", weir_verb_name(weir_flow_node(&flow, stage)->verb));
            weir_diag_relate(checker->bag, diag, weir_flow_node(&flow, flow.end)->verb_span, "here");
            weir_diag_hint(checker->bag, diag, "remove it, or move it above `%s`",
                           weir_verb_name(weir_flow_node(&flow, flow.end)->verb));
            /* The lines after it would be the same mistake; their pools are used all the same. */
            while (stage < flow.first + pipeline->stage_count)
                name_pools(&flow, stage++);
            return;
        }
        flow_stage(&flow, stage);
        if (ends(weir_flow_node(&flow, stage)->verb))
            flow.end = stage;
    }
    if (!checker->incomplete[index])
        check_end(&flow, pipeline);
}
