/*
 * scaling: where throughput stops growing with the number of clients.
 * It stands behind load: it reads the levels of a sweep and nothing else.
 *
 * The universal scalability law (Gunther): with n clients a system does
 *
 *     x(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))
 *
 * lambda is what one client would get alone, sigma the part of the work that is done one after the other, kappa what clients cost
 * each other. n / x(n) is linear in (1, n - 1, n (n - 1)), so that the best parameters, none of them negative, come from least
 * squares of the relative errors over the few sets of terms that may be left out.
 *
 * Units: clients; throughput in whatever unit was given.
 * Owns: nothing.
 * Threads: any.
 * Errors: -EINVAL for fewer than three levels, or one without throughput.
 */
#ifndef WEIR_CLIENT_SCALING_H
#define WEIR_CLIENT_SCALING_H

#include <stdbool.h>
#include <stddef.h>

struct weir_scaling_point {
    double clients, throughput;
};

enum weir_scaling_shape {
    WEIR_SCALING_NO_KNEE, /* throughput grows with the clients all the way */
    WEIR_SCALING_KNEE,    /* it does at first, then stays flat or falls */
    WEIR_SCALING_FLAT,    /* it stays flat, or falls, from the first level on: the knee lies below */
    WEIR_SCALING_UNCLEAR, /* the law doesn't fit: some level is off by more than a quarter */
};

struct weir_scaling {
    double lambda, sigma, kappa; /* infinite where even the first level was saturated */
    double terms[3];             /* n / x by the law: of 1, n - 1 and n (n - 1); 1 / lambda, sigma / lambda, kappa / lambda */
    enum weir_scaling_shape shape;
    double knee;  /* clients at which the straight line of lambda reaches the most there is; 0: it lies below 1 or isn't known */
    double most;  /* the most throughput by the law; infinite without a bound */
    double peak;  /* clients at which it is reached, falling beyond; infinite when it never falls */
    double worst; /* the largest relative residual, as an absolute value */
};

int weir_scaling_fit(struct weir_scaling *scaling, const struct weir_scaling_point *points, size_t count);
/* What the law says for so many clients. */
double weir_scaling_at(const struct weir_scaling *scaling, double clients);

#endif
