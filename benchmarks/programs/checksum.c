/* usage: checksum [BYTES [REPETITIONS]]
 *
 * The cyclic redundancy check of 32 bits (ISO 3309, as in gzip) over a buffer, byte by byte by a table.
 */
#include "program.h"

enum { VALUES = 256 };

static void make_table(uint32_t *table)
{
    for (uint32_t value = 0; value < VALUES; value++) {
        uint32_t rest = value;
        for (int bit = 0; bit < 8; bit++)
            rest = rest >> 1 ^ (rest & 1 ? UINT32_C(0xedb88320) : 0);
        table[value] = rest;
    }
}

KERNEL static uint32_t check(size_t bytes, const unsigned char *data, const uint32_t *table, uint32_t rest)
{
    rest = ~rest;
    for (size_t i = 0; i < bytes; i++)
        rest = rest >> 8 ^ table[(rest ^ data[i]) & (VALUES - 1)];
    return ~rest;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "checksum [BYTES [REPETITIONS]]");
    size_t bytes = number_argument(argc, argv, 1, 5000011, 1, 500000000);
    size_t repetitions = number_argument(argc, argv, 2, 37, 1, 1000000);
    unsigned char *data = allocate_bytes(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i % 251);
    uint32_t table[VALUES], rest = 0;
    make_table(table);
    for (size_t repetition = 0; repetition < repetitions; repetition++)
        rest = check(bytes, data, table, rest);
    printf("bytes %zu  repetitions %zu  checksum %" PRIu32 "\n", bytes, repetitions, rest);
    return 0;
}
