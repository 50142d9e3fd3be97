/* Two arrays added into a third, OpenMP: bound by memory bandwidth. Prints an element's sum. */
#include "threaded.h"

#include <omp.h>

#define LENGTH 8000000
#define ROUNDS 10

static double a[LENGTH], b[LENGTH], c[LENGTH];

static void fill(void)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < LENGTH; i++) {
        a[i] = 0;
        b[i] = (double)(i % 7);
        c[i] = (double)(i % 5);
    }
}

static void triad(double factor)
{
#pragma omp parallel for schedule(static)
    for (long i = 0; i < LENGTH; i++)
        a[i] = b[i] + factor * c[i];
}

int main(int argc, char **argv)
{
    omp_set_num_threads(threads_argument(argc, argv));
    fill();
    for (int round = 0; round < ROUNDS; round++)
        triad((double)round);
    printf("%.1f\n", a[LENGTH - 1] + a[LENGTH / 2]);
    return 0;
}
