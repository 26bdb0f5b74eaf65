/*
 * DESIGN: an expression comes from a client and texts come from others, so no pair of them may cost much. PCRE2's own limits don't
 * see to that: they count from each starting point anew, and a step may walk over a whole text. So every expression is compiled with
 * automatic callouts, one before each item, and each callout is charged: TOLL, and the characters that lie behind the last one.
 * What an item may walk over in vain, unseen (a{1000} that fails at its end, the text that a group took before), is added to the
 * toll. The sum is a count, not a time: the same query on the same texts ends in the same way on every machine. A unit is 2 to 4 ns.
 *
 * Everything that PCRE2 allocates for a query comes from the query's arena. Its JIT was measured and left out: 6 us for each
 * expression and memory that the arena doesn't bound, for code that most queries run on few events.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pipeline_dsl/query/pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define TOLL ((size_t)10)
#define WORK_OF_TEXT ((uint64_t)20000000)  /* units for one text, and WORK_OF_BYTE for each byte of it */
#define WORK_OF_BYTE ((uint64_t)100)
#define WORK_OF_WALK ((uint64_t)500000000)  /* units in all, and WORK_OF_EACH for each text */
#define WORK_OF_EACH ((uint64_t)5000)
#define WORK_BEFORE ((uint64_t)100000000) /* units beyond WORK_OF_EACH of the queries that this one comes with */
#define HEAP_KIB 16384u

struct weir_query_regex {
    pcre2_code *code;
    size_t in_vain; /* bytes that one item may walk over without a callout that tells */
    struct weir_bytes pattern;
};

/* --- like ---------------------------------------------------------------------------------------------------------------- */

static bool is_one_line(const uint8_t *from, size_t size)
{
    return size == 0 || memchr(from, '\n', size) == NULL;
}

bool weir_query_like(struct weir_bytes pattern, struct weir_bytes text)
{
    const uint8_t *first = pattern.size ? memchr(pattern.data, '%', pattern.size) : NULL;
    if (!first)
        return pattern.size == text.size && (text.size == 0 || memcmp(pattern.data, text.data, text.size) == 0);
    const uint8_t *last = memrchr(pattern.data, '%', pattern.size);
    size_t head = (size_t)(first - pattern.data), tail = (size_t)(pattern.data + pattern.size - last) - 1;
    if (text.size < head + tail || memcmp(text.data, pattern.data, head) != 0 ||
        memcmp(text.data + text.size - tail, last + 1, tail) != 0)
        return false;
    /* Each piece between two % where it first occurs: from a later place it can't reach further. That holds with the newline too,
     * since a run that may be longer by the distance of two places has no newline in it. */
    const uint8_t *at = text.data + head, *end = text.data + text.size - tail;
    while (first < last) {
        const uint8_t *piece = first + 1;
        first = memchr(piece, '%', (size_t)(last - piece) + 1);
        size_t size = (size_t)(first - piece);
        const uint8_t *found = memmem(at, (size_t)(end - at), piece, size);
        if (!found || !is_one_line(at, (size_t)(found - at)))
            return false;
        at = found + size;
    }
    return is_one_line(at, (size_t)(end - at));
}

/* --- regular expressions: compiling -------------------------------------------------------------------------------------- */

static void *arena_alloc(size_t size, void *arena)
{
    return weir_arena_alloc(arena, size);
}

static void arena_free(void *memory, void *arena)
{
    (void)memory;
    (void)arena;
}

/* Where a class does what only Java's can: holds another class, or && for what two have in common. PCRE2 would take both as
 * characters, and answer without a word. The pattern's size when there is none. */
static size_t find_java_class(struct weir_bytes pattern)
{
    const uint8_t *text = pattern.data;
    bool in_class = false;
    for (size_t i = 0; i < pattern.size; i++) {
        size_t left = pattern.size - i;
        if (text[i] == '\\' && left > 1 && text[i + 1] == 'Q') {
            const uint8_t *end = memmem(text + i, left, "\\E", 2);
            i = end ? (size_t)(end - text) + 1 : pattern.size;
        } else if (text[i] == '\\') {
            i++;
        } else if (!in_class && text[i] == '[') {
            in_class = true;
            i += left > 1 && text[i + 1] == '^';
            i += i + 1 < pattern.size && text[i + 1] == ']'; /* the first one is a character */
        } else if (in_class && text[i] == ']') {
            in_class = false;
        } else if (in_class && left > 1 && text[i] == '[' && text[i + 1] == ':') {
            const uint8_t *end = memmem(text + i, left, ":]", 2);
            i = end ? (size_t)(end - text) + 1 : i;
        } else if (in_class && (text[i] == '[' || (left > 1 && text[i] == '&' && text[i + 1] == '&'))) {
            return i;
        }
    }
    return pattern.size;
}

/* The largest count of a repetition; all of a text where there is a backreference. */
static size_t find_in_vain(const pcre2_code *code, struct weir_bytes pattern)
{
    uint32_t backreferences;
    size_t largest = 0;
    if (pcre2_pattern_info(code, PCRE2_INFO_BACKREFMAX, &backreferences) != 0 || backreferences > 0)
        return SIZE_MAX;
    for (size_t i = 1; i < pattern.size; i++) {
        size_t count = 0;
        if (pattern.data[i - 1] == '{' || pattern.data[i - 1] == ',')
            for (; i < pattern.size && pattern.data[i] >= '0' && pattern.data[i] <= '9' && count < SIZE_MAX / 100; i++)
                count = count * 10 + (pattern.data[i] - '0');
        largest = count > largest ? count : largest;
    }
    return largest;
}

static int complain(const struct weir_query_lexer *lexer, const struct weir_query_token *token, int code, size_t offset)
{
    struct weir_bytes pattern = token->value.text;
    char text[160];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text) < 0)
        text[0] = '\0';
    if (offset >= pattern.size)
        return weir_query_fail(lexer, token->offset, token->length, "the regular expression can't be used: %s", text);
    return weir_query_fail(lexer, token->offset, token->length, "the regular expression is wrong before `%s`: %s",
                           weir_query_quote(pattern.data + offset, pattern.size - offset).text, text);
}

int weir_query_regex_compile(const struct weir_query_regex **out, const struct weir_query_lexer *lexer,
                             const struct weir_query_token *token)
{
    struct weir_bytes pattern = token->value.text;
    pcre2_general_context *general = pcre2_general_context_create(arena_alloc, arena_free, lexer->arena);
    pcre2_compile_context *compile = general ? pcre2_compile_context_create(general) : NULL;
    struct weir_query_regex *regex = weir_arena_alloc(lexer->arena, sizeof *regex);
    if (!compile || !regex)
        return -ENOMEM;
    size_t java = find_java_class(pattern);
    if (java < pattern.size)
        return weir_query_fail(lexer, token->offset, token->length,
                               "the regular expression has a class in a class, or && in one, at `%s`: write out what it stands for, "
                               "or \\\\ in front of the character",
                               weir_query_quote(pattern.data + java, pattern.size - java).text);
    const uint32_t options = PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
    int code;
    PCRE2_SIZE offset;
    pcre2_set_newline(compile, PCRE2_NEWLINE_LF); /* whatever the library was built for */
    regex->code = pcre2_compile(pattern.data, pattern.size, options, &code, &offset, compile);
    if (!regex->code)
        return code == PCRE2_ERROR_HEAP_FAILED ? -ENOMEM : complain(lexer, token, code, offset);
    regex->in_vain = find_in_vain(regex->code, pattern);
    regex->pattern = pattern;
    *out = regex;
    return 0;
}

/* --- regular expressions: searching -------------------------------------------------------------------------------------- */

void weir_query_scratch_release(struct weir_query_scratch *scratch)
{
    pcre2_match_data_free(scratch->match_data);
    pcre2_match_context_free(scratch->match_context);
    *scratch = (struct weir_query_scratch)WEIR_QUERY_SCRATCH_INIT;
}

static int too_many_steps(struct weir_bytes pattern, struct weir_error *error)
{
    return weir_error_set(error, WEIR_EXIT_USAGE, E2BIG,
                          "query error: the regular expression \"%s\" takes too many steps on the events here; anchor it, or nest fewer "
                          "repetitions",
                          weir_query_quote(pattern.data, pattern.size).text);
}

uint64_t weir_query_excess(const struct weir_query_scratch *scratch)
{
    uint64_t usual = scratch->regex_count * WORK_OF_EACH;
    return scratch->regex_work > usual ? scratch->regex_work - usual : 0;
}

/* PCRE2 calls it before each item. */
static int charge(pcre2_callout_block *block, void *argument)
{
    struct weir_query_scratch *scratch = argument;
    size_t at = block->current_position;
    scratch->regex_work += scratch->toll + (at > scratch->at ? at - scratch->at : 0);
    scratch->at = at;
    return scratch->regex_work > scratch->work_most ? PCRE2_ERROR_CALLOUT : 0;
}

static int prepare(struct weir_query_scratch *scratch)
{
    if (!scratch->match_context) {
        scratch->match_data = pcre2_match_data_create(1, NULL);
        scratch->match_context = scratch->match_data ? pcre2_match_context_create(NULL) : NULL;
        if (!scratch->match_context) {
            weir_query_scratch_release(scratch);
            return PCRE2_ERROR_NOMEMORY;
        }
        pcre2_set_match_limit(scratch->match_context, UINT32_MAX);
        pcre2_set_heap_limit(scratch->match_context, HEAP_KIB);
    }
    pcre2_set_callout(scratch->match_context, charge, scratch);
    return 0;
}

/* PCRE2's code: 0 or more, or its error. `text` is UTF-8. */
static int search(const struct weir_query_regex *regex, struct weir_query_scratch *scratch, struct weir_bytes text)
{
    uint64_t walk = WORK_OF_WALK + ++scratch->regex_count * WORK_OF_EACH;
    uint64_t most = scratch->regex_work + WORK_OF_TEXT + text.size * WORK_OF_BYTE;
    scratch->work_most = most < walk ? most : walk;
    if (scratch->regex_work > scratch->work_most)
        return PCRE2_ERROR_CALLOUT;
    scratch->at = 0;
    scratch->toll = TOLL + (regex->in_vain < text.size ? regex->in_vain : text.size);
    return pcre2_match(regex->code, text.data, text.size, 0, PCRE2_NO_UTF_CHECK, scratch->match_data, scratch->match_context);
}

int weir_query_regex_search(const struct weir_query_regex *regex, struct weir_query_scratch *scratch, struct weir_bytes text,
                            struct weir_error *error)
{
    if (scratch->work_before > WORK_BEFORE)
        return weir_error_set(error, WEIR_EXIT_USAGE, E2BIG,
                              "query error: the regular expressions that were asked before and are not answered yet take too many steps; "
                              "wait for the answers");
    int rc = prepare(scratch);
    if (rc == 0 && weir_utf8_valid(text.data, text.size)) {
        rc = search(regex, scratch, text);
    } else if (rc == 0) {
        struct weir_arena arena;
        weir_arena_init(&arena, 0, SIZE_MAX);
        text.data = weir_utf8_repair(&arena, text.data, &text.size);
        rc = text.data ? search(regex, scratch, text) : PCRE2_ERROR_NOMEMORY;
        weir_arena_release(&arena);
    }
    if (rc >= 0)
        return 1;
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "query error: no memory for a regular expression");
    return too_many_steps(regex->pattern, error);
}
