/*
 * checker: what the parts of the checker share. Only the files check*.c include it; check.h is what the others see.
 *
 * Units: as in base/topology.h.
 * Owns: the names table and the scratch arrays (in the bag's arena); the topology's arrays lie in `arena`.
 * Threads: owner only.
 * Errors: in the bag.
 *
 * Pipelines that listen come first in the topology, then the tails that they lead to; what nothing enters comes last, and is cut
 * off at the end.
 */
#ifndef WEIR_LANG_CHECKER_H
#define WEIR_LANG_CHECKER_H

#include "pipeline_dsl/lang/check.h"
#include "pipeline_dsl/lang/names.h"

enum weir_name_kind { WEIR_NAME_POOL, WEIR_NAME_PIPELINE, WEIR_NAME_STAGE };
#define WEIR_NAME_VALUE(kind, index) ((uint32_t)(kind) << 30 | (index))
#define WEIR_NAME_KIND(value) ((enum weir_name_kind)((value) >> 30))
#define WEIR_NAME_INDEX(value) ((value) & 0x3fffffffu)

enum weir_group { WEIR_GROUP_UNENTERED, WEIR_GROUP_LISTENS, WEIR_GROUP_TAIL, WEIR_GROUP_COUNT };

/* How far an item has come. */
enum weir_form { WEIR_FORM_UNKNOWN, WEIR_FORM_STREAM, WEIR_FORM_FRAME, WEIR_FORM_MESSAGE, WEIR_FORM_ENCODED };

/* One way in that comes to the top of a pipeline, by the threads of one pool. */
struct weir_way_in {
    struct weir_way_in *next;
    uint32_t way, pool;
    bool received; /* as items that were received, not only as copies of them */
};

/* What comes in at the top of a pipeline: merged from all who enter it. */
struct weir_entrance {
    bool entered;
    struct weir_span span;          /* who entered first */
    enum weir_form form;
    uint32_t frame, decode, encode; /* stages that brought it there, or WEIR_NONE */
    uint64_t frame_max, decode_max; /* 0: unknown */
    struct weir_way_in *ways;
};

/* A pool that pushes into a queue. */
struct weir_pusher {
    struct weir_pusher *next;
    uint32_t pool, queue;
    uint32_t number; /* counts up from 0, the newest comes first in the list */
};

/* Ids of instances have 16 bits in the contract's records. */
#define WEIR_INSTANCES_MOST 65000u

/* What an expectation may speak of. */
struct weir_scope {
    const struct weir_topology *topology;
    const struct weir_names *names; /* pools and pipelines by name, stages by full name */
    const bool *incomplete;         /* by pipeline: a stage of it may be hidden by a syntax error; null: none */
    uint32_t entered_count;         /* pipelines below this number are entered */
    bool names_lost;
};

struct weir_checker {
    const struct weir_tree *tree;
    struct weir_diag_bag *bag;
    struct weir_arena *arena;
    struct weir_topology *topology;
    struct weir_names names;
    const struct weir_tree_entry **pool_nodes, **pipeline_nodes; /* by index in the topology */
    const struct weir_tree_stage **stage_nodes;
    bool *incomplete;           /* by pipeline */
    bool *pool_named;           /* by pool: some stage names it */
    uint32_t *pool_listener;    /* by pool: the first stage that listens on it, or WEIR_NONE */
    uint32_t *pool_taker;       /* by pool: the first handoff into it, or WEIR_NONE */
    enum weir_group *groups;    /* by pipeline, in the order of the file */
    uint32_t listen_count;      /* pipelines that listen */
    uint32_t entered_count, entered_stage_count;
    struct weir_entrance *entrances; /* by pipeline */
    uint32_t way_in_count;      /* of all entrances */
    struct weir_pusher *pushers; /* newest first */
    uint32_t pusher_count;
    bool pool_unknown;          /* a name was wrong: don't say that a pool is unused */
    bool pipeline_unknown;      /* the same of a pipeline */
    bool bound;                 /* there are lines for a running server */
};

const char *weir_checker_text(const struct weir_checker *checker, struct weir_span span);
char *weir_checker_dup(struct weir_checker *checker, struct weir_span span);

/* A path, which the file gives relative to itself. Null: no memory, which the bag knows. */
const char *weir_checker_path(struct weir_checker *checker, struct weir_span string);
/* The same, so that it means one place from any folder. */
const char *weir_checker_full_path(struct weir_checker *checker, struct weir_span string);

/* check_flow.c: walks pipeline `index` from top to bottom; fills its stages, queues and way. */
void weir_check_flow(struct weir_checker *checker, uint32_t index);
/* check_tails.c */
/* Which pipelines listen, and which others they lead to. */
void weir_check_groups(struct weir_checker *checker);
/* Walks all pipelines, each one after those that lead to it. */
void weir_check_flows(struct weir_checker *checker);
/* A `tee` or `then` leads on, with what has come so far; `pool`: whose threads run it, or WEIR_NONE: those that brought it. */
void weir_check_enter(struct weir_checker *checker, uint32_t stage, const struct weir_entrance *from, uint32_t pool);
/* Numbers the instances of what is entered. */
void weir_check_instances(struct weir_checker *checker);
/* check_pools.c: what only shows when all pipelines are known. */
void weir_check_pools(struct weir_checker *checker);
/* check_address.c: E018, E034, W107. */
void weir_check_address(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t stage);
/* check_query.c: E070; the stage's text. */
void weir_check_query(struct weir_checker *checker, const struct weir_tree_stage *node, struct weir_topology_stage *stage);
/* check_address.c: E018 of an address that is connected to. */
void weir_check_peer(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t stage);
/* check_slots.c: E017, W103, W108; fills the stage. `pool`: whose threads take the slots. Returns the pool of the stage's own
 * threads, or WEIR_NONE. */
uint32_t weir_check_slots(struct weir_checker *checker, uint32_t stage, uint32_t pool);
/* check_expect.c */
bool weir_check_terms(const struct weir_scope *scope, struct weir_diag_bag *bag, struct weir_arena *arena,
                      const struct weir_tree_expectation *node, struct weir_topology_expectation *expectation);

#endif
