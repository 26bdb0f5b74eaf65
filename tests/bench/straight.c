/*
 * The yardstick for a built server: one thread, one loop, the same frames, codec and index, and nothing else. No queue, no
 * second pool, no instrumentation: what is left when everything that weir adds is taken away.
 *
 * It prints where it listens as a built server does, and ends by SIGTERM.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pipeline_dsl/stages/index.h"
#include "pipeline_dsl/wire/frame.h"
#include "pipeline_dsl/wire/message.h"

#define CONNECTIONS 64
#define SPAN (256 << 10)
#define FRAME_MAX ((size_t)16 << 20)

struct conn {
    size_t held; /* bytes of a partial frame, kept at the front of data */
    uint8_t data[2 * SPAN];
};

static struct weir_index the_index;
static struct weir_arena arena;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void handle(const uint8_t *payload, size_t size)
{
    struct weir_message message;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_message_decode(&message, &arena, payload, size, &error) == 0)
        weir_index_put_all(&the_index, message.events, message.event_count, now_us());
    weir_arena_reset(&arena);
}

/* Answers every whole frame; returns whether the connection goes on. */
static bool serve(int fd, struct conn *conn)
{
    ssize_t got = recv(fd, conn->data + conn->held, SPAN, 0);
    if (got <= 0)
        return false;
    size_t size = conn->held + (size_t)got, used = 0, answers = 0;
    for (;;) {
        struct weir_frame frame = weir_frame_cut(conn->data + used, size - used, FRAME_MAX);
        if (frame.kind == WEIR_FRAME_BAD)
            return false;
        if (frame.kind != WEIR_FRAME_WHOLE)
            break;
        handle(conn->data + used + frame.offset, frame.length);
        used += frame.total;
        answers++;
    }
    conn->held = size - used;
    if (conn->held > SPAN)
        return false; /* the yardstick takes frames up to 256 KiB: the bench sends 12 */
    memmove(conn->data, conn->data + used, conn->held);
    uint8_t replies[sizeof weir_message_ack * 1024];
    while (answers) {
        size_t n = answers < 1024 ? answers : 1024;
        for (size_t i = 0; i < n; i++)
            memcpy(replies + i * sizeof weir_message_ack, weir_message_ack, sizeof weir_message_ack);
        if (send(fd, replies, n * sizeof weir_message_ack, MSG_NOSIGNAL) < 0)
            return false;
        answers -= n;
    }
    return true;
}

int main(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, 128) ||
        getsockname(listener, (struct sockaddr *)&address, &length)) {
        perror("straight");
        return 2;
    }
    printf("straight: listening on tcp 127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    weir_index_init(&the_index, 0, 0);
    weir_arena_init(&arena, 1 << 17, SIZE_MAX);

    static struct conn conns[CONNECTIONS];
    struct pollfd fds[1 + CONNECTIONS] = { { .fd = listener, .events = POLLIN } };
    for (int i = 1; i <= CONNECTIONS; i++)
        fds[i] = (struct pollfd){ .fd = -1, .events = POLLIN };
    for (;;) {
        if (poll(fds, 1 + CONNECTIONS, -1) < 0)
            return 1;
        for (int i = 1; i <= CONNECTIONS; i++) {
            if (fds[i].fd >= 0 && fds[i].revents && !serve(fds[i].fd, &conns[i - 1])) {
                close(fds[i].fd);
                fds[i].fd = -1;
                conns[i - 1].held = 0;
            }
        }
        if (fds[0].revents) {
            int fd = accept(listener, NULL, NULL), one = 1;
            int i = 1;
            while (i <= CONNECTIONS && fds[i].fd >= 0)
                i++;
            if (fd >= 0 && i <= CONNECTIONS) {
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                fds[i].fd = fd;
                fds[i].revents = 0;
            } else if (fd >= 0) {
                close(fd);
            }
        }
    }
}
