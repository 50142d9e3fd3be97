/* usage: formats KERNEL [N [REPETITIONS]]
 *
 * Idioms that none of the other programs has: sparse matrices in coordinates (coo) and in padded rows (ell), a table
 * that is looked up (table), values handed on through an array (filter), and pairs that change places (network).
 */
#include "../program.h"

enum { PER_ROW = 5, TABLE = 64 };

KERNEL static double coo(size_t n, size_t repetitions)
{
    uint64_t state = 3;
    size_t nonzeros = n * PER_ROW;
    uint32_t *row = allocate_array(nonzeros, sizeof *row), *column = allocate_array(nonzeros, sizeof *column);
    double *value = allocate_array(nonzeros, sizeof *value), *x = allocate_array(n, sizeof *x);
    double *y = allocate_array(n, sizeof *y);
    for (size_t k = 0; k < nonzeros; k++) {
        row[k] = (uint32_t)(k / PER_ROW);
        column[k] = (uint32_t)random_below(&state, n);
        value[k] = random_unit(&state);
    }
    for (size_t i = 0; i < n; i++)
        x[i] = random_unit(&state);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t k = 0; k < nonzeros; k++)
            y[row[k]] += value[k] * x[column[k]];
    return y[n / 2];
}

KERNEL static double ell(size_t n, size_t repetitions)
{
    uint64_t state = 4;
    uint32_t *column = allocate_array(n * PER_ROW, sizeof *column);
    double *value = allocate_array(n * PER_ROW, sizeof *value), *x = allocate_array(n, sizeof *x);
    double *y = allocate_array(n, sizeof *y);
    for (size_t k = 0; k < n * PER_ROW; k++) {
        column[k] = (uint32_t)random_below(&state, n);
        value[k] = random_unit(&state);
    }
    for (size_t i = 0; i < n; i++)
        x[i] = random_unit(&state);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t k = 0; k < PER_ROW; k++)
                sum += value[i * PER_ROW + k] * x[column[i * PER_ROW + k]];
            y[i] = sum;
        }
    return y[n / 2];
}

KERNEL static double table(size_t n, size_t repetitions)
{
    uint64_t state = 5;
    static double curve[TABLE];
    uint8_t *in = allocate_array(n, sizeof *in);
    double *out = allocate_array(n, sizeof *out);
    for (size_t i = 0; i < TABLE; i++)
        curve[i] = 1.0 / (double)(i + 1);
    for (size_t i = 0; i < n; i++)
        in[i] = (uint8_t)random_u64(&state);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t i = 0; i < n; i++)
            out[i] = curve[in[i] & (TABLE - 1)];
    return out[n / 2];
}

KERNEL static double filter(size_t n, size_t repetitions)
{
    uint64_t state = 6;
    double *in = allocate_array(n, sizeof *in), *out = allocate_array(n, sizeof *out);
    for (size_t i = 0; i < n; i++)
        in[i] = random_unit(&state);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t i = 1; i < n; i++)
            out[i] = 0.75 * out[i - 1] + 0.25 * in[i];
    return out[n - 1];
}

KERNEL static double network(size_t n, size_t repetitions)
{
    uint64_t state = 7;
    double *a = allocate_array(n, sizeof *a);
    for (size_t i = 0; i < n; i++)
        a[i] = random_unit(&state);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t i = r & 1; i + 1 < n; i += 2)
            if (a[i] > a[i + 1]) {
                double larger = a[i];
                a[i] = a[i + 1];
                a[i + 1] = larger;
            }
    return a[n / 2];
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double (*run)(size_t, size_t);
    } kernels[] = {{"coo", coo}, {"ell", ell}, {"table", table}, {"filter", filter}, {"network", network}};
    check_usage(argc, argv, 3, "formats KERNEL [N [REPETITIONS]]");
    size_t n = number_argument(argc, argv, 2, 1000, 2, 1000000);
    size_t repetitions = number_argument(argc, argv, 3, 4, 1, 1000000);
    for (size_t i = 0; argc > 1 && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(argv[1], kernels[i].name)) {
            printf("checksum %g\n", kernels[i].run(n, repetitions));
            return 0;
        }
    fprintf(stderr, "KERNEL must be coo, ell, table, filter or network\n");
    return 2;
}
