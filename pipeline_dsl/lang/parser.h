/*
 * parser: what the functions of the parser share: the current token, where its words go, and how to complain.
 * Only the files parse*.c include it; parse.h is what the others see.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: owner only.
 * Errors: functions that return bool have reported when they return false; the caller skips the rest of the line.
 */
#ifndef WEIR_LANG_PARSER_H
#define WEIR_LANG_PARSER_H

#include "pipeline_dsl/lang/tree.h"

struct weir_parser {
    struct weir_lexer lexer;
    struct weir_token token; /* the current one */
    struct weir_span last;   /* the one before */
    struct weir_diag_bag *bag;
    struct weir_tree *tree;
    struct weir_words *words; /* where taken tokens go; null: nowhere */
    bool braces_reported;     /* later braces that don't fit are an echo */
};

void *weir_parser_alloc(struct weir_parser *parser, size_t size);

/* Moves on, with the current token kept as a word of the statement. */
void weir_parser_take(struct weir_parser *parser);
/* The same, reading an address next. */
void weir_parser_take_then_raw(struct weir_parser *parser);
/* Moves on without keeping it. */
void weir_parser_skip(struct weir_parser *parser);
/* Skips what is left of the line, quietly. Returns its last mark when nothing stands behind that, such as a brace; else NUL. */
char weir_parser_skip_line(struct weir_parser *parser);

const char *weir_parser_text(const struct weir_parser *parser, struct weir_span span);
bool weir_parser_at(const struct weir_parser *parser, const char *word); /* a WORD or MARK of this text */
bool weir_parser_at_end_of_line(const struct weir_parser *parser);

/* E010 "expected WHAT, found …" at the current token, unless the lexer has complained about it. Returns the diagnostic. */
struct weir_diag *weir_parser_unexpected(struct weir_parser *parser, const char *what);
/* Takes the WORD or MARK, or complains. */
bool weir_parser_expect(struct weir_parser *parser, const char *word);
bool weir_parser_accept(struct weir_parser *parser, const char *word);
/* Takes one of `words` (null at the end) and returns its index; -1 after complaining, with the nearest of them. */
int weir_parser_choose(struct weir_parser *parser, const char *const *words);
/* The same, without taking it. */
int weir_parser_which(struct weir_parser *parser, const char *const *words);
/* NAME, checked; `what` is "a pool's name". */
bool weir_parser_name(struct weir_parser *parser, const char *what, struct weir_span *name);
/* A STRING token. */
bool weir_parser_string(struct weir_parser *parser, const char *what, struct weir_span *string);
/* Complains unless the line ends here. */
bool weir_parser_end_of_line(struct weir_parser *parser);

/* parse_value.c: numbers. `what` is "the number of threads". */
bool weir_parser_int(struct weir_parser *parser, const char *what, uint64_t least, uint64_t most, struct weir_tree_number *number);
bool weir_parser_size(struct weir_parser *parser, const char *what, struct weir_tree_number *number);
bool weir_parser_duration(struct weir_parser *parser, const char *what, struct weir_tree_number *number);
bool weir_parser_value(struct weir_parser *parser, struct weir_tree_term *term);

/* parse_stage.c: one line of a pipeline, up to the end of the line. Null without memory. */
struct weir_tree_stage *weir_parser_stage(struct weir_parser *parser);
/* parse_expect.c: one line of an expect block, or of `--expect`. */
struct weir_tree_expectation *weir_parser_expectation(struct weir_parser *parser);

/* The span from the first byte of `first` to the last of `last`. */
struct weir_span weir_span_join(struct weir_span first, struct weir_span last);

#endif
