/* usage: histogram [WIDTH [HEIGHT [REPETITIONS]]]
 *
 * Evens out the contrast of a grey image of 16-bit pixels: histogram, running sum, and a look-up for each pixel; what
 * comes out is the next repetition's image.
 */
#include "program.h"

enum { LEVELS = 1 << 16 };

/* Blobs of light on a dark ground with noise: most pixels are in few bins. */
KERNEL static void expose(size_t width, size_t height, uint16_t *image)
{
    uint64_t state = 18;
    for (size_t i = 0; i < height; i++)
        for (size_t j = 0; j < width; j++) {
            size_t di = i % 211 > 105 ? 211 - i % 211 : i % 211, dj = j % 173 > 86 ? 173 - j % 173 : j % 173;
            uint32_t light = (uint32_t)(9000000 / (300 + di * di + dj * dj));
            image[i * width + j] = (uint16_t)(light + random_below(&state, 900));
        }
}

KERNEL static void count(size_t pixels, const uint16_t *image, uint32_t *bins)
{
    for (size_t i = 0; i < pixels; i++)
        bins[image[i]]++;
}

KERNEL static void running_sum(size_t pixels, const uint32_t *bins, uint16_t *level)
{
    uint64_t sum = 0;
    for (size_t bin = 0; bin < LEVELS; bin++) {
        sum += bins[bin];
        level[bin] = (uint16_t)(sum * (LEVELS - 1) / pixels);
    }
}

KERNEL static void look_up(size_t pixels, uint16_t *image, const uint16_t *level)
{
    for (size_t i = 0; i < pixels; i++)
        image[i] = level[image[i]];
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "histogram [WIDTH [HEIGHT [REPETITIONS]]]");
    size_t width = number_argument(argc, argv, 1, 3001, 1, 20000);
    size_t height = number_argument(argc, argv, 2, 1999, 1, 20000);
    size_t repetitions = number_argument(argc, argv, 3, 31, 1, 1000000), pixels = width * height;
    uint16_t *image = allocate_array(pixels, sizeof *image);
    static uint32_t bins[LEVELS];
    static uint16_t level[LEVELS];
    expose(width, height, image);
    uint64_t checksum = 0;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        memset(bins, 0, sizeof bins);
        count(pixels, image, bins);
        running_sum(pixels, bins, level);
        look_up(pixels, image, level);
        checksum = checksum * 31 + image[pixels / 2] + bins[image[pixels / 3]];
    }
    printf("pixels %zu  repetitions %zu  checksum %016" PRIx64 "\n", pixels, repetitions, checksum);
    return 0;
}
