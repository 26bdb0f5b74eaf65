/*
 * query: Riemann's query language: text is parsed once and then asked about events.
 * The index parses one with each request that brings it, `filter` when the server starts, and lang when it checks a file.
 *
 * The differences from Riemann are deliberate: operators need no blanks around them (names hold . - : but not = ! < > ~), the whole
 * text must be used up, integers and doubles are compared without loss, and an error names its place. `%` of `=~` and `.` of `~=`
 * match all but a newline; `~=` takes Perl's regular expressions, which are close to Java's, and reads a text that is no UTF-8 with
 * U+FFFD in place of what is wrong.
 *
 * Units: places in a query are bytes from its start; lines and columns count from 1, columns in characters.
 * Owns: a query owns a copy of everything that it needs of its text.
 * Threads: a parsed query is never changed: any number of threads may match with it, each with a scratch of its own.
 * Errors: -EINVAL for a text that is no query, with a sentence that begins "parse error: " and names the place; -ENOMEM;
 *   -E2BIG when a regular expression takes too many steps: then there is no answer, rather than a wrong one.
 */
#ifndef WEIR_QUERY_QUERY_H
#define WEIR_QUERY_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

/* What bounds the work that a query can cause. */
#define WEIR_QUERY_BYTES_MOST ((size_t)64 << 10)  /* of text */
#define WEIR_QUERY_DEPTH_MOST 200u                /* parentheses in parentheses */
#define WEIR_QUERY_TERMS_MOST 1024u               /* comparisons */
#define WEIR_QUERY_MEMORY_MOST ((size_t)4 << 20)  /* of the parsed query, its regular expressions included */

/* --- what a query is asked about ----------------------------------------------------------------------------------------- */

enum weir_query_field {
    WEIR_QUERY_HOST, WEIR_QUERY_SERVICE, WEIR_QUERY_STATE, WEIR_QUERY_DESCRIPTION, WEIR_QUERY_METRIC, WEIR_QUERY_TAGS, WEIR_QUERY_TIME,
    WEIR_QUERY_TTL, WEIR_QUERY_ATTRIBUTE, /* any other name */
};

enum weir_query_kind {
    WEIR_QUERY_NIL, WEIR_QUERY_BOOL, WEIR_QUERY_INT, WEIR_QUERY_DOUBLE, WEIR_QUERY_TEXT,
    WEIR_QUERY_LIST, /* tags, when there are any: true, and equal to nothing but themselves */
    WEIR_QUERY_BIG,  /* only in a query: an integer beyond int64_t, as its decimal digits in `text` */
};

struct weir_query_value {
    enum weir_query_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct weir_bytes text;
    };
};

static inline struct weir_query_value weir_query_nil(void)
{
    return (struct weir_query_value){ .kind = WEIR_QUERY_NIL };
}

static inline struct weir_query_value weir_query_integer(int64_t integer)
{
    return (struct weir_query_value){ .kind = WEIR_QUERY_INT, .integer = integer };
}

static inline struct weir_query_value weir_query_real(double real)
{
    return (struct weir_query_value){ .kind = WEIR_QUERY_DOUBLE, .real = real };
}

/* Nil when the bytes are absent. */
static inline struct weir_query_value weir_query_text(struct weir_bytes text)
{
    return (struct weir_query_value){ .kind = text.data ? WEIR_QUERY_TEXT : WEIR_QUERY_NIL, .text = text };
}

/* A time in seconds, as queries see it: an integer when it is whole, else a double. */
static inline struct weir_query_value weir_query_time(int64_t time_us)
{
    return time_us % 1000000 ? weir_query_real((double)time_us / 1e6) : weir_query_integer(time_us / 1000000);
}

static inline struct weir_query_value weir_query_tags(size_t count)
{
    return (struct weir_query_value){ .kind = count ? WEIR_QUERY_LIST : WEIR_QUERY_NIL };
}

/* How a query looks at an event of whatever form. Texts are borrowed while the event is matched. */
struct weir_query_view {
    /* `name` is that of an ATTRIBUTE. Nil for what the event doesn't have. */
    struct weir_query_value (*field)(const void *event, enum weir_query_field field, struct weir_bytes name);
    bool (*tagged)(const void *event, struct weir_bytes tag);
};

/* --- the query ----------------------------------------------------------------------------------------------------------- */

struct weir_query;

/* Where a text stops being a query. */
struct weir_query_place {
    size_t offset, length;  /* the words that are wrong; length 0: something is missing there */
    uint32_t line, column;
    size_t sentence;        /* offset in the error's text: behind "parse error: line 1, column 9: " */
};

/* On -EINVAL `*place` is set; it may be null. */
int weir_query_parse(struct weir_query **query, const void *text, size_t size, struct weir_query_place *place, struct weir_error *error);
void weir_query_free(struct weir_query *query);

/* Is it exactly `host = H and service = S`, in either order? Then H and S, each of which may be nil: one event at most has that key. */
bool weir_query_key(const struct weir_query *query, struct weir_bytes *host, struct weir_bytes *service);

/* --- matching ------------------------------------------------------------------------------------------------------------ */

/* What matching needs beside the query; what its regular expressions have cost adds up here. One for each walk over events, or
 * for each message. */
struct weir_query_scratch {
    void *match_data, *match_context; /* PCRE2's; made when first needed */
    uint64_t regex_work, regex_count; /* units of work, and searches, so far */
    uint64_t work_most;               /* of the search that runs, as are toll and at */
    size_t toll, at;
    uint64_t work_before; /* weir_query_excess() of others; too much, and expressions are refused */
};

#define WEIR_QUERY_SCRATCH_INIT { NULL, NULL, 0, 0, 0, 0, 0, 0 }

/* The work of regular expressions beyond what they usually take. */
uint64_t weir_query_excess(const struct weir_query_scratch *scratch);

void weir_query_scratch_release(struct weir_query_scratch *scratch);

/* 1: the event matches, 0: it doesn't. -E2BIG or -ENOMEM: give up, with the error's sentence as the answer. */
int weir_query_match(const struct weir_query *query, struct weir_query_scratch *scratch, const struct weir_query_view *view,
                     const void *event, struct weir_error *error);

#endif
