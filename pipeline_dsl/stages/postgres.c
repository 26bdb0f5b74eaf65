/*
 * DESIGN: libpq in pipeline mode. Each message is one execution of a prepared statement with a Sync behind it: a transaction of
 * its own, so that one that fails takes no other along. It counts as done when the answer to its Sync is there, since only then
 * the transaction is committed; the statement's own answer comes before that.
 *
 * A connection is opened on a thread that may wait, so connecting, logging in, checking the table and preparing are written one
 * after the other; each wait also ends when the server does.
 *
 * What was in flight when a connection went may be committed or not, and nobody can tell: sent again, it may be there twice.
 */
#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pipeline_dsl/stages/stages.h"

#define OPEN_NS 10000000000u /* for all steps of opening a connection */
#define STATEMENT "weir"

struct postgres {
    PGconn *conn;
    struct weir_item **items; /* ring, [in_flight]: [done, sent) are in flight, in the order of their answers */
    uint64_t sent, done;
    bool unwritten;      /* libpq holds bytes that the socket did not take */
    bool broken;
    bool head_failed;    /* the statement of the item at `done` has failed; why: */
    char head_error[256];
};

static const struct column {
    const char *name, *type, *from; /* `from`: the record's, as an expression */
} columns[] = {
    { "time", "timestamp with time zone", "timestamptz 'epoch' + e.time * interval '1 microsecond'" },
    { "host", "text", "e.host" },
    { "service", "text", "e.service" },
    { "state", "text", "e.state" },
    { "description", "text", "e.description" },
    { "metric", "double precision", "e.metric" },
    { "metric_int", "bigint", "e.metric_int" },
    { "ttl", "real", "e.ttl" },
    { "tags", "text[]", "e.tags" },
    { "attributes", "jsonb", "e.attributes" },
};
#define COLUMNS (sizeof columns / sizeof *columns)

/* --- opening --------------------------------------------------------------------------------------------------------------- */

struct opening {
    PGconn *conn;
    const struct weir_plan_slots *plan;
    int cancel_fd;
    uint64_t until_ns;
    struct weir_error *error;
};

/* libpq's own words, as far as their first line goes: the others guess. */
static int complain(struct opening *opening, const char *what, const char *said)
{
    static const char *const prefixes[] = { "ERROR:  ", "FATAL:  " };
    for (int i = 0; i < 2; i++)
        if (strncmp(said, prefixes[i], strlen(prefixes[i])) == 0)
            said += strlen(prefixes[i]);
    return weir_error_set(opening->error, WEIR_EXIT_FOUND, EIO, "%s: %.*s", what, (int)strcspn(said, "\n"), said);
}

/* Waits for the socket. 0, or the error is set. */
static int wait_for(struct opening *opening, short events)
{
    struct pollfd fds[2] = { { .fd = PQsocket(opening->conn), .events = events }, { .fd = opening->cancel_fd, .events = POLLIN } };
    for (;;) {
        uint64_t now = weir_clock_ns();
        uint64_t left = now < opening->until_ns ? opening->until_ns - now : 0;
        struct timespec timeout = { (time_t)(left / 1000000000u), (long)(left % 1000000000u) };
        int got = ppoll(fds, 2, &timeout, NULL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0 && fds[1].revents)
            return weir_error_set(opening->error, WEIR_EXIT_FOUND, ECANCELED, "the server ends");
        if (got == 0)
            return weir_error_set(opening->error, WEIR_EXIT_FOUND, ETIMEDOUT, "the database does not answer within 10 s");
        return 0;
    }
}

/* A statement's last result, which the caller clears; null: the error is set. `arguments`: one, or null. */
static PGresult *run(struct opening *opening, const char *sql, const char *argument)
{
    const char *values[1] = { argument };
    PGresult *last = NULL;
    if (!PQsendQueryParams(opening->conn, sql, argument ? 1 : 0, NULL, values, NULL, NULL, 0)) {
        complain(opening, "the database can't be asked", PQerrorMessage(opening->conn));
        return NULL;
    }
    for (;;) {
        if (PQisBusy(opening->conn)) {
            if (wait_for(opening, POLLIN) != 0)
                break;
            if (!PQconsumeInput(opening->conn)) {
                complain(opening, "the connection to the database was lost", PQerrorMessage(opening->conn));
                break;
            }
            continue;
        }
        PGresult *next = PQgetResult(opening->conn);
        if (!next)
            return last;
        PQclear(last);
        last = next;
    }
    PQclear(last);
    return NULL;
}

/* The same for a statement that must go well. */
static PGresult *run_well(struct opening *opening, const char *sql, const char *argument, const char *what)
{
    PGresult *result = run(opening, sql, argument);
    ExecStatusType status = PQresultStatus(result);
    if (!result || status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return result;
    complain(opening, what, PQresultErrorMessage(result));
    PQclear(result);
    return NULL;
}

static int log_in(struct opening *opening)
{
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;
    while (state != PGRES_POLLING_OK) {
        if (state == PGRES_POLLING_FAILED)
            return complain(opening, "can't connect to the database", PQerrorMessage(opening->conn));
        int rc = wait_for(opening, state == PGRES_POLLING_READING ? POLLIN : POLLOUT);
        if (rc != 0)
            return rc;
        state = PQconnectPoll(opening->conn);
    }
    return 0;
}

static int create_table(struct opening *opening)
{
    struct weir_buffer sql = WEIR_BUFFER_INIT;
    /* Already there is fine, and said by a notice that nobody wants to read. */
    weir_buffer_printf(&sql, "CREATE TABLE IF NOT EXISTS \"%s\" (", opening->plan->table);
    for (size_t i = 0; i < COLUMNS; i++)
        weir_buffer_printf(&sql, "%s\"%s\" %s%s", i ? ", " : "", columns[i].name, columns[i].type, i ? "" : " NOT NULL");
    weir_buffer_puts(&sql, ")");
    PGresult *done = run_well(opening, weir_buffer_text(&sql), NULL, "the table can't be created");
    weir_buffer_release(&sql);
    PQclear(done);
    return done ? 0 : -EIO;
}

static const char *type_in(const PGresult *found, const char *name)
{
    for (int row = 0; row < PQntuples(found); row++)
        if (strcmp(PQgetvalue(found, row, 0), name) == 0)
            return PQgetvalue(found, row, 1);
    return NULL;
}

/* What no later try can mend, without somebody's doing. */
static int check_table(struct opening *opening)
{
    const char *table = opening->plan->table;
    struct weir_buffer name = WEIR_BUFFER_INIT;
    weir_buffer_printf(&name, "\"%s\"", table);
    PGresult *found = run_well(opening,
                               "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                               "WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped",
                               weir_buffer_text(&name), "the table can't be looked at");
    weir_buffer_release(&name);
    if (!found)
        return -EIO;
    int rc = 0;
    if (PQntuples(found) == 0)
        rc = weir_error_set(opening->error, WEIR_EXIT_USAGE, ENOENT,
                            "there is no table \"%s\" in database \"%s\"; create it, or write `create` behind its name", table,
                            PQdb(opening->conn));
    for (size_t i = 0; i < COLUMNS && rc == 0; i++) {
        const char *type = type_in(found, columns[i].name);
        if (!type)
            rc = weir_error_set(opening->error, WEIR_EXIT_USAGE, EINVAL, "table \"%s\" has no column \"%s\"; add it as %s", table,
                                columns[i].name, columns[i].type);
        else if (strcmp(type, columns[i].type) != 0)
            rc = weir_error_set(opening->error, WEIR_EXIT_USAGE, EINVAL, "column \"%s\" of table \"%s\" is of type %s, and must be %s",
                                columns[i].name, table, type, columns[i].type);
    }
    PQclear(found);
    return rc;
}

static int prepare(struct opening *opening)
{
    struct weir_buffer sql = WEIR_BUFFER_INIT;
    weir_buffer_printf(&sql, "PREPARE " STATEMENT " (json) AS INSERT INTO \"%s\" (", opening->plan->table);
    for (size_t i = 0; i < COLUMNS; i++)
        weir_buffer_printf(&sql, "%s\"%s\"", i ? ", " : "", columns[i].name);
    for (size_t i = 0; i < COLUMNS; i++)
        weir_buffer_printf(&sql, "%s%s", i ? ", " : ") SELECT ", columns[i].from);
    weir_buffer_puts(&sql, " FROM json_to_recordset($1) AS e(");
    for (size_t i = 0; i < COLUMNS; i++)
        weir_buffer_printf(&sql, "%s\"%s\" %s", i ? ", " : "", columns[i].name, i ? columns[i].type : "bigint");
    weir_buffer_puts(&sql, ")");
    PGresult *done = run_well(opening, weir_buffer_text(&sql), NULL, "the insertion can't be prepared");
    weir_buffer_release(&sql);
    PQclear(done);
    return done ? 0 : -EIO;
}

static void ignore_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

static int set_up(struct opening *opening)
{
    int rc = log_in(opening);
    if (rc == 0 && opening->plan->create)
        rc = create_table(opening);
    if (rc == 0)
        rc = check_table(opening);
    if (rc == 0)
        rc = prepare(opening);
    if (rc == 0 && (PQsetnonblocking(opening->conn, 1) != 0 || !PQenterPipelineMode(opening->conn)))
        rc = complain(opening, "the connection can't be pipelined", PQerrorMessage(opening->conn));
    return rc;
}

static int check_conninfo(const char *text, struct weir_error *error)
{
    char *said = NULL;
    PQconninfoOption *options = PQconninfoParse(text, &said);
    if (options) {
        PQconninfoFree(options);
        return 0;
    }
    size_t length = said ? strcspn(said, "\n") : 0;
    int rc = weir_error_set(error, WEIR_EXIT_USAGE, EINVAL, "the connection string can't be read: %.*s", length ? (int)length : 9,
                            length ? said : "no memory");
    PQfreemem(said);
    return rc;
}

static int open_line(struct weir_slots_line *line, int cancel_fd, struct weir_error *error)
{
    const struct weir_plan_slots *plan = line->slots->plan;
    /* What stands in front of the connection string can be overruled by it: a host that is gone is noticed within 30 s. */
    const char *const keys[] = { "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "dbname",
                                 "fallback_application_name", "client_encoding", NULL };
    const char *const values[] = { "10", "5", "4", "30000", plan->address, plan->name, "UTF8", NULL };
    int rc = check_conninfo(plan->address, error);
    if (rc != 0)
        return rc;
    struct opening opening = {
        .conn = PQconnectStartParams(keys, values, 1),
        .plan = plan,
        .cancel_fd = cancel_fd,
        .until_ns = weir_clock_ns() + OPEN_NS,
        .error = error,
    };
    struct postgres *postgres = calloc(1, sizeof *postgres);
    if (postgres)
        postgres->items = calloc(plan->in_flight, sizeof *postgres->items);
    if (!opening.conn || !postgres || !postgres->items) {
        rc = weir_error_set(error, WEIR_EXIT_FOUND, ENOMEM, "no memory for a connection to the database");
    } else if (PQstatus(opening.conn) == CONNECTION_BAD) {
        rc = complain(&opening, "can't connect to the database", PQerrorMessage(opening.conn));
    } else {
        PQsetNoticeReceiver(opening.conn, ignore_notice, NULL);
        rc = set_up(&opening);
    }
    if (rc == 0) {
        postgres->conn = opening.conn;
        line->link = postgres;
        return 0;
    }
    PQfinish(opening.conn);
    if (postgres)
        free(postgres->items);
    free(postgres);
    return rc;
}

/* --- at work ---------------------------------------------------------------------------------------------------------------- */

static struct weir_item **place(const struct weir_slots_line *line, const struct postgres *postgres, uint64_t at)
{
    return &postgres->items[at % line->slots->plan->in_flight];
}

static void send_item(struct weir_slots_line *line, struct weir_item *item)
{
    struct postgres *postgres = line->link;
    const char *values[1] = { weir_buffer_text(&item->request) };
    *place(line, postgres, postgres->sent++) = item;
    if (postgres->broken || !PQsendQueryPrepared(postgres->conn, STATEMENT, 1, values, NULL, NULL, 0) || !PQpipelineSync(postgres->conn))
        postgres->broken = true;
    postgres->unwritten = true;
}

/* Was it said by a database that closes the connection, or by libpq that has lost it? Then it is no answer to the statement. */
static bool ends_connection(const struct postgres *postgres, const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    return PQstatus(postgres->conn) == CONNECTION_BAD || !severity || strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0;
}

static void take_error(struct postgres *postgres, const PGresult *result)
{
    const char *said = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (ends_connection(postgres, result)) {
        postgres->broken = true;
        return;
    }
    postgres->head_failed = true;
    snprintf(postgres->head_error, sizeof postgres->head_error, "%s", said ? said : "the database refused the rows");
}

/* What the database has said of the item at the head. */
static void take_result(struct weir_slots_line *line, struct postgres *postgres, const PGresult *result)
{
    switch (PQresultStatus(result)) {
    case PGRES_PIPELINE_SYNC: {
        struct weir_item *item = *place(line, postgres, postgres->done++);
        if (postgres->head_failed)
            weir_slots_fail(line->slots, item, "%s", postgres->head_error);
        weir_slots_end(line, item, postgres->head_failed ? WEIR_SLOTS_FAILED : WEIR_SLOTS_FINISHED);
        postgres->head_failed = false;
        break;
    }
    case PGRES_COMMAND_OK:
    case PGRES_PIPELINE_ABORTED:
        break;
    default:
        take_error(postgres, result);
    }
}

static void take_results(struct weir_slots_line *line, struct postgres *postgres)
{
    /* A null stands behind the answer to each statement, and two of them where there is nothing more to come. */
    for (bool again = true; postgres->done != postgres->sent && !postgres->broken && !PQisBusy(postgres->conn);) {
        PGresult *result = PQgetResult(postgres->conn);
        if (!result && !again)
            break;
        again = result != NULL;
        if (result)
            take_result(line, postgres, result);
        PQclear(result);
    }
}

static void attend(struct weir_slots_line *line, bool readable)
{
    struct postgres *postgres = line->link;
    bool lost = readable && !PQconsumeInput(postgres->conn);
    if (readable)
        take_results(line, postgres); /* those that came before the end are good */
    if (!postgres->broken && !lost && postgres->unwritten) {
        int left = PQflush(postgres->conn);
        postgres->unwritten = left > 0;
        lost = left < 0;
    }
    postgres->broken |= lost || PQstatus(postgres->conn) == CONNECTION_BAD;
}

static int line_fd(const struct weir_slots_line *line)
{
    const struct postgres *postgres = line->link;
    return postgres->broken ? -1 : PQsocket(postgres->conn);
}

static bool wants_write(const struct weir_slots_line *line)
{
    return ((const struct postgres *)line->link)->unwritten;
}

static void close_line(struct weir_slots_line *line)
{
    struct postgres *postgres = line->link;
    PQfinish(postgres->conn);
    while (postgres->done != postgres->sent) {
        weir_slots_lose(line, *place(line, postgres, postgres->done));
        postgres->done++;
    }
    free(postgres->items);
    free(postgres);
    line->link = NULL;
}

const struct weir_slots_kind weir_store_postgres = {
    .open = open_line,
    .send = send_item,
    .attend = attend,
    .fd = line_fd,
    .wants_write = wants_write,
    .close = close_line,
};
