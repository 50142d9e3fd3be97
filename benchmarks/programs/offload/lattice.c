/* usage: lattice [POINTS [STEPS]]
 *
 * Lattice Boltzmann, D3Q19, single relaxation time, single precision: POINTS^3 cells, periodic by a layer of cells
 * around them that is copied before each step; populations are pulled from the neighbours out of one array into another.
 * A cell moves 19 populations in and out and a flag: 153 bytes.
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

/* `m`: points along an edge with the layer around; cell (x, y, z) is at (z m + y) m + x. */
KERNEL static void stream_collide(size_t m, const uint8_t *flags, const float *from, float *to)
{
    size_t cells = m * m * m;
    for (size_t z = 1; z + 1 < m; z++)
        for (size_t y = 1; y + 1 < m; y++)
            for (size_t cell = (z * m + y) * m + 1; cell < (z * m + y + 1) * m - 1; cell++) {
                if (flags[cell])
                    continue;
                float f[Q], rho = 0, ux = 0, uy = 0, uz = 0;
#pragma GCC unroll 19
                for (int q = 0; q < Q; q++) {
                    ptrdiff_t shift = (CZ[q] * (ptrdiff_t)m + CY[q]) * (ptrdiff_t)m + CX[q];
                    f[q] = from[(size_t)q * cells + cell - (size_t)shift];
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

static inline size_t wrapped(size_t place, size_t m)
{
    return place == 0 ? m - 2 : place == m - 1 ? 1 : place;
}

/* Fills the layer around with the cells of the other side. */
KERNEL static void wrap(size_t m, float *f)
{
    for (size_t q = 0; q < Q; q++)
        for (size_t z = 0; z < m; z++)
            for (size_t y = 0; y < m; y++) {
                size_t inside = z > 0 && z < m - 1 && y > 0 && y < m - 1;
                float *to = f + ((q * m + z) * m + y) * m, *from = f + ((q * m + wrapped(z, m)) * m + wrapped(y, m)) * m;
                for (size_t x = 0; x < m; x += inside ? m - 1 : 1)
                    to[x] = from[wrapped(x, m)];
            }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "lattice [POINTS [STEPS]]");
    size_t n = number_argument(argc, argv, 1, 16, 2, 150), m = n + 2;
    size_t steps = number_argument(argc, argv, 2, 4, 1, 1000000);
    size_t cells = m * m * m;
    uint8_t *flags = allocate_array(cells, 1);
    float *from = allocate_array(Q * cells, sizeof *from), *to = allocate_array(Q * cells, sizeof *to);
    for (size_t cell = 0; cell < cells; cell++)
        for (int q = 0; q < Q; q++) {
            float shear = 0.05f * sinf(6.2831853f * (float)(cell / m % m) / (float)n);
            from[(size_t)q * cells + cell] = equilibrium(q, 1, shear, 0, 0);
        }
    for (size_t step = 0; step < steps; step++) {
        wrap(m, from);
        stream_collide(m, flags, from, to);
        float *swapped = from;
        from = to;
        to = swapped;
    }
    double mass = 0, momentum = 0, speed = 0;
    for (size_t z = 1; z <= n; z++)
        for (size_t y = 1; y <= n; y++)
            for (size_t x = 1; x <= n; x++) {
                double ux = 0;
                for (int q = 0; q < Q; q++) {
                    double f = (double)from[(((size_t)q * m + z) * m + y) * m + x];
                    mass += f;
                    ux += CX[q] * f;
                }
                momentum += ux;
                speed = fmax(speed, fabs(ux));
            }
    double count = (double)(n * n * n);
    printf("cells %zu  steps %zu  mass %.7f  momentum %.1e  speed %.5f  checksum %.6f\n", n * n * n, steps, mass / count,
           momentum / count, speed, speed * 100);
    return 0;
}
