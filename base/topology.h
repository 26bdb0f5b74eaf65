/*
 * topology: one checked pipeline file, flat and with every default filled in.
 * The language makes it; the compiler, the contract, the profile and every view read it. Nobody changes it.
 *
 * Units: bytes, ns, items; addresses are text.
 * Owns: nothing; all arrays and strings lie in the arena it was made in.
 * Threads: any (read only).
 * Errors: none.
 *
 * Numbers: a pool, pipeline, queue and way in is named by its index here. A stage *instance* is one stage as seen by one way
 * in; its index plus WEIR_INSTANCE_FIRST is the id that threads carry in their tag.
 */
#ifndef WEIR_BASE_TOPOLOGY_H
#define WEIR_BASE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_NAME_MAX 63            /* bytes in a NAME */
#define WEIR_NONE ((uint32_t)-1)    /* "no such index" */

enum weir_verb_kind {
    WEIR_LISTEN, WEIR_FRAME, WEIR_DECODE, WEIR_ENCODE, WEIR_HANDOFF, WEIR_INDEX, WEIR_FILTER, WEIR_BATCH,
    WEIR_FORWARD, WEIR_STORE, WEIR_BUSY, WEIR_CALL, WEIR_TEE, WEIR_THEN, WEIR_REPLY, WEIR_DROP,
    WEIR_VERB_COUNT
};
/* "listen", "frame", … */
const char *weir_verb_name(enum weir_verb_kind verb);

enum weir_transport { WEIR_TCP, WEIR_UDP, WEIR_UNIX };
enum weir_framing { WEIR_LENGTH32, WEIR_LINES };
enum weir_codec_kind { WEIR_RIEMANN, WEIR_GRAPHITE };
enum weir_sized { WEIR_SIZED_BYTES, WEIR_SIZED_ARENA, WEIR_SIZED_TYPED, WEIR_SIZED_REFLECT };
enum weir_full { WEIR_FULL_BLOCK, WEIR_FULL_REJECT, WEIR_FULL_DROP_NEWEST, WEIR_FULL_DROP_OLDEST };
const char *weir_sized_name(enum weir_sized sized); /* "bytes", … */
const char *weir_full_name(enum weir_full full);    /* "block", "reject", "drop newest", "drop oldest" */

/* Parts of a stage. A handoff has all of SIZE, PUSH, POP; a reply has PUSH (a worker finishes the item) and POP; a stage with
 * slots has PUSH (its own thread gives a finished item back) and POP. */
enum weir_part { WEIR_PART_NONE, WEIR_PART_SIZE, WEIR_PART_PUSH, WEIR_PART_POP };
const char *weir_part_name(enum weir_part part); /* "", "size", "push", "pop" */

/* A stage with slots has a pool of its own, called like the stage, for the threads that serve its connections. */
struct weir_topology_pool {
    const char *name;
    uint32_t threads;
    bool listens; /* its threads run event loops; otherwise they take items from queues */
};
#define WEIR_SLOT_THREADS 2u /* of a stage with slots: one moves the bytes of all its connections, one opens them */

struct weir_topology_pipeline {
    const char *name;
    uint32_t first_stage, stage_count; /* consecutive in `stages` */
    uint32_t way;                      /* WEIR_NONE for a tail */
};

struct weir_topology_stage {
    const char *name;      /* within its pipeline: the verb, or what `as` says */
    const char *full_name; /* "riemann.handoff" */
    enum weir_verb_kind verb;
    uint32_t pipeline;
    uint32_t pool;         /* whose threads run it (of several, at the top of a shared tail, the first); of a handoff: who sizes and pushes; of a reply: who sends (the listener's) */
    uint32_t finish_pool;  /* of a reply or drop: whose threads finish the item; else as `pool` */
    uint32_t queue;        /* of a handoff, a reply, forward or store: index in `queues` (of several rings the first); else WEIR_NONE */
    /* what the verb's arguments say; fields of other verbs are 0 */
    enum weir_transport transport;   /* listen */
    const char *address;             /* listen, forward: "127.0.0.1:5555"; listen unix: the path */
    const char *allow;               /* listen: networks, a blank between them; null: everybody may come */
    const char *tls_cert, *tls_key, *tls_client_ca; /* listen: paths; null: in the clear; client_ca null: any client */
    enum weir_framing framing;       /* frame */
    enum weir_codec_kind codec;      /* decode, encode */
    uint64_t max_bytes;              /* frame: largest payload; decode: largest message in memory (64 MiB unless said) */
    uint64_t cpu_ns, pause_ns;       /* busy */
    uint64_t ttl_ns;                 /* index; 0: Riemann's default of 60 s */
    uint64_t limit;                  /* index: entries, 0 none; batch: events */
    uint64_t within_ns;              /* batch */
    const char *text;                /* filter: query; call: path of the C file as resolved against the .weir file; store: conninfo,
                                        which is not written to the file format, since it may hold a secret */
    const char *symbol;              /* call: function; store: table */
    uint32_t connections, in_flight; /* forward, store */
    uint32_t target;                 /* tee, then: pipeline */
    bool create, retry_on_loss;      /* store */
};

/* SLOTS: what a stage with slots (`forward`, `store`) has finished, on its way back to the pool that goes on with it. */
enum weir_queue_kind { WEIR_QUEUE_HANDOFF, WEIR_QUEUE_REPLY, WEIR_QUEUE_SLOTS };

struct weir_topology_queue {
    const char *name;  /* its stage's full name: "riemann.handoff", "riemann.reply", "riemann.store"; "core.reply@tcp" where several have rings */
    enum weir_queue_kind kind;
    uint32_t stage;
    uint32_t from_pool, to_pool;
    uint64_t limit_bytes; /* of a reply ring: per connection; of SLOTS: 0, none */
    uint64_t limit_items; /* of a reply ring: per connection. Of a handoff without `items`: limit_bytes / 256, at least 1 */
    bool items_given;     /* the file has an `items` clause */
    enum weir_sized sized;
    enum weir_full full;
    uint32_t way;      /* whose replies a ring holds; of a handoff, which is one for all its ways in, WEIR_NONE */
};

/* A reply ring's limits, per connection. */
#define WEIR_REPLY_RING_ITEMS 1024u
#define WEIR_REPLY_RING_BYTES ((uint64_t)64 << 20)

/* The largest datagram that is taken: Riemann's own limit, from which on its clients turn to TCP. */
#define WEIR_DATAGRAM_MAX_BYTES 16384u
/* Lines of a stream are bundled into items of up to so many bytes; a longer line is an item of its own. */
#define WEIR_LINES_BUNDLE_BYTES 16384u

struct weir_topology_way {
    const char *name;      /* the pipeline's */
    uint32_t pipeline;
    uint32_t listen_stage; /* index in `stages` */
    bool replies;          /* its protocol owes one reply a request */
};

/* Of a pipeline that one way in leads to each stage has one instance, in which what is born inside counts too. Of a shared tail
 * all stages follow each other once for what belongs to no way in, and then once for each way in. */
struct weir_topology_instance {
    const char *name; /* full name; "core.index@tcp" when a tail is shared */
    uint32_t stage;
    uint32_t way;     /* WEIR_NONE: what starts inside */
    uint32_t pool;    /* whose threads run it: those that bring this way in, up to the first handoff of a tail */
};

/* Ids in a thread's tag: tag = id << WEIR_TAG_PART_BITS | part. */
#define WEIR_TAG_PART_BITS 2u
#define WEIR_INSTANCE_RUNTIME 0u /* "(runtime)": a pool thread outside any stage */
#define WEIR_INSTANCE_TRACING 1u /* "(tracing)": stamping, flushing */
#define WEIR_INSTANCE_FIRST 2u   /* + index in `instances` */
#define WEIR_TAG(id, part) (((uint32_t)(id) << WEIR_TAG_PART_BITS) | (uint32_t)(part))

enum weir_metric {
    WEIR_METRIC_CPU, WEIR_METRIC_UNDER, WEIR_METRIC_WAIT, WEIR_METRIC_WAKEUP, WEIR_METRIC_DEPTH, WEIR_METRIC_FILL,
    WEIR_METRIC_SERVICE, WEIR_METRIC_THROUGHPUT, WEIR_METRIC_STARVED, WEIR_METRIC_DROPS
};
enum weir_statistic { WEIR_MEAN, WEIR_P50, WEIR_P90, WEIR_P99, WEIR_P999, WEIR_MAX };
enum weir_comparison { WEIR_LT, WEIR_LE, WEIR_GT, WEIR_GE };
enum weir_value_unit { WEIR_PLAIN, WEIR_SHARE, WEIR_NS, WEIR_BYTES, WEIR_PER_S }; /* SHARE is 0..1, NS in ns */

struct weir_topology_term {
    enum weir_metric metric;
    uint32_t pool;       /* exactly one of pool, pipeline, stage is set, the others are WEIR_NONE */
    uint32_t pipeline;
    uint32_t stage;
    enum weir_part part; /* with stage */
    enum weir_statistic statistic;
    enum weir_comparison comparison;
    double value;
    enum weir_value_unit unit;
    uint32_t group;      /* terms of one group are and-ed, groups are or-ed; groups count up from 0 */
};

struct weir_topology_expectation {
    const char *text; /* one canonical line: "cpu(riemann.handoff) < 5%" */
    struct weir_topology_term *terms;
    uint32_t term_count;
};

struct weir_topology {
    const char *name; /* the file's name without folder and ".weir" */
    struct weir_topology_pool *pools;
    struct weir_topology_pipeline *pipelines;
    struct weir_topology_stage *stages;
    struct weir_topology_queue *queues;
    struct weir_topology_way *ways;
    struct weir_topology_instance *instances;
    struct weir_topology_expectation *expectations;
    uint32_t pool_count, pipeline_count, stage_count, queue_count, way_count, instance_count, expectation_count;
};

/* Whose replies a ring holds, or WEIR_NONE. A topology of before rings had a way of their own says it by the pipeline. */
uint32_t weir_topology_ring_way(const struct weir_topology *topology, uint32_t queue);
/* Has its stage no other queue? A reply has one for each way in that it answers. */
bool weir_topology_is_sole(const struct weir_topology *topology, uint32_t queue);
static inline bool weir_topology_has_slots(const struct weir_topology_stage *stage)
{
    return stage->verb == WEIR_FORWARD || stage->verb == WEIR_STORE;
}

/* How many stages have slots. */
static inline uint32_t weir_topology_slots(const struct weir_topology *topology)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < topology->stage_count; i++)
        count += weir_topology_has_slots(&topology->stages[i]);
    return count;
}

/* Tags run from 0 to this, exclusive. */
static inline uint32_t weir_topology_tag_count(const struct weir_topology *topology)
{
    return WEIR_TAG(WEIR_INSTANCE_FIRST + topology->instance_count, 0);
}

#endif
