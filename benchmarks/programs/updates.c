/* usage: updates [TABLE_MIB [UPDATES]]
 *
 * Random updates of a table of 64-bit words, after the RandomAccess (GUPS) benchmark of HPC Challenge. TABLE_MIB is a
 * power of two.
 */
#include "program.h"

KERNEL static void update(uint64_t *table, size_t mask, size_t updates)
{
    uint64_t next = 1;
    for (size_t i = 0; i < updates; i++) {
        next = next << 1 ^ ((int64_t)next < 0 ? 7 : 0); /* x^63 + x^2 + x + 1, as in HPC Challenge */
        table[next & mask] ^= next;
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "updates [TABLE_MIB [UPDATES]]");
    size_t mib = number_argument(argc, argv, 1, 64, 1, 512);
    size_t updates = number_argument(argc, argv, 2, 28000000, 1, SIZE_MAX / 2);
    if (mib & (mib - 1)) {
        fprintf(stderr, "argument 1 is '%s', must be a power of two\n", argv[1]);
        return 2;
    }
    size_t words = (mib << 20) / sizeof(uint64_t);
    uint64_t *table = allocate_array(words, sizeof *table);
    for (size_t i = 0; i < words; i++)
        table[i] = i;
    update(table, words - 1, updates);
    uint64_t checksum = 0;
    for (size_t i = 0; i < words; i += 61)
        checksum = checksum * 31 + table[i];
    printf("table %zu MiB  updates %zu  checksum %016" PRIx64 "\n", mib, updates, checksum);
    return 0;
}
