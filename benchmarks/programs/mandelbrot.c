/* usage: mandelbrot [WIDTH [HEIGHT [ITERATIONS]]]
 *
 * The Mandelbrot set near its seahorse valley: how many iterations each point takes to escape.
 */
#include "program.h"

KERNEL static uint32_t escape(double cx, double cy, uint32_t iterations)
{
    double x = 0, y = 0, x2 = 0, y2 = 0;
    uint32_t n = 0;
    for (; n < iterations && x2 + y2 <= 4; n++) {
        y = 2 * x * y + cy;
        x = x2 - y2 + cx;
        x2 = x * x;
        y2 = y * y;
    }
    return n;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "mandelbrot [WIDTH [HEIGHT [ITERATIONS]]]");
    size_t width = number_argument(argc, argv, 1, 907, 1, 10000), height = number_argument(argc, argv, 2, 613, 1, 10000);
    uint32_t iterations = (uint32_t)number_argument(argc, argv, 3, 300, 1, 1000000);
    uint16_t *image = allocate_array(width * height, sizeof *image);
    uint64_t checksum = 0;
    for (size_t i = 0; i < height; i++)
        for (size_t j = 0; j < width; j++) {
            double cx = -0.82 + 0.14 * (double)j / (double)width, cy = 0.06 + 0.1 * (double)i / (double)height;
            uint32_t n = escape(cx, cy, iterations);
            image[i * width + j] = (uint16_t)n;
            checksum += n;
        }
    printf("points %zu x %zu  middle %u  checksum %" PRIu64 "\n", width, height, image[width * height / 2], checksum);
    return 0;
}
