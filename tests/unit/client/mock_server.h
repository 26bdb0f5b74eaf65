/* A server of a few lines that answers well or badly, as told: one thread, one connection after the other served by poll. */
#ifndef WEIR_TESTS_MOCK_SERVER_H
#define WEIR_TESTS_MOCK_SERVER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipeline_dsl/wire/frame.h"
#include "pipeline_dsl/wire/message.h"

enum mock_then { MOCK_GO_ON, MOCK_MUTE, MOCK_FIN, MOCK_CLOSE, MOCK_RESET };

#define MOCK_CONNECTIONS 64

struct mock_server {
    /* set before mock_start() */
    const void *reply;      /* to each frame; null: the acknowledgement */
    size_t reply_size;
    size_t replies_each;    /* to one frame; 0: 1 */
    bool by_bytes;          /* one write a byte */
    bool at_header;         /* replies as soon as 4 bytes of a frame came, and reads no more */
    unsigned delay_us;      /* before each read */
    uint64_t frames;        /* how many a connection may send before `then` happens */
    enum mock_then then;
    size_t half_reply;      /* so many bytes of one more reply come before `then` */
    uint16_t port;          /* 0: any */
    atomic_bool paused;     /* neither reads nor answers; may change at any time */
    /* set by mock_start() */
    char address[32];
    atomic_uint_fast64_t seen; /* frames, in all */
    int listen_fd, stop_fd;
    pthread_t thread;
};

struct mock_connection {
    int fd;
    bool mute;
    uint64_t frames;
    uint8_t *data;
    size_t size, room;
};

static inline void mock_require(bool holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    abort();
}

static inline void mock_send(const struct mock_server *server, int fd, const uint8_t *data, size_t size)
{
    size_t step = server->by_bytes ? 1 : size;
    for (size_t at = 0; at < size;) {
        ssize_t sent = send(fd, data + at, size - at < step ? size - at : step, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the client is gone */
        at += (size_t)sent;
    }
}

static inline void mock_reply(const struct mock_server *server, struct mock_connection *connection)
{
    for (size_t i = 0; i < (server->replies_each ? server->replies_each : 1); i++)
        mock_send(server, connection->fd, server->reply ? server->reply : weir_message_ack,
                  server->reply ? server->reply_size : sizeof weir_message_ack);
}

static inline void mock_drop(struct mock_connection *connection, bool reset)
{
    struct linger linger = { .l_onoff = 1, .l_linger = 0 };
    if (reset)
        setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(connection->fd);
    free(connection->data);
    *connection = (struct mock_connection){ .fd = -1 };
}

/* Does what comes after the last frame that is answered. */
static inline void mock_end(const struct mock_server *server, struct mock_connection *connection)
{
    connection->mute = true;
    if (server->half_reply)
        mock_send(server, connection->fd, weir_message_ack, server->half_reply);
    if (server->then == MOCK_FIN)
        shutdown(connection->fd, SHUT_WR);
    if (server->then == MOCK_CLOSE || server->then == MOCK_RESET)
        mock_drop(connection, server->then == MOCK_RESET);
}

static inline void mock_cut(struct mock_server *server, struct mock_connection *connection)
{
    size_t at = 0;
    while (!connection->mute) {
        struct weir_frame frame = weir_frame_cut(connection->data + at, connection->size - at, SIZE_MAX);
        bool early = server->at_header && frame.kind == WEIR_FRAME_MORE && frame.total > WEIR_FRAME_HEADER;
        if (frame.kind != WEIR_FRAME_WHOLE && !early)
            break;
        atomic_fetch_add(&server->seen, 1);
        mock_reply(server, connection);
        connection->mute = early;
        at += early ? connection->size - at : frame.total;
        if (server->then != MOCK_GO_ON && ++connection->frames >= server->frames) {
            mock_end(server, connection);
            return;
        }
    }
    if (connection->mute)
        at = connection->size;
    connection->size -= at;
    memmove(connection->data, connection->data + at, connection->size);
}

static inline void mock_read(struct mock_server *server, struct mock_connection *connection)
{
    if (server->delay_us)
        usleep(server->delay_us);
    struct pollfd stop = { .fd = server->stop_fd, .events = POLLIN };
    while (atomic_load(&server->paused))
        if (poll(&stop, 1, 1) > 0)
            return;
    if (connection->room - connection->size < 65536) {
        connection->room = connection->room * 2 + 65536;
        connection->data = realloc(connection->data, connection->room);
        mock_require(connection->data != NULL, "realloc");
    }
    ssize_t got = recv(connection->fd, connection->data + connection->size, connection->room - connection->size, 0);
    if (got <= 0) {
        mock_drop(connection, false);
        return;
    }
    connection->size += (size_t)got;
    mock_cut(server, connection);
}

static inline void *mock_work(void *argument)
{
    struct mock_server *server = argument;
    struct mock_connection connections[MOCK_CONNECTIONS] = { 0 };
    struct pollfd fds[MOCK_CONNECTIONS + 2] = { { .fd = server->stop_fd, .events = POLLIN },
                                                { .fd = server->listen_fd, .events = POLLIN } };
    size_t count = 0;
    for (;;) {
        for (size_t i = 0; i < count; i++)
            fds[i + 2] = (struct pollfd){ .fd = connections[i].fd, .events = POLLIN };
        mock_require(poll(fds, count + 2, -1) >= 0, "poll");
        if (fds[0].revents)
            break;
        for (size_t i = 0; i < count; i++)
            if (fds[i + 2].revents)
                mock_read(server, &connections[i]);
        if (fds[1].revents) {
            int fd = accept(server->listen_fd, NULL, NULL), on = 1;
            mock_require(fd >= 0 && count < MOCK_CONNECTIONS, "accept");
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            connections[count++].fd = fd;
            if (server->then != MOCK_GO_ON && !server->frames)
                mock_end(server, &connections[count - 1]);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (connections[i].fd >= 0)
            mock_drop(&connections[i], false);
    return NULL;
}

static inline void mock_start(struct mock_server *server)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons(server->port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int on = 1;
    server->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(server->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    mock_require(bind(server->listen_fd, (struct sockaddr *)&address, size) == 0, "bind");
    mock_require(listen(server->listen_fd, 128) == 0, "listen");
    mock_require(getsockname(server->listen_fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    snprintf(server->address, sizeof server->address, "127.0.0.1:%u", ntohs(address.sin_port));
    server->port = ntohs(address.sin_port);
    server->stop_fd = eventfd(0, 0);
    mock_require(pthread_create(&server->thread, NULL, mock_work, server) == 0, "pthread_create");
}

static inline void mock_stop(struct mock_server *server)
{
    uint64_t one = 1;
    mock_require(write(server->stop_fd, &one, sizeof one) == sizeof one, "write");
    pthread_join(server->thread, NULL);
    close(server->stop_fd);
    close(server->listen_fd);
}

#endif
