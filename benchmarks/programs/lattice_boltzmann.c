/* usage: lattice_boltzmann [WIDTH [HEIGHT [STEPS]]]
 *
 * Flow around a cylinder in a channel by the lattice Boltzmann method: nine directions, one relaxation time, particles
 * that meet a solid bounce back; periodic to the sides, driven by a body force.
 */
#include "program.h"

enum { DIRECTIONS = 9 };

static const int EX[DIRECTIONS] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, EY[DIRECTIONS] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
static const int OPPOSITE[DIRECTIONS] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
static const double WEIGHT[DIRECTIONS] = {4. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 9, 1. / 36, 1. / 36, 1. / 36, 1. / 36};
static const double RELAXATION = 1.7, FORCE = 1e-5;

struct lattice {
    size_t width, height;
    uint8_t *solid;
    double *f; /* f[cell * DIRECTIONS + direction] */
};

/* Each cell takes in what its neighbours sent, relaxes towards equilibrium, and writes the outcome to `to`. */
KERNEL static void step(const struct lattice *from, const struct lattice *to)
{
    size_t width = from->width;
    for (size_t y = 1; y + 1 < from->height; y++)
        for (size_t x = 0; x < width; x++) {
            size_t cell = y * width + x;
            if (from->solid[cell])
                continue;
            double f[DIRECTIONS], density = 0, ux = 0, uy = 0;
            for (int d = 0; d < DIRECTIONS; d++) {
                size_t sx = EX[d] > 0 ? (x ? x - 1 : width - 1) : EX[d] < 0 ? (x + 1 < width ? x + 1 : 0) : x;
                size_t source = (size_t)((ptrdiff_t)y - EY[d]) * width + sx;
                f[d] = from->solid[source] ? from->f[cell * DIRECTIONS + (size_t)OPPOSITE[d]]
                                           : from->f[source * DIRECTIONS + (size_t)d];
                density += f[d];
                ux += f[d] * EX[d];
                uy += f[d] * EY[d];
            }
            ux = ux / density + FORCE / RELAXATION;
            uy /= density;
            for (int d = 0; d < DIRECTIONS; d++) {
                double along = 3 * (EX[d] * ux + EY[d] * uy);
                double equilibrium = WEIGHT[d] * density * (1 + along + 0.5 * along * along - 1.5 * (ux * ux + uy * uy));
                to->f[cell * DIRECTIONS + (size_t)d] = f[d] + RELAXATION * (equilibrium - f[d]);
            }
        }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "lattice_boltzmann [WIDTH [HEIGHT [STEPS]]]");
    struct lattice now = {.width = number_argument(argc, argv, 1, 487, 8, 4000)};
    now.height = number_argument(argc, argv, 2, 211, 8, 2000);
    size_t steps = number_argument(argc, argv, 3, 97, 1, 1000000), cells = now.width * now.height;
    now.solid = allocate_array(cells, 1);
    now.f = allocate_array(cells * DIRECTIONS, sizeof(double));
    struct lattice next = now;
    next.f = allocate_array(cells * DIRECTIONS, sizeof(double));
    double radius = (double)now.height / 7;
    for (size_t cell = 0; cell < cells; cell++) {
        double x = (double)(cell % now.width), y = (double)(cell / now.width);
        double dx = x - (double)now.width / 4, dy = y - (double)now.height / 2 - 1;
        now.solid[cell] = y == 0 || y == (double)now.height - 1 || dx * dx + dy * dy < radius * radius;
        for (size_t d = 0; d < DIRECTIONS; d++)
            now.f[cell * DIRECTIONS + d] = next.f[cell * DIRECTIONS + d] = WEIGHT[d];
    }
    for (size_t s = 0; s < steps; s++) {
        step(&now, &next);
        double *swap = now.f;
        now.f = next.f;
        next.f = swap;
    }
    double momentum = 0, mass = 0;
    for (size_t cell = 0; cell < cells; cell++)
        for (size_t d = 0; d < DIRECTIONS && !now.solid[cell]; d++) {
            mass += now.f[cell * DIRECTIONS + d];
            momentum += now.f[cell * DIRECTIONS + d] * EX[d];
        }
    printf("cells %zu x %zu  steps %zu  mass %.6f  checksum %.10f\n", now.width, now.height, steps, mass, momentum);
    return 0;
}
