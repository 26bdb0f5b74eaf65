/*
 * A link that is far away: takes connections, opens one to the target for each, and hands every byte on a fixed time after it
 * came, in order, in both directions. It adds no limit of its own: what is under way is kept in memory, however much it is. One
 * thread, one epoll; delay_run() is it.
 */
#ifndef WEIR_TESTS_DELAY_H
#define WEIR_TESTS_DELAY_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define DELAY_CHUNK ((size_t)256 << 10)

struct delay_chunk {
    struct delay_chunk *next;
    uint64_t due;
    size_t size, sent; /* size 0: the end of the stream */
    uint8_t data[];
};

/* One direction of one connection: what `from` sends, `to` gets later. */
struct delay_pipe {
    int from, to;
    bool ended;   /* nothing more comes */
    bool blocked; /* `to` takes no more now */
    struct delay_chunk *first, **last;
};

struct delay_link {
    struct delay_pipe there, back;
    struct delay_link *next;
};

struct delay_proxy {
    /* set before delay_start() */
    struct sockaddr_in target;
    uint64_t delay_ns; /* of each direction */
    /* set by delay_start() */
    char address[32];
    int listen_fd, stop_fd, epoll_fd;
    struct delay_link *links;
    uint8_t *buffer;
    pthread_t thread;
};

static inline void delay_require(bool holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    abort();
}

static inline void delay_accept(struct delay_proxy *proxy)
{
    int on = 1, near = accept4(proxy->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (near < 0)
        return;
    int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    delay_require(far >= 0, "socket");
    if (connect(far, (struct sockaddr *)&proxy->target, sizeof proxy->target) != 0) {
        close(far);
        close(near);
        return;
    }
    struct delay_link *link = calloc(1, sizeof *link);
    delay_require(link != NULL, "calloc");
    *link =
        (struct delay_link){ .there = { .from = near, .to = far }, .back = { .from = far, .to = near }, .next = proxy->links };
    link->there.last = &link->there.first;
    link->back.last = &link->back.first;
    proxy->links = link;
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event interest = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = link };
    delay_require(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_ADD, near, &interest) == 0, "epoll_ctl");
    delay_require(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_ADD, far, &interest) == 0, "epoll_ctl");
}

static inline void delay_queue(struct delay_proxy *proxy, struct delay_pipe *pipe, size_t size)
{
    struct delay_chunk *chunk = malloc(sizeof *chunk + size);
    delay_require(chunk != NULL, "malloc");
    *chunk = (struct delay_chunk){ .due = weir_clock_ns() + proxy->delay_ns, .size = size };
    memcpy(chunk->data, proxy->buffer, size);
    *pipe->last = chunk;
    pipe->last = &chunk->next;
}

static inline void delay_take(struct delay_proxy *proxy, struct delay_pipe *pipe)
{
    while (!pipe->ended) {
        ssize_t got = recv(pipe->from, proxy->buffer, DELAY_CHUNK, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        pipe->ended = got <= 0;
        delay_queue(proxy, pipe, got > 0 ? (size_t)got : 0);
    }
}

/* Hands on what is due; says when the next is, in `*due`. */
static inline void delay_give(struct delay_pipe *pipe, uint64_t now, uint64_t *due)
{
    while (pipe->first && pipe->first->due <= now && !pipe->blocked) {
        struct delay_chunk *chunk = pipe->first;
        if (!chunk->size)
            shutdown(pipe->to, SHUT_WR);
        while (chunk->sent < chunk->size) {
            ssize_t sent = send(pipe->to, chunk->data + chunk->sent, chunk->size - chunk->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent < 0 && errno == EAGAIN) {
                pipe->blocked = true;
                return;
            }
            if (sent < 0)
                break; /* the other end is gone: the rest goes nowhere */
            chunk->sent += (size_t)sent;
        }
        pipe->first = chunk->next;
        if (!pipe->first)
            pipe->last = &pipe->first;
        free(chunk);
    }
    if (pipe->first && !pipe->blocked && pipe->first->due < *due)
        *due = pipe->first->due;
}

static inline void delay_drop(struct delay_link *link)
{
    for (int i = 0; i < 2; i++) {
        struct delay_pipe *pipe = i ? &link->back : &link->there;
        for (struct delay_chunk *chunk = pipe->first, *next; chunk; chunk = next) {
            next = chunk->next;
            free(chunk);
        }
        close(pipe->from);
    }
    free(link);
}

/* Hands on everything that is due, and lets go what has ended both ways. Returns when the next chunk is due. */
static inline uint64_t delay_pass(struct delay_proxy *proxy)
{
    uint64_t now = weir_clock_ns(), due = UINT64_MAX;
    for (struct delay_link **at = &proxy->links; *at;) {
        struct delay_link *link = *at;
        delay_give(&link->there, now, &due);
        delay_give(&link->back, now, &due);
        if (link->there.ended && link->back.ended && !link->there.first && !link->back.first) {
            *at = link->next;
            delay_drop(link);
        } else {
            at = &link->next;
        }
    }
    return due;
}

static inline void *delay_run(void *argument)
{
    struct delay_proxy *proxy = argument;
    for (uint64_t due = UINT64_MAX;;) {
        struct epoll_event ready[64];
        uint64_t now = weir_clock_ns(), left = due > now ? due - now : 0;
        struct timespec timeout = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
        int got = epoll_pwait2(proxy->epoll_fd, ready, 64, due == UINT64_MAX ? NULL : &timeout, NULL);
        for (int i = 0; i < got; i++) {
            struct delay_link *link = ready[i].data.ptr;
            if (ready[i].data.ptr == proxy)
                return NULL;
            if (!link) {
                delay_accept(proxy);
                continue;
            }
            link->there.blocked = link->back.blocked = false;
            delay_take(proxy, &link->there);
            delay_take(proxy, &link->back);
        }
        due = delay_pass(proxy);
    }
}

static inline void delay_listen(struct delay_proxy *proxy)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    struct epoll_event on_listen = { .events = EPOLLIN }, on_stop = { .events = EPOLLIN, .data.ptr = proxy };
    proxy->links = NULL;
    proxy->buffer = malloc(DELAY_CHUNK);
    proxy->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    proxy->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    proxy->stop_fd = eventfd(0, EFD_CLOEXEC);
    delay_require(proxy->buffer && bind(proxy->listen_fd, (struct sockaddr *)&address, size) == 0 &&
                      listen(proxy->listen_fd, 4096) == 0,
                  "listen");
    delay_require(getsockname(proxy->listen_fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    snprintf(proxy->address, sizeof proxy->address, "127.0.0.1:%u", ntohs(address.sin_port));
    delay_require(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_ADD, proxy->listen_fd, &on_listen) == 0, "epoll_ctl");
    delay_require(epoll_ctl(proxy->epoll_fd, EPOLL_CTL_ADD, proxy->stop_fd, &on_stop) == 0, "epoll_ctl");
}

static inline void delay_start(struct delay_proxy *proxy)
{
    delay_listen(proxy);
    delay_require(pthread_create(&proxy->thread, NULL, delay_run, proxy) == 0, "pthread_create");
}

static inline void delay_stop(struct delay_proxy *proxy)
{
    uint64_t one = 1;
    delay_require(write(proxy->stop_fd, &one, sizeof one) == sizeof one, "write");
    pthread_join(proxy->thread, NULL);
    for (struct delay_link *next; proxy->links; proxy->links = next) {
        next = proxy->links->next;
        delay_drop(proxy->links);
    }
    close(proxy->listen_fd);
    close(proxy->epoll_fd);
    close(proxy->stop_fd);
    free(proxy->buffer);
}

#endif
