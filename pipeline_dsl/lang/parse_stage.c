/*
 * The stages: one function a verb, with its grammar rule above it, and one table of them.
 * All forms of the grammar parse; what isn't built is only marked, so that fmt knows it and the checker says so.
 */
#include <string.h>

#include "pipeline_dsl/lang/names.h"
#include "pipeline_dsl/lang/parser.h"

static void not_built(struct weir_tree_stage *stage, struct weir_span span, const char *what)
{
    if (stage->unbuilt.span.length == 0)
        stage->unbuilt = (struct weir_tree_unbuilt){ span, what };
}

static bool parse_address(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    if (parser->token.kind != WEIR_TOKEN_RAW) {
        weir_diag_hint(parser->bag, weir_parser_unexpected(parser, "an address"), "an address is written like 127.0.0.1:5555");
        return false;
    }
    stage->address_span = parser->token.span;
    weir_parser_take(parser);
    return true;
}

/* tls = "tls" "cert" STR "key" STR [ "client_ca" STR ] ; */
static bool parse_tls(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    struct weir_span first = parser->token.span;
    if (!weir_parser_accept(parser, "tls"))
        return true;
    if (!weir_parser_expect(parser, "cert") || !weir_parser_string(parser, "a file's path in quotes", &stage->cert_span) ||
        !weir_parser_expect(parser, "key") || !weir_parser_string(parser, "a file's path in quotes", &stage->key_span))
        return false;
    if (weir_parser_accept(parser, "client_ca") && !weir_parser_string(parser, "a file's path in quotes", &stage->client_ca_span))
        return false;
    stage->tls_span = weir_span_join(first, parser->last);
    return true;
}

/* "allow" CIDR { CIDR }: the addresses are runs without blanks, up to `as` or the end of the line. */
static bool parse_allow(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    struct weir_span first = parser->token.span;
    struct weir_word **end = &stage->allow;
    if (!weir_parser_at(parser, "allow"))
        return true;
    weir_parser_take_then_raw(parser);
    while (parser->token.kind == WEIR_TOKEN_RAW) {
        const char *text = weir_parser_text(parser, parser->token.span);
        if (parser->token.span.length == 2 && memcmp(text, "as", 2) == 0) {
            parser->token.kind = WEIR_TOKEN_WORD;
            break;
        }
        *end = weir_arena_zalloc(&parser->bag->arena, sizeof **end);
        parser->bag->failed |= !*end;
        if (!*end)
            return false;
        (*end)->span = parser->token.span;
        end = &(*end)->next;
        weir_parser_take_then_raw(parser);
    }
    if (!stage->allow) {
        weir_parser_unexpected(parser, "a network such as 10.0.0.0/8");
        return false;
    }
    stage->allow_span = weir_span_join(first, parser->last);
    return true;
}

/* "listen" ( ("tcp"|"udp") ADDR | "unix" STR ) "on" NAME [ tls ] [ "allow" CIDR { CIDR } ] */
static bool parse_listen(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const transports[] = { "tcp", "udp", "unix", NULL };
    int which = weir_parser_which(parser, transports);
    if (which < 0)
        return false;
    stage->transport = (enum weir_transport)which;
    if (stage->transport == WEIR_UNIX) {
        weir_parser_take(parser);
        if (!weir_parser_string(parser, "the socket's path in quotes", &stage->address_span))
            return false;
    } else {
        weir_parser_take_then_raw(parser);
        if (!parse_address(parser, stage))
            return false;
    }
    if (weir_parser_at(parser, "tls") || weir_parser_at(parser, "allow")) {
        weir_parser_unexpected(parser, "`on POOL`, which stands before `tls` and `allow`");
        return false;
    }
    return weir_parser_expect(parser, "on") && weir_parser_name(parser, "a pool's name", &stage->pool_span) &&
           parse_tls(parser, stage) && parse_allow(parser, stage);
}

/* "frame" ("length32"|"lines") "max" SIZE */
static bool parse_frame(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const framings[] = { "length32", "lines", NULL };
    struct weir_span framing = parser->token.span;
    int which = weir_parser_choose(parser, framings);
    if (which < 0)
        return false;
    stage->framing = (enum weir_framing)which;
    if (weir_parser_at_end_of_line(parser)) {
        struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E021_MISSING_CLAUSE, weir_span_join(stage->verb_span, framing),
                                               "`frame` needs `max`: how large a message may be");
        weir_diag_hint(parser->bag, diag, "write `frame %.*s max %s`", (int)framing.length, weir_parser_text(parser, framing),
                       stage->framing == WEIR_LINES ? "4KiB" : "16MiB");
        return false;
    }
    return weir_parser_expect(parser, "max") && weir_parser_size(parser, "the largest frame", &stage->max);
}

/* "decode" ("riemann"|"graphite") [ "max" SIZE ] */
static bool parse_decode(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const codecs[] = { "riemann", "graphite", NULL };
    int which = weir_parser_choose(parser, codecs);
    if (which < 0)
        return false;
    stage->codec = (enum weir_codec_kind)which;
    return !weir_parser_accept(parser, "max") || weir_parser_size(parser, "the memory of the largest message", &stage->max);
}

/* "encode" "riemann" */
static bool parse_encode(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const codecs[] = { "riemann", NULL };
    stage->codec = WEIR_RIEMANN;
    return weir_parser_choose(parser, codecs) >= 0;
}

/* "sized" ("bytes"|"arena"|"typed"|"reflect") */
static bool parse_sized(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const kinds[] = { "bytes", "arena", "typed", "reflect", NULL };
    stage->sized_span = parser->token.span;
    int which = weir_parser_choose(parser, kinds);
    if (which >= 0)
        stage->sized = (enum weir_sized)which;
    return which >= 0;
}

/* policy = "block" | "reject" | "drop" ("newest"|"oldest") ; */
static bool parse_policy(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const policies[] = { "block", "reject", "drop", NULL };
    static const char *const ends[] = { "newest", "oldest", NULL };
    int which = weir_parser_choose(parser, policies);
    if (which < 0)
        return false;
    stage->full = which == 0 ? WEIR_FULL_BLOCK : WEIR_FULL_REJECT;
    if (which < 2)
        return true;
    int end = weir_parser_choose(parser, ends);
    stage->full = end == 0 ? WEIR_FULL_DROP_NEWEST : WEIR_FULL_DROP_OLDEST;
    return end >= 0;
}

static bool parse_clause(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const clauses[] = { "limit", "items", "sized", "full", "as", NULL };
    struct weir_span first = parser->token.span;
    int which = weir_parser_which(parser, clauses);
    if (which < 0 || which >= WEIR_CLAUSE_COUNT)
        return false;
    if (stage->clause_spans[which].length) {
        struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E020_TWICE, first, "`%s` was said before", clauses[which]);
        weir_diag_relate(parser->bag, diag, stage->clause_spans[which], "here");
        weir_diag_hint(parser->bag, diag, "keep one of them");
        return false;
    }
    parser->words = &stage->clauses[which];
    weir_parser_take(parser);
    bool good = which == WEIR_CLAUSE_LIMIT   ? weir_parser_size(parser, "the queue's limit", &stage->limit)
                : which == WEIR_CLAUSE_ITEMS ? weir_parser_int(parser, "the number of items", 1, UINT32_MAX, &stage->items)
                : which == WEIR_CLAUSE_SIZED ? parse_sized(parser, stage)
                                             : parse_policy(parser, stage);
    stage->clause_spans[which] = weir_span_join(first, parser->last);
    return good;
}

/* "handoff" NAME { "limit" SIZE | "items" INT | "sized" ("bytes"|"arena"|"typed"|"reflect") | "full" policy }
 * Each clause comes once; the checker asks for `limit` and `full`. */
static bool parse_handoff(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    if (!weir_parser_name(parser, "a pool's name", &stage->pool_span))
        return false;
    struct weir_words *words = parser->words;
    while (!weir_parser_at_end_of_line(parser) && !weir_parser_at(parser, "as"))
        if (!parse_clause(parser, stage))
            return false;
    parser->words = words;
    return true;
}

/* "index" [ "ttl" DUR ] [ "limit" INT ] */
static bool parse_index(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    struct weir_span ttl = parser->token.span;
    if (weir_parser_accept(parser, "ttl")) {
        if (!weir_parser_duration(parser, "the time that an event lives", &stage->ttl))
            return false;
        if (stage->ttl.value == 0) {
            weir_diag_hint(parser->bag,
                           weir_diag_add(parser->bag, WEIR_E017_BAD_NUMBER, weir_span_join(ttl, parser->last),
                                         "an event that lives for no time is never found in the index"),
                           "leave `ttl` out for 60s");
            return false;
        }
    }
    if (!weir_parser_accept(parser, "limit"))
        return true;
    if (!weir_parser_int(parser, "the number of entries", 1, UINT32_MAX, &stage->limit))
        return false;
    if (!weir_parser_at(parser, "ttl"))
        return true;
    weir_diag_hint(parser->bag, weir_parser_unexpected(parser, "the end of the line"), "`ttl` comes before `limit`");
    return false;
}

/* "filter" STR */
static bool parse_filter(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    return weir_parser_string(parser, "a query in quotes", &stage->text_span);
}

/* "batch" INT "within" DUR */
static bool parse_batch(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    return weir_parser_int(parser, "the number of events", 1, UINT32_MAX, &stage->limit) &&
           weir_parser_expect(parser, "within") && weir_parser_duration(parser, "the longest wait", &stage->within);
}

/* slots = "connections" INT "in_flight" INT ; */
static bool parse_slots(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    return weir_parser_expect(parser, "connections") &&
           weir_parser_int(parser, "the number of connections", 1, 65535, &stage->connections) &&
           weir_parser_expect(parser, "in_flight") &&
           weir_parser_int(parser, "the number in flight", 1, UINT32_MAX, &stage->in_flight);
}

/* "forward" "riemann" ADDR slots */
static bool parse_forward(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const codecs[] = { "riemann", NULL };
    if (weir_parser_which(parser, codecs) < 0)
        return false;
    weir_parser_take_then_raw(parser);
    return parse_address(parser, stage) && parse_slots(parser, stage);
}

/* "store" "postgres" STR "table" NAME [ "create" ] slots [ "on_loss" ("retry"|"report") ] */
static bool parse_store(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    static const char *const losses[] = { "retry", "report", NULL };
    if (!weir_parser_expect(parser, "postgres") ||
        !weir_parser_string(parser, "a connection string in quotes", &stage->text_span) || !weir_parser_expect(parser, "table") ||
        !weir_parser_name(parser, "a table's name", &stage->symbol_span))
        return false;
    stage->create = weir_parser_accept(parser, "create");
    if (!parse_slots(parser, stage) || !weir_parser_accept(parser, "on_loss"))
        return stage->in_flight.value != 0;
    int which = weir_parser_choose(parser, losses);
    stage->retry_on_loss = which == 0;
    return which >= 0;
}

/* "busy" DUR [ "pause" DUR ] */
static bool parse_busy(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    return weir_parser_duration(parser, "the CPU time to burn", &stage->cpu) &&
           (!weir_parser_accept(parser, "pause") || weir_parser_duration(parser, "the time to sleep", &stage->pause));
}

static bool is_c_keyword(const char *text, size_t length)
{
    static const char words[] =
        " auto break case char const continue default do double else enum extern float for goto if inline int"
        " long register restrict return short signed sizeof static struct switch typedef union unsigned"
        " void volatile while main ";
    char padded[16];
    if (length > sizeof padded - 3)
        return false;
    padded[0] = ' ';
    memcpy(padded + 1, text, length);
    strcpy(padded + 1 + length, " ");
    return strstr(words, padded) != NULL;
}

/* "call" STR CIDENT */
static bool parse_call(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    if (!weir_parser_string(parser, "the path of a C file in quotes", &stage->text_span))
        return false;
    if (stage->text_span.length == 2) {
        weir_diag_add(parser->bag, WEIR_E010_UNEXPECTED, stage->text_span, "the path of a C file can't be empty");
        return false;
    }
    if (parser->token.kind != WEIR_TOKEN_WORD || weir_parser_at(parser, "as")) {
        weir_parser_unexpected(parser, "the name of a C function");
        return false;
    }
    stage->symbol_span = parser->token.span;
    const char *name = weir_parser_text(parser, stage->symbol_span);
    if (is_c_keyword(name, stage->symbol_span.length)) {
        weir_diag_add(parser->bag, WEIR_E014_BAD_NAME, stage->symbol_span, "a function can't be called '%.*s' in C",
                      (int)stage->symbol_span.length, name);
        return false;
    }
    weir_parser_take(parser);
    return true;
}

/* ("tee"|"then") NAME */
static bool parse_branch(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    return weir_parser_name(parser, "a pipeline's name", &stage->target_span);
}

/* "reply" | "drop" */
static bool parse_end(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    (void)parser;
    (void)stage;
    return true;
}

static bool (*const verbs[WEIR_VERB_COUNT])(struct weir_parser *, struct weir_tree_stage *) = {
    [WEIR_LISTEN] = parse_listen,   [WEIR_FRAME] = parse_frame, [WEIR_DECODE] = parse_decode, [WEIR_ENCODE] = parse_encode,
    [WEIR_HANDOFF] = parse_handoff, [WEIR_INDEX] = parse_index, [WEIR_FILTER] = parse_filter, [WEIR_BATCH] = parse_batch,
    [WEIR_FORWARD] = parse_forward, [WEIR_STORE] = parse_store, [WEIR_BUSY] = parse_busy,     [WEIR_CALL] = parse_call,
    [WEIR_TEE] = parse_branch,      [WEIR_THEN] = parse_branch, [WEIR_REPLY] = parse_end,     [WEIR_DROP] = parse_end,
};

/* `stage NAME at …` and `queue NAME push …`: lines of a pipeline that is bound to a running server. Their words are only kept. */
static bool parse_foreign(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    bool is_stage = weir_parser_at(parser, "stage");
    stage->foreign = true;
    not_built(stage, stage->verb_span,
              is_stage ? "`stage … at` (binding to a running server)" : "`queue` (binding to a running server)");
    weir_parser_skip(parser);
    if (!weir_parser_name(parser, is_stage ? "a stage's name" : "a queue's name", &stage->as_span))
        return false;
    while (!weir_parser_at_end_of_line(parser)) {
        if (parser->token.kind == WEIR_TOKEN_BAD)
            return false;
        /* FN may hold `!`, `:` and `*`: read by blanks, but for strings. */
        struct weir_lexer ahead = parser->lexer;
        ahead.comments_end = &ahead.comments;
        ahead.quiet = true;
        if (weir_lexer_next(&ahead).kind == WEIR_TOKEN_STRING || weir_parser_at_end_of_line(parser))
            weir_parser_take(parser);
        else
            weir_parser_take_then_raw(parser);
    }
    return true;
}

static bool parse_verb(struct weir_parser *parser, struct weir_tree_stage *stage)
{
    for (unsigned verb = 0; verb < WEIR_VERB_COUNT; verb++) {
        if (!weir_parser_at(parser, weir_verb_name(verb)))
            continue;
        stage->verb = (enum weir_verb_kind)verb;
        weir_parser_skip(parser);
        return verbs[verb](parser, stage);
    }
    if (weir_parser_at(parser, "stage") || weir_parser_at(parser, "queue"))
        return parse_foreign(parser, stage);
    stage->verb = WEIR_VERB_COUNT;
    if (parser->token.kind != WEIR_TOKEN_WORD) {
        weir_parser_unexpected(parser, "a stage, or `}`");
        return false;
    }
    struct weir_span span = parser->token.span;
    const char *text = weir_parser_text(parser, span);
    struct weir_nearest nearest = weir_nearest(text, span.length);
    for (unsigned verb = 0; verb < WEIR_VERB_COUNT; verb++)
        weir_nearest_offer(&nearest, weir_verb_name(verb), strlen(weir_verb_name(verb)));
    struct weir_diag *diag = weir_diag_add(parser->bag, WEIR_E012_UNKNOWN_VERB, span, "there is no verb '%.*s%s'",
                                           span.length < 40 ? (int)span.length : 40, text, span.length > 40 ? "…" : "");
    if (nearest.best)
        weir_diag_hint(parser->bag, diag, "did you mean `%s`?", nearest.best);
    else
        weir_diag_hint(parser->bag, diag, "a stage of your own is C code: `call \"file.c\" function`");
    return false;
}

struct weir_tree_stage *weir_parser_stage(struct weir_parser *parser)
{
    struct weir_tree_stage *stage = weir_parser_alloc(parser, sizeof *stage);
    if (!stage)
        return NULL;
    stage->span = stage->verb_span = parser->token.span;
    parser->words = &stage->words;
    bool good = parse_verb(parser, stage);
    if (good && !stage->foreign && weir_parser_at(parser, "as")) {
        parser->words = NULL;
        weir_parser_skip(parser);
        good = weir_parser_name(parser, "a stage's name", &stage->as_span);
        if (good && !weir_parser_at_end_of_line(parser) && !weir_parser_at(parser, "}")) {
            weir_diag_hint(parser->bag, weir_parser_unexpected(parser, "the end of the line"), "`as` and the name stand last");
            good = false;
        }
    }
    stage->broken = !(good && weir_parser_end_of_line(parser));
    stage->span = weir_span_join(stage->span, parser->last);
    return stage;
}
