#include "tracer/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define NEIGHBOURS_MOST 5u
#define NEIGHBOUR_LEAST 0.01 /* of one CPU */

static uint64_t tick_ns(void)
{
    long per_s = sysconf(_SC_CLK_TCK);
    return 1000000000u / (uint64_t)(per_s > 0 ? per_s : 100);
}

/* Per CPU: user nice system idle iowait irq softirq steal; guests are in user and nice. */
static void note_cpus(struct weir_machine *machine, pid_t pid)
{
    cpu_set_t allowed;
    char line[512];
    FILE *file = fopen("/proc/stat", "re");
    bool known = sched_getaffinity(pid, sizeof allowed, &allowed) == 0;
    while (file && fgets(line, sizeof line, file)) {
        unsigned cpu;
        unsigned long long user, nice, system, idle, wait, interrupts, soft, steal;
        if (sscanf(line, "cpu%u %llu %llu %llu %llu %llu %llu %llu %llu", &cpu, &user, &nice, &system, &idle, &wait, &interrupts,
                   &soft, &steal) != 9 ||
            (known && (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed))))
            continue;
        machine->busy_ns += (user + nice + system + interrupts + soft) * tick_ns();
        machine->steal_ns += steal * tick_ns();
    }
    if (file)
        fclose(file);
}

/* One /proc/PID/stat: the name stands in parentheses and may hold any of them itself. */
static bool read_process(int pid, struct weir_machine_process *process)
{
    char path[64], text[1024];
    unsigned long long user, system, start;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open ||
        sscanf(close + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d %*d %llu", &user, &system,
               &start) != 3)
        return false;
    *process = (struct weir_machine_process){ .pid = pid, .start = start, .cpu_ns = (user + system) * tick_ns() };
    snprintf(process->name, sizeof process->name, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

static void note_processes(struct weir_machine *machine)
{
    DIR *list = opendir("/proc");
    for (struct dirent *entry; list && (entry = readdir(list));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        if (machine->count == machine->capacity) {
            size_t capacity = machine->capacity ? 2 * machine->capacity : 256;
            struct weir_machine_process *processes = realloc(machine->processes, capacity * sizeof *processes);
            if (!processes)
                break;
            machine->processes = processes;
            machine->capacity = capacity;
        }
        machine->count += read_process(atoi(entry->d_name), &machine->processes[machine->count]);
    }
    if (list)
        closedir(list);
}

void weir_machine_note(struct weir_machine *machine, pid_t pid)
{
    machine->busy_ns = machine->steal_ns = 0;
    machine->count = 0;
    machine->ns = weir_clock_ns();
    note_cpus(machine, pid);
    note_processes(machine);
}

void weir_machine_release(struct weir_machine *machine)
{
    free(machine->processes);
    *machine = (struct weir_machine){ .ns = 0 };
}

static uint64_t used_before(const struct weir_machine *begin, const struct weir_machine_process *process)
{
    for (size_t i = 0; i < begin->count; i++)
        if (begin->processes[i].pid == process->pid && begin->processes[i].start == process->start)
            return begin->processes[i].cpu_ns;
    return 0; /* it came within the window */
}

static int by_cpu(const void *a, const void *b)
{
    const struct weir_profile_neighbour *x = a, *y = b;
    return x->cpu_ns != y->cpu_ns ? (x->cpu_ns > y->cpu_ns ? -1 : 1) : (x->pid > y->pid) - (x->pid < y->pid);
}

void weir_machine_set(struct weir_profile *profile, const struct weir_machine *begin, const struct weir_machine *end)
{
    if (end->ns <= begin->ns || !profile->duration_ns)
        return;
    double part = (double)profile->duration_ns / (double)(end->ns - begin->ns);
    profile->machine_busy_ns = end->busy_ns > begin->busy_ns ? (double)(end->busy_ns - begin->busy_ns) * part : 0;
    profile->machine_steal_ns = end->steal_ns > begin->steal_ns ? (double)(end->steal_ns - begin->steal_ns) * part : 0;
    struct weir_profile_neighbour *all = calloc(end->count + 1, sizeof *all);
    uint32_t count = 0;
    for (size_t i = 0; all && i < end->count; i++) {
        const struct weir_machine_process *process = &end->processes[i];
        uint64_t before = used_before(begin, process);
        double cpu_ns = process->cpu_ns > before ? (double)(process->cpu_ns - before) * part : 0;
        if (cpu_ns >= NEIGHBOUR_LEAST * (double)profile->duration_ns && process->pid != (int)profile->pid && process->pid != getpid())
            all[count++] = (struct weir_profile_neighbour){ (uint32_t)process->pid, process->name, cpu_ns };
    }
    if (count)
        qsort(all, count, sizeof *all, by_cpu);
    count = count < NEIGHBOURS_MOST ? count : NEIGHBOURS_MOST;
    profile->neighbours = weir_arena_alloc(&profile->arena, ((size_t)count + 1) * sizeof *profile->neighbours);
    for (uint32_t i = 0; profile->neighbours && i < count; i++) {
        profile->neighbours[i] = all[i];
        profile->neighbours[i].name = weir_arena_dup(&profile->arena, all[i].name, strlen(all[i].name));
        profile->neighbour_count += profile->neighbours[i].name != NULL;
    }
    free(all);
}
