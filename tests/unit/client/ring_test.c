/* ring: what many push one pops, each thing once, each pusher's in order; and the delays between tries to connect. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sched.h>

#include <cmocka.h>

#include "base/backoff.h"
#include "pipeline_dsl/client/ring.h"

#define PUSHERS 4u
#define EACH 50000u

static void it_is_full_and_empty_when_it_should(void **state)
{
    (void)state;
    struct weir_ring ring;
    assert_int_equal(weir_ring_init(&ring, 5), 0); /* 8 */
    for (uintptr_t round = 0; round < 100; round++) {
        assert_null(weir_ring_pop(&ring));
        assert_false(weir_ring_ready(&ring));
        for (uintptr_t i = 1; i <= 8; i++)
            assert_true(weir_ring_push(&ring, (void *)i));
        assert_false(weir_ring_push(&ring, (void *)9));
        assert_true(weir_ring_ready(&ring));
        for (uintptr_t i = 1; i <= 8; i++)
            assert_ptr_equal(weir_ring_pop(&ring), (void *)i);
    }
    weir_ring_release(&ring);
}

struct pusher {
    struct weir_ring *ring;
    uintptr_t number;
};

static void *push_all(void *argument)
{
    struct pusher *pusher = argument;
    for (uintptr_t i = 1; i <= EACH; i++)
        while (!weir_ring_push(pusher->ring, (void *)(pusher->number << 32 | i)))
            sched_yield();
    return NULL;
}

static void many_push_one_pops(void **state)
{
    (void)state;
    struct weir_ring ring;
    struct pusher pushers[PUSHERS];
    pthread_t threads[PUSHERS];
    uintptr_t last[PUSHERS] = { 0 }, wrong = 0;
    assert_int_equal(weir_ring_init(&ring, 64), 0);
    for (unsigned i = 0; i < PUSHERS; i++) {
        pushers[i] = (struct pusher){ &ring, i };
        assert_int_equal(pthread_create(&threads[i], NULL, push_all, &pushers[i]), 0);
    }
    for (unsigned got = 0; got < PUSHERS * EACH;) {
        uintptr_t item = (uintptr_t)weir_ring_pop(&ring);
        if (!item) {
            sched_yield();
            continue;
        }
        got++;
        wrong += (item & 0xffffffffu) != last[item >> 32] + 1;
        last[item >> 32] = item & 0xffffffffu;
    }
    for (unsigned i = 0; i < PUSHERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
    assert_null(weir_ring_pop(&ring));
    weir_ring_release(&ring);
}

static void delays_double_up_to_the_bound_with_jitter(void **state)
{
    (void)state;
    struct weir_backoff backoff = { .first_ns = 100, .most_ns = 1500 };
    uint64_t most = 100, different = 0, before = 0;
    for (int i = 0; i < 50; i++) {
        uint64_t delay = weir_backoff_delay(&backoff);
        assert_in_range(delay, most / 2, most);
        different += delay != before;
        before = delay;
        most = most * 2 > 1500 ? 1500 : most * 2;
    }
    assert_true(different > 40);
    weir_backoff_reset(&backoff);
    assert_in_range(weir_backoff_delay(&backoff), 50, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_full_and_empty_when_it_should),
        cmocka_unit_test(many_push_one_pops),
        cmocka_unit_test(delays_double_up_to_the_bound_with_jitter),
    };
    return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
