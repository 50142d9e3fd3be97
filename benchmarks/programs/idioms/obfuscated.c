/* The same idioms in other words: pointers that move, macros, gotos, aliases, temporaries. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define FOR(i, n) for (int i = 0; (i) < (n); ++(i))
#define ROW(m, i) ((m)->cells + (size_t)(i) * (m)->columns)
#define PUT(a, i, v) ((a)[(i)] = (v))
#define UPDATE(h, k) do { int *slot_ = &(h)[k]; *slot_ += 1; } while (0)

struct matrix {
    int rows, columns;
    double *cells;
};

struct field {
    double now[1024], then[1024];
};

union word {
    uint32_t whole;
    float real;
};

void duffs_cousin(char *to, const char *from, int n)
{
    if (n > 0)
        do {                                                  /* loop: parallel */
            *to++ = *from++;                                  /* idiom: stream */
        } while (--n > 0);
}

void copy_text(char *to, const char *from)
{
    while ((*to++ = *from++) != '\0') {                       /* loop: unknown, idiom: stream */
    }
}

void walking(double *a, const double *b, int n)
{
    const double *end = b + n;
    for (double *p = a; b < end; p++, b++) {                  /* loop: parallel */
        double t = *b;
        t *= 2;
        *p = t;                                               /* idiom: stream */
    }
}

void backwards(int n, double *a, const double *b)
{
    double *p = a + n;
    const double *q = b + n;
    while (p > a)                                             /* loop: parallel */
        *--p = *--q;                                          /* idiom: stream */
}

void macros(int n, double *a, const double *b, const int *at)
{
    FOR(i, n) PUT(a, i, b[i]);                                /* loop: parallel, idiom: stream */
    FOR(i, n) PUT(a, i, b[at[i]]);                            /* loop: parallel, idiom: gather */
    FOR(i, n) PUT(a, at[i], b[i]);                            /* loop: unknown, idiom: scatter */
}

void counted(int n, int *h, const short *keys)
{
    FOR(i, n) UPDATE(h, keys[i]);                             /* loop: reduction, idiom: gather-modify-scatter */
}

void shifted_alias(int n, double *a)
{
    double *ahead = a + 1;
    for (int i = 0; i < n; i++)                               /* loop: recurrence */
        ahead[i] = 0.5 * a[i];                                /* idiom: recurrence */
}

void same_alias(int n, double *a, double *b)
{
    double *alias = a;
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        alias[i] = a[i] + b[i];                               /* idiom: stream */
}

void relative(int n, struct field *f)
{
    double *u = f->now, *v = f->then;
    for (int i = 1; i < n - 1; i++)                           /* loop: parallel */
        v[i] = u[i + 1] - 2 * u[i] + u[i - 1];                /* idiom: stencil */
}

void swapping(int steps, int n, double *a, double *b)
{
    for (int t = 0; t < steps; t++) {                         /* loop: recurrence */
        for (int i = 1; i < n - 1; i++)                       /* loop: parallel */
            b[i] = a[i - 1] + a[i + 1];                       /* idiom: stencil */
        double *kept = a;
        a = b;
        b = kept;
    }
}

void sliding(int n, double *out, const double *in)
{
    double left = in[0], here = in[1];
    for (int i = 1; i < n - 1; i++) {                         /* loop: unjudged */
        double right = in[i + 1];
        out[i] = left + here + right;                         /* idiom: stencil */
        left = here;
        here = right;
    }
}

void with_goto(int n, double *a, const double *b)
{
    int i = 0;
again:                                                        /* loop: parallel */
    if (i >= n)
        return;
    a[i] = b[i];                                              /* idiom: stream */
    i++;
    goto again;
}

void endless(int n, double *a, const double *b)
{
    int i = 0;
    for (;;) {                                                /* loop: parallel */
        if (i == n)
            break;
        a[i] = -b[i];                                         /* idiom: stream */
        i += 1;
    }
}

void scaled_rows(struct matrix *m, const double *factor)
{
    for (int i = 0; i < m->rows; i++) {                       /* loop: parallel */
        double *row = ROW(m, i);
        for (int j = 0; j < m->columns; j++)                  /* loop: parallel */
            row[j] *= factor[i];                              /* idiom: stream */
    }
}

void product(const struct matrix *a, const struct matrix *x, struct matrix *y)
{
    for (int i = 0; i < a->rows; i++)                         /* loop: parallel */
        for (int j = 0; j < a->columns; j++)                  /* loop: reduction */
            y->cells[i] += ROW(a, i)[j] * x->cells[j];        /* idiom: matrix-vector-product (reduction) */
}

void row_pointers(int n, double **a, double **b, double **c)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        for (int k = 0; k < n; k++)                           /* loop: reduction */
            for (int j = 0; j < n; j++)                       /* loop: parallel */
                c[i][j] += a[i][k] * b[k][j];                 /* idiom: matrix-product */
}

void transposed_pointers(int n, double **a, double **b)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        for (int j = 0; j < n; j++)                           /* loop: parallel */
            b[j][i] = a[i][j];                                /* idiom: transpose */
}

void bits(int n, const union word *w, float *out)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        out[i] = w[i].real;                                   /* idiom: stream */
}

void casts(size_t bytes, void *to, const void *from)
{
    for (size_t i = 0; i < bytes; i++)                        /* loop: parallel */
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i]; /* idiom: stream */
}

void cast_index(int n, const double *position, double *density)
{
    for (int i = 0; i < n; i++) {                             /* loop: reduction */
        size_t cell = (size_t)position[i];
        density[cell] += 1.0;                                 /* idiom: gather-modify-scatter */
    }
}

void address_of_element(int n, double *a, const int *at, const double *b)
{
    for (int i = 0; i < n; i++) {                             /* loop: unknown */
        double *target = a + at[i];
        *target = b[i];                                       /* idiom: scatter */
    }
}

double ternary_total(int n, const double *a, const double *b)
{
    double s = 0;
    for (int i = 0; i < n; i++)                               /* loop: reduction */
        s = a[i] > b[i] ? s + a[i] : s;                       /* idiom: reduction */
    return s;
}

double minus_minus(int n, const double *a)
{
    double s = 0;
    while (n --> 0)                                           /* loop: reduction */
        s -= -a[n];                                           /* idiom: reduction */
    return s;
}

double memory_total(int n, const double *a, double *out)
{
    *out = 0;
    for (int i = 0; i < n; i++)                               /* loop: reduction */
        *out += a[i];                                         /* idiom: reduction */
    return *out;
}

void comma(int n, double *a, double *b)
{
    for (int i = 0, j = n; i < n; i++, j++)                   /* loop: parallel */
        a[i] = b[i], b[j] = 0;                                /* idiom: stream */
}

void guarded_store(int n, int *out, const int *a)
{
    for (int i = 0, k = 0; i < n; ++i) {                      /* loop: recurrence */
        int take = a[i] % 2;
        if (take != 0) {
            int place = k;
            out[place] = a[i];                                /* idiom: compaction */
            k = place + 1;
        }
    }
}

int chase_table(const int table[], int from, int steps)
{
    int here = from;
    do {                                                      /* loop: recurrence */
        int next = table[here];
        here = next;                                          /* idiom: pointer-chase */
    } while (--steps);
    return here;
}

void wrapped(int n, double *ring, const double *in)
{
    for (int i = 0; i < n; i++)                               /* loop: unjudged */
        ring[i % 64] = in[i];                                 /* idiom: none */
}

int compare(const void *one, const void *other);

void calls(int n, int *a)
{
    for (int i = 0; i < n; i++)                               /* loop: unknown */
        a[i] = rand();                                        /* idiom: stream */
    qsort(a, (size_t)n, sizeof *a, compare);                  /* idiom: none */
}

void chosen(int n, double *a, const double *b, const char *mode)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        switch (mode[i]) {
        case 'a':
            a[i] = b[i];                                      /* idiom: stream */
            break;
        case 'b':
            a[i] = -b[i];                                     /* idiom: stream */
            break;
        default:
            break;
        }
}

void threads(int n, int *h, const int *k, double *a)
{
#pragma omp parallel for
    for (int i = 0; i < n; i++) {                             /* loop: reduction */
#pragma omp atomic
        h[k[i]]++;                                            /* idiom: gather-modify-scatter */
    }
#pragma omp simd
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        a[k[i]] = 1.0;                                        /* idiom: scatter */
}

void private_array(int n, double (*out)[3], double (*in)[3])
{
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        double t[3];
        for (int d = 0; d < 3; d++)                           /* loop: parallel */
            t[d] = 2 * in[i][d];                              /* idiom: stream */
        for (int d = 0; d < 3; d++)                           /* loop: parallel */
            out[i][d] = t[d] + t[0];                          /* idiom: stream */
    }
}

void triangular(int n, double *x, double (*l)[64])
{
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        double s = x[i];
        for (int j = 0; j < i; j++)                           /* loop: reduction */
            s -= l[i][j] * x[j];                              /* idiom: reduction */
        x[i] = s / l[i][i];                                   /* idiom: none */
    }
}
