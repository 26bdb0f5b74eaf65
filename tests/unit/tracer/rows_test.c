/* From tags to rows: parts follow their stage, shared stages have a row for each way in, and odd tags are the runtime's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tracer/synthetic.h"
#include "tracer/rows.h"

static void parts_follow_their_stage(void **state)
{
    (void)state;
    static const char *const names[] = { "(runtime)", "(tracing)", "(outside)", "p.listen", "p.frame", "p.handoff", "p.handoff.size",
                                         "p.handoff.push", "p.handoff.pop", "p.work", "p.reply", "p.reply.push", "p.reply.pop" };
    struct weir_profile *profile = weir_profile_new();
    struct weir_rows rows;
    synthetic_topology(&profile->topology);
    assert_int_equal(weir_rows_build(&rows, profile), 0);
    assert_int_equal(profile->row_count, sizeof names / sizeof *names);
    for (uint32_t i = 0; i < profile->row_count; i++)
        assert_string_equal(profile->rows[i].name, names[i]);
    assert_int_equal(profile->rows[7].part_of, 5);
    assert_int_equal(profile->rows[7].pool, 0);  /* io pushes, */
    assert_int_equal(profile->rows[8].pool, 1);  /* workers pop; */
    assert_int_equal(profile->rows[11].pool, 1); /* workers finish, */
    assert_int_equal(profile->rows[12].pool, 0); /* io sends */
    double sums[16] = { 0 };
    weir_rows_add(&rows, sums, AT(HANDOFF, WEIR_PART_PUSH), 2);
    weir_rows_add(&rows, sums, AT(HANDOFF, WEIR_PART_NONE), 1);
    weir_rows_add(&rows, sums, WEIR_TAG(WEIR_INSTANCE_TRACING, 0), 4);
    weir_rows_add(&rows, sums, 1u << 30, 8);
    assert_true(sums[5] == 3 && sums[7] == 2 && sums[6] == 0 && sums[1] == 4 && sums[0] == 8);
    assert_int_equal(weir_rows_leaf(&rows, AT(HANDOFF, WEIR_PART_PUSH)), 7);
    assert_int_equal(weir_rows_leaf(&rows, AT(WORK, WEIR_PART_PUSH)), 9); /* no such part: the stage */
    assert_int_equal(weir_rows_leaf(&rows, UINT32_MAX), 0);
    weir_rows_release(&rows);
    weir_profile_free(profile);
}

static void a_shared_stage(void **state)
{
    (void)state;
    struct weir_profile *profile = weir_profile_new();
    struct weir_rows rows;
    synthetic_topology(&profile->topology);
    struct weir_topology_instance shared[STAGES + 1];
    memcpy(shared, profile->topology.instances, STAGES * sizeof *shared);
    shared[WORK].name = "p.work@tcp";
    shared[STAGES] = (struct weir_topology_instance){ .name = "p.work@udp", .stage = WORK };
    profile->topology.instances = shared;
    profile->topology.instance_count = STAGES + 1;
    assert_int_equal(weir_rows_build(&rows, profile), 0);
    double sums[20] = { 0 };
    weir_rows_add(&rows, sums, AT(WORK, 0), 3);
    weir_rows_add(&rows, sums, AT(STAGES, 0), 5);
    uint32_t whole = rows.stage_rows[WORK];
    assert_true(sums[whole] == 8 && sums[whole + 1] == 3 && sums[whole + 2] == 5);
    assert_string_equal(profile->rows[whole + 2].name, "p.work@udp");
    assert_int_equal(profile->rows[whole + 2].part_of, whole);
    weir_rows_release(&rows);
    weir_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_follow_their_stage),
        cmocka_unit_test(a_shared_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
