/* The canonical form: what it looks like, that it is reached in one step, and what is refused. */
#include "tests/unit/lang/findings.h"

static void expect_form(const char *text, const char *expected)
{
    for (int round = 0; round < 2; round++) {
        struct weir_buffer out = WEIR_BUFFER_INIT;
        struct weir_diag_bag bag;
        struct weir_error error = WEIR_ERROR_INIT;
        weir_diag_bag_init(&bag);
        const char *source = round ? expected : text;
        assert_int_equal(weir_lang_format_memory("x.weir", source, strlen(source), &out, &bag, &error), 0);
        assert_string_equal(weir_buffer_text(&out), expected);
        assert_int_equal(bag.count, 0);
        weir_diag_bag_release(&bag);
        weir_buffer_release(&out);
    }
}

static void spaces(void **state)
{
    (void)state;
    expect_form("", "");
    expect_form("\n\n \n", "");
    expect_form("\xef\xbb\xbfpool   io\tthreads  1", "pool io threads 1\n");
    expect_form("pool io threads 1\r\npool workers threads 2\r\n\r\n\r\npool x threads 1\r\n",
                "pool io      threads 1\npool workers threads 2\n\npool x threads 1\n");
    expect_form(
        "pool io threads 1\npipeline p {\n\nlisten tcp 127.0.0.1:1 on io\n\n\nframe length32 \\\n  max 1MiB\nhandoff io limit 1MiB full block\nreply\n\n}\nexpect {\n"
        "cpu( p )<5%or cpu(p.reply) mean >1% and cpu(pool io)<=1%\n}\n",
        "pool io threads 1\n\npipeline p {\n    listen  tcp 127.0.0.1:1 on io\n\n    frame   length32 max 1MiB\n    handoff io limit 1MiB full block\n"
        "    reply\n}\n\nexpect {\n    cpu(p) < 5% or cpu(p.reply) > 1% and cpu(pool io) <= 1%\n}\n");
}

static void clauses(void **state)
{
    (void)state;
    expect_form("pipeline p {\nhandoff w full drop  oldest sized arena items 5 limit 1MiB as h\n}\n",
                "pipeline p {\n    handoff w limit 1MiB items 5 sized arena full drop oldest as h\n}\n");
    expect_form("pipeline p {\nhandoff w full block\n}\n", "pipeline p {\n    handoff w full block\n}\n");
}

static void comments(void **state)
{
    (void)state;
    expect_form(
        "# head\n\n\n#tight  \npool io threads 1 # io\npool workers threads 2      # workers\n# of p\npipeline p { # open\n# first\nreply # 1\n"
        "listen tcp 127.0.0.1:1 on io # 2\n\n# last\n} # close\n# tail",
        "# head\n\n#tight\npool io      threads 1  # io\npool workers threads 2  # workers\n\n# of p\npipeline p {  # open\n    # first\n    reply                         # 1\n"
        "    listen tcp 127.0.0.1:1 on io  # 2\n\n    # last\n}  # close\n\n# tail\n");
    expect_form("# \xc3\xa9\xe2\x82\xac\n", "# \xc3\xa9\xe2\x82\xac\n");
}

/* What the checker refuses, and what isn't built, has a form all the same. */
static void whole_grammar(void **state)
{
    (void)state;
    expect_form(
        "process   \"redis\"\npool x matches \"a\" ,'b'\npipeline q {\nlisten  unix '/s' on x tls cert 'c' key 'k' client_ca 'd' allow 10.0.0.0/8   ::1/128 as l\n"
        "frame lines max 1KiB\ndecode graphite max 1KiB\nfilter 'a # b'\nbatch 10 within 1s\nforward riemann h:1 connections 1 in_flight 2\n"
        "store postgres 's' table t create connections 1 in_flight 2 on_loss retry\nbusy 1us pause 2us\ncall 'x.c' f\ntee r\nindex ttl 1s limit 2\nthen r\n}\n"
        "pipeline b {\nstage parse at f,  lib.so!g* # c\nqueue j push a pop b depth x->y\n}\n",
        "process \"redis\"\npool x matches \"a\", 'b'\n\npipeline q {\n    listen  unix '/s' on x tls cert 'c' key 'k' client_ca 'd' allow 10.0.0.0/8 ::1/128 as l\n"
        "    frame   lines max 1KiB\n    decode  graphite max 1KiB\n    filter  'a # b'\n    batch   10 within 1s\n    forward riemann h:1 connections 1 in_flight 2\n"
        "    store   postgres 's' table t create connections 1 in_flight 2 on_loss retry\n    busy    1us pause 2us\n    call    'x.c' f\n    tee     r\n"
        "    index   ttl 1s limit 2\n    then    r\n}\n\npipeline b {\n    stage parse at f, lib.so!g*  # c\n    queue j push a pop b depth x->y\n}\n");
}

static void refused(void **state)
{
    (void)state;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_diag_bag bag;
    struct weir_error error = WEIR_ERROR_INIT;
    weir_diag_bag_init(&bag);
    static const char text[] = "pool io threads 1\npipelin\n";
    assert_int_equal(weir_lang_format_memory("x.weir", text, sizeof text - 1, &out, &bag, &error), -EBADMSG);
    assert_int_equal(out.length, 0);
    assert_int_equal(bag.error_count, 1);
    weir_diag_bag_release(&bag);
    weir_buffer_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces),        cmocka_unit_test(clauses), cmocka_unit_test(comments),
        cmocka_unit_test(whole_grammar), cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
