/*
 * pattern: the two operators that look into a text, `=~` and `~=`.
 * It stands behind parse, which compiles regular expressions, and match, which asks.
 *
 * Units: bytes.
 * Owns: a compiled expression lies in the arena given; a scratch owns PCRE2's working memory.
 * Threads: any; a scratch belongs to one.
 * Errors: -EINVAL, -ENOMEM; -E2BIG when an expression takes too many steps.
 */
#ifndef WEIR_QUERY_PATTERN_H
#define WEIR_QUERY_PATTERN_H

#include "pipeline_dsl/query/token.h"

struct weir_query_regex;

/* Riemann's `=~`: the whole text, in which each `%` stands for any run without a newline. Linear in the text. */
bool weir_query_like(struct weir_bytes pattern, struct weir_bytes text);

/* Compiles the expression that `token` is; complains at the token. */
int weir_query_regex_compile(const struct weir_query_regex **regex, const struct weir_query_lexer *lexer,
                             const struct weir_query_token *token);

/* Does the expression match anywhere in the text? 1, 0 or -errno. */
int weir_query_regex_search(const struct weir_query_regex *regex, struct weir_query_scratch *scratch, struct weir_bytes text,
                            struct weir_error *error);

#endif
