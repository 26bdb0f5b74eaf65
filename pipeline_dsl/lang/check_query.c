#include <string.h>

#include "pipeline_dsl/lang/checker.h"
#include "pipeline_dsl/query/query.h"

/* Where byte `offset` of what a STRING means stands in the token. */
static size_t place_in_token(const char *token, size_t length, size_t offset)
{
    size_t at = 1;
    for (; offset > 0 && at + 1 < length; offset--)
        at += token[0] == '"' && token[at] == '\\' ? 2 : 1;
    return at;
}

void weir_check_query(struct weir_checker *checker, const struct weir_tree_stage *node, struct weir_topology_stage *stage)
{
    struct weir_span token = node->text_span;
    const char *text = weir_lexer_string(&checker->bag->source, token, checker->arena);
    stage->text = text;
    if (!text) {
        checker->bag->failed = true;
        return;
    }
    struct weir_query *query = NULL;
    struct weir_query_place place = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    int rc = weir_query_parse(&query, text, strlen(text), &place, &error);
    weir_query_free(query);
    if (rc != -EINVAL) {
        checker->bag->failed |= rc != 0;
        return;
    }
    const char *words = weir_checker_text(checker, token);
    size_t begin = place_in_token(words, token.length, place.offset);
    size_t end = place_in_token(words, token.length, place.offset + place.length);
    struct weir_span span = { token.offset + begin, end > begin ? end - begin : 1 }; /* what is missing is missing at the quote */
    struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E070_BAD_QUERY, span, "%s", error.text + place.sentence);
    if (*words == '"' && memchr(words, '\\', token.length))
        weir_diag_hint(checker->bag, diag, "in '...' a query stands as it is: a backslash there is one for the query");
}
