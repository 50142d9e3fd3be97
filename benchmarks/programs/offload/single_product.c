/* usage: single_product [SIZE]
 *
 * Product of two square matrices in single precision, C = A B, in blocks of 64 x 64 that stay in
 * the first cache, and in tiles of 4 x 8 that stay in registers.
 */
#include "program.h"

enum { BLOCK = 64, TILE_ROWS = 4, TILE_COLUMNS = 8 };

/* A tile of C: of `depth` columns of A and rows of B, onto what is there. */
static inline void tile(size_t n, size_t depth, const float *a, const float *b, float *c)
{
    float sum[TILE_ROWS][TILE_COLUMNS] = {{0}};
    for (size_t k = 0; k < depth; k++)
#pragma GCC unroll 4
        for (size_t row = 0; row < TILE_ROWS; row++)
#pragma GCC unroll 8
            for (size_t column = 0; column < TILE_COLUMNS; column++)
                sum[row][column] += a[row * n + k] * b[k * n + column];
#pragma GCC unroll 4
    for (size_t row = 0; row < TILE_ROWS; row++)
#pragma GCC unroll 8
        for (size_t column = 0; column < TILE_COLUMNS; column++)
            c[row * n + column] += sum[row][column];
}

/* Onto C, block by block: what a block reads of A and B stays in the first cache. */
KERNEL static void multiply(size_t n, const float *a, const float *b, float *c)
{
    for (size_t i0 = 0; i0 < n; i0 += BLOCK)
        for (size_t j0 = 0; j0 < n; j0 += BLOCK)
            for (size_t k0 = 0; k0 < n; k0 += BLOCK)
                for (size_t i = i0; i < i0 + BLOCK; i += TILE_ROWS)
                    for (size_t j = j0; j < j0 + BLOCK; j += TILE_COLUMNS)
                        tile(n, BLOCK, a + i * n + k0, b + k0 * n + j, c + i * n + j);
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "single_product [SIZE]");
    size_t n = number_argument(argc, argv, 1, BLOCK, BLOCK, 4096);
    if (n % BLOCK) {
        fprintf(stderr, "a size of %zu: must be a multiple of %d\n", n, BLOCK);
        return 2;
    }
    float *a = allocate_array(n * n, sizeof *a), *b = allocate_array(n * n, sizeof *b);
    float *c = allocate_array(n * n, sizeof *c);
    for (size_t i = 0; i < n * n; i++) { /* small whole numbers: sums are exact */
        a[i] = (float)(i * 7 % 5) - 2;
        b[i] = (float)(i * 11 % 7) - 3;
    }
    multiply(n, a, b, c);
    double wrong = 0, checksum = 0;
    for (size_t sample = 0; sample < 64; sample++) {
        size_t i = sample * 37 % n, j = sample * 53 % n;
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += (double)a[i * n + k] * b[k * n + j];
        wrong = fmax(wrong, fabs(sum - c[i * n + j]));
    }
    for (size_t i = 0; i < n * n; i++)
        checksum += c[i] * (double)(i % 3 + 1);
    printf("size %zu  error %.1e  checksum %.1f\n", n, wrong, checksum);
    return 0;
}
