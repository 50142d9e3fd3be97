/* Dense loops: streams, transposes, stencils, products of matrices and vectors, and what looks like them. */
#include <stddef.h>
#include <string.h>

#define N 512
#define AT(m, row, column) ((m)[(size_t)(row) * N + (column)])

struct particle {
    double x, y, z;
    double vx, vy, vz;
    int alive;
};

struct image {
    int width, height;
    unsigned char *pixels;
};

/* Carrington et al., ICS'11, figure 1: line 1 is no stream, lines 3 and 4 are one. */
void figure_1(int n, int c, double *values, const double *constants, double *dest_array, const double *source_array)
{
    double item;
    values[c] = constants[c];                                 /* idiom: none */
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        item = source_array[i];
        dest_array[i] = item;                                 /* idiom: stream */
    }
}

void triad(size_t n, double *restrict a, const double *restrict b, const double *restrict c, double q)
{
    for (size_t i = 0; i < n; ++i)                            /* loop: parallel */
        a[i] = b[i] + q * c[i];                               /* idiom: stream */
}

void fills(int n, float *a, int *b)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[i] = 0.0f;                                          /* idiom: stream */
    for (int i = n - 1; i >= 0; i--)                          /* loop: parallel */
        b[i] = i * i;                                         /* idiom: stream */
    memset(b, 0, sizeof *b * (size_t)n);                      /* idiom: stream */
    memcpy(a, b, (size_t)n * sizeof(float));                  /* idiom: stream */
}

void strided(int n, int stride, double *a, const double *b)
{
    for (int i = 0; i < n; i += 4)                            /* loop: parallel */
        a[i] = 2.0 * b[i];                                    /* idiom: stream */
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[i * stride] = b[i * stride];                        /* idiom: stream */
}

void drift(int n, struct particle *p, double dt)
{
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        p[i].x += dt * p[i].vx;                               /* idiom: stream */
        p[i].y += dt * p[i].vy;                               /* idiom: stream */
        p[i].z += dt * p[i].vz;                               /* idiom: stream */
    }
}

void clamp_members(struct particle *first, const struct particle *last)
{
    for (; first != last; ++first)                            /* loop: parallel */
        if (first->alive)
            first->vx = first->vx > 1.0 ? 1.0 : first->vx;    /* idiom: stream */
}

void brighten(struct image *im, int amount)
{
    for (int y = 0; y < im->height; y++)                      /* loop: parallel */
        for (int x = 0; x < im->width; x++) {                 /* loop: parallel */
            int v = im->pixels[y * im->width + x] + amount;
            im->pixels[y * im->width + x] = (unsigned char)(v > 255 ? 255 : v); /* idiom: stream */
        }
}

void same_place(int n, int c, double *a, const double *b)
{
    for (int i = 0; i < n; i++)                               /* loop: unjudged */
        a[c] = b[c];                                          /* idiom: none */
}

void shift_left(int n, double *a)
{
    for (int i = 0; i < n - 1; i++)                           /* loop: recurrence */
        a[i] = a[i + 1];                                      /* idiom: stream */
}

void disjoint_halves(int n, double *a)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[i + n] = 0.5 * a[i];                                /* idiom: stream */
}

void column_sums(int n, double sums[N], const double m[][N])
{
    for (int i = 0; i < n; i++)                               /* loop: reduction */
        for (int j = 0; j < N; j++)                           /* loop: parallel */
            sums[j] += m[i][j];                               /* idiom: stream */
}

void rank_one(int n, double (*a)[N], const double *x, const double *y)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        for (int j = 0; j < N; j++)                           /* loop: parallel */
            a[i][j] += x[i] * y[j];                           /* idiom: stream */
}

/* Transposes. */

void transpose_rows(const double m[N][N], double t[N][N])
{
    for (int i = 0; i < N; i++)                               /* loop: parallel */
        for (int j = 0; j < N; j++)                           /* loop: parallel */
            t[j][i] = m[i][j];                                /* idiom: transpose */
}

void transpose_flat(int rows, int columns, const float *in, float *out)
{
    for (int r = 0; r < rows; ++r)                            /* loop: parallel */
        for (int c = 0; c < columns; ++c) {                   /* loop: parallel */
            const float kept = in[r * columns + c];
            out[c * rows + r] = kept;                         /* idiom: transpose */
        }
}

void transpose_in_place(double *m)
{
    for (int i = 1; i < N; i++)                               /* loop: parallel */
        for (int j = 0; j < i; j++) {                         /* loop: parallel */
            double kept = AT(m, i, j);
            AT(m, i, j) = AT(m, j, i);                        /* idiom: transpose */
            AT(m, j, i) = kept;                               /* idiom: transpose */
        }
}

void transpose_tiled(double a[N][N], double b[N][N])
{
    for (int ii = 0; ii < N; ii += 32)                        /* loop: parallel */
        for (int jj = 0; jj < N; jj += 32)                    /* loop: parallel */
            for (int i = ii; i < ii + 32; i++)                /* loop: parallel */
                for (int j = jj; j < jj + 32; j++)            /* loop: parallel */
                    a[i][j] = b[j][i];                        /* idiom: transpose */
}

void not_transposed(double a[N][N], double b[N][N])
{
    for (int j = 0; j < N; j++)                               /* loop: parallel */
        for (int i = 0; i < N; i++)                           /* loop: parallel */
            a[i][j] = b[i][j];                                /* idiom: stream */
}

/* Stencils. */

void three_points(int n, double *a, const double *b)
{
    for (int i = 1; i < n - 1; i++)                           /* loop: parallel */
        a[i] = (b[i - 1] + b[i] + b[i + 1]) / 3;              /* idiom: stencil */
}

void upwind(int n, double *flux, const double *u)
{
    for (int i = 0; i + 1 < n; i++)                           /* loop: parallel */
        flux[i] = u[i + 1] - u[i];                            /* idiom: stencil */
}

void jacobi(int steps, double u[N][N], double v[N][N])
{
    for (int t = 0; t < steps; t++) {                         /* loop: recurrence */
        for (int i = 1; i < N - 1; i++)                       /* loop: parallel */
            for (int j = 1; j < N - 1; j++) {                 /* loop: parallel */
                double across = u[i][j - 1] + u[i][j + 1];
                double along = u[i - 1][j] + u[i + 1][j];
                v[i][j] = 0.25 * (across + along);            /* idiom: stencil */
            }
        for (int i = 1; i < N - 1; i++)                       /* loop: parallel */
            for (int j = 1; j < N - 1; j++)                   /* loop: parallel */
                u[i][j] = v[i][j];                            /* idiom: stream */
    }
}

void gauss_seidel(double u[N][N], const double f[N][N])
{
    for (int i = 1; i < N - 1; i++)                           /* loop: recurrence */
        for (int j = 1; j < N - 1; j++)                       /* loop: recurrence */
            u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]); /* idiom: stencil (recurrence) */
}

void blur_flat(int w, int h, const unsigned char *in, unsigned char *out)
{
    for (int y = 1; y < h - 1; y++)                           /* loop: parallel */
        for (int x = 1; x < w - 1; x++) {                     /* loop: parallel */
            const unsigned char *p = in + y * w + x;
            out[y * w + x] = (unsigned char)((p[-1] + p[0] + p[1] + p[-w] + p[w]) / 5); /* idiom: stencil */
        }
}

void no_neighbour(int n, double *a, const double *b)
{
    for (int i = 0; i < n - 1; i++)                           /* loop: parallel */
        a[i] = b[i + 1] * b[i + 1];                           /* idiom: stream */
}

/* Products. */

void matrix_product(int n, double c[n][n], double a[n][n], double b[n][n])
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        for (int j = 0; j < n; j++) {                         /* loop: parallel */
            c[i][j] = 0;                                      /* idiom: stream */
            for (int k = 0; k < n; k++)                       /* loop: reduction */
                c[i][j] += a[i][k] * b[k][j];                 /* idiom: matrix-product (reduction) */
        }
}

void gemm_flat(int m, int n, int k, double alpha, const double *a, const double *b, double *c)
{
    for (int i = 0; i < m; ++i)                               /* loop: parallel */
        for (int p = 0; p < k; ++p) {                         /* loop: reduction */
            const double factor = alpha * a[i * k + p];
            for (int j = 0; j < n; ++j)                       /* loop: parallel */
                c[i * n + j] += factor * b[p * n + j];        /* idiom: matrix-product */
        }
}

void product_with_transposed(float c[N][N], float a[N][N], float b[N][N])
{
    for (int i = 0; i < N; i++)                               /* loop: parallel */
        for (int j = 0; j < N; j++) {                         /* loop: parallel */
            float total = 0.0f;
            const float *row = a[i], *column = b[j];
            for (int k = 0; k < N; k++)                       /* loop: reduction */
                total += row[k] * column[k];                  /* idiom: matrix-product (reduction) */
            c[i][j] = total;                                  /* idiom: none */
        }
}

void no_matrix_product(double c[N][N], double a[N][N], double b[N][N])
{
    for (int i = 0; i < N; i++)                               /* loop: parallel */
        for (int j = 0; j < N; j++)                           /* loop: parallel */
            c[i][j] += a[i][j] * b[i][j];                     /* idiom: stream */
}

void gemv(int m, int n, const double *a, const double *x, double *y)
{
    for (int i = 0; i < m; i++) {                             /* loop: parallel */
        double total = 0;
        for (int j = 0; j < n; j++)                           /* loop: reduction */
            total += a[i * n + j] * x[j];                     /* idiom: matrix-vector-product (reduction) */
        y[i] = total;                                         /* idiom: none */
    }
}

void gemv_columns(int m, double *y, const double a[][N], const double x[N])
{
    for (int j = 0; j < N; j++)                               /* loop: reduction */
        for (int i = 0; i < m; i++)                           /* loop: parallel */
            y[i] += x[j] * a[i][j];                           /* idiom: matrix-vector-product */
}

void gemv_pointers(int m, int n, const double *a, const double *x, double *y)
{
    while (m-- > 0) {                                         /* loop: parallel */
        const double *v = x;
        double sum = 0.0;
        for (int j = n; j; --j)                               /* loop: reduction */
            sum += *a++ * *v++;                               /* idiom: matrix-vector-product (reduction) */
        *y++ = sum;                                           /* idiom: none */
    }
}

void no_gemv(int n, double *y, double a[][N], const double *x)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        for (int j = 0; j < N; j++)                           /* loop: reduction */
            y[i] += a[i][j] * x[i];                           /* idiom: reduction */
}

void eliminate(double a[N][N])
{
    for (int k = 0; k < N - 1; k++)                           /* loop: recurrence */
        for (int i = k + 1; i < N; i++) {                     /* loop: parallel */
            double factor = a[i][k] / a[k][k];
            for (int j = k + 1; j < N; j++)                   /* loop: parallel */
                a[i][j] -= factor * a[k][j];                  /* idiom: stream */
        }
}
