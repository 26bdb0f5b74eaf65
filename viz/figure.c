#include "viz/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Three digits at most: 9.87 -> "9.9" or, with `fine`, "9.87". */
static struct weir_figure scaled(double value, const char *unit, int fine)
{
    struct weir_figure figure;
    double size = fabs(value);
    int decimals = size >= 99.95 ? 0 : size >= 9.995 ? fine : 1 + fine;
    snprintf(figure.text, sizeof figure.text, "%.*f%s%s", decimals, value, *unit ? " " : "", unit);
    return figure;
}

static struct weir_figure none(void)
{
    struct weir_figure figure = { "–" };
    return figure;
}

struct weir_figure weir_figure_ns(double ns)
{
    struct weir_figure figure;
    if (!isfinite(ns))
        return none();
    if (ns < 999.5) {
        snprintf(figure.text, sizeof figure.text, "%.0f ns", ns);
        return figure;
    }
    if (ns < 999500)
        return scaled(ns / 1e3, "µs", 0);
    return ns < 999.5e6 ? scaled(ns / 1e6, "ms", 0) : scaled(ns / 1e9, "s", 0);
}

struct weir_figure weir_figure_bytes(double bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    struct weir_figure figure;
    unsigned unit = 0;
    if (!isfinite(bytes))
        return none();
    for (; unit + 1 < sizeof units / sizeof *units && bytes >= 1023.5; unit++)
        bytes /= 1024;
    bool whole = unit == 0 || fabs(bytes - rint(bytes)) < 0.005;
    if (!whole)
        return scaled(bytes, units[unit], 0);
    snprintf(figure.text, sizeof figure.text, "%.0f %s", bytes, units[unit]);
    return figure;
}

struct weir_figure weir_figure_percent(double share)
{
    struct weir_figure figure;
    if (!isfinite(share))
        return none();
    if (share > 0 && share < 0.0005)
        snprintf(figure.text, sizeof figure.text, "<0.1 %%");
    else
        snprintf(figure.text, sizeof figure.text, "%.1f %%", share * 100);
    return figure;
}

struct weir_figure weir_figure_whole_percent(double share)
{
    struct weir_figure figure;
    if (!isfinite(share))
        return none();
    if (share > 0 && share < 0.005)
        snprintf(figure.text, sizeof figure.text, "<1 %%");
    else
        snprintf(figure.text, sizeof figure.text, "%.0f %%", share * 100);
    return figure;
}

static struct weir_figure thousands(double value, const char *const *units, int count)
{
    int unit = 0;
    if (!isfinite(value))
        return none();
    for (; unit + 1 < count && fabs(value) >= 999.5; unit++)
        value /= 1000;
    if (unit == 0) {
        struct weir_figure figure;
        bool whole = fabs(value - rint(value)) < 0.05;
        snprintf(figure.text, sizeof figure.text, whole || value >= 100 ? "%.0f%s%s" : "%.1f%s%s", value, *units[0] ? " " : "",
                 units[0]);
        return figure;
    }
    return scaled(value, units[unit], 1);
}

struct weir_figure weir_figure_rate(double per_s)
{
    static const char *const units[] = { "/s", "k/s", "M/s", "G/s", "T/s" };
    return thousands(per_s, units, 5);
}

struct weir_figure weir_figure_byte_rate(double per_s)
{
    static const char *const units[] = { "B/s", "kB/s", "MB/s", "GB/s", "TB/s" };
    return thousands(per_s, units, 5);
}

struct weir_figure weir_figure_event_rate(double per_s)
{
    static const char *const units[] = { "events/s", "k events/s", "M events/s", "G events/s", "T events/s" };
    return thousands(per_s, units, 5);
}

struct weir_figure weir_figure_message_rate(double per_s)
{
    static const char *const units[] = { "messages/s", "k messages/s", "M messages/s", "G messages/s", "T messages/s" };
    return thousands(per_s, units, 5);
}

struct weir_figure weir_figure_number(double value)
{
    static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
    return thousands(value, units, 7);
}

struct weir_figure weir_figure_count(uint64_t count)
{
    struct weir_figure figure;
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count), out = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            figure.text[out++] = ',';
        figure.text[out++] = digits[i];
    }
    figure.text[out] = '\0';
    return figure;
}
