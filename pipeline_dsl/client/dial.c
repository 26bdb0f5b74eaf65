#include "pipeline_dsl/client/dial.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define HOST_MOST 255u

/* Splits "HOST:PORT" or "[HOST]:PORT". */
static int split(const char *address, char host[HOST_MOST + 1], const char **port, struct weir_error *error)
{
    const char *colon = strrchr(address, ':');
    const char *end = colon;
    const char *start = address;
    if (!colon)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "'%s' has no port; write HOST:PORT, like 127.0.0.1:5555", address);
    if (*address == '[') {
        start++;
        end = colon - 1;
        if (end < start || *end != ']')
            return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "'%s' has no ']' before its port; write [::1]:5555", address);
    } else if (memchr(address, ':', (size_t)(colon - address))) {
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL,
                              "'%s' is ambiguous; put an IPv6 address in brackets, like [::1]:5555", address);
    }
    if (end == start || (size_t)(end - start) > HOST_MOST)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "'%s' has no host; write HOST:PORT, like 127.0.0.1:5555", address);
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';

    char *rest;
    long number = strtol(colon + 1, &rest, 10);
    if (colon[1] < '0' || colon[1] > '9' || *rest || number < 1 || number > 65535)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "'%s' has no port between 1 and 65535 behind its ':'", address);
    *port = colon + 1;
    return 0;
}

/* Waits until a connect in progress has ended. Returns 0 or a positive errno. */
static int connected(int fd, const struct weir_dial_options *options)
{
    uint64_t until = weir_clock_ns() + options->timeout_ns;
    struct pollfd fds[2] = { { .fd = fd, .events = POLLOUT }, { .fd = options->cancel_fd, .events = POLLIN } };
    for (;;) {
        uint64_t now = weir_clock_ns();
        uint64_t left = now < until ? until - now : 0;
        struct timespec wait = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
        int rc = ppoll(fds, 2, &wait, NULL);
        if (rc == 0)
            return ETIMEDOUT;
        if (rc > 0 && fds[1].revents)
            return ECANCELED;
        if (rc > 0)
            break;
        if (errno != EINTR)
            return errno;
    }
    int code = 0;
    socklen_t size = sizeof code;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 ? code : errno;
}

/* One address of a name: a connected socket, or -errno. */
static int dial_one(const struct addrinfo *info, const struct weir_dial_options *options)
{
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
    if (fd < 0)
        return -errno;
    int on = 1, code = 0;
    if (options->send_buffer_bytes &&
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options->send_buffer_bytes, sizeof options->send_buffer_bytes) != 0)
        code = errno;
    if (!code && connect(fd, info->ai_addr, info->ai_addrlen) != 0)
        code = errno;
    if (code == EINPROGRESS)
        code = connected(fd, options);
    if (!code && !options->datagram && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        code = errno;
    if (code) {
        close(fd);
        return -code;
    }
    return fd;
}

int weir_dial(const char *address, const struct weir_dial_options *options, struct weir_error *error)
{
    char host[HOST_MOST + 1];
    const char *port = NULL;
    int rc = split(address, host, &port, error);
    if (rc)
        return rc;
    struct addrinfo hints = { .ai_socktype = options->datagram ? SOCK_DGRAM : SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    int code = getaddrinfo(host, port, &hints, &list);
    if (code)
        return weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "can't find the host of '%s': %s", address,
                              code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    int fd = -EADDRNOTAVAIL;
    for (const struct addrinfo *info = list; info && fd < 0 && fd != -ECANCELED; info = info->ai_next)
        fd = dial_one(info, options);
    freeaddrinfo(list);
    if (fd >= 0)
        return fd;
    if (fd == -ECONNREFUSED)
        return weir_error_set(error, WEIR_EXIT_FOUND, -fd, "can't connect to %s: nothing listens there (connection refused)",
                              address);
    if (fd == -EMFILE)
        return weir_error_set(error, WEIR_EXIT_FOUND, -fd, "can't connect to %s: no more files may be open; raise `ulimit -n`",
                              address);
    if (fd == -ECANCELED)
        return weir_error_set(error, WEIR_EXIT_FOUND, -fd, "stopped before %s was connected", address);
    return weir_error_set(error, WEIR_EXIT_FOUND, -fd, "can't connect to %s: %s", address, strerror(-fd));
}
