/* usage: bins [VALUES [BINS [HOT_PERCENT]]]
 *
 * Histogram of 4-byte values: a[value] += 1. HOT_PERCENT of the values fall into the first bin, the others anywhere.
 */
#include "program.h"

KERNEL static void count_values(size_t n, const uint32_t *values, uint32_t *counts)
{
    for (size_t i = 0; i < n; i++)
        counts[values[i]]++;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "bins [VALUES [BINS [HOT_PERCENT]]]");
    size_t n = number_argument(argc, argv, 1, 1 << 18, 1, 200000000);
    size_t bins = number_argument(argc, argv, 2, 256, 1, 50000000);
    size_t hot = number_argument(argc, argv, 3, 0, 0, 100);
    uint32_t *values = allocate_array(n, sizeof *values), *counts = allocate_array(bins, sizeof *counts);
    uint64_t state = 23;
    for (size_t i = 0; i < n; i++)
        values[i] = random_below(&state, 100) < hot ? 0 : (uint32_t)random_below(&state, bins);
    count_values(n, values, counts);
    uint64_t total = 0, checksum = 0;
    for (size_t bin = 0; bin < bins; bin++) {
        total += counts[bin];
        checksum += counts[bin] * (uint64_t)(bin + 1);
    }
    printf("values %zu  bins %zu  counted %" PRIu64 "  checksum %" PRIu64 "\n", n, bins, total, checksum);
    return 0;
}
