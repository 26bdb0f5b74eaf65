/* The queues of a pipeline: handoffs, what comes back from slots, the rings of replies. */
#include <inttypes.h>
#include <stdio.h>

#include "pipeline_dsl/lang/flow.h"

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

static void check_limit(struct weir_flow *flow, const struct weir_tree_stage *node, enum weir_sized sized)
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
    const struct weir_tree_stage *source = weir_flow_node(flow, bound);
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
static void check_clauses(struct weir_flow *flow, const struct weir_tree_stage *node)
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

static enum weir_sized check_sized(struct weir_flow *flow, const struct weir_tree_stage *node)
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
    } else if (flow->decode != WEIR_NONE && weir_flow_stage(flow, flow->decode)->codec == WEIR_GRAPHITE && sized >= WEIR_SIZED_TYPED) {
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
            weir_diag_relate(bag, diag, weir_flow_node(flow, flow->decode)->verb_span, "above this line the size is known at no cost");
        weir_diag_hint(bag, diag, "move the handoff above `decode`, without `sized`; or write `sized arena`");
    }
    return sized;
}

static void add_queue(struct weir_flow *flow, uint32_t stage, const struct weir_topology_queue *queue)
{
    /* Where nothing enters nothing is queued: the pipeline is left out. */
    if (flow->pipeline >= flow->checker->entered_count)
        return;
    if (weir_flow_stage(flow, stage)->queue == WEIR_NONE)
        weir_flow_stage(flow, stage)->queue = flow->checker->topology->queue_count;
    flow->checker->topology->queues[flow->checker->topology->queue_count++] = *queue;
}

bool weir_flow_next_pool(const struct weir_flow *flow, const struct weir_way_in **way, uint32_t *pool)
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

static void add_pushers(struct weir_flow *flow, uint32_t queue)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_way_in *way = NULL;
    uint32_t pool;
    while (weir_flow_next_pool(flow, &way, &pool)) {
        struct weir_pusher *pusher = weir_arena_alloc(&checker->bag->arena, sizeof *pusher);
        checker->bag->failed |= !pusher;
        if (!pusher || pool == WEIR_NONE || queue == WEIR_NONE)
            continue;
        *pusher = (struct weir_pusher){ checker->pushers, pool, queue, checker->pusher_count++ };
        checker->pushers = pusher;
    }
}

static bool hands_to_itself(const struct weir_flow *flow, uint32_t to)
{
    const struct weir_way_in *way = NULL;
    uint32_t pool;
    while (weir_flow_next_pool(flow, &way, &pool))
        if (pool == to)
            return true;
    return false;
}

/* Behind a socket of datagrams nobody can be stopped. */
static void check_datagrams(struct weir_flow *flow, const struct weir_tree_stage *node)
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
        weir_diag_relate(flow->checker->bag, diag, weir_flow_node(flow, listen)->verb_span, "datagrams come in here");
        weir_diag_hint(flow->checker->bag, diag, "write `full drop newest`, or `full drop oldest`");
        return;
    }
}

void weir_flow_handoff(struct weir_flow *flow, uint32_t stage)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_tree_stage *node = weir_flow_node(flow, stage);
    weir_flow_need(flow, stage, FRAME);
    uint32_t to = weir_flow_find_pool(flow, node->pool_span);
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
                      .name = weir_flow_stage(flow, stage)->full_name,
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
    add_pushers(flow, weir_flow_stage(flow, stage)->queue);
    flow->pool = to;
    flow->at_top = false;
}

/* An item that is finished comes back to the pool that sent it; at the top of a tail, all of them to the first one's. */
/* What has given its slot back comes to the pool that sent it, by the one queue that is bounded by these slots. */
static void check_one_pool(struct weir_flow *flow, const struct weir_tree_stage *node)
{
    struct weir_checker *checker = flow->checker;
    const struct weir_way_in *way = NULL;
    uint32_t one = WEIR_NONE, pool;
    while (weir_flow_next_pool(flow, &way, &pool)) {
        if (pool == WEIR_NONE || pool == one)
            continue;
        if (one == WEIR_NONE) {
            one = pool;
            continue;
        }
        const struct weir_topology_pool *pools = checker->topology->pools;
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E057_SEVERAL_POOLS, node->verb_span,
                                               "both '%s' and '%s' come to `%s`, and what is finished goes on in one pool",
                                               pools[one].name, pools[pool].name, weir_verb_name(node->verb));
        weir_diag_relate(checker->bag, diag, checker->pool_nodes[pool]->name_span, "'%s' is defined here", pools[pool].name);
        weir_diag_hint(checker->bag, diag, "hand off to a pool of workers above it, or give each its own tail");
        return;
    }
}

void weir_flow_slots(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_topology *topology = flow->checker->topology;
    struct weir_topology_stage *made = weir_flow_stage(flow, stage);
    weir_flow_need(flow, stage, weir_flow_node(flow, stage)->verb == WEIR_STORE ? MESSAGE : FRAME);
    weir_flow_blocks(flow, stage, weir_flow_node(flow, stage)->verb == WEIR_STORE ? "`store` waits for a free slot" : "`forward` waits for a free slot");
    check_one_pool(flow, weir_flow_node(flow, stage));
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

void weir_flow_rings(struct weir_flow *flow, uint32_t stage)
{
    const struct weir_topology *topology = flow->checker->topology;
    struct weir_topology_stage *made = weir_flow_stage(flow, stage);
    const struct weir_way_in *first = weir_flow_owing(flow, NULL);
    bool several = false;
    for (const struct weir_way_in *way = first; way; way = weir_flow_owing(flow, way))
        several |= way->way != first->way;
    for (const struct weir_way_in *way = first; way; way = weir_flow_owing(flow, way)) {
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
