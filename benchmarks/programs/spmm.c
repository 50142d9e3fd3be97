/* usage: spmm [ROWS [NONZEROS_PER_ROW [VECTORS [REPETITIONS]]]]
 *
 * Sparse matrix times a block of dense vectors: rows compressed, nonzeros mostly near the diagonal and some anywhere, row
 * lengths from none to twice the mean.
 */
#include "program.h"

struct matrix {
    size_t rows;
    uint32_t *row_start, *column;
    double *value;
};

KERNEL static struct matrix generate(size_t rows, size_t per_row)
{
    struct matrix a = {.rows = rows};
    uint64_t state = 21;
    a.row_start = allocate_array(rows + 1, sizeof *a.row_start);
    for (size_t i = 0; i < rows; i++)
        a.row_start[i + 1] = (uint32_t)(a.row_start[i] + random_below(&state, 2 * per_row + 1));
    a.column = allocate_array(a.row_start[rows], sizeof *a.column);
    a.value = allocate_array(a.row_start[rows], sizeof *a.value);
    for (size_t i = 0; i < rows; i++)
        for (uint32_t k = a.row_start[i]; k < a.row_start[i + 1]; k++) {
            size_t near = (i + random_below(&state, 301)) % rows;
            a.column[k] = (uint32_t)(random_below(&state, 5) ? near : random_below(&state, rows));
            a.value[k] = random_unit(&state);
        }
    return a;
}

KERNEL static void multiply(const struct matrix *a, size_t vectors, const double *restrict x, double *restrict y)
{
    for (size_t i = 0; i < a->rows; i++) {
        double *out = y + i * vectors;
        for (size_t v = 0; v < vectors; v++)
            out[v] = 0;
        for (uint32_t k = a->row_start[i]; k < a->row_start[i + 1]; k++) {
            const double *in = x + a->column[k] * vectors;
            for (size_t v = 0; v < vectors; v++)
                out[v] += a->value[k] * in[v];
        }
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 4, "spmm [ROWS [NONZEROS_PER_ROW [VECTORS [REPETITIONS]]]]");
    size_t rows = number_argument(argc, argv, 1, 61000, 1, 10000000);
    size_t per_row = number_argument(argc, argv, 2, 13, 1, 200);
    size_t vectors = number_argument(argc, argv, 3, 11, 1, 1000);
    size_t repetitions = number_argument(argc, argv, 4, 33, 1, 1000000);
    struct matrix a = generate(rows, per_row);
    double *x = allocate_array(rows * vectors, sizeof *x), *y = allocate_array(rows * vectors, sizeof *y);
    uint64_t state = 22;
    for (size_t k = 0; k < rows * vectors; k++)
        x[k] = random_unit(&state);
    double checksum = 0;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        multiply(&a, vectors, x, y);
        checksum += y[repetition * 7919 % (rows * vectors)];
    }
    printf("rows %zu  nonzeros %" PRIu32 "  vectors %zu  checksum %.10f\n", rows, a.row_start[rows], vectors, checksum);
    return 0;
}
