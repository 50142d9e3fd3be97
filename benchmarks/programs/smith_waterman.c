/* usage: smith_waterman [LETTERS_A [LETTERS_B]]
 *
 * Best local alignment of two DNA sequences, gaps costing more to open than to extend (Smith and Waterman, with Gotoh's
 * affine gaps). The second sequence is the first with pieces moved and letters changed.
 */
#include "program.h"

static const int MATCH = 5, MISMATCH = -4, OPEN = -12, EXTEND = -2;

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* `score` and `gap`, one for each letter of b, hold the row above and then the row. */
KERNEL static int align(size_t m, const uint8_t *a, size_t n, const uint8_t *b, int *score, int *gap)
{
    int best = 0;
    for (size_t i = 0; i < m; i++) {
        int diagonal = 0, left = 0, across = OPEN;
        for (size_t j = 0; j < n; j++) {
            int down = larger(gap[j] + EXTEND, score[j] + OPEN);
            across = larger(across + EXTEND, left + OPEN);
            int here = diagonal + (a[i] == b[j] ? MATCH : MISMATCH);
            here = larger(larger(here, 0), larger(down, across));
            diagonal = score[j];
            score[j] = left = here;
            gap[j] = down;
            best = larger(best, here);
        }
    }
    return best;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "smith_waterman [LETTERS_A [LETTERS_B]]");
    size_t m = number_argument(argc, argv, 1, 11003, 1, 1000000);
    size_t n = number_argument(argc, argv, 2, 9001, 1, 1000000);
    uint8_t *a = allocate_array(m, sizeof *a), *b = allocate_array(n, sizeof *b);
    int *score = allocate_array(n, sizeof *score), *gap = allocate_array(n, sizeof *gap);
    uint64_t state = 20;
    for (size_t i = 0; i < m; i++)
        a[i] = (uint8_t)random_below(&state, 4);
    for (size_t j = 0, from = 0; j < n; j++, from++) {
        if (random_below(&state, 100) == 0)
            from = random_below(&state, m);
        b[j] = random_below(&state, 20) ? a[from % m] : (uint8_t)random_below(&state, 4);
    }
    for (size_t j = 0; j < n; j++)
        gap[j] = OPEN;
    int best = align(m, a, n, b, score, gap);
    uint64_t checksum = 0;
    for (size_t j = 0; j < n; j++)
        checksum = checksum * 31 + (uint64_t)score[j];
    printf("letters %zu x %zu  best score %d  checksum %016" PRIx64 "\n", m, n, best, checksum);
    return 0;
}
