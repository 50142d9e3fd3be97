/* usage: bodies [BODIES [SOURCES [STEPS]]]
 *
 * Gravity of SOURCES bodies on BODIES in double precision, pair by pair; 30 operations a pair, as the sample nbody of
 * NVIDIA's CUDA counts them. SOURCES below BODIES stand for all: as many bodies in parallel, and less work for each.
 */
#include "program.h"

typedef struct {
    double x, y, z, mass;
} Body;

static const double SOFTENING = 0.01, STEP = 0.001;

KERNEL static void accelerate(size_t n, size_t sources, const Body *bodies, double *acceleration)
{
    for (size_t i = 0; i < n; i++) {
        double ax = 0, ay = 0, az = 0, x = bodies[i].x, y = bodies[i].y, z = bodies[i].z;
        for (size_t j = 0; j < sources; j++) {
            double dx = bodies[j].x - x, dy = bodies[j].y - y, dz = bodies[j].z - z;
            double inverse = 1 / sqrt(dx * dx + dy * dy + dz * dz + SOFTENING);
            double factor = bodies[j].mass * inverse * inverse * inverse;
            ax += factor * dx;
            ay += factor * dy;
            az += factor * dz;
        }
        acceleration[3 * i] = ax;
        acceleration[3 * i + 1] = ay;
        acceleration[3 * i + 2] = az;
    }
}

KERNEL static void move(size_t n, const double *acceleration, double *velocity, Body *bodies)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 3; k++)
            velocity[3 * i + k] += STEP * acceleration[3 * i + k];
        bodies[i].x += STEP * velocity[3 * i];
        bodies[i].y += STEP * velocity[3 * i + 1];
        bodies[i].z += STEP * velocity[3 * i + 2];
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "bodies [BODIES [SOURCES [STEPS]]]");
    size_t n = number_argument(argc, argv, 1, 256, 1, 10000000);
    size_t sources = number_argument(argc, argv, 2, n, 1, n);
    size_t steps = number_argument(argc, argv, 3, 2, 1, 1000000);
    Body *bodies = allocate_array(n, sizeof *bodies);
    double *velocity = allocate_array(3 * n, sizeof *velocity);
    double *acceleration = allocate_array(3 * n, sizeof *acceleration);
    uint64_t state = 17;
    for (size_t i = 0; i < n; i++)
        bodies[i] = (Body){random_unit(&state), random_unit(&state), random_unit(&state), 1 / (double)n};
    for (size_t step = 0; step < steps; step++) {
        accelerate(n, sources, bodies, acceleration);
        move(n, acceleration, velocity, bodies);
    }
    double momentum = 0, speed = 0;
    for (size_t i = 0; i < n; i++) {
        momentum += bodies[i].mass * velocity[3 * i];
        speed += bodies[i].mass * fabs(velocity[3 * i]);
    }
    printf("bodies %zu  steps %zu  momentum %.1e  checksum %.6e\n", n, steps, fabs(momentum / speed), speed);
    return 0;
}
