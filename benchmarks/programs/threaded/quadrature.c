/* Numerical integration, OpenMP: compute-bound, evenly divided. Prints the integral of 4 / (1 + x^2), pi. */
#include "threaded.h"

#include <omp.h>

static double integral(long steps)
{
    const double width = 1.0 / (double)steps;
    double sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (long i = 0; i < steps; i++) {
        double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    return sum * width;
}

int main(int argc, char **argv)
{
    omp_set_num_threads(threads_argument(argc, argv));
    printf("%.10f\n", integral(100000000));
    return 0;
}
