/*
 * bytes: a string that need not end, as it stands in a message or in a query.
 *
 * Strings are bytes: they may hold NULs and may be invalid UTF-8. Data null means absent (nil), which differs from "".
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_BASE_BYTES_H
#define WEIR_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct weir_bytes {
    const uint8_t *data; /* null: absent */
    size_t size;
};

#endif
