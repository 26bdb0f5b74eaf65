/*
 * postgres: a PostgreSQL of the test's own: a fresh cluster in a temporary folder, on a free port of loopback.
 *
 * Units: none.
 * Owns: the process and its folder, until postgres_stop().
 * Threads: one at a time.
 * Errors: whatever goes wrong fails the running cmocka test, with a sentence.
 */
#ifndef WEIR_TESTS_POSTGRES_H
#define WEIR_TESTS_POSTGRES_H

#include <sys/types.h>

struct postgres {
    pid_t pid;
    int port;
    char folder[64]; /* holds data, log and the socket */
    char conninfo[128]; /* of its superuser, without a password */
};

/* Makes the cluster and starts it; as the user `postgres` where the test is root, which the server refuses to be. */
void postgres_start(struct postgres *postgres);
/* Ends the server at once, as a crash does; postgres_again() starts it on the same port. */
void postgres_crash(struct postgres *postgres);
void postgres_again(struct postgres *postgres);
/* Ends it and removes the folder. */
void postgres_stop(struct postgres *postgres);

/* Runs SQL on a connection of its own. Returns the first value of the last result as a number, 0 where there is none. */
long postgres_run(struct postgres *postgres, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
