/* The topology that a text becomes, with every default; files that can't be read; and the time that a thousand stages take. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/unit/lang/findings.h"

static void before(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, POOLS HEAD
                  "decode riemann\nhandoff workers limit 64MiB sized reflect full block\nindex\nencode riemann\nreply\n}\n"
                  "expect {\ncpu(p.handoff)<5%\nwait( p.handoff )p99<20ms\n}\n");
    const struct weir_topology *t = &f.topology;
    assert_int_equal(f.rc, 0);
    assert_string_equal(t->name, "test");
    assert_int_equal(t->pool_count, 2);
    assert_string_equal(t->pools[0].name, "io");
    assert_true(t->pools[0].listens);
    assert_false(t->pools[1].listens);
    assert_int_equal(t->pools[1].threads, 2);
    assert_int_equal(t->pipeline_count, 1);
    assert_int_equal(t->pipelines[0].stage_count, 7);
    assert_int_equal(t->pipelines[0].way, 0);
    assert_int_equal(t->stage_count, 7);
    assert_int_equal(t->instance_count, 7);
    static const char *const names[] = { "p.listen", "p.frame", "p.decode", "p.handoff", "p.index", "p.encode", "p.reply" };
    static const enum weir_verb_kind verbs[] = { WEIR_LISTEN, WEIR_FRAME,  WEIR_DECODE, WEIR_HANDOFF,
                                                 WEIR_INDEX,  WEIR_ENCODE, WEIR_REPLY };
    static const uint32_t pools[] = { 0, 0, 0, 0, 1, 1, 0 };
    for (uint32_t i = 0; i < 7; i++) {
        assert_string_equal(t->stages[i].full_name, names[i]);
        assert_int_equal(t->stages[i].verb, verbs[i]);
        assert_int_equal(t->stages[i].pool, pools[i]);
        assert_int_equal(t->stages[i].finish_pool, i == 6 ? 1 : pools[i]);
        assert_int_equal(t->stages[i].target, WEIR_NONE);
        assert_string_equal(t->instances[i].name, names[i]);
        assert_int_equal(t->instances[i].stage, i);
        assert_int_equal(t->instances[i].way, 0);
    }
    assert_string_equal(t->stages[0].address, "127.0.0.1:5555");
    assert_int_equal(t->stages[1].max_bytes, 16 << 20);
    assert_int_equal(t->stages[2].max_bytes, 64 << 20);
    assert_int_equal(t->queue_count, 2);
    assert_string_equal(t->queues[0].name, "p.handoff");
    assert_int_equal(t->queues[0].kind, WEIR_QUEUE_HANDOFF);
    assert_int_equal(t->queues[0].stage, 3);
    assert_int_equal(t->stages[3].queue, 0);
    assert_int_equal(t->queues[0].from_pool, 0);
    assert_int_equal(t->queues[0].to_pool, 1);
    assert_int_equal(t->queues[0].limit_bytes, 64 << 20);
    assert_int_equal(t->queues[0].limit_items, (64 << 20) / 256);
    assert_false(t->queues[0].items_given);
    assert_int_equal(t->queues[0].sized, WEIR_SIZED_REFLECT);
    assert_int_equal(t->queues[0].full, WEIR_FULL_BLOCK);
    assert_string_equal(t->queues[1].name, "p.reply");
    assert_int_equal(t->queues[1].kind, WEIR_QUEUE_REPLY);
    assert_int_equal(t->stages[6].queue, 1);
    assert_int_equal(t->queues[1].from_pool, 1);
    assert_int_equal(t->queues[1].to_pool, 0);
    assert_int_equal(t->queues[1].limit_bytes, WEIR_REPLY_RING_BYTES);
    assert_int_equal(t->queues[1].limit_items, WEIR_REPLY_RING_ITEMS);
    assert_int_equal(t->way_count, 1);
    assert_string_equal(t->ways[0].name, "p");
    assert_int_equal(t->ways[0].listen_stage, 0);
    assert_true(t->ways[0].replies);
    assert_int_equal(t->expectation_count, 2);
    assert_string_equal(t->expectations[0].text, "cpu(p.handoff) < 5%");
    assert_string_equal(t->expectations[1].text, "wait(p.handoff) p99 < 20ms");
    findings_release(&f);
}

static void arguments(void **state)
{
    (void)state;
    struct findings f;
    findings_load(
        &f, POOLS HEAD
        "handoff workers full drop oldest items 7 limit 16MiB as in\ndecode riemann max 2MiB\nbusy 10us pause 3ms as work\n"
        "call \"sub/a b\\\\.c\" _fn as mine\ncall '/abs.c' g as theirs\nindex ttl 2min limit 9\n" TAIL);
    assert_int_equal(f.rc, 0);
    const struct weir_topology_stage *stages = f.topology.stages;
    const struct weir_topology_queue *queue = &f.topology.queues[0];
    assert_string_equal(queue->name, "p.in");
    assert_int_equal(queue->limit_items, 7);
    assert_true(queue->items_given);
    assert_int_equal(queue->sized, WEIR_SIZED_BYTES);
    assert_int_equal(queue->full, WEIR_FULL_DROP_OLDEST);
    assert_int_equal(stages[3].max_bytes, 2 << 20);
    assert_string_equal(stages[4].full_name, "p.work");
    assert_int_equal(stages[4].cpu_ns, 10000);
    assert_int_equal(stages[4].pause_ns, 3000000);
    assert_string_equal(stages[5].text, "dir/sub/a b\\.c");
    assert_string_equal(stages[5].symbol, "_fn");
    assert_string_equal(stages[6].text, "/abs.c");
    assert_true(stages[7].ttl_ns == 120000000000u);
    assert_int_equal(stages[7].limit, 9);
    findings_release(&f);
}

static void defaults(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, "pool io threads 1\npool w threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe length32 max 100B\n"
                      "handoff w limit 100B full reject\ndecode riemann\nindex\n" TAIL);
    assert_int_equal(f.topology.queues[0].limit_items, 1);
    findings_release(&f);
    findings_load(&f, "pool io threads 1\npool w threads 1\npipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe length32 max 100B\n"
                      "decode riemann\nhandoff w limit 1GiB full drop newest\n" TAIL);
    assert_int_equal(f.topology.queues[0].sized, WEIR_SIZED_ARENA);
    assert_int_equal(f.topology.queues[0].full, WEIR_FULL_DROP_NEWEST);
    assert_int_equal(f.topology.queues[0].limit_items, (1 << 30) / 256);
    findings_release(&f);
}

/* A tail stands before the listener in the file, and is left out; a reply without a handoff is finished where it listens. */
static void tails_are_left_out(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, "pipeline tail {\nindex\nhandoff w limit 64MiB full block\nreply\n}\npool w threads 1\npool io threads 1\n"
                      "pipeline p {\nlisten tcp 127.0.0.1:1 on io\nframe length32 max 100B\ndecode riemann\n" TAIL);
    assert_string_equal(weir_buffer_text(&f.text), "W105:tail");
    assert_int_equal(f.topology.pipeline_count, 1);
    assert_string_equal(f.topology.pipelines[0].name, "p");
    assert_int_equal(f.topology.stage_count, 5);
    assert_int_equal(f.topology.queue_count, 1);
    assert_int_equal(f.topology.queues[0].from_pool, 1);
    assert_int_equal(f.topology.queues[0].to_pool, 1);
    assert_int_equal(f.topology.stages[4].queue, 0);
    findings_release(&f);
}

static void several_listeners(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, SERVER
                  "pipeline q {\nlisten tcp [::1]:1 on io\nframe length32 max 100B\nhandoff workers limit 1KiB full reject\n"
                  "decode riemann\n" TAIL);
    assert_int_equal(f.rc, 0);
    assert_int_equal(f.topology.way_count, 2);
    assert_int_equal(f.topology.pipelines[1].way, 1);
    assert_int_equal(f.topology.ways[1].pipeline, 1);
    assert_int_equal(f.topology.ways[1].listen_stage, f.topology.pipelines[1].first_stage);
    assert_int_equal(f.topology.instances[f.topology.instance_count - 1].way, 1);
    assert_int_equal(f.topology.queue_count, 4);
    findings_release(&f);
}

static void nothing_on_error(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, SERVER "oops\n");
    assert_int_equal(f.rc, -EBADMSG);
    assert_int_equal(f.error.exit, WEIR_EXIT_USAGE);
    struct weir_topology zero;
    memset(&zero, 0, sizeof zero);
    assert_memory_equal(&f.topology, &zero, sizeof zero);
    findings_release(&f);
}

static int load_path(const char *path, struct weir_error *error)
{
    struct weir_arena arena;
    struct weir_topology topology;
    struct weir_diag_bag bag;
    weir_arena_init(&arena, 0, SIZE_MAX);
    weir_diag_bag_init(&bag);
    int rc = weir_lang_load(path, &arena, &topology, &bag, error);
    if (rc == 0)
        assert_string_equal(topology.name, "x");
    weir_diag_bag_release(&bag);
    weir_arena_release(&arena);
    return rc;
}

static void files(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-lang-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/x.weir", folder);
    struct weir_error error = WEIR_ERROR_INIT;
    assert_int_equal(load_path(path, &error), -ENOENT);
    assert_int_equal(error.exit, WEIR_EXIT_USAGE);
    assert_non_null(strstr(error.text, path));
    assert_int_equal(load_path(folder, &error), -EISDIR);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(SERVER, file);
    assert_int_equal(fclose(file), 0);
    struct weir_error untouched = WEIR_ERROR_INIT;
    assert_int_equal(load_path(path, &untouched), 0);
    assert_string_equal(untouched.text, "");
    assert_int_equal(chmod(path, 0), 0);
    if (geteuid() != 0)
        assert_int_equal(load_path(path, &error), -EACCES);
    assert_int_equal(truncate(path, ((off_t)16 << 20) + 1), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(load_path(path, &error), -EFBIG);
    unlink(path);
    rmdir(folder);
}

/* The limit of the design is 50 ms; here it only must not be quadratic, on a machine that others use too. */
static void a_thousand_stages(void **state)
{
    (void)state;
    struct weir_buffer text = WEIR_BUFFER_INIT;
    weir_buffer_puts(&text, POOLS HEAD HANDOFF "decode riemann\n");
    for (int i = 0; i < 994; i++)
        weir_buffer_printf(&text, "busy %dus as b%d\n", i, i);
    weir_buffer_puts(&text, TAIL "expect {\n");
    for (int i = 0; i < 994; i++)
        weir_buffer_printf(&text, "cpu(p.b%d) < 5%%\n", i);
    weir_buffer_puts(&text, "}\n");
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        struct findings f;
        uint64_t start = weir_clock_ns();
        findings_load(&f, weir_buffer_text(&text));
        uint64_t took = weir_clock_ns() - start;
        best = took < best ? took : best;
        assert_int_equal(f.topology.stage_count, 1000);
        assert_int_equal(f.topology.expectation_count, 994);
        findings_release(&f);
    }
    weir_buffer_release(&text);
    print_message("1,000 stages, 994 expectations: %.1f ms\n", (double)best / 1e6);
    assert_true(best < 50000000);
}

/* Two listeners and what one of them copies come into one tail; it hands off once for all, and answers each on its own. */
static void a_shared_tail(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, "pool io threads 1\npool io2 threads 1\npool workers threads 2\n"
                      "pipeline unused {\nindex\nreply\n}\n"
                      "pipeline core {\nhandoff workers limit 64MiB full reject\ndecode riemann\nencode riemann\nreply\n}\n"
                      "pipeline a {\nlisten tcp [::1]:0 on io\nframe length32 max 1MiB\nthen core\n}\n"
                      "pipeline b {\nlisten tcp [::1]:0 on io2\nframe length32 max 2MiB\nthen core\n}\n");
    const struct weir_topology *t = &f.topology;
    assert_int_equal(f.rc, 0);
    /* Those that listen, and then what they lead to. */
    assert_int_equal(t->pipeline_count, 3);
    assert_string_equal(t->pipelines[2].name, "core");
    assert_int_equal(t->pipelines[2].first_stage, 6);
    assert_int_equal(t->pipelines[2].way, WEIR_NONE);
    assert_int_equal(t->stage_count, 10);
    assert_int_equal(t->stages[2].target, 2);
    static const char *const names[] = { "a.listen", "a.frame", "a.then", "b.listen", "b.frame", "b.then",
                                         "core.handoff@(inside)", "core.decode@(inside)", "core.encode@(inside)", "core.reply@(inside)",
                                         "core.handoff@a", "core.decode@a", "core.encode@a", "core.reply@a",
                                         "core.handoff@b", "core.decode@b", "core.encode@b", "core.reply@b" };
    assert_int_equal(t->instance_count, 18);
    for (uint32_t i = 0; i < 18; i++) {
        assert_string_equal(t->instances[i].name, names[i]);
        assert_int_equal(t->instances[i].stage, i < 10 ? i : 6 + (i - 6) % 4);
        assert_int_equal(t->instances[i].way, i < 3 ? 0 : i < 6 ? 1 : i < 10 ? WEIR_NONE : (i - 10) / 4);
    }
    assert_int_equal(t->instances[10].pool, 0); /* each way pushes on its own pool, */
    assert_int_equal(t->instances[14].pool, 1);
    assert_int_equal(t->instances[15].pool, 2); /* and goes on where the queue leads to */
    /* One queue for all that hand off, one ring for each that is answered. */
    assert_int_equal(t->queue_count, 3);
    assert_string_equal(t->queues[0].name, "core.handoff");
    assert_int_equal(t->queues[0].way, WEIR_NONE);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(t->queues[1 + i].name, i ? "core.reply@b" : "core.reply@a");
        assert_int_equal(t->queues[1 + i].stage, 9);
        assert_int_equal(t->queues[1 + i].way, i);
        assert_int_equal(t->queues[1 + i].from_pool, 2);
        assert_int_equal(t->queues[1 + i].to_pool, i);
    }
    assert_int_equal(t->stages[9].queue, 1);
    findings_release(&f);
}

/* Of a tail that one way leads to each stage is there once, whatever is born inside. */
static void a_tail_of_one(void **state)
{
    (void)state;
    struct findings f;
    findings_load(&f, "pool io threads 1\npipeline a {\nlisten tcp [::1]:0 on io\nframe length32 max 1MiB\ndecode riemann\ntee log\nthen core\n}\n"
                      "pipeline core {\nencode riemann\nreply\n}\npipeline log {\nbatch 10 within 2s\nindex\ndrop\n}\n");
    const struct weir_topology *t = &f.topology;
    assert_int_equal(f.rc, 0);
    assert_int_equal(t->instance_count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        assert_string_equal(t->instances[i].name, t->stages[i].full_name);
        assert_int_equal(t->instances[i].way, 0);
    }
    assert_int_equal(t->queue_count, 1);
    assert_string_equal(t->queues[0].name, "core.reply");
    assert_int_equal(t->stages[7].limit, 10);
    assert_int_equal(t->stages[7].within_ns, 2000000000);
    findings_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_tail), cmocka_unit_test(a_tail_of_one),
        cmocka_unit_test(before),
        cmocka_unit_test(arguments),
        cmocka_unit_test(defaults),
        cmocka_unit_test(tails_are_left_out),
        cmocka_unit_test(several_listeners),
        cmocka_unit_test(nothing_on_error),
        cmocka_unit_test(files),
        cmocka_unit_test(a_thousand_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
