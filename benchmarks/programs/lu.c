/* usage: lu [ROWS [BLOCK]]
 *
 * A dense linear system: LU factorisation with partial pivoting, BLOCK columns at a time, and the solution by
 * substitution. The residual is checked.
 */
#include "program.h"

static void swap_rows(size_t n, double *a, size_t i, size_t j)
{
    for (size_t k = 0; k < n && i != j; k++) {
        double keep = a[i * n + k];
        a[i * n + k] = a[j * n + k];
        a[j * n + k] = keep;
    }
}

/* Factorises columns [first, end), rows from `first` on; whole rows are exchanged. */
KERNEL static void factor_panel(size_t n, double *a, double *b, size_t first, size_t end)
{
    for (size_t k = first; k < end; k++) {
        size_t pivot = k;
        for (size_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k]))
                pivot = i;
        swap_rows(n, a, k, pivot);
        double keep = b[k];
        b[k] = b[pivot];
        b[pivot] = keep;
        for (size_t i = k + 1; i < n; i++) {
            double factor = a[i * n + k] /= a[k * n + k];
            for (size_t j = k + 1; j < end; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
}

/* Rows [first, end) of U right of the panel: the panel's unit lower triangle is solved for them. */
KERNEL static void solve_row_block(size_t n, double *a, size_t first, size_t end)
{
    for (size_t k = first; k < end; k++)
        for (size_t i = k + 1; i < end; i++) {
            double factor = a[i * n + k];
            for (size_t j = end; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
}

/* What is below and right of the panel less the product of the two. */
KERNEL static void update_rest(size_t n, double *a, size_t first, size_t end)
{
    for (size_t i = end; i < n; i++)
        for (size_t k = first; k < end; k++) {
            double factor = a[i * n + k];
            for (size_t j = end; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
}

KERNEL static void substitute(size_t n, const double *a, double *b)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            b[i] -= a[i * n + j] * b[j];
    for (size_t i = n; i-- > 0;) {
        for (size_t j = i + 1; j < n; j++)
            b[i] -= a[i * n + j] * b[j];
        b[i] /= a[i * n + i];
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "lu [ROWS [BLOCK]]");
    size_t n = number_argument(argc, argv, 1, 1201, 1, 8000);
    size_t block = number_argument(argc, argv, 2, 37, 1, 8000);
    double *a = allocate_array(n * n, sizeof *a), *original = allocate_array(n * n, sizeof *original);
    double *x = allocate_array(n, sizeof *x), *b = allocate_array(n, sizeof *b);
    uint64_t state = 13;
    for (size_t k = 0; k < n * n; k++)
        a[k] = original[k] = random_unit(&state) - 0.5;
    for (size_t i = 0; i < n; i++)
        x[i] = b[i] = random_unit(&state);
    for (size_t first = 0; first < n; first += block) {
        size_t end = first + block < n ? first + block : n;
        factor_panel(n, a, x, first, end);
        solve_row_block(n, a, first, end);
        update_rest(n, a, first, end);
    }
    substitute(n, a, x);
    double worst = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        double residual = b[i];
        for (size_t j = 0; j < n; j++)
            residual -= original[i * n + j] * x[j];
        worst = fmax(worst, fabs(residual));
        sum += x[i];
    }
    printf("rows %zu  block %zu  residual %s  checksum %.6f\n", n, block, worst < 1e-7 ? "small" : "large", sum);
    return worst >= 1e-7;
}
