#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/stages/index.h"

static struct weir_bytes text(const char *string)
{
    return string ? (struct weir_bytes){ (const uint8_t *)string, strlen(string) } : (struct weir_bytes){ NULL, 0 };
}

static struct weir_event event(const char *host, const char *service, const char *state, int64_t metric)
{
    return (struct weir_event){ .host = text(host), .service = text(service), .state = text(state),
                                .metric_kind = WEIR_METRIC_INT, .metric_int = metric };
}

static struct weir_index index_;
static struct weir_arena arena;

static int set_up(void **state)
{
    (void)state;
    weir_index_init(&index_, 0, 0);
    weir_arena_init(&arena, 0, SIZE_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_index_release(&index_);
    weir_arena_release(&arena);
    return 0;
}

static int put(const struct weir_event *e)
{
    return weir_index_put(&index_, e, 1234567);
}

static bool get(const char *host, const char *service, struct weir_event *e)
{
    return weir_index_get(&index_, text(host), text(service), &arena, e);
}

static void the_last_write_wins(void **state)
{
    (void)state;
    struct weir_event found, e = event("h", "s", "ok", 1);
    e.time_us = 100;
    e.has_time = true;
    assert_int_equal(put(&e), 0);
    e.metric_int = 2;
    e.time_us = 50; /* older, and still the last */
    e.state = text("a state far longer than the one before, so that the block must grow");
    assert_int_equal(put(&e), 0);
    assert_int_equal(weir_index_count(&index_), 1);
    assert_true(get("h", "s", &found));
    assert_int_equal(found.metric_int, 2);
    assert_int_equal(found.time_us, 50);
    assert_int_equal(found.state.size, e.state.size);
}

static void absent_differs_from_empty(void **state)
{
    (void)state;
    static const char *const values[] = { NULL, "", "x" };
    struct weir_event found;
    for (int h = 0; h < 3; h++)
        for (int s = 0; s < 3; s++) {
            struct weir_event e = event(values[h], values[s], "ok", h * 3 + s);
            assert_int_equal(put(&e), 0);
        }
    assert_int_equal(weir_index_count(&index_), 9);
    for (int h = 0; h < 3; h++)
        for (int s = 0; s < 3; s++) {
            assert_true(get(values[h], values[s], &found));
            assert_int_equal(found.metric_int, h * 3 + s);
            assert_int_equal(!found.host.data, !values[h]);
        }
}

static void expired_deletes(void **state)
{
    (void)state;
    struct weir_event found, e = event("h", "s", "ok", 1);
    put(&e);
    e.state = text("expired");
    assert_int_equal(put(&e), 0);
    assert_int_equal(weir_index_count(&index_), 0);
    assert_false(get("h", "s", &found));
    assert_int_equal(put(&e), 0); /* what is not there can't be deleted, and is not stored */
    assert_int_equal(weir_index_count(&index_), 0);
}

static void everything_of_an_event_is_kept(void **state)
{
    (void)state;
    struct weir_bytes tags[] = { text("a"), { (const uint8_t *)"b\0c", 3 }, text("") };
    struct weir_attribute attributes[] = { { text("k"), text("v") }, { text("only"), text(NULL) } };
    struct weir_event found, e = event("h", "s", NULL, 0);
    e.description = text("words");
    e.tags = tags;
    e.tag_count = 3;
    e.attributes = attributes;
    e.attribute_count = 2;
    e.ttl = 30.5f;
    e.has_ttl = true;
    e.metric_kind = WEIR_METRIC_DOUBLE;
    e.metric_double = 0.1;
    put(&e);
    assert_true(get("h", "s", &found));
    assert_null(found.state.data);
    assert_memory_equal(found.description.data, "words", 5);
    assert_int_equal(found.tag_count, 3);
    assert_memory_equal(found.tags[1].data, "b\0c", 3);
    assert_int_equal(found.tags[2].size, 0);
    assert_non_null(found.tags[2].data);
    assert_int_equal(found.attribute_count, 2);
    assert_memory_equal(found.attributes[0].value.data, "v", 1);
    assert_null(found.attributes[1].value.data);
    assert_true(found.has_ttl && found.ttl == 30.5f);
    assert_true(found.metric_double == 0.1);
    assert_true(found.has_time && found.time_us == 1234567); /* the server's */
}

static void a_full_index_takes_only_keys_it_has(void **state)
{
    (void)state;
    struct weir_event e;
    char name[16];
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 10);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "s%d", i);
        e = event("h", name, "ok", i);
        assert_int_equal(put(&e), 0);
    }
    e = event("h", "one more", "ok", 1);
    assert_int_equal(put(&e), -ENOSPC);
    e = event("h", "s3", "ok", 33);
    assert_int_equal(put(&e), 0);
    e.state = text("expired");
    assert_int_equal(put(&e), 0);
    e = event("h", "one more", "ok", 1);
    assert_int_equal(put(&e), 0);
    assert_int_equal(weir_index_count(&index_), 10);
}

static void what_is_overdue_makes_room(void **state)
{
    (void)state;
    struct weir_event found, e = event("h", "s", "ok", 1);
    const int64_t start_us = 1700000000000000, second_us = 1000000;
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 1);
    e.has_ttl = true;
    e.ttl = 10;
    assert_int_equal(weir_index_put(&index_, &e, start_us), 0);
    /* Other keys of the same shard; which they are is the hash's business, so many are tried. */
    unsigned stored = 0;
    for (int second = 1; second <= 200; second++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", second);
        e.service = text(name);
        if (weir_index_put(&index_, &e, start_us + second * second_us) != 0)
            continue;
        assert_true(second > 10 || stored);
        assert_int_equal(weir_index_count(&index_), 1);
        stored++;
    }
    assert_true(stored > 0);
    assert_false(get("h", "s", &found));
}

static void any_time_will_do(void **state)
{
    (void)state;
    static const int64_t times[] = { INT64_MIN, INT64_MAX, 0, -1 };
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 4);
    for (int i = 0; i < 400; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        struct weir_event e = event("h", name, "ok", i);
        e.has_time = true;
        e.time_us = times[i % 4];
        int rc = weir_index_put(&index_, &e, times[i / 4 % 4]);
        assert_true(rc == 0 || rc == -ENOSPC);
        assert_true(weir_index_count(&index_) <= 4);
    }
}

/* A message's events are sorted by shard; those of one key must stay in their order. */
static void a_message_is_stored_as_its_events_one_by_one(void **state)
{
    (void)state;
    enum { EVENTS = 1000, KEYS = 150 };
    static struct weir_event events[EVENTS];
    static char names[KEYS][16];
    struct weir_event found;
    for (int i = 0; i < EVENTS; i++) {
        snprintf(names[i % KEYS], sizeof *names, "s%d", i % KEYS);
        events[i] = event("h", names[i % KEYS], i == 990 ? "expired" : "ok", i);
    }
    assert_int_equal(weir_index_put_all(&index_, events, EVENTS, 1), 0);
    assert_int_equal(weir_index_count(&index_), KEYS - 1);
    for (int key = 0; key < KEYS; key++) {
        int last = key + (EVENTS - 1 - key) / KEYS * KEYS;
        assert_int_equal(get("h", names[key], &found), last != 990);
        if (last != 990)
            assert_int_equal(found.metric_int, last);
    }
    assert_int_equal(weir_index_put_all(&index_, events, 0, 1), 0);
}

static void a_message_too_many_is_stored_as_far_as_it_goes(void **state)
{
    (void)state;
    struct weir_event events[12];
    char names[12][16];
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 10);
    for (int i = 0; i < 12; i++) {
        snprintf(names[i], sizeof *names, "s%d", i);
        events[i] = event("h", names[i], "ok", i);
    }
    assert_int_equal(weir_index_put_all(&index_, events, 12, 1), -ENOSPC);
    assert_int_equal(weir_index_count(&index_), 10);
}

/* --- threads ------------------------------------------------------------------------------------------------------------- */

static void *put_many(void *argument)
{
    char name[24];
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "service-%d", i % 5000);
        struct weir_event e[2] = { event("both", name, "ok", i), event(argument, name, "ok", i) };
        if (weir_index_put_all(&index_, e, 2, i) != 0)
            return (void *)1;
    }
    return NULL;
}

static void many_threads_write_the_same_keys(void **state)
{
    (void)state;
    pthread_t threads[4];
    static char hosts[2][8] = { "one", "two" };
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, put_many, hosts[i % 2]);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    struct weir_event found;
    assert_int_equal(weir_index_count(&index_), 15000);
    assert_true(get("two", "service-4999", &found));
    assert_int_equal(found.metric_int, 19999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_write_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(absent_differs_from_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_deletes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everything_of_an_event_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_index_takes_only_keys_it_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_overdue_makes_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(any_time_will_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_is_stored_as_its_events_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_too_many_is_stored_as_far_as_it_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_threads_write_the_same_keys, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
