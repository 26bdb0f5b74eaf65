#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pipeline_dsl/stages/index_reaper.h"
#include "pipeline_dsl/stages/index_takeover.h"

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

static struct weir_bytes dup(struct weir_bytes bytes)
{
    return bytes.data ? (struct weir_bytes){ (const uint8_t *)weir_arena_dup(&arena, bytes.data, bytes.size), bytes.size } : bytes;
}

/* A copy of the key's event; its tags and attributes are the index's, and good until it is written. */
static bool get(const char *host, const char *service, struct weir_event *e)
{
    struct weir_index_walk walk;
    weir_index_walk_init(&walk, &index_);
    bool found = weir_index_walk_key(&walk, text(host), text(service)) == 1;
    if (found) {
        assert_true(weir_index_entry_view(walk.entries[0], &arena, e));
        e->host = dup(e->host);
        e->service = dup(e->service);
        e->state = dup(e->state);
        e->description = dup(e->description);
    }
    weir_index_walk_end(&walk);
    return found;
}

static size_t count(void)
{
    uint64_t values[WEIR_INDEX_TALLIES];
    weir_index_tally(&index_, values);
    return values[WEIR_INDEX_SIZE];
}

/* Takes out what is overdue; returns how much that is. */
static size_t reap(int64_t now_us)
{
    struct weir_index_walk walk;
    size_t sum = 0;
    weir_index_walk_init(&walk, &index_);
    while (weir_index_walk_overdue(&walk, now_us, 3))
        sum += walk.count;
    return sum;
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
    assert_int_equal(count(), 1);
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
    assert_int_equal(count(), 9);
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
    assert_int_equal(count(), 0);
    assert_false(get("h", "s", &found));
    assert_int_equal(put(&e), 0); /* what is not there can't be deleted, and is not stored */
    assert_int_equal(count(), 0);
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
    assert_int_equal(count(), 10);
}

static void refusals_are_counted(void **state)
{
    (void)state;
    uint64_t values[WEIR_INDEX_TALLIES];
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 1);
    struct weir_event a = event("h", "a", "ok", 1), b = event("h", "b", "ok", 1);
    assert_int_equal(put(&a), 0);
    assert_int_equal(put(&b), -ENOSPC);
    assert_int_equal(put(&b), -ENOSPC);
    weir_index_tally(&index_, values);
    assert_int_equal(values[WEIR_INDEX_REFUSED], 2);
    assert_int_equal(values[WEIR_INDEX_SIZE], 1);
}

/* --- expiry -------------------------------------------------------------------------------------------------------------- */

#define SECOND ((int64_t)1000000)
#define NOW (1700000000 * SECOND)

static struct weir_event timed(const char *service, int64_t time_us, bool has_ttl, float ttl)
{
    struct weir_event e = event("h", service, "ok", 1);
    e.has_time = true;
    e.time_us = time_us;
    e.has_ttl = has_ttl;
    e.ttl = ttl;
    return e;
}

static void an_event_is_overdue_when_it_is_older_than_its_ttl(void **state)
{
    (void)state;
    struct weir_event found;
    static const struct {
        int64_t time_us;
        bool has_ttl;
        float ttl;
        int64_t last_us; /* it is still there then, and gone 1 us later; INT64_MAX: it stays */
    } cases[] = {
        { NOW, true, 10, NOW + 10 * SECOND },
        { NOW, true, 0.5f, NOW + SECOND / 2 },
        { NOW, true, 0, NOW },
        { NOW, false, 1, NOW + 60 * SECOND },               /* the index's own */
        { NOW, true, NAN, NOW + 60 * SECOND },              /* no number: the same */
        { NOW, true, -5, NOW - 5 * SECOND },                /* overdue at once */
        { NOW, true, INFINITY, INT64_MAX },
        { NOW, true, -INFINITY, INT64_MIN },
        { NOW, true, 1e30f, INT64_MAX },
        { NOW + 100 * SECOND, true, 10, NOW + 110 * SECOND }, /* a time in the future */
        { INT64_MAX, true, 10, INT64_MAX },
        { INT64_MIN, true, 10, INT64_MIN },
        { -5 * SECOND, true, 10, 5 * SECOND },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weir_event e = timed("s", cases[i].time_us, cases[i].has_ttl, cases[i].ttl);
        assert_int_equal(put(&e), 0);
        if (cases[i].last_us != INT64_MIN)
            assert_int_equal(reap(cases[i].last_us), 0);
        assert_true(get("h", "s", &found));
        if (cases[i].last_us == INT64_MAX)
            e.state = text("expired"), put(&e);
        else
            assert_int_equal(reap(cases[i].last_us == INT64_MIN ? NOW : cases[i].last_us + 1), 1);
        assert_false(get("h", "s", &found));
        assert_int_equal(count(), 0);
    }
}

static void a_later_write_renews(void **state)
{
    (void)state;
    struct weir_event e = timed("s", NOW, true, 10), found;
    put(&e);
    e.time_us = NOW + 20 * SECOND;
    put(&e);
    assert_int_equal(reap(NOW + 30 * SECOND), 0);
    e.time_us = NOW; /* and an older time is overdue again */
    put(&e);
    assert_int_equal(reap(NOW + 30 * SECOND), 1);
    assert_false(get("h", "s", &found));
}

static void an_overdue_event_is_there_until_it_is_taken(void **state)
{
    (void)state;
    struct weir_event e = timed("s", 0, true, 1), found;
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 1);
    put(&e);
    assert_true(get("h", "s", &found));
    e.service = text("another"); /* for which there is no room before */
    assert_int_equal(put(&e), -ENOSPC);
    assert_int_equal(reap(NOW), 1);
    assert_int_equal(put(&e), 0);
}

static void of_many_exactly_the_overdue_go(void **state)
{
    (void)state;
    enum { KEYS = 20000 };
    char name[16];
    struct weir_event found;
    uint64_t values[WEIR_INDEX_TALLIES];
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        struct weir_event e = timed(name, NOW - i % 100 * SECOND, true, 49.5f);
        assert_int_equal(put(&e), 0);
    }
    assert_int_equal(reap(NOW), KEYS / 2);
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        assert_int_equal(get("h", name, &found), i % 100 < 50);
    }
    weir_index_tally(&index_, values);
    assert_int_equal(values[WEIR_INDEX_EXPIRED], KEYS / 2);
    assert_int_equal(values[WEIR_INDEX_SIZE], KEYS / 2);
    assert_int_equal(reap(NOW + 1000 * SECOND), KEYS / 2);
    assert_int_equal(count(), 0);
}

static void a_walk_goes_to_what_is_overdue(void **state)
{
    (void)state;
    char name[16];
    struct weir_index_walk walk;
    weir_index_walk_init(&walk, &index_);
    assert_false(weir_index_walk_seek(&walk, NOW)); /* nothing at all */
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "s%d", i);
        struct weir_event e = timed(name, NOW, true, 60);
        put(&e);
    }
    weir_index_walk_init(&walk, &index_);
    assert_false(weir_index_walk_seek(&walk, NOW + 50 * SECOND));
    struct weir_event e = timed("s77", NOW - 100 * SECOND, true, 60);
    put(&e);
    weir_index_walk_init(&walk, &index_);
    assert_true(weir_index_walk_seek(&walk, NOW));
    assert_true(weir_index_walk_overdue(&walk, NOW, 1)); /* there, and nowhere else */
    assert_int_equal(walk.count, 1);
    weir_index_walk_end(&walk);
    assert_false(weir_index_walk_seek(&walk, NOW));
}

static void a_tick_is_a_tenth_of_a_short_ttl(void **state)
{
    (void)state;
    assert_int_equal(weir_index_tick_ns(60), 5000000000);
    assert_int_equal(weir_index_tick_ns(1e30f), 5000000000);
    assert_int_equal(weir_index_tick_ns(20), 2000000000);
    assert_int_equal(weir_index_tick_ns(0.001f), 100000000);
}

static void any_time_will_do(void **state)
{
    (void)state;
    static const int64_t times[] = { INT64_MIN, INT64_MAX, 0, -1, NOW };
    for (int i = 0; i < 400; i++) {
        char name[16];
        snprintf(name, sizeof name, "s%d", i);
        struct weir_event e = timed(name, times[i % 5], i % 3, i % 2 ? 1e38f : -1e38f);
        assert_int_equal(weir_index_put(&index_, &e, times[i / 5 % 5]), 0);
        size_t before = count();
        size_t gone = reap(times[i / 25 % 5]);
        assert_int_equal(gone, before - count());
    }
}

/* --- size ---------------------------------------------------------------------------------------------------------------- */

static void keys_come_and_go_while_the_table_grows(void **state)
{
    (void)state;
    enum { KEYS = 60000 };
    static uint8_t there[KEYS];
    char name[16];
    struct weir_event found;
    unsigned seed = 7;
    size_t expected = 0;
    memset(there, 0, sizeof there);
    for (int round = 0; round < 4 * KEYS; round++) {
        int key = rand_r(&seed) % KEYS;
        bool delete = rand_r(&seed) % 4 == 0;
        snprintf(name, sizeof name, "s%d", key);
        struct weir_event e = event("h", name, delete ? "expired" : "ok", key);
        assert_int_equal(put(&e), 0);
        expected += (size_t)!delete - there[key];
        there[key] = !delete;
    }
    assert_int_equal(count(), expected);
    for (int key = 0; key < KEYS; key++) {
        snprintf(name, sizeof name, "s%d", key);
        assert_int_equal(get("h", name, &found), there[key]);
        if (there[key])
            assert_int_equal(found.metric_int, key);
    }
    /* And when all have gone the table is as small as at first. */
    for (int key = 0; key < KEYS; key++) {
        snprintf(name, sizeof name, "s%d", key);
        struct weir_event e = event("h", name, "expired", key);
        put(&e);
        if (key % 1000 == 0)
            for (int rest = key + 1; rest < KEYS; rest += 997) {
                snprintf(name, sizeof name, "s%d", rest);
                assert_int_equal(get("h", name, &found), there[rest]);
            }
    }
    for (uint32_t i = 0; i < WEIR_INDEX_SHARDS; i++)
        for (size_t place = 0; place < (size_t)1 << index_.shards[i].depth; place++) {
            assert_ptr_equal(index_.shards[i].directory[place], index_.shards[i].directory[0]);
            assert_int_equal(index_.shards[i].directory[place]->count, 0);
        }
}

static void strings_of_every_size_are_kept(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 125, 126, 127, 128, 16382, 16383, 16384, 100000, 3, 2097151, 1 };
    static uint8_t long_text[2097152];
    struct weir_event found;
    memset(long_text, 'x', sizeof long_text);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct weir_event e = event("h", "s", "ok", (int64_t)i);
        struct weir_bytes tags[200];
        e.description = (struct weir_bytes){ long_text, sizes[i] };
        for (int k = 0; k < 200; k++)
            tags[k] = (struct weir_bytes){ long_text, sizes[i] % 300 };
        e.tags = tags;
        e.tag_count = sizes[i] % 201;
        assert_int_equal(put(&e), 0);
        assert_true(get("h", "s", &found));
        assert_int_equal(found.description.size, sizes[i]);
        assert_int_equal(found.tag_count, e.tag_count);
        for (uint32_t k = 0; k < e.tag_count; k++)
            assert_int_equal(found.tags[k].size, sizes[i] % 300);
    }
}

/* --- walks --------------------------------------------------------------------------------------------------------------- */

static void a_walk_meets_what_stays_once_whatever_else_comes_and_goes(void **state)
{
    (void)state;
    enum { STAYS = 5000, COMES = 40000 };
    static uint8_t met[STAYS];
    char name[16];
    struct weir_index_walk walk;
    for (int i = 0; i < STAYS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        struct weir_event e = event("stays", name, "ok", i);
        put(&e);
    }
    memset(met, 0, sizeof met);
    weir_index_walk_init(&walk, &index_);
    for (int more = 0; weir_index_walk_next(&walk);) {
        for (uint32_t i = 0; i < walk.count; i++) {
            struct weir_event e;
            assert_true(weir_index_entry_view(walk.entries[i], &arena, &e));
            if (e.host.size == 5)
                met[e.metric_int]++;
        }
        /* What has been met, or not yet, is written, and moves as the table is split. */
        for (int i = 0; i < 1000 && more < COMES; i++, more++) {
            snprintf(name, sizeof name, "c%d", more);
            struct weir_event e = event("passes", name, "ok", more);
            put(&e);
            snprintf(name, sizeof name, "s%d", more % STAYS);
            e = event("stays", name, "a longer state than before", more % STAYS);
            put(&e);
            snprintf(name, sizeof name, "c%d", more / 2);
            e = event("passes", name, "expired", 0);
            put(&e);
        }
        /* Of what passes nearly all goes at last, so that what was split is joined again. */
        for (int i = 0; more == COMES && i < COMES; i++) {
            snprintf(name, sizeof name, "c%d", i);
            struct weir_event e = event("passes", name, "expired", 0);
            put(&e);
        }
    }
    for (int i = 0; i < STAYS; i++)
        assert_int_equal(met[i], 1);
}

static void who_reads_an_event_keeps_it_as_it_was(void **state)
{
    (void)state;
    struct weir_index_walk one, two;
    struct weir_event found, e = event("h", "s", "before", 1);
    put(&e);
    weir_index_walk_init(&one, &index_);
    weir_index_walk_init(&two, &index_);
    assert_int_equal(weir_index_walk_next(&one), 1);
    assert_int_equal(weir_index_walk_key(&two, text("h"), text("s")), 1);
    e = event("h", "s", "behind", 2); /* as long, so that it would fit */
    put(&e);
    assert_true(weir_index_entry_view(one.entries[0], &arena, &found));
    assert_memory_equal(found.state.data, "before", 6);
    weir_index_walk_end(&one);
    assert_true(weir_index_entry_view(two.entries[0], &arena, &found));
    assert_memory_equal(found.state.data, "before", 6);
    weir_index_walk_end(&two);
    assert_true(get("h", "s", &found));
    assert_memory_equal(found.state.data, "behind", 6);
    /* Removed while it is read. */
    assert_int_equal(weir_index_walk_next(&two), 1);
    e = event("h", "s", "expired", 2);
    put(&e);
    assert_true(weir_index_entry_view(two.entries[0], &arena, &found));
    assert_memory_equal(found.state.data, "behind", 6);
    assert_int_equal(count(), 0);
    weir_index_walk_end(&two);
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
    assert_int_equal(count(), KEYS - 1);
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
    assert_int_equal(count(), 10);
}

/* --- takeover ------------------------------------------------------------------------------------------------------------- */

static void an_index_goes_on_in_the_next_server(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    char name[16];
    struct weir_event found;
    struct weir_takeover_writer writer;
    struct weir_takeover takeover;
    struct weir_takeover_record record;
    struct weir_bytes tags[] = { { (const uint8_t *)"b\0c", 3 }, { (const uint8_t *)"\xff", 1 } };
    struct weir_attribute attributes[] = { { text("k"), text("v") }, { text("only"), text(NULL) } };
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        struct weir_event e = timed(name, NOW - i, i % 2, (float)i);
        e.metric_int = INT64_MAX - i;
        put(&e);
    }
    struct weir_event e = timed("all", NOW, true, NAN);
    e.host = text(NULL);
    e.description = (struct weir_bytes){ (const uint8_t *)"\xc3(", 2 };
    e.metric_kind = WEIR_METRIC_FLOAT;
    e.metric_double = (double)0.1f;
    e.tags = tags;
    e.tag_count = 2;
    e.attributes = attributes;
    e.attribute_count = 2;
    put(&e);
    assert_int_equal(weir_takeover_begin(&writer, NULL), 0);
    weir_index_leave(&index_, "riemann.index", &writer);
    assert_int_equal(weir_takeover_end(&writer, NULL), 0);
    weir_index_release(&index_);
    weir_index_init(&index_, 0, 0);
    assert_int_equal(weir_takeover_open(&takeover, NULL), 0);
    while (weir_takeover_next(&takeover, &record)) {
        assert_int_equal(record.kind, WEIR_TAKEOVER_STATE);
        assert_string_equal(record.name, "riemann.index");
        weir_index_take(&index_, record.data, record.data_bytes);
        weir_index_take(&index_, record.data, record.data_bytes - 1); /* cut short: what is whole comes again, no more */
        weir_index_take(&index_, "\377\0\0\0anything", 12);          /* of another version */
        weir_index_take(&index_, "", 0);
    }
    weir_takeover_close(&takeover);
    weir_takeover_writer_release(&writer);
    assert_int_equal(count(), KEYS + 1);
    for (int i = 0; i < KEYS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        assert_true(get("h", name, &found));
        assert_true(found.metric_int == INT64_MAX - i && found.time_us == NOW - i && found.has_ttl == i % 2);
    }
    assert_true(get(NULL, "all", &found));
    assert_true(isnan(found.ttl) && found.metric_kind == WEIR_METRIC_FLOAT && found.metric_double == (double)0.1f);
    assert_memory_equal(found.description.data, "\xc3(", 2);
    assert_memory_equal(found.tags[0].data, "b\0c", 3);
    assert_int_equal(found.attribute_count, 2);
    assert_null(found.attributes[1].value.data);
    assert_int_equal(reap(NOW + 70 * SECOND), KEYS / 2 + 36); /* ttls of 60 s, NaN, and those below 70 s of the odd ones */
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

/* Reads all of what is there, over and over, while it is written; and takes out what is overdue. */
static void *walk_many(void *argument)
{
    struct weir_arena lists;
    struct weir_event e;
    size_t wrong = 0;
    weir_arena_init(&lists, 0, SIZE_MAX);
    for (int round = 0; round < 20; round++) {
        struct weir_index_walk walk;
        weir_index_walk_init(&walk, argument);
        while (weir_index_walk_next(&walk))
            for (uint32_t i = 0; i < walk.count; i++) {
                weir_arena_reset(&lists);
                wrong += !weir_index_entry_view(walk.entries[i], &lists, &e) || e.service.size < 9 || e.service.data[0] != 's';
            }
        weir_index_walk_init(&walk, argument);
        while (weir_index_walk_overdue(&walk, 1, 10)) /* nothing is */
            wrong += walk.count;
    }
    weir_arena_release(&lists);
    return wrong ? (void *)1 : NULL;
}

static void many_threads_write_the_same_keys(void **state)
{
    (void)state;
    pthread_t threads[6];
    static char hosts[2][8] = { "one", "two" };
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, put_many, hosts[i % 2]);
    for (int i = 4; i < 6; i++)
        pthread_create(&threads[i], NULL, walk_many, &index_);
    for (int i = 0; i < 6; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    struct weir_event found;
    assert_int_equal(count(), 15000);
    assert_true(get("two", "service-4999", &found));
    assert_int_equal(found.metric_int, 19999);
}

/* Events with ttls around their ages: some are overdue when they come. */
static void *put_mortals(void *argument)
{
    unsigned seed = *(unsigned *)argument;
    char name[24];
    for (int i = 0; i < 30000; i++) {
        struct weir_event e[3];
        char names[3][24];
        for (int k = 0; k < 3; k++) {
            snprintf(names[k], sizeof name, "service-%d", rand_r(&seed) % 3000);
            e[k] = timed(names[k], NOW, true, (float)(rand_r(&seed) % 20));
            if (rand_r(&seed) % 8 == 0)
                e[k].state = text("expired");
        }
        if (weir_index_put_all(&index_, e, 3, NOW) != 0)
            return (void *)1;
    }
    return NULL;
}

static void *reap_many(void *argument)
{
    (void)argument;
    for (int i = 0; i < 200; i++)
        reap(NOW + 10 * SECOND);
    return NULL;
}

static void threads_write_read_and_expire_at_once(void **state)
{
    (void)state;
    pthread_t threads[5];
    unsigned seeds[2] = { 1, 2 };
    struct weir_index_walk walk;
    size_t met = 0;
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, put_mortals, &seeds[i]);
    for (int i = 2; i < 4; i++)
        pthread_create(&threads[i], NULL, reap_many, NULL);
    pthread_create(&threads[4], NULL, walk_many, &index_);
    for (int i = 0; i < 5; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    reap(NOW + 10 * SECOND);
    weir_index_walk_init(&walk, &index_);
    while (weir_index_walk_next(&walk))
        for (uint32_t i = 0; i < walk.count; i++, met++)
            assert_true(walk.entries[i]->ttl >= 10); /* the others are gone */
    assert_int_equal(met, count());
    assert_true(met > 0);
}

/* --- the table ----------------------------------------------------------------------------------------------------------- */

static struct weir_index_entry *entry_of(const char *service)
{
    struct weir_event e = event("h", service, "ok", 1);
    struct weir_index_entry *entry = weir_index_entry_new(weir_index_entry_size(&e));
    weir_index_entry_fill(entry, &e, false, 0);
    return entry;
}

/* Nobody can bring about that all keys have one hash; if they had, a segment fills up, and no look-up runs round for ever. */
static void keys_of_one_hash_fill_a_segment(void **state)
{
    (void)state;
    struct weir_index_shard shard = { 0 };
    const uint32_t hash = 0x07ffffff, most = WEIR_INDEX_SEGMENT_SLOTS - 1;
    char name[16];
    assert_int_equal(weir_index_table_init(&shard), 0);
    for (uint32_t i = 0; i < most; i++) {
        snprintf(name, sizeof name, "s%u", i);
        assert_int_equal(weir_index_table_add(&shard, hash, 0, entry_of(name)), 0);
    }
    struct weir_index_entry *one_more = entry_of("more");
    assert_int_equal(weir_index_table_add(&shard, hash, 0, one_more), -ENOMEM);
    struct weir_index_segment *segment = weir_index_table_segment(&shard, weir_index_table_place(hash));
    assert_null(weir_index_table_find(segment, hash, text("h"), text("more")));
    for (uint32_t i = 0; i < most; i++) {
        snprintf(name, sizeof name, "s%u", i);
        struct weir_index_slot *slot = weir_index_table_find(segment, hash, text("h"), text(name));
        assert_non_null(slot);
        if (i % 2)
            continue;
        free(slot->entry);
        weir_index_table_remove(segment, slot);
        assert_null(weir_index_table_find(segment, hash, text("h"), text(name)));
    }
    assert_int_equal(weir_index_table_add(&shard, hash, 0, one_more), 0);
    assert_non_null(weir_index_table_find(segment, hash, text("h"), text("more")));
    weir_index_table_release(&shard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_write_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(absent_differs_from_empty, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_deletes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everything_of_an_event_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_index_takes_only_keys_it_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_is_overdue_when_it_is_older_than_its_ttl, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_later_write_renews, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_overdue_event_is_there_until_it_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_many_exactly_the_overdue_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_come_and_go_while_the_table_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strings_of_every_size_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_walk_meets_what_stays_once_whatever_else_comes_and_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_reads_an_event_keeps_it_as_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_walk_goes_to_what_is_overdue, set_up, tear_down),
        cmocka_unit_test(a_tick_is_a_tenth_of_a_short_ttl),
        cmocka_unit_test_setup_teardown(any_time_will_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_is_stored_as_its_events_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_too_many_is_stored_as_far_as_it_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_threads_write_the_same_keys, set_up, tear_down),
        cmocka_unit_test_setup_teardown(threads_write_read_and_expire_at_once, set_up, tear_down),
        cmocka_unit_test(keys_of_one_hash_fill_a_segment),
        cmocka_unit_test_setup_teardown(an_index_goes_on_in_the_next_server, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
