/* usage: lattice [POINTS [STEPS]]
 *
 * Lattice Boltzmann, D3Q19, single relaxation time, single precision: POINTS^3 cells, periodic, populations pulled from
 * the neighbours out of one array into another. A cell moves 19 populations in and out and a flag: 153 bytes.
 */
#include "program.h"

enum { Q = 19 };

static const int CX[Q] = {0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 0, 0, 1, -1, 1, -1, 0, 0};
static const int CY[Q] = {0, 0, 0, 1, -1, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 1, -1};
static const int CZ[Q] = {0, 0, 0, 0, 0, 1, -1, 0, 0, 1, -1, 1, -1, 0, 0, -1, 1, -1, 1};
static const float OMEGA = 1.25f, W_REST = 1.0f / 3, W_FACE = 1.0f / 18, W_EDGE = 1.0f / 36;

static inline float weight(int q)
{
    return q == 0 ? W_REST : q < 7 ? W_FACE : W_EDGE;
}

static inline float equilibrium(int q, float rho, float ux, float uy, float uz)
{
    float cu = (float)CX[q] * ux + (float)CY[q] * uy + (float)CZ[q] * uz, uu = ux * ux + uy * uy + uz * uz;
    return weight(q) * rho * (1 + 3 * cu + 4.5f * cu * cu - 1.5f * uu);
}

KERNEL static void stream_collide(size_t n, const uint8_t *flags, const float *from, float *to)
{
    size_t cells = n * n * n;
    for (size_t z = 0; z < n; z++)
        for (size_t y = 0; y < n; y++) {
            size_t zs[3] = {(z ? z - 1 : n - 1) * n * n, z * n * n, (z + 1 < n ? z + 1 : 0) * n * n};
            size_t ys[3] = {(y ? y - 1 : n - 1) * n, y * n, (y + 1 < n ? y + 1 : 0) * n};
            for (size_t x = 0; x < n; x++) {
                size_t cell = zs[1] + ys[1] + x, xs[3] = {x ? x - 1 : n - 1, x, x + 1 < n ? x + 1 : 0};
                if (flags[cell])
                    continue;
                float f[Q], rho = 0, ux = 0, uy = 0, uz = 0;
#pragma GCC unroll 19
                for (int q = 0; q < Q; q++) {
                    f[q] = from[(size_t)q * cells + zs[1 - CZ[q]] + ys[1 - CY[q]] + xs[1 - CX[q]]];
                    rho += f[q];
                    ux += (float)CX[q] * f[q];
                    uy += (float)CY[q] * f[q];
                    uz += (float)CZ[q] * f[q];
                }
                ux /= rho;
                uy /= rho;
                uz /= rho;
#pragma GCC unroll 19
                for (int q = 0; q < Q; q++)
                    to[(size_t)q * cells + cell] = (1 - OMEGA) * f[q] + OMEGA * equilibrium(q, rho, ux, uy, uz);
            }
        }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "lattice [POINTS [STEPS]]");
    size_t n = number_argument(argc, argv, 1, 16, 2, 150);
    size_t steps = number_argument(argc, argv, 2, 4, 1, 1000000);
    size_t cells = n * n * n;
    uint8_t *flags = allocate_array(cells, 1);
    float *from = allocate_array(Q * cells, sizeof *from), *to = allocate_array(Q * cells, sizeof *to);
    for (size_t cell = 0; cell < cells; cell++)
        for (int q = 0; q < Q; q++) {
            float shear = 0.05f * sinf(6.2831853f * (float)(cell / n % n) / (float)n);
            from[(size_t)q * cells + cell] = equilibrium(q, 1, shear, 0, 0);
        }
    for (size_t step = 0; step < steps; step++) {
        stream_collide(n, flags, from, to);
        float *swapped = from;
        from = to;
        to = swapped;
    }
    double mass = 0, momentum = 0, speed = 0;
    for (size_t cell = 0; cell < cells; cell++) {
        double ux = 0;
        for (int q = 0; q < Q; q++) {
            mass += from[(size_t)q * cells + cell];
            ux += CX[q] * (double)from[(size_t)q * cells + cell];
        }
        momentum += ux;
        speed = fmax(speed, fabs(ux));
    }
    printf("cells %zu  steps %zu  mass %.7f  momentum %.1e  speed %.5f  checksum %.6f\n", cells, steps,
           mass / (double)cells, momentum / (double)cells, speed, speed * 100);
    return 0;
}
