/* usage: textbook KERNEL [N [REPEATS]]
 *
 * Kernels as textbooks have them, written plainly and without tuning: linear algebra by columns and triangles, stencils
 * in and out of cache, transforms, dynamic programming, sieves and sorts. Each kernel's own N and REPEATS take some
 * tenths of a second.
 */
#include "program.h"

typedef double kernel(size_t n, size_t repeats, uint64_t *state);

static double *random_array(size_t count, uint64_t *state)
{
    double *a = allocate_array(count, sizeof *a);
    for (size_t i = 0; i < count; i++)
        a[i] = random_unit(state);
    return a;
}

static double sum(const double *a, size_t count)
{
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += a[i] * (double)(i % 7 + 1);
    return total;
}

/* ---- linear algebra --------------------------------------------------------------------------------------------- */

KERNEL static double atax(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n, state), *x = random_array(n, state), *y = random_array(n, state);
    for (size_t r = 0; r < repeats; r++) {
        memset(y, 0, n * sizeof *y);
        for (size_t i = 0; i < n; i++) {
            double t = 0;
            for (size_t j = 0; j < n; j++)
                t += a[i * n + j] * x[j];
            for (size_t j = 0; j < n; j++)
                y[j] += a[i * n + j] * t;
        }
        x[r % n] += 1e-9 * y[0];
    }
    return sum(y, n);
}

KERNEL static double column_sums(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n, state), *s = random_array(n, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                s[j] += a[i * n + j];
    return sum(s, n);
}

KERNEL static double syrk(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n, state), *c = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++) {
                double t = 0;
                for (size_t k = 0; k < n; k++)
                    t += a[i * n + k] * a[j * n + k];
                c[i * n + j] += t;
            }
    return sum(c, n * n);
}

KERNEL static double cholesky(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n, state), *l = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t j = 0; j < n; j++) {
            double d = a[j * n + j] + (double)n;
            for (size_t k = 0; k < j; k++)
                d -= l[j * n + k] * l[j * n + k];
            l[j * n + j] = sqrt(d);
            for (size_t i = j + 1; i < n; i++) {
                double t = a[i * n + j];
                for (size_t k = 0; k < j; k++)
                    t -= l[i * n + k] * l[j * n + k];
                l[i * n + j] = t / l[j * n + j];
            }
        }
    return sum(l, n * n);
}

KERNEL static double gram_schmidt(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n, state), *q = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t k = 0; k < n; k++) {
            double norm = 0;
            for (size_t i = 0; i < n; i++)
                norm += a[i * n + k] * a[i * n + k];
            norm = sqrt(norm) + 1e-12;
            for (size_t i = 0; i < n; i++)
                q[i * n + k] = a[i * n + k] / norm;
            for (size_t j = k + 1; j < n; j++) {
                double t = 0;
                for (size_t i = 0; i < n; i++)
                    t += q[i * n + k] * a[i * n + j];
                for (size_t i = 0; i < n; i++)
                    a[i * n + j] -= q[i * n + k] * t;
            }
        }
    return sum(q, n * n);
}

KERNEL static double forward_substitution(size_t n, size_t repeats, uint64_t *state)
{
    double *l = random_array(n * n, state), *b = random_array(n, state), *x = random_array(n, state);
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 0; i < n; i++) {
            double t = b[i];
            for (size_t j = 0; j < i; j++)
                t -= l[i * n + j] * x[j] * 1e-3;
            x[i] = t / (l[i * n + i] + 1);
        }
        b[r % n] = x[n - 1];
    }
    return sum(x, n);
}

KERNEL static double covariance(size_t n, size_t repeats, uint64_t *state)
{
    double *data = random_array(n * n, state), *c = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = i; j < n; j++) {
                double t = 0;
                for (size_t k = 0; k < n; k++)
                    t += data[k * n + i] * data[k * n + j];
                c[i * n + j] = c[j * n + i] = t / (double)(n - 1);
            }
    return sum(c, n * n);
}

KERNEL static double durbin(size_t n, size_t repeats, uint64_t *state)
{
    double *r = random_array(n, state), *y = random_array(n, state), *z = random_array(n, state);
    for (size_t i = 0; i < n; i++)
        r[i] *= 1e-3;
    for (size_t pass = 0; pass < repeats; pass++) {
        double alpha = -r[0], beta = 1;
        y[0] = -r[0];
        for (size_t k = 1; k < n; k++) {
            beta *= 1 - alpha * alpha;
            double t = 0;
            for (size_t i = 0; i < k; i++)
                t += r[k - i - 1] * y[i];
            alpha = -(r[k] + t) / beta;
            for (size_t i = 0; i < k; i++)
                z[i] = y[i] + alpha * y[k - i - 1];
            memcpy(y, z, k * sizeof *y);
            y[k] = alpha;
        }
    }
    return sum(y, n);
}

/* ---- stencils --------------------------------------------------------------------------------------------------- */

KERNEL static double seidel(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t i = 1; i < n - 1; i++)
            for (size_t j = 1; j < n - 1; j++)
                a[i * n + j] = (a[(i - 1) * n + j] + a[i * n + j - 1] + a[i * n + j] + a[i * n + j + 1] +
                                a[(i + 1) * n + j]) / 5;
    return sum(a, n * n);
}

KERNEL static double jacobi3d(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n * n * n, state), *b = random_array(n * n * n, state);
    const size_t row = n, plane = n * n;
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 1; i < n - 1; i++)
            for (size_t j = 1; j < n - 1; j++)
                for (size_t k = 1; k < n - 1; k++) {
                    const double *c = a + i * plane + j * row + k;
                    b[i * plane + j * row + k] =
                        (c[0] + c[-1] + c[1] + c[-(ptrdiff_t)row] + c[row] + c[-(ptrdiff_t)plane] + c[plane]) / 7;
                }
        double *swap = a;
        a = b;
        b = swap;
    }
    return sum(a, n * n * n);
}

KERNEL static double fdtd(size_t n, size_t repeats, uint64_t *state)
{
    double *ex = random_array(n * n, state), *ey = random_array(n * n, state), *hz = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 1; i < n; i++)
            for (size_t j = 0; j < n; j++)
                ey[i * n + j] -= 0.5 * (hz[i * n + j] - hz[(i - 1) * n + j]);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 1; j < n; j++)
                ex[i * n + j] -= 0.5 * (hz[i * n + j] - hz[i * n + j - 1]);
        for (size_t i = 0; i + 1 < n; i++)
            for (size_t j = 0; j + 1 < n; j++)
                hz[i * n + j] -= 0.2 * (ex[i * n + j + 1] - ex[i * n + j] + ey[(i + 1) * n + j] - ey[i * n + j]);
    }
    return sum(hz, n * n);
}

/* Tridiagonal systems along each column, then along each row. */
KERNEL static double adi(size_t n, size_t repeats, uint64_t *state)
{
    double *u = random_array(n * n, state), *p = random_array(n * n, state), *q = random_array(n * n, state);
    for (size_t r = 0; r < repeats; r++) {
        for (size_t j = 1; j < n - 1; j++) {
            p[j] = 0;
            q[j] = 1;
            for (size_t i = 1; i < n - 1; i++) {
                double d = 3 - p[(i - 1) * n + j];
                p[i * n + j] = 1 / d;
                q[i * n + j] = (u[i * n + j - 1] + u[i * n + j + 1] + q[(i - 1) * n + j]) / d;
            }
            for (size_t i = n - 2; i >= 1; i--)
                u[i * n + j] = p[i * n + j] * u[(i + 1) * n + j] + q[i * n + j] * 0.3;
        }
        for (size_t i = 1; i < n - 1; i++) {
            p[i * n] = 0;
            q[i * n] = 1;
            for (size_t j = 1; j < n - 1; j++) {
                double d = 3 - p[i * n + j - 1];
                p[i * n + j] = 1 / d;
                q[i * n + j] = (u[i * n + j] + q[i * n + j - 1]) / d;
            }
            for (size_t j = n - 2; j >= 1; j--)
                u[i * n + j] = p[i * n + j] * u[i * n + j + 1] + q[i * n + j] * 0.3;
        }
    }
    return sum(u, n * n);
}

KERNEL static double convolve(size_t n, size_t repeats, uint64_t *state)
{
    double *in = random_array(n * n, state), *out = random_array(n * n, state), *w = random_array(25, state);
    for (size_t r = 0; r < repeats; r++)
        for (size_t i = 2; i < n - 2; i++)
            for (size_t j = 2; j < n - 2; j++) {
                double t = 0;
                for (size_t y = 0; y < 5; y++)
                    for (size_t x = 0; x < 5; x++)
                        t += w[5 * y + x] * in[(i + y - 2) * n + j + x - 2];
                out[i * n + j] = t;
            }
    return sum(out, n * n);
}

KERNEL static double life(size_t n, size_t repeats, uint64_t *state)
{
    uint8_t *a = allocate_array(n * n, 1), *b = allocate_array(n * n, 1);
    for (size_t i = 0; i < n * n; i++)
        a[i] = random_below(state, 3) == 0;
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 1; i < n - 1; i++)
            for (size_t j = 1; j < n - 1; j++) {
                int alive = 0;
                for (int y = -1; y <= 1; y++)
                    for (int x = -1; x <= 1; x++)
                        alive += a[(size_t)((ptrdiff_t)i + y) * n + (size_t)((ptrdiff_t)j + x)];
                b[i * n + j] = alive == 3 || (alive == 4 && a[i * n + j]);
            }
        uint8_t *swap = a;
        a = b;
        b = swap;
    }
    size_t alive = 0;
    for (size_t i = 0; i < n * n; i++)
        alive += a[i];
    return (double)alive;
}

/* ---- transforms, recurrences, sorts ----------------------------------------------------------------------------- */

/* In place, decimation in time; N is rounded down to a power of two. */
KERNEL static double fft2(size_t n, size_t repeats, uint64_t *state)
{
    size_t size = 1;
    while (2 * size <= n)
        size *= 2;
    double *re = random_array(size, state), *im = random_array(size, state);
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 1, j = 0; i < size; i++) {
            size_t bit = size >> 1;
            for (; j & bit; bit >>= 1)
                j ^= bit;
            j ^= bit;
            if (i < j) {
                double t = re[i];
                re[i] = re[j];
                re[j] = t;
                t = im[i];
                im[i] = im[j];
                im[j] = t;
            }
        }
        for (size_t half = 1; half < size; half *= 2) {
            const double angle = -3.14159265358979323846 / (double)half, c = cos(angle), s = sin(angle);
            for (size_t start = 0; start < size; start += 2 * half) {
                double wr = 1, wi = 0;
                for (size_t k = start; k < start + half; k++) {
                    const double tr = wr * re[k + half] - wi * im[k + half], ti = wr * im[k + half] + wi * re[k + half];
                    re[k + half] = re[k] - tr;
                    im[k + half] = im[k] - ti;
                    re[k] += tr;
                    im[k] += ti;
                    const double next = wr * c - wi * s;
                    wi = wr * s + wi * c;
                    wr = next;
                }
            }
        }
        for (size_t i = 0; i < size; i++) {
            re[i] /= (double)size;
            im[i] /= (double)size;
        }
    }
    return sum(re, size);
}

KERNEL static double prefix_compact(size_t n, size_t repeats, uint64_t *state)
{
    double *a = random_array(n, state), *b = random_array(n, state);
    size_t kept = 0;
    for (size_t r = 0; r < repeats; r++) {
        kept = 0;
        for (size_t i = 0; i < n; i++)
            if (a[i] > 0.4)
                b[kept++] = a[i];
        for (size_t i = 1; i < kept; i++)
            b[i] += b[i - 1];
        a[r % n] = b[kept / 2] / (b[kept - 1] + 1);
    }
    return sum(b, kept);
}

/* Longest palindromic subsequence: a triangle of a table, filled by diagonals of intervals. */
KERNEL static double palindrome(size_t n, size_t repeats, uint64_t *state)
{
    int *best = allocate_array(n * n, sizeof *best);
    uint8_t *text = allocate_array(n, 1);
    for (size_t i = 0; i < n; i++)
        text[i] = (uint8_t)random_below(state, 4);
    for (size_t r = 0; r < repeats; r++)
        for (size_t i = n; i-- > 0;) {
            best[i * n + i] = 1;
            for (size_t j = i + 1; j < n; j++) {
                const int inner = j > i + 1 ? best[(i + 1) * n + j - 1] : 0;
                const int left = best[(i + 1) * n + j], below = best[i * n + j - 1];
                const int either = left > below ? left : below;
                best[i * n + j] = text[i] == text[j] ? inner + 2 : either;
            }
        }
    return best[n - 1];
}

KERNEL static double sieve(size_t n, size_t repeats, uint64_t *state)
{
    (void)state;
    uint8_t *composite = allocate_array(n, 1);
    size_t primes = 0;
    for (size_t r = 0; r < repeats; r++) {
        memset(composite, 0, n);
        primes = 0;
        for (size_t i = 2; i < n; i++) {
            if (composite[i])
                continue;
            primes++;
            for (size_t j = i * i; j < n; j += i)
                composite[j] = 1;
        }
    }
    return (double)primes;
}

KERNEL static double heap_sort(size_t n, size_t repeats, uint64_t *state)
{
    double *a = allocate_array(n, sizeof *a);
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 0; i < n; i++)
            a[i] = random_unit(state);
        for (size_t i = n / 2, left = n; left > 1;) {
            double value;
            if (i > 0) {
                value = a[--i];
            } else {
                value = a[--left];
                a[left] = a[0];
            }
            size_t at = i;
            for (size_t child; (child = 2 * at + 1) < left; at = child) {
                if (child + 1 < left && a[child + 1] > a[child])
                    child++;
                if (a[child] <= value)
                    break;
                a[at] = a[child];
            }
            a[at] = value;
        }
    }
    return sum(a, n);
}

KERNEL static double bitonic_sort(size_t n, size_t repeats, uint64_t *state)
{
    size_t size = 1;
    while (2 * size <= n)
        size *= 2;
    double *a = allocate_array(size, sizeof *a);
    for (size_t r = 0; r < repeats; r++) {
        for (size_t i = 0; i < size; i++)
            a[i] = random_unit(state);
        for (size_t k = 2; k <= size; k *= 2)
            for (size_t j = k / 2; j > 0; j /= 2)
                for (size_t i = 0; i < size; i++) {
                    const size_t other = i ^ j;
                    if (other > i && (a[i] > a[other]) == ((i & k) == 0)) {
                        const double t = a[i];
                        a[i] = a[other];
                        a[other] = t;
                    }
                }
    }
    return sum(a, size);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    kernel *run;
    size_t n, repeats;
} KERNELS[] = {
    {"atax", atax, 1901, 40},
    {"column_sums", column_sums, 1801, 30},
    {"syrk", syrk, 610, 3},
    {"cholesky", cholesky, 1103, 1},
    {"gram_schmidt", gram_schmidt, 430, 2},
    {"forward_substitution", forward_substitution, 2003, 110},
    {"covariance", covariance, 430, 8},
    {"durbin", durbin, 7001, 8},
    {"seidel", seidel, 1203, 20},
    {"jacobi3d", jacobi3d, 203, 22},
    {"fdtd", fdtd, 1103, 60},
    {"adi", adi, 803, 12},
    {"convolve", convolve, 1303, 10},
    {"life", life, 1203, 20},
    {"fft2", fft2, 1 << 18, 20},
    {"prefix_compact", prefix_compact, 1500007, 30},
    {"palindrome", palindrome, 5003, 12},
    {"sieve", sieve, 9000001, 4},
    {"heap_sort", heap_sort, 900001, 2},
    {"bitonic_sort", bitonic_sort, 1 << 16, 20},
};
#define NUM_KERNELS (sizeof KERNELS / sizeof *KERNELS)

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "textbook KERNEL [N [REPEATS]]");
    for (size_t i = 0; argc > 1 && i < NUM_KERNELS; i++)
        if (strcmp(argv[1], KERNELS[i].name) == 0) {
            const size_t n = number_argument(argc, argv, 2, KERNELS[i].n, 8, 10000000);
            const size_t repeats = number_argument(argc, argv, 3, KERNELS[i].repeats, 1, 100000);
            uint64_t state = 20;
            const double result = KERNELS[i].run(n, repeats, &state);
            printf("%s %zu x %zu  checksum %.17g\n", argv[1], n, repeats, result);
            return 0;
        }
    fprintf(stderr, "kernel '%s' is not known; these are:", argc > 1 ? argv[1] : "");
    for (size_t i = 0; i < NUM_KERNELS; i++)
        fprintf(stderr, " %s", KERNELS[i].name);
    fputc('\n', stderr);
    return 2;
}
