/* usage: sparse_product [FORMAT [BITS [X [Y [Z]]]]]
 *
 * Sparse matrix times vector, y = A x, ten times, 8-byte values and 4-byte indices. FORMAT 0: compressed sparse rows; 1:
 * ELLPACK, whose columns are contiguous. BITS 0: the matrix of a grid of X x Y x Z points, of 5 points where Z is 1, of 7
 * where it is not. Else that of the undirected de Bruijn graph of BITS bits: node i has edges to 2i and 2i + 1.
 */
#include "program.h"

enum { MOST_PER_ROW = 7, REPETITIONS = 10 };

KERNEL static void product_rows(size_t rows, const uint32_t *row_start, const uint32_t *column, const double *value,
                                const double *x, double *y)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (uint32_t k = row_start[i]; k < row_start[i + 1]; k++)
            sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

KERNEL static void product_columns(size_t rows, size_t width, const uint32_t *column, const double *value,
                                   const double *x, double *y)
{
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < width; k++)
            sum += value[k * rows + i] * x[column[k * rows + i]];
        y[i] = sum;
    }
}

/* Columns of a row of the grid's matrix, ascending; returns how many. */
static size_t grid_row(size_t row, size_t nx, size_t ny, size_t nz, uint32_t *columns)
{
    size_t x = row % nx, y = row / nx % ny, z = row / (nx * ny), count = 0;
    if (z > 0)
        columns[count++] = (uint32_t)(row - nx * ny);
    if (y > 0)
        columns[count++] = (uint32_t)(row - nx);
    if (x > 0)
        columns[count++] = (uint32_t)(row - 1);
    columns[count++] = (uint32_t)row;
    if (x + 1 < nx)
        columns[count++] = (uint32_t)(row + 1);
    if (y + 1 < ny)
        columns[count++] = (uint32_t)(row + nx);
    if (z + 1 < nz)
        columns[count++] = (uint32_t)(row + nx * ny);
    return count;
}

/* The same of the graph's matrix: neighbours both ways, each once, without the node itself. */
static size_t graph_row(size_t row, size_t rows, uint32_t *columns)
{
    size_t found[4] = {row >> 1, (row >> 1) + rows / 2, 2 * row % rows, (2 * row + 1) % rows}, count = 0;
    for (size_t i = 0; i < 4; i++) {
        size_t place = count;
        while (place > 0 && columns[place - 1] > found[i])
            place--;
        if (found[i] == row || (place > 0 && columns[place - 1] == found[i]))
            continue;
        memmove(columns + place + 1, columns + place, (count - place) * sizeof *columns);
        columns[place] = (uint32_t)found[i];
        count++;
    }
    return count;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 5, "sparse_product [FORMAT [BITS [X [Y [Z]]]]]");
    size_t format = number_argument(argc, argv, 1, 0, 0, 1);
    size_t bits = number_argument(argc, argv, 2, 0, 0, 30);
    size_t nx = number_argument(argc, argv, 3, 200, 1, 100000);
    size_t ny = number_argument(argc, argv, 4, 200, 1, 100000);
    size_t nz = number_argument(argc, argv, 5, 1, 1, 100000);
    size_t rows = bits ? (size_t)1 << bits : nx * ny * nz, width = bits ? 4 : nz > 1 ? MOST_PER_ROW : 5;
    if (bits == 1 || bits == 2)
        width = rows;
    uint32_t *row_start = allocate_array(rows + 1, sizeof *row_start);
    uint32_t *column = allocate_array(rows * width, sizeof *column);
    double *value = allocate_array(rows * width, sizeof *value);
    double *x = allocate_array(rows, sizeof *x), *y = allocate_array(rows, sizeof *y);
    uint32_t nonzeros = 0;
    uint64_t state = 5;
    for (size_t i = 0; i < rows; i++) {
        uint32_t columns[MOST_PER_ROW];
        size_t count = bits ? graph_row(i, rows, columns) : grid_row(i, nx, ny, nz, columns);
        row_start[i] = nonzeros;
        for (size_t k = 0; k < count; k++) {
            size_t place = format ? k * rows + i : nonzeros + k;
            column[place] = columns[k];
            value[place] = columns[k] == i ? 4.0 : -1.0;
        }
        for (size_t k = count; format && k < width; k++)
            column[k * rows + i] = (uint32_t)i; /* of value 0 */
        nonzeros += (uint32_t)count;
        x[i] = random_unit(&state);
    }
    row_start[rows] = nonzeros;
    double checksum = 0;
    for (size_t repetition = 0; repetition < REPETITIONS; repetition++) {
        if (format)
            product_columns(rows, width, column, value, x, y);
        else
            product_rows(rows, row_start, column, value, x, y);
        checksum += y[repetition * 97 % rows];
    }
    printf("rows %zu  nonzeros %" PRIu32 "  checksum %.9f\n", rows, nonzeros, checksum);
    return 0;
}
