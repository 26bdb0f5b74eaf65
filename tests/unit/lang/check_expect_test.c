/* Expectations: what may be asked of what, in which unit; and the same against a topology that exists. */
#include "tests/unit/lang/findings.h"

static void expect_one(const char *line, const char *expected)
{
    struct weir_buffer text = WEIR_BUFFER_INIT;
    weir_buffer_printf(&text, SERVER_WITH("index\n", "expect {\n%s\n}\n"), line);
    expect_findings(weir_buffer_text(&text), expected);
    weir_buffer_release(&text);
}

static void good(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "cpu(p) < 5%",
        "cpu(p.index) < 5%",
        "cpu(pool io) >= 0.5%",
        "cpu(p.handoff.size) < 5%",
        "cpu(p.reply.pop) < 5%",
        "cpu(p.index) mean < 5%",
        "under(p.index) < 5%",
        "wait(p.handoff) < 1.5ms",
        "wait(p.reply) p999 < 1h",
        "wakeup(p.handoff) p50 < 20us",
        "depth(p.handoff) max < 10",
        "depth(p.handoff) p90 < 10MiB",
        "fill(p.handoff) p99 <= 100%",
        "service(p.index) p99 < 20us",
        "throughput(p) > 1000/s",
        "throughput(p.index) > 0.5/s",
        "starved(pool workers) < 5%",
        "drops(p.handoff) <= 0",
        "drops(p) < 1%",
        "drops(p) < 10/s",
        "cpu(p) < 5% and cpu(p) < 6% or cpu(p) < 7% and cpu(p) < 8%",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_one(lines[i], "");
}

static void grammar(void **state)
{
    (void)state;
    expect_one("cpy(p) < 5%", "E010:cpy");
    expect_one("cpu p < 5%", "E010:p");
    expect_one("cpu(p < 5%", "E010:<");
    expect_one("cpu() < 5%", "E010:)");
    expect_one("cpu(p) p95 < 5%", "E010:p95");
    expect_one("cpu(p) = 5%", "E003:=");
    expect_one("cpu(p) < x", "E010:x");
    expect_one("cpu(p) < 5% cpu(p)", "E010:cpu");
    expect_one("cpu(p) < 5% and", "E010:");
    expect_one("cpu(p.handoff.size.x) < 5%", "E010:.");
    expect_one("cpu(p.handoff.sise) < 5%", "E010:sise");
    expect_one("wait(p.handoff) < 5msec", "E081:msec");
    expect_one("throughput(p) > 5/m", "E081:/m");
    expect_one("throughput(p) > 9999999999999999999/s", "E017:9999999999999999999/s");
}

static void references(void **state)
{
    (void)state;
    expect_one("cpu(q) < 5%", "E033:q");
    expect_one("cpu(workers) < 5%", "E033:workers");
    expect_one("cpu(index) < 5%", "E033:index");
    expect_one("cpu(p.indx) < 5%", "E033:indx");
    expect_one("cpu(pool workes) < 5%", "E032:workes");
    expect_one("wait(p.index) < 5ms", "E080:p.index");
    expect_one("wait(p) < 5ms", "E080:p");
    expect_one("wait(pool workers) < 5ms", "E080:pool workers");
    expect_one("starved(p.index) < 5%", "E080:p.index");
    expect_one("service(p) < 5ms", "E080:p");
    expect_one("throughput(pool io) > 5/s", "E080:pool io");
    expect_one("drops(p.reply) <= 0", "E080:p.reply");
    expect_one("cpu(p.index.push) < 5%", "E080:push");
    expect_one("cpu(p.reply.size) < 5%", "E080:size");
    expect_one("wait(p.handoff.push) < 5ms", "E080:push");
    expect_findings(SERVER "pipeline t {\nindex\nreply\n}\nexpect {\ncpu(t.index) < 5%\n}\n", "W105:t E084:t.index");
}

static void values(void **state)
{
    (void)state;
    expect_one("cpu(p) < 5", "E081:5");
    expect_one("cpu(p) < 5ms", "E081:5ms");
    expect_one("wait(p.handoff) < 5%", "E081:5%");
    expect_one("depth(p.handoff) < 5ms", "E081:5ms");
    expect_one("throughput(p) > 5", "E081:5");
    expect_one("drops(p) < 5ms", "E081:5ms");
    expect_one("cpu(p) < 101%", "E083:101%");
    expect_one("cpu(p) p99 < 5%", "E082:p99");
    expect_one("throughput(p) max > 5/s", "E082:max");
}

static void terms(void **state)
{
    (void)state;
    struct findings f;
    findings_load(
        &f, SERVER
        "expect {\ncpu(p.handoff.size)<0.5% and wait(p . handoff) mean >= 1.5ms or depth(p.reply) p999 > 2KiB or cpu(pool io) <= 7% # why\n}\n");
    assert_int_equal(f.topology.expectation_count, 1);
    const struct weir_topology_expectation *e = &f.topology.expectations[0];
    assert_string_equal(
        e->text, "cpu(p.handoff.size) < 0.5% and wait(p.handoff) >= 1.5ms or depth(p.reply) p999 > 2KiB or cpu(pool io) <= 7%");
    assert_int_equal(e->term_count, 4);
    const struct weir_topology_term *t = e->terms;
    assert_int_equal(t[0].metric, WEIR_METRIC_CPU);
    assert_string_equal(f.topology.stages[t[0].stage].full_name, "p.handoff");
    assert_int_equal(t[0].part, WEIR_PART_SIZE);
    assert_int_equal(t[0].pool, WEIR_NONE);
    assert_int_equal(t[0].pipeline, WEIR_NONE);
    assert_true(t[0].value > 0.00499999 && t[0].value < 0.00500001);
    assert_int_equal(t[0].unit, WEIR_SHARE);
    assert_int_equal(t[0].group, 0);
    assert_int_equal(t[1].group, 0);
    assert_true(t[1].value == 1500000);
    assert_int_equal(t[1].unit, WEIR_NS);
    assert_int_equal(t[1].comparison, WEIR_GE);
    assert_int_equal(t[2].group, 1);
    assert_int_equal(t[2].statistic, WEIR_P999);
    assert_true(t[2].value == 2048);
    assert_int_equal(t[3].group, 2);
    assert_int_equal(t[3].pool, 0);
    assert_int_equal(t[3].stage, WEIR_NONE);
    findings_release(&f);
}

/* What `weir check --expect` is given. */
static void against_a_topology(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, SERVER);
    static const struct {
        const char *text, *expected; /* the code, or the canonical text */
        int rc;
    } rows[] = {
        { "cpu( p.handoff )<5%", "cpu(p.handoff) < 5%", 0 },
        { "wait(p.handoff) p99 < 20ms and cpu(pool io) < 50%", "wait(p.handoff) p99 < 20ms and cpu(pool io) < 50%", 0 },
        { "cpu(p.hand) < 5%", "E033", -EBADMSG },
        { "", "E010", -EBADMSG },
        { "cpu(p) < 5%\ncpu(p) < 6%", "E010", -EBADMSG },
        { "cpu(p) < 5% # why", "cpu(p) < 5%", 0 },
        { "wait(p) < 5%", "E080", -EBADMSG },
        { "cpu(\xff) < 5%", "E002", -EBADMSG },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct weir_topology_expectation expectation;
        struct weir_diag_bag bag;
        struct weir_error error = WEIR_ERROR_INIT;
        weir_diag_bag_init(&bag);
        int rc = weir_lang_expectation(rows[i].text, &f.topology, &f.arena, &expectation, &bag, &error);
        assert_int_equal(rc, rows[i].rc);
        assert_string_equal(rc ? weir_code_name(bag.diags[0].code) : expectation.text, rows[i].expected);
        weir_diag_bag_release(&bag);
    }
    findings_release(&f);
}

/* The pool of a stage's own threads is called like the stage, and is in the topology of a profile. */
static void a_stage_with_slots_is_no_pool(void **state)
{
    (void)state;
    static const char *const texts[] = { "wait(p.forward) p99 < 1ms", "fill(p.forward) < 50%", "depth(p.forward) < 2", "cpu(p.forward) < 5%",
                                         "starved(pool w) < 10%" };
    struct findings f;
    findings_load(&f, "pool io threads 1\npool w threads 1\npipeline p {\n listen tcp 127.0.0.1:0 on io\n frame length32 max 1KiB\n"
                      " handoff w limit 1MiB full block\n decode riemann\n forward riemann 127.0.0.1:5555 connections 1 in_flight 2\n"
                      " encode riemann\n reply\n}\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct weir_topology_expectation expectation;
        struct weir_diag_bag bag;
        struct weir_error error = WEIR_ERROR_INIT;
        weir_diag_bag_init(&bag);
        assert_int_equal(weir_lang_expectation(texts[i], &f.topology, &f.arena, &expectation, &bag, &error), 0);
        assert_string_equal(expectation.text, texts[i]);
        weir_diag_bag_release(&bag);
    }
    findings_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good),   cmocka_unit_test(grammar), cmocka_unit_test(references),
        cmocka_unit_test(values), cmocka_unit_test(terms),   cmocka_unit_test(against_a_topology),
        cmocka_unit_test(a_stage_with_slots_is_no_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
