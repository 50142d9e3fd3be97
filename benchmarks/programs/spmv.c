/* usage: spmv [ROWS [NONZEROS_PER_ROW [REPETITIONS]]]
 *
 * Sparse matrix times vector, y = A x, compressed sparse rows, columns at random.
 */
#include "program.h"

KERNEL static void multiply(size_t rows, const uint32_t *row_start, const uint32_t *column, const double *value,
                            const double *x, double *y)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t k = row_start[i]; k < row_start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "spmv [ROWS [NONZEROS_PER_ROW [REPETITIONS]]]");
    size_t rows = number_argument(argc, argv, 1, 50000, 1, 100000000);
    size_t per_row = number_argument(argc, argv, 2, 16, 1, 1000);
    size_t repetitions = number_argument(argc, argv, 3, 80, 1, 1000000);
    if (rows * per_row > UINT32_MAX) {
        fprintf(stderr, "%zu rows of %zu nonzeros: more than 32-bit indices can count\n", rows, per_row);
        return 2;
    }
    uint32_t *row_start = allocate_array(rows + 1, sizeof *row_start);
    uint32_t *column = allocate_array(rows * per_row, sizeof *column);
    double *value = allocate_array(rows * per_row, sizeof *value);
    double *x = allocate_array(rows, sizeof *x), *y = allocate_array(rows, sizeof *y);
    uint64_t state = 3;
    for (size_t i = 0; i < rows; i++) {
        x[i] = random_unit(&state);
        row_start[i + 1] = (uint32_t)((i + 1) * per_row);
    }
    for (size_t k = 0; k < rows * per_row; k++) {
        column[k] = (uint32_t)random_below(&state, rows);
        value[k] = random_unit(&state);
    }
    double checksum = 0;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        multiply(rows, row_start, column, value, x, y);
        checksum += y[repetition % rows];
    }
    printf("rows %zu  nonzeros %zu  repetitions %zu  checksum %.10f\n", rows, rows * per_row, repetitions, checksum);
    return 0;
}
