#include "tracer/cli/load_profile.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buffer.h"

extern char **environ;

void load_profile_start(struct load_profile *profile, int pid, const char *prefix, size_t clients)
{
    struct weir_buffer path = WEIR_BUFFER_INIT;
    char number[16];
    profile->recorder = 0;
    if (!pid) {
        fputs("weir load: no local server is known to listen there, so nothing is recorded\n", stderr);
        return;
    }
    snprintf(number, sizeof number, "%d", pid);
    weir_buffer_printf(&path, "%s-%zu.wprof", prefix, clients);
    char *arguments[] = { "weir", "record", number, "--duration", "24h", "-o", path.data, NULL };
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    int code = path.failed ? -1 : posix_spawn(&profile->recorder, "/proc/self/exe", NULL, &attributes, arguments, environ);
    if (code)
        profile->recorder = 0;
    posix_spawnattr_destroy(&attributes);
    weir_buffer_release(&path);
}

void load_profile_stop(struct load_profile *profile)
{
    int status;
    if (!profile->recorder)
        return;
    kill(profile->recorder, SIGINT);
    while (waitpid(profile->recorder, &status, 0) < 0)
        continue;
    profile->recorder = 0;
}
