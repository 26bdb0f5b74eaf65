#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int weir_error_set(struct weir_error *error, int exit, int code, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
        error->exit = exit;
    }
    return -code;
}

void weir_bug_at(const char *file, int line, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "weir: bug at %s:%d: ", file, line);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}
