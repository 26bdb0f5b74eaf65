#include "tests/system/postgres.h"

#include <fcntl.h>
#include <glob.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The newest that is installed. */
static void find_program(const char *name, char path[128])
{
    glob_t found;
    char pattern[96];
    snprintf(pattern, sizeof pattern, "/usr/lib/postgresql/*/bin/%s", name);
    if (glob(pattern, 0, NULL, &found) != 0)
        fail_msg("there is no %s; install the package postgresql (make deps)", name);
    snprintf(path, 128, "%s", found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
}

/* Starts a program with its output in the log, as who PostgreSQL wants to be. */
static pid_t spawn(const struct postgres *postgres, const char *const *arguments)
{
    char log[96];
    snprintf(log, sizeof log, "%s/log", postgres->folder);
    const struct passwd *user = getuid() == 0 ? getpwnam("postgres") : NULL;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    if (user && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(126);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || chdir(postgres->folder) != 0)
        _exit(126);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    return ntohs(address.sin_port);
}

void postgres_again(struct postgres *postgres)
{
    char program[128], port[16], data[80];
    find_program("postgres", program);
    snprintf(port, sizeof port, "%d", postgres->port);
    snprintf(data, sizeof data, "%s/data", postgres->folder);
    const char *const arguments[] = { program, "-D", data, "-k", postgres->folder, "-p", port, "-c", "listen_addresses=127.0.0.1",
                                      "-c", "fsync=off", "-c", "max_connections=40", "-c", "shared_buffers=16MB", NULL };
    postgres->pid = spawn(postgres, arguments);
    for (int i = 0; i < 600; i++) {
        if (PQping(postgres->conninfo) == PQPING_OK)
            return;
        usleep(50000);
    }
    fail_msg("PostgreSQL does not start; see %s/log", postgres->folder);
}

void postgres_start(struct postgres *postgres)
{
    char program[128], data[80];
    int status;
    *postgres = (struct postgres){ .folder = "/tmp/weir-postgres-XXXXXX", .port = free_port() };
    assert_non_null(mkdtemp(postgres->folder));
    const struct passwd *user = getuid() == 0 ? getpwnam("postgres") : NULL;
    if (getuid() == 0 && (!user || chown(postgres->folder, user->pw_uid, user->pw_gid) != 0))
        fail_msg("there is no user postgres; install the package postgresql (make deps)");
    snprintf(postgres->conninfo, sizeof postgres->conninfo, "host=127.0.0.1 port=%d user=weir dbname=postgres", postgres->port);
    find_program("initdb", program);
    snprintf(data, sizeof data, "%s/data", postgres->folder);
    const char *const arguments[] = { program, "-D", data, "-A", "trust", "-U", "weir", "-E", "UTF8", "--no-locale", "--no-sync", NULL };
    assert_int_equal(waitpid(spawn(postgres, arguments), &status, 0) < 0, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("initdb failed; see %s/log", postgres->folder);
    postgres_again(postgres);
}

void postgres_crash(struct postgres *postgres)
{
    kill(postgres->pid, SIGQUIT);
    waitpid(postgres->pid, NULL, 0);
}

void postgres_stop(struct postgres *postgres)
{
    char command[96];
    postgres_crash(postgres);
    snprintf(command, sizeof command, "rm -rf -- %s", postgres->folder);
    assert_int_equal(system(command), 0);
}

long postgres_run(struct postgres *postgres, const char *format, ...)
{
    char sql[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sql, sizeof sql, format, args);
    va_end(args);
    PGconn *conn = PQconnectdb(postgres->conninfo);
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    long value = PQntuples(result) && PQnfields(result) ? atol(PQgetvalue(result, 0, 0)) : 0;
    PQclear(result);
    PQfinish(conn);
    return value;
}
