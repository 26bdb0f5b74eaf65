/*
 * frame: cuts a byte stream into length32 frames: a 4-byte big-endian length, then so many bytes.
 * It stands after listen and before decode in a server, and before the reply's decode in a client.
 *
 * Units: bytes.
 * Owns: nothing; a frame is a view of the caller's bytes.
 * Threads: any (no state: what is left over stays in the caller's buffer).
 * Errors: a length above the limit is WEIR_FRAME_BAD, known as soon as the 4 bytes of the header are there.
 */
#ifndef WEIR_WIRE_FRAME_H
#define WEIR_WIRE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define WEIR_FRAME_HEADER 4u

enum weir_frame_kind { WEIR_FRAME_MORE, WEIR_FRAME_WHOLE, WEIR_FRAME_BAD };

struct weir_frame {
    enum weir_frame_kind kind;
    size_t offset; /* of the payload in the span: WEIR_FRAME_HEADER. WHOLE only */
    size_t length; /* of the payload; of BAD: what the header claims */
    size_t total;  /* header and payload: what a WHOLE frame takes off the span, what MORE needs in it (4 while the
                      length isn't known) */
};

/* Looks at the first frame of a span that begins where a frame begins. `max` bounds the payload. */
struct weir_frame weir_frame_cut(const void *data, size_t size, size_t max);

/* Writes the header of a payload of `length` bytes. */
void weir_frame_header(uint8_t header[WEIR_FRAME_HEADER], uint32_t length);

#endif
