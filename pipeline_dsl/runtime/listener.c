#include "pipeline_dsl/runtime/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

/* --- local sockets ------------------------------------------------------------------------------------------------------- */

/* Whether the file is a socket that nobody listens on any more. 0, or -errno. */
static int find_stale(const char *path, const struct sockaddr_un *address)
{
    struct stat found;
    if (lstat(path, &found) != 0)
        return -errno;
    if (!S_ISSOCK(found.st_mode))
        return -EEXIST;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    bool stale = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED;
    close(fd);
    return stale ? 0 : -EADDRINUSE;
}

static int bind_path(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    strcpy(address.sun_path, path);
    fchmod(fd, 0660); /* bind() makes the file with the mode of the socket */
    int rc = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno;
    if (rc == -EADDRINUSE && (rc = find_stale(path, &address)) == 0 && unlink(path) == 0)
        rc = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : -errno;
    if (rc == 0 && listen(fd, SOMAXCONN) != 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

/* Which file is ours, so that no other is removed. */
static void name_path(struct weir_listener *listener, const char *path)
{
    struct stat made;
    snprintf(listener->address, sizeof listener->address, "%s", path);
    if (lstat(path, &made) == 0) {
        listener->device = made.st_dev;
        listener->inode = made.st_ino;
    }
}

static int open_path(struct weir_listener *listener, const char *pipeline, const char *path, struct weir_error *error)
{
    if (!*path || strlen(path) >= sizeof((struct sockaddr_un *)NULL)->sun_path)
        return weir_error_set(error, WEIR_EXIT_USAGE, ENAMETOOLONG, "can't listen on '%s' for pipeline %s: the path of a socket has "
                              "between 1 and %zu characters", path, pipeline, sizeof((struct sockaddr_un *)NULL)->sun_path - 1);
    int fd = bind_path(path);
    if (fd == -EEXIST)
        return weir_error_set(error, WEIR_EXIT_USAGE, EEXIST, "can't listen on %s for pipeline %s: the file there is no socket; "
                              "choose another with --listen %s=PATH", path, pipeline, pipeline);
    if (fd < 0)
        return weir_error_set(error, WEIR_EXIT_USAGE, -fd, "can't listen on %s for pipeline %s: %s; choose another with --listen %s=PATH",
                              path, pipeline, fd == -EADDRINUSE ? "another server answers there" : strerror(-fd), pipeline);
    listener->fd = fd;
    listener->asked = path;
    name_path(listener, path);
    return 0;
}

/* --- all of them --------------------------------------------------------------------------------------------------------- */

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
    if (way->transport == WEIR_UNIX)
        return open_path(listener, pipeline, address, error);
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
    if (way->transport == WEIR_UNIX)
        name_path(listener, asked);
    else
        name_address(listener);
}

void weir_listener_close(struct weir_listener *listener)
{
    struct stat there;
    if (listener->fd < 0)
        return;
    if (listener->inode && lstat(listener->address, &there) == 0 && there.st_dev == listener->device && there.st_ino == listener->inode)
        unlink(listener->address);
    close(listener->fd);
    listener->fd = -1;
}

void weir_listener_discard(int fd, const char *asked)
{
    int domain;
    socklen_t size = sizeof domain;
    if (asked && getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX)
        unlink(asked);
    close(fd);
}
