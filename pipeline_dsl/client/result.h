/*
 * result: what can become of a request.
 * It stands at the end of every request, whichever client sent it.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_CLIENT_RESULT_H
#define WEIR_CLIENT_RESULT_H

enum weir_client_result {
    WEIR_CLIENT_ACKED,
    WEIR_CLIENT_REFUSED,    /* a reply that is not ok; its text is in the outcome */
    WEIR_CLIENT_CLOSED,     /* the server closed the connection */
    WEIR_CLIENT_RESET,      /* the connection was reset */
    WEIR_CLIENT_BAD_REPLY,  /* what came is no reply, so that nothing after it can be matched and the connection ends; or one that
                               is too large to keep */
    WEIR_CLIENT_UNANSWERED, /* the caller closed the client first, or no longer wanted to wait */
    WEIR_CLIENT_BROKEN,     /* any other error of the connection */
    WEIR_CLIENT_DOWN,       /* there was no connection when its turn came: the server never saw it */
    WEIR_CLIENT_SENT,       /* a datagram that the network took; nobody answers those, so this is no failure */
    WEIR_CLIENT_RESULTS
};

/* "acknowledged", "refused by the server", … */
const char *weir_client_result_name(enum weir_client_result result);

static inline int weir_client_result_failed(enum weir_client_result result)
{
    return result != WEIR_CLIENT_ACKED && result != WEIR_CLIENT_SENT;
}

#endif
