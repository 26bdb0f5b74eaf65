/*
 * The index alone: 10,000,000 of the usual events over 1,000,000 keys. What an event costs, in time and in memory; what a query
 * costs; what expiry costs: all in CPU time, so that who else uses the machine costs caches and no more. And the other end of the measurement of expiry under load:
 *
 *     index                              measures
 *     index fill PORT KEYS LEAST MOST    sends a server so many keys, whose ttls are spread between LEAST and MOST seconds
 */
#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "pipeline_dsl/stages/index_query.h"

#define EACH 100u
#define KEYS 1000000u
#define EVENTS 10000000u
#define NOW 1700000000000000

static struct weir_index the_index;
static struct weir_event events[EACH];
static char hosts[EACH][32], services[EACH][32], descriptions[EACH][32];
static struct weir_bytes tags[] = { { (const uint8_t *)"fleet", 5 }, { (const uint8_t *)"linux", 5 } };
static struct weir_attribute attributes[] = { { { (const uint8_t *)"zone", 4 }, { (const uint8_t *)"eu-1a", 5 } } };


static struct weir_bytes text(const char *string)
{
    return (struct weir_bytes){ (const uint8_t *)string, strlen(string) };
}

static void digits(char *at, unsigned count, uint64_t number)
{
    for (; count--; number /= 10)
        at[count] = (char)('0' + number % 10);
}

static void events_init(void)
{
    static const char *const states[] = { "ok", "ok", "ok", "warning", "ok", "ok", "ok", "critical" };
    for (unsigned i = 0; i < EACH; i++) {
        strcpy(hosts[i], "web-00000.example.com");
        strcpy(services[i], "cpu-00/cpu-user");
        strcpy(descriptions[i], "00% of one CPU");
        events[i] = (struct weir_event){ .host = text(hosts[i]), .service = text(services[i]), .state = text(states[i % 8]),
            .description = text(descriptions[i]), .tags = tags, .tag_count = 2, .attributes = attributes, .attribute_count = 1,
            .has_time = true, .has_ttl = true, .ttl = 300, .metric_kind = WEIR_METRIC_FLOAT };
    }
}

/* A message's events from number `first` on: no two keys that follow each other are neighbours. */
static void events_fill(uint64_t first, uint64_t keys)
{
    for (unsigned i = 0; i < EACH; i++) {
        uint64_t number = first + i, key = number * 7919 % keys;
        digits(hosts[i] + 4, 5, key % (keys / 100));
        digits(services[i] + 4, 2, key / (keys / 100));
        digits(descriptions[i], 2, number * 37 % 100);
        events[i].metric_double = (double)(number * 37 % 100) / 4;
        events[i].time_us = NOW + (int64_t)(number % 1000);
    }
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void insert(void)
{
    uint64_t start = weir_clock_thread_cpu_ns(), all_ns, first_ns = 0, worst_ns = 0;
    for (uint64_t n = 0; n < EVENTS; n += EACH) {
        events_fill(n, KEYS);
        __asm__ volatile("" ::: "memory");
    }
    double making = (double)(weir_clock_thread_cpu_ns() - start) / EVENTS;
    size_t before = allocated();
    start = weir_clock_thread_cpu_ns();
    for (uint64_t n = 0; n < EVENTS; n += EACH) {
        events_fill(n, KEYS);
        uint64_t put = weir_clock_thread_cpu_ns();
        weir_index_put_all(&the_index, events, EACH, NOW);
        put = weir_clock_thread_cpu_ns() - put;
        worst_ns = put > worst_ns ? put : worst_ns;
        if (n + EACH == KEYS)
            first_ns = weir_clock_thread_cpu_ns() - start;
    }
    all_ns = weir_clock_thread_cpu_ns() - start;
    printf("index, 1,000,000 keys               a new key %.0f ns, a known one %.0f ns; the slowest message of 100 took %.0f us\n",
           (double)first_ns / KEYS - making, (double)(all_ns - first_ns) / (EVENTS - KEYS) - making, (double)worst_ns / 1e3);
    size_t segments = 0;
    for (unsigned s = 0; s < WEIR_INDEX_SHARDS; s++)
        for (size_t at = 0, places = (size_t)1 << the_index.shards[s].depth; at < places; segments++)
            at += places >> the_index.shards[s].directory[at]->depth;
    printf("index, memory                       %.1f bytes an event, of which the table is %.1f\n", (double)(allocated() - before) / KEYS,
           (double)(segments * sizeof(struct weir_index_segment)) / KEYS);
}

/* So few keys that the cache holds them. */
static void insert_few(void)
{
    enum { FEW = 2000, TIMES = 2000000 };
    uint64_t start = weir_clock_thread_cpu_ns();
    for (uint64_t n = 0; n < TIMES; n += EACH) {
        events_fill(n, FEW);
        __asm__ volatile("" ::: "memory");
    }
    uint64_t making = weir_clock_thread_cpu_ns() - start;
    for (uint64_t n = 0; n < FEW; n += EACH) {
        events_fill(n, FEW);
        weir_index_put_all(&the_index, events, EACH, NOW);
    }
    start = weir_clock_thread_cpu_ns();
    for (uint64_t n = 0; n < TIMES; n += EACH) {
        events_fill(n, FEW);
        weir_index_put_all(&the_index, events, EACH, NOW);
    }
    printf("index, 2,000 keys                   a known one %.0f ns\n", ((double)(weir_clock_thread_cpu_ns() - start) - (double)making) / TIMES);
}

static void query(const char *expression, unsigned times)
{
    struct weir_buffer reply = WEIR_BUFFER_INIT;
    struct weir_error error = WEIR_ERROR_INIT;
    uint64_t start = weir_clock_thread_cpu_ns();
    size_t bytes = 0;
    for (unsigned i = 0; i < times; i++) {
        weir_buffer_release(&reply);
        if (weir_index_query(&the_index, text(expression), NULL, &reply, &error) != 0) {
            printf("%s\n", error.text);
            exit(2);
        }
        bytes = reply.length;
    }
    double ns = (double)(weir_clock_thread_cpu_ns() - start) / times;
    printf("index, query, of 1,000,000          %-52s %10.1f us, a reply of %zu bytes\n", expression, ns / 1e3, bytes);
    weir_buffer_release(&reply);
}

static void expire(void)
{
    struct weir_index_walk walk;
    uint64_t steps = 0, start = weir_clock_thread_cpu_ns(), worst_ns = 0, tally[WEIR_INDEX_TALLIES];
    weir_index_walk_init(&walk, &the_index);
    while (weir_index_walk_overdue(&walk, NOW, 64))
        ;
    double idle_ms = (double)(weir_clock_thread_cpu_ns() - start) / 1e6;
    start = weir_clock_thread_cpu_ns();
    weir_index_walk_init(&walk, &the_index);
    for (bool more = true; more; steps++) {
        uint64_t step = weir_clock_thread_cpu_ns();
        more = weir_index_walk_overdue(&walk, NOW + 1000000000, 64);
        weir_index_walk_end(&walk);
        step = weir_clock_thread_cpu_ns() - step;
        worst_ns = step > worst_ns ? step : worst_ns;
    }
    weir_index_tally(&the_index, tally);
    printf("index, expiry, of 1,000,000         nothing overdue: %.2f ms a tick; all overdue: %.0f ns an event, in %lu steps of at most %.0f us\n",
           idle_ms, (double)(weir_clock_thread_cpu_ns() - start) / (double)tally[WEIR_INDEX_EXPIRED], (unsigned long)steps, (double)worst_ns / 1e3);
}

/* --- fill ---------------------------------------------------------------------------------------------------------------- */

static int fill(int port, uint64_t keys, double least, double most)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct weir_buffer out = WEIR_BUFFER_INIT;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("index fill");
        return 2;
    }
    for (uint64_t n = 0; n < keys; n += EACH) {
        struct weir_message message = { .events = events, .event_count = EACH };
        uint8_t ack[sizeof weir_message_ack];
        events_fill(n, keys);
        for (unsigned i = 0; i < EACH; i++) {
            events[i].has_time = false;
            events[i].ttl = (float)(least + (most - least) * (double)(n + i) / (double)keys);
        }
        weir_buffer_clear(&out);
        if (weir_message_encode_framed(&message, &out, NULL) != 0 || send(fd, out.data, out.length, 0) != (ssize_t)out.length ||
            recv(fd, ack, sizeof ack, MSG_WAITALL) != sizeof ack || memcmp(ack, weir_message_ack, sizeof ack) != 0) {
            fprintf(stderr, "index fill: message %lu was not taken\n", (unsigned long)(n / EACH));
            return 2;
        }
    }
    weir_buffer_release(&out);
    close(fd);
    return 0;
}

int main(int argc, char **argv)
{
    events_init();
    if (argc == 6 && strcmp(argv[1], "fill") == 0)
        return fill(atoi(argv[2]), strtoull(argv[3], NULL, 10), atof(argv[4]), atof(argv[5]));
    weir_index_init(&the_index, 0, 0);
    insert_few();
    weir_index_release(&the_index);
    weir_index_init(&the_index, 0, 0);
    insert();
    query("host = \"web-00042.example.com\" and service = \"cpu-42/cpu-user\"", 100000);
    query("metric > 1000", 3);
    query("service =~ \"cpu-42%\" and state = \"critical\"", 3);
    query("description ~= \"^9.%\"", 3);
    query("host = \"web-00042.example.com\"", 3);
    expire();
    weir_index_release(&the_index);
    return 0;
}
