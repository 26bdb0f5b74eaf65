#include "pipeline_dsl/runtime/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* getaddrinfo() takes 99999 for 34463. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits >= 1 && digits <= 5 && !text[digits] && atoi(text) <= 65535;
}

/* "host:port" or "[host]:port" in two strings. */
static int split(const char *address, char *host, size_t host_size, const char **port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !is_port(colon + 1))
        return -EINVAL;
    const char *start = address, *end = colon;
    if (*start == '[') {
        start++;
        if (end == start || *--end != ']')
            return -EINVAL;
    }
    size_t length = (size_t)(end - start);
    if (!length || length >= host_size)
        return -EINVAL;
    memcpy(host, start, length);
    host[length] = '\0';
    *port = colon + 1;
    return 0;
}

/* What a burst may fill before the kernel drops; it allows at most net.core.rmem_max. */
static const int receive_bytes = 4 << 20;

static int bind_one(const struct addrinfo *info)
{
    int yes = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0)
        return -errno;
    bool stream = info->ai_socktype == SOCK_STREAM;
    /* Between datagram sockets this would share the port, and both would lose what the other gets. */
    if (stream)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    else
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && (!stream || listen(fd, SOMAXCONN) == 0))
        return fd;
    int code = -errno;
    close(fd);
    return code;
}

static void name_address(struct weir_listener *listener)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    if (getsockname(listener->fd, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(listener->address, sizeof listener->address, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

int weir_listener_open(struct weir_listener *listener, const struct weir_plan_way *way, const char *address, struct weir_error *error)
{
    const char *pipeline = way->name;
    char host[256];
    const char *port;
    struct addrinfo hints = { .ai_socktype = way->transport == WEIR_UDP ? SOCK_DGRAM : SOCK_STREAM, .ai_flags = AI_PASSIVE }, *infos;
    listener->fd = -1;
    listener->transport = way->transport;
    if (split(address, host, sizeof host, &port) != 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "'%s' is no address for pipeline %s: write HOST:PORT, or [HOST]:PORT",
                              address, pipeline);
    int code = getaddrinfo(host, port, &hints, &infos);
    if (code)
        return weir_error_set(error, WEIR_EXIT_USAGE, EADDRNOTAVAIL, "can't listen on %s for pipeline %s: %s", address, pipeline,
                              code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    int fd = -EADDRNOTAVAIL;
    for (struct addrinfo *info = infos; info && fd < 0; info = info->ai_next)
        fd = bind_one(info);
    freeaddrinfo(infos);
    if (fd < 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, -fd,
                              "can't listen on %s for pipeline %s: %s; choose another with --listen %s=HOST:PORT", address,
                              pipeline, strerror(-fd), pipeline);
    listener->fd = fd;
    listener->asked = address;
    name_address(listener);
    return 0;
}

bool weir_listener_fits(int fd, enum weir_transport transport)
{
    int type;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == (transport == WEIR_UDP ? SOCK_DGRAM : SOCK_STREAM);
}

void weir_listener_inherit(struct weir_listener *listener, const struct weir_plan_way *way, const char *asked, int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    *listener = (struct weir_listener){ .fd = fd, .transport = way->transport, .asked = asked, .inherited = true };
    name_address(listener);
}

void weir_listener_close(struct weir_listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}
