/* What only shows when all pipelines are known: pools with two duties, cycles of queues, and what nobody uses. */
#include <string.h>

#include "pipeline_dsl/lang/checker.h"

static void check_duties(struct weir_checker *checker)
{
    for (uint32_t i = 0; i < checker->topology->pool_count; i++) {
        uint32_t listener = checker->pool_listener[i], taker = checker->pool_taker[i];
        checker->topology->pools[i].listens = listener != WEIR_NONE;
        if (listener == WEIR_NONE || taker == WEIR_NONE)
            continue;
        const char *name = checker->topology->pools[i].name;
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E061_POOL_LISTENS, checker->stage_nodes[taker]->pool_span,
                                               "'%s' listens, so that it can't take handoffs", name);
        weir_diag_relate(checker->bag, diag, checker->stage_nodes[listener]->pool_span, "it listens here");
        weir_diag_hint(checker->bag, diag, "hand off to a pool of its own: `pool workers threads 2`");
    }
}

/* --- cycles of blocking queues --------------------------------------------------------------------------------------------------- */

/* Depth first over the pools, with a stack of our own: a chain of a thousand pools is no deep call. A queue of a shared tail is
 * pushed into by as many pools as bring ways into it. */
struct search {
    struct weir_checker *checker;
    const struct weir_pusher **first; /* by pool: the blocking queues that it pushes into; `next_of` goes on */
    const struct weir_pusher **next_of; /* by pusher */
    const struct weir_pusher **way;   /* that led here, in order */
    uint32_t depth;
    char *mark; /* by pool */
};
enum { UNSEEN, ON_WAY, DONE };

static void complain_about_cycle(const struct search *search, uint32_t closing)
{
    struct weir_checker *checker = search->checker;
    const struct weir_topology *topology = checker->topology;
    const struct weir_topology_queue *queue = &topology->queues[closing];
    struct weir_diag *diag =
        weir_diag_add(checker->bag, WEIR_E064_CYCLE, checker->stage_nodes[queue->stage]->clause_spans[WEIR_CLAUSE_FULL],
                      "this queue closes a cycle of blocking queues: when all of them are full, none can move");
    bool inside = false;
    unsigned shown = 0;
    for (uint32_t i = 0; i < search->depth && shown < 4; i++) {
        const struct weir_pusher *other = search->way[i];
        inside = inside || other->pool == queue->to_pool;
        if (!inside)
            continue;
        weir_diag_relate(checker->bag, diag, checker->stage_nodes[topology->queues[other->queue].stage]->verb_span,
                         "'%s' waits for '%s' here", topology->pools[other->pool].name,
                         topology->pools[topology->queues[other->queue].to_pool].name);
        shown++;
    }
    weir_diag_hint(checker->bag, diag, "let one of them refuse: `full reject`");
}

static bool search_from(struct search *search, uint32_t start)
{
    const struct weir_topology *topology = search->checker->topology;
    uint32_t pool = start;
    search->mark[pool] = ON_WAY;
    for (;;) {
        const struct weir_pusher *pusher = search->first[pool];
        if (!pusher) {
            search->mark[pool] = DONE;
            if (search->depth == 0)
                return false;
            pool = search->way[--search->depth]->pool;
            continue;
        }
        search->first[pool] = search->next_of[pusher->number];
        uint32_t to = topology->queues[pusher->queue].to_pool;
        if (search->mark[to] == ON_WAY) {
            complain_about_cycle(search, pusher->queue);
            return true;
        }
        if (search->mark[to] == UNSEEN) {
            search->way[search->depth++] = pusher;
            search->mark[to] = ON_WAY;
            pool = to;
        }
    }
}

static void check_cycles(struct weir_checker *checker)
{
    const struct weir_topology *topology = checker->topology;
    struct weir_arena *scratch = &checker->bag->arena;
    struct search search = {
        .checker = checker,
        .first = weir_arena_zalloc(scratch, topology->pool_count * sizeof *search.first),
        .next_of = weir_arena_zalloc(scratch, checker->pusher_count * sizeof *search.next_of),
        .way = weir_arena_zalloc(scratch, topology->pool_count * sizeof *search.way),
        .mark = weir_arena_zalloc(scratch, topology->pool_count),
    };
    if (!search.first || !search.next_of || !search.way || !search.mark) {
        checker->bag->failed = true;
        return;
    }
    for (const struct weir_pusher *pusher = checker->pushers; pusher; pusher = pusher->next) {
        const struct weir_topology_queue *queue = &topology->queues[pusher->queue];
        /* A pool that listens takes no handoffs, and that has been said. */
        if (queue->full != WEIR_FULL_BLOCK || pusher->pool == queue->to_pool || topology->pools[queue->to_pool].listens)
            continue;
        search.next_of[pusher->number] = search.first[pusher->pool];
        search.first[pusher->pool] = pusher;
    }
    for (uint32_t i = 0; i < topology->pool_count; i++)
        if (search.mark[i] == UNSEEN && search_from(&search, i))
            return;
}

/* --- what nobody uses ---------------------------------------------------------------------------------------------------------------- */

static void check_unused(struct weir_checker *checker)
{
    const struct weir_topology *topology = checker->topology;
    /* A wrong name elsewhere, or that nothing runs at all, is the likelier story. */
    if (checker->tree->broken || checker->bound || checker->entered_count == 0)
        return;
    for (uint32_t i = 0; i < checker->tree->pool_count && !checker->pool_unknown; i++) {
        if (checker->pool_named[i])
            continue;
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W105_UNUSED, checker->pool_nodes[i]->name_span,
                                               "nothing uses the pool '%s'", topology->pools[i].name);
        weir_diag_hint(checker->bag, diag, "remove it, or name it in a `handoff`");
    }
    if (checker->pipeline_unknown)
        return;
    for (uint32_t i = checker->entered_count; i < topology->pipeline_count; i++) {
        if (topology->pipelines[i].stage_count == 0)
            continue; /* which is an error of its own */
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W105_UNUSED, checker->pipeline_nodes[i]->name_span,
                                               "nothing enters '%s': it has no `listen`, and no `then` or `tee` leads to it", topology->pipelines[i].name);
        weir_diag_hint(checker->bag, diag, "begin it with `listen tcp ADDRESS on POOL`, or lead to it by `then %s`; as it is, it is left out of the server",
                       topology->pipelines[i].name);
    }
}

/* --- threads ------------------------------------------------------------------------------------------------------------------------- */

/* The slots of the contract between server and tracer, which this room may not include. */
#define THREADS_SEEN 256u

static void check_threads(struct weir_checker *checker)
{
    const struct weir_topology *topology = checker->topology;
    uint32_t written = checker->tree->pool_count;
    uint64_t threads = 0;
    for (uint32_t i = written; i < topology->pool_count; i++)
        threads += topology->pools[i].threads;
    for (uint32_t i = 0; i < written; i++) {
        uint64_t before = threads;
        threads += topology->pools[i].threads;
        if (before > THREADS_SEEN || threads <= THREADS_SEEN)
            continue;
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_W109_MANY_THREADS, checker->pool_nodes[i]->name_span,
                                               "with '%s' there are more than %u threads, and a tracer sees no more", topology->pools[i].name,
                                               THREADS_SEEN);
        weir_diag_hint(checker->bag, diag, "use fewer threads; a few for each CPU are enough for stages that don't wait");
    }
}

void weir_check_pools(struct weir_checker *checker)
{
    check_threads(checker);
    check_duties(checker);
    check_cycles(checker);
    check_unused(checker);
}
