/*
 * DESIGN: an item is followed from the listener to its end. Four forms follow each other: a stream, a frame, a message, an
 * encoded reply; each verb says which form it takes and which it leaves. A wrong form is reported once, and the walk goes on as
 * if the missing stage were there. What comes in at the top of a tail is what the pipelines that enter it have made of it
 * (check_tails.c); where nothing enters it that is unknown, and so are the largest item and the pool.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pipeline_dsl/lang/checker.h"

#define UNKNOWN WEIR_FORM_UNKNOWN
#define STREAM WEIR_FORM_STREAM
#define FRAME WEIR_FORM_FRAME
#define MESSAGE WEIR_FORM_MESSAGE
#define ENCODED WEIR_FORM_ENCODED

struct flow {
    struct weir_checker *checker;
    uint32_t pipeline;
    const char *name;  /* the pipeline's */
    bool forms_matter; /* not in a pipeline with syntax errors, or with a listener or a codec that isn't built */
    enum weir_form form;
    uint32_t pool;                               /* whose threads run the stage; WEIR_NONE where unknown */
    bool at_top;                                 /* of a tail: each way in is still on the pool that brought it */
    const struct weir_way_in *ways;              /* that come through here */
    uint32_t listen, frame, decode, encode, end; /* stages so far, or WEIR_NONE */
    uint32_t first;                              /* stage */
    uint64_t frame_max, decode_max;              /* 0: unknown */
};

static const struct weir_tree_stage *node_of(const struct flow *flow, uint32_t stage)
{
    return flow->checker->stage_nodes[stage];
}

static struct weir_topology_stage *stage_of(const struct flow *flow, uint32_t stage)
{
    return &flow->checker->topology->stages[stage];
}

/* A size as people write it, for messages. */
static const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB" };
    unsigned unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, "%" PRIu64 "%s", bytes, units[unit]);
    return text;
}

/* --- names of pools ---------------------------------------------------------------------------------------------------------- */

static uint32_t find_pool(struct flow *flow, struct weir_span span)
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

static void needs_frame(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
    struct weir_diag *diag =
        weir_diag_add(flow->checker->bag, WEIR_E044_NEEDS_FRAME, node->verb_span,
                      "`%s` stands on a stream that nothing has cut into messages", weir_verb_name(node->verb));
    weir_diag_relate(flow->checker->bag, diag, node_of(flow, flow->listen)->verb_span, "the stream begins here");
    bool lines = node->verb == WEIR_DECODE && node->codec == WEIR_GRAPHITE;
    weir_diag_hint(flow->checker->bag, diag, "add `frame %s` above it", lines ? "lines max 4KiB" : "length32 max 16MiB");
    flow->form = FRAME;
}

static void needs_message(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
    if (flow->form == ENCODED) {
        struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E046_DONE_BEFORE, node->verb_span,
                                               "`%s` comes too late: the reply is encoded already", weir_verb_name(node->verb));
        weir_diag_relate(flow->checker->bag, diag, node_of(flow, flow->encode)->verb_span, "here");
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

/* Brings the item into a form that has at least `least`, or says what is missing. */
static void need(struct flow *flow, uint32_t stage, enum weir_form least)
{
    if (!flow->forms_matter || flow->form == UNKNOWN)
        return;
    if (flow->form == STREAM && least >= FRAME)
        needs_frame(flow, stage);
    else if (least == MESSAGE && flow->form != MESSAGE)
        needs_message(flow, stage);
}

static void done_before(struct flow *flow, uint32_t stage, uint32_t before, const char *what)
{
    struct weir_diag *diag =
        weir_diag_add(flow->checker->bag, WEIR_E046_DONE_BEFORE, node_of(flow, stage)->verb_span, "the item is %s already", what);
    weir_diag_relate(flow->checker->bag, diag, node_of(flow, before)->verb_span, "here");
    weir_diag_hint(flow->checker->bag, diag, "remove one of the two");
}

static void needs_no_frame(struct flow *flow, uint32_t stage)
{
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E046_DONE_BEFORE, node_of(flow, stage)->verb_span,
                                           "a datagram is a whole message: there is nothing to cut");
    weir_diag_relate(flow->checker->bag, diag, node_of(flow, flow->checker->topology->ways[flow->ways->way].listen_stage)->verb_span,
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

static bool seen_before(const struct flow *flow, const struct weir_way_in *way)
{
    for (const struct weir_way_in *before = flow->ways; before != way; before = before->next)
        if (before->way == way->way && before->received)
            return true;
    return false;
}

/* The next way in after `way`, or from the first one, whose items are owed a reply here. */
static const struct weir_way_in *owing(const struct flow *flow, const struct weir_way_in *way)
{
    for (way = way ? way->next : flow->ways; way; way = way->next)
        if (way->received && flow->checker->topology->ways[way->way].replies && !seen_before(flow, way))
            return way;
    return NULL;
}

static void flow_listen(struct flow *flow, uint32_t stage)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_tree_stage *node = node_of(flow, stage);
    uint32_t pool = find_pool(flow, node->pool_span);
    if (flow->listen != WEIR_NONE) {
        struct weir_diag *diag =
            weir_diag_add(checker->bag, WEIR_E041_LISTEN_TWICE, node->verb_span, "'%s' listens already", flow->name);
        weir_diag_relate(checker->bag, diag, node_of(flow, flow->listen)->verb_span, "here");
        weir_diag_hint(checker->bag, diag, "make it a pipeline of its own");
        return;
    }
    if (stage != flow->first && !checker->incomplete[flow->pipeline]) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E040_LISTEN_FIRST, node->verb_span,
                                               "`listen` comes first: what stands above it would never run");
        weir_diag_relate(checker->bag, diag, node_of(flow, flow->first)->verb_span, "'%s' begins here", flow->name);
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
    stage_of(flow, stage)->transport = node->transport;
    weir_check_address(checker, node, stage);
    checker->topology->pipelines[flow->pipeline].way = checker->topology->way_count;
    flow->ways = enter_by_listener(checker, flow->pipeline, pool);
    checker->topology->ways[checker->topology->way_count++] =
        (struct weir_topology_way){ flow->name, flow->pipeline, stage, !datagrams };
}

/* Graphite has no replies. */
static void owe_nothing(const struct flow *flow)
{
    if (flow->listen != WEIR_NONE)
        flow->checker->topology->ways[flow->checker->topology->pipelines[flow->pipeline].way].replies = false;
}

static void flow_frame(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
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
    stage_of(flow, stage)->framing = node->framing;
    stage_of(flow, stage)->max_bytes = node->max.value;
}

/* `length32` goes with riemann, `lines` with graphite. */
static void check_codec(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
    if (!flow->forms_matter || flow->frame == WEIR_NONE || flow->decode != WEIR_NONE)
        return;
    bool lines = node_of(flow, flow->frame)->framing == WEIR_LINES, graphite = node->codec == WEIR_GRAPHITE;
    if (lines == graphite)
        return;
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E055_WRONG_CODEC, node->span, "%s",
                                           graphite ? "graphite's messages are lines, and these are frames with a length"
                                                    : "riemann's messages are frames with a length, and these are lines");
    weir_diag_relate(flow->checker->bag, diag, node_of(flow, flow->frame)->span, "they are cut here");
    weir_diag_hint(flow->checker->bag, diag, "write `%s`", graphite ? "frame lines max 4KiB" : "frame length32 max 16MiB");
}

static void flow_decode(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
    if (flow->forms_matter && flow->form >= MESSAGE && flow->decode != WEIR_NONE)
        done_before(flow, stage, flow->decode, "decoded");
    else
        need(flow, stage, FRAME);
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
    stage_of(flow, stage)->codec = node->codec;
    stage_of(flow, stage)->max_bytes = max;
}

static void flow_encode(struct flow *flow, uint32_t stage)
{
    need(flow, stage, MESSAGE);
    flow->encode = stage;
    if (flow->form != UNKNOWN)
        flow->form = ENCODED;
    stage_of(flow, stage)->codec = node_of(flow, stage)->codec;
}

static void check_limit(struct flow *flow, const struct weir_tree_stage *node, enum weir_sized sized)
{
    bool by_frame = flow->form == FRAME || sized == WEIR_SIZED_BYTES;
    uint64_t largest = by_frame ? flow->frame_max : flow->decode_max;
    if (!flow->forms_matter || flow->form == UNKNOWN || largest == 0 || node->limit.span.length == 0 ||
        node->limit.value >= largest)
        return;
    struct weir_diag_bag *bag = flow->checker->bag;
    char text[32];
    uint32_t bound = by_frame ? flow->frame : flow->decode;
    /* Without a frame datagrams come in by themselves. */
    if (bound == WEIR_NONE)
        bound = flow->checker->topology->ways[flow->ways->way].listen_stage;
    const struct weir_tree_stage *source = node_of(flow, bound);
    struct weir_diag *diag = weir_diag_add(bag, WEIR_E062_LIMIT_TOO_SMALL, node->limit.span,
                                           "the largest item, %s, can never be admitted by this limit", size_text(largest, text));
    if (source->verb == WEIR_FRAME && source->framing == WEIR_LINES && source->max.value < largest - 2)
        weir_diag_relate(bag, diag, source->verb_span, "lines are bundled into items of up to %s", text);
    else if (source->max.span.length)
        weir_diag_relate(bag, diag, source->max.span, "items may be as large as this");
    else
        weir_diag_relate(bag, diag, source->verb_span,
                         by_frame ? "a datagram may be this large" : "a message may take this much unless `max` says less");
    if (by_frame && (source->verb == WEIR_LISTEN || largest <= WEIR_LINES_BUNDLE_BYTES))
        weir_diag_hint(bag, diag, "raise it to `limit %s`", text);
    else if (by_frame)
        weir_diag_hint(bag, diag, "raise it to `limit %s`, or lower the `max` of `frame`", text);
    else
        weir_diag_hint(bag, diag, "raise it to `limit %s`, or bound the message: `decode riemann max %.*s`", text,
                       (int)node->limit.span.length, weir_checker_text(flow->checker, node->limit.span));
}

/* `limit` and `full` have no default. */
static void check_clauses(struct flow *flow, const struct weir_tree_stage *node)
{
    bool limit = node->clause_spans[WEIR_CLAUSE_LIMIT].length, full = node->clause_spans[WEIR_CLAUSE_FULL].length;
    if (limit && full)
        return;
    const char *add = limit  ? "add `full block`, `full reject`, `full drop newest` or `full drop oldest`"
                      : full ? "add `limit 64MiB`"
                             : "add `limit 64MiB full block`";
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E021_MISSING_CLAUSE, node->span, "`handoff` needs %s%s%s",
                                           limit ? "" : "`limit`: how much may wait", limit || full ? "" : ", and ",
                                           full ? "" : "`full`: what happens when it is full");
    weir_diag_hint(flow->checker->bag, diag, "%s", add);
}

static enum weir_sized check_sized(struct flow *flow, const struct weir_tree_stage *node)
{
    struct weir_diag_bag *bag = flow->checker->bag;
    bool given = node->clause_spans[WEIR_CLAUSE_SIZED].length != 0;
    enum weir_sized sized = given ? node->sized : flow->form >= MESSAGE ? WEIR_SIZED_ARENA : WEIR_SIZED_BYTES;
    if (!given || !flow->forms_matter)
        return sized;
    struct weir_span span = node->clause_spans[WEIR_CLAUSE_SIZED];
    if (flow->form == FRAME && sized != WEIR_SIZED_BYTES) {
        struct weir_diag *diag =
            weir_diag_add(bag, WEIR_E063_SIZED_BEFORE_DECODE, span, "there is no message yet whose size could be found by `%s`",
                          weir_sized_name(sized));
        weir_diag_hint(bag, diag, "leave it out: before `decode` the size of an item is its bytes");
    } else if (flow->decode != WEIR_NONE && stage_of(flow, flow->decode)->codec == WEIR_GRAPHITE && sized >= WEIR_SIZED_TYPED) {
        struct weir_diag *diag = weir_diag_add(bag, WEIR_E063_SIZED_BEFORE_DECODE, span,
                                               "`%s` walks Riemann's messages, and these come from lines", weir_sized_name(sized));
        weir_diag_hint(bag, diag, "leave it out: after `decode` the default is `sized arena`, which costs nothing");
    } else if (flow->form >= MESSAGE && sized == WEIR_SIZED_BYTES) {
        struct weir_diag *diag =
            weir_diag_add(bag, WEIR_W106_BYTES_AFTER_DECODE, span, "a decoded message can take 84 times the memory of its bytes");
        weir_diag_hint(bag, diag, "leave it out: after `decode` the default is `sized arena`, which costs nothing");
    } else if (flow->form >= MESSAGE && sized == WEIR_SIZED_REFLECT) {
        struct weir_diag *diag = weir_diag_add(bag, WEIR_W101_REFLECT, span, "each message is walked to guess its size");
        if (flow->decode != WEIR_NONE)
            weir_diag_relate(bag, diag, node_of(flow, flow->decode)->verb_span, "above this line the size is known at no cost");
        weir_diag_hint(bag, diag, "move the handoff above `decode`, without `sized`; or write `sized arena`");
    }
    return sized;
}

static void add_queue(struct flow *flow, uint32_t stage, const struct weir_topology_queue *queue)
{
    /* Where nothing enters nothing is queued: the pipeline is left out. */
    if (flow->pipeline >= flow->checker->entered_count)
        return;
    if (stage_of(flow, stage)->queue == WEIR_NONE)
        stage_of(flow, stage)->queue = flow->checker->topology->queue_count;
    flow->checker->topology->queues[flow->checker->topology->queue_count++] = *queue;
}

/* The pools that run the stages here, one after the other: that of `flow`, and at the top of a tail one for each way in. Begins
 * with a null `way`. */
static bool next_pool(const struct flow *flow, const struct weir_way_in **way, uint32_t *pool)
{
    if (!*way && (!flow->at_top || !flow->ways)) {
        static const struct weir_way_in end;
        *way = &end;
        *pool = flow->pool;
        return true;
    }
    *way = *way ? (*way)->next : flow->ways;
    if (*way)
        *pool = (*way)->pool;
    return *way != NULL;
}

static void add_pushers(struct flow *flow, uint32_t queue)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_way_in *way = NULL;
    uint32_t pool;
    while (next_pool(flow, &way, &pool)) {
        struct weir_pusher *pusher = weir_arena_alloc(&checker->bag->arena, sizeof *pusher);
        checker->bag->failed |= !pusher;
        if (!pusher || pool == WEIR_NONE || queue == WEIR_NONE)
            continue;
        *pusher = (struct weir_pusher){ checker->pushers, pool, queue, checker->pusher_count++ };
        checker->pushers = pusher;
    }
}

static bool hands_to_itself(const struct flow *flow, uint32_t to)
{
    const struct weir_way_in *way = NULL;
    uint32_t pool;
    while (next_pool(flow, &way, &pool))
        if (pool == to)
            return true;
    return false;
}

/* Behind a socket of datagrams nobody can be stopped. */
static void check_datagrams(struct flow *flow, const struct weir_tree_stage *node)
{
    const struct weir_topology *topology = flow->checker->topology;
    if (node->full != WEIR_FULL_BLOCK || !node->clause_spans[WEIR_CLAUSE_FULL].length)
        return;
    for (const struct weir_way_in *way = flow->ways; way; way = way->next) {
        uint32_t listen = topology->ways[way->way].listen_stage;
        if (!way->received || topology->stages[listen].transport != WEIR_UDP ||
            topology->stages[listen].pool != (flow->at_top ? way->pool : flow->pool))
            continue;
        struct weir_diag *diag =
            weir_diag_add(flow->checker->bag, WEIR_W104_BLOCK_BEHIND_UDP, node->clause_spans[WEIR_CLAUSE_FULL],
                          "a datagram's sender can't be stopped: when this queue is full, the kernel drops");
        weir_diag_relate(flow->checker->bag, diag, node_of(flow, listen)->verb_span, "datagrams come in here");
        weir_diag_hint(flow->checker->bag, diag, "write `full drop newest`, or `full drop oldest`");
        return;
    }
}

static void flow_handoff(struct flow *flow, uint32_t stage)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_tree_stage *node = node_of(flow, stage);
    need(flow, stage, FRAME);
    uint32_t to = find_pool(flow, node->pool_span);
    if (to != WEIR_NONE && hands_to_itself(flow, to)) {
        struct weir_diag *diag =
            weir_diag_add(checker->bag, WEIR_E060_OWN_POOL, node->pool_span, "the threads of '%s' would hand off to themselves",
                          checker->topology->pools[to].name);
        weir_diag_hint(checker->bag, diag, "hand off to another pool, or remove the line");
    } else if (to != WEIR_NONE && checker->pool_taker[to] == WEIR_NONE) {
        checker->pool_taker[to] = stage;
    }
    check_clauses(flow, node);
    enum weir_sized sized = check_sized(flow, node);
    check_limit(flow, node, sized);
    uint64_t by_bytes = node->limit.value / WEIR_QUEUE_BYTES_PER_ITEM;
    bool items_given = node->items.span.length != 0;
    check_datagrams(flow, node);
    if (to != WEIR_NONE)
        add_queue(flow, stage,
                  &(struct weir_topology_queue){
                      .name = stage_of(flow, stage)->full_name,
                      .kind = WEIR_QUEUE_HANDOFF,
                      .stage = stage,
                      .from_pool = flow->pool,
                      .to_pool = to,
                      .limit_bytes = node->limit.value,
                      .limit_items = items_given ? node->items.value
                                     : by_bytes  ? by_bytes
                                                 : 1,
                      .items_given = items_given,
                      .sized = sized,
                      .full = node->full,
                      .way = WEIR_NONE,
                  });
    add_pushers(flow, stage_of(flow, stage)->queue);
    flow->pool = to;
    flow->at_top = false;
}

static void blocks(struct flow *flow, uint32_t stage, const char *what)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_way_in *way = NULL;
    uint32_t pool;
    while (next_pool(flow, &way, &pool)) {
        if (pool == WEIR_NONE || checker->pool_listener[pool] == WEIR_NONE)
            continue;
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W102_BLOCKS_LISTENER, node_of(flow, stage)->verb_span,
                                               "%s, and the threads of '%s' read the sockets: all their connections wait with it",
                                               what, checker->topology->pools[pool].name);
        weir_diag_relate(checker->bag, diag, node_of(flow, checker->pool_listener[pool])->pool_span, "'%s' listens here",
                         checker->topology->pools[pool].name);
        weir_diag_hint(checker->bag, diag, "hand off to a pool of workers above it");
        return;
    }
}

static void flow_batch(struct flow *flow, uint32_t stage)
{
    struct weir_topology_stage *made = stage_of(flow, stage);
    const struct weir_tree_stage *node = node_of(flow, stage);
    const struct weir_way_in *way = owing(flow, NULL);
    made->within_ns = node->within.value;
    if (node->within.value == 0)
        weir_diag_hint(flow->checker->bag,
                       weir_diag_add(flow->checker->bag, WEIR_E017_BAD_NUMBER, node->within.span, "a batch that waits for no time holds nothing"),
                       "write how long the first event may wait for others: `within 100ms`");
    if (!way)
        return;
    struct weir_diag *diag = weir_diag_add(flow->checker->bag, WEIR_E053_BATCH_OWED, node->verb_span,
                                           "`batch` makes one item of many, and each of them is owed a reply");
    weir_diag_relate(flow->checker->bag, diag, node_of(flow, flow->checker->topology->ways[way->way].listen_stage)->verb_span,
                     "requests come in here");
    weir_diag_hint(flow->checker->bag, diag, "batch in a pipeline of its own, and lead copies to it by `tee`");
}

/* `then` and `tee`. */
static void flow_branch(struct flow *flow, uint32_t stage)
{
    need(flow, stage, FRAME);
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

/* An item that is finished comes back to the pool that sent it; at the top of a tail, all of them to the first one's. */
static void flow_slots(struct flow *flow, uint32_t stage)
{
    const struct weir_topology *topology = flow->checker->topology;
    struct weir_topology_stage *made = stage_of(flow, stage);
    need(flow, stage, node_of(flow, stage)->verb == WEIR_STORE ? MESSAGE : FRAME);
    blocks(flow, stage, node_of(flow, stage)->verb == WEIR_STORE ? "`store` waits for a free slot" : "`forward` waits for a free slot");
    bool left_out = flow->pipeline >= flow->checker->entered_count;
    uint32_t own = weir_check_slots(flow->checker, stage, left_out ? WEIR_NONE : flow->pool);
    if (own == WEIR_NONE)
        return;
    add_queue(flow, stage,
              &(struct weir_topology_queue){
                  .name = made->full_name,
                  .kind = WEIR_QUEUE_SLOTS,
                  .stage = stage,
                  .from_pool = own,
                  .to_pool = flow->pool,
                  /* A thread goes on with what is finished before it takes anything new. */
                  .limit_items = (uint64_t)made->connections * made->in_flight + topology->pools[flow->pool].threads,
                  .way = WEIR_NONE,
              });
    flow->at_top = false;
}

static void flow_work(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
    struct weir_topology_stage *made = stage_of(flow, stage);
    bool on_events = node->verb == WEIR_INDEX || node->verb == WEIR_FILTER || node->verb == WEIR_BATCH;
    need(flow, stage, on_events ? MESSAGE : FRAME);
    made->ttl_ns = node->ttl.value;
    made->limit = node->limit.value;
    made->cpu_ns = node->cpu.value;
    made->pause_ns = node->pause.value;
    if (node->verb == WEIR_BATCH)
        flow_batch(flow, stage);
    if (node->verb == WEIR_BUSY && node->pause.value)
        blocks(flow, stage, "`pause` sleeps");
    if (node->verb != WEIR_CALL)
        return;
    blocks(flow, stage, "`call` may block");
    made->symbol = weir_checker_dup(flow->checker, node->symbol_span);
    made->text = weir_checker_path(flow->checker, node->text_span);
}

/* One ring for each listener that is owed replies. */
static void add_rings(struct flow *flow, uint32_t stage)
{
    const struct weir_topology *topology = flow->checker->topology;
    struct weir_topology_stage *made = stage_of(flow, stage);
    const struct weir_way_in *first = owing(flow, NULL);
    bool several = false;
    for (const struct weir_way_in *way = first; way; way = owing(flow, way))
        several |= way->way != first->way;
    for (const struct weir_way_in *way = first; way; way = owing(flow, way)) {
        const char *name = several ? weir_arena_printf(flow->checker->arena, "%s@%s", made->full_name, topology->ways[way->way].name)
                                   : made->full_name;
        uint32_t listener = topology->stages[topology->ways[way->way].listen_stage].pool;
        flow->checker->bag->failed |= several && !name;
        if (way == first)
            made->pool = listener;
        add_queue(flow, stage,
                  &(struct weir_topology_queue){
                      .name = name,
                      .kind = WEIR_QUEUE_REPLY,
                      .stage = stage,
                      .from_pool = flow->at_top ? way->pool : flow->pool,
                      .to_pool = listener,
                      .limit_bytes = WEIR_REPLY_RING_BYTES,
                      .limit_items = WEIR_REPLY_RING_ITEMS,
                      .way = way->way,
                  });
    }
}

static void flow_reply(struct flow *flow, uint32_t stage)
{
    struct weir_checker *checker = flow->checker;
    need(flow, stage, FRAME);
    if (flow->forms_matter && owing(flow, NULL) && (flow->form == FRAME || flow->form == MESSAGE)) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E047_NEEDS_ENCODE, node_of(flow, stage)->verb_span,
                                               "`reply` has nothing to write: nothing has encoded a reply");
        weir_diag_hint(checker->bag, diag, "add `%sencode riemann` above it", flow->form == FRAME ? "decode riemann` and `" : "");
    }
    add_rings(flow, stage);
}

static void flow_drop(struct flow *flow, uint32_t stage)
{
    need(flow, stage, FRAME);
    const struct weir_way_in *way = owing(flow, NULL);
    if (!flow->forms_matter || !way)
        return;
    struct weir_diag_bag *bag = flow->checker->bag;
    struct weir_diag *diag = weir_diag_add(bag, WEIR_E048_REPLY_OWED, node_of(flow, stage)->verb_span,
                                           "`drop` leaves the client without the reply that its protocol promises");
    weir_diag_relate(bag, diag, node_of(flow, flow->checker->topology->ways[way->way].listen_stage)->verb_span,
                     "requests come in here, and each one is owed a reply");
    weir_diag_hint(bag, diag, "end with `encode riemann` and `reply`");
}

static void flow_stage(struct flow *flow, uint32_t stage)
{
    struct weir_topology_stage *made = stage_of(flow, stage);
    made->pool = made->finish_pool = flow->pool;
    switch (node_of(flow, stage)->verb) {
    case WEIR_LISTEN:
        flow_listen(flow, stage);
        made->pool = made->finish_pool = flow->pool;
        break;
    case WEIR_FRAME: flow_frame(flow, stage); break;
    case WEIR_DECODE: flow_decode(flow, stage); break;
    case WEIR_ENCODE: flow_encode(flow, stage); break;
    case WEIR_HANDOFF: flow_handoff(flow, stage); break;
    case WEIR_FORWARD:
    case WEIR_STORE: flow_slots(flow, stage); break;
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

/* Only what is named in a pipeline that has syntax errors, or lines of a kind that isn't built. */
static void name_pools(struct flow *flow, uint32_t stage)
{
    const struct weir_tree_stage *node = node_of(flow, stage);
    if (node->pool_span.length == 0)
        return;
    uint32_t pool = find_pool(flow, node->pool_span);
    if (node->verb == WEIR_LISTEN && pool != WEIR_NONE && flow->checker->pool_listener[pool] == WEIR_NONE)
        flow->checker->pool_listener[pool] = stage;
    if (node->verb == WEIR_LISTEN && !node->broken)
        weir_check_address(flow->checker, node, stage);
}

static void check_end(struct flow *flow, const struct weir_topology_pipeline *pipeline)
{
    if (flow->end != WEIR_NONE)
        return;
    struct weir_checker *checker = flow->checker;
    const struct weir_tree_entry *entry = checker->pipeline_nodes[flow->pipeline];
    struct weir_diag *diag;
    if (pipeline->stage_count == 0)
        diag = weir_diag_add(checker->bag, WEIR_E042_NO_END, entry->name_span, "the pipeline '%s' has no stages", flow->name);
    else
        diag = weir_diag_add(checker->bag, WEIR_E042_NO_END, node_of(flow, flow->first + pipeline->stage_count - 1)->span,
                             "nothing finishes the items of '%s' after its last stage", flow->name);
    weir_diag_hint(checker->bag, diag, "%s",
                   pipeline->stage_count == 0 ? "a pipeline begins with `listen` and ends with `reply`"
                   : flow->form == MESSAGE    ? "end it with `encode riemann` and `reply`"
                   : flow->form == FRAME      ? "end it with `decode riemann`, `encode riemann` and `reply`"
                                              : "end it with `reply`");
}

void weir_check_flow(struct weir_checker *checker, uint32_t index)
{
    const struct weir_topology_pipeline *pipeline = &checker->topology->pipelines[index];
    const struct weir_entrance *entrance = &checker->entrances[index];
    bool entered = entrance->entered;
    struct flow flow = {
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
                weir_diag_add(checker->bag, WEIR_E043_AFTER_END, node_of(&flow, stage)->verb_span,
                              "nothing reaches `%s`: the item is finished above", weir_verb_name(node_of(&flow, stage)->verb));
            weir_diag_relate(checker->bag, diag, node_of(&flow, flow.end)->verb_span, "here");
            weir_diag_hint(checker->bag, diag, "remove it, or move it above `%s`",
                           weir_verb_name(node_of(&flow, flow.end)->verb));
            /* The lines after it would be the same mistake; their pools are used all the same. */
            while (stage < flow.first + pipeline->stage_count)
                name_pools(&flow, stage++);
            return;
        }
        flow_stage(&flow, stage);
        if (ends(node_of(&flow, stage)->verb))
            flow.end = stage;
    }
    if (!checker->incomplete[index])
        check_end(&flow, pipeline);
}
