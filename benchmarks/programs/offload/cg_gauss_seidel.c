/* usage: cg_gauss_seidel [POINTS [ITERATIONS [COLOURS]]]
 *
 * Conjugate gradients on a 27-point problem of POINTS x POINTS x POINTS, preconditioned by a symmetric Gauss-Seidel
 * sweep: the operations of the HPCG benchmark (Dongarra, Heroux, Luszczek, IJHPCA 30(1), 2016) on one level. The matrix
 * is in compressed sparse rows; 26 on the diagonal, -1 for each neighbour, so that the solution is 1 everywhere.
 *
 * COLOURS 1: points in their natural order, and each row of a sweep waits for those before it. COLOURS 8: points of one
 * parity of x, y and z have no neighbour among themselves; rows are numbered colour by colour, and a sweep goes over
 * one colour at a time, whose rows may be done in any order.
 */
#include "program.h"

enum { NEIGHBOURS = 27, PARITIES = 8 };

typedef struct {
    size_t rows;
    uint32_t *row_start; /* [rows + 1] */
    uint32_t *column;    /* [row_start[rows]], as `value` */
    double *value;
    double *diagonal; /* [rows] */
} Matrix;

KERNEL static void product(const Matrix *a, const double *x, double *y)
{
    for (size_t i = 0; i < a->rows; i++) {
        double sum = 0;
        for (uint32_t k = a->row_start[i]; k < a->row_start[i + 1]; k++)
            sum += a->value[k] * x[a->column[k]];
        y[i] = sum;
    }
}

KERNEL static void sweep_forward(const Matrix *a, size_t first, size_t end, const double *r, double *z)
{
    for (size_t i = first; i < end; i++) {
        double sum = r[i] + a->diagonal[i] * z[i];
        for (uint32_t k = a->row_start[i]; k < a->row_start[i + 1]; k++)
            sum -= a->value[k] * z[a->column[k]];
        z[i] = sum / a->diagonal[i];
    }
}

KERNEL static void sweep_backward(const Matrix *a, size_t first, size_t end, const double *r, double *z)
{
    for (size_t i = end; i-- > first;) {
        double sum = r[i] + a->diagonal[i] * z[i];
        for (uint32_t k = a->row_start[i]; k < a->row_start[i + 1]; k++)
            sum -= a->value[k] * z[a->column[k]];
        z[i] = sum / a->diagonal[i];
    }
}

KERNEL static double dot(size_t n, const double *x, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y = x + factor y */
KERNEL static void scale_and_add(size_t n, const double *x, double factor, double *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] + factor * y[i];
}

/* y += factor x */
KERNEL static void add_scaled(size_t n, double factor, const double *x, double *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* A loop of its own, rather than a call of the library. */
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif
KERNEL static void clear(size_t n, double *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 0;
}

/* `ends` [colours]: the row after the last of each colour. */
static void precondition(const Matrix *a, size_t colours, const size_t *ends, const double *r, double *z)
{
    clear(a->rows, z);
    for (size_t c = 0; c < colours; c++)
        sweep_forward(a, c ? ends[c - 1] : 0, ends[c], r, z);
    for (size_t c = colours; c-- > 0;)
        sweep_backward(a, c ? ends[c - 1] : 0, ends[c], r, z);
}

/* Numbers the points: `number` [points^3], `place` its inverse, `ends` [colours]. */
static void number_points(size_t points, size_t colours, uint32_t *number, uint32_t *place, size_t *ends)
{
    size_t next = 0;
    for (size_t colour = 0; colour < colours; colour++) {
        for (size_t z = 0; z < points; z++)
            for (size_t y = 0; y < points; y++)
                for (size_t x = 0; x < points; x++)
                    if (colours == 1 || (x & 1) + 2 * (y & 1) + 4 * (z & 1) == colour) {
                        size_t point = (z * points + y) * points + x;
                        number[point] = (uint32_t)next;
                        place[next++] = (uint32_t)point;
                    }
        ends[colour] = next;
    }
}

static void fill_matrix(size_t points, const uint32_t *number, const uint32_t *place, Matrix *a, double *b)
{
    uint32_t k = 0;
    for (size_t row = 0; row < a->rows; row++) {
        size_t x = place[row] % points, y = place[row] / points % points, z = place[row] / (points * points);
        a->row_start[row] = k;
        a->diagonal[row] = 26;
        b[row] = 26;
        for (size_t nz = z ? z - 1 : 0; nz <= z + 1 && nz < points; nz++)
            for (size_t ny = y ? y - 1 : 0; ny <= y + 1 && ny < points; ny++)
                for (size_t nx = x ? x - 1 : 0; nx <= x + 1 && nx < points; nx++) {
                    uint32_t other = number[(nz * points + ny) * points + nx];
                    a->column[k] = other;
                    a->value[k++] = other == row ? 26 : -1;
                    b[row] -= other != row;
                }
    }
    a->row_start[a->rows] = k;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "cg_gauss_seidel [POINTS [ITERATIONS [COLOURS]]]");
    size_t points = number_argument(argc, argv, 1, 32, 2, 1000);
    size_t iterations = number_argument(argc, argv, 2, 20, 1, 1000000);
    size_t colours = number_argument(argc, argv, 3, 1, 1, PARITIES);
    if (colours != 1 && colours != PARITIES) {
        fprintf(stderr, "%zu colours: must be 1 or %d\n", colours, PARITIES);
        return 2;
    }
    size_t rows = points * points * points;
    Matrix a = {
        .rows = rows,
        .row_start = allocate_array(rows + 1, sizeof(uint32_t)),
        .column = allocate_array(rows * NEIGHBOURS, sizeof(uint32_t)),
        .value = allocate_array(rows * NEIGHBOURS, sizeof(double)),
        .diagonal = allocate_array(rows, sizeof(double)),
    };
    uint32_t *number = allocate_array(rows, sizeof *number), *place = allocate_array(rows, sizeof *place);
    double *b = allocate_array(rows, sizeof *b), *x = allocate_array(rows, sizeof *x), *r = b;
    double *z = allocate_array(rows, sizeof *z), *p = allocate_array(rows, sizeof *p);
    double *ap = allocate_array(rows, sizeof *ap);
    size_t ends[PARITIES];
    number_points(points, colours, number, place, ends);
    fill_matrix(points, number, place, &a, b);

    double start = sqrt(dot(rows, b, b)), rho = 0;
    for (size_t iteration = 0; iteration < iterations; iteration++) {
        precondition(&a, colours, ends, r, z);
        double last = rho;
        rho = dot(rows, r, z);
        scale_and_add(rows, z, iteration ? rho / last : 0, p);
        product(&a, p, ap);
        double step = rho / dot(rows, p, ap);
        add_scaled(rows, step, p, x);
        add_scaled(rows, -step, ap, r);
        if (sqrt(dot(rows, r, r)) <= 1e-14 * start)
            break;
    }
    double worst = 0, checksum = 0;
    for (size_t i = 0; i < rows; i++) {
        worst = fmax(worst, fabs(x[i] - 1));
        checksum += x[i];
    }
    printf("rows %zu  nonzeros %" PRIu32 "  residual %.3e  error %.3e  checksum %.9f\n", rows, a.row_start[rows],
           sqrt(dot(rows, r, r)) / start, worst, checksum);
    return 0;
}
