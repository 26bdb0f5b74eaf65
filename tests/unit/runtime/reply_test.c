/* The way back on a real event loop whose only stage answers what it is told: a request holds the size of the reply it wants. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/topology.h"
#include "pipeline_dsl/runtime/conn.h"
#include "pipeline_dsl/wire/frame.h"
#include "tests/unit/runtime/plan_sample.h"

#define MIB ((uint32_t)1 << 20)

/* Size 0: an acknowledgement. Else a frame of that size, which repeats the low byte of the request's number. */
static void answer(struct weir_thread *thread, struct weir_item *item)
{
    uint32_t size;
    memcpy(&size, item->payload, sizeof size);
    if (size) {
        uint8_t header[WEIR_FRAME_HEADER], *body = malloc(size);
        memset(body, (int)(item->sequence & 0xff), size);
        weir_frame_header(header, size);
        weir_buffer_add(&item->reply, header, sizeof header);
        weir_buffer_add(&item->reply, body, size);
        item->reply_kind = WEIR_REPLY_BYTES;
        free(body);
    }
    weir_loop_finish(thread, item);
}

struct bench {
    struct weir_plan plan;
    struct weir_plan_way way;
    struct weir_loop loop;
    int client;
};

/* `type` of the socket: SOCK_STREAM, or SOCK_SEQPACKET, where the client sees what each send() held. */
static void set_up_with(struct bench *bench, int type)
{
    int ends[2];
    bench->plan = sample_plan(WEIR_FULL_BLOCK, 4, 1 << 20);
    bench->way = bench->plan.ways[0];
    bench->way.listen = weir_conn_receive;
    bench->way.frame = weir_conn_frame;
    bench->way.send = weir_conn_send;
    bench->way.run = answer;
    bench->way.handoff_queue = WEIR_NONE;
    bench->plan.ways = &bench->way;
    bench->plan.queue_count = 2;
    assert_int_equal(weir_loop_start(&bench->loop, &bench->plan, NULL, NULL, 0, 0, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, type, 0, ends), 0);
    weir_loop_adopt(&bench->loop, weir_arrival_new(ends[0], 0));
    bench->client = ends[1];
}

static void set_up(struct bench *bench)
{
    set_up_with(bench, SOCK_STREAM);
}

static void tear_down(struct bench *bench)
{
    close(bench->client);
    weir_loop_stop(&bench->loop);
    weir_loop_release(&bench->loop);
    struct weir_contract_queue *ring = &sample_queue_blocks[2];
    struct weir_contract_way *way = &sample_way_blocks[0];
    assert_int_equal(ring->in, ring->out + ring->dropped);
    assert_int_equal(ring->queued_items, 0);
    assert_int_equal(ring->queued_bytes, 0);
    assert_int_equal(way->accepted, way->answered + way->abandoned);
    assert_int_equal(way->in_flight, 0);
    assert_int_equal(way->connections, 0);
}

static void ask(const struct bench *bench, uint32_t size)
{
    uint8_t request[WEIR_FRAME_HEADER + sizeof size];
    weir_frame_header(request, sizeof size);
    memcpy(request + WEIR_FRAME_HEADER, &size, sizeof size);
    assert_int_equal(send(bench->client, request, sizeof request, MSG_NOSIGNAL), sizeof request);
}

static uint8_t *receive(const struct bench *bench, size_t size)
{
    uint8_t *bytes = malloc(size);
    size_t length = 0;
    for (ssize_t got; length < size; length += (size_t)got)
        if ((got = recv(bench->client, bytes + length, size - length, 0)) <= 0)
            fail_msg("the replies end after %zu of %zu bytes", length, size);
    return bytes;
}

static void expect_reply(const struct bench *bench, uint32_t size, uint8_t number)
{
    uint8_t *header = receive(bench, WEIR_FRAME_HEADER), wanted[WEIR_FRAME_HEADER];
    weir_frame_header(wanted, size);
    assert_memory_equal(header, wanted, sizeof wanted);
    uint8_t *body = receive(bench, size);
    for (uint32_t i = 0; i < size; i++)
        if (body[i] != number)
            fail_msg("byte %u of reply %u is %u", i, number, body[i]);
    free(header);
    free(body);
}

static void expect_bytes(const struct bench *bench, const void *wanted, size_t size)
{
    uint8_t *bytes = receive(bench, size);
    assert_memory_equal(bytes, wanted, size);
    free(bytes);
}

/* Until the loop has no more to do: it has accepted `requests`, and stays there. */
static void settle(const struct bench *bench, uint64_t requests)
{
    (void)bench;
    const weir_u64 *accepted = &sample_way_blocks[0].accepted;
    for (int i = 0; i < 5000 && __atomic_load_n(accepted, __ATOMIC_ACQUIRE) < requests; i++)
        usleep(1000);
    usleep(20000);
    assert_int_equal(__atomic_load_n(accepted, __ATOMIC_ACQUIRE), requests);
}

static void a_reply_that_would_pass_the_limit_becomes_an_error(void **state)
{
    (void)state;
    static struct bench bench;
    set_up(&bench);
    ask(&bench, 40 * MIB);
    ask(&bench, 40 * MIB); /* 80 of 64 */
    ask(&bench, 1000);
    settle(&bench, 3);
    expect_reply(&bench, 40 * MIB, 0);
    uint8_t *header = receive(&bench, WEIR_FRAME_HEADER);
    uint8_t *refusal = receive(&bench, header[3]);
    assert_memory_equal(refusal, "\x10\x00\x1a", 3); /* ok = false, error = */
    assert_non_null(memmem(refusal, header[3], "bytes of replies wait", 21));
    free(header);
    free(refusal);
    expect_reply(&bench, 1000, 2);
    tear_down(&bench);
}

/* One larger than the limit goes into an empty ring, and nothing is read while it waits. */
static void a_full_ring_stops_reading_until_it_is_read(void **state)
{
    (void)state;
    static struct bench bench;
    set_up(&bench);
    ask(&bench, 70 * MIB);
    ask(&bench, 10);
    ask(&bench, 0);
    settle(&bench, 1);
    expect_reply(&bench, 70 * MIB, 0);
    expect_reply(&bench, 10, 1);
    expect_bytes(&bench, weir_message_ack, sizeof weir_message_ack);
    settle(&bench, 3);
    tear_down(&bench);
}

/* Also where the socket takes a part of a run, and acknowledgements and others alternate. */
static void replies_of_all_kinds_stay_whole(void **state)
{
    (void)state;
    static struct bench bench;
    set_up(&bench);
    for (uint32_t round = 0; round < 200; round++) {
        uint32_t sizes[] = { 0, 0, 0, round * 977 + 1, 0 };
        for (int i = 0; i < 5; i++)
            ask(&bench, sizes[i]);
    }
    for (uint32_t round = 0; round < 200; round++) {
        for (int i = 0; i < 3; i++)
            expect_bytes(&bench, weir_message_ack, sizeof weir_message_ack);
        expect_reply(&bench, round * 977 + 1, (uint8_t)(round * 5 + 3));
        expect_bytes(&bench, weir_message_ack, sizeof weir_message_ack);
    }
    tear_down(&bench);
}

/* Real clients mis-frame a reply that comes in one chunk with another one. */
static void only_acknowledgements_share_a_send(void **state)
{
    (void)state;
    static struct bench bench;
    static const uint32_t sizes[] = { 0, 0, 0, 20, 0, 30, 40, 0 };
    static const ssize_t sends[] = { 18, 24, 6, 34, 44, 6 };
    uint8_t requests[8 * 8], reply[64];
    set_up_with(&bench, SOCK_SEQPACKET);
    for (int i = 0; i < 8; i++) {
        weir_frame_header(requests + i * 8, 4);
        memcpy(requests + i * 8 + 4, &sizes[i], 4);
    }
    assert_int_equal(send(bench.client, requests, sizeof requests, MSG_NOSIGNAL), sizeof requests);
    for (int i = 0; i < 6; i++)
        assert_int_equal(recv(bench.client, reply, sizeof reply, 0), sends[i]);
    tear_down(&bench);
}

static void a_client_that_goes_leaves_nothing_behind(void **state)
{
    (void)state;
    static struct bench bench;
    set_up(&bench);
    for (int i = 0; i < 10; i++)
        ask(&bench, 5 * MIB);
    settle(&bench, 10);
    tear_down(&bench);
    assert_true(sample_way_blocks[0].abandoned > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_that_would_pass_the_limit_becomes_an_error),
        cmocka_unit_test(a_full_ring_stops_reading_until_it_is_read),
        cmocka_unit_test(replies_of_all_kinds_stay_whole),
        cmocka_unit_test(only_acknowledgements_share_a_send),
        cmocka_unit_test(a_client_that_goes_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
