/*
 * tree: what a parsed query is: comparisons, tied by `and` and `or`.
 * It stands between parse, which makes it, and match, which walks it.
 *
 * Units: bytes.
 * Owns: everything lies in the query's arena, compiled regular expressions too.
 * Threads: any, once it is parsed.
 * Errors: none.
 */
#ifndef WEIR_QUERY_TREE_H
#define WEIR_QUERY_TREE_H

#include "base/arena.h"
#include "pipeline_dsl/query/query.h"

enum weir_query_node_kind {
    WEIR_QUERY_AND, WEIR_QUERY_OR, /* of the children; a run of the same word is one node, so that its length is no depth */
    WEIR_QUERY_TRUTH,              /* left alone */
    WEIR_QUERY_TAGGED,             /* right is the tag */
    WEIR_QUERY_EQUAL, WEIR_QUERY_LESS, WEIR_QUERY_LESS_EQUAL, WEIR_QUERY_GREATER, WEIR_QUERY_GREATER_EQUAL,
    WEIR_QUERY_LIKE, WEIR_QUERY_REGEX,
};

struct weir_query_operand {
    bool is_field;
    enum weir_query_field field;
    struct weir_bytes name;        /* of an ATTRIBUTE */
    struct weir_query_value value; /* of what is no field */
};

struct weir_query_regex;

struct weir_query_node {
    enum weir_query_node_kind kind;
    bool negated;
    struct weir_query_node *first, *next; /* child, sibling */
    struct weir_query_operand left, right;
    const struct weir_query_regex *regex; /* of REGEX */
};

struct weir_query {
    struct weir_arena arena;
    struct weir_query_node *root;
};

#endif
