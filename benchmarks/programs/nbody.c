/* usage: nbody [BODIES [STEPS]]
 *
 * Bodies that attract each other, every pair of them: positions and speeds over time steps (leapfrog). Checked by the
 * total energy, which hardly changes.
 */
#include "program.h"

struct bodies {
    size_t n;
    double *x[3], *v[3], *a[3], *mass;
};

static const double SOFTENING = 1e-3;

KERNEL static void accelerate(const struct bodies *b)
{
    const double *restrict x = b->x[0], *restrict y = b->x[1], *restrict z = b->x[2], *restrict mass = b->mass;
    for (size_t i = 0; i < b->n; i++) {
        double ax = 0, ay = 0, az = 0;
        for (size_t j = 0; j < b->n; j++) {
            double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            double distance_2 = dx * dx + dy * dy + dz * dz + SOFTENING;
            double factor = mass[j] / (distance_2 * sqrt(distance_2));
            ax += factor * dx;
            ay += factor * dy;
            az += factor * dz;
        }
        b->a[0][i] = ax;
        b->a[1][i] = ay;
        b->a[2][i] = az;
    }
}

KERNEL static void move(const struct bodies *b, double step)
{
    for (int axis = 0; axis < 3; axis++)
        for (size_t i = 0; i < b->n; i++) {
            b->v[axis][i] += step * b->a[axis][i];
            b->x[axis][i] += step * b->v[axis][i];
        }
}

KERNEL static double energy(const struct bodies *b)
{
    double kinetic = 0, potential = 0;
    for (size_t i = 0; i < b->n; i++) {
        double v2 = 0;
        for (int axis = 0; axis < 3; axis++)
            v2 += b->v[axis][i] * b->v[axis][i];
        kinetic += 0.5 * b->mass[i] * v2;
        for (size_t j = 0; j < i; j++) {
            double r2 = SOFTENING;
            for (int axis = 0; axis < 3; axis++)
                r2 += (b->x[axis][i] - b->x[axis][j]) * (b->x[axis][i] - b->x[axis][j]);
            potential -= b->mass[i] * b->mass[j] / sqrt(r2);
        }
    }
    return kinetic + potential;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "nbody [BODIES [STEPS]]");
    struct bodies b = {.n = number_argument(argc, argv, 1, 1637, 2, 1000000)};
    size_t steps = number_argument(argc, argv, 2, 19, 1, 1000000);
    uint64_t state = 14;
    for (int axis = 0; axis < 3; axis++) {
        b.x[axis] = allocate_array(b.n, sizeof(double));
        b.v[axis] = allocate_array(b.n, sizeof(double));
        b.a[axis] = allocate_array(b.n, sizeof(double));
        for (size_t i = 0; i < b.n; i++) {
            b.x[axis][i] = random_unit(&state);
            b.v[axis][i] = 0.1 * (random_unit(&state) - 0.5);
        }
    }
    b.mass = allocate_array(b.n, sizeof *b.mass);
    for (size_t i = 0; i < b.n; i++)
        b.mass[i] = (0.5 + random_unit(&state)) / (double)b.n;
    double first = energy(&b);
    for (size_t step = 0; step < steps; step++) {
        accelerate(&b);
        move(&b, 1e-4);
    }
    double last = energy(&b);
    printf("bodies %zu  steps %zu  change of energy %.1e  checksum %.10f\n", b.n, steps, fabs(last / first - 1), last);
    return fabs(last / first - 1) > 1e-2;
}
