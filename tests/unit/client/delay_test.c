/* Over a link that takes 1 ms each way, a client that waits for each answer is slow however fast the server is, and one that does
 * not is not. */
#include "tests/unit/client/delay.h"
#include "tests/unit/client/promises.h"

static void link_to(struct delay_proxy *proxy, const struct mock_server *server, uint64_t delay_ns)
{
    *proxy = (struct delay_proxy){ .target = { .sin_family = AF_INET, .sin_port = htons(server->port),
                                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
                                   .delay_ns = delay_ns };
    delay_start(proxy);
}

static struct weir_riemann *open_over(const struct delay_proxy *proxy, struct weir_riemann_options options)
{
    struct mock_server far = { 0 };
    memcpy(far.address, proxy->address, sizeof far.address);
    return open_client(&far, options);
}

/* Messages a second of `count` requests. */
static double pipelined_rate(const struct delay_proxy *proxy, size_t count)
{
    struct weir_riemann *client =
        open_over(proxy, (struct weir_riemann_options){ .queue = 1024, .in_flight = 1024, .room_wait_ns = 10ull * S });
    uint64_t before = weir_clock_ns();
    for (size_t i = 0; i < count; i++)
        assert_int_equal(weir_riemann_send_frame(client, small_frame, sizeof small_frame, NULL, NULL, NULL, NULL), 0);
    while (counts_of(client).outstanding)
        usleep(200);
    double rate = (double)count * 1e9 / (double)(weir_clock_ns() - before);
    assert_int_equal(counts_of(client).results[WEIR_CLIENT_ACKED], count);
    weir_riemann_close(client, S);
    return rate;
}

static double sync_rate(const struct delay_proxy *proxy, size_t count)
{
    struct weir_riemann *client = open_over(proxy, (struct weir_riemann_options){ .kind = WEIR_RIEMANN_SYNC });
    uint64_t before = weir_clock_ns();
    for (size_t i = 0; i < count; i++)
        expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    double rate = (double)count * 1e9 / (double)(weir_clock_ns() - before);
    weir_riemann_close(client, 0);
    return rate;
}

/* Story A: the server is the same, and idle, in both cases. */
static void pipelining_hides_the_link(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct delay_proxy proxy;
    mock_start(&server);
    link_to(&proxy, &server, MS);
    double sync = sync_rate(&proxy, 50), pipelined = pipelined_rate(&proxy, 20000);
    assert_true(sync < 500);
    if (!(pipelined >= 20 * sync)) /* the bench measures how much more; a busy machine reaches this much */
        fail_msg("pipelined %.0f/s, sync %.0f/s", pipelined, sync);
    delay_stop(&proxy);
    mock_stop(&server);
}

/* The link keeps bytes and their order, and holds them for its time. */
static void the_link_is_honest(void **state)
{
    (void)state;
    struct mock_server server = { 0 };
    struct delay_proxy proxy;
    mock_start(&server);
    link_to(&proxy, &server, 20 * MS);
    size_t size = (size_t)8 << 20;
    uint8_t *large = calloc(1, size);
    weir_frame_header(large, (uint32_t)size - 4);
    struct weir_riemann *client = open_over(&proxy, (struct weir_riemann_options){ 0 });
    uint64_t before = weir_clock_ns();
    expect(send_small(client), WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    assert_true(weir_clock_ns() - before >= 40 * MS);
    struct weir_promise *promise = NULL;
    assert_int_equal(weir_riemann_send_frame(client, large, size, NULL, NULL, &promise, NULL), 0);
    expect(promise, WEIR_CLIENT_ACKED, WEIR_REACH_WHOLE);
    weir_riemann_close(client, S);
    delay_stop(&proxy);
    mock_stop(&server);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipelining_hides_the_link),
        cmocka_unit_test(the_link_is_honest),
    };
    return cmocka_run_group_tests_name("delay", tests, NULL, NULL);
}
