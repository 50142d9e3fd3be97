/* Distances between all pairs of points, a triangular loop in blocks, OpenMP: compute-bound, unevenly divided. */
#include "threaded.h"

#include <math.h>
#include <omp.h>

#define POINTS 9000

static double x[POINTS], y[POINTS];

static double closest(void)
{
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (int i = 0; i < POINTS; i++) {
        double least = 4;
        for (int j = 0; j < i; j++) {
            double dx = x[i] - x[j], dy = y[i] - y[j];
            double distance = dx * dx + dy * dy;
            if (distance < least)
                least = distance;
        }
        sum += sqrt(least);
    }
    return sum;
}

int main(int argc, char **argv)
{
    omp_set_num_threads(threads_argument(argc, argv));
    uint64_t state = 1;
    for (int i = 0; i < POINTS; i++) {
        state = next_number(state);
        x[i] = (double)(state >> 40) / 16777216.0;
        state = next_number(state);
        y[i] = (double)(state >> 40) / 16777216.0;
    }
    double sum = 0;
    for (int round = 0; round < 3; round++)
        sum += closest();
    printf("%.8f\n", sum);
    return 0;
}
