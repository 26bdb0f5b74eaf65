/* Contracts that lie about themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracer/target.h"

static struct weir_contract good(void)
{
    return (struct weir_contract){
        .magic = WEIR_CONTRACT_MAGIC,
        .major = WEIR_CONTRACT_MAJOR,
        .minor = WEIR_CONTRACT_MINOR,
        .size = sizeof(struct weir_contract),
        .topology = 0x1001,
        .topology_bytes = 100,
        .tag_count = 16,
        .threads = 0x10000,
        .cells = 0x20000,
        .logs = 0x40000,
        .queues = 0x80000,
        .ways = 0x90000,
        .queue_count = 2,
        .way_count = 1,
        .shards = 1,
    };
}

static void check(struct weir_contract contract, int exit)
{
    struct weir_error error = WEIR_ERROR_INIT;
    int rc = weir_target_check_contract(&contract, &error);
    assert_int_equal(rc < 0, exit != 0);
    assert_int_equal(error.exit, exit);
    assert_int_equal(error.text[0] != 0, exit != 0);
}

static void good_ones_pass(void **state)
{
    (void)state;
    check(good(), 0);
    struct weir_contract contract = good();
    contract.minor = 9; /* later minors only add */
    contract.size += 64;
    check(contract, 0);
    contract.queue_count = contract.way_count = 0;
    contract.queues = contract.ways = 0;
    check(contract, 0);
}

#define BAD(field, value)                         \
    do {                                          \
        struct weir_contract contract = good();   \
        contract.field = (value);                 \
        check(contract, WEIR_EXIT_CANNOT);        \
    } while (0)

static void bad_ones_are_refused(void **state)
{
    (void)state;
    BAD(magic, 0);
    BAD(major, 2);
    BAD(size, 8);
    BAD(topology, 0);
    BAD(topology, UINT64_MAX - 5);
    BAD(topology_bytes, 0);
    BAD(topology_bytes, UINT32_MAX);
    BAD(slot_count, UINT32_MAX);
    BAD(slot_count, 1); /* and no address */
    BAD(tag_count, 0);
    BAD(tag_count, UINT32_MAX);
    BAD(threads, 0);
    BAD(threads, 0x10001);
    BAD(threads, UINT64_MAX & ~(uint64_t)7);
    BAD(cells, UINT64_MAX & ~(uint64_t)7);
    BAD(cells, (uint64_t)INT64_MAX & ~(uint64_t)7);
    BAD(logs, 4);
    BAD(queues, 0);
    BAD(queue_count, UINT32_MAX);
    BAD(ways, 0);
    BAD(way_count, 1u << 30);
    BAD(shards, 0);
    BAD(shards, UINT32_MAX);
}

/* A file may ask for that many; it is no lie of the server. */
static void more_event_loops_than_threads_can_be_traced(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_contract contract = good();
    contract.shards = WEIR_THREAD_SLOTS + 44;
    assert_true(weir_target_check_contract(&contract, &error) < 0);
    assert_int_equal(error.exit, WEIR_EXIT_CANNOT);
    assert_non_null(strstr(error.text, "300 event loops"));
    assert_non_null(strstr(error.text, "fewer threads"));
}

static void a_topology_that_does_not_fit(void **state)
{
    (void)state;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_contract contract = good();
    struct weir_topology topology = { .queue_count = 2, .way_count = 1, .instance_count = 2 };
    contract.tag_count = weir_topology_tag_count(&topology);
    assert_int_equal(weir_target_check_topology(&contract, &topology, &error), 0);
    topology.instance_count = 3;
    assert_true(weir_target_check_topology(&contract, &topology, &error) < 0);
    topology.instance_count = 2;
    topology.queue_count = 1;
    assert_true(weir_target_check_topology(&contract, &topology, &error) < 0);
    assert_int_equal(error.exit, WEIR_EXIT_CANNOT);
}

static void processes_that_are_no_targets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int exit;
    } cases[] = { { "0", WEIR_EXIT_USAGE }, { "99999999999999999999", WEIR_EXIT_USAGE }, { "2147483646", WEIR_EXIT_USAGE },
                  { "", WEIR_EXIT_USAGE },  { "no such name", WEIR_EXIT_USAGE },         { "/no/such/file", WEIR_EXIT_USAGE },
                  { "-1", WEIR_EXIT_USAGE } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_target target;
        struct weir_error error = WEIR_ERROR_INIT;
        assert_true(weir_target_open(&target, cases[i].name, &error) < 0);
        assert_int_equal(error.exit, cases[i].exit);
        assert_true(strlen(error.text) > 10);
    }
}

static void this_process_is_no_server(void **state)
{
    (void)state;
    struct weir_target target;
    struct weir_error error = WEIR_ERROR_INIT;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_true(weir_target_open(&target, pid, &error) < 0);
    assert_int_equal(error.exit, WEIR_EXIT_CANNOT);
    assert_non_null(strstr(error.text, "not a server that weir built"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_ones_pass),
        cmocka_unit_test(bad_ones_are_refused),
        cmocka_unit_test(more_event_loops_than_threads_can_be_traced),
        cmocka_unit_test(a_topology_that_does_not_fit),
        cmocka_unit_test(processes_that_are_no_targets),
        cmocka_unit_test(this_process_is_no_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
