/* The outermost rules: the file, its pools, and the blocks with their lines. */
#include "pipeline_dsl/lang/parse.h"

#include <string.h>

#include "base/utf8.h"
#include "pipeline_dsl/lang/names.h"
#include "pipeline_dsl/lang/parser.h"

/* Returns whether the line ended in a closing brace that should have had a line of its own. */
static bool next_line(struct weir_parser *parser)
{
    bool closes = weir_parser_skip_line(parser) == '}';
    if (parser->token.kind == WEIR_TOKEN_NEWLINE)
        weir_parser_skip(parser);
    return closes;
}

static void skip_empty_lines(struct weir_parser *parser)
{
    while (parser->token.kind == WEIR_TOKEN_NEWLINE)
        weir_parser_skip(parser);
}

/* pool = "pool" NAME ( "threads" INT | "matches" STR { "," STR } ) NL ; */
static bool parse_pool(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    static const char *const kinds[] = { "threads", "matches", NULL };
    parser->words = NULL;
    if (!weir_parser_name(parser, "a pool's name", &entry->name_span))
        return false;
    parser->words = &entry->words;
    struct weir_span kind = parser->token.span;
    int which = weir_parser_choose(parser, kinds);
    if (which == 0)
        return weir_parser_int(parser, "the number of threads", 1, 1024, &entry->threads) && weir_parser_end_of_line(parser);
    if (which < 0)
        return false;
    struct weir_span string;
    do {
        if (!weir_parser_string(parser, "a thread's name in quotes", &string))
            return false;
    } while (weir_parser_accept(parser, ","));
    entry->unbuilt = (struct weir_tree_unbuilt){ weir_span_join(kind, string), "a pool of a running process (`matches`)" };
    return weir_parser_end_of_line(parser);
}

/* process = "process" STR NL ; */
static bool parse_process(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    struct weir_span string;
    parser->words = &entry->words;
    if (!weir_parser_string(parser, "the name of a process in quotes", &string))
        return false;
    entry->unbuilt = (struct weir_tree_unbuilt){ weir_span_join(entry->span, string), "`process` (binding to a running server)" };
    return weir_parser_end_of_line(parser);
}

static const char *block_name(const struct weir_tree_entry *entry)
{
    return entry->kind == WEIR_TREE_PIPELINE ? "pipeline" : "expect block";
}

/* `pipeline NAME {` inside of a block: its `}` was forgotten. A stage can't begin like that. */
static bool at_new_block(const struct weir_parser *parser)
{
    struct weir_lexer ahead = parser->lexer;
    ahead.quiet = true;
    ahead.comments_end = &ahead.comments;
    if (weir_parser_at(parser, "expect"))
        return weir_lexer_next(&ahead).kind == WEIR_TOKEN_MARK;
    if (weir_parser_at(parser, "pool"))
        return weir_lexer_next(&ahead).kind == WEIR_TOKEN_WORD;
    return weir_parser_at(parser, "pipeline");
}

/* Between the lines of a block. Returns whether another line of it follows. */
static bool block_goes_on(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    skip_empty_lines(parser);
    if (weir_parser_at(parser, "}")) {
        entry->end_span = parser->token.span;
        weir_parser_skip(parser);
        if (!weir_parser_end_of_line(parser))
            parser->tree->broken = true;
        return false;
    }
    if (parser->token.kind != WEIR_TOKEN_END && !at_new_block(parser))
        return true;
    entry->broken = true;
    parser->tree->broken = true;
    if (!parser->braces_reported) {
        parser->braces_reported = true;
        struct weir_diag *diag;
        if (parser->token.kind == WEIR_TOKEN_END)
            diag = weir_diag_add(parser->bag, WEIR_E019_BRACES, entry->span, "this %s is not closed before the end of the file",
                                 block_name(entry));
        else {
            diag =
                weir_diag_add(parser->bag, WEIR_E019_BRACES, parser->token.span, "the %s above is not closed", block_name(entry));
            weir_diag_relate(parser->bag, diag, entry->span, "it is opened here");
        }
        weir_diag_hint(parser->bag, diag, "add a line `}`");
    }
    return false;
}

/* Behind the last word of an opening line: "{" NL. */
static bool open_block(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    parser->words = NULL;
    struct weir_span brace = parser->token.span;
    if (!weir_parser_at(parser, "{")) {
        weir_diag_hint(parser->bag, weir_parser_unexpected(parser, "`{`"),
                       "the brace stands on the same line, and its `}` on a line of its own");
        return false;
    }
    weir_parser_skip(parser);
    entry->span = weir_span_join(entry->span, brace);
    if (weir_parser_at_end_of_line(parser))
        return true;
    struct weir_diag *diag = weir_parser_unexpected(parser, "the end of the line behind `{`");
    weir_diag_hint(parser->bag, diag, "each stage stands on a line of its own");
    return false;
}

/* { [ stage [ "as" NAME ] ] NL } "}" NL ; */
static void parse_stages(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    struct weir_tree_stage **end = &entry->stages;
    while (block_goes_on(parser, entry)) {
        struct weir_tree_stage *stage = weir_parser_stage(parser);
        if (!stage)
            return;
        if (stage->broken)
            parser->tree->broken = true;
        *end = stage;
        end = &stage->next;
        entry->stage_count++;
        if (next_line(parser)) {
            entry->end_span = stage->span;
            return;
        }
    }
}

/* { [ or ] NL } "}" NL ; */
static void parse_expectations(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    struct weir_tree_expectation **end = &entry->expectations;
    while (block_goes_on(parser, entry)) {
        struct weir_tree_expectation *expectation = weir_parser_expectation(parser);
        if (!expectation)
            return;
        if (expectation->broken)
            parser->tree->broken = true;
        *end = expectation;
        end = &expectation->next;
        entry->expectation_count++;
        if (next_line(parser)) {
            entry->end_span = expectation->span;
            return;
        }
    }
}

/* pipe = "pipeline" NAME "{" NL { [ stage [ "as" NAME ] ] NL } "}" NL ;
 * expect = "expect" "{" NL { [ or ] NL } "}" NL ; */
static void parse_block(struct weir_parser *parser, struct weir_tree_entry *entry)
{
    parser->words = NULL;
    bool good = true;
    if (entry->kind == WEIR_TREE_PIPELINE) {
        good = weir_parser_name(parser, "a pipeline's name", &entry->name_span);
        entry->span = weir_span_join(entry->span, parser->last);
    }
    good = good && open_block(parser, entry);
    if (!good) {
        entry->broken = true;
        parser->tree->broken = true;
        /* Without its brace the block's lines would each be an error of their own. */
        if (weir_parser_skip_line(parser) != '{')
            parser->braces_reported = true;
    }
    if (entry->kind == WEIR_TREE_PIPELINE)
        parse_stages(parser, entry);
    else
        parse_expectations(parser, entry);
    parser->tree->stage_count += entry->stage_count;
    parser->tree->expectation_count += entry->expectation_count;
}

/* A line outside of braces that begins like none. */
static void complain_about_line(struct weir_parser *parser)
{
    if (parser->braces_reported || parser->token.kind == WEIR_TOKEN_BAD)
        return;
    struct weir_span span = parser->token.span;
    if (weir_parser_at(parser, "}")) {
        parser->braces_reported = true;
        weir_diag_hint(parser->bag, weir_diag_add(parser->bag, WEIR_E019_BRACES, span, "this `}` closes nothing"), "remove it");
        return;
    }
    struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E011_UNKNOWN_WORD, span,
                                           "a line begins with `pool`, `pipeline` or `expect` here, not with '%.*s%s'",
                                           (int)weir_utf8_cut(weir_parser_text(parser, span), span.length, 40),
                                           weir_parser_text(parser, span), span.length > 40 ? "…" : "");
    for (unsigned verb = 0; verb < WEIR_VERB_COUNT; verb++)
        if (weir_parser_at(parser, weir_verb_name(verb))) {
            weir_diag_hint(parser->bag, diag, "a stage stands between the braces of a `pipeline NAME { … }`");
            /* The other stages of the same forgotten pipeline are the same error. */
            parser->braces_reported = true;
        }
}

static const char *const openers[] = { "pool", "pipeline", "expect", "process" };

/* Goes the line on as statement `which` would, behind its misspelt first word? */
static bool goes_on_like(const struct weir_parser *parser, int which)
{
    struct weir_lexer ahead = parser->lexer;
    ahead.quiet = true;
    ahead.comments_end = &ahead.comments;
    struct weir_token next = weir_lexer_next(&ahead);
    if (which == 2)
        return next.kind == WEIR_TOKEN_MARK;
    if (which == 3)
        return next.kind == WEIR_TOKEN_STRING;
    return next.kind == WEIR_TOKEN_WORD && weir_lexer_next(&ahead).kind == (which == 0 ? WEIR_TOKEN_WORD : WEIR_TOKEN_MARK);
}

/* Which statement the line begins; a near miss is taken for what it nearly is, after complaining. -1 for none. */
static int which_statement(struct weir_parser *parser)
{
    for (int i = 0; i < 4; i++)
        if (weir_parser_at(parser, openers[i]))
            return i;
    parser->tree->broken = true;
    struct weir_nearest nearest = weir_nearest(weir_parser_text(parser, parser->token.span), parser->token.span.length);
    if (parser->token.kind == WEIR_TOKEN_WORD && !parser->braces_reported)
        for (int i = 0; i < 4; i++)
            weir_nearest_offer(&nearest, openers[i], strlen(openers[i]));
    for (int i = 0; i < 4; i++)
        if (nearest.best == openers[i] && goes_on_like(parser, i)) {
            struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E011_UNKNOWN_WORD, parser->token.span,
                                                   "no line begins with '%.*s'", (int)nearest.length, nearest.wanted);
            weir_diag_hint(parser->bag, diag, "did you mean `%s`?", openers[i]);
            return i;
        }
    complain_about_line(parser);
    return -1;
}

/* An unknown block: its lines are skipped with it. */
static void skip_unknown(struct weir_parser *parser)
{
    bool opens = weir_parser_skip_line(parser) == '{';
    while (opens && parser->token.kind != WEIR_TOKEN_END) {
        next_line(parser);
        if (weir_parser_at(parser, "}"))
            opens = false;
        else if (at_new_block(parser))
            return;
    }
    next_line(parser);
}

static void parse_statement(struct weir_parser *parser, struct weir_tree_entry ***end)
{
    static const enum weir_tree_kind kinds[] = { WEIR_TREE_POOL, WEIR_TREE_PIPELINE, WEIR_TREE_EXPECT, WEIR_TREE_PROCESS };
    int which = which_statement(parser);
    struct weir_tree_entry *entry = which < 0 ? NULL : weir_parser_alloc(parser, sizeof *entry);
    if (!entry) {
        if (!weir_parser_at(parser, "}"))
            parser->tree->names_lost = true;
        skip_unknown(parser);
        return;
    }
    entry->kind = kinds[which];
    entry->span = parser->token.span;
    weir_parser_skip(parser);
    if (entry->kind == WEIR_TREE_PIPELINE || entry->kind == WEIR_TREE_EXPECT)
        parse_block(parser, entry);
    else if (entry->kind == WEIR_TREE_POOL)
        entry->broken = !parse_pool(parser, entry);
    else
        entry->broken = !parse_process(parser, entry);
    if (entry->kind == WEIR_TREE_POOL || entry->kind == WEIR_TREE_PROCESS)
        entry->span = weir_span_join(entry->span, parser->last);
    if (entry->broken)
        parser->tree->broken = true;
    if (entry->broken && entry->name_span.length == 0)
        parser->tree->names_lost = true;
    parser->tree->pool_count += entry->kind == WEIR_TREE_POOL;
    parser->tree->pipeline_count += entry->kind == WEIR_TREE_PIPELINE;
    **end = entry;
    *end = &entry->next;
    /* A block whose end is missing has stopped at the line that opens the next one. */
    bool is_block = entry->kind == WEIR_TREE_PIPELINE || entry->kind == WEIR_TREE_EXPECT;
    if (!is_block)
        skip_unknown(parser);
    else if (entry->end_span.length && !weir_parser_at_end_of_line(parser))
        next_line(parser);
}

static void parser_init(struct weir_parser *parser, struct weir_tree *tree, struct weir_diag_bag *bag)
{
    memset(tree, 0, sizeof *tree);
    *parser = (struct weir_parser){ .bag = bag, .tree = tree };
    weir_lexer_init(&parser->lexer, bag, &bag->arena);
}

/* file = { NL | pool | pipe | expect | process } ; */
int weir_parse(struct weir_tree *tree, struct weir_diag_bag *bag)
{
    struct weir_parser parser;
    parser_init(&parser, tree, bag);
    if (!weir_lexer_check_text(bag)) {
        tree->no_text = tree->broken = true;
        return 0;
    }
    weir_parser_skip(&parser);
    struct weir_tree_entry **end = &tree->first;
    for (skip_empty_lines(&parser); parser.token.kind != WEIR_TOKEN_END && !bag->failed; skip_empty_lines(&parser))
        parse_statement(&parser, &end);
    tree->comments = parser.lexer.comments;
    return bag->failed ? -ENOMEM : 0;
}

int weir_parse_expectation(struct weir_tree *tree, struct weir_diag_bag *bag)
{
    struct weir_parser parser;
    parser_init(&parser, tree, bag);
    struct weir_tree_entry *entry = weir_parser_alloc(&parser, sizeof *entry);
    if (!weir_lexer_check_text(bag) || !entry) {
        tree->broken = true;
        return entry ? 0 : -ENOMEM;
    }
    weir_parser_skip(&parser);
    entry->kind = WEIR_TREE_EXPECT;
    entry->expectations = weir_parser_expectation(&parser);
    entry->expectation_count = tree->expectation_count = 1;
    tree->first = entry;
    tree->broken = !entry->expectations || entry->expectations->broken;
    skip_empty_lines(&parser);
    if (!tree->broken && parser.token.kind != WEIR_TOKEN_END) {
        weir_diag_hint(bag, weir_parser_unexpected(&parser, "the end"), "join two expectations with `and`");
        tree->broken = true;
    }
    return bag->failed ? -ENOMEM : 0;
}
