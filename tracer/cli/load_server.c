#include "tracer/cli/load_server.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

/* The socket that listens on `port`, by the kernel's table; 0: none. Address and port are in hexadecimal, state 0A listens. */
static unsigned long listening_inode(const char *table, unsigned port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "r");
    while (file && !inode && fgets(line, sizeof line, file)) {
        unsigned found, state;
        unsigned long number;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu", &found, &state, &number) == 3 &&
            found == port && state == 0x0a)
            inode = number;
    }
    if (file)
        fclose(file);
    return inode;
}

static bool has_descriptor(const char *pid, const char *link)
{
    char path[64], target[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        ssize_t size = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (size <= 0)
            continue;
        target[size] = '\0';
        found = strcmp(target, link) == 0;
    }
    if (folder)
        closedir(folder);
    return found;
}

/* The name of a thread, without what a terminal might act on. */
static void read_name(const char *path, char name[32])
{
    FILE *file = fopen(path, "r");
    name[0] = '\0';
    if (file && !fgets(name, 32, file))
        name[0] = '\0';
    if (file)
        fclose(file);
    for (char *at = name; *at; at++)
        *at = *at == '\n' ? '\0' : isprint((unsigned char)*at) ? *at : '?';
}

void load_server_find(struct load_server *server, const char *address)
{
    memset(server, 0, sizeof *server);
    const char *colon = strrchr(address, ':');
    if (!colon ||
        !(strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 || strncmp(address, "[::1]", 5) == 0))
        return;
    unsigned port = (unsigned)strtoul(colon + 1, NULL, 10);
    unsigned long inode = listening_inode("/proc/net/tcp", port);
    if (!inode)
        inode = listening_inode("/proc/net/tcp6", port);
    if (!inode)
        return;
    char link[48], path[64];
    snprintf(link, sizeof link, "socket:[%lu]", inode);
    DIR *folder = opendir("/proc");
    for (const struct dirent *entry; folder && !server->pid && (entry = readdir(folder));)
        if (isdigit((unsigned char)entry->d_name[0]) && has_descriptor(entry->d_name, link))
            server->pid = atoi(entry->d_name);
    if (folder)
        closedir(folder);
    snprintf(path, sizeof path, "/proc/%d/comm", server->pid);
    if (server->pid)
        read_name(path, server->name);
}

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal. What the hypervisor took is not idle. */
static void look_at_machine(struct load_server *server)
{
    unsigned long long ticks[8] = { 0 };
    FILE *file = fopen("/proc/stat", "r");
    if (file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4],
                       &ticks[5], &ticks[6], &ticks[7]) == 8) {
        server->machine_busy = server->machine_all = 0;
        for (int i = 0; i < 8; i++) {
            server->machine_all += ticks[i];
            server->machine_busy += i == 3 || i == 4 ? 0 : ticks[i];
        }
    }
    if (file)
        fclose(file);
}

void load_server_look(struct load_server *server)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/task", server->pid);
    server->threads = 0;
    server->cpu_ns = 0;
    server->at_ns = weir_clock_ns();
    look_at_machine(server);
    DIR *folder = server->pid ? opendir(path) : NULL;
    for (const struct dirent *entry; folder && server->threads < LOAD_SERVER_THREADS && (entry = readdir(folder));) {
        unsigned long long cpu_ns;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/schedstat", server->pid, entry->d_name);
        FILE *file = isdigit((unsigned char)entry->d_name[0]) ? fopen(path, "r") : NULL;
        if (file && fscanf(file, "%llu", &cpu_ns) == 1) {
            server->thread[server->threads].id = atoi(entry->d_name);
            server->thread[server->threads].cpu_ns = cpu_ns;
            snprintf(path, sizeof path, "/proc/%d/task/%.16s/comm", server->pid, entry->d_name);
            read_name(path, server->thread[server->threads].name);
            server->threads++;
            server->cpu_ns += cpu_ns;
        }
        if (file)
            fclose(file);
    }
    if (folder)
        closedir(folder);
}

struct load_server_use load_server_between(const struct load_server *before, const struct load_server *after)
{
    struct load_server_use use = { .pid = after->pid };
    uint64_t wall = after->at_ns - before->at_ns;
    uint64_t ticks = after->machine_all - before->machine_all;
    if (ticks)
        use.machine =
            (double)(after->machine_busy - before->machine_busy) / (double)ticks * (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (!after->pid || !before->threads || !after->threads || !wall)
        return use;
    use.known = true;
    memcpy(use.name, after->name, sizeof use.name);
    uint64_t sum = 0, most = 0;
    for (unsigned i = 0; i < after->threads; i++) {
        uint64_t cpu_ns = after->thread[i].cpu_ns;
        for (unsigned k = 0; k < before->threads; k++)
            if (before->thread[k].id == after->thread[i].id && before->thread[k].cpu_ns <= cpu_ns)
                cpu_ns -= before->thread[k].cpu_ns;
        sum += cpu_ns;
        if (cpu_ns > most) {
            most = cpu_ns;
            memcpy(use.thread, after->thread[i].name, sizeof use.thread);
        }
    }
    use.cpus = (double)sum / (double)wall;
    use.busiest = (double)most / (double)wall;
    return use;
}
