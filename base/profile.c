#include "base/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define FILE_MOST ((size_t)1 << 30)
#define VIOLATIONS_MOST 100u
#define TOLERANCE 0.01

const char *weir_mode_name(enum weir_mode mode)
{
    static const char *const names[] = { "light", "exact", "counters" };
    return names[mode];
}

const char *weir_state_name(enum weir_state state)
{
    static const char *const names[WEIR_STATE_COUNT] = {
        "running", "runnable", "idle", "backpressured", "starved", "io", "lock", "other",
    };
    return (unsigned)state < WEIR_STATE_COUNT ? names[state] : "?";
}

struct weir_profile *weir_profile_new(void)
{
    struct weir_profile *profile = calloc(1, sizeof *profile);
    if (profile)
        weir_arena_init(&profile->arena, 1 << 16, SIZE_MAX);
    return profile;
}

void weir_profile_free(struct weir_profile *profile)
{
    if (!profile)
        return;
    weir_arena_release(&profile->arena);
    free(profile);
}

bool weir_profile_lossy(const struct weir_profile *profile)
{
    return profile->samples_lost || profile->records_lost || profile->threads_lost || profile->violation_count;
}

/* --- verify ----------------------------------------------------------------------------------------------------------------- */

/* Adds one sentence, unless the profile has it already. `text` is null when memory ran out. */
static void violate(struct weir_profile *profile, const char *text)
{
    if (!text || profile->violation_count >= VIOLATIONS_MOST)
        return;
    for (uint32_t i = 0; i < profile->violation_count; i++)
        if (strcmp(profile->violations[i], text) == 0)
            return;
    profile->violations[profile->violation_count++] = text;
}

#define VIOLATE(profile, ...) violate((profile), weir_arena_printf(&(profile)->arena, __VA_ARGS__))

static void verify_rows(struct weir_profile *profile)
{
    double total = 0;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (!(row->share >= 0 && row->share <= 1))
            VIOLATE(profile, "the CPU share of %s is %.2f %%, which is not between 0 and 100 %%", row->name, row->share * 100);
        if (row->part_of == WEIR_NONE)
            total += row->share;
    }
    if (profile->cpu_ns && profile->row_count && !(fabs(total - 1) <= TOLERANCE))
        VIOLATE(profile, "the CPU shares of all stages sum to %.2f %%, not to 100 %%", total * 100);
}

/* Parts, and the rows for each way in, can't cost more than their whole. */
static void verify_parts(struct weir_profile *profile)
{
    double *sums = weir_arena_zalloc(&profile->arena, ((size_t)profile->row_count + 1) * 2 * sizeof *sums);
    if (!sums)
        return;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->part_of != WEIR_NONE)
            sums[2 * row->part_of + (row->part != WEIR_PART_NONE)] += row->cpu_ns;
    }
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        double parts = sums[2 * i] > sums[2 * i + 1] ? sums[2 * i] : sums[2 * i + 1];
        if (parts > row->cpu_ns * (1 + TOLERANCE) + TOLERANCE * (double)profile->cpu_ns)
            VIOLATE(profile, "the parts of %s cost %.0f ns, more than the %.0f ns of the whole", row->name, parts, row->cpu_ns);
    }
}

static void verify_pools(struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        const struct weir_profile_pool *pool = &profile->pools[i];
        double whole = (double)pool->threads * (double)profile->duration_ns, sum = 0;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            sum += pool->state_ns[k];
        if (fabs(sum - whole) > TOLERANCE * whole)
            VIOLATE(profile, "the states of pool %s sum to %.3f s, not to the %.3f s of its %u threads",
                    profile->topology.pools[i].name, sum / 1e9, whole / 1e9, pool->threads);
    }
}

/* A thread that came or went within the window has less than its length, and its pool the rest, as "other". */
static void verify_threads(struct weir_profile *profile)
{
    double window = (double)profile->duration_ns;
    for (uint32_t i = 0; i < profile->topology.pool_count; i++) {
        double threads[WEIR_STATE_COUNT] = { 0 }, sleeps[WEIR_STATE_COUNT] = { 0 };
        const struct weir_profile_pool *pool = &profile->pools[i];
        const char *name = profile->topology.pools[i].name;
        double most = TOLERANCE * window * pool->threads;
        for (uint32_t t = 0; t < profile->thread_count; t++)
            for (unsigned k = 0; profile->threads[t].pool == i && k < WEIR_STATE_COUNT; k++)
                threads[k] += profile->threads[t].state_ns[k];
        for (uint32_t s = 0; s < profile->sleep_count; s++)
            if (profile->sleeps[s].pool == i)
                sleeps[profile->sleeps[s].state] += profile->sleeps[s].ns;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++) {
            double less = k == WEIR_STATE_OTHER ? 0 : pool->state_ns[k] - most;
            if (profile->thread_count && (threads[k] > pool->state_ns[k] + most || threads[k] < less))
                VIOLATE(profile, "the threads of pool %s were %s for %.3f s, and the pool for %.3f s", name,
                        weir_state_name((enum weir_state)k), threads[k] / 1e9, pool->state_ns[k] / 1e9);
            if (sleeps[k] > pool->state_ns[k] + most)
                VIOLATE(profile, "the places where threads of pool %s were %s sum to %.3f s, more than the pool's %.3f s", name,
                        weir_state_name((enum weir_state)k), sleeps[k] / 1e9, pool->state_ns[k] / 1e9);
        }
    }
    for (uint32_t t = 0; t < profile->thread_count; t++) {
        double sum = 0;
        for (unsigned k = 0; k < WEIR_STATE_COUNT; k++)
            sum += profile->threads[t].state_ns[k];
        if (sum > window * (1 + TOLERANCE))
            VIOLATE(profile, "the states of thread %u sum to %.3f s, more than the window's %.3f s", profile->threads[t].tid, sum / 1e9,
                    window / 1e9);
    }
}

static void verify_queue_count(struct weir_profile *profile, const char *name, const char *when,
                               const struct weir_profile_queue_count *count)
{
    if (count->in != count->out + count->dropped + count->rejected + count->queued)
        VIOLATE(profile, "queue %s at the window's %s: in %llu is not out %llu + dropped %llu + rejected %llu + queued %llu", name,
                when, (unsigned long long)count->in, (unsigned long long)count->out, (unsigned long long)count->dropped,
                (unsigned long long)count->rejected, (unsigned long long)count->queued);
}

static void verify_queues(struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.queue_count; i++) {
        const struct weir_profile_queue *queue = &profile->queues[i];
        const char *name = profile->topology.queues[i].name;
        verify_queue_count(profile, name, "begin", &queue->begin);
        verify_queue_count(profile, name, "end", &queue->end);
        if (queue->end.in < queue->begin.in || queue->end.out < queue->begin.out || queue->end.dropped < queue->begin.dropped ||
            queue->end.rejected < queue->begin.rejected)
            VIOLATE(profile, "the counters of queue %s went backwards", name);
    }
}

static void verify_slot_count(struct weir_profile *profile, const char *name, const char *when,
                              const struct weir_profile_slot_count *count)
{
    if (count->taken != count->finished + count->failed + count->lost + count->in_use)
        VIOLATE(profile, "slots of %s at the window's %s: taken %llu is not finished %llu + failed %llu + lost %llu + in use %llu", name,
                when, (unsigned long long)count->taken, (unsigned long long)count->finished, (unsigned long long)count->failed,
                (unsigned long long)count->lost, (unsigned long long)count->in_use);
}

static void verify_slots(struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->slots_count; i++) {
        const struct weir_profile_slots *slots = &profile->slots[i];
        const struct weir_topology_stage *stage = &profile->topology.stages[slots->stage];
        uint64_t capacity = (uint64_t)stage->connections * stage->in_flight;
        uint64_t most = slots->in_use.count && slots->in_use.max > slots->end.in_use ? slots->in_use.max : slots->end.in_use;
        verify_slot_count(profile, stage->full_name, "begin", &slots->begin);
        verify_slot_count(profile, stage->full_name, "end", &slots->end);
        if (most > capacity)
            VIOLATE(profile, "%llu slots of %s were in use, and it has %llu", (unsigned long long)most, stage->full_name,
                    (unsigned long long)capacity);
        if (slots->end.taken < slots->begin.taken || slots->end.finished < slots->begin.finished ||
            slots->end.waited_ns < slots->begin.waited_ns || slots->end.full_ns < slots->begin.full_ns)
            VIOLATE(profile, "the counters of the slots of %s went backwards", stage->full_name);
    }
}

static void verify_way_count(struct weir_profile *profile, const char *name, const char *when,
                             const struct weir_profile_way_count *count)
{
    if (count->accepted != count->answered + count->abandoned + count->discarded + count->in_flight)
        VIOLATE(profile,
                "way in %s at the window's %s: accepted %llu is not answered %llu + abandoned %llu + discarded %llu + in flight %llu",
                name, when, (unsigned long long)count->accepted, (unsigned long long)count->answered,
                (unsigned long long)count->abandoned, (unsigned long long)count->discarded, (unsigned long long)count->in_flight);
}

static void verify_ways(struct weir_profile *profile)
{
    for (uint32_t i = 0; i < profile->topology.way_count; i++) {
        const struct weir_profile_way *way = &profile->ways[i];
        const char *name = profile->topology.ways[i].name;
        verify_way_count(profile, name, "begin", &way->begin);
        verify_way_count(profile, name, "end", &way->end);
        if (way->end.accepted < way->begin.accepted || way->end.answered < way->begin.answered)
            VIOLATE(profile, "the counters of way in %s went backwards", name);
    }
}

/* Exact mode saw every item, but for those pushed before the attach and those that threads held at the window's two ends. */
static void verify_exact(struct weir_profile *profile)
{
    if (profile->mode != WEIR_MODE_EXACT || profile->records_lost || profile->threads_lost)
        return;
    double allowed = 0;
    for (uint32_t i = 0; i < profile->topology.queue_count; i++)
        allowed += (double)profile->queues[i].unstamped + (double)profile->queues[i].begin.queued;
    for (uint32_t i = 0; i < profile->topology.pool_count; i++)
        allowed += 2.0 * profile->pools[i].threads;
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == WEIR_NONE || row->part != WEIR_PART_NONE)
            continue;
        double off = fabs((double)row->items - (double)row->stamped);
        if (off > allowed + 0.001 * (double)row->items)
            VIOLATE(profile, "exact mode saw %llu items in %s, but the server counted %llu", (unsigned long long)row->stamped,
                    row->name, (unsigned long long)row->items);
    }
}

void weir_profile_verify(struct weir_profile *profile)
{
    const char **list = weir_arena_zalloc(&profile->arena, (VIOLATIONS_MOST + 1) * sizeof *list);
    if (!list)
        return;
    if (profile->violation_count > VIOLATIONS_MOST)
        profile->violation_count = VIOLATIONS_MOST;
    for (uint32_t i = 0; i < profile->violation_count; i++)
        list[i] = profile->violations[i];
    profile->violations = list;
    verify_rows(profile);
    verify_parts(profile);
    verify_pools(profile);
    verify_threads(profile);
    verify_queues(profile);
    verify_ways(profile);
    verify_slots(profile);
    verify_exact(profile);
}

/* --- files ------------------------------------------------------------------------------------------------------------------ */

int weir_profile_save(const struct weir_profile *profile, const char *path, struct weir_error *error)
{
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    int rc = weir_profile_write(profile, &bytes, error);
    if (rc == 0)
        rc = weir_file_write(path, bytes.data, bytes.length, "the profile", error);
    weir_buffer_release(&bytes);
    return rc;
}

/* Reads until the end, or until what was read can't be a profile. Returns 0 or an errno. */
static int read_all(int fd, struct weir_buffer *bytes)
{
    char piece[1 << 16];
    for (;;) {
        ssize_t got = read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        weir_buffer_add(bytes, piece, (size_t)got);
        if (bytes->failed)
            return ENOMEM;
        if (bytes->length > FILE_MOST)
            return EFBIG;
        if (got == 0 || (bytes->length >= 8 && memcmp(bytes->data, "weirprof", 8) != 0))
            return 0;
    }
}

int weir_profile_load(struct weir_profile *profile, const char *path, struct weir_error *error)
{
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    struct weir_error inner = WEIR_ERROR_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int code = fd < 0 ? errno : read_all(fd, &bytes);
    int rc;
    if (fd >= 0)
        close(fd);
    if (code) {
        rc = weir_error_set(error, WEIR_EXIT_USAGE, code, "can't read %s: %s", path, strerror(code));
    } else {
        rc = weir_profile_read(profile, weir_buffer_text(&bytes), bytes.length, &inner);
        if (rc)
            weir_error_set(error, inner.exit, -rc, "%.200s: %s", path, inner.text);
    }
    weir_buffer_release(&bytes);
    return rc;
}
