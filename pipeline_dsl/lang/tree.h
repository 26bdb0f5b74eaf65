/*
 * tree: what a pipeline file says, as it was written: every node has its span, nothing is looked up or filled in yet.
 * The parser makes it; the checker and the printer read it.
 *
 * Units: as written, turned into bytes and ns; spans are bytes of the source.
 * Owns: nothing; all nodes lie in the bag's arena.
 * Threads: owner only.
 * Errors: a statement with a syntax error is kept, marked `broken`, so that what it names is known.
 */
#ifndef WEIR_LANG_TREE_H
#define WEIR_LANG_TREE_H

#include "base/topology.h"
#include "pipeline_dsl/lang/lex.h"

/* The words of a statement in the order in which fmt prints them. */
struct weir_word {
    struct weir_span span;
    struct weir_word *next;
};

struct weir_words {
    struct weir_word *first, **end;
};

struct weir_tree_number {
    struct weir_span span; /* length 0: not given */
    uint64_t value;
};

/* Forms of the grammar that parse and are not built: what to say about them. */
struct weir_tree_unbuilt {
    struct weir_span span; /* length 0: all of it is built */
    const char *what;      /* "`listen udp`" */
};

enum weir_tree_clause { WEIR_CLAUSE_LIMIT, WEIR_CLAUSE_ITEMS, WEIR_CLAUSE_SIZED, WEIR_CLAUSE_FULL, WEIR_CLAUSE_COUNT };

/* One line of a pipeline. Fields of other verbs are zero. */
struct weir_tree_stage {
    struct weir_tree_stage *next;
    struct weir_span span; /* first to last word */
    enum weir_verb_kind verb;
    struct weir_span verb_span;
    struct weir_span as_span; /* NAME of `as NAME`; length 0: none */
    struct weir_words words;  /* behind the verb, without clauses and `as` */
    struct weir_words clauses[WEIR_CLAUSE_COUNT];       /* handoff */
    struct weir_span clause_spans[WEIR_CLAUSE_COUNT];   /* the clause's first word; length 0: not given */
    bool broken;              /* a syntax error was reported in it */
    bool foreign;             /* `stage … at`, `queue …`: a line of a bound pipeline, no verb */
    struct weir_tree_unbuilt unbuilt;

    enum weir_transport transport;
    struct weir_span address_span;
    struct weir_span pool_span;   /* listen … on, handoff */
    struct weir_span target_span; /* tee, then */
    enum weir_framing framing;
    enum weir_codec_kind codec;
    struct weir_tree_number max, limit, items, ttl, cpu, pause, within, connections, in_flight;
    bool create, retry_on_loss;   /* store */
    enum weir_sized sized;
    struct weir_span sized_span;
    enum weir_full full;
    struct weir_span text_span;   /* a STRING token */
    struct weir_span tls_span;    /* listen: `tls …`; length 0: in the clear */
    struct weir_span cert_span, key_span, client_ca_span; /* STRING tokens */
    struct weir_span allow_span;  /* listen: `allow …` */
    struct weir_word *allow;      /* its networks */
    struct weir_span symbol_span;
};

/* METRIC "(" ref ")" [ statistic ] comparison value */
struct weir_tree_term {
    struct weir_tree_term *next;
    struct weir_span span, metric_span;
    enum weir_metric metric;
    bool or_before;        /* begins a new group */
    bool is_pool;          /* ref = "pool" NAME */
    struct weir_span ref_span;
    struct weir_span names[3]; /* pool; or pipeline, stage, part */
    uint32_t name_count;
    enum weir_statistic statistic;
    struct weir_span statistic_span; /* length 0: the mean, by default */
    enum weir_comparison comparison;
    struct weir_span value_span;
    double value;
    enum weir_value_unit unit;
};

struct weir_tree_expectation {
    struct weir_tree_expectation *next;
    struct weir_span span;
    struct weir_tree_term *terms;
    uint32_t term_count;
    bool broken;
};

enum weir_tree_kind { WEIR_TREE_POOL, WEIR_TREE_PIPELINE, WEIR_TREE_EXPECT, WEIR_TREE_PROCESS };

/* One statement outside of braces. */
struct weir_tree_entry {
    struct weir_tree_entry *next;
    enum weir_tree_kind kind;
    struct weir_span span;      /* of a block: its opening line */
    struct weir_span end_span;  /* of a block: its closing brace; length 0: there is none */
    struct weir_span name_span; /* pool, pipeline; length 0 when broken too early */
    struct weir_words words;    /* pool: behind the name; process: behind the keyword */
    bool broken;
    struct weir_tree_unbuilt unbuilt;
    struct weir_tree_number threads;
    struct weir_tree_stage *stages;
    struct weir_tree_expectation *expectations;
    uint32_t stage_count, expectation_count;
};

struct weir_tree {
    struct weir_tree_entry *first;
    struct weir_comment *comments;
    uint32_t pool_count, pipeline_count, stage_count, expectation_count;
    bool no_text;    /* NULs, or not UTF-8: nothing was parsed */
    bool broken;     /* there is a syntax error somewhere */
    bool names_lost; /* one of them may have hidden a pool's or a pipeline's name */
};

const char *weir_metric_name(enum weir_metric metric);         /* "cpu" */
const char *weir_statistic_name(enum weir_statistic statistic); /* "p99" */
const char *weir_comparison_name(enum weir_comparison comparison); /* "<=" */

#endif
