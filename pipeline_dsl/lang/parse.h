/*
 * parse: tokens -> tree, by recursive descent; the grammar rule stands above the function that parses it.
 * It stands between lex and check. Nothing in the grammar nests without bound, so neither do the calls.
 *
 * Units: none.
 * Owns: nothing; the tree lies in the bag's arena.
 * Threads: owner only.
 * Errors: in the bag, at most one a line; tree->broken says that there are some. -ENOMEM.
 */
#ifndef WEIR_LANG_PARSE_H
#define WEIR_LANG_PARSE_H

#include "pipeline_dsl/lang/tree.h"

/* Parses the bag's source. */
int weir_parse(struct weir_tree *tree, struct weir_diag_bag *bag);
/* Parses one line of an expect block as a whole source: what `weir check --expect` is given. */
int weir_parse_expectation(struct weir_tree *tree, struct weir_diag_bag *bag);

#endif
