/* The C file of a topology that is built here by hand; that it compiles and serves is for the system tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/compile/command.h"
#include "pipeline_dsl/compile/compile.h"

static struct weir_topology_pool pools[] = { { "io", 2, true }, { "workers", 3, false } };
static struct weir_topology_pipeline pipelines[] = { { "p", 0, 7, 0 } };
static struct weir_topology_queue queues[] = {
    { .name = "p.handoff", .kind = WEIR_QUEUE_HANDOFF, .stage = 2, .from_pool = 0, .to_pool = 1, .limit_bytes = 1048576,
      .limit_items = 4096, .sized = WEIR_SIZED_BYTES, .full = WEIR_FULL_DROP_OLDEST },
    { .name = "p.reply", .kind = WEIR_QUEUE_REPLY, .stage = 6, .from_pool = 1, .to_pool = 0, .limit_bytes = WEIR_REPLY_RING_BYTES,
      .limit_items = WEIR_REPLY_RING_ITEMS },
};
static struct weir_topology_way ways[] = { { "p", 0, 0, true } };
static struct weir_topology_stage stages[7];
static struct weir_topology_instance instances[7];
static struct weir_topology topology;

static int set_up(void **state)
{
    (void)state;
    static const struct {
        const char *name, *full;
        enum weir_verb_kind verb;
        uint32_t pool, queue;
    } rows[] = {
        { "listen", "p.listen", WEIR_LISTEN, 0, WEIR_NONE }, { "frame", "p.frame", WEIR_FRAME, 0, WEIR_NONE },
        { "handoff", "p.handoff", WEIR_HANDOFF, 0, 0 },      { "decode", "p.decode", WEIR_DECODE, 1, WEIR_NONE },
        { "check", "p.check", WEIR_CALL, 1, WEIR_NONE },     { "encode", "p.encode", WEIR_ENCODE, 1, WEIR_NONE },
        { "reply", "p.reply", WEIR_REPLY, 0, 1 },
    };
    for (uint32_t i = 0; i < 7; i++) {
        stages[i] = (struct weir_topology_stage){ .name = rows[i].name, .full_name = rows[i].full, .verb = rows[i].verb, .pool = rows[i].pool,
                                                  .finish_pool = rows[i].verb == WEIR_REPLY ? 1 : rows[i].pool, .queue = rows[i].queue };
        instances[i] = (struct weir_topology_instance){ rows[i].full, i, 0, rows[i].pool };
    }
    stages[0].address = "127.0.0.1:5555";
    stages[1].max_bytes = 65536;
    stages[3].max_bytes = 67108864;
    stages[4].text = "a */ #error comment.c";
    stages[4].symbol = "p__decode"; /* a name that a stage has too */
    topology = (struct weir_topology){ .name = "x", .pools = pools, .pipelines = pipelines, .stages = stages, .queues = queues, .ways = ways,
                                       .instances = instances, .pool_count = 2, .pipeline_count = 1, .stage_count = 7, .queue_count = 2,
                                       .way_count = 1, .instance_count = 7 };
    return 0;
}

static void expect(const struct weir_buffer *text, const char *part)
{
    if (!strstr(weir_buffer_text(text), part))
        fail_msg("the C file lacks: %s", part);
}

static void segments_end_at_handoffs(void **state)
{
    (void)state;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_compile_emit(&topology, &out, &error), 0);
    expect(&out, "static void p__segment__1(struct weir_thread *thread, struct weir_item *item)\n{\n    p__handoff(thread, item);\n}");
    /* What the server tells about itself enters behind `decode`. */
    expect(&out, "{\n    if (p__decode(thread, item) != WEIR_NEXT)\n        return;\n    p__behind__decode(thread, item);\n}");
    expect(&out, "static void p__behind__decode(struct weir_thread *thread, struct weir_item *item)\n{\n"
                 "    if (p__check(thread, item) != WEIR_NEXT)\n        return;\n"
                 "    if (p__encode(thread, item) != WEIR_NEXT)\n        return;\n    p__reply(thread, item);\n}");
    expect(&out, ".self_source = &sources[SOURCE_p__decode]");
    expect(&out, ".full = WEIR_FULL_DROP_OLDEST,\n        .run = p__segment__2, .run_stage = ID_p__decode,");
    expect(&out, ".run = p__segment__1, .handoff_queue = QUEUE_p__handoff,");
    expect(&out, "SHARDS = 2");
    expect(&out, "__asm__(\"p__decode\")");
    assert_null(strstr(out.data, "a */ #error"));
    weir_buffer_release(&out);
}

/* `a` and `b` listen and go on in `core`, whose copies go to `log`, which only `core` leads to. */
static struct weir_topology shared_tail(void)
{
    static struct weir_topology_pipeline lines[] = { { "a", 0, 3, 0 }, { "b", 3, 3, 1 }, { "core", 6, 3, WEIR_NONE }, { "log", 9, 1, WEIR_NONE } };
    static struct weir_topology_way two[] = { { "a", 0, 0, true }, { "b", 1, 3, true } };
    static struct weir_topology_stage all[10];
    static struct weir_topology_instance runs[6 + 3 * 3 + 3];
    static struct weir_topology_queue rings[] = {
        { .name = "core.reply@a", .kind = WEIR_QUEUE_REPLY, .stage = 8, .way = 0 },
        { .name = "core.reply@b", .kind = WEIR_QUEUE_REPLY, .stage = 8, .way = 1 },
    };
    static const enum weir_verb_kind verbs[] = { WEIR_LISTEN, WEIR_FRAME, WEIR_THEN, WEIR_LISTEN, WEIR_FRAME, WEIR_THEN,
                                                 WEIR_DECODE, WEIR_TEE,   WEIR_REPLY, WEIR_DROP };
    for (uint32_t i = 0; i < 10; i++)
        all[i] = (struct weir_topology_stage){ .name = weir_verb_name(verbs[i]), .full_name = weir_verb_name(verbs[i]), .verb = verbs[i],
                                               .pipeline = i < 3 ? 0 : i < 6 ? 1 : i < 9 ? 2 : 3, .queue = i == 8 ? 0 : WEIR_NONE,
                                               .target = verbs[i] == WEIR_THEN ? 2 : verbs[i] == WEIR_TEE ? 3 : WEIR_NONE,
                                               .address = "127.0.0.1:0", .max_bytes = 4096 };
    for (uint32_t i = 0; i < 18; i++) {
        uint32_t run = i < 15 ? (i - 6) / 3 : i - 15;
        runs[i] = (struct weir_topology_instance){ "x", i < 6 ? i : i < 15 ? 6 + (i - 6) % 3 : 9, i < 6 ? i / 3 : run ? run - 1 : WEIR_NONE, 0 };
    }
    return (struct weir_topology){ .name = "x", .pools = pools, .pipelines = lines, .stages = all, .queues = rings, .ways = two,
                                   .instances = runs, .pool_count = 2, .pipeline_count = 4, .stage_count = 10, .queue_count = 2,
                                   .way_count = 2, .instance_count = 18 };
}

static void a_shared_tail_counts_by_way_in(void **state)
{
    (void)state;
    struct weir_topology tail = shared_tail();
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(weir_compile_emit(&tail, &out, &error), 0);
    expect(&out, "ID_core__decode,\n    ID_core__tee,\n    ID_core__reply,\n    ID_core__ways__end = ID_core__decode + 8,");
    expect(&out, "lanes__core[WAYS + 1] = { 3, 6, };\nstatic weir_driver core__segment__1;");
    expect(&out, "lanes__log[WAYS + 1] = { 1, 2, };");
    /* The listeners' own stages have constant ids. */
    expect(&out, "weir_item_enter(thread, item, ID_a__then);\n    return weir_stage_then(thread, item, lanes__core[item->way_index]);");
    expect(&out, "    if (a__then(thread, item) != WEIR_NEXT)\n        return;\n    core__segment__1(thread, item);\n}");
    expect(&out, "weir_item_enter(thread, item, ID_core__decode + item->lane);\n    return weir_stage_decode(thread, item, ID_core__decode + item->lane);");
    expect(&out, "weir_stage_tee(thread, item, &sources[SOURCE_core__tee], lanes__log[item->way_index]);");
    expect(&out, "[SOURCE_core__tee] = { .name = \"tee\", .run = log__segment__1, .run_stage = ID_log__drop,");
    /* Each answers from a ring of its own. */
    expect(&out, ".reply_stage = ID_core__reply + 3, .reply_queue = QUEUE_core__reply__a, .send = core__reply__send,");
    expect(&out, ".reply_stage = ID_core__reply + 6, .reply_queue = QUEUE_core__reply__b, .send = core__reply__send,");
    weir_buffer_release(&out);
}

static void the_same_topology_gives_the_same_file(void **state)
{
    (void)state;
    struct weir_buffer one = WEIR_BUFFER_INIT, two = WEIR_BUFFER_INIT;
    assert_int_equal(weir_compile_emit(&topology, &one, NULL), 0);
    assert_int_equal(weir_compile_emit(&topology, &two, NULL), 0);
    assert_string_equal(one.data, two.data);
    weir_buffer_release(&one);
    weir_buffer_release(&two);
}

/* Whatever ends a batch, its carrier goes on in a driver of its own; the one that leads to it doesn't. */
static void a_batch_goes_on_by_itself(void **state)
{
    (void)state;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    stages[4] = (struct weir_topology_stage){ .name = "batch", .full_name = "p.batch", .verb = WEIR_BATCH, .pool = 1, .finish_pool = 1,
                                              .queue = WEIR_NONE, .limit = 100, .within_ns = 2000000000 };
    assert_int_equal(weir_compile_emit(&topology, &out, &error), 0);
    expect(&out, "static weir_driver p__behind__batch;\nstatic const struct weir_batch batch__p__batch = { .events = 100u, "
                 ".within_ns = 2000000000u, .run = p__behind__batch };");
    expect(&out, "weir_stage_batch(thread, item, &batch__p__batch);");
    expect(&out, "    p__batch(thread, item);\n}");
    expect(&out, "static void p__behind__batch(struct weir_thread *thread, struct weir_item *item)\n{\n    if (p__encode(thread, item) != WEIR_NEXT)");
    weir_buffer_release(&out);
}

static void a_server_needs_a_way_in(void **state)
{
    (void)state;
    struct weir_buffer out = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    topology.way_count = 0;
    assert_true(weir_compile_emit(&topology, &out, &error) < 0);
    assert_int_equal(error.exit, WEIR_EXIT_USAGE);
    assert_int_equal(out.length, 0);
    weir_buffer_release(&out);
}

static void a_command_keeps_its_words_and_its_output(void **state)
{
    (void)state;
    struct weir_command command = WEIR_COMMAND_INIT;
    struct weir_buffer log = WEIR_BUFFER_INIT;
    weir_command_add_words(&command, "  sh\t-c ");
    weir_command_add(&command, "echo \"$0\" \"$1\"; echo no >&2; exit 7");
    weir_command_add_words(&command, "one two");
    assert_int_equal(command.count, 5);
    assert_int_equal(weir_command_run(&command, &log), 7);
    assert_string_equal(log.data, "one two\nno\n");
    weir_command_release(&command);
    weir_buffer_clear(&log);
    weir_command_add(&command, "/nonexistent/compiler");
    assert_int_equal(weir_command_run(&command, &log), -2);
    weir_command_release(&command);
    weir_buffer_release(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(segments_end_at_handoffs, set_up, NULL),
        cmocka_unit_test(a_shared_tail_counts_by_way_in),
        cmocka_unit_test_setup_teardown(the_same_topology_gives_the_same_file, set_up, NULL),
        cmocka_unit_test_setup_teardown(a_batch_goes_on_by_itself, set_up, NULL),
        cmocka_unit_test_setup_teardown(a_server_needs_a_way_in, set_up, NULL),
        cmocka_unit_test(a_command_keeps_its_words_and_its_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
