/*
 * json: a profile as JSON, for machines: `weir report --json`. The names are stable.
 *
 * Units: ns, bytes, items, per second; shares 0 to 1. "No data" is null, never 0. Counters of queues and ways in count from the
 * server's start to the window's end, so that the conservation laws can be checked; `window` has what the window added.
 * Owns: nothing; the text is appended to the caller's buffer.
 * Threads: any.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_VIZ_JSON_H
#define WEIR_VIZ_JSON_H

#include "base/buffer.h"
#include "base/profile.h"
#include "base/verdict.h"

int weir_json_profile(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out,
                      struct weir_error *error);
/* The report's "verdict" alone. */
int weir_json_verdict(const struct weir_verdict *verdict, struct weir_buffer *out, struct weir_error *error);

#endif
