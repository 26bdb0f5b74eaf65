/*
 * file: a whole file is written, or the old one stays.
 * Profiles, pictures, counters and formatted pipeline files leave weir this way.
 *
 * Units: bytes.
 * Owns: nothing.
 * Threads: any.
 * Errors: one sentence that says what can't be written and why, exit 2.
 */
#ifndef WEIR_BASE_FILE_H
#define WEIR_BASE_FILE_H

#include <stddef.h>

#include "base/error.h"

/* Writes by way of a temporary name beside `path`, with the permissions that a new file has; a reader finds the old content or
 * the new one, never a part. A device or a pipe, which has no old content to keep, is written to directly. `what` names the
 * content: "can't write the counters to x: …". */
int weir_file_write(const char *path, const void *data, size_t size, const char *what, struct weir_error *error);

#endif
