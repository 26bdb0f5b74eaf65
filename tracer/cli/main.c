/* The `weir` command: finds the verb and runs it. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tracer/cli/verb.h"
#include "viz/escape.h"

static const struct weir_verb *const verbs[] = {
    &weir_verb_lint, &weir_verb_fmt, &weir_verb_graph, &weir_verb_build, &weir_verb_run, &weir_verb_reload,
    &weir_verb_load, &weir_verb_doctor, &weir_verb_record, &weir_verb_report, &weir_verb_explain, &weir_verb_predict, &weir_verb_check,
};
#define VERB_COUNT (sizeof verbs / sizeof *verbs)

int weir_cli_fail(const char *verb, const struct weir_error *error)
{
    struct weir_buffer safe = WEIR_BUFFER_INIT;
    char line[sizeof error->text];
    /* A target may have chosen some of the words. Line by line, since a compiler says more than one. */
    for (const char *at = error->text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        weir_buffer_puts(&safe, safe.length ? "\n" : "");
        weir_escape_plain(&safe, line, WEIR_ESCAPE_ANY);
    }
    fprintf(stderr, "weir %s: %s\n", verb, weir_buffer_text(&safe));
    weir_buffer_release(&safe);
    return error->exit ? error->exit : WEIR_EXIT_USAGE;
}

int weir_cli_usage(const struct weir_verb *verb, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "weir %s: ", verb->name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\nusage: weir %s %s\n", verb->name, verb->usage);
    return WEIR_EXIT_USAGE;
}

int weir_cli_out(const void *data, size_t size)
{
    if (fwrite(data, 1, size, stdout) == size && fflush(stdout) == 0 && !ferror(stdout))
        return WEIR_EXIT_DONE;
    if (errno != EPIPE)
        fprintf(stderr, "weir: can't write to stdout: %s\n", strerror(errno));
    return WEIR_EXIT_USAGE;
}

static void help(FILE *out)
{
    fputs("weir shows how work flows through a staged server: where it waits, what each stage costs.\n\n", out);
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(out, "  weir %-8s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\nExit: 0 done, 1 found something, 2 usage or bad input, 3 can't measure here, 4 inconclusive (check).\n"
          "`weir help VERB` shows how a verb is used.\n", out);
}

static const struct weir_verb *find(const char *name)
{
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return WEIR_EXIT_USAGE;
    }
    bool asks = strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    if (asks && argc < 3) {
        help(stdout);
        return weir_cli_out("", 0);
    }
    const struct weir_verb *verb = find(asks ? argv[2] : argv[1]);
    if (!verb) {
        fprintf(stderr, "weir: there is no verb '%s'; `weir help` lists them\n", asks ? argv[2] : argv[1]);
        return WEIR_EXIT_USAGE;
    }
    if (asks || (argc > 2 && strcmp(argv[2], "--help") == 0)) {
        printf("weir %s %s\n\n%s\n", verb->name, verb->usage, verb->summary);
        if (verb->manual)
            printf("\n%s", verb->manual);
        return weir_cli_out("", 0);
    }
    return verb->run(argc - 1, argv + 1);
}
