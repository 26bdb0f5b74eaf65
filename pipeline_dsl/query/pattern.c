/*
 * DESIGN: an expression comes from a client and texts come from others, so no pair of them may cost much. PCRE2 limits the steps
 * from one starting point; from all points of a long text they may still add up to hours. So a text is searched in slices of
 * starting points, with as many steps for each point that a slice never takes more than SLICE_STEPS. A slice that runs into the limit
 * is made smaller, which gives each point more, down to LEAST_POINTS; one that went well is made larger. Between slices and
 * between texts the time spent is looked at: what a walk over n events may take grows with n only.
 *
 * Everything that PCRE2 allocates for a query comes from the query's arena. Its JIT was measured and left out: it saves 25 to 80 ns of
 * the 150 to 200 that a search costs here, for 6 us at each query and memory that the arena doesn't bound.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pipeline_dsl/query/pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"

#define SLICE_STEPS 20000000u
#define FIRST_POINTS ((size_t)1024)
#define LEAST_POINTS ((size_t)16)
#define MOST_POINTS ((size_t)65536)
#define HEAP_KIB 16384u
/* Ticks are close enough for a bound that nobody should meet: 1 to 2 s, and 20 to 40 us for each text. */
#define TICKS_MOST 4000000000u
#define TICKS_EACH 80000u

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

int weir_query_regex_compile(const void **regex, const struct weir_query_lexer *lexer, const struct weir_query_token *token)
{
    struct weir_bytes pattern = token->value.text;
    pcre2_general_context *general = pcre2_general_context_create(arena_alloc, arena_free, lexer->arena);
    pcre2_compile_context *compile = general ? pcre2_compile_context_create(general) : NULL;
    if (!compile)
        return -ENOMEM;
    size_t java = find_java_class(pattern);
    if (java < pattern.size)
        return weir_query_fail(lexer, token->offset, token->length,
                               "the regular expression has a class in a class, or && in one, at `%s`: write out what it stands for, or \\\\ "
                               "in front of the character",
                               weir_query_quote(pattern.data + java, pattern.size - java).text);
    int code;
    PCRE2_SIZE offset;
    pcre2_set_newline(compile, PCRE2_NEWLINE_LF); /* whatever the library was built for */
    *regex = pcre2_compile(pattern.data, pattern.size, PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &code, &offset, compile);
    if (*regex)
        return 0;
    if (code == PCRE2_ERROR_HEAP_FAILED)
        return -ENOMEM;
    char text[160];
    if (pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text) < 0)
        text[0] = '\0';
    size_t most = offset < pattern.size ? offset : pattern.size;
    struct weir_query_quote quote = weir_query_quote(pattern.data + most, pattern.size - most);
    if (most == pattern.size)
        return weir_query_fail(lexer, token->offset, token->length, "the regular expression can't be used: %s", text);
    return weir_query_fail(lexer, token->offset, token->length, "the regular expression is wrong before `%s`: %s", quote.text, text);
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

static size_t character_start(struct weir_bytes text, size_t at)
{
    while (at < text.size && (text.data[at] & 0xc0) == 0x80)
        at++;
    return at;
}

/* PCRE2's code: 0 or more, or its error. `text` is UTF-8. */
static int search(const pcre2_code *regex, struct weir_query_scratch *scratch, struct weir_bytes text, uint64_t ticks_most)
{
    size_t start = 0, points = FIRST_POINTS;
    for (;;) {
        size_t left = text.size - start + 1; /* an empty match may begin at the end */
        points = points < left ? points : left;
        pcre2_set_offset_limit(scratch->match_context, start + points - 1);
        pcre2_set_match_limit(scratch->match_context, SLICE_STEPS / (uint32_t)points);
        uint64_t began = weir_clock_ticks();
        int rc = pcre2_match(regex, text.data, text.size, start, PCRE2_NO_UTF_CHECK, scratch->match_data, scratch->match_context);
        scratch->regex_ticks += weir_clock_ticks() - began;
        if (rc == PCRE2_ERROR_NOMATCH && points < left) {
            start = character_start(text, start + points);
            points = points < MOST_POINTS ? points * 2 : points;
        } else if (rc == PCRE2_ERROR_MATCHLIMIT && points > LEAST_POINTS) {
            points = points / 4 > LEAST_POINTS ? points / 4 : LEAST_POINTS;
        } else {
            return rc;
        }
        if (scratch->regex_ticks > ticks_most)
            return PCRE2_ERROR_MATCHLIMIT;
    }
}

static int prepare(struct weir_query_scratch *scratch)
{
    if (scratch->match_context)
        return 0;
    scratch->match_data = pcre2_match_data_create(1, NULL);
    scratch->match_context = scratch->match_data ? pcre2_match_context_create(NULL) : NULL;
    if (!scratch->match_context) {
        weir_query_scratch_release(scratch);
        return -ENOMEM;
    }
    pcre2_set_heap_limit(scratch->match_context, HEAP_KIB);
    return 0;
}

int weir_query_regex_search(const void *regex, struct weir_bytes pattern, struct weir_query_scratch *scratch, struct weir_bytes text,
                            struct weir_error *error)
{
    uint64_t ticks_most = TICKS_MOST + ++scratch->regex_count * TICKS_EACH;
    int rc = prepare(scratch) == 0 ? PCRE2_ERROR_NOMATCH : PCRE2_ERROR_NOMEMORY;
    if (rc == PCRE2_ERROR_NOMATCH && scratch->regex_ticks > ticks_most)
        rc = PCRE2_ERROR_MATCHLIMIT;
    else if (rc == PCRE2_ERROR_NOMATCH && weir_utf8_valid(text.data, text.size))
        rc = search(regex, scratch, text, ticks_most);
    else if (rc == PCRE2_ERROR_NOMATCH) {
        struct weir_arena arena;
        weir_arena_init(&arena, 0, SIZE_MAX);
        text.data = weir_utf8_repair(&arena, text.data, &text.size);
        rc = text.data ? search(regex, scratch, text, ticks_most) : PCRE2_ERROR_NOMEMORY;
        weir_arena_release(&arena);
    }
    if (rc >= 0)
        return 1;
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc == PCRE2_ERROR_NOMEMORY)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENOMEM, "query error: no memory for a regular expression");
    return too_many_steps(pattern, error);
}
