/* usage: stencil2d [WIDTH [HEIGHT [STEPS]]]
 *
 * Waves on a membrane of uneven thickness: a five-point stencil with a coefficient for each point, two time levels.
 */
#include "program.h"

KERNEL static void step(size_t width, size_t height, const double *c, const double *u, double *previous)
{
    for (size_t i = 1; i + 1 < height; i++)
        for (size_t j = 1; j + 1 < width; j++) {
            size_t k = i * width + j;
            double laplacian = u[k - 1] + u[k + 1] + u[k - width] + u[k + width] - 4 * u[k];
            previous[k] = 2 * u[k] - previous[k] + c[k] * laplacian;
        }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "stencil2d [WIDTH [HEIGHT [STEPS]]]");
    size_t width = number_argument(argc, argv, 1, 1531, 3, 20000);
    size_t height = number_argument(argc, argv, 2, 1187, 3, 20000);
    size_t steps = number_argument(argc, argv, 3, 90, 1, 1000000), points = width * height;
    double *c = allocate_array(points, sizeof *c), *u = allocate_array(points, sizeof *u);
    double *previous = allocate_array(points, sizeof *previous);
    uint64_t state = 19;
    for (size_t k = 0; k < points; k++)
        c[k] = 0.1 + 0.3 * random_unit(&state);
    u[height / 3 * width + width / 2] = previous[height / 3 * width + width / 2] = 1;
    for (size_t s = 0; s < steps; s++) {
        step(width, height, c, u, previous);
        double *swap = u;
        u = previous;
        previous = swap;
    }
    double sum = 0;
    for (size_t k = 0; k < points; k++)
        sum += fabs(u[k]);
    printf("points %zu x %zu  steps %zu  checksum %.10f\n", width, height, steps, sum);
    return 0;
}
