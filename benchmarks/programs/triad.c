/* usage: triad [ELEMENTS [REPETITIONS]]
 *
 * The triad of STREAM: a[i] = b[i] + s * c[i] on doubles.
 */
#include "program.h"

KERNEL static void triad(size_t n, double *a, const double *b, const double *c, double s)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "triad [ELEMENTS [REPETITIONS]]");
    size_t n = number_argument(argc, argv, 1, 1000000, 1, ARENA_BYTES / 8);
    size_t repetitions = number_argument(argc, argv, 2, 86, 1, 1000000);
    double *a = allocate_array(n, sizeof *a), *b = allocate_array(n, sizeof *b), *c = allocate_array(n, sizeof *c);
    for (size_t i = 0; i < n; i++) {
        b[i] = (double)i;
        c[i] = (double)(n - i);
    }
    for (size_t repetition = 0; repetition < repetitions; repetition++)
        triad(n, a, b, c, 1.0 / (double)(repetition + 1));
    printf("elements %zu  repetitions %zu  checksum %.10f\n", n, repetitions, a[0] + a[n / 2] + a[n - 1]);
    return 0;
}
