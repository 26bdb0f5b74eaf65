/*
 * token: query text -> tokens, one at a time.
 * It stands in front of parse.
 *
 * Units: bytes of the text.
 * Owns: nothing; what a string or a name means lies in the arena given.
 * Threads: owner only.
 * Errors: -EINVAL with a sentence and its place, -ENOMEM.
 */
#ifndef WEIR_QUERY_TOKEN_H
#define WEIR_QUERY_TOKEN_H

#include "base/arena.h"
#include "pipeline_dsl/query/query.h"

enum weir_query_token_kind {
    WEIR_QUERY_TOKEN_END, WEIR_QUERY_TOKEN_OPEN, WEIR_QUERY_TOKEN_CLOSE,
    WEIR_QUERY_TOKEN_NAME,
    WEIR_QUERY_TOKEN_VALUE, /* a number, a string, true, false, nil, null */
    WEIR_QUERY_TOKEN_NOT, WEIR_QUERY_TOKEN_AND, WEIR_QUERY_TOKEN_OR, WEIR_QUERY_TOKEN_TAGGED,
    WEIR_QUERY_TOKEN_EQUAL, WEIR_QUERY_TOKEN_NOT_EQUAL, WEIR_QUERY_TOKEN_LESS, WEIR_QUERY_TOKEN_LESS_EQUAL,
    WEIR_QUERY_TOKEN_GREATER, WEIR_QUERY_TOKEN_GREATER_EQUAL, WEIR_QUERY_TOKEN_LIKE, WEIR_QUERY_TOKEN_REGEX,
};

struct weir_query_token {
    enum weir_query_token_kind kind;
    size_t offset, length;         /* length 0: the end */
    struct weir_query_value value; /* of VALUE; of NAME: the name, as text */
};

struct weir_query_lexer {
    const uint8_t *text;
    size_t size, at;
    struct weir_arena *arena;
    struct weir_query_place *place; /* may be null */
    struct weir_error *error;
};

int weir_query_token_next(struct weir_query_lexer *lexer, struct weir_query_token *token);

/* Complains about `length` bytes at `offset`: sets the place and the sentence, and returns -EINVAL. */
int weir_query_fail(const struct weir_query_lexer *lexer, size_t offset, size_t length, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Words of the text as they may stand in a sentence: cut where they are long, without control bytes or broken UTF-8. */
struct weir_query_quote {
    char text[64];
};
struct weir_query_quote weir_query_quote(const void *data, size_t size);

#endif
