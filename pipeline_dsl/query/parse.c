/*
 * DESIGN: recursive descent, one function for each level of precedence. A run of `and`, of `or` and of `not` is a loop, so that only
 * parentheses nest, and those are counted: neither parsing nor matching needs more stack than WEIR_QUERY_DEPTH_MOST levels.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline_dsl/query/pattern.h"
#include "pipeline_dsl/query/tree.h"

struct parser {
    struct weir_query_lexer lexer;
    struct weir_query_token token; /* the one that is looked at */
    unsigned depth, terms;
    bool after_operand; /* the last thing was an operand alone, behind which an operator could come */
};

static int advance(struct parser *parser)
{
    return weir_query_token_next(&parser->lexer, &parser->token);
}

static struct weir_query_quote words(const struct parser *parser)
{
    return weir_query_quote(parser->lexer.text + parser->token.offset, parser->token.length);
}

static int unexpected(const struct parser *parser, const char *expected)
{
    static const char *const keywords[] = { "and", "or", "not", "tagged" };
    const struct weir_query_token *token = &parser->token;
    if (token->kind == WEIR_QUERY_TOKEN_END)
        return weir_query_fail(&parser->lexer, token->offset, 0, "the query ends where %s was expected", expected);
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords && token->kind == WEIR_QUERY_TOKEN_NAME; i++)
        if (strcasecmp((const char *)token->value.text.data, keywords[i]) == 0)
            return weir_query_fail(&parser->lexer, token->offset, token->length, "`%s` is written `%s`, in lower case", words(parser).text,
                                   keywords[i]);
    return weir_query_fail(&parser->lexer, token->offset, token->length, "`%s` stands where %s was expected", words(parser).text, expected);
}

static struct weir_query_node *new_node(struct parser *parser, enum weir_query_node_kind kind)
{
    struct weir_query_node *node = weir_arena_zalloc(parser->lexer.arena, sizeof *node);
    if (node)
        node->kind = kind;
    return node;
}

/* --- terms --------------------------------------------------------------------------------------------------------------- */

static bool at_operand(const struct parser *parser)
{
    return parser->token.kind == WEIR_QUERY_TOKEN_VALUE || parser->token.kind == WEIR_QUERY_TOKEN_NAME;
}

static bool at_string(const struct parser *parser)
{
    return parser->token.kind == WEIR_QUERY_TOKEN_VALUE && parser->token.value.kind == WEIR_QUERY_TEXT;
}

static bool at_number(const struct parser *parser)
{
    enum weir_query_kind kind = parser->token.value.kind;
    return parser->token.kind == WEIR_QUERY_TOKEN_VALUE &&
           (kind == WEIR_QUERY_INT || kind == WEIR_QUERY_DOUBLE || kind == WEIR_QUERY_BIG);
}

/* value : true | false | nil | null | number | string | field */
static int take_operand(struct parser *parser, struct weir_query_operand *operand)
{
    static const char *const fields[WEIR_QUERY_ATTRIBUTE] = { "host", "service", "state", "description", "metric", "tags", "time", "ttl" };
    operand->value = parser->token.value;
    if (parser->token.kind == WEIR_QUERY_TOKEN_NAME) {
        operand->is_field = true;
        operand->name = parser->token.value.text;
        for (operand->field = 0; operand->field < WEIR_QUERY_ATTRIBUTE; operand->field++)
            if (strcmp((const char *)operand->name.data, fields[operand->field]) == 0)
                break;
    }
    return advance(parser);
}

/* Behind `left OP`: what the operator allows on its right. */
static int take_right(struct parser *parser, struct weir_query_node *node)
{
    if (node->kind == WEIR_QUERY_EQUAL) {
        if (!at_operand(parser))
            return unexpected(parser, "a field or a value");
    } else if (node->kind == WEIR_QUERY_LIKE || node->kind == WEIR_QUERY_REGEX || node->kind == WEIR_QUERY_TAGGED) {
        if (!at_string(parser))
            return unexpected(parser, "a string in double quotes");
    } else if (!at_number(parser)) {
        return unexpected(parser, "a number");
    }
    if (node->kind == WEIR_QUERY_REGEX) {
        int rc = weir_query_regex_compile(&node->regex, &parser->lexer, &parser->token);
        if (rc != 0)
            return rc;
    }
    return take_operand(parser, &node->right);
}

/* simple : "tagged" STRING | value [ OP value ] */
static int parse_term(struct parser *parser, struct weir_query_node **out)
{
    static const enum weir_query_node_kind kinds[] = {
        [WEIR_QUERY_TOKEN_EQUAL] = WEIR_QUERY_EQUAL, [WEIR_QUERY_TOKEN_NOT_EQUAL] = WEIR_QUERY_EQUAL,
        [WEIR_QUERY_TOKEN_LESS] = WEIR_QUERY_LESS, [WEIR_QUERY_TOKEN_LESS_EQUAL] = WEIR_QUERY_LESS_EQUAL,
        [WEIR_QUERY_TOKEN_GREATER] = WEIR_QUERY_GREATER, [WEIR_QUERY_TOKEN_GREATER_EQUAL] = WEIR_QUERY_GREATER_EQUAL,
        [WEIR_QUERY_TOKEN_LIKE] = WEIR_QUERY_LIKE, [WEIR_QUERY_TOKEN_REGEX] = WEIR_QUERY_REGEX,
    };
    if (++parser->terms > WEIR_QUERY_TERMS_MOST)
        return weir_query_fail(&parser->lexer, parser->token.offset, parser->token.length,
                               "the query has more than %u comparisons; `=~` or `~=` can stand for many", WEIR_QUERY_TERMS_MOST);
    struct weir_query_node *node = *out = new_node(parser, WEIR_QUERY_TRUTH);
    if (!node)
        return -ENOMEM;
    if (parser->token.kind == WEIR_QUERY_TOKEN_TAGGED) {
        node->kind = WEIR_QUERY_TAGGED;
        int rc = advance(parser);
        return rc != 0 ? rc : take_right(parser, node);
    }
    int rc = take_operand(parser, &node->left);
    if (rc != 0)
        return rc;
    parser->after_operand = parser->token.kind < WEIR_QUERY_TOKEN_EQUAL;
    if (parser->after_operand)
        return 0;
    node->kind = kinds[parser->token.kind];
    node->negated = parser->token.kind == WEIR_QUERY_TOKEN_NOT_EQUAL;
    rc = advance(parser);
    return rc != 0 ? rc : take_right(parser, node);
}

/* --- predicates ---------------------------------------------------------------------------------------------------------- */

static int parse_or(struct parser *parser, struct weir_query_node **out);

static int unexpected_behind(const struct parser *parser, bool in_parentheses)
{
    if (parser->after_operand)
        return unexpected(parser, in_parentheses ? "an operator, `and`, `or` or `)`" : "an operator, `and`, `or` or the end");
    return unexpected(parser, in_parentheses ? "`and`, `or` or `)`" : "`and`, `or` or the end");
}

/* "(" predicate ")" */
static int parse_parentheses(struct parser *parser, struct weir_query_node **out)
{
    struct weir_query_token open = parser->token;
    if (++parser->depth > WEIR_QUERY_DEPTH_MOST)
        return weir_query_fail(&parser->lexer, open.offset, 1, "more than %u parentheses are open here", WEIR_QUERY_DEPTH_MOST);
    int rc = advance(parser);
    if (rc == 0)
        rc = parse_or(parser, out);
    if (rc != 0)
        return rc;
    if (parser->token.kind == WEIR_QUERY_TOKEN_END)
        return weir_query_fail(&parser->lexer, open.offset, 1, "the parenthesis that opens here isn't closed");
    if (parser->token.kind != WEIR_QUERY_TOKEN_CLOSE)
        return unexpected_behind(parser, true);
    parser->depth--;
    parser->after_operand = false;
    return advance(parser);
}

/* primary, with any number of "not" in front */
static int parse_not(struct parser *parser, struct weir_query_node **out)
{
    bool negated = false;
    int rc;
    while (parser->token.kind == WEIR_QUERY_TOKEN_NOT) {
        negated = !negated;
        if ((rc = advance(parser)) != 0)
            return rc;
    }
    parser->after_operand = false;
    if (parser->token.kind == WEIR_QUERY_TOKEN_OPEN)
        rc = parse_parentheses(parser, out);
    else if (at_operand(parser) || parser->token.kind == WEIR_QUERY_TOKEN_TAGGED)
        rc = parse_term(parser, out);
    else
        rc = unexpected(parser, "a field, a value, `tagged`, `not` or `(`");
    if (rc == 0 && negated)
        (*out)->negated = !(*out)->negated;
    return rc;
}

/* A run of what `parse_one` reads, with `word` between. */
static int parse_run(struct parser *parser, enum weir_query_token_kind word, enum weir_query_node_kind kind,
                     int (*parse_one)(struct parser *, struct weir_query_node **), struct weir_query_node **out)
{
    int rc = parse_one(parser, out);
    if (rc != 0 || parser->token.kind != word)
        return rc;
    struct weir_query_node *run = new_node(parser, kind);
    if (!run)
        return -ENOMEM;
    struct weir_query_node **end = &run->first;
    *end = *out;
    *out = run;
    while (parser->token.kind == word) {
        end = &(*end)->next;
        if ((rc = advance(parser)) != 0 || (rc = parse_one(parser, end)) != 0)
            return rc;
    }
    return 0;
}

static int parse_and(struct parser *parser, struct weir_query_node **out)
{
    return parse_run(parser, WEIR_QUERY_TOKEN_AND, WEIR_QUERY_AND, parse_not, out);
}

static int parse_or(struct parser *parser, struct weir_query_node **out)
{
    return parse_run(parser, WEIR_QUERY_TOKEN_OR, WEIR_QUERY_OR, parse_and, out);
}

static int parse_whole(struct parser *parser, struct weir_query_node **out)
{
    if (parser->lexer.size > WEIR_QUERY_BYTES_MOST)
        return weir_query_fail(&parser->lexer, 0, 0, "the query has %zu bytes, and %zu are the most", parser->lexer.size,
                               WEIR_QUERY_BYTES_MOST);
    int rc = advance(parser);
    if (rc != 0)
        return rc;
    if (parser->token.kind == WEIR_QUERY_TOKEN_END)
        return weir_query_fail(&parser->lexer, 0, 0, "the query is empty; `true` stands for all events");
    if ((rc = parse_or(parser, out)) != 0)
        return rc;
    if (parser->token.kind == WEIR_QUERY_TOKEN_CLOSE)
        return weir_query_fail(&parser->lexer, parser->token.offset, 1, "no parenthesis is open that could be closed here");
    return parser->token.kind == WEIR_QUERY_TOKEN_END ? 0 : unexpected_behind(parser, false);
}

int weir_query_parse(struct weir_query **query, const void *text, size_t size, struct weir_query_place *place, struct weir_error *error)
{
    struct weir_query *parsed = malloc(sizeof *parsed);
    if (!parsed)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "no memory for a query");
    weir_arena_init(&parsed->arena, 1024, WEIR_QUERY_MEMORY_MOST);
    struct parser parser = { .lexer = { .text = text, .size = size, .arena = &parsed->arena, .place = place, .error = error } };
    int rc = parse_whole(&parser, &parsed->root);
    if (rc == -ENOMEM)
        rc = weir_query_fail(&parser.lexer, 0, 0, "the query takes more than %zu MiB once it is parsed", WEIR_QUERY_MEMORY_MOST >> 20);
    if (rc == 0)
        *query = parsed;
    else
        weir_query_free(parsed);
    return rc;
}

void weir_query_free(struct weir_query *query)
{
    if (!query)
        return;
    weir_arena_release(&query->arena);
    free(query);
}

/* --- the key ------------------------------------------------------------------------------------------------------------- */

/* `field = VALUE` or the other way round, of a text or nil: sets the value. */
static bool is_key_part(const struct weir_query_node *node, enum weir_query_field field, struct weir_bytes *value)
{
    if (node->kind != WEIR_QUERY_EQUAL || node->negated || node->left.is_field == node->right.is_field)
        return false;
    const struct weir_query_operand *name = node->left.is_field ? &node->left : &node->right;
    const struct weir_query_operand *other = node->left.is_field ? &node->right : &node->left;
    if (name->field != field || (other->value.kind != WEIR_QUERY_TEXT && other->value.kind != WEIR_QUERY_NIL))
        return false;
    *value = other->value.kind == WEIR_QUERY_TEXT ? other->value.text : (struct weir_bytes){ NULL, 0 };
    return true;
}

bool weir_query_key(const struct weir_query *query, struct weir_bytes *host, struct weir_bytes *service)
{
    const struct weir_query_node *root = query->root;
    if (root->kind != WEIR_QUERY_AND || root->negated || root->first->next->next)
        return false;
    const struct weir_query_node *one = root->first, *other = one->next;
    return (is_key_part(one, WEIR_QUERY_HOST, host) && is_key_part(other, WEIR_QUERY_SERVICE, service)) ||
           (is_key_part(one, WEIR_QUERY_SERVICE, service) && is_key_part(other, WEIR_QUERY_HOST, host));
}
