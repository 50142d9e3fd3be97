/* usage: all_pairs [VERTICES]
 *
 * Shortest paths between all pairs of vertices of a dense graph (Floyd, "Algorithm 97", CACM 5, 1962).
 */
#include "program.h"

KERNEL static void shorten(size_t n, uint32_t *length)
{
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++) {
            uint32_t first = length[i * n + k];
            for (size_t j = 0; j < n; j++) {
                uint32_t around = first + length[k * n + j];
                if (around < length[i * n + j])
                    length[i * n + j] = around;
            }
        }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "all_pairs [VERTICES]");
    size_t n = number_argument(argc, argv, 1, 811, 1, 4000);
    uint32_t *length = allocate_array(n * n, sizeof *length);
    uint64_t state = 34, checksum = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            length[i * n + j] = i == j ? 0 : 1 + (uint32_t)random_below(&state, 10000);
    shorten(n, length);
    for (size_t i = 0; i < n * n; i++)
        checksum = checksum * 31 + length[i];
    printf("vertices %zu  checksum %016" PRIx64 "\n", n, checksum);
    return 0;
}
