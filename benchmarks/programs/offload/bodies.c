/* usage: bodies [BODIES [STEPS]]
 *
 * Gravity between all pairs of bodies in single precision, 20 operations a pair as GPU Gems 3, chapter 31 counts them.
 */
#include "../program.h"

typedef struct {
    float x, y, z, mass;
} Body;

static const float SOFTENING = 0.01f, STEP = 0.001f;

KERNEL static void accelerate(size_t n, const Body *bodies, float *acceleration)
{
    for (size_t i = 0; i < n; i++) {
        float ax = 0, ay = 0, az = 0, x = bodies[i].x, y = bodies[i].y, z = bodies[i].z;
        for (size_t j = 0; j < n; j++) {
            float dx = bodies[j].x - x, dy = bodies[j].y - y, dz = bodies[j].z - z;
            float inverse = 1 / sqrtf(dx * dx + dy * dy + dz * dz + SOFTENING);
            float factor = bodies[j].mass * inverse * inverse * inverse;
            ax += factor * dx;
            ay += factor * dy;
            az += factor * dz;
        }
        acceleration[3 * i] = ax;
        acceleration[3 * i + 1] = ay;
        acceleration[3 * i + 2] = az;
    }
}

KERNEL static void move(size_t n, const float *acceleration, float *velocity, Body *bodies)
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
    check_usage(argc, argv, 2, "bodies [BODIES [STEPS]]");
    size_t n = number_argument(argc, argv, 1, 256, 1, 10000000);
    size_t steps = number_argument(argc, argv, 2, 2, 1, 1000000);
    Body *bodies = allocate_array(n, sizeof *bodies);
    float *velocity = allocate_array(3 * n, sizeof *velocity);
    float *acceleration = allocate_array(3 * n, sizeof *acceleration);
    uint64_t state = 17;
    for (size_t i = 0; i < n; i++)
        bodies[i] = (Body){(float)random_unit(&state), (float)random_unit(&state), (float)random_unit(&state),
                           1 / (float)n};
    for (size_t step = 0; step < steps; step++) {
        accelerate(n, bodies, acceleration);
        move(n, acceleration, velocity, bodies);
    }
    double momentum = 0, speed = 0;
    for (size_t i = 0; i < n; i++) {
        momentum += bodies[i].mass * (double)velocity[3 * i];
        speed += bodies[i].mass * fabs((double)velocity[3 * i]);
    }
    printf("bodies %zu  steps %zu  momentum %.1e  checksum %.6e\n", n, steps, fabs(momentum / speed), speed);
    return 0;
}
