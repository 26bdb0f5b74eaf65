/*
 * table: the text report: stages with their parts, queues, pools, ways in, losses, overhead. `weir report` prints it.
 *
 * Units: as base/profile.h, written by figure.
 * Owns: nothing; the text is appended to the caller's buffer.
 * Threads: any.
 * Errors: -ENOMEM.
 */
#ifndef WEIR_VIZ_TABLE_H
#define WEIR_VIZ_TABLE_H

#include "base/buffer.h"
#include "base/profile.h"
#include "base/verdict.h"

/* `verdict` may be null. */
int weir_table_profile(const struct weir_profile *profile, const struct weir_verdict *verdict, struct weir_buffer *out,
                       struct weir_error *error);

#endif
