/*
 * profile_format: what the two halves of the profile's codec share: marks, and the counters that are copied by name.
 * It stands inside base, between profile_write.c and profile_read.c.
 *
 * Units: none.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_BASE_PROFILE_FORMAT_H
#define WEIR_BASE_PROFILE_FORMAT_H

#define WEIR_PROFILE_MAGIC "weirprof"
#define WEIR_PROFILE_MAGIC_SIZE 8u
#define WEIR_PROFILE_END_MARK 0x72696577u

/* Fields that have the same name in base/profile.h and in base/profile.proto. */
#define WEIR_QUEUE_COUNTS(do) do(in) do(out) do(dropped) do(rejected) do(queued) do(queued_bytes) do(parked) do(in_bytes)
#define WEIR_WAY_COUNTS(do)                                                                                                   \
    do(accepted) do(answered) do(abandoned) do(discarded) do(in_flight) do(accepted_bytes) do(malformed) do(bad_lengths)      \
    do(connections) do(opened) do(events) do(overlapped) do(truncated) do(kernel_drops) do(refused)              \
    do(failed_handshakes)
#define WEIR_SLOT_COUNTS(do)                                                                                                  \
    do(taken) do(finished) do(failed) do(lost) do(retried) do(in_use) do(open) do(reconnects) do(waits) do(waited_ns)         \
    do(full_ns) do(unfilled) do(alone_ns)

#endif
