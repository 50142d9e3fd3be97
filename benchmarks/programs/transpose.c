/* usage: transpose [SIDE [REPETITIONS]]
 *
 * Transposes a square matrix out of place, row by row, without blocks: stores go down a column, a row apart.
 */
#include "program.h"

KERNEL static void transpose(size_t side, const double *restrict from, double *restrict to)
{
    for (size_t i = 0; i < side; i++)
        for (size_t j = 0; j < side; j++)
            to[j * side + i] = from[i * side + j];
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "transpose [SIDE [REPETITIONS]]");
    size_t side = number_argument(argc, argv, 1, 1733, 1, 8000);
    size_t repetitions = number_argument(argc, argv, 2, 53, 1, 1000000);
    double *from = allocate_array(side * side, sizeof *from), *to = allocate_array(side * side, sizeof *to);
    for (size_t i = 0; i < side * side; i++)
        from[i] = (double)i;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        transpose(side, from, to);
        double *keep = from;
        from = to;
        to = keep;
        from[repetition % side] += 1;
    }
    double checksum = 0;
    for (size_t i = 0; i < side * side; i++)
        checksum += from[i] * (double)(i % 7);
    printf("side %zu  repetitions %zu  checksum %.0f\n", side, repetitions, checksum);
    return 0;
}
