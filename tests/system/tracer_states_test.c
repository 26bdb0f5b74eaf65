/* What each thread did, held against what is known of it: what the stages measured of themselves, what the kernel says of its run
 * queue, and locks that the test made. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/system/recording.h"
#include "tracer/session.h"

#define WINDOW_MS harness_window_ms(1500, 10000)
#define POINTS 0.02

/* Where the second pool's threads begin. */
#define HEAD "pool io threads 1\npool workers threads %u\n%spipeline p {\n    listen tcp 127.0.0.1:0 on io\n" \
             "    frame length32 max 1MiB\n    decode riemann\n    handoff workers limit 64MiB items %u full block\n"
#define TAIL "    index\n    encode riemann\n    reply\n}\n"
enum { IO, WORKERS, BACK };

static double share(const struct weir_profile *profile, uint32_t pool, enum weir_state state)
{
    return profile->pools[pool].state_ns[state] / ((double)profile->pools[pool].threads * (double)profile->duration_ns);
}

static void near(const char *what, double measured, double truth)
{
    if (fabs(measured - truth) > POINTS)
        fail_msg("%s: the tracer says %.2f %%, and the truth is %.2f %%", what, measured * 100, truth * 100);
}

/* States of pools and of threads sum to the window, and places to the states. */
static void check_sums(const struct weir_profile *profile)
{
    uint32_t threads = 0;
    for (uint32_t t = 0; t < profile->thread_count; t++) {
        double sum = 0;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            sum += profile->threads[t].state_ns[k];
        assert_true(fabs(sum / (double)profile->duration_ns - 1) < 1e-6);
        assert_true(profile->threads[t].tid != 0 && profile->threads[t].preempted <= profile->threads[t].switches);
    }
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        double asleep[WEIR_STATE_COUNT] = { 0 }, all = 0;
        threads += profile->pools[i].threads;
        for (uint32_t s = 0; s < profile->sleep_count; s++)
            if (profile->sleeps[s].pool == i)
                asleep[profile->sleeps[s].state] += profile->sleeps[s].ns;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++) {
            all += share(profile, i, (enum weir_state)k);
            if (k != WEIR_STATE_RUNNING)
                assert_true(fabs(asleep[k] - profile->pools[i].state_ns[k]) < 1e-6 * (double)profile->duration_ns);
        }
        assert_true(fabs(all - 1) < 1e-6);
    }
    assert_int_equal(threads, profile->thread_count);
}

/* The largest place of a pool's threads in that state. */
static const struct weir_profile_sleep *main_sleep(const struct weir_profile *profile, uint32_t pool, enum weir_state state)
{
    for (uint32_t s = 0; s < profile->sleep_count; s++)
        if (profile->sleeps[s].pool == pool && profile->sleeps[s].state == state)
            return &profile->sleeps[s];
    fail_msg("no thread of the pool was ever %s", weir_state_name(state));
    return NULL;
}

static const char *row_name(const struct weir_profile *profile, const struct weir_profile_sleep *sleep)
{
    return profile->rows[sleep->row].name;
}

/* Reads every 5 ms how long a thread has waited for a CPU, as the kernel counts it. */
struct run_delay {
    char path[64];
    pthread_t reader;
    volatile bool stop;
    unsigned count;
    struct {
        double unix_ns, waited_ns;
    } at[4096];
};

static void *read_run_delay(void *argument)
{
    struct run_delay *delay = argument;
    while (!delay->stop && delay->count < sizeof delay->at / sizeof *delay->at) {
        unsigned long long ran = 0, waited = 0;
        struct timespec now;
        FILE *file = fopen(delay->path, "r");
        clock_gettime(CLOCK_REALTIME, &now);
        if (file && fscanf(file, "%llu %llu", &ran, &waited) == 2) {
            delay->at[delay->count].unix_ns = (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
            delay->at[delay->count++].waited_ns = (double)waited;
        }
        if (file)
            fclose(file);
        usleep(5000);
    }
    return NULL;
}

static void run_delay_start(struct run_delay *delay, const struct harness_server *server, uint32_t tid)
{
    *delay = (struct run_delay){ .stop = false };
    snprintf(delay->path, sizeof delay->path, "/proc/%d/task/%u/schedstat", (int)server->pid, tid);
    assert_int_equal(pthread_create(&delay->reader, NULL, read_run_delay, delay), 0);
}

static double run_delay_at(const struct run_delay *delay, double unix_ns)
{
    unsigned next = 0;
    while (next < delay->count && delay->at[next].unix_ns < unix_ns)
        next++;
    assert_true(next > 0 && next < delay->count);
    double from = delay->at[next - 1].unix_ns, to = delay->at[next].unix_ns;
    return delay->at[next - 1].waited_ns +
           (delay->at[next].waited_ns - delay->at[next - 1].waited_ns) * (unix_ns - from) / (to - from);
}

/* Share of the profile's window that the thread waited. */
static double run_delay_end(struct run_delay *delay, const struct weir_profile *profile)
{
    double begin = (double)profile->start_unix_ns, window = (double)profile->duration_ns;
    delay->stop = true;
    pthread_join(delay->reader, NULL);
    return (run_delay_at(delay, begin + window) - run_delay_at(delay, begin)) / window;
}

static pid_t start_hog(void)
{
    pid_t hog = fork();
    assert_true(hog >= 0);
    if (hog == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(60);
        for (;;)
            __asm__ volatile("");
    }
    return hog;
}

static void end_hog(pid_t hog)
{
    kill(hog, SIGKILL);
    recording_wait(hog);
}

static struct weir_profile *record(struct harness_server *server, const char *load, enum weir_mode mode)
{
    char options[160];
    snprintf(options, sizeof options, "%s --duration %ums", load, WINDOW_MS + 1200);
    pid_t driver = recording_load(server, options);
    usleep(400000);
    struct weir_profile *profile = recording_take(server, mode, WINDOW_MS);
    recording_load_wait(driver);
    check_sums(profile);
    return profile;
}

/* --- the tests -------------------------------------------------------------------------------------------------------------- */

static void check_busy_and_pause(const struct weir_profile *profile)
{
    const struct weir_profile_row *row = recording_row(profile, "p.work");
    double window = (double)profile->duration_ns, items = (double)row->items, slack_ns = 60e3; /* of the kernel's timers */
    near("running", share(profile, WORKERS, WEIR_STATE_RUNNING), (double)row->own_cpu_ns / window);
    near("other", share(profile, WORKERS, WEIR_STATE_OTHER), items * (8e6 + slack_ns) / window);
    assert_string_equal(row_name(profile, main_sleep(profile, WORKERS, WEIR_STATE_OTHER)), "p.work");
}

static void busy_and_pause(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    busy 2ms pause 8ms as work\n" TAIL, 1u, "", 100u);
    harness_run(&server, text);
    for (enum weir_mode mode = WEIR_MODE_LIGHT; mode <= WEIR_MODE_EXACT; mode++) {
        struct weir_profile *profile = record(&server, "--connections 1 --events 1 --in-flight 8", mode);
        check_busy_and_pause(profile);
        weir_profile_free(profile);
    }
    harness_stop(&server);
}

/* Two hogs on each CPU: the thread could run for most of its time, and the kernel says how long it could not. */
static void a_hog_beside_it(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    pid_t hogs[4];
    snprintf(text, sizeof text, HEAD "    busy 2ms pause 8ms as work\n" TAIL, 1u, "", 100u);
    harness_run(&server, text);
    for (size_t i = 0; i < sizeof hogs / sizeof *hogs; i++)
        hogs[i] = start_hog();
    pid_t driver = recording_load(&server, "--connections 1 --events 1 --in-flight 8 --duration 4s");
    usleep(400000);
    struct weir_profile *first = recording_take(&server, WEIR_MODE_LIGHT, 100);
    uint32_t tid = 0;
    for (uint32_t t = 0; t < first->thread_count; t++)
        tid = first->threads[t].pool == WORKERS ? first->threads[t].tid : tid;
    static struct run_delay delay;
    run_delay_start(&delay, &server, tid);
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_LIGHT, WINDOW_MS);
    usleep(100000);
    double waited = run_delay_end(&delay, profile);
    recording_load_wait(driver);
    for (size_t i = 0; i < sizeof hogs / sizeof *hogs; i++)
        end_hog(hogs[i]);
    check_sums(profile);
    check_busy_and_pause(profile);
    assert_true(profile->neighbour_count > 0 && profile->machine_busy_ns > 0);
    bool seen = false;
    for (uint32_t i = 0; i < profile->neighbour_count; i++)
        for (size_t k = 0; k < sizeof hogs / sizeof *hogs; k++)
            seen |= profile->neighbours[i].pid == (uint32_t)hogs[k];
    assert_true(seen);
    /* What interrupts and the hypervisor took from it is no waiting for the kernel; it has a place of its own, that nobody slept in. */
    double taken = 0;
    for (uint32_t s = 0; s < profile->sleep_count; s++)
        if (profile->sleeps[s].pool == WORKERS && profile->sleeps[s].state == WEIR_STATE_RUNNABLE && !profile->sleeps[s].count)
            taken += profile->sleeps[s].ns / (double)profile->duration_ns;
    near("runnable", share(profile, WORKERS, WEIR_STATE_RUNNABLE) - taken, waited);
    weir_profile_free(first);
    weir_profile_free(profile);
    harness_stop(&server);
}

/* The second queue is always full, so its pusher has nothing but its own work and waiting for room; the event loop, whose
 * connections are all parked at the first queue, too. */
static void a_full_queue(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    busy 200us as first\n    handoff back limit 64MiB items 4 full block as second\n"
             "    busy 2ms as slow\n" TAIL, 1u, "pool back threads 1\n", 4u);
    harness_run(&server, text);
    struct weir_profile *profile = record(&server, "--connections 2 --events 1 --in-flight 32", WEIR_MODE_LIGHT);
    double window = (double)profile->duration_ns;
    double runs = (double)recording_row(profile, "p.first")->own_cpu_ns / window;
    near("running", share(profile, WORKERS, WEIR_STATE_RUNNING), runs);
    /* Who takes from the queue and who pushes meet at its lock. */
    near("backpressured", share(profile, WORKERS, WEIR_STATE_BACKPRESSURED),
         1 - share(profile, WORKERS, WEIR_STATE_RUNNING) - share(profile, WORKERS, WEIR_STATE_RUNNABLE) -
             share(profile, WORKERS, WEIR_STATE_LOCK));
    assert_true(share(profile, WORKERS, WEIR_STATE_LOCK) < 0.1);
    near("idle", share(profile, WORKERS, WEIR_STATE_IDLE), 0);
    const struct weir_profile_sleep *sleep = main_sleep(profile, WORKERS, WEIR_STATE_BACKPRESSURED);
    assert_string_equal(profile->topology.queues[sleep->queue].name, "p.second");
    assert_string_equal(row_name(profile, sleep), "p.second.push");
    sleep = main_sleep(profile, IO, WEIR_STATE_BACKPRESSURED);
    assert_string_equal(profile->topology.queues[sleep->queue].name, "p.handoff");
    near("the event loop's idle", share(profile, IO, WEIR_STATE_IDLE), 0);
    assert_true(share(profile, BACK, WEIR_STATE_RUNNING) + share(profile, BACK, WEIR_STATE_RUNNABLE) > 0.95);
    weir_profile_free(profile);
    harness_stop(&server);
}

static void an_empty_queue(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    busy 20us as work\n" TAIL, 2u, "", 100u);
    harness_run(&server, text);
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_LIGHT, WINDOW_MS);
    check_sums(profile);
    for (uint32_t pool = IO; pool <= WORKERS; pool++)
        near("idle", share(profile, pool, WEIR_STATE_IDLE), 1);
    const struct weir_profile_sleep *sleep = main_sleep(profile, WORKERS, WEIR_STATE_IDLE);
    assert_string_equal(profile->topology.queues[sleep->queue].name, "p.handoff");
    assert_int_equal(profile->queues[0].wakeups, 0);
    weir_profile_free(profile);
    harness_stop(&server);
}

/* Two threads take turns at one mutex, and sleep a millisecond with it. Each notes how long it waited for it, beside the server. */
static const char locking[] =
    "#include <weir/call.h>\n#include <fcntl.h>\n#include <pthread.h>\n#include <stdint.h>\n#include <string.h>\n"
    "#include <sys/mman.h>\n#include <time.h>\n#include <unistd.h>\n"
    "static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;\nstatic uint64_t *notes;\n"
    "static uint64_t now(void)\n{\n    struct timespec t;\n    clock_gettime(CLOCK_MONOTONIC, &t);\n"
    "    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;\n}\n"
    "__attribute__((constructor)) static void map_notes(void)\n{\n    char path[4096] = \"\";\n"
    "    ssize_t length = readlink(\"/proc/self/exe\", path, sizeof path - 16);\n    if (length <= 0)\n        return;\n"
    "    strcpy(strrchr(path, '/'), \"/notes\");\n    int fd = open(path, O_RDWR | O_CREAT, 0600);\n"
    "    if (fd >= 0 && ftruncate(fd, 4096) == 0)\n        notes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);\n}\n"
    "__attribute__((noinline)) static void take_the_lock(void)\n{\n    uint64_t start = now();\n    pthread_mutex_lock(&mutex);\n"
    "    __atomic_fetch_add(notes, now() - start, __ATOMIC_RELAXED);\n}\n"
    "int guarded(struct weir_item *item, struct weir_call *call);\n"
    "int guarded(struct weir_item *item, struct weir_call *call)\n{\n    (void)item, (void)call;\n    take_the_lock();\n"
    "    nanosleep(&(struct timespec){ 0, 1000000 }, NULL);\n    pthread_mutex_unlock(&mutex);\n    return 0;\n}\n";

static uint64_t waited_so_far(const struct harness_server *server)
{
    char path[96];
    uint64_t ns = 0;
    snprintf(path, sizeof path, "%s/notes", server->folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(&ns, sizeof ns, 1, file), 1);
    fclose(file);
    return ns;
}

static void a_contended_lock(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    call \"lock.c\" guarded as work\n" TAIL, 2u, "", 100u);
    harness_build(&server, text, "lock.c", locking);
    harness_start(&server, NULL);
    pid_t driver = recording_load(&server, "--connections 2 --events 1 --in-flight 16 --duration 4s");
    usleep(400000);
    uint64_t before = waited_so_far(&server), start = weir_clock_ns();
    struct weir_profile *profile = recording_take(&server, WEIR_MODE_LIGHT, WINDOW_MS);
    double waited = (double)(waited_so_far(&server) - before) / 2 / (double)(weir_clock_ns() - start);
    recording_load_wait(driver);
    check_sums(profile);
    const struct weir_profile_sleep *sleep = main_sleep(profile, WORKERS, WEIR_STATE_LOCK);
    /* The stage's figure ends when it runs again, the tracer's when it could. */
    double lock = share(profile, WORKERS, WEIR_STATE_LOCK), runnable = share(profile, WORKERS, WEIR_STATE_RUNNABLE);
    near("lock", lock, fmax(fmin(lock, waited), waited - runnable));
    assert_string_equal(row_name(profile, sleep), "p.work");
    assert_non_null(sleep->site);
    assert_string_equal(sleep->site, "take_the_lock");
    assert_int_equal(sleep->queue, WEIR_NONE);
    weir_profile_free(profile);
    harness_stop(&server);
}

/* A client that waits for each answer: one request at a time on a connection, and each wakes the worker, who finds it. */
static void one_request_at_a_time(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    busy 100us pause 1ms as work\n" TAIL, 2u, "", 100u);
    harness_run(&server, text);
    struct weir_profile *profile = record(&server, "--connections 2 --events 1 --in-flight 1", WEIR_MODE_LIGHT);
    const struct weir_profile_way *way = &profile->ways[0];
    const struct weir_profile_queue *queue = &profile->queues[0];
    double items = (double)(queue->end.out - queue->begin.out);
    assert_int_equal(way->end.overlapped, way->begin.overlapped);
    assert_int_equal(way->in_flight.max, 1);
    assert_true(weir_histogram_mean(&way->in_flight) > 0.3);
    assert_true(way->receive_bytes.count > 0 && way->receive_bytes.count == way->send_bytes.count);
    assert_true(way->backlog.count > 0 && way->backlog_limit > 0);
    /* Of two threads one may still be awake when an item comes, and take it. */
    print_message("%.0f items, %llu wakeups, %llu unused, %llu on another CPU\n", items, (unsigned long long)queue->wakeups,
                  (unsigned long long)queue->wakeups_unused, (unsigned long long)queue->wakeups_moved);
    assert_true((double)queue->wakeups > 0.8 * items && (double)queue->wakeups < 1.05 * items + 4);
    assert_true(queue->wakeups_unused + queue->wakeups_moved <= 2 * queue->wakeups);
    assert_true((double)queue->wakeups_unused < 0.1 * (double)queue->wakeups);
    weir_profile_free(profile);
    harness_stop(&server);
}

/* Many at a time, and one connection that is never read: its answers stay in the kernel. */
static void kernel_queues_fill(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    busy 200us as work\n" TAIL, 1u, "", 100u);
    harness_run(&server, text);
    int deaf = harness_deaf_client(&server, "p");
    struct weir_profile *profile = record(&server, "--connections 1 --events 1 --in-flight 8", WEIR_MODE_LIGHT);
    const struct weir_profile_way *way = &profile->ways[0];
    assert_true(way->end.overlapped > way->begin.overlapped);
    assert_true(way->in_flight.max > 1);
    assert_true(way->send_bytes.max > 10000 && way->receive_bytes.max > 0);
    weir_profile_free(profile);
    close(deaf);
    harness_stop(&server);
}

/* Each item starts a thread that dies within the stage, and the stage calls itself: neither leaves anything behind, nor counts twice. */
static const char dying[] =
    "#include <weir/call.h>\n#include <pthread.h>\n"
    "static volatile unsigned long sum;\n"
    "static void *die(void *unused)\n{\n    for (int i = 0; i < 20000; i++)\n        sum++;\n    return unused;\n}\n"
    "__attribute__((noinline)) static int deeper(int depth)\n{\n    for (int i = 0; i < 500; i++)\n        sum++;\n"
    "    return depth ? deeper(depth - 1) + 1 : 0;\n}\n"
    "int spawn(struct weir_item *item, struct weir_call *call);\n"
    "int spawn(struct weir_item *item, struct weir_call *call)\n{\n    pthread_t thread;\n    (void)item, (void)call;\n"
    "    if (deeper(20) != 20 || pthread_create(&thread, NULL, die, NULL) != 0)\n        return -1;\n"
    "    return pthread_join(thread, NULL);\n}\n";

static void threads_that_die_in_a_stage(void **state)
{
    (void)state;
    RECORDING_NEEDS_BPF();
    struct harness_server server;
    char text[1024];
    snprintf(text, sizeof text, HEAD "    call \"dying.c\" spawn as work\n" TAIL, 2u, "", 100u);
    harness_build(&server, text, "dying.c", dying);
    harness_start(&server, NULL);
    struct weir_profile *profile = record(&server, "--connections 2 --events 1 --in-flight 8", WEIR_MODE_EXACT);
    const struct weir_profile_row *row = recording_row(profile, "p.work");
    double shares = 0;
    for (uint32_t i = 0; i < profile->row_count; i++)
        shares += profile->rows[i].part_of == WEIR_NONE ? profile->rows[i].share : 0;
    assert_true(fabs(shares - 1) < 1e-6);
    assert_true(recording_row(profile, "(outside)")->share > 0.02); /* where the dying threads ran */
    assert_true(row->items > 100 && row->share > 0.05 && row->share < 0.95);
    for (uint32_t i = 0; i < row->hot_count; i++)
        assert_true(row->hot[i].share <= row->share + 1e-9);
    assert_int_equal(profile->thread_count, 3);
    assert_int_equal(profile->threads_lost, 0);
    /* The stage waits for its thread, and the place says so. */
    assert_string_equal(row_name(profile, main_sleep(profile, WORKERS, WEIR_STATE_LOCK)), "p.work");
    assert_string_equal(main_sleep(profile, WORKERS, WEIR_STATE_LOCK)->site, "spawn");
    weir_profile_free(profile);
    harness_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(busy_and_pause), cmocka_unit_test(a_hog_beside_it), cmocka_unit_test(a_full_queue),
        cmocka_unit_test(an_empty_queue), cmocka_unit_test(a_contended_lock),
        cmocka_unit_test(one_request_at_a_time), cmocka_unit_test(kernel_queues_fill),
        cmocka_unit_test(threads_that_die_in_a_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
