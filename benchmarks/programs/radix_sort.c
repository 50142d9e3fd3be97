/* usage: radix_sort [KEYS [REPETITIONS]]
 *
 * Sorts 32-bit keys by their bytes, the lowest first: each pass deals them out to 256 piles that grow side by side.
 */
#include "program.h"

enum { KEY_BITS = 32, DIGIT_BITS = 8, PILES = 1 << DIGIT_BITS };

KERNEL static void count(size_t n, const uint32_t *keys, int shift, size_t *starts)
{
    size_t sizes[PILES] = {0}, start = 0;
    for (size_t i = 0; i < n; i++)
        sizes[keys[i] >> shift & (PILES - 1)]++;
    for (size_t pile = 0; pile < PILES; pile++) {
        starts[pile] = start;
        start += sizes[pile];
    }
}

KERNEL static void deal(size_t n, const uint32_t *restrict keys, int shift, size_t *restrict starts, uint32_t *restrict piles)
{
    for (size_t i = 0; i < n; i++)
        piles[starts[keys[i] >> shift & (PILES - 1)]++] = keys[i];
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "radix_sort [KEYS [REPETITIONS]]");
    size_t n = number_argument(argc, argv, 1, 3000017, 1, 100000000);
    size_t repetitions = number_argument(argc, argv, 2, 13, 1, 1000000), starts[PILES];
    uint32_t *keys = allocate_array(n, sizeof *keys), *piles = allocate_array(n, sizeof *piles);
    uint64_t state = 31, checksum = 0;
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        for (size_t i = 0; i < n; i++)
            keys[i] = (uint32_t)random_u64(&state);
        for (int shift = 0; shift < KEY_BITS; shift += DIGIT_BITS) {
            count(n, keys, shift, starts);
            deal(n, keys, shift, starts, piles);
            uint32_t *keep = keys;
            keys = piles;
            piles = keep;
        }
        for (size_t i = 1; i < n; i++)
            if (keys[i] < keys[i - 1]) {
                fprintf(stderr, "keys %zu and %zu are out of order\n", i - 1, i);
                return 1;
            }
        checksum = checksum * 31 + keys[n / 3];
    }
    printf("keys %zu  repetitions %zu  checksum %016" PRIx64 "\n", n, repetitions, checksum);
    return 0;
}
