/*
 * plan: what a generated file tells the runtime about its pipelines: the tables that the compiler filled in.
 * It is the seam between the C that `weir build` writes and the archives that it links.
 *
 * Units: bytes, items.
 * Owns: nothing; everything is static in the generated file.
 * Threads: any (read only), apart from the blocks of the contract, whose writers probes/contract.h names.
 * Errors: none.
 *
 * Pools, queues and ways in are named by their index, as in the topology. A stage is named by its id, which is its instance's
 * index plus WEIR_INSTANCE_FIRST; of a stage in a shared tail it is the first one, to which an item adds its lane.
 */
#ifndef WEIR_RUNTIME_PLAN_H
#define WEIR_RUNTIME_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/network.h"
#include "base/topology.h"
#include "probes/contract.h"

struct weir_thread;
struct weir_item;
struct weir_conn;
struct weir_tls_driver;
struct weir_source;

/* A driver: runs one segment, the stages of a pipeline that follow each other on one pool. It owns the item and hands it on. */
typedef void weir_driver(struct weir_thread *thread, struct weir_item *item);

struct weir_plan_pool {
    const char *name;
    uint32_t threads;
    bool listens;
};

struct weir_plan_queue {
    const char *name;
    enum weir_queue_kind kind;
    uint32_t stage;       /* id of its handoff or reply */
    uint32_t to_pool;     /* who takes */
    uint64_t limit_bytes; /* of a reply ring: per connection */
    uint64_t limit_items;
    enum weir_full full;
    weir_driver *run;     /* of a handoff or slots: the segment behind it */
    uint32_t run_stage;   /* id of the first stage of that segment */
};

struct weir_plan_way {
    const char *name;
    enum weir_transport transport;
    enum weir_framing framing;
    const char *address; /* "127.0.0.1:5555"; of a local socket, its path */
    const struct weir_network *allow; /* [allow_count]: who may come; none: everybody */
    uint32_t allow_count;
    const struct weir_tls_driver *tls; /* weir_tls; null: in the clear */
    const char *tls_cert, *tls_key, *tls_client_ca; /* paths; client_ca null: clients need no certificate */
    uint32_t pool;
    uint32_t listen_stage, frame_stage, reply_stage; /* ids; frame_stage 0: datagrams; reply_stage 0: no replies are owed */
    uint32_t reply_queue;
    uint64_t frame_max_bytes; /* of a line, where lines are cut */
    uint64_t decode_max_bytes;
    /* The stages that work on a connection, each a function of its own in the generated file, so that profilers see it. */
    ptrdiff_t (*listen)(struct weir_conn *conn, void *span, size_t room);                              /* weir_conn_receive, weir_datagram_receive */
    struct weir_item *(*frame)(struct weir_conn *conn, const void *data, size_t size, size_t *used);   /* weir_conn_frame, weir_conn_lines */
    void (*send)(struct weir_conn *conn);                                                              /* weir_conn_send */
    weir_driver *run; /* the segment behind `frame`, or behind `listen` */
    uint32_t handoff_queue; /* where that segment is a handoff and nothing else; else WEIR_NONE */
    uint32_t handoff_stage; /* its id for this way in */
};

struct weir_slots_kind;

/* A stage that stands on a pool of slots. */
struct weir_plan_slots {
    const char *name;     /* its full name */
    uint32_t stage;       /* id */
    uint32_t topology_stage; /* index in the topology */
    uint32_t queue;       /* through which finished items come back */
    uint32_t pool;        /* of its own threads */
    uint32_t connections, in_flight;
    bool retries;         /* what was in flight on a lost connection is sent again */
    const struct weir_slots_kind *kind;
    const char *address;  /* forward: "127.0.0.1:5555"; store: a connection string */
    const char *table;    /* store */
    bool create;          /* store: make the table when there is none */
};

/* What a stage counts by itself, beside its cells; the counters show it in the stage's row. */
struct weir_plan_tally {
    uint32_t stage; /* id */
    const char *const *names; /* [count], at most WEIR_TALLY_MOST */
    uint32_t count;
    void (*read)(void *object, uint64_t *values); /* any thread */
    void *object;
};
#define WEIR_TALLY_MOST 8u

struct weir_takeover_writer;

/* What a stage hands to the stage of the same name in the server that this one becomes (runtime/takeover.h), in pieces. */
struct weir_plan_keeper {
    const char *name; /* its full name */
    void (*leave)(void *object, const char *name, struct weir_takeover_writer *writer); /* when nobody works any more */
    void (*take)(void *object, const void *data, size_t size); /* one piece; maybe of another version. Before anybody works */
    void *object;
};

struct weir_plan {
    const char *name; /* the topology's */
    const struct weir_plan_pool *pools;
    const struct weir_plan_queue *queues;
    const struct weir_plan_way *ways; /* [way_count + 1]: the last is that of what is born inside (runtime/inside.h) */
    const struct weir_plan_slots *slots;
    const char *const *stages; /* [stage_count]: full names of the instances, in the order of their ids */
    uint32_t pool_count, queue_count, way_count, slots_count, stage_count;
    struct weir_source *sources; /* [source_count] */
    uint32_t source_count;
    struct weir_source *self_source; /* where `--self-metrics` enters; null: nowhere */
    const struct weir_plan_tally *tallies; /* [tally_count] */
    uint32_t tally_count;
    const struct weir_plan_keeper *keepers; /* [keeper_count] */
    uint32_t keeper_count;
    uint32_t shards; /* threads of the largest pool that listens */
    const void *topology;
    uint32_t topology_bytes;
    /* the blocks of the contract, static in the generated file */
    struct weir_contract_cell *cells;   /* [WEIR_THREAD_SLOTS][tag_count] */
    struct weir_contract_queue *queue_blocks; /* [queue_count][shards] */
    struct weir_contract_way *way_blocks;     /* [way_count + 1][shards] */
    struct weir_contract_slots *slot_blocks;  /* [slots_count] */
    struct weir_contract_slot_times *slot_times;
};

static inline uint32_t weir_plan_tag_count(const struct weir_plan *plan)
{
    return WEIR_TAG(WEIR_INSTANCE_FIRST + plan->stage_count, 0);
}

#endif
