#include "tests/system/reloading.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pipeline_dsl/runtime/control.h"
#include "tracer/target.h"

int reloading_reload(const struct harness_server *server, const char *file)
{
    char command[512];
    snprintf(command, sizeof command, "XDG_CACHE_HOME=%s %s reload %s %d 2>%s/reload.txt", server->folder, harness_weir(), file,
             server->pid, server->folder);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool reloading_said(const struct harness_server *server, const char *words)
{
    char path[128], text[2048] = "";
    snprintf(path, sizeof path, "%s/reload.txt", server->folder);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, words) != NULL;
}

/* 0: there is no contract now. */
static uint64_t look(const struct harness_server *server, uint32_t *workers)
{
    struct weir_target target;
    struct weir_error error = WEIR_ERROR_INIT;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", server->pid);
    if (weir_target_open(&target, pid, &error) != 0)
        return 0;
    uint64_t start_ns = target.contract.start_ns;
    if (workers)
        *workers = target.topology.pools[1].threads;
    weir_target_close(&target);
    return start_ns;
}

static int connect_to(uint64_t start_ns)
{
    struct sockaddr_un address;
    socklen_t length = weir_control_address(&address, start_ns);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, length) == 0)
        return fd;
    close(fd);
    return -1;
}

uint64_t reloading_started(const struct harness_server *server, uint32_t *workers)
{
    uint64_t start_ns;
    for (int i = 0; (start_ns = look(server, workers)) == 0 && i < 1000; i++)
        usleep(5000); /* between two programs */
    assert_true(start_ns != 0);
    return start_ns;
}

void reloading_wait(const struct harness_server *server, uint64_t before)
{
    for (int i = 0; i < 6000; i++) {
        uint64_t now = look(server, NULL);
        int fd = now && now != before ? connect_to(now) : -1;
        if (fd >= 0) {
            close(fd);
            return;
        }
        usleep(5000);
    }
    fail_msg("the server did not become another one");
}

bool reloading_ask(const struct harness_server *server, const char *program, char *answer, size_t size)
{
    char packet[1024];
    int fd = connect_to(reloading_started(server, NULL));
    assert_true(fd >= 0);
    int bytes = snprintf(packet, sizeof packet, "%s%c%s%c%c", WEIR_CONTROL_RELOAD, 0, program, 0, 0);
    assert_int_equal(send(fd, packet, (size_t)bytes, 0), bytes);
    ssize_t got = recv(fd, answer, size - 1, 0);
    answer[got > 0 ? got : 0] = '\0';
    close(fd);
    return strcmp(answer, "ok") == 0;
}
