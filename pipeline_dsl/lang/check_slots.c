/* The stages that stand on a pool of slots, `forward` and `store`: their numbers, and the threads of their own. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "pipeline_dsl/lang/checker.h"
#include "pipeline_dsl/lang/parser.h"

#define SLOTS_MOST ((uint64_t)1 << 24) /* of one stage; each takes a word or two before anything comes */

/* Where a password stands in a connection string, in either form that libpq reads:
 * "host=db password=secret" and "postgres://user:secret@db". Length 0: nowhere. */
static struct weir_span find_password(const char *text, size_t length)
{
    static const char key[] = "password";
    static const char *const schemes[] = { "postgres://", "postgresql://" };
    for (int i = 0; i < 2; i++) {
        size_t scheme = strlen(schemes[i]);
        if (length < scheme || strncasecmp(text, schemes[i], scheme) != 0)
            continue;
        size_t end = scheme;
        while (end < length && text[end] != '/' && text[end] != '?')
            end++;
        const char *at = memrchr(text + scheme, '@', end - scheme);
        const char *colon = at ? memchr(text + scheme, ':', (size_t)(at - text) - scheme) : NULL;
        if (colon && at > colon + 1)
            return (struct weir_span){ (size_t)(colon + 1 - text), (size_t)(at - colon - 1) };
    }
    for (size_t i = 0; i + sizeof key - 1 < length; i++) {
        if (strncasecmp(text + i, key, sizeof key - 1) != 0 || (i > 0 && !strchr(" \t?&", text[i - 1])))
            continue;
        size_t end = i + sizeof key - 1;
        while (end < length && text[end] == ' ')
            end++;
        if (end < length && text[end] == '=')
            return (struct weir_span){ i, end + 1 - i };
    }
    return (struct weir_span){ 0, 0 };
}

static void check_password(struct weir_checker *checker, const struct weir_tree_stage *node)
{
    struct weir_span inside = { node->text_span.offset + 1, node->text_span.length - 2 }; /* of its quotes */
    struct weir_span found = find_password(weir_checker_text(checker, inside), inside.length);
    if (!found.length)
        return;
    found.offset += inside.offset;
    struct weir_diag *diag =
        weir_diag_add(checker->bag, WEIR_W108_PASSWORD, found, "a password stands in the file, which is copied and committed");
    weir_diag_hint(checker->bag, diag, "leave it out, and set PGPASSWORD, or name a service: \"service=metrics\"");
}

static void check_enough(struct weir_checker *checker, const struct weir_tree_stage *node, uint32_t pool)
{
    uint64_t slots = node->connections.value * node->in_flight.value;
    if (pool == WEIR_NONE || slots >= checker->topology->pools[pool].threads)
        return;
    const struct weir_topology_pool *takers = &checker->topology->pools[pool];
    struct weir_diag *diag =
        weir_diag_add(checker->bag, WEIR_W103_FEW_SLOTS, weir_span_join(node->connections.span, node->in_flight.span),
                      "%" PRIu64 " slot%s for the %" PRIu32 " threads of '%s': some of them will always wait", slots,
                      slots == 1 ? "" : "s", takers->threads, takers->name);
    weir_diag_relate(checker->bag, diag, checker->pool_nodes[pool]->threads.span, "'%s' has so many threads", takers->name);
    weir_diag_hint(checker->bag, diag, "raise `in_flight`: a connection carries many requests at once");
}

/* The threads of the connections are a pool of their own, so that what they cost is seen. */
static uint32_t add_pool(struct weir_checker *checker, const char *name)
{
    uint32_t pool = checker->topology->pool_count++;
    checker->topology->pools[pool] = (struct weir_topology_pool){ .name = name, .threads = WEIR_SLOT_THREADS };
    checker->pool_named[pool] = true;
    checker->pool_listener[pool] = checker->pool_taker[pool] = WEIR_NONE;
    return pool;
}

uint32_t weir_check_slots(struct weir_checker *checker, uint32_t stage, uint32_t pool)
{
    const struct weir_tree_stage *node = checker->stage_nodes[stage];
    struct weir_topology_stage *made = &checker->topology->stages[stage];
    made->connections = (uint32_t)node->connections.value;
    made->in_flight = (uint32_t)node->in_flight.value;
    if (node->connections.value * node->in_flight.value > SLOTS_MOST) {
        struct weir_diag *diag = weir_diag_add(checker->bag, WEIR_E017_BAD_NUMBER,
                                               weir_span_join(node->connections.span, node->in_flight.span),
                                               "a stage has at most %" PRIu64 " slots", SLOTS_MOST);
        weir_diag_hint(checker->bag, diag, "slots are connections x in_flight; a few thousand keep any downstream busy");
    }
    check_enough(checker, node, pool);
    if (node->verb == WEIR_FORWARD) {
        weir_check_peer(checker, node, stage);
    } else {
        check_password(checker, node);
        made->text = weir_lexer_string(&checker->bag->source, node->text_span, checker->arena);
        made->symbol = weir_checker_dup(checker, node->symbol_span);
        made->create = node->create;
        made->retry_on_loss = node->retry_on_loss;
        checker->bag->failed |= !made->text;
    }
    return pool == WEIR_NONE ? WEIR_NONE : add_pool(checker, made->full_name);
}
