#include "pipeline_dsl/client/result.h"

const char *weir_client_result_name(enum weir_client_result result)
{
    static const char *const names[WEIR_CLIENT_RESULTS] = {
        [WEIR_CLIENT_ACKED] = "acknowledged",
        [WEIR_CLIENT_REFUSED] = "refused by the server",
        [WEIR_CLIENT_CLOSED] = "closed by the server",
        [WEIR_CLIENT_RESET] = "connection reset",
        [WEIR_CLIENT_BAD_REPLY] = "bad reply",
        [WEIR_CLIENT_UNANSWERED] = "no answer in time",
        [WEIR_CLIENT_BROKEN] = "connection broken",
        [WEIR_CLIENT_DOWN] = "not connected",
        [WEIR_CLIENT_SENT] = "sent, without an answer",
    };
    return names[result];
}
