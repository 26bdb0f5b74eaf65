/*
 * DESIGN. The kernel lists the sockets of one port by sock diag, 0.7 us a socket; a look is made when a hundred times its cost has
 * passed since the last one, so that thousands of connections are seen more seldom, not at a higher cost.
 *
 * Which socket is which way in: the target opens its listeners in the order of its ways in, so their descriptors have that order. Of a
 * server that was handed some of them there may be others; then the ports of the file tell.
 */
#include "tracer/sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define STATE_ESTABLISHED 1
#define STATE_CLOSE_WAIT 8
#define STATE_LISTEN 10
#define COST_PARTS 100u
#define GAP_LEAST_NS 50000000u
#define ANSWER_BYTES 32768

/* `round_trip_us`: the least that the kernel saw of this connection; 0: it doesn't say. */
typedef void on_socket(void *context, const struct inet_diag_msg *socket, uint32_t round_trip_us);

/* Of a socket's attributes. The mean would not do: an answer's acknowledgement travels with the next request, whenever that comes. */
static uint32_t least_round_trip(const struct nlmsghdr *answer)
{
    const struct inet_diag_msg *socket = NLMSG_DATA(answer);
    const struct rtattr *attribute = (const struct rtattr *)(socket + 1);
    size_t left = answer->nlmsg_len - NLMSG_LENGTH(sizeof *socket);
    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
        if (attribute->rta_type == INET_DIAG_INFO &&
            RTA_PAYLOAD(attribute) >= offsetof(struct tcp_info, tcpi_min_rtt) + sizeof(uint32_t)) {
            uint32_t least;
            memcpy(&least, (const char *)RTA_DATA(attribute) + offsetof(struct tcp_info, tcpi_min_rtt), sizeof least);
            return least == UINT32_MAX ? 0 : least; /* none was measured yet */
        }
    return 0;
}

/* Asks for the TCP sockets of `family` in `states` with that source port (0: any). False when the kernel refuses. */
static bool dump(int fd, uint8_t family, uint32_t states, uint16_t port, on_socket *found, void *context)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } ask = { .header = { .nlmsg_len = sizeof ask, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP },
              .request = { .sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = states,
                           .idiag_ext = 1u << (INET_DIAG_INFO - 1), .id = { .idiag_sport = port } } };
    _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
    if (send(fd, &ask, sizeof ask, 0) != (ssize_t)sizeof ask)
        return false;
    for (;;) {
        ssize_t got = recv(fd, answer, sizeof answer, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        size_t left = (size_t)got;
        for (struct nlmsghdr *at = (struct nlmsghdr *)answer; NLMSG_OK(at, left); at = NLMSG_NEXT(at, left)) {
            if (at->nlmsg_type == NLMSG_DONE)
                return true;
            if (at->nlmsg_type == NLMSG_ERROR)
                return false;
            if (at->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
                found(context, NLMSG_DATA(at), least_round_trip(at));
        }
    }
}

/* --- open ------------------------------------------------------------------------------------------------------------------- */

struct entrance {
    int there; /* the target's network namespace */
    int fd;
};

static int diag_socket(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

/* A thread of its own, since only it is to be there. */
static void *open_there(void *argument)
{
    struct entrance *entrance = argument;
    entrance->fd = setns(entrance->there, CLONE_NEWNET) == 0 ? diag_socket() : -1;
    return NULL;
}

static int open_in_namespace_of(pid_t pid)
{
    char path[64];
    struct stat here, there;
    pthread_t thread;
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)pid);
    if (stat("/proc/self/ns/net", &here) != 0 || stat(path, &there) != 0)
        return -1;
    if (here.st_ino == there.st_ino && here.st_dev == there.st_dev)
        return diag_socket();
    struct entrance entrance = { .there = open(path, O_RDONLY | O_CLOEXEC), .fd = -1 };
    if (entrance.there >= 0 && pthread_create(&thread, NULL, open_there, &entrance) == 0)
        pthread_join(thread, NULL);
    if (entrance.there >= 0)
        close(entrance.there);
    return entrance.fd;
}

/* The descriptor that the target has for a socket, by its inode; -1: it has none. */
static int descriptor_of(pid_t pid, uint32_t inode)
{
    char folder[64], wanted[64];
    int found = -1;
    snprintf(folder, sizeof folder, "/proc/%d/fd", (int)pid);
    snprintf(wanted, sizeof wanted, "socket:[%u]", inode);
    DIR *list = opendir(folder);
    for (struct dirent *entry; found < 0 && list && (entry = readdir(list));) {
        char link[64];
        ssize_t length = readlinkat(dirfd(list), entry->d_name, link, sizeof link - 1);
        if (length > 0 && (size_t)length == strlen(wanted) && memcmp(link, wanted, (size_t)length) == 0)
            found = atoi(entry->d_name);
    }
    if (list)
        closedir(list);
    return found;
}

struct listening {
    pid_t pid;
    struct weir_sockets_listener *listeners;
    int descriptors[WEIR_SOCKETS_MOST];
    uint32_t count;
};

/* Enters a listener of the target into the list, which is in the order of their descriptors. */
static void on_listener(void *context, const struct inet_diag_msg *socket, uint32_t round_trip_us)
{
    (void)round_trip_us;
    struct listening *all = context;
    int descriptor = all->count < WEIR_SOCKETS_MOST ? descriptor_of(all->pid, socket->idiag_inode) : -1;
    if (descriptor < 0)
        return;
    uint32_t at = all->count++;
    for (; at > 0 && all->descriptors[at - 1] > descriptor; at--) {
        all->descriptors[at] = all->descriptors[at - 1];
        all->listeners[at] = all->listeners[at - 1];
    }
    all->descriptors[at] = descriptor;
    struct weir_sockets_listener *listener = &all->listeners[at];
    *listener = (struct weir_sockets_listener){ .way = WEIR_NONE, .family = socket->idiag_family, .port = socket->id.idiag_sport };
    memcpy(listener->address, socket->id.idiag_src, sizeof listener->address);
}

static bool is_tcp(const struct weir_topology *topology, uint32_t way)
{
    return topology->ways[way].listen_stage < topology->stage_count &&
           topology->stages[topology->ways[way].listen_stage].verb == WEIR_LISTEN &&
           topology->stages[topology->ways[way].listen_stage].transport == WEIR_TCP;
}

static void find_ways(struct weir_sockets *sockets, const struct weir_topology *topology)
{
    uint32_t tcp = 0, next = 0;
    for (uint32_t way = 0; way < topology->way_count; way++)
        tcp += is_tcp(topology, way);
    for (uint32_t way = 0; way < topology->way_count; way++) {
        if (!is_tcp(topology, way))
            continue;
        const char *address = topology->stages[topology->ways[way].listen_stage].address;
        const char *colon = address ? strrchr(address, ':') : NULL;
        if (tcp == sockets->count)
            sockets->listeners[next++].way = way;
        for (uint32_t i = 0; tcp != sockets->count && colon && i < sockets->count; i++)
            if (ntohs(sockets->listeners[i].port) == atoi(colon + 1))
                sockets->listeners[i].way = way;
    }
}

void weir_sockets_open(struct weir_sockets *sockets, pid_t pid, const struct weir_topology *topology)
{
    *sockets = (struct weir_sockets){ .fd = open_in_namespace_of(pid) };
    struct listening all = { .pid = pid, .listeners = sockets->listeners };
    if (sockets->fd < 0 || !dump(sockets->fd, AF_INET, 1u << STATE_LISTEN, 0, on_listener, &all) ||
        !dump(sockets->fd, AF_INET6, 1u << STATE_LISTEN, 0, on_listener, &all) || !all.count) {
        weir_sockets_close(sockets);
        return;
    }
    sockets->count = all.count;
    find_ways(sockets, topology);
}

void weir_sockets_close(struct weir_sockets *sockets)
{
    if (sockets->fd >= 0)
        close(sockets->fd);
    sockets->fd = -1;
}

/* --- look ------------------------------------------------------------------------------------------------------------------- */

struct look {
    const struct weir_sockets_listener *listener;
    struct weir_profile_way *way;
};

static void on_connection(void *context, const struct inet_diag_msg *socket, uint32_t round_trip_us)
{
    static const uint32_t any[4];
    const struct look *look = context;
    const struct weir_sockets_listener *listener = look->listener;
    bool same = memcmp(listener->address, socket->id.idiag_src, sizeof listener->address) == 0;
    if (socket->idiag_state == STATE_LISTEN) {
        if (!same)
            return;
        weir_histogram_add(&look->way->backlog, socket->idiag_rqueue, 1);
        look->way->backlog_limit = socket->idiag_wqueue;
    } else if (same || memcmp(listener->address, any, sizeof any) == 0) {
        weir_histogram_add(&look->way->receive_bytes, socket->idiag_rqueue, 1);
        weir_histogram_add(&look->way->send_bytes, socket->idiag_wqueue, 1);
        if (round_trip_us)
            weir_histogram_add(&look->way->round_trip, (uint64_t)round_trip_us * 1000, 1);
    }
}

void weir_sockets_look(struct weir_sockets *sockets, struct weir_profile_way *ways, uint64_t now_ns)
{
    if (sockets->fd < 0 || now_ns < sockets->next_ns)
        return;
    for (uint32_t i = 0; i < sockets->count; i++) {
        const struct weir_sockets_listener *listener = &sockets->listeners[i];
        struct look look = { listener, listener->way == WEIR_NONE ? NULL : &ways[listener->way] };
        if (look.way && !dump(sockets->fd, listener->family, 1u << STATE_ESTABLISHED | 1u << STATE_CLOSE_WAIT | 1u << STATE_LISTEN,
                              listener->port, on_connection, &look)) {
            weir_sockets_close(sockets);
            return;
        }
    }
    uint64_t gap_ns = (weir_clock_ns() - now_ns) * COST_PARTS;
    sockets->next_ns = now_ns + (gap_ns > GAP_LEAST_NS ? gap_ns : GAP_LEAST_NS);
}
