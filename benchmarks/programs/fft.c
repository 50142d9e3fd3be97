/* usage: fft [POINTS [REPETITIONS]]
 *
 * Fast Fourier transform of complex points, forward and back. Their number must be a product of 2, 3 and 5: each factor
 * is one pass over the data, which sorts itself on the way (Stockham's scheme).
 */
#include "program.h"

struct complex {
    double re, im;
};

static struct complex add(struct complex a, struct complex b)
{
    return (struct complex){a.re + b.re, a.im + b.im};
}

static struct complex subtract(struct complex a, struct complex b)
{
    return (struct complex){a.re - b.re, a.im - b.im};
}

static struct complex multiply(struct complex a, struct complex b)
{
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static struct complex scale(double factor, struct complex a)
{
    return (struct complex){factor * a.re, factor * a.im};
}

static struct complex times_i(struct complex a)
{
    return (struct complex){-a.im, a.re};
}

/* One pass: `length` points are split into `length / radix` transforms of `radix` points, `stride` of them interleaved.
 * w[k * step] is exp(-2 pi i k / length). */
KERNEL static void pass_2(size_t length, size_t stride, const struct complex *w, size_t step, const struct complex *x,
                          struct complex *y)
{
    size_t m = length / 2;
    for (size_t q = 0; q < m; q++) {
        struct complex w1 = w[q * step];
        const struct complex *in = x + stride * q;
        struct complex *out = y + stride * 2 * q;
        for (size_t k = 0; k < stride; k++) {
            struct complex a = in[k], b = in[k + stride * m];
            out[k] = add(a, b);
            out[k + stride] = multiply(w1, subtract(a, b));
        }
    }
}

KERNEL static void pass_3(size_t length, size_t stride, const struct complex *w, size_t step, const struct complex *x,
                          struct complex *y)
{
    const double sine = 0.86602540378443864676; /* of 2 pi / 3 */
    size_t m = length / 3;
    for (size_t q = 0; q < m; q++) {
        struct complex w1 = w[q * step], w2 = w[2 * q * step];
        const struct complex *in = x + stride * q;
        struct complex *out = y + stride * 3 * q;
        for (size_t k = 0; k < stride; k++) {
            struct complex a = in[k], b = in[k + stride * m], c = in[k + 2 * stride * m];
            struct complex sum = add(b, c), turned = times_i(scale(sine, subtract(b, c)));
            struct complex middle = subtract(a, scale(0.5, sum));
            out[k] = add(a, sum);
            out[k + stride] = multiply(w1, subtract(middle, turned));
            out[k + 2 * stride] = multiply(w2, add(middle, turned));
        }
    }
}

KERNEL static void pass_5(size_t length, size_t stride, const struct complex *w, size_t step, const struct complex *x,
                          struct complex *y)
{
    const double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410; /* cosines of 2 pi / 5, 4 pi / 5 */
    const double s1 = 0.95105651629515357212, s2 = 0.58778525229247312917;  /* sines */
    size_t m = length / 5;
    for (size_t q = 0; q < m; q++) {
        const struct complex *in = x + stride * q;
        struct complex *out = y + stride * 5 * q;
        for (size_t k = 0; k < stride; k++) {
            struct complex a = in[k], b = in[k + stride * m], c = in[k + 2 * stride * m];
            struct complex d = in[k + 3 * stride * m], e = in[k + 4 * stride * m];
            struct complex be = add(b, e), cd = add(c, d), b_e = subtract(b, e), c_d = subtract(c, d);
            struct complex p = add(a, add(scale(c1, be), scale(c2, cd)));
            struct complex r = add(a, add(scale(c2, be), scale(c1, cd)));
            struct complex s = times_i(add(scale(s1, b_e), scale(s2, c_d)));
            struct complex t = times_i(subtract(scale(s2, b_e), scale(s1, c_d)));
            out[k] = add(a, add(be, cd));
            out[k + stride] = multiply(w[q * step], subtract(p, s));
            out[k + 2 * stride] = multiply(w[2 * q * step], subtract(r, t));
            out[k + 3 * stride] = multiply(w[3 * q * step], add(r, t));
            out[k + 4 * stride] = multiply(w[4 * q * step], add(p, s));
        }
    }
}

/* Transforms `x`, with `spare` as work space; returns the one of the two that holds the result. */
static struct complex *transform(size_t n, const struct complex *w, struct complex *x, struct complex *spare)
{
    size_t stride = 1;
    for (size_t length = n; length > 1;) {
        size_t radix = length % 5 == 0 ? 5 : length % 3 == 0 ? 3 : 2;
        (radix == 5 ? pass_5 : radix == 3 ? pass_3 : pass_2)(length, stride, w, n / length, x, spare);
        length /= radix;
        stride *= radix;
        struct complex *swap = x;
        x = spare;
        spare = swap;
    }
    return x;
}

static int is_smooth(size_t n)
{
    for (size_t prime = 2; prime <= 5; prime++)
        while (n % prime == 0)
            n /= prime;
    return n == 1;
}

static void conjugate(size_t n, double factor, struct complex *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (struct complex){factor * x[i].re, -factor * x[i].im};
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "fft [POINTS [REPETITIONS]]");
    size_t n = number_argument(argc, argv, 1, 162000, 1, 10000000);
    size_t repetitions = number_argument(argc, argv, 2, 53, 1, 1000000);
    if (!is_smooth(n)) {
        fprintf(stderr, "%zu points: must be a product of 2, 3 and 5\n", n);
        return 2;
    }
    struct complex *w = allocate_array(n, sizeof *w), *start = allocate_array(n, sizeof *start);
    struct complex *x = allocate_array(n, sizeof *x), *spare = allocate_array(n, sizeof *spare);
    uint64_t state = 11;
    for (size_t i = 0; i < n; i++) {
        double angle = -6.28318530717958647692 * (double)i / (double)n;
        w[i] = (struct complex){cos(angle), sin(angle)};
        x[i] = start[i] = (struct complex){random_unit(&state), random_unit(&state)};
    }
    double checksum = 0;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        for (int back = 0; back < 2; back++) {
            struct complex *result = transform(n, w, x, spare);
            spare = result == x ? spare : x;
            x = result;
            conjugate(n, back ? 1 / (double)n : 1, x); /* a transform between conjugations is the inverse */
            checksum += x[n / 3].re;
        }
    }
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fmax(fabs(x[i].re - start[i].re), fabs(x[i].im - start[i].im)));
    printf("points %zu  repetitions %zu  worst error %.0e  checksum %.8f\n", n, repetitions, worst, checksum);
    return worst > 1e-9;
}
