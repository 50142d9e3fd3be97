/* usage: stream_triad [ELEMENTS [REPETITIONS]]
 *
 * The triad of STREAM, a = b + s c, in double precision; 24 bytes an element.
 */
#include "program.h"

KERNEL static void triad(size_t n, double s, const double *b, const double *c, double *a)
{
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] + s * c[i];
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "stream_triad [ELEMENTS [REPETITIONS]]");
    size_t n = number_argument(argc, argv, 1, 1 << 20, 1, 100000000);
    size_t repetitions = number_argument(argc, argv, 2, 4, 1, 1000000);
    double *a = allocate_array(n, sizeof *a), *b = allocate_array(n, sizeof *b), *c = allocate_array(n, sizeof *c);
    for (size_t i = 0; i < n; i++) {
        b[i] = 0.5 + (double)(i % 7);
        c[i] = 0.25;
    }
    double checksum = 0;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        triad(n, 0.4 + (double)repetition, b, c, a);
        checksum += a[repetition * 31 % n];
    }
    printf("elements %zu  repetitions %zu  checksum %.9f\n", n, repetitions, checksum);
    return 0;
}
