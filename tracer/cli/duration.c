#include "tracer/cli/duration.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MOST_NS (30ull * 24 * 3600 * 1000000000ull)

bool weir_cli_duration(const char *text, uint64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {
        { "", 1e9 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 },
    };
    size_t digits = strspn(text, "0123456789.");
    char *rest;
    double number = strtod(text, &rest);
    if (!digits || *text == '.' || rest != text + digits)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        double value = number * units[i].ns;
        if (strcmp(rest, units[i].name) == 0 && value >= 1 && value <= (double)MOST_NS) {
            *ns = (uint64_t)value;
            return true;
        }
    }
    return false;
}
