/* From a window's raw numbers to the profile: sums, shares, states, and windows in which nothing happened. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tracer/synthetic.h"
#include "tracer/aggregate.h"
#include "tracer/states.h"

#define SECOND 1000000000ull

static struct weir_profile *profile;
static struct weir_window window;

static void open_window(enum weir_mode mode)
{
    profile = weir_profile_new();
    assert_non_null(profile);
    synthetic_topology(&profile->topology);
    profile->mode = mode;
    assert_int_equal(weir_window_init(&window, profile), 0);
    window.ns_per_tick = window.items.ns_per_tick = 0.5;
    window.begin.ns = window.last.ns = 5 * SECOND;
}

static void close_window(void)
{
    weir_window_release(&window);
    weir_profile_free(profile);
}

/* A thread in both snapshots. */
static struct weir_snapshot_thread *thread_at(struct weir_snapshot *snapshot, uint32_t slot, uint32_t pool)
{
    assert_int_equal(weir_snapshot_need(snapshot, slot, profile->mode == WEIR_MODE_EXACT), 0);
    snapshot->threads[slot].seen = true;
    snapshot->threads[slot].pool = pool;
    return &snapshot->threads[slot];
}

static void sample(uint32_t slot, uint32_t tag, unsigned count)
{
    struct weir_probe_sample one = {
        .slot = slot, .tag = tag, .time_ns = 6 * SECOND, .frame_count = 2, .frames = { 0x1000 + tag, 0x2000 }
    };
    while (count--)
        weir_window_sample(&window, &one);
}

static const struct weir_profile_row *row(const char *name)
{
    for (uint32_t i = 0; i < profile->row_count; i++)
        if (strcmp(profile->rows[i].name, name) == 0)
            return &profile->rows[i];
    fail_msg("no row %s", name);
    return NULL;
}

/* What must hold of every profile. */
static void check_all(void)
{
    double shares = 0;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *r = &profile->rows[i];
        assert_true(r->share >= 0 && r->share <= 1 && isfinite(r->cpu_ns) && r->cpu_ns >= 0);
        assert_true(r->share_low >= 0 && r->share_low <= r->share + 1e-12 && r->share_high + 1e-12 >= r->share &&
                    r->share_high <= 1);
        assert_true(r->part_of == WEIR_NONE || r->part_of < i);
        shares += r->part_of == WEIR_NONE ? r->share : 0;
    }
    assert_true(profile->cpu_ns == 0 ? shares == 0 : fabs(shares - 1) < 1e-9);
    weir_profile_verify(profile);
    assert_int_equal(profile->violation_count, 0);
}

static void an_empty_window(void **state)
{
    (void)state;
    for (enum weir_mode mode = WEIR_MODE_LIGHT; mode <= WEIR_MODE_EXACT; mode++) {
        open_window(mode);
        weir_window_begin(&window);
        weir_window_end(&window);
        assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
        assert_int_equal(weir_aggregate_stacks(&window, NULL), 0);
        check_all();
        assert_int_equal(profile->cpu_ns, 0);
        assert_int_equal(profile->duration_ns, 0);
        assert_int_equal(profile->slice_count, 0);
        assert_int_equal(profile->row_count, WEIR_ROW_STAGES + STAGES + 3 + 2);
        close_window();
    }
}

/* One io thread and two workers over 2 s in two slices, and 0.1 s of CPU time that no slot used. */
static void fill(void)
{
    thread_at(&window.begin, 0, 0);
    thread_at(&window.begin, 1, 1);
    thread_at(&window.begin, 2, 1);
    window.begin.process_cpu_ns = 7 * SECOND;
    weir_window_begin(&window);
    for (int slice = 1; slice <= 2; slice++) {
        struct weir_snapshot_thread *io = thread_at(&window.now, 0, 0), *one = thread_at(&window.now, 1, 1),
                                    *two = thread_at(&window.now, 2, 1);
        window.now.ns = window.begin.ns + (uint64_t)slice * SECOND;
        io->on_cpu_ns = slice * SECOND / 2;
        io->off_ns[WEIR_WAIT_IDLE] = slice * SECOND / 2;
        one->on_cpu_ns = slice * SECOND;
        two->off_ns[WEIR_WAIT_FULL] = slice * SECOND / 4;
        two->off_ns[WEIR_PROBE_RUNNABLE] = slice * SECOND / 4; /* and half of the time in no kernel sum */
        window.now.process_cpu_ns = 7 * SECOND + (uint64_t)slice * (SECOND + SECOND / 2 + SECOND / 20);
        io->cells[AT(FRAME, 0)].entries = (weir_u64)slice * 100;
        one->cells[AT(WORK, 0)].entries = (weir_u64)slice * 90;
        one->cells[AT(WORK, 0)].ticks = (weir_u64)slice * 2 * SECOND / 4 * 3;
        one->cells[AT(REPLY, WEIR_PART_PUSH)].ticks = (weir_u64)slice * 2 * SECOND / 4;
        io->cells[AT(HANDOFF, WEIR_PART_PUSH)].ticks = (weir_u64)slice * 2 * SECOND;
        if (io->off_tags)
            io->off_tags[AT(HANDOFF, WEIR_PART_PUSH)] = slice * SECOND / 2;
        sample(0, AT(HANDOFF, WEIR_PART_PUSH), 50);
        sample(1, AT(WORK, 0), 75);
        sample(1, AT(REPLY, WEIR_PART_PUSH), 25);
        sample(WEIR_PROBE_OUTSIDE, 0, 5);
        assert_int_equal(weir_window_slice(&window), 0);
    }
    weir_window_end(&window);
}

static void both_modes_agree(void **state)
{
    (void)state;
    for (enum weir_mode mode = WEIR_MODE_LIGHT; mode <= WEIR_MODE_EXACT; mode++) {
        open_window(mode);
        fill();
        profile->mode = WEIR_MODE_LIGHT; /* the records that exact mode is verified by are not in this test */
        if (mode == WEIR_MODE_EXACT)
            profile->mode = mode;
        assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
        profile->mode = WEIR_MODE_LIGHT;
        assert_int_equal(weir_aggregate_stacks(&window, NULL), 0);
        check_all();
        assert_int_equal(profile->duration_ns, 2 * SECOND);
        assert_int_equal(profile->cpu_ns, 3100000000u);
        assert_true(fabs(row("p.handoff.push")->cpu_ns - 1e9) < 1 && fabs(row("p.handoff")->cpu_ns - 1e9) < 1);
        assert_true(fabs(row("p.work")->cpu_ns - 1.5e9) < 1);
        assert_true(fabs(row("p.reply.push")->cpu_ns - 0.5e9) < 1);
        assert_true(fabs(row("(outside)")->cpu_ns - 0.1e9) < 1);
        assert_int_equal(row("p.frame")->items, 200);
        assert_int_equal(row("p.work")->items, 180);
        assert_int_equal(row("p.work")->samples, 150);
        assert_int_equal(row("(outside)")->samples, 10);
        assert_int_equal(profile->samples_kept, 310);
        assert_int_equal(row("p.work")->hot_count, 1);
        assert_int_equal(profile->slice_count, 2);
        double sliced = 0;
        for (uint32_t i = 0; i < profile->row_count; i++)
            if (profile->rows[i].part_of == WEIR_NONE)
                sliced += profile->slices[0].row_cpu_ns[i] + profile->slices[1].row_cpu_ns[i];
        assert_true(fabs(sliced - 3.1e9) < 10);
        assert_int_equal(profile->slices[1].row_items[window.rows.stage_rows[WORK]], 90);
        close_window();
    }
}

static void states_sum_to_the_window(void **state)
{
    (void)state;
    open_window(WEIR_MODE_LIGHT);
    fill();
    assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
    const struct weir_profile_pool *io = &profile->pools[0], *workers = &profile->pools[1];
    assert_int_equal(io->threads, 1);
    assert_int_equal(workers->threads, 2);
    assert_true(fabs(io->state_ns[WEIR_STATE_RUNNING] - 1e9) < 1 && fabs(io->state_ns[WEIR_STATE_IDLE] - 1e9) < 1);
    assert_true(fabs(workers->state_ns[WEIR_STATE_BACKPRESSURED] - 0.5e9) < 1);
    assert_true(fabs(workers->state_ns[WEIR_STATE_RUNNABLE] - 1.5e9) < 1); /* stolen time could have run */
    close_window();
}

static void place_at(struct weir_snapshot_thread *thread, unsigned index, struct weir_probe_place place)
{
    thread->places->list[index] = place;
}

static const struct weir_profile_sleep *sleep_of(uint32_t pool, enum weir_state state, const char *row_name)
{
    for (uint32_t i = 0; i < profile->sleep_count; i++)
        if (profile->sleeps[i].pool == pool && profile->sleeps[i].state == state &&
            strcmp(profile->rows[profile->sleeps[i].row].name, row_name) == 0)
            return &profile->sleeps[i];
    fail_msg("no sleep %s in %s", weir_state_name(state), row_name);
    return NULL;
}

/* Two workers in one place share an entry; what no place has is elsewhere; what was there before the window doesn't count, though it
 * lay at another index of the table. */
static void places_sum_to_the_states(void **state)
{
    (void)state;
    open_window(WEIR_MODE_LIGHT);
    const uint32_t full = WEIR_WAIT_WORD(WEIR_WAIT_FULL, 0), lock = WEIR_WAIT_WORD(WEIR_WAIT_LOCK, WEIR_WAIT_NOTHING),
                   idle = WEIR_WAIT_WORD(WEIR_WAIT_IDLE, 0);
    const uint32_t push = AT(HANDOFF, WEIR_PART_PUSH), pop = AT(HANDOFF, WEIR_PART_POP), work = AT(WORK, 0);
    place_at(thread_at(&window.begin, 1, 1), 7, (struct weir_probe_place){ push, full, 0, SECOND, SECOND / 2, 10 });
    window.begin.threads[1].off_ns[WEIR_WAIT_FULL] = SECOND;
    window.begin.threads[1].off_ns[WEIR_PROBE_RUNNABLE] = SECOND / 2;
    thread_at(&window.begin, 2, 1);
    weir_window_begin(&window);
    window.now.ns = window.begin.ns + SECOND;
    struct weir_snapshot_thread *one = thread_at(&window.now, 1, 1), *two = thread_at(&window.now, 2, 1);
    place_at(one, 7, (struct weir_probe_place){ 0 });
    place_at(one, 3, (struct weir_probe_place){ push, full, 0, SECOND + SECOND / 4, SECOND / 2 + SECOND / 8, 15 });
    one->off_ns[WEIR_WAIT_FULL] = SECOND + SECOND / 4;
    one->off_ns[WEIR_PROBE_RUNNABLE] = SECOND / 2 + SECOND / 8;
    place_at(one, 4, (struct weir_probe_place){ work, lock, 0x1234, SECOND / 8, 0, 1 });
    one->off_ns[WEIR_WAIT_LOCK] = SECOND / 4; /* half of it has no place */
    one->on_cpu_ns = SECOND / 4 + SECOND / 8;
    place_at(two, 0, (struct weir_probe_place){ push, full, 0, SECOND / 4, 0, 5 });
    two->off_ns[WEIR_WAIT_FULL] = SECOND / 4;
    place_at(two, 1, (struct weir_probe_place){ pop, idle, 0, SECOND / 4 * 3, 0, 2 });
    two->off_ns[WEIR_WAIT_IDLE] = SECOND / 4 * 3;
    assert_int_equal(weir_window_slice(&window), 0);
    weir_window_end(&window);
    assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
    assert_int_equal(weir_sleeps_set(&window, NULL), 0);
    check_all();
    const struct weir_profile_sleep *sleep = sleep_of(1, WEIR_STATE_BACKPRESSURED, "p.handoff.push");
    assert_true(fabs(sleep->ns - 0.5e9) < 1 && sleep->count == 10 && sleep->queue == 0);
    sleep = sleep_of(1, WEIR_STATE_RUNNABLE, "p.handoff.push");
    assert_true(fabs(sleep->ns - 0.125e9) < 1);
    sleep = sleep_of(1, WEIR_STATE_LOCK, "p.work");
    assert_true(fabs(sleep->ns - 0.125e9) < 1 && sleep->queue == WEIR_NONE);
    assert_string_equal(sleep->site, "[unknown]");
    sleep = sleep_of(1, WEIR_STATE_LOCK, "(runtime)");
    assert_true(fabs(sleep->ns - 0.125e9) < 1);
    assert_string_equal(sleep->site, "(elsewhere)");
    assert_int_equal(sleep_of(1, WEIR_STATE_IDLE, "p.handoff.pop")->queue, 0);
    double sums[WEIR_STATE_COUNT] = { 0 };
    for (uint32_t i = 0; i < profile->sleep_count; i++)
        sums[profile->sleeps[i].state] += profile->sleeps[i].ns;
    for (unsigned k = WEIR_STATE_RUNNING + 1; k < WEIR_STATE_COUNT; k++)
        assert_true(fabs(sums[k] - profile->pools[1].state_ns[k]) < 1);
    assert_int_equal(profile->thread_count, 2);
    close_window();
}

/* A thread that ran, but too little to be sampled, is split like its pool; with no sample at all its time is the runtime's. */
static void threads_without_samples(void **state)
{
    (void)state;
    open_window(WEIR_MODE_LIGHT);
    for (uint32_t slot = 0; slot < 3; slot++)
        thread_at(&window.begin, slot, slot == 0 ? 0 : 1);
    weir_window_begin(&window);
    window.now.ns = window.begin.ns + SECOND;
    for (uint32_t slot = 0; slot < 3; slot++)
        window.now.threads[slot].on_cpu_ns = SECOND / 10;
    window.now.process_cpu_ns = 3 * SECOND / 10;
    sample(1, AT(WORK, 0), 10);
    assert_int_equal(weir_window_slice(&window), 0);
    weir_window_end(&window);
    assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
    check_all();
    assert_true(fabs(row("p.work")->cpu_ns - 0.2e9) < 1);
    assert_true(fabs(row("(runtime)")->cpu_ns - 0.1e9) < 1);
    close_window();
}

/* Samples that come after the last slice, as while the tracer detaches, count nowhere: hot functions agree with their rows. */
static void hot_functions_agree_with_their_rows(void **state)
{
    (void)state;
    open_window(WEIR_MODE_LIGHT);
    fill();
    sample(1, AT(WORK, 0), 40);
    sample(1, AT(REPLY, WEIR_PART_PUSH), 40);
    sample(WEIR_PROBE_OUTSIDE, 0, 40);
    assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
    assert_int_equal(weir_aggregate_stacks(&window, NULL), 0);
    for (uint32_t i = 0; i < profile->row_count; i++) {
        uint64_t hot = 0;
        for (uint32_t k = 0; k < profile->rows[i].hot_count; k++)
            hot += profile->rows[i].hot[k].samples;
        assert_int_equal(hot, profile->rows[i].samples);
    }
    close_window();
}

static const struct weir_profile_edge *edge(uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < profile->edge_count; i++)
        if (profile->edges[i].from == from && profile->edges[i].to == to)
            return &profile->edges[i];
    fail_msg("no edge from %u to %u", from, to);
    return NULL;
}

/* What a handoff refused went straight to the reply, and not over the stages in between. */
/* Whoever takes from several queues sleeps on all of them, whichever its wait word names. */
static void wakeups_are_shared_out(void **state)
{
    (void)state;
    open_window(WEIR_MODE_LIGHT);
    struct weir_topology_queue *other = &window.profile->topology.queues[1], was = *other;
    other->kind = WEIR_QUEUE_HANDOFF;
    other->to_pool = 1;
    window.last.queues[0].in = window.last.queues[0].out = 300;
    window.last.queues[1].in = window.last.queues[1].out = 100;
    window.last.wakes[1] = (struct weir_probe_wakes){ .wakeups = 400, .unused = 40, .moved = 80 };
    assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(window.profile->queues[i].wakeups, i ? 100 : 300);
        assert_int_equal(window.profile->queues[i].wakeups_unused, i ? 10 : 30);
        assert_int_equal(window.profile->queues[i].wakeups_moved, i ? 20 : 60);
    }
    *other = was;
    close_window();
}

static void refused_items_have_their_own_edge(void **state)
{
    (void)state;
    open_window(WEIR_MODE_LIGHT);
    thread_at(&window.begin, 0, 0);
    thread_at(&window.begin, 1, 1);
    weir_window_begin(&window);
    window.now.ns = window.begin.ns + SECOND;
    thread_at(&window.now, 0, 0)->cells[AT(FRAME, 0)].entries = 100000;
    window.now.threads[0].cells[AT(HANDOFF, 0)].entries = 100000;
    window.now.threads[0].cells[AT(REPLY, 0)].entries = 99900;
    thread_at(&window.now, 1, 1)->cells[AT(WORK, 0)].entries = 100;
    window.now.threads[1].cells[AT(REPLY, 0)].entries = 100;
    window.now.queues[0].rejected = 99000;
    window.now.queues[0].dropped = 900;
    assert_int_equal(weir_window_slice(&window), 0);
    weir_window_end(&window);
    assert_int_equal(weir_aggregate(&window, NULL, NULL), 0);
    assert_int_equal(edge(FRAME, HANDOFF)->items, 100000);
    assert_int_equal(edge(HANDOFF, WORK)->items, 100);
    assert_int_equal(edge(WORK, REPLY)->items, 100);
    assert_int_equal(edge(HANDOFF, REPLY)->items, 99900);
    assert_int_equal(profile->edge_count, STAGES);
    close_window();
}

/* A wakeup divides a sleep; a running thread runs on; no sum goes backwards when the kernel's own turns out smaller. */
static void extrapolation(void **state)
{
    (void)state;
    struct weir_snapshot_thread thread = { .seen = true };
    struct weir_probe_thread probed = {
        .state = WEIR_PROBE_OFF, .off_kind = WEIR_WAIT_IDLE, .since_ns = 1000, .waking_ns = 1600, .on_cpu_ns = 50
    };
    weir_snapshot_extrapolate(&thread, &probed, 2000);
    assert_int_equal(thread.off_ns[WEIR_WAIT_IDLE], 600);
    assert_int_equal(thread.off_ns[WEIR_PROBE_RUNNABLE], 400);
    assert_int_equal(thread.on_cpu_ns, 50);
    probed.waking_ns = 900; /* came before the switch that it undoes */
    weir_snapshot_extrapolate(&thread, &probed, 2000);
    assert_int_equal(thread.off_ns[WEIR_PROBE_RUNNABLE], 1000);
    probed.state = WEIR_PROBE_RUNNING;
    weir_snapshot_extrapolate(&thread, &probed, 2000);
    assert_int_equal(thread.on_cpu_ns, 1050);
    probed.on_cpu_ns = 800;
    probed.since_ns = 2500; /* ahead of our clock reading */
    weir_snapshot_extrapolate(&thread, &probed, 2400);
    assert_int_equal(thread.on_cpu_ns, 1050);
    probed.state = WEIR_PROBE_OFF;
    probed.off_kind = 12345; /* no such kind */
    weir_snapshot_extrapolate(&thread, &probed, 9000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_window),
        cmocka_unit_test(both_modes_agree),
        cmocka_unit_test(states_sum_to_the_window),
        cmocka_unit_test(places_sum_to_the_states),
        cmocka_unit_test(threads_without_samples),
        cmocka_unit_test(hot_functions_agree_with_their_rows),
        cmocka_unit_test(refused_items_have_their_own_edge),
        cmocka_unit_test(wakeups_are_shared_out),
        cmocka_unit_test(extrapolation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
