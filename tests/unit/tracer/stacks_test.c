/* Counting stacks: each once, more than the table first holds, and no more than it may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tracer/stacks.h"

static uint64_t samples_of(struct weir_stacks *stacks)
{
    uint64_t sum = 0;
    weir_stacks_fold(stacks);
    for (uint32_t i = 0; i < stacks->capacity; i++)
        sum += stacks->entries[i].samples;
    return sum;
}

static void counts_each_stack_once(void **state)
{
    (void)state;
    struct weir_stacks stacks = { .entries = NULL };
    uint64_t frames[] = { 1, 2, 3 };
    weir_stacks_add(&stacks, 5, frames, 0); /* no frame, no stack */
    assert_int_equal(stacks.used, 0);
    for (int i = 0; i < 10; i++)
        weir_stacks_add(&stacks, 5, frames, 3);
    weir_stacks_add(&stacks, 6, frames, 3);
    weir_stacks_add(&stacks, 5, frames, 2);
    assert_int_equal(stacks.used, 3);
    assert_int_equal(samples_of(&stacks), 12);
    assert_int_equal(stacks.dropped, 0);
    weir_stacks_release(&stacks);
    assert_null(stacks.entries);
}

static void cuts_deep_ones(void **state)
{
    (void)state;
    struct weir_stacks stacks = { .entries = NULL };
    uint64_t frames[WEIR_STACK_FRAMES + 8];
    memset(frames, 7, sizeof frames);
    weir_stacks_add(&stacks, 0, frames, WEIR_STACK_FRAMES + 8);
    weir_stacks_add(&stacks, 0, frames, WEIR_STACK_FRAMES);
    assert_int_equal(stacks.used, 1);
    weir_stacks_release(&stacks);
}

static void has_an_end(void **state)
{
    (void)state;
    struct weir_stacks stacks = { .entries = NULL };
    for (uint64_t i = 0; i < WEIR_STACKS_MOST + 1000; i++)
        weir_stacks_add(&stacks, 1, &i, 1);
    assert_int_equal(stacks.used, WEIR_STACKS_MOST);
    assert_int_equal(stacks.dropped, 1000);
    uint64_t known = 3;
    weir_stacks_add(&stacks, 1, &known, 1); /* what it knows still counts */
    assert_int_equal(stacks.dropped, 1000);
    assert_int_equal(samples_of(&stacks), WEIR_STACKS_MOST + 1);
    weir_stacks_release(&stacks);
}

/* A slice that never ended leaves its stacks known, and uncounted. */
static void counts_what_was_folded(void **state)
{
    (void)state;
    struct weir_stacks stacks = { .entries = NULL };
    uint64_t frames[] = { 1, 2 };
    weir_stacks_add(&stacks, 5, frames, 2);
    weir_stacks_fold(&stacks);
    weir_stacks_add(&stacks, 5, frames, 2);
    weir_stacks_add(&stacks, 6, frames, 2);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < stacks.capacity; i++)
        sum += stacks.entries[i].samples;
    assert_int_equal(sum, 1);
    assert_int_equal(stacks.used, 2);
    weir_stacks_release(&stacks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_each_stack_once),
        cmocka_unit_test(cuts_deep_ones),
        cmocka_unit_test(counts_what_was_folded),
        cmocka_unit_test(has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
