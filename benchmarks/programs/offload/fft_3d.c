/* usage: fft_3d [POINTS]
 *
 * Fourier transform of POINTS^3 real numbers in double precision to (POINTS / 2 + 1) POINTS^2 complex ones and back,
 * POINTS a power of two: along x as a complex transform of half the length, along y and z pencil by pencil.
 */
#include "program.h"

enum { MOST_POINTS = 512 };

typedef struct {
    double re, im;
} Complex;

static Complex roots[MOST_POINTS]; /* exp(-2 pi i k / points) */
static size_t points;

/* In place; `way` is 1, or -1 for the inverse without its factor. Decimation in time. */
static void transform(Complex *a, size_t n, double way)
{
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j |= bit;
        if (i < j) {
            Complex swapped = a[i];
            a[i] = a[j];
            a[j] = swapped;
        }
    }
    for (size_t half = 1; half < n; half *= 2)
        for (size_t k = 0; k < half; k++) {
            Complex w = roots[k * (points / (2 * half))];
            w.im *= way;
            for (size_t i = k; i < n; i += 2 * half) {
                Complex *low = a + i, *high = a + i + half;
                Complex odd = {w.re * high->re - w.im * high->im, w.re * high->im + w.im * high->re};
                *high = (Complex){low->re - odd.re, low->im - odd.im};
                *low = (Complex){low->re + odd.re, low->im + odd.im};
            }
        }
}

/* Each row of `real` to points / 2 + 1 complex numbers. */
KERNEL static void forward_x(const double *real, Complex *spectrum)
{
    size_t half = points / 2;
    for (size_t row = 0; row < points * points; row++) {
        Complex a[MOST_POINTS / 2 + 1];
        for (size_t i = 0; i < half; i++)
            a[i] = (Complex){real[row * points + 2 * i], real[row * points + 2 * i + 1]};
        transform(a, half, 1);
        a[half] = a[0];
        Complex *out = spectrum + row * (half + 1);
        for (size_t k = 0; k <= half; k++) {
            Complex w = k < half ? roots[k] : (Complex){-1, 0}, u = a[k], v = a[half - k];
            Complex even = {(u.re + v.re) / 2, (u.im - v.im) / 2}, odd = {(u.im + v.im) / 2, (v.re - u.re) / 2};
            out[k] = (Complex){even.re + w.re * odd.re - w.im * odd.im, even.im + w.re * odd.im + w.im * odd.re};
        }
    }
}

KERNEL static void backward_x(const Complex *spectrum, double *real)
{
    size_t half = points / 2;
    for (size_t row = 0; row < points * points; row++) {
        Complex a[MOST_POINTS / 2];
        const Complex *in = spectrum + row * (half + 1);
        for (size_t k = 0; k < half; k++) {
            Complex w = {roots[k].re, -roots[k].im}, u = in[k], v = in[half - k];
            Complex even = {u.re + v.re, u.im - v.im}, difference = {u.re - v.re, u.im + v.im};
            Complex odd = {w.re * difference.re - w.im * difference.im, w.re * difference.im + w.im * difference.re};
            a[k] = (Complex){even.re - odd.im, even.im + odd.re};
        }
        transform(a, half, -1);
        for (size_t i = 0; i < half; i++) {
            real[row * points + 2 * i] = a[i].re;
            real[row * points + 2 * i + 1] = a[i].im;
        }
    }
}

/* Along y: pencils of `points` numbers, a row of points / 2 + 1 apart. */
KERNEL static void along_y(Complex *spectrum, double way)
{
    size_t width = points / 2 + 1;
    for (size_t pencil = 0; pencil < points * width; pencil++) {
        Complex a[MOST_POINTS], *first = spectrum + pencil / width * points * width + pencil % width;
        for (size_t i = 0; i < points; i++)
            a[i] = first[i * width];
        transform(a, points, way);
        for (size_t i = 0; i < points; i++)
            first[i * width] = a[i];
    }
}

/* Along z: pencils whose numbers are a plane apart. */
KERNEL static void along_z(Complex *spectrum, double way)
{
    size_t plane = points * (points / 2 + 1);
    for (size_t pencil = 0; pencil < plane; pencil++) {
        Complex a[MOST_POINTS], *first = spectrum + pencil;
        for (size_t i = 0; i < points; i++)
            a[i] = first[i * plane];
        transform(a, points, way);
        for (size_t i = 0; i < points; i++)
            first[i * plane] = a[i];
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "fft_3d [POINTS]");
    points = number_argument(argc, argv, 1, 16, 4, MOST_POINTS);
    if (points & (points - 1)) {
        fprintf(stderr, "%zu points: must be a power of two\n", points);
        return 2;
    }
    size_t count = points * points * points;
    double *real = allocate_array(count, sizeof *real);
    Complex *spectrum = allocate_array(points * points * (points / 2 + 1), sizeof *spectrum);
    for (size_t k = 0; k < points; k++)
        roots[k] = (Complex){cos(6.283185307179586 * (double)k / (double)points),
                             -sin(6.283185307179586 * (double)k / (double)points)};
    uint64_t state = 11, again = 11;
    double energy = 0;
    for (size_t i = 0; i < count; i++) {
        real[i] = random_unit(&state) - 0.5;
        energy += real[i] * real[i];
    }
    forward_x(real, spectrum);
    along_y(spectrum, 1);
    along_z(spectrum, 1);
    double power = 0; /* Parseval's: those between the first and the last of a row stand for two */
    for (size_t i = 0; i < points * points * (points / 2 + 1); i++) {
        size_t k = i % (points / 2 + 1);
        power += (k > 0 && k < points / 2 ? 2 : 1) * (spectrum[i].re * spectrum[i].re + spectrum[i].im * spectrum[i].im);
    }
    along_z(spectrum, -1);
    along_y(spectrum, -1);
    backward_x(spectrum, real);
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, fabs(real[i] / (double)count - (random_unit(&again) - 0.5)));
    printf("points %zu  power %.9f  error %.1e  checksum %.9f\n", points, power / (double)count / energy, worst, energy);
    return 0;
}
