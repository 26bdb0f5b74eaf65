/* What the grammar refuses, by code and place; and that no input is too deep, too long or too odd for an answer. */
#include <stdlib.h>

#include "tests/unit/lang/findings.h"

static void text(void **state)
{
    (void)state;
    struct findings findings;
    static const char nul[] = "pool io threads 1\n\0pool";
    findings_load_bytes(&findings, nul, sizeof nul - 1);
    assert_int_equal(findings.bag.error_count, 1);
    assert_int_equal(findings.bag.diags[0].code, WEIR_E001_NUL_BYTE);
    assert_int_equal(findings.bag.diags[0].span.offset, 18);
    findings_release(&findings);
    expect_findings("\xff\xfe", "E002:\xff");
    expect_findings("# caf\xe9\n", "E002:\xe9");
    expect_findings("# \xed\xa0\x80 surrogate\n", "E002:\xed");
    expect_findings("# \xf4\x90\x80\x80 beyond\n", "E002:\xf4");
    expect_findings("# \xc0\xaf overlong\n", "E002:\xc0");
    expect_findings(SERVER "pool é threads 1\n", "E003:é");
    expect_findings(SERVER "pool a; threads 1\n", "E003:;");
    expect_findings(SERVER "pool a \\ threads 1\n", "E003:\\");
    expect_findings(SERVER "\f\n", "E003:\f");
    expect_findings(SERVER_WITH("call “a.c” f\n", ""), "E003:“");
    expect_findings(SERVER_WITH("call 'a.c f\n", ""), "E004:'a.c f");
    expect_findings(SERVER_WITH("call \"a.c\\\" f\n", ""), "E004:\"a.c\\\" f");
    expect_findings(SERVER_WITH("call \"a\\qc\" f\n", ""), "E005:\\q");
}

static void ends_of_lines(void **state)
{
    (void)state;
    /* CRLF, tabs, a byte order mark, UTF-8 in comments, no final newline, continued lines: all the same server. */
    expect_findings(
        "\xef\xbb\xbf"
        "pool io threads 1\r\npipeline p {\r\n\tlisten\ttcp 127.0.0.1:1\ton io # \xe2\x82\xac\r\n\r\n\tframe length32 \\\r\n max 1MiB\r\n"
        "decode riemann\r\nencode riemann\r\nreply\r\n}",
        "");
    expect_findings(
        "pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe \\\n\\\n length32 max \\ \t\n 1MiB\ndecode riemann\n"
        "encode riemann\nreply # done \\\n}\n# end",
        "");
    expect_findings("pool io threads 1\rpool a threads 1\n", "E003:\r");
}

static void empty(void **state)
{
    (void)state;
    expect_findings("", "E022:");
    expect_findings("\n\n  \t\n", "E022:");
    expect_findings("# nothing", "E022:");
    expect_findings("\xef\xbb\xbf", "E022:");
    expect_findings("pool io threads 1", "E022:pool io threads 1");
}

static void words(void **state)
{
    (void)state;
    expect_findings(SERVER "foo bar\n", "E011:foo");
    expect_findings(SERVER "pipelin q {\nreply\n}\n", "E011:pipelin");
    expect_findings("listen tcp 127.0.0.1:1 on io\nframe length32 max 1B\nreply\n", "E011:listen");
    expect_findings(SERVER "blob x {\nreply\n}\n", "E011:blob");
    expect_findings(SERVER_WITH("bsy 1us\n", ""), "E012:bsy");
    expect_findings(SERVER_WITH("7\n", ""), "E010:7");
    expect_findings(SERVER_WITH("index index\n", ""), "E010:index");
    expect_findings(SERVER_WITH("index limit 1 ttl 1s\n", ""), "E010:ttl");
    expect_findings(SERVER_WITH("busy\n", ""), "E010:");
    expect_findings(SERVER_WITH("call a.c f\n", ""), "E010:a");
    expect_findings(SERVER_WITH("call '' f\n", ""), "E010:''");
    expect_findings(SERVER_WITH("call 'a.c'\n", ""), "E010:");
    expect_findings(SERVER_WITH("call 'a.c' while\n", ""), "E014:while");
    expect_findings(SERVER_WITH("handoff workers limit 1GiB full drop as h2\n", ""), "E010:as");
    expect_findings(SERVER_WITH("handoff workers limit 1GiB full drop last as h2\n", ""), "E010:last");
    expect_findings(SERVER_WITH("handoff workers limt 1GiB full block as h2\n", ""), "E010:limt");
    expect_findings(SERVER_WITH("index as\n", ""), "E010:");
    expect_findings(SERVER "pool x\n", "E010:");
    expect_findings(SERVER "pool x matches y\n", "E010:y");
    expect_findings("pool io threads 1\npipeline p {\nlisten sctp 127.0.0.1:1 on io\nreply\n}\n", "E010:sctp");
    expect_findings("pool io threads 1\npipeline p {\nlisten tcp\nreply\n}\n", "E010:");
    expect_findings("pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 io\nreply\n}\n", "E010:io");
}

static void names(void **state)
{
    (void)state;
    expect_findings(SERVER "pool a__b threads 1\n", "E014:__");
    expect_findings(SERVER "pool _a threads 1\n", "E014:_a");
    expect_findings(SERVER "pool 2a threads 1\n", "E014:2a");
    expect_findings(SERVER "pool 'a' threads 1\n", "E014:'a'");
    expect_findings(SERVER_WITH("index as a__b\n", ""), "E014:__");
#define N63 "a23456789012345678901234567890123456789012345678901234567890123"
    expect_findings(SERVER_WITH("index as " N63 "\n", ""), "");
    expect_findings(SERVER_WITH("index as " N63 "4\n", ""), "E014:" N63 "4");
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        const char *line, *expected;
    } rows[] = {
        { "busy 10", "E016:10" },
        { "busy 10 us", "E016:10" },
        { "busy 10sec", "E016:sec" },
        { "busy 1.5us", "E016:1.5us" },
        { "busy us", "E010:us" },
        { "busy 18446744073709551615ns", "" },
        { "busy 18446744073709551616ns", "E017:18446744073709551616ns" },
        { "busy 5124096h", "E017:5124096h" },
        { "busy 5124095h", "" },
        { "busy -1us", "E017:-" },
        { "busy 1us pause 1", "E016:1" },
        { "index ttl 0s", "E017:ttl 0s" },
        { "index limit 0", "E017:0" },
        { "index limit 5x", "E017:5x" },
        { "index limit 4294967296", "E017:4294967296" },
        { "index limit 4294967295", "" },
        { "handoff workers limit 64MB full block as h", "E015:MB" },
        { "handoff workers limit 64 full block as h", "E015:64" },
        { "handoff workers limit 64 MiB full block as h", "E015:64" },
        { "handoff workers limit 1.5GiB full block as h", "E015:1.5GiB" },
        { "handoff workers limit 17179869184GiB full block as h", "E017:17179869184GiB" },
        { "handoff workers limit 1GiB items 0 full block as h", "E017:0" },
        { "handoff workers limit 1GiB items 99999999999999999999999 full block as h", "E017:99999999999999999999999" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char source[1024], expected[256];
        snprintf(source, sizeof source, SERVER_WITH("%s\n", ""), rows[i].line);
        /* A handoff that parses goes to the pool it is in. */
        snprintf(expected, sizeof expected, "%s", rows[i].expected);
        if (strncmp(rows[i].line, "handoff", 7) == 0)
            snprintf(expected, sizeof expected, "E060:workers %s", rows[i].expected);
        struct findings findings;
        findings_load(&findings, source);
        const char *got = weir_buffer_text(&findings.text);
        if (strcmp(got, expected) != 0 && strcmp(got, rows[i].expected) != 0)
            fail_msg("'%s': got '%s', expected '%s'", rows[i].line, got, rows[i].expected);
        findings_release(&findings);
    }
    expect_findings(SERVER "pool x threads 0\n", "E017:0");
    expect_findings(SERVER "pool x threads 1025\n", "E017:1025");
    expect_findings(SERVER "pool x threads 2MiB\n", "E017:2MiB");
    expect_findings(
        "pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe length32 max 2GiB\ndecode riemann\n" TAIL,
        "E017:2GiB");
    expect_findings("pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe length32 max 0B\ndecode riemann\n" TAIL,
                    "E017:0B");
    expect_findings(
        "pool io threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe length32 max 1B\ndecode riemann max 0B\n" TAIL,
        "E017:0B");
}

static void braces(void **state)
{
    (void)state;
    expect_findings(POOLS HEAD HANDOFF "decode riemann\n", "E019:pipeline p {");
    expect_findings(SERVER "}\n", "E019:}");
    expect_findings(SERVER "}\n}\n}\n", "E019:}");
    expect_findings(POOLS HEAD "pipeline q {\nreply\n}\n", "E019:pipeline");
    expect_findings(POOLS HEAD "expect {\n}\n", "E019:expect");
    expect_findings(POOLS "pipeline p\nlisten tcp 127.0.0.1:1 on io\n}\n", "E010:");
    expect_findings(POOLS "pipeline {\nlisten tcp 127.0.0.1:1 on io\n}\n", "E010:{");
    expect_findings(POOLS HEAD HANDOFF "decode riemann\nencode riemann\nreply }\n", "E010:}");
    expect_findings(SERVER "pipeline q { reply }\n", "E010:reply");
}

/* A text of `count` copies of `piece`. */
static char *many(const char *piece, size_t count)
{
    size_t length = strlen(piece);
    char *all = malloc(length * count + 1);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * length, piece, length);
    all[length * count] = '\0';
    return all;
}

static void extremes(void **state)
{
    (void)state;
    static const struct {
        const char *piece;
        size_t count;
        enum weir_code code;
        size_t errors;
    } rows[] = {
        { "pipeline a {\n", 100000, WEIR_E019_BRACES, 1 },
        { "{", 1000000, WEIR_E011_UNKNOWN_WORD, 1 },
        { "((((", 1000000, WEIR_E011_UNKNOWN_WORD, 1 },
        { "# comment\n", 1000000, WEIR_E022_EMPTY_FILE, 1 },
        { "pool a threads 1\n", 600000, WEIR_E030_NAME_TAKEN, 600000 },
        { "\\\n", 1000000, WEIR_E022_EMPTY_FILE, 1 },
        { "\"", 10000001, WEIR_E011_UNKNOWN_WORD, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *source = many(rows[i].piece, rows[i].count);
        struct findings findings;
        findings_load(&findings, source);
        assert_int_equal(findings.rc, -EBADMSG);
        assert_int_equal(findings.bag.diags[0].code, rows[i].code);
        assert_int_equal(findings.bag.error_count, rows[i].errors);
        assert_true(findings.bag.count <= WEIR_DIAG_MOST);
        findings_release(&findings);
        free(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text),  cmocka_unit_test(ends_of_lines), cmocka_unit_test(empty),  cmocka_unit_test(words),
        cmocka_unit_test(names), cmocka_unit_test(numbers),       cmocka_unit_test(braces), cmocka_unit_test(extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
