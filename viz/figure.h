/*
 * figure: how a number is written for people: three digits at most, with its unit.
 * It stands behind every view for eyes; JSON has the plain numbers.
 *
 * Units: as each function says. NAN means "no data" and is written "–".
 * Owns: nothing; a figure is a plain value.
 * Threads: any.
 * Errors: none.
 */
#ifndef WEIR_VIZ_FIGURE_H
#define WEIR_VIZ_FIGURE_H

#include <stdbool.h>
#include <stdint.h>

struct weir_figure {
    char text[32]; /* UTF-8 */
};

struct weir_figure weir_figure_ns(double ns);          /* "812 ns", "41 µs", "1.9 ms", "2.3 s" */
struct weir_figure weir_figure_bytes(double bytes);    /* "512 B", "7.6 MiB" */
struct weir_figure weir_figure_percent(double share);  /* of 0..1: "38.2 %", "<0.1 %" */
struct weir_figure weir_figure_whole_percent(double share); /* "38 %" */
struct weir_figure weir_figure_rate(double per_s);     /* "12.1 k/s" */
struct weir_figure weir_figure_byte_rate(double per_s); /* "139 MB/s" */
struct weir_figure weir_figure_event_rate(double per_s);   /* "1.21 M events/s" */
struct weir_figure weir_figure_message_rate(double per_s); /* "12.1 k messages/s" */
struct weir_figure weir_figure_number(double value);   /* "7.6", "1.21 M" */
struct weir_figure weir_figure_count(uint64_t count);  /* "4,212" */

#endif
