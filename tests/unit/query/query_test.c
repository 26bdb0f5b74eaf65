/* query: what it promises beside the answers, which tests/cases/query/ holds: the key, the bounds, the errors' places. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/query/query.h"

static struct weir_bytes bytes(const char *text)
{
    return (struct weir_bytes){ (const uint8_t *)text, text ? strlen(text) : 0 };
}

/* The event here: a description, and 2 as the value of every attribute. */
static struct weir_query_value field_of(const void *event, enum weir_query_field field, struct weir_bytes name)
{
    (void)name;
    if (field == WEIR_QUERY_DESCRIPTION)
        return weir_query_text(*(const struct weir_bytes *)event);
    return field == WEIR_QUERY_ATTRIBUTE ? weir_query_integer(2) : weir_query_nil();
}

static bool tagged_with(const void *event, struct weir_bytes tag)
{
    (void)event;
    return tag.size == 0;
}

static const struct weir_query_view view = { field_of, tagged_with };

static struct weir_query *parsed(const char *text)
{
    struct weir_query *query = NULL;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_query_parse(&query, text, strlen(text), NULL, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    assert_string_equal(error.text, "");
    return query;
}

/* The answer for an event with this description. */
static int answer(const char *text, struct weir_bytes description, struct weir_error *error)
{
    struct weir_query *query = parsed(text);
    struct weir_query_scratch scratch = WEIR_QUERY_SCRATCH_INIT;
    int rc = weir_query_match(query, &scratch, &view, &description, error);
    weir_query_scratch_release(&scratch);
    weir_query_free(query);
    return rc;
}

static void expect_error(const void *text, size_t size, size_t offset, size_t length, const char *words)
{
    struct weir_query *query = NULL;
    struct weir_query_place place = { 0 };
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_query_parse(&query, text, size, &place, &error), -EINVAL);
    assert_null(query);
    assert_int_equal(error.exit, WEIR_EXIT_USAGE);
    if (place.offset != offset || place.length != length || !strstr(error.text, words))
        fail_msg("%zu+%zu: %s", place.offset, place.length, error.text);
    assert_int_equal(strncmp(error.text, "parse error: line ", 18), 0);
    assert_string_equal(error.text + place.sentence - 2, strstr(strstr(error.text, "column "), ": "));
}

static void expect_key(const char *text, const char *host, const char *service)
{
    struct weir_bytes h = { NULL, 1 }, s = { NULL, 1 };
    struct weir_query *query = parsed(text);
    assert_true(weir_query_key(query, &h, &s));
    assert_int_equal(!h.data, !host);
    assert_int_equal(!s.data, !service);
    assert_int_equal(h.size, host ? strlen(host) : 0);
    assert_int_equal(s.size, service ? strlen(service) : 0);
    assert_memory_equal(h.data ? (const char *)h.data : "", host ? host : "", h.size);
    assert_memory_equal(s.data ? (const char *)s.data : "", service ? service : "", s.size);
    weir_query_free(query);
}

static void the_key_is_seen_in_either_order(void **state)
{
    (void)state;
    expect_key("host = \"h\" and service = \"s\"", "h", "s");
    expect_key("service=\"s\" and host=\"h\"", "h", "s");
    expect_key("\"h\" = host and (service = \"\")", "h", "");
    expect_key("host = nil and service = null", NULL, NULL);
    expect_key("not (not (host = \"h\" and not not service = \"s\"))", "h", "s");
}

static void nothing_else_is_the_key(void **state)
{
    (void)state;
    static const char *const others[] = {
        "host = \"h\"", "host = \"h\" and host = \"h\"", "host = \"h\" or service = \"s\"", "host = \"h\" and service != \"s\"",
        "host = \"h\" and not service = \"s\"", "not (host = \"h\" and service = \"s\")", "host = \"h\" and service = \"s\" and true",
        "host = service and service = \"s\"", "host = 1 and service = \"s\"", "host =~ \"h\" and service = \"s\"",
        "host = true and service = \"s\"", "true", "\"a\" = \"b\" and service = \"s\"",
    };
    struct weir_bytes h, s;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct weir_query *query = parsed(others[i]);
        if (weir_query_key(query, &h, &s))
            fail_msg("%s", others[i]);
        weir_query_free(query);
    }
}

static void depth_has_a_limit_and_one_clear_error(void **state)
{
    (void)state;
    static const unsigned depths[] = { WEIR_QUERY_DEPTH_MOST, WEIR_QUERY_DEPTH_MOST + 1, 30000 };
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        size_t depth = depths[i], size = depth * 2 + 4;
        char *text = malloc(size + 1);
        memset(text, '(', depth);
        memcpy(text + depth, "true", 4);
        memset(text + depth + 4, ')', depth);
        text[size] = '\0';
        if (depth <= WEIR_QUERY_DEPTH_MOST)
            weir_query_free(parsed(text));
        else
            expect_error(text, size, WEIR_QUERY_DEPTH_MOST, 1, "more than 200 parentheses are open here");
        free(text);
    }
}

static void a_run_of_words_is_no_depth(void **state)
{
    (void)state;
    enum { NOTS = 16001 };
    char *text = malloc(NOTS * 4 + 5);
    for (size_t i = 0; i < NOTS; i++)
        memcpy(text + i * 4, "not ", 4);
    strcpy(text + (size_t)NOTS * 4, "true");
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(answer(text, bytes(NULL), &error), 0);
    assert_int_equal(answer(text + 4, bytes(NULL), &error), 1);
    free(text);
}

static char *repeat(const char *letter, size_t count)
{
    char *text = malloc(count + 1);
    memset(text, *letter, count);
    text[count] = '\0';
    return text;
}

/* `TERM or TERM or …` */
static char *run_of(const char *term, const char *word, size_t count)
{
    size_t step = strlen(term) + strlen(word);
    char *text = malloc(step * count + 1);
    for (size_t i = 0; i < count; i++) {
        memcpy(text + i * step, term, strlen(term));
        memcpy(text + i * step + strlen(term), word, strlen(word));
    }
    text[step * count - strlen(word)] = '\0';
    return text;
}

static void size_has_a_limit(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    char *most = run_of("x=1", " or ", WEIR_QUERY_TERMS_MOST), *more = run_of("x=1", " or ", WEIR_QUERY_TERMS_MOST + 1);
    assert_int_equal(answer(most, bytes(NULL), &error), 0);
    expect_error(more, strlen(more), WEIR_QUERY_TERMS_MOST * 7, 1, "more than 1024 comparisons");
    free(most);
    free(more);

    size_t size = (size_t)1 << 20;
    char *large = malloc(size);
    memset(large, '(', size);
    expect_error(large, size, 0, 0, "the query has 1048576 bytes, and 65536 are the most");
    memset(large, ' ', size);
    memcpy(large + WEIR_QUERY_BYTES_MOST - 4, "true", 4);
    struct weir_query *query;
    assert_int_equal(weir_query_parse(&query, large, WEIR_QUERY_BYTES_MOST, NULL, &error), 0);
    weir_query_free(query);
    free(large);

    /* 1000 expressions that compile to much. */
    char *heavy = run_of("x~=\"(a{9}b){999}\"", " or ", 1000);
    expect_error(heavy, strlen(heavy), 0, 0, "more than 4 MiB");
    free(heavy);
}

/* Whether it takes too many steps is decided by counting them, not by a clock. */
static void an_exploding_expression_is_an_error_and_no_answer(void **state)
{
    (void)state;
    static const char *const explode[] = { "(a+)+$", "(a|aa)+$", "(a|a?)+$", "(.*a){25}[cd]", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y|(a+)+$" };
    for (size_t i = 0; i < sizeof explode / sizeof *explode; i++) {
        char text[100];
        struct weir_error error = WEIR_ERROR_INIT;
        snprintf(text, sizeof text, "description ~= \"%s\"", explode[i]);
        if (answer(text, bytes("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"), &error) != -E2BIG)
            fail_msg("%s", text);
        assert_non_null(strstr(error.text, "query error: the regular expression \""));
        assert_non_null(strstr(error.text, "takes too many steps"));
    }
}

/* Each text alone is within the steps; the walk is not. Counted, so that it ends at the same text each time. */
static void many_slow_texts_add_up(void **state)
{
    (void)state;
    char a[201];
    memset(a, 'a', 200);
    a[200] = '\0';
    struct weir_bytes description = bytes(a);
    struct weir_query *query = parsed("description ~= \"a*a*[bc]\"");
    unsigned ended_at[2];
    for (size_t i = 0; i < 2; i++) {
        struct weir_query_scratch scratch = WEIR_QUERY_SCRATCH_INIT;
        struct weir_error error = WEIR_ERROR_INIT;
        int rc = 0;
        scratch.regex_work = 490000000; /* as if most had been done already */
        for (ended_at[i] = 0; ended_at[i] < 100 && rc == 0; ended_at[i]++)
            rc = weir_query_match(query, &scratch, &view, &description, &error);
        assert_int_equal(rc, -E2BIG);
        weir_query_scratch_release(&scratch);
    }
    assert_true(ended_at[0] > 0 && ended_at[0] < 100);
    assert_int_equal(ended_at[0], ended_at[1]);
    weir_query_free(query);
}

/* What walks over much between two callouts is charged for it: these would take minutes on a text of this size. */
static void what_walks_in_vain_is_charged(void **state)
{
    (void)state;
    static const char *const walk_far[] = { "a*a*[cd]", "(a*)\\\\1[cd]", "a{60000}c|a{60000}d", "(?<=a{60000}b)c|a{60000}d", "[^b]*[^c]*[de]" };
    char *text = repeat("a", 2 << 20);
    for (size_t i = 59999; i < (size_t)2 << 20; i += 60000)
        text[i] = 'b';
    for (size_t i = 0; i < sizeof walk_far / sizeof *walk_far; i++) {
        char query[100];
        struct weir_error error = WEIR_ERROR_INIT;
        snprintf(query, sizeof query, "description ~= \"%s\"", walk_far[i]);
        if (answer(query, bytes(text), &error) != -E2BIG)
            fail_msg("%s", query);
    }
    free(text);
}

struct walk {
    const struct weir_query *query;
    unsigned matches, errors;
};

static void *walk(void *argument)
{
    struct walk *of = argument;
    struct weir_query_scratch scratch = WEIR_QUERY_SCRATCH_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    for (unsigned i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "disk %u", i);
        struct weir_bytes description = bytes(text);
        int rc = weir_query_match(of->query, &scratch, &view, &description, &error);
        of->matches += rc == 1;
        of->errors += rc < 0;
    }
    weir_query_scratch_release(&scratch);
    return NULL;
}

static void threads_share_a_query(void **state)
{
    (void)state;
    struct weir_query *query = parsed("description ~= \"^disk \\\\d+7$\" or description =~ \"disk 9%\" and not description ~= \"99|[0-8]\"");
    struct walk walks[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        walks[i] = (struct walk){ .query = query };
        assert_int_equal(pthread_create(&threads[i], NULL, walk, &walks[i]), 0);
    }
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(walks[i].matches, 99 + 1); /* 17 to 997, and 9 */
        assert_int_equal(walks[i].errors, 0);
    }
    weir_query_free(query);
}

static void a_long_text_is_searched_whole(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20 };
    char *text = malloc(SIZE);
    struct weir_error error = WEIR_ERROR_INIT;
    for (size_t i = 0; i + 1 < SIZE; i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    struct weir_bytes description = { (const uint8_t *)text, SIZE };
    assert_int_equal(answer("description ~= \"z$\"", description, &error), 0);
    assert_int_equal(answer("description ~= \"é\\\\z\"", description, &error), 1);
    memcpy(text + SIZE - 2, "yz", 2);
    assert_int_equal(answer("description ~= \"z$\"", description, &error), 1);
    assert_int_equal(answer("description ~= \"(?<=é)yz\"", description, &error), 1);
    assert_int_equal(answer("description ~= \"^.yz\"", description, &error), 0);
    assert_int_equal(answer("description =~ \"%z\"", description, &error), 1);
    text[5] = '\xff'; /* no UTF-8 any more */
    assert_int_equal(answer("description ~= \"z$\"", description, &error), 1);
    free(text);
}

static void nuls_and_newlines_are_part_of_a_text(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_bytes nul = { (const uint8_t *)"a\0b", 3 };
    assert_int_equal(answer("description = \"a\"", nul, &error), 0);
    assert_int_equal(answer("description = \"a\\u0000b\"", nul, &error), 1);
    assert_int_equal(answer("description =~ \"a%\"", nul, &error), 1);
    assert_int_equal(answer("description ~= \"a\\u0000b$\"", nul, &error), 1);
}

static void a_place_counts_characters_and_lines(void **state)
{
    (void)state;
    struct weir_query *query;
    struct weir_query_place place;
    struct weir_error error = WEIR_ERROR_INIT;
    static const char text[] = "a = \"é\xf0\x9f\x98\x80\"\nand é == 1";
    assert_int_equal(weir_query_parse(&query, text, strlen(text), &place, &error), -EINVAL);
    assert_int_equal(place.line, 2);
    assert_int_equal(place.column, 7);
    assert_int_equal(place.offset, strlen(text) - 4);
    assert_string_equal(error.text, "parse error: line 2, column 7: `==` is no operator; write =");
    assert_string_equal(error.text + place.sentence, "`==` is no operator; write =");
}

static void an_error_repeats_no_control_bytes(void **state)
{
    (void)state;
    expect_error("a \"\x1b[2J\xff\"", 9, 2, 7, "`\"?[2J?\"` stands where");
    expect_error("a \x01", 3, 2, 1, "the control character 0x01");
    expect_error("a \xff", 3, 2, 1, "the byte 0xff is no UTF-8");
    expect_error("a\0b", 3, 1, 1, "the control character 0x00");
    expect_error("(", 1, 1, 0, "the query ends where a field");
    expect_error("", 0, 0, 0, "the query is empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_is_seen_in_either_order),
        cmocka_unit_test(nothing_else_is_the_key),
        cmocka_unit_test(depth_has_a_limit_and_one_clear_error),
        cmocka_unit_test(a_run_of_words_is_no_depth),
        cmocka_unit_test(size_has_a_limit),
        cmocka_unit_test(an_exploding_expression_is_an_error_and_no_answer),
        cmocka_unit_test(many_slow_texts_add_up),
        cmocka_unit_test(what_walks_in_vain_is_charged),
        cmocka_unit_test(threads_share_a_query),
        cmocka_unit_test(a_long_text_is_searched_whole),
        cmocka_unit_test(nuls_and_newlines_are_part_of_a_text),
        cmocka_unit_test(a_place_counts_characters_and_lines),
        cmocka_unit_test(an_error_repeats_no_control_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
