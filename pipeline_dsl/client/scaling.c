#include "pipeline_dsl/client/scaling.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define TERMS 3
#define UNCLEAR 0.25 /* a residual beyond which the law is not believed */
#define LINEAR 0.8   /* of the straight line at the last level: above, there is no knee */

static double term(int number, double clients)
{
    return number == 0 ? 1 : number == 1 ? clients - 1 : clients * (clients - 1);
}

/* Solves the normal equations of the terms in `set` by elimination. False when they have no good solution. */
static bool solve(double matrix[TERMS][TERMS + 1], unsigned set, double result[TERMS])
{
    for (int i = 0; i < TERMS; i++) {
        if (set & 1u << i)
            continue;
        for (int k = 0; k < TERMS; k++)
            matrix[i][k] = matrix[k][i] = 0;
        matrix[i][TERMS] = 0;
        matrix[i][i] = 1;
    }
    for (int i = 0; i < TERMS; i++) {
        if (fabs(matrix[i][i]) < 1e-300)
            return false;
        for (int k = i + 1; k < TERMS; k++) {
            double factor = matrix[k][i] / matrix[i][i];
            for (int j = i; j <= TERMS; j++)
                matrix[k][j] -= factor * matrix[i][j];
        }
    }
    for (int i = TERMS - 1; i >= 0; i--) {
        result[i] = matrix[i][TERMS];
        for (int k = i + 1; k < TERMS; k++)
            result[i] -= matrix[i][k] * result[k];
        result[i] /= matrix[i][i];
    }
    return true;
}

/* Least squares of the relative errors of n / x over the terms in `set`; the sum of squares, or infinity where one is negative.
 */
static double fit(const struct weir_scaling_point *points, size_t count, unsigned set, double result[TERMS])
{
    double matrix[TERMS][TERMS + 1], squares = 0, scale[TERMS] = { 1, 1, 1 };
    memset(matrix, 0, sizeof matrix);
    /* Each term is scaled by its largest value: with thousands of clients they lie millions apart. */
    for (size_t p = 0; p < count; p++)
        for (int i = 1; i < TERMS; i++)
            scale[i] = fmax(scale[i], term(i, points[p].clients));
    for (size_t p = 0; p < count; p++) {
        double y = points[p].clients / points[p].throughput;
        for (int i = 0; i < TERMS; i++) {
            double a = term(i, points[p].clients) / scale[i] / y;
            for (int k = 0; k < TERMS; k++)
                matrix[i][k] += a * term(k, points[p].clients) / scale[k] / y;
            matrix[i][TERMS] += a;
        }
    }
    if (!solve(matrix, set, result))
        return INFINITY;
    for (int i = 0; i < TERMS; i++) {
        result[i] = set & 1u << i ? result[i] / scale[i] : 0;
        if (result[i] < 0)
            return INFINITY;
    }
    for (size_t p = 0; p < count; p++) {
        double y = points[p].clients / points[p].throughput, is = 0;
        for (int i = 0; i < TERMS; i++)
            is += result[i] * term(i, points[p].clients);
        squares += (is / y - 1) * (is / y - 1);
    }
    return squares;
}

/* n / x in terms of (1, n - 1, n (n - 1)): lambda may be infinite, so everything is told by these. */
static void describe(struct weir_scaling *scaling, const double best[TERMS])
{
    memcpy(scaling->terms, best, sizeof scaling->terms);
    double alone = best[0], serial = best[1], crosstalk = best[2];
    scaling->lambda = alone > 0 ? 1 / alone : INFINITY;
    scaling->sigma = alone > 0 ? serial / alone : INFINITY;
    scaling->kappa = alone > 0 ? crosstalk / alone : crosstalk > 0 ? INFINITY : 0;
    scaling->peak = crosstalk > 0 ? sqrt(fmax(alone - serial, 0) / crosstalk) : INFINITY;
    if (crosstalk > 0 && scaling->peak < 1)
        scaling->peak = 1;
    if (crosstalk > 0) {
        double n = scaling->peak, y = alone + serial * (n - 1) + crosstalk * n * (n - 1);
        scaling->most = y > 0 ? n / y : INFINITY;
    } else {
        scaling->most = serial > 0 ? 1 / serial : INFINITY;
    }
    scaling->knee = alone == 0 ? 0 : isinf(scaling->most) ? INFINITY : alone * scaling->most;
}

double weir_scaling_at(const struct weir_scaling *scaling, double clients)
{
    double y = 0;
    for (int i = 0; i < TERMS; i++)
        y += scaling->terms[i] * term(i, clients);
    return y > 0 ? clients / y : INFINITY;
}

static enum weir_scaling_shape judge(const struct weir_scaling *scaling, const struct weir_scaling_point *first,
                                     const struct weir_scaling_point *last)
{
    if (scaling->worst > UNCLEAR)
        return WEIR_SCALING_UNCLEAR;
    if (scaling->knee < first->clients)
        return WEIR_SCALING_FLAT;
    double line = scaling->lambda * last->clients;
    return scaling->knee > last->clients || weir_scaling_at(scaling, last->clients) > LINEAR * line ? WEIR_SCALING_NO_KNEE
                                                                                                      : WEIR_SCALING_KNEE;
}

int weir_scaling_fit(struct weir_scaling *scaling, const struct weir_scaling_point *points, size_t count)
{
    /* Sets of terms: all, without crosstalk, without serial work, the line alone; and the same of a system saturated from the
     * start. */
    static const unsigned sets[] = { 7, 3, 5, 1, 6, 2, 4 };
    double best[TERMS] = { 0 }, least = INFINITY;
    size_t first = 0, last = 0, different = count ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        if (!(points[i].clients >= 1 && points[i].throughput > 0))
            return -EINVAL;
        first = points[i].clients < points[first].clients ? i : first;
        last = points[i].clients > points[last].clients ? i : last;
        bool seen = false;
        for (size_t k = 0; k < i; k++)
            seen = seen || points[k].clients == points[i].clients;
        different += i && !seen;
    }
    if (different < 3)
        return -EINVAL;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        double result[TERMS], squares = fit(points, count, sets[i], result);
        if (squares < least * (1 - 1e-9)) {
            least = squares;
            memcpy(best, result, sizeof best);
        }
    }
    describe(scaling, best);
    scaling->worst = 0;
    for (size_t i = 0; i < count; i++)
        scaling->worst = fmax(scaling->worst, fabs(points[i].throughput / weir_scaling_at(scaling, points[i].clients) - 1));
    if (isinf(scaling->most) && scaling->knee == 0)
        scaling->most = weir_scaling_at(scaling, points[first].clients); /* it only falls, so this is the most known */
    scaling->shape = judge(scaling, &points[first], &points[last]);
    return 0;
}
