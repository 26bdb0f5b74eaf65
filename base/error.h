/*
 * error: one whole sentence about what went wrong, handed up to the command line.
 * It stands at the end of every call that can fail, in every room.
 *
 * Units: none.
 * Owns: nothing; the text lies in the struct.
 * Threads: owner only.
 * Errors: none.
 */
#ifndef WEIR_BASE_ERROR_H
#define WEIR_BASE_ERROR_H

#include <errno.h>

/* Exit codes of the command line; an error carries the one it leads to. */
enum weir_exit {
    WEIR_EXIT_DONE = 0,
    WEIR_EXIT_FOUND = 1,        /* a lint error, a missed expectation, a difference */
    WEIR_EXIT_USAGE = 2,        /* usage or bad input */
    WEIR_EXIT_CANNOT = 3,       /* can't measure here */
    WEIR_EXIT_INCONCLUSIVE = 4, /* check only */
};

struct weir_error {
    int exit;        /* enum weir_exit; 0 while nothing is set */
    char text[1024]; /* one sentence, no final newline */
};

#define WEIR_ERROR_INIT { 0, "" }

/* Sets the sentence (printf style) and returns -code, so that callers can `return weir_error_set(...)`.
 * `code` is a positive errno; `exit` an enum weir_exit. A null `error` is allowed: only the code is returned. */
int weir_error_set(struct weir_error *error, int exit, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A bug in weir itself: prints what it saw and aborts. */
#define weir_bug(...) weir_bug_at(__FILE__, __LINE__, __VA_ARGS__)
void weir_bug_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));

#endif
