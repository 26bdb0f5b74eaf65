#include "pipeline_dsl/lang/parser.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "pipeline_dsl/lang/names.h"

/* --- tokens ----------------------------------------------------------------------------------------------------------- */

struct weir_span weir_span_join(struct weir_span first, struct weir_span last)
{
    size_t end = last.offset + last.length;
    return (struct weir_span){ first.offset, end > first.offset ? end - first.offset : first.length };
}

void *weir_parser_alloc(struct weir_parser *parser, size_t size)
{
    void *piece = weir_arena_zalloc(&parser->bag->arena, size);
    if (!piece)
        parser->bag->failed = true;
    return piece;
}

void weir_parser_skip(struct weir_parser *parser)
{
    parser->last = parser->token.span;
    parser->token = weir_lexer_next(&parser->lexer);
}

static void keep_word(struct weir_parser *parser)
{
    if (!parser->words)
        return;
    struct weir_word *word = weir_parser_alloc(parser, sizeof *word);
    if (!word)
        return;
    word->span = parser->token.span;
    if (!parser->words->end)
        parser->words->end = &parser->words->first;
    *parser->words->end = word;
    parser->words->end = &word->next;
}

void weir_parser_take(struct weir_parser *parser)
{
    keep_word(parser);
    weir_parser_skip(parser);
}

void weir_parser_take_then_raw(struct weir_parser *parser)
{
    keep_word(parser);
    parser->last = parser->token.span;
    parser->token = weir_lexer_raw(&parser->lexer);
}

const char *weir_parser_text(const struct weir_parser *parser, struct weir_span span)
{
    return parser->bag->source.text + span.offset;
}

bool weir_parser_at(const struct weir_parser *parser, const char *word)
{
    const struct weir_token *token = &parser->token;
    if (token->kind != WEIR_TOKEN_WORD && token->kind != WEIR_TOKEN_MARK)
        return false;
    size_t length = strlen(word);
    return token->span.length == length && memcmp(weir_parser_text(parser, token->span), word, length) == 0;
}

bool weir_parser_at_end_of_line(const struct weir_parser *parser)
{
    return parser->token.kind == WEIR_TOKEN_NEWLINE || parser->token.kind == WEIR_TOKEN_END;
}

char weir_parser_skip_line(struct weir_parser *parser)
{
    char last = '\0';
    parser->lexer.quiet = true;
    while (!weir_parser_at_end_of_line(parser)) {
        last = parser->token.kind == WEIR_TOKEN_MARK ? *weir_parser_text(parser, parser->token.span) : '\0';
        weir_parser_skip(parser);
    }
    parser->lexer.quiet = false;
    return last;
}

/* --- complaints --------------------------------------------------------------------------------------------------------- */

struct weir_diag *weir_parser_unexpected(struct weir_parser *parser, const char *what)
{
    struct weir_span span = parser->token.span;
    switch (parser->token.kind) {
    case WEIR_TOKEN_BAD: return NULL;
    case WEIR_TOKEN_NEWLINE:
    case WEIR_TOKEN_END:
        /* Point behind the last word, where it is missing, not at an end that may be a comment further on. */
        span = (struct weir_span){ parser->last.offset + parser->last.length, 0 };
        return weir_diag_add(parser->bag, WEIR_E010_UNEXPECTED, span, "expected %s, found the end of the %s", what,
                             parser->token.kind == WEIR_TOKEN_END ? "file" : "line");
    default: {
        int shown = (int)weir_utf8_cut(weir_parser_text(parser, span), span.length, 40);
        const char *quote = parser->token.kind == WEIR_TOKEN_STRING ? "" : "'";
        struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E010_UNEXPECTED, span, "expected %s, found %s%.*s%s%s", what,
                                               quote, shown, weir_parser_text(parser, span), span.length > 40 ? "…" : "", quote);
        if (weir_parser_at(parser, ","))
            weir_diag_hint(parser->bag, diag, "words are separated by blanks alone; remove it");
        return diag;
    }
    }
}

bool weir_parser_accept(struct weir_parser *parser, const char *word)
{
    if (!weir_parser_at(parser, word))
        return false;
    weir_parser_take(parser);
    return true;
}

bool weir_parser_expect(struct weir_parser *parser, const char *word)
{
    if (weir_parser_accept(parser, word))
        return true;
    char what[64] = "`";
    strcat(strncat(what, word, sizeof what - 3), "`");
    weir_parser_unexpected(parser, what);
    return false;
}

int weir_parser_which(struct weir_parser *parser, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (weir_parser_at(parser, words[i]))
            return i;
    struct weir_nearest nearest = weir_nearest(weir_parser_text(parser, parser->token.span), parser->token.span.length);
    char what[256] = "";
    size_t used = 0;
    for (int i = 0; words[i] && used < sizeof what - 80; i++) {
        const char *between = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        used += (size_t)snprintf(what + used, sizeof what - used, "%s`%s`", between, words[i]);
        weir_nearest_offer(&nearest, words[i], strlen(words[i]));
    }
    struct weir_diag *diag = weir_parser_unexpected(parser, what);
    if (nearest.best && !weir_parser_at_end_of_line(parser))
        weir_diag_hint(parser->bag, diag, "did you mean `%s`?", nearest.best);
    return -1;
}

int weir_parser_choose(struct weir_parser *parser, const char *const *words)
{
    int which = weir_parser_which(parser, words);
    if (which >= 0)
        weir_parser_take(parser);
    return which;
}

/* NAME = [A-Za-z][A-Za-z0-9_]*, at most 63 bytes, without "__". */
bool weir_parser_name(struct weir_parser *parser, const char *what, struct weir_span *name)
{
    struct weir_token token = parser->token;
    if (token.kind != WEIR_TOKEN_WORD && token.kind != WEIR_TOKEN_NUMBER && token.kind != WEIR_TOKEN_STRING) {
        weir_parser_unexpected(parser, what);
        return false;
    }
    const char *text = weir_parser_text(parser, token.span);
    size_t length = token.span.length;
    const char *twice = memmem(text, length, "__", 2);
    if (token.kind == WEIR_TOKEN_STRING)
        weir_diag_hint(parser->bag, weir_diag_add(parser->bag, WEIR_E014_BAD_NAME, token.span, "%s stands without quotes", what),
                       "write %.*s", length > 2 ? (int)length - 2 : 0, text + 1);
    else if (token.kind == WEIR_TOKEN_NUMBER || text[0] == '_')
        weir_diag_hint(
            parser->bag,
            weir_diag_add(parser->bag, WEIR_E014_BAD_NAME, token.span, "%s begins with a letter, not with '%c'", what, text[0]),
            "put a letter in front of it");
    else if (length > WEIR_NAME_MAX)
        weir_diag_add(parser->bag, WEIR_E014_BAD_NAME, token.span, "%s has at most %d bytes, this one has %zu", what,
                      WEIR_NAME_MAX, length);
    else if (twice)
        weir_diag_hint(
            parser->bag,
            weir_diag_add(parser->bag, WEIR_E014_BAD_NAME, (struct weir_span){ token.span.offset + (size_t)(twice - text), 2 },
                          "%s has no double underscore: that separates pipeline and stage in the server's symbols", what),
            "write a single one");
    else {
        *name = token.span;
        weir_parser_take(parser);
        return true;
    }
    return false;
}

bool weir_parser_string(struct weir_parser *parser, const char *what, struct weir_span *string)
{
    if (parser->token.kind != WEIR_TOKEN_STRING) {
        struct weir_diag *diag = weir_parser_unexpected(parser, what);
        if (parser->token.kind == WEIR_TOKEN_WORD)
            weir_diag_hint(parser->bag, diag, "put it in quotes");
        return false;
    }
    *string = parser->token.span;
    weir_parser_take(parser);
    return true;
}

bool weir_parser_end_of_line(struct weir_parser *parser)
{
    if (weir_parser_at_end_of_line(parser))
        return true;
    struct weir_diag *diag = weir_parser_unexpected(parser, "the end of the line");
    if (weir_parser_at(parser, "}"))
        weir_diag_hint(parser->bag, diag, "put the `}` on a line of its own");
    return false;
}
