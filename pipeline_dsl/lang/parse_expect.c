/* Expectations: what `weir check` holds a profile against. */
#include <string.h>

#include "pipeline_dsl/lang/names.h"
#include "pipeline_dsl/lang/parser.h"

static const char *const metrics[] = {
    "cpu", "under", "wait", "wakeup", "depth", "fill", "service", "throughput", "starved", "drops", NULL,
};
static const char *const statistics[] = { "mean", "p50", "p90", "p99", "p999", "max", NULL };
static const char *const comparisons[] = { "<", "<=", ">", ">=", NULL };

const char *weir_metric_name(enum weir_metric metric)
{
    return (unsigned)metric <= WEIR_METRIC_DROPS ? metrics[metric] : "?";
}

const char *weir_statistic_name(enum weir_statistic statistic)
{
    return (unsigned)statistic <= WEIR_MAX ? statistics[statistic] : "?";
}

const char *weir_comparison_name(enum weir_comparison comparison)
{
    return (unsigned)comparison <= WEIR_GE ? comparisons[comparison] : "?";
}

/* ref = "pool" NAME | NAME [ "." NAME [ "." PART ] ] ; */
static bool parse_ref(struct weir_parser *parser, struct weir_tree_term *term)
{
    struct weir_span first = parser->token.span;
    if (!weir_parser_name(parser, "a stage, a pipeline, or `pool NAME`", &term->names[0]))
        return false;
    bool pool = first.length == 4 && memcmp(weir_parser_text(parser, first), "pool", 4) == 0;
    if (pool && parser->token.kind == WEIR_TOKEN_WORD) {
        term->is_pool = true;
        if (!weir_parser_name(parser, "a pool's name", &term->names[0]))
            return false;
    }
    for (term->name_count = 1; !term->is_pool && term->name_count < 3 && weir_parser_accept(parser, "."); term->name_count++)
        if (!weir_parser_name(parser, term->name_count == 1 ? "a stage's name" : "a part: size, push or pop",
                              &term->names[term->name_count]))
            return false;
    term->ref_span = weir_span_join(first, parser->last);
    return true;
}

/* [ "mean"|"p50"|"p90"|"p99"|"p999"|"max" ] ("<"|"<="|">"|">=") */
static bool parse_comparison(struct weir_parser *parser, struct weir_tree_term *term)
{
    term->statistic = WEIR_MEAN;
    if (parser->token.kind == WEIR_TOKEN_WORD) {
        term->statistic_span = parser->token.span;
        int which = weir_parser_choose(parser, statistics);
        if (which < 0)
            return false;
        term->statistic = (enum weir_statistic)which;
    }
    int which = weir_parser_choose(parser, comparisons);
    if (which >= 0)
        term->comparison = (enum weir_comparison)which;
    return which >= 0;
}

/* METRIC; -1 after complaining. */
static int parse_metric(struct weir_parser *parser)
{
    struct weir_nearest nearest = weir_nearest(weir_parser_text(parser, parser->token.span), parser->token.span.length);
    for (int i = 0; metrics[i]; i++) {
        if (weir_parser_accept(parser, metrics[i]))
            return i;
        weir_nearest_offer(&nearest, metrics[i], strlen(metrics[i]));
    }
    struct weir_diag *diag = weir_parser_unexpected(parser, "a metric");
    if (nearest.best && parser->token.kind == WEIR_TOKEN_WORD)
        weir_diag_hint(parser->bag, diag, "did you mean `%s`?", nearest.best);
    else
        weir_diag_hint(parser->bag, diag,
                       "an expectation reads like `cpu(riemann.handoff) < 5%%`; `weir lint --explain E080` lists the metrics");
    return -1;
}

/* cmp = METRIC "(" ref ")" [ statistic ] comparison value ; */
static bool parse_term(struct weir_parser *parser, struct weir_tree_term *term)
{
    term->metric_span = term->span = parser->token.span;
    int which = parse_metric(parser);
    if (which < 0)
        return false;
    term->metric = (enum weir_metric)which;
    if (!weir_parser_expect(parser, "(") || !parse_ref(parser, term) || !weir_parser_expect(parser, ")") ||
        !parse_comparison(parser, term) || !weir_parser_value(parser, term))
        return false;
    term->span = weir_span_join(term->metric_span, term->value_span);
    return true;
}

/* or = and { "or" and } ;   and = cmp { "and" cmp } ; */
static bool parse_terms(struct weir_parser *parser, struct weir_tree_expectation *expectation)
{
    static const char *const joints[] = { "and", "or", NULL };
    struct weir_tree_term **end = &expectation->terms;
    bool or_before = false;
    for (;;) {
        struct weir_tree_term *term = weir_parser_alloc(parser, sizeof *term);
        if (!term)
            return false;
        term->or_before = or_before;
        if (!parse_term(parser, term))
            return false;
        *end = term;
        end = &term->next;
        expectation->term_count++;
        if (weir_parser_at_end_of_line(parser))
            return true;
        if (parser->token.kind != WEIR_TOKEN_WORD)
            return weir_parser_end_of_line(parser);
        int joint = weir_parser_choose(parser, joints);
        if (joint < 0)
            return false;
        or_before = joint == 1;
    }
}

struct weir_tree_expectation *weir_parser_expectation(struct weir_parser *parser)
{
    struct weir_tree_expectation *expectation = weir_parser_alloc(parser, sizeof *expectation);
    if (!expectation)
        return NULL;
    parser->words = NULL;
    expectation->span = parser->token.span;
    expectation->broken = !parse_terms(parser, expectation);
    expectation->span = weir_span_join(expectation->span, parser->last);
    return expectation;
}
