#include "tracer/cli/load_server.h"

#include <ctype.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/client/dial.h"

/* An address of either family as one of IPv6. */
static struct in6_addr mapped(const struct sockaddr_storage *address)
{
    struct in6_addr to = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
    if (address->ss_family == AF_INET)
        memcpy(&to.s6_addr[12], &((const struct sockaddr_in *)address)->sin_addr, 4);
    else
        to = ((const struct sockaddr_in6 *)address)->sin6_addr;
    return to;
}

static bool is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) || (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

static bool is_wildcard(const struct in6_addr *address)
{
    static const struct in6_addr v4 = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
    return IN6_IS_ADDR_UNSPECIFIED(address) || memcmp(address, &v4, sizeof v4) == 0;
}

/* An address of this machine is one that a socket can be bound to. */
static bool is_here(struct sockaddr_storage address)
{
    ((struct sockaddr_in *)&address)->sin_port = 0; /* lies where sin6_port does */
    int fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool here = fd >= 0 && bind(fd, (struct sockaddr *)&address,
                                address.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) == 0;
    if (fd >= 0)
        close(fd);
    return here;
}

/* "0100007F" or 32 such digits: words of the machine's own order, in hexadecimal. */
static bool parse_words(const char *text, struct in6_addr *address)
{
    size_t words = strlen(text) / 8, first = words == 1 ? 3 : 0;
    *address = (struct in6_addr){ .s6_addr = { [10] = 0xff, [11] = 0xff } };
    if (words != 1 && words != 4)
        return false;
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        if (sscanf(text + 8 * i, "%8x", &word) != 1)
            return false;
        memcpy(&address->s6_addr[4 * (first + i)], &word, sizeof word);
    }
    return true;
}

/* The socket that is open for `wanted` and `port` by one of the kernel's tables, when it fits better than `*fit`: 1 another
 * address of the loopback ("localhost" has two), 2 all addresses, 3 just this one. */
static void find_socket(const char *table, unsigned wanted_state, const struct in6_addr *wanted, unsigned port, int *fit,
                        unsigned long *inode)
{
    char line[512], words[40];
    FILE *file = fopen(table, "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned found, state;
        unsigned long number;
        struct in6_addr address;
        if (sscanf(line, " %*u: %32[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu", words, &found, &state, &number) != 4 ||
            found != port || state != wanted_state || !parse_words(words, &address))
            continue;
        int fits = memcmp(&address, wanted, sizeof address) == 0           ? 3
                   : is_wildcard(&address)                                 ? 2
                   : is_loopback(&address) && is_loopback(wanted)          ? 1
                                                                           : 0;
        if (fits > *fit) {
            *fit = fits;
            *inode = number;
        }
    }
    if (file)
        fclose(file);
}

/* The inode of the socket that serves `address`; 0: none on this machine. */
static unsigned long serving_inode(const char *address, bool datagram, char *why, size_t size)
{
    static const char *const tables[2][2] = { { "/proc/net/tcp", "/proc/net/tcp6" }, { "/proc/net/udp", "/proc/net/udp6" } };
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    const struct weir_dial_options dial = { .timeout_ns = 1, .cancel_fd = -1, .datagram = true };
    int fd = weir_dial(address, &dial, NULL), fit = 0;
    unsigned long inode = 0;
    bool known = fd >= 0 && getpeername(fd, (struct sockaddr *)&peer, &length) == 0;
    if (fd >= 0)
        close(fd);
    snprintf(why, size, "%.100s is not on this machine", address);
    if (!known || !is_here(peer))
        return 0;
    struct in6_addr wanted = mapped(&peer);
    unsigned port = ntohs(((struct sockaddr_in *)&peer)->sin_port);
    for (int i = 0; i < 2; i++)
        find_socket(tables[datagram][i], datagram ? 0x07 : 0x0a, &wanted, port, &fit, &inode);
    snprintf(why, size, "no process that listens on %.80s can be seen from here", address);
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

void load_server_find(struct load_server *server, const char *address, bool datagram)
{
    memset(server, 0, sizeof *server);
    unsigned long inode = serving_inode(address, datagram, server->unknown, sizeof server->unknown);
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
    if (after->cpu_ns < before->cpu_ns)
        return use; /* it has ended, or threads of it have: what they used is gone with them */
    use.known = true;
    memcpy(use.name, after->name, sizeof use.name);
    uint64_t sum = 0, most = 0;
    for (unsigned i = 0; i < after->threads; i++) {
        uint64_t cpu_ns = after->thread[i].cpu_ns;
        for (unsigned k = 0; k < before->threads; k++)
            if (before->thread[k].id == after->thread[i].id && before->thread[k].cpu_ns <= cpu_ns)
                cpu_ns -= before->thread[k].cpu_ns;
        sum += cpu_ns;
        if (cpu_ns > most || !use.thread[0]) {
            most = cpu_ns;
            memcpy(use.thread, after->thread[i].name, sizeof use.thread);
        }
    }
    cpu_set_t set;
    use.cores = (unsigned)(sched_getaffinity(after->pid, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN));
    use.cpus = (double)sum / (double)wall;
    use.busiest = (double)most / (double)wall;
    return use;
}
