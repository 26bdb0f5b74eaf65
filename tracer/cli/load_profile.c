#include "tracer/cli/load_profile.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "tracer/session.h"
#include "tracer/verdict.h"

/* --- the recorder's side -------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t halted;

static void on_halt(int number)
{
    (void)number;
    halted = 1;
}

/* SIGTERM halts it. SIGINT, which a terminal sends to the driver and to us alike, stays blocked: the driver says what to do. */
static void catch_halt(void)
{
    struct sigaction action = { .sa_handler = on_halt };
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static bool hand_over(int fd, const char *data, size_t size)
{
    for (ssize_t wrote; size; data += wrote, size -= (size_t)wrote)
        if ((wrote = write(fd, data, size)) <= 0)
            return false;
    return true;
}

/* Ends the process: 0 with a profile, else with a sentence. */
static _Noreturn void record(int go_fd, int profile_fd, pid_t pid, uint64_t most_ns)
{
    char target[16];
    uint64_t go;
    struct weir_error error = WEIR_ERROR_INIT;
    struct weir_profile *profile;
    struct weir_buffer bytes = WEIR_BUFFER_INIT;
    snprintf(target, sizeof target, "%d", (int)pid);
    const struct weir_session_options options = { .target = target, .duration_ns = most_ns, .stop = &halted };
    ssize_t told = read(go_fd, &go, sizeof go);
    (void)told; /* halted meanwhile: a window without length says so */
    int rc = weir_session_record(&options, &profile, &error);
    if (!rc)
        rc = weir_profile_write(profile, &bytes, &error);
    bool whole = rc ? hand_over(profile_fd, error.text, strlen(error.text)) : hand_over(profile_fd, bytes.data, bytes.length);
    _exit(rc || !whole ? WEIR_EXIT_CANNOT : WEIR_EXIT_DONE);
}

/* --- the driver's side ---------------------------------------------------------------------------------------------------- */

static void release(struct load_profile *profile)
{
    if (profile->go_fd >= 0)
        close(profile->go_fd);
    if (profile->profile_fd >= 0)
        close(profile->profile_fd);
    *profile = (struct load_profile){ .go_fd = -1, .profile_fd = -1 };
}

int load_profile_start(struct load_profile *profile, pid_t pid, uint64_t most_ns, struct weir_error *error)
{
    pid_t driver = getpid();
    *profile = (struct load_profile){ .go_fd = eventfd(0, EFD_CLOEXEC), .profile_fd = memfd_create("profile", MFD_CLOEXEC) };
    pid_t recorder = profile->go_fd >= 0 && profile->profile_fd >= 0 ? fork() : -1;
    if (recorder < 0) {
        int code = errno;
        release(profile);
        return weir_error_set(error, WEIR_EXIT_CANNOT, code, "can't start the recorder: %s", strerror(code));
    }
    if (recorder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != driver)
            _exit(WEIR_EXIT_CANNOT);
        catch_halt();
        record(profile->go_fd, profile->profile_fd, pid, most_ns);
    }
    profile->recorder = recorder;
    return 0;
}

void load_profile_go(struct load_profile *profile)
{
    uint64_t one = 1;
    if (!profile->recorder || profile->gone)
        return;
    profile->gone = write(profile->go_fd, &one, sizeof one) == sizeof one;
}

void load_profile_halt(const struct load_profile *profile)
{
    if (profile->recorder)
        kill(profile->recorder, SIGTERM);
}

/* The sentence that the recorder left. */
static int refuse(int fd, struct weir_error *error)
{
    char text[sizeof error->text];
    ssize_t size = pread(fd, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = '\0';
    return weir_error_set(error, WEIR_EXIT_CANNOT, ECANCELED, "%s", size > 0 ? text : "the recorder has died");
}

static void summarize(const struct weir_profile *profile, const struct weir_verdict *verdict, struct load_profile_summary *summary)
{
    summary->known = true;
    summary->cpus = (double)profile->cpu_ns / (double)profile->duration_ns;
    snprintf(summary->kind, sizeof summary->kind, "%s", verdict->kind);
    snprintf(summary->verdict, sizeof summary->verdict, "%s", verdict->text);
    for (uint32_t i = 0; i < profile->row_count; i++) {
        const struct weir_profile_row *row = &profile->rows[i];
        if (row->stage == WEIR_NONE || row->part_of != WEIR_NONE || row->share <= summary->stage_share)
            continue;
        summary->stage_share = row->share;
        snprintf(summary->stage, sizeof summary->stage, "%s", row->name);
    }
}

static int take_over(int fd, const char *path, struct load_profile_summary *summary, struct weir_error *error)
{
    char name[32];
    struct weir_verdict verdict;
    struct weir_arena arena;
    struct weir_profile *profile = weir_profile_new();
    weir_arena_init(&arena, 0, SIZE_MAX);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int rc = profile ? weir_profile_load(profile, name, error)
                     : weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "out of memory for a profile");
    if (!rc)
        rc = weir_verdict_of(profile, &arena, &verdict, error);
    if (!rc && profile->duration_ns >= WEIR_PROFILE_SLICE_NS)
        summarize(profile, &verdict, summary);
    if (!rc && path && summary->known) {
        snprintf(summary->path, sizeof summary->path, "%s", path);
        rc = weir_profile_save(profile, path, error);
    }
    weir_arena_release(&arena);
    weir_profile_free(profile);
    return rc;
}

int load_profile_stop(struct load_profile *profile, const char *path, struct load_profile_summary *summary, struct weir_error *error)
{
    int status = 0, rc = 0;
    *summary = (struct load_profile_summary){ 0 };
    if (!profile->recorder)
        return 0;
    kill(profile->recorder, profile->gone ? SIGTERM : SIGKILL);
    while (waitpid(profile->recorder, &status, 0) < 0 && errno == EINTR)
        continue;
    if (profile->gone)
        rc = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? take_over(profile->profile_fd, path, summary, error)
                                                           : refuse(profile->profile_fd, error);
    release(profile);
    return rc;
}
