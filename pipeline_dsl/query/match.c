#include "pipeline_dsl/query/compare.h"
#include "pipeline_dsl/query/pattern.h"
#include "pipeline_dsl/query/tree.h"

struct match {
    struct weir_query_scratch *scratch;
    const struct weir_query_view *view;
    const void *event;
    struct weir_error *error;
};

static struct weir_query_value value_of(const struct match *match, const struct weir_query_operand *operand)
{
    return operand->is_field ? match->view->field(match->event, operand->field, operand->name) : operand->value;
}

static bool is_true(struct weir_query_value value)
{
    return value.kind == WEIR_QUERY_BOOL ? value.boolean : value.kind != WEIR_QUERY_NIL;
}

static int compare(const struct match *match, const struct weir_query_node *node)
{
    enum weir_query_order order = weir_query_compare(value_of(match, &node->left), node->right.value);
    switch (node->kind) {
    case WEIR_QUERY_LESS:
        return order == WEIR_QUERY_BEFORE;
    case WEIR_QUERY_LESS_EQUAL:
        return order == WEIR_QUERY_BEFORE || order == WEIR_QUERY_SAME;
    case WEIR_QUERY_GREATER:
        return order == WEIR_QUERY_BEHIND;
    default:
        return order == WEIR_QUERY_BEHIND || order == WEIR_QUERY_SAME;
    }
}

/* One comparison, `not` left aside: 1, 0 or -errno. */
static int match_term(const struct match *match, const struct weir_query_node *node)
{
    struct weir_query_value left;
    switch (node->kind) {
    case WEIR_QUERY_TRUTH:
        return is_true(value_of(match, &node->left));
    case WEIR_QUERY_TAGGED:
        return match->view->tagged(match->event, node->right.value.text);
    case WEIR_QUERY_EQUAL:
        left = value_of(match, &node->left);
        return weir_query_equal(left, value_of(match, &node->right));
    case WEIR_QUERY_LIKE:
        left = value_of(match, &node->left);
        return left.kind == WEIR_QUERY_TEXT && weir_query_like(node->right.value.text, left.text);
    case WEIR_QUERY_REGEX:
        left = value_of(match, &node->left);
        if (left.kind != WEIR_QUERY_TEXT)
            return 0;
        return weir_query_regex_search(node->regex, match->scratch, left.text, match->error);
    default:
        return compare(match, node);
    }
}

/* As deep as the query's parentheses: the parser has bounded that. */
static int match_node(const struct match *match, const struct weir_query_node *node)
{
    int rc;
    if (node->kind == WEIR_QUERY_AND || node->kind == WEIR_QUERY_OR) {
        const struct weir_query_node *child = node->first;
        do
            rc = match_node(match, child);
        while (rc == (node->kind == WEIR_QUERY_AND) && (child = child->next));
    } else {
        rc = match_term(match, node);
    }
    return rc < 0 ? rc : rc ^ node->negated;
}

int weir_query_match(const struct weir_query *query, struct weir_query_scratch *scratch, const struct weir_query_view *view,
                     const void *event, struct weir_error *error)
{
    const struct match match = { scratch, view, event, error };
    return match_node(&match, query->root);
}
