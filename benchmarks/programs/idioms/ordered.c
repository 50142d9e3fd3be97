/* Reductions, scans, recurrences, sorts and butterflies, and what looks like them. */
#include <complex.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SWAP(type, x, y) do { type kept_ = (x); (x) = (y); (y) = kept_; } while (0)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

struct sample {
    double value, weight;
};

/* Reductions. */

double dot(size_t n, const double *x, const double *y)
{
    double s = 0;
    for (size_t i = 0; i < n; i++)                            /* loop: reduction */
        s += x[i] * y[i];                                     /* idiom: reduction */
    return s;
}

void extremes(int n, const float *a, float *low, float *high)
{
    float lo = a[0], hi = a[0];
    for (int i = 1; i < n; i++) {                             /* loop: reduction */
        if (a[i] < lo)
            lo = a[i];                                        /* idiom: reduction */
        hi = hi > a[i] ? hi : a[i];                           /* idiom: reduction */
    }
    *low = lo;
    *high = hi;
}

int where_largest(int n, const double *a)
{
    int at = 0;
    double best = a[0];
    for (int i = 1; i < n; i++)                               /* loop: reduction */
        if (a[i] > best) {
            best = a[i];                                      /* idiom: reduction */
            at = i;
        }
    return at;
}

uint32_t parity(int n, const uint32_t *words)
{
    uint32_t all = 0, any = 0, odd = 0;
    for (int i = 0; i < n; i++) {                             /* loop: reduction */
        all &= words[i];                                      /* idiom: reduction */
        any |= words[i];                                      /* idiom: reduction */
        odd ^= words[i];                                      /* idiom: reduction */
    }
    return all | any | odd;
}

int how_many(int n, const int *a, int key)
{
    int found = 0;
    for (int i = n; i-- > 0;)                                 /* loop: reduction */
        if (a[i] == key)
            found++;                                          /* idiom: reduction */
    for (int i = 0; i < n; i++)                               /* loop: reduction */
        found += a[i] < 0;                                    /* idiom: reduction */
    return found;
}

bool contains(int n, const int *a, int key)
{
    bool there = false;
    for (int i = 0; i < n; i++)                               /* loop: reduction */
        there = there || a[i] == key;                         /* idiom: reduction */
    return there;
}

double weighted_mean(int n, const struct sample *s)
{
    double total = 0, weight = 0;
    const struct sample *end = s + n;
    while (s != end) {                                        /* loop: reduction */
        total += s->value * s->weight;                        /* idiom: reduction */
        weight += s->weight;                                  /* idiom: reduction */
        s++;
    }
    return total / weight;
}

double norm(int n, const double complex *z)
{
    double s = 0;
    for (int i = 0; i < n; i++)                               /* loop: reduction */
        s = s + creal(z[i]) * creal(z[i]) + cimag(z[i]) * cimag(z[i]); /* idiom: reduction */
    return sqrt(s);
}

void row_sums(int rows, int columns, const double *m, double *sum)
{
    for (int r = 0; r < rows; r++) {                          /* loop: parallel */
        sum[r] = 0;                                           /* idiom: stream */
        for (int c = 0; c < columns; c++)                     /* loop: reduction */
            sum[r] += m[r * columns + c];                     /* idiom: reduction */
    }
}

double harmonic(int n)
{
    double s = 0;
    for (int i = 1; i <= n; i++)                              /* loop: reduction */
        s += 1.0 / i;                                         /* idiom: none */
    return s;
}

double last_element(int n, const double *a)
{
    double last = 0;
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        last = a[i];                                          /* idiom: none */
    return last;
}

int first_match(int n, const int *a, int key)
{
    for (int i = 0; i < n; i++)                               /* loop: unknown */
        if (a[i] == key)
            return i;
    return -1;
}

double unrolled(int n, const double *a)
{
    double s0 = 0, s1 = 0;
    for (int i = 0; i + 1 < n; i += 2) {                      /* loop: reduction */
        s0 += a[i];                                           /* idiom: reduction */
        s1 += a[i + 1];                                       /* idiom: reduction */
    }
    return s0 + s1;
}

/* Scans. */

void running_total(int n, double *out, const double *in)
{
    double total = 0;
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        total += in[i];                                       /* idiom: prefix-scan */
        out[i] = total;
    }
}

void exclusive(int n, int *start, const int *length)
{
    int at = 0;
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        start[i] = at;                                        /* idiom: prefix-scan */
        at += length[i];
    }
    start[n] = at;
}

void row_pointers(int rows, int *start, const int *length)
{
    start[0] = 0;
    for (int r = 0; r < rows; r++)                            /* loop: recurrence */
        start[r + 1] = start[r] + length[r];                  /* idiom: prefix-scan */
}

void in_place(size_t n, unsigned *count)
{
    for (size_t i = 1; i < n; i++)                            /* loop: recurrence */
        count[i] += count[i - 1];                             /* idiom: prefix-scan */
}

void running_maximum(int n, float *top, const float *a)
{
    float most = -1e30f;
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        most = MAX(most, a[i]);                               /* idiom: prefix-scan */
        top[i] = most;
    }
}

void scan_pointers(int n, const int *in, int *out)
{
    int sum = 0;
    while (n-- > 0)                                           /* loop: recurrence */
        *out++ = sum += *in++;                                /* idiom: prefix-scan */
}

void no_scan(int n, double *out, const double *in)
{
    for (int i = 1; i < n; i++)                               /* loop: parallel */
        out[i] = in[i - 1] + in[i];                           /* idiom: stencil */
}

double total_of_squares(int n, double *square, const double *a)
{
    double total = 0;
    for (int i = 0; i < n; i++) {                             /* loop: reduction */
        square[i] = a[i] * a[i];                              /* idiom: stream */
        total += square[i];                                   /* idiom: reduction */
    }
    return total;
}

/* Recurrences. */

void filter(int n, double *y, const double *x, double a, double b)
{
    for (int i = 1; i < n; i++)                               /* loop: recurrence */
        y[i] = a * x[i] + b * y[i - 1];                       /* idiom: recurrence */
}

double horner(int n, const double *c, double x)
{
    double value = 0;
    for (int i = n - 1; i >= 0; i--)                          /* loop: recurrence */
        value = value * x + c[i];                             /* idiom: recurrence */
    return value;
}

void back_substitution(int n, double *x, const double *c)
{
    for (int i = n - 2; i >= 0; --i)                          /* loop: recurrence */
        x[i] -= c[i] * x[i + 1];                              /* idiom: recurrence */
}

void smooth(int n, float *out, const float *in, float alpha)
{
    float level = in[0];
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        level = alpha * in[i] + (1 - alpha) * level;          /* idiom: recurrence */
        out[i] = level;
    }
}

void fibonacci(int n, uint64_t *f)
{
    f[0] = 0;
    f[1] = 1;
    for (int i = 2; i < n; i++)                               /* loop: recurrence */
        f[i] = f[i - 1] + f[i - 2];                           /* idiom: recurrence */
}

unsigned hash(const char *text, int n)
{
    unsigned h = 5381;
    for (int i = 0; i < n; i++)                               /* loop: recurrence */
        h = h * 33 + (unsigned char)text[i];                  /* idiom: recurrence */
    return h;
}

void random_numbers(int n, uint32_t *out, uint32_t seed)
{
    for (int i = 0; i < n; i++) {                             /* loop: recurrence */
        seed = seed * 1664525u + 1013904223u;
        out[i] = seed >> 8;                                   /* idiom: recurrence */
    }
}

void no_recurrence(int n, double *a, const double *b)
{
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        double t = b[i];
        t = t * t + 1;
        a[i] = t;                                             /* idiom: stream */
    }
    for (int i = 0; i + 1 < n; i += 2)                        /* loop: parallel */
        a[i + 1] = a[i] * 0.5;                                /* idiom: stream */
}

int alternating(int n, const int *a)
{
    int s = 0;
    for (int i = 0; i < n; i++)                               /* loop: recurrence */
        s = a[i] - s;                                         /* idiom: recurrence */
    return s;
}

/* Sorts. */

void bubble(int n, double *a)
{
    for (int last = n - 1; last > 0; last--)                  /* loop: recurrence */
        for (int i = 0; i < last; i++)                        /* loop: recurrence */
            if (a[i] > a[i + 1]) {
                double kept = a[i];
                a[i] = a[i + 1];                              /* idiom: sort */
                a[i + 1] = kept;
            }
}

void insertion(int n, int *a)
{
    for (int i = 1; i < n; i++) {                             /* loop: recurrence */
        int key = a[i], j = i - 1;
        while (j >= 0 && a[j] > key) {                        /* loop: unjudged */
            a[j + 1] = a[j];                                  /* idiom: sort */
            j--;
        }
        a[j + 1] = key;                                       /* idiom: none */
    }
}

void selection(int n, float *a)
{
    for (int i = 0; i < n - 1; i++) {                         /* loop: recurrence */
        int least = i;
        for (int j = i + 1; j < n; j++)                       /* loop: unjudged */
            if (a[j] < a[least])
                least = j;
        SWAP(float, a[i], a[least]);                          /* idiom: none */
    }
}

void odd_even(int n, int start, int *a)
{
    for (int i = start; i + 1 < n; i += 2)                    /* loop: parallel */
        if (a[i + 1] < a[i])
            SWAP(int, a[i], a[i + 1]);                        /* idiom: sort */
}

void network(int n, double *a)
{
    for (int i = 0; i < n / 2; i++) {                         /* loop: parallel */
        double low = MIN(a[i], a[i + n / 2]), high = MAX(a[i], a[i + n / 2]);
        a[i] = low;                                           /* idiom: sort */
        a[i + n / 2] = high;
    }
}

void swap_halves(int n, double *a)
{
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        double kept = a[i];
        a[i] = a[i + n];                                      /* idiom: stream */
        a[i + n] = kept;                                      /* idiom: stream */
    }
}

void swap_where(int n, int *a, int *b, const int *flag)
{
    for (int i = 0; i < n; i++)                               /* loop: parallel */
        if (flag[i]) {
            int kept = a[i];
            a[i] = b[i];                                      /* idiom: stream */
            b[i] = kept;                                      /* idiom: stream */
        }
}

/* Butterflies. */

void haar(int half, double *a)
{
    for (int k = 0; k < half; k++) {                          /* loop: parallel */
        double sum = a[k] + a[k + half], difference = a[k] - a[k + half];
        a[k] = sum;                                           /* idiom: fft-butterfly */
        a[k + half] = difference;
    }
}

void stage(int n, int half, double complex *z, const double complex *root)
{
    for (int base = 0; base < n; base += 2 * half)            /* loop: unjudged */
        for (int k = 0; k < half; k++) {                      /* loop: parallel */
            double complex turned = root[k] * z[base + k + half];
            z[base + k + half] = z[base + k] - turned;        /* idiom: fft-butterfly */
            z[base + k] += turned;
        }
}

void walsh(int n, int *a)
{
    for (int h = 1; h < n; h *= 2)                            /* loop: unjudged */
        for (int i = 0; i < n; i += 2 * h)                    /* loop: unjudged */
            for (int j = i; j < i + h; j++) {                 /* loop: parallel */
                int x = a[j], y = a[j + h];
                a[j] = x + y;                                 /* idiom: fft-butterfly */
                a[j + h] = x - y;
            }
}

void no_butterfly(int n, double *sum, double *difference, const double *a, const double *b)
{
    for (int i = 0; i < n; i++) {                             /* loop: parallel */
        sum[i] = a[i] + b[i];                                 /* idiom: stream */
        difference[i] = a[i] - b[i];                          /* idiom: stream */
    }
}

void no_butterfly_either(int half, double *a, double step)
{
    for (int k = 0; k < half; k++) {                          /* loop: parallel */
        a[k] = a[k] + step;                                   /* idiom: stream */
        a[k + half] = a[k + half] - step;                     /* idiom: stream */
    }
}
