/* usage: advection [WIDTH [HEIGHT [STEPS]]]
 *
 * A field carried around by a vortex, semi-Lagrangian: each point takes what was where it came from, interpolated between
 * four neighbours (after Staniforth and Cote, Monthly Weather Review 119, 1991).
 */
#include "program.h"

static float within(float value, float most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

KERNEL static void carry(size_t width, size_t height, const float *restrict from, float *restrict to)
{
    const float turn = 0.02f, shear = 0.03f;
    const int middle_i = (int)height / 2, middle_j = (int)width / 2;
    for (int i = 0; i < (int)height; i++)
        for (int j = 0; j < (int)width; j++) {
            float x = within((float)i + (float)(middle_j - j) * shear, (float)(height - 2));
            float y = within((float)j + (float)(i - middle_i) * turn, (float)(width - 2));
            int row = (int)x, column = (int)y;
            float right = y - (float)column, below = x - (float)row;
            const float *corner = from + (size_t)row * width + (size_t)column;
            to[(size_t)i * width + (size_t)j] =
                (1 - below) * ((1 - right) * corner[0] + right * corner[1]) +
                below * ((1 - right) * corner[width] + right * corner[width + 1]);
        }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "advection [WIDTH [HEIGHT [STEPS]]]");
    size_t width = number_argument(argc, argv, 1, 1021, 2, 10000);
    size_t height = number_argument(argc, argv, 2, 907, 2, 10000), steps = number_argument(argc, argv, 3, 90, 1, 1000000);
    float *from = allocate_array(width * height, sizeof *from), *to = allocate_array(width * height, sizeof *to);
    uint64_t state = 33;
    for (size_t i = 0; i < width * height; i++)
        from[i] = (float)random_unit(&state);
    for (size_t step = 0; step < steps; step++) {
        carry(width, height, from, to);
        float *keep = from;
        from = to;
        to = keep;
    }
    double checksum = 0;
    for (size_t i = 0; i < width * height; i++)
        checksum += from[i];
    printf("points %zu  steps %zu  checksum %.6f\n", width * height, steps, checksum);
    return 0;
}
