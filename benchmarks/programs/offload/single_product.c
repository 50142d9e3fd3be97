/* usage: single_product [SIZE]
 *
 * Product of two square matrices in single precision, C = A B, in blocks of 64 x 64 that stay in
 * the first cache, and in tiles of 4 x 8 that stay in registers.
 */
#include "program.h"

enum { BLOCK = 64, TILE_ROWS = 4, TILE_COLUMNS = 8 };

typedef float Four __attribute__((vector_size(16)));

static inline Four load(const float *from)
{
    Four found;
    memcpy(&found, from, sizeof found);
    return found;
}

static inline void store(Four value, float *to)
{
    memcpy(to, &value, sizeof value);
}

/* A tile of C: of `depth` columns of A and rows of B, onto what is there. */
static inline void tile(size_t n, size_t depth, const float *a, const float *b, float *c)
{
    Four sum[TILE_ROWS][2];
#pragma GCC unroll 4
    for (size_t row = 0; row < TILE_ROWS; row++) {
        sum[row][0] = load(c + row * n);
        sum[row][1] = load(c + row * n + 4);
    }
    for (size_t k = 0; k < depth; k++) {
        Four left = load(b + k * n), right = load(b + k * n + 4);
#pragma GCC unroll 4
        for (size_t row = 0; row < TILE_ROWS; row++) {
            sum[row][0] += a[row * n + k] * left;
            sum[row][1] += a[row * n + k] * right;
        }
    }
#pragma GCC unroll 4
    for (size_t row = 0; row < TILE_ROWS; row++) {
        store(sum[row][0], c + row * n);
        store(sum[row][1], c + row * n + 4);
    }
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
