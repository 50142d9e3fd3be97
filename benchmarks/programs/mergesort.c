/* usage: mergesort [ELEMENTS]
 *
 * Bottom-up merge sort of 32-bit keys.
 */
#include "program.h"

KERNEL static void merge(const uint32_t *from, uint32_t *to, size_t left, size_t middle, size_t end)
{
    size_t i = left, j = middle;
    for (size_t k = left; k < end; k++)
        to[k] = i < middle && (j >= end || from[i] <= from[j]) ? from[i++] : from[j++];
}

/* Sorts `keys`, with `spare` as work space; returns the one of the two that holds the result. */
static uint32_t *merge_sort(uint32_t *keys, uint32_t *spare, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t left = 0; left < n; left += 2 * width) {
            size_t middle = left + width < n ? left + width : n;
            size_t end = left + 2 * width < n ? left + 2 * width : n;
            merge(keys, spare, left, middle, end);
        }
        uint32_t *swap = keys;
        keys = spare;
        spare = swap;
    }
    return keys;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "mergesort [ELEMENTS]");
    size_t n = number_argument(argc, argv, 1, 1600000, 1, ARENA_BYTES / 8 / 2);
    uint32_t *keys = allocate_array(n, sizeof *keys), *spare = allocate_array(n, sizeof *spare);
    uint64_t state = 4;
    for (size_t i = 0; i < n; i++)
        keys[i] = (uint32_t)random_u64(&state);
    keys = merge_sort(keys, spare, n);
    uint64_t checksum = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && keys[i - 1] > keys[i]) {
            fprintf(stderr, "keys %zu and %zu are out of order\n", i - 1, i);
            return 1;
        }
        checksum = checksum * 31 + keys[i];
    }
    printf("elements %zu  checksum %016" PRIx64 "\n", n, checksum);
    return 0;
}
