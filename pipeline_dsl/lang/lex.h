/*
 * lex: source -> tokens, one at a time.
 * It stands between source and parse.
 *
 * Units: spans are bytes of the source.
 * Owns: nothing; comments are kept in the arena given, for the printer.
 * Threads: owner only.
 * Errors: a token that is none is WEIR_TOKEN_BAD; its diagnostic is in the bag already, unless the lexer is quiet.
 */
#ifndef WEIR_LANG_LEX_H
#define WEIR_LANG_LEX_H

#include "pipeline_dsl/lang/diag.h"

enum weir_token_kind {
    WEIR_TOKEN_END,
    WEIR_TOKEN_NEWLINE,
    WEIR_TOKEN_WORD,   /* letters, digits, underscores; not a digit first */
    WEIR_TOKEN_NUMBER, /* digits [ "." digits ] and a unit behind it: 64MiB, 1.5ms, 5%, 10/s */
    WEIR_TOKEN_STRING, /* with its quotes */
    WEIR_TOKEN_RAW,    /* a run without blanks: an address */
    WEIR_TOKEN_MARK,   /* { } ( ) , . < <= > >= */
    WEIR_TOKEN_BAD,
};

struct weir_token {
    enum weir_token_kind kind;
    struct weir_span span;
};

struct weir_comment {
    struct weir_span span; /* from the # on, without blanks at the end */
    struct weir_comment *next;
};

struct weir_lexer {
    const struct weir_source *source;
    struct weir_diag_bag *bag;
    struct weir_arena *arena;
    size_t offset;
    struct weir_comment *comments, **comments_end; /* in file order */
    bool quiet; /* skipping over something that was complained about */
};

void weir_lexer_init(struct weir_lexer *lexer, struct weir_diag_bag *bag, struct weir_arena *arena);
struct weir_token weir_lexer_next(struct weir_lexer *lexer);
/* The next run without blanks, whatever is in it. NEWLINE or END when the line has no more. */
struct weir_token weir_lexer_raw(struct weir_lexer *lexer);

/* Is the whole source UTF-8 without NULs? Else says so in the bag. */
bool weir_lexer_check_text(struct weir_diag_bag *bag);

/* What a STRING token means: quotes and escapes taken off, in the arena given; null without memory. */
char *weir_lexer_string(const struct weir_source *source, struct weir_span span, struct weir_arena *arena);

#endif
