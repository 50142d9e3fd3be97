/* usage: sgbench [RANGE_BYTES [MODE [ELEMENT_BYTES [REPETITIONS [PADDING_BYTES]]]]]
 *
 * Local gather and scatter loops after SGBench (Carrington et al., "An Idiom-finding Tool for Increasing Productivity of
 * Accelerators", ICS'11, section 3.1). RANGE_BYTES is the size of A. B and the index array have as many elements as A has
 * quarters: with 8-byte elements and 4-byte indices A, B and index relate as 8 : 2 : 1, as in table 2 of that paper.
 *
 * MODE   random     indices anywhere in A
 *        clustered  random within 16 sections of A that are visited one after the other
 *        spread     a constant stride over A, in random order
 *        stride1    0, 1, 2, ...; A has as many elements as B
 * Every index set holds A's first and last element. PADDING_BYTES lie between the arrays. RANGE_BYTES is rounded down to a
 * multiple of 32, so that every array keeps its elements aligned.
 */
#include "program.h"

#define RATIO 4
#define CLUSTERS 16

KERNEL static void scatter_4(size_t n, uint32_t *A, const uint32_t *B, const uint32_t *index)
{
    for (size_t i = 0; i < n; i++)
        A[index[i]] = B[i];
}

KERNEL static void gather_4(size_t n, const uint32_t *A, uint32_t *B, const uint32_t *index)
{
    for (size_t i = 0; i < n; i++)
        B[i] = A[index[i]];
}

KERNEL static void scatter_8(size_t n, uint64_t *A, const uint64_t *B, const uint32_t *index)
{
    for (size_t i = 0; i < n; i++)
        A[index[i]] = B[i];
}

KERNEL static void gather_8(size_t n, const uint64_t *A, uint64_t *B, const uint32_t *index)
{
    for (size_t i = 0; i < n; i++)
        B[i] = A[index[i]];
}

static void shuffle(uint32_t *index, size_t n, uint64_t *state)
{
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = random_below(state, i + 1);
        uint32_t swap = index[i];
        index[i] = index[j];
        index[j] = swap;
    }
}

static void fill_index(uint32_t *index, size_t n, size_t elements, const char *mode)
{
    uint64_t state = 5;
    for (size_t i = 0; i < n; i++) {
        size_t section = i * CLUSTERS / n * elements / CLUSTERS; /* where the cluster of i begins */
        if (!strcmp(mode, "random"))
            index[i] = (uint32_t)random_below(&state, elements);
        else if (!strcmp(mode, "clustered")) /* a section's first quarter */
            index[i] = (uint32_t)(section + random_below(&state, elements / CLUSTERS / RATIO + 1));
        else if (!strcmp(mode, "spread"))
            index[i] = (uint32_t)(i * (elements - 1) / (n - 1));
        else
            index[i] = (uint32_t)i;
    }
    if (!strcmp(mode, "spread")) {
        shuffle(index, n, &state);
    } else if (strcmp(mode, "stride1")) {
        index[n / 2] = 0;
        index[n - 1] = (uint32_t)(elements - 1);
    }
}

static void check_mode(const char *mode)
{
    static const char *const modes[] = {"random", "clustered", "spread", "stride1"};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(mode, modes[i]))
            return;
    fprintf(stderr, "argument 2 is '%s', must be random, clustered, spread or stride1\n", mode);
    exit(2);
}

/* Takes an array's bytes and the padding behind it from the free memory, and prints a line about it. */
static void *place(unsigned char **free_memory, size_t bytes, size_t padding_bytes, const char *name)
{
    unsigned char *array = *free_memory;
    *free_memory += bytes + padding_bytes;
    printf("%-6s %14p %12zu\n", name, (void *)array, bytes);
    return array;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 5, "sgbench [RANGE_BYTES [MODE [ELEMENT_BYTES [REPETITIONS [PADDING_BYTES]]]]]");
    size_t element_bytes = number_argument(argc, argv, 3, 8, 4, 8);
    size_t range_bytes = number_argument(argc, argv, 1, 1 << 20, RATIO * CLUSTERS * 8, ARENA_BYTES / 4) / 32 * 32;
    size_t repetitions = number_argument(argc, argv, 4, 1, 1, 1000000);
    size_t padding_bytes = number_argument(argc, argv, 5, 4096, 8, ARENA_BYTES / 8);
    const char *mode = argc > 2 ? argv[2] : "random";
    size_t elements = range_bytes / element_bytes, n = elements / RATIO;
    check_mode(mode);
    if (element_bytes != 4 && element_bytes != 8) {
        fprintf(stderr, "argument 3 is '%s', must be 4 or 8\n", argv[3]);
        return 2;
    }
    if (padding_bytes % 8) {
        fprintf(stderr, "argument 5 is '%s', must be a multiple of 8\n", argv[5]);
        return 2;
    }
    if (!strcmp(mode, "stride1"))
        elements = n;

    size_t A_bytes = elements * element_bytes, B_bytes = n * element_bytes, index_bytes = n * sizeof(uint32_t);
    unsigned char *free_memory = allocate_bytes(A_bytes + B_bytes + index_bytes + 3 * padding_bytes);
    printf("array         address        bytes\n");
    void *A = place(&free_memory, A_bytes, padding_bytes, "A");
    void *B = place(&free_memory, B_bytes, padding_bytes, "B");
    uint32_t *index = place(&free_memory, index_bytes, padding_bytes, "index");
    fill_index(index, n, elements, mode);
    memset(B, 1, B_bytes);
    for (size_t repetition = 0; repetition < repetitions; repetition++) {
        if (element_bytes == 4) {
            scatter_4(n, A, B, index);
            gather_4(n, A, B, index);
        } else {
            scatter_8(n, A, B, index);
            gather_8(n, A, B, index);
        }
    }
    uint64_t checksum = 0;
    for (size_t i = 0; i < A_bytes; i++)
        checksum += ((unsigned char *)A)[i];
    printf("mode %s  elements %zu  checksum %" PRIu64 "\n", mode, n, checksum);
    return 0;
}
