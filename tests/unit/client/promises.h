/* What the tests of the client library share: sending many small requests and asking what became of each. */
#ifndef WEIR_TESTS_PROMISES_H
#define WEIR_TESTS_PROMISES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pipeline_dsl/client/riemann.h"
#include "tests/unit/client/mock_server.h"

#define MS 1000000u
#define S 1000000000u
#define BYTES(text) { (const uint8_t *)(text), sizeof(text) - 1 }

static const uint8_t small_frame[] = { 0, 0, 0, 2, 0x32, 0 }; /* one empty event */
static const char refusal[] = "\0\0\0\x0e\x10\0\x1a\x0aoverloaded";

static inline struct weir_riemann *open_client(const struct mock_server *server, struct weir_riemann_options options)
{
    struct weir_riemann *client = NULL;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_riemann_open(&client, server->address, &options, &error) != 0)
        fail_msg("%s", error.text);
    return client;
}

static inline struct weir_promise *send_small(struct weir_riemann *client)
{
    struct weir_promise *promise = NULL;
    struct weir_error error = WEIR_ERROR_INIT;
    if (weir_riemann_send_frame(client, small_frame, sizeof small_frame, NULL, NULL, &promise, &error) != 0)
        fail_msg("%s", error.text);
    return promise;
}

static inline int send_event(struct weir_riemann *client, struct weir_promise **promise)
{
    static const struct weir_event event = {
        .host = BYTES("h"), .service = BYTES("s"), .metric_kind = WEIR_METRIC_INT, .metric_int = 7
    };
    return weir_riemann_send_event(client, &event, NULL, NULL, promise, NULL);
}

/* Waits up to 5 s for its end, says what it was, and lets it go. */
static inline struct weir_outcome finish(struct weir_promise *promise)
{
    assert_int_equal(weir_promise_wait(promise, 5ull * S), 0);
    assert_true(weir_promise_done(promise));
    struct weir_outcome outcome = *weir_promise_outcome(promise);
    weir_promise_release(promise);
    return outcome;
}

static inline void expect(struct weir_promise *promise, enum weir_client_result result, enum weir_reach reach)
{
    struct weir_outcome outcome = finish(promise);
    if (outcome.result != result)
        fail_msg("%s, not %s", weir_client_result_name(outcome.result), weir_client_result_name(result));
    assert_int_equal(outcome.reach, reach);
}

static inline struct weir_riemann_counts counts_of(struct weir_riemann *client)
{
    struct weir_riemann_counts counts;
    weir_riemann_counts(client, &counts);
    uint64_t ended = 0;
    for (int i = 0; i < WEIR_CLIENT_RESULTS; i++)
        ended += counts.results[i];
    assert_int_equal(counts.sent, ended + counts.outstanding);
    return counts;
}

#endif
