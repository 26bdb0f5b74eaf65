#include "tracer/sampler.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define PERIODS_A_DRAW 10

static bool cpu_is_online(int cpu)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d", cpu);
    if (access(path, F_OK) != 0)
        return false;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
    FILE *file = fopen(path, "re");
    int online = 1; /* a CPU that can't be taken offline has no such file */
    if (file) {
        if (fscanf(file, "%d", &online) != 1)
            online = 1;
        fclose(file);
    }
    return online == 1;
}

int weir_sampler_start_timers(struct weir_sampler *sampler, int timer_program, uint32_t period_ns, struct weir_error *error)
{
    *sampler = (struct weir_sampler){ .period_ns = period_ns };
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    size_t size = CPU_ALLOC_SIZE(cpus);
    cpu_set_t *before = CPU_ALLOC(cpus), *one = CPU_ALLOC(cpus);
    int rc = -ENOMEM, last = 0;
    if (!before || !one || sched_getaffinity(0, size, before) != 0) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, ENOMEM, "can't tell which CPUs to sample");
        goto out;
    }
    for (int cpu = 0; cpu < cpus; cpu++) {
        if (!cpu_is_online(cpu))
            continue;
        CPU_ZERO_S(size, one);
        CPU_SET_S((size_t)cpu, size, one);
        LIBBPF_OPTS(bpf_test_run_opts, run);
        if (sched_setaffinity(0, size, one) != 0) {
            sampler->cpus_left_out++;
            continue;
        }
        last = bpf_prog_test_run_opts(timer_program, &run);
        if (last == 0 && run.retval == 0)
            sampler->cpus++;
        else
            sampler->cpus_left_out++;
    }
    sched_setaffinity(0, size, before);
    if (sampler->cpus == 0) {
        rc = weir_error_set(error, WEIR_EXIT_CANNOT, last ? -last : EIO, "no CPU's sampling timer could be started");
        goto out;
    }
    rc = 0;
out:
    CPU_FREE(before);
    CPU_FREE(one);
    return rc;
}

/* xorshift: the periods only have to be free of the workload's rhythm. */
static uint64_t draw(struct weir_sampler *sampler)
{
    sampler->seed ^= sampler->seed << 13;
    sampler->seed ^= sampler->seed >> 7;
    sampler->seed ^= sampler->seed << 17;
    return sampler->period_ns / 2 + sampler->seed % sampler->period_ns;
}

int weir_sampler_start_events(struct weir_sampler *sampler, int perf_program, uint32_t period_ns, struct weir_error *error)
{
    *sampler = (struct weir_sampler){ .period_ns = period_ns, .seed = weir_clock_ns() | 1 };
    sampler->event_count = (int)sysconf(_SC_NPROCESSORS_CONF);
    sampler->events = malloc((size_t)sampler->event_count * sizeof *sampler->events);
    int last = ENODEV;
    for (int cpu = 0; sampler->events && cpu < sampler->event_count; cpu++) {
        struct perf_event_attr attr = {
            .type = PERF_TYPE_SOFTWARE, .size = sizeof attr, .config = PERF_COUNT_SW_CPU_CLOCK, .sample_period = draw(sampler)
        };
        int fd = cpu_is_online(cpu) ? (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC) : -1;
        if (fd >= 0 && (ioctl(fd, PERF_EVENT_IOC_SET_BPF, perf_program) != 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) != 0)) {
            last = errno;
            close(fd);
            fd = -1;
        } else if (fd < 0) {
            last = errno;
        }
        sampler->events[cpu] = fd;
        if (fd >= 0)
            sampler->cpus++;
        else if (cpu_is_online(cpu))
            sampler->cpus_left_out++;
    }
    if (sampler->cpus)
        return 0;
    weir_sampler_stop(sampler);
    return weir_error_set(error, WEIR_EXIT_CANNOT, last, "no CPU can be sampled: perf_event_open: %s", strerror(last));
}

void weir_sampler_tick(struct weir_sampler *sampler, uint64_t now_ns)
{
    if (!sampler->events || now_ns < sampler->redraw_ns)
        return;
    sampler->redraw_ns = now_ns + (uint64_t)sampler->period_ns * PERIODS_A_DRAW;
    for (int cpu = 0; cpu < sampler->event_count; cpu++) {
        uint64_t period = draw(sampler);
        if (sampler->events[cpu] >= 0)
            ioctl(sampler->events[cpu], PERF_EVENT_IOC_PERIOD, &period);
    }
}

void weir_sampler_stop(struct weir_sampler *sampler)
{
    for (int i = 0; sampler->events && i < sampler->event_count; i++)
        if (sampler->events[i] >= 0)
            close(sampler->events[i]);
    free(sampler->events);
    sampler->events = NULL;
}
