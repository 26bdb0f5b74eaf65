#include "base/clock.h"

struct weir_clock_pair weir_clock_pair(void)
{
    struct weir_clock_pair best = { 0, 0 };
    uint64_t narrowest = UINT64_MAX;
    for (int i = 0; i < 8; i++) {
        uint64_t before = weir_clock_ns();
        uint64_t ticks = weir_clock_ticks();
        uint64_t after = weir_clock_ns();
        if (after - before < narrowest) {
            narrowest = after - before;
            best = (struct weir_clock_pair){ before + (after - before) / 2, ticks };
        }
    }
    return best;
}

double weir_clock_ns_per_tick(struct weir_clock_pair a, struct weir_clock_pair b)
{
    if (b.ticks <= a.ticks || b.ns < a.ns + 1000000)
        return 1.0;
    return (double)(b.ns - a.ns) / (double)(b.ticks - a.ticks);
}

uint64_t weir_clock_to_ns(struct weir_clock_pair a, struct weir_clock_pair b, uint64_t ticks)
{
    double ns = (double)a.ns + ((double)ticks - (double)a.ticks) * weir_clock_ns_per_tick(a, b);
    return ns <= 0 ? 0 : (uint64_t)ns;
}
