/*
 * DESIGN. Every feature is tried, none is derived from a kernel version: kernels are patched, and users are confined. Where a try
 * fails for lack of a capability, the sentence names that capability, since "Operation not permitted" helps nobody.
 */
#include "tracer/capabilities.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tracer/probe.h"
#include <weir.skel.h>

#define REMEDY_CAPABILITIES "run weir as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep on the weir executable"

static uint64_t effective(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 } };
    if (syscall(SYS_capget, &header, data) != 0)
        return 0;
    return data[0].effective | (uint64_t)data[1].effective << 32;
}

static bool has(int capability)
{
    return effective() >> capability & 1;
}

/* Those of the three that we lack, as in "CAP_BPF and CAP_PERFMON are missing"; "" when none. CAP_SYS_ADMIN stands for the first two. */
static void list_missing(bool others, char *text, size_t size)
{
    const char *names[3];
    size_t count = 0;
    if (!has(CAP_BPF) && !has(CAP_SYS_ADMIN))
        names[count++] = "CAP_BPF";
    if (!has(CAP_PERFMON) && !has(CAP_SYS_ADMIN))
        names[count++] = "CAP_PERFMON";
    if (others && !has(CAP_SYS_PTRACE))
        names[count++] = "CAP_SYS_PTRACE";
    text[0] = 0;
    if (count == 1)
        snprintf(text, size, "%s is missing", names[0]);
    else if (count == 2)
        snprintf(text, size, "%s and %s are missing", names[0], names[1]);
    else if (count == 3)
        snprintf(text, size, "%s, %s and %s are missing", names[0], names[1], names[2]);
}

int weir_capabilities_check(struct weir_error *error)
{
    char missing[80];
    list_missing(false, missing, sizeof missing);
    if (!*missing)
        return 0;
    return weir_error_set(error, WEIR_EXIT_CANNOT, EPERM, "can't load probes: %s; " REMEDY_CAPABILITIES, missing);
}

int weir_capabilities_refused(const char *what, int pid, struct weir_error *error)
{
    char missing[80];
    list_missing(true, missing, sizeof missing);
    return weir_error_set(error, WEIR_EXIT_CANNOT, EPERM, "can't read %s of process %d: %s; " REMEDY_CAPABILITIES, what, pid,
                          *missing ? missing : "the system forbids it");
}

static void set(struct weir_capability *feature, const char *name, const char *gives, bool needed)
{
    *feature = (struct weir_capability){ .name = name, .gives = gives, .needed = needed, .remedy = "" };
}

/* `code`: 0, or what the kernel said. `remedy` is for when it isn't a matter of capabilities. */
static void judge(struct weir_capability *feature, int code, const char *remedy)
{
    char missing[80];
    feature->ok = code == 0;
    if (feature->ok)
        return;
    /* The verifier, too, says no in other words when a capability is lacking. */
    list_missing(false, missing, sizeof missing);
    snprintf(feature->missing, sizeof feature->missing, "%s", *missing ? missing : strerror(code));
    feature->remedy = *missing ? REMEDY_CAPABILITIES : remedy;
}

static int quiet(enum libbpf_print_level level, const char *format, va_list args)
{
    (void)level, (void)format, (void)args;
    return 0;
}

/* --- the tries -------------------------------------------------------------------------------------------------------------- */

/* Loads only `wanted` of our own programs, so that what we try is what we use. Returns 0 or an errno; `*bpf` is set on success. */
static int try_load(const char *wanted, struct weir_bpf **bpf)
{
    *bpf = weir_bpf__open();
    if (!*bpf)
        return errno ? errno : EINVAL;
    struct bpf_program *program;
    bpf_object__for_each_program(program, (*bpf)->obj)
        bpf_program__set_autoload(program, strcmp(bpf_program__name(program), wanted) == 0);
    bpf_program__set_expected_attach_type((*bpf)->progs.on_point, (enum bpf_attach_type)48);
    bpf_program__set_flags((*bpf)->progs.on_point, BPF_F_SLEEPABLE);
    bpf_map__set_max_entries((*bpf)->maps.samplers, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
    int rc = weir_bpf__load(*bpf);
    if (rc == 0)
        return 0;
    weir_bpf__destroy(*bpf);
    *bpf = NULL;
    return -rc;
}

static int try_map(enum bpf_map_type type, uint32_t key, uint32_t value, uint32_t entries)
{
    int fd = bpf_map_create(type, "weir_try", key, value, entries, NULL);
    if (fd < 0)
        return -fd;
    close(fd);
    return 0;
}

static int try_program(const char *name)
{
    struct weir_bpf *bpf;
    int code = try_load(name, &bpf);
    weir_bpf__destroy(bpf);
    return code;
}

static int try_scheduler(void)
{
    struct weir_bpf *bpf;
    int code = try_load("on_switch", &bpf);
    if (code)
        return code;
    struct bpf_link *link = bpf_program__attach(bpf->progs.on_switch);
    code = link ? 0 : errno;
    bpf_link__destroy(link);
    weir_bpf__destroy(bpf);
    return code;
}

static int try_iterator(void)
{
    struct weir_bpf *bpf;
    struct weir_probe_listed own[1];
    int code = try_load("list_threads", &bpf);
    if (code)
        return code;
    int count = weir_probe_list_threads(bpf->progs.list_threads, getpid(), own, 1);
    weir_bpf__destroy(bpf);
    return count < 0 ? -count : count == 1 ? 0 : ESRCH;
}

static int try_timer(void)
{
    struct weir_bpf *bpf;
    int code = try_load("start_samplers", &bpf);
    if (code)
        return code;
    struct weir_sampler sampler;
    struct weir_error ignored = WEIR_ERROR_INIT;
    code = -weir_sampler_start_timers(&sampler, bpf_program__fd(bpf->progs.start_samplers), 100000000, &ignored);
    bpf->bss->stopping = 1;
    weir_bpf__destroy(bpf);
    return code;
}

static int try_perf_event(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = 1000000000
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* A function to put a probe on; it begins with an instruction that any kernel can probe. */
__attribute__((noinline)) static void probed(void)
{
    __asm__ volatile(".globl weir_try_point\nweir_try_point: nop");
}
extern const char weir_try_point[] __attribute__((visibility("hidden")));

static int try_points(void)
{
    struct weir_bpf *bpf;
    uint64_t offset = 0, cookie = 0;
    int code = try_load("on_point", &bpf);
    if (code)
        return code;
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long long low, high, at;
        if (sscanf(line, "%llx-%llx %*s %llx", &low, &high, &at) == 3 && (uintptr_t)weir_try_point >= low &&
            (uintptr_t)weir_try_point < high)
            offset = (uintptr_t)weir_try_point - low + at;
    }
    if (maps)
        fclose(maps);
    int link =
        weir_probe_link_points(bpf_program__fd(bpf->progs.on_point), "/proc/self/exe", &offset, NULL, &cookie, 1, getpid());
    if (link >= 0) {
        probed();
        close(link);
    }
    weir_bpf__destroy(bpf);
    return link < 0 ? -link : 0;
}

/* Reading a process of another user, or, where all are ours, of any other process. */
static int try_reading(struct weir_capability *feature)
{
    if (has(CAP_SYS_PTRACE))
        return 0;
    snprintf(feature->missing, sizeof feature->missing, "CAP_SYS_PTRACE is missing: only your own processes can be measured");
    feature->remedy = REMEDY_CAPABILITIES;
    return EPERM;
}

size_t weir_capabilities_probe(struct weir_capability features[WEIR_CAPABILITY_COUNT])
{
    static const char kernel[] = "use a kernel with this feature (Linux 6.6 or later has all of them)";
    libbpf_print_fn_t printer = libbpf_set_print(quiet);
    struct weir_capability *f = features;
    set(f, "BTF", "programs fit the running kernel", true);
    judge(f++, access("/sys/kernel/btf/vmlinux", R_OK) == 0 ? 0 : errno, "use a kernel built with CONFIG_DEBUG_INFO_BTF");
    set(f, "BPF", "loads programs and maps", true);
    judge(f++, try_map(BPF_MAP_TYPE_ARRAY, 4, 8, 1), kernel);
    set(f, "ring buffer", "hands samples and items over", true);
    judge(f++, try_map(BPF_MAP_TYPE_RINGBUF, 0, 0, 4096), kernel);
    set(f, "task storage", "finds a thread's slot quickly", true);
    judge(f++, try_program("on_waking"), kernel);
    set(f, "scheduler", "exact CPU and waiting time of each thread", true);
    judge(f++, try_scheduler(), kernel);
    set(f, "uprobe multi link", "item logs, and asking a server to stamp", true);
    judge(f++, try_points(), kernel);
    set(f, "task iterator", "knows the target's threads", true);
    judge(f++, try_iterator(), kernel);
    set(f, "BPF timer", "CPU samples at random moments", false);
    judge(f++, try_timer(), "weir samples by perf events instead");
    set(f, "perf event", "CPU samples where BPF timers can't", false);
    judge(f++, try_perf_event(), "none needed while BPF timers work");
    set(f, "other processes", "measures what other users run", false);
    f->ok = try_reading(f) == 0;
    libbpf_set_print(printer);
    size_t lacking = 0;
    for (size_t i = 0; i < WEIR_CAPABILITY_COUNT; i++)
        lacking += features[i].needed && !features[i].ok;
    /* One of the two samplers is enough. */
    lacking += !features[7].ok && !features[8].ok;
    return lacking;
}
