/*
 * heat: the colours of the graph.
 * CPU shares have one hue whose lightness carries the meaning, so that it survives print and every kind of colour blindness; the
 * number is always written beside it. Text keeps a contrast of at least 4.5 to 1 on each step (WCAG 2.1, 1.4.3).
 *
 * Units: shares 0 to 1.
 * Owns: nothing; the texts are constant.
 * Threads: any.
 * Errors: none; "no data" (NAN) has the lightest step.
 */
#ifndef WEIR_VIZ_HEAT_H
#define WEIR_VIZ_HEAT_H

#define WEIR_HEAT_STEPS 7u

struct weir_heat {
    double least;      /* share from which this step is used */
    const char *paper; /* background */
    const char *ink;   /* text on it */
    const char *faint; /* less important text on it */
    const char *bar;   /* the filled part of a bar on it */
    const char *track; /* the rest of that bar */
};

const struct weir_heat *weir_heat_step(unsigned step);
const struct weir_heat *weir_heat_of(double share);

#define WEIR_HEAT_INK "#1b1b1b"
#define WEIR_HEAT_FAINT "#55504b"
#define WEIR_HEAT_LINE "#6b645d"
#define WEIR_HEAT_BOX "#b5ada5"
#define WEIR_HEAT_QUEUE "#2f5d8a"
#define WEIR_HEAT_TRACK "#e3e7ec"

#endif
