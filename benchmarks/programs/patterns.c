/* usage: patterns NAME [SIZE [REPETITIONS]]
 *
 * One access pattern each, for the table of miss rates: those that caches are known to do well and badly at. SIZE is the
 * number of rows of a square matrix, or of elements.
 */
#include "program.h"

static uint64_t state = 7;

static double *random_array(size_t count)
{
    double *array = allocate_array(count, sizeof *array);
    for (size_t i = 0; i < count; i++)
        array[i] = random_unit(&state);
    return array;
}

/* Down the columns of a matrix whose rows are a power of two apart. */
KERNEL static double columns(size_t n, size_t repetitions)
{
    double *a = random_array(n * n), sum = 0;
    for (size_t r = 0; r < repetitions; r++)
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++)
                sum += a[i * n + j];
    return sum;
}

KERNEL static double transpose(size_t n, size_t repetitions)
{
    double *a = random_array(n * n), *b = random_array(n * n);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                b[j * n + i] = a[i * n + j];
    return b[n];
}

KERNEL static double product(size_t n, size_t block)
{
    double *a = random_array(n * n), *b = random_array(n * n), *c = random_array(n * n);
    block = block < n ? block : n;
    for (size_t ii = 0; ii < n; ii += block)
        for (size_t kk = 0; kk < n; kk += block)
            for (size_t jj = 0; jj < n; jj += block)
                for (size_t i = ii; i < n && i < ii + block; i++)
                    for (size_t j = jj; j < n && j < jj + block; j++) {
                        double sum = c[i * n + j];
                        for (size_t k = kk; k < n && k < kk + block; k++)
                            sum += a[i * n + k] * b[k * n + j];
                        c[i * n + j] = sum;
                    }
    return c[1];
}

/* The data flow of a radix-2 FFT: every power-of-two distance, twiddle factors at another stride each. */
KERNEL static double butterflies(size_t n, size_t repetitions)
{
    double *re = random_array(n), *im = random_array(n), *w = random_array(n);
    for (size_t r = 0; r < repetitions; r++)
        for (size_t half = 1; half < n; half *= 2)
            for (size_t i = 0; i < n; i += 2 * half)
                for (size_t k = 0; k < half; k++) {
                    double factor = w[k * (n / half / 2)];
                    double u = re[i + k], v = im[i + k], x = re[i + half + k] * factor, y = im[i + half + k] * factor;
                    re[i + k] = u + x, im[i + k] = v + y;
                    re[i + half + k] = u - x, im[i + half + k] = v - y;
                }
    return re[1] + im[1];
}

/* Five points of a square grid, there and back. */
KERNEL static double stencil(size_t n, size_t repetitions)
{
    double *a = random_array(n * n), *b = random_array(n * n);
    for (size_t r = 0; r < repetitions; r++) {
        for (size_t i = 1; i + 1 < n; i++)
            for (size_t j = 1; j + 1 < n; j++)
                b[i * n + j] = 0.25 * (a[i * n + j - 1] + a[i * n + j + 1] + a[(i - 1) * n + j] + a[(i + 1) * n + j]);
        double *other = a;
        a = b, b = other;
    }
    return a[n + 1];
}

/* Open addressing, a third full at most: inserts, then finds what is there and what is not. */
KERNEL static double hash_table(size_t n, size_t repetitions)
{
    size_t slots = 1;
    while (slots < 3 * n)
        slots *= 2;
    uint64_t *table = allocate_array(slots, sizeof *table), found = 0;
    for (size_t r = 0; r <= repetitions; r++)
        for (size_t k = 0; k < n; k++) {
            uint64_t seed = k + (r & 1) * n / 2, key = random_u64(&seed) | 1;
            size_t slot = (size_t)(key >> 20) & (slots - 1);
            while (table[slot] && table[slot] != key)
                slot = (slot + 1) & (slots - 1);
            found += table[slot] == key;
            if (r == 0)
                table[slot] = key;
        }
    return (double)found;
}

/* Gathers of which the i-th most popular element takes a share of about 1/i. */
KERNEL static double zipf(size_t n, size_t repetitions)
{
    double *a = random_array(n), sum = 0, log_n = log((double)n);
    for (size_t k = 0; k < n * repetitions; k++) {
        size_t rank = (size_t)exp(random_unit(&state) * log_n);
        sum += a[rank * 40503 % n];
    }
    return sum;
}

/* One list through all elements in random order. */
KERNEL static double list(size_t n, size_t repetitions)
{
    struct node {
        struct node *next;
        double value, unused[2];
    } *nodes = allocate_array(n, sizeof *nodes), *at = nodes;
    uint32_t *order = allocate_array(n, sizeof *order);
    for (size_t i = 0; i < n; i++) {
        size_t j = random_below(&state, i + 1);
        order[i] = order[j];
        order[j] = (uint32_t)i;
    }
    for (size_t i = 0; i < n; i++)
        nodes[order[i]] = (struct node){&nodes[order[(i + 1) % n]], random_unit(&state), {0, 0}};
    double sum = 0;
    for (size_t k = 0; k < n * repetitions; k++, at = at->next)
        sum += at->value;
    return sum;
}

KERNEL static double heap_sort(size_t n, size_t repetitions)
{
    double sum = 0;
    for (size_t r = 0; r < repetitions; r++) {
        double *a = random_array(n);
        for (size_t start = n / 2, end = n; end > 1;) {
            if (start)
                start--;
            else {
                double last = a[--end];
                a[end] = a[0];
                a[0] = last;
            }
            size_t root = start;
            for (size_t child; (child = 2 * root + 1) < end; root = child) {
                child += child + 1 < end && a[child] < a[child + 1];
                if (a[root] >= a[child])
                    break;
                double swapped = a[root];
                a[root] = a[child];
                a[child] = swapped;
            }
        }
        sum += a[n / 2];
    }
    return sum;
}

/* A search tree grown in random order, then looked up in. */
KERNEL static double tree(size_t n, size_t repetitions)
{
    struct node {
        struct node *child[2];
        uint64_t key, value;
    } *nodes = allocate_array(n + 1, sizeof *nodes), *root = NULL;
    size_t used = 0, depth = 0;
    for (size_t k = 0; k < n * (1 + repetitions); k++) {
        uint64_t seed = k % n, key = random_u64(&seed);
        struct node **at = &root;
        for (; *at && (*at)->key != key; depth++)
            at = &(*at)->child[key > (*at)->key];
        if (!*at) {
            *at = &nodes[used++];
            **at = (struct node){{NULL, NULL}, key, k};
        }
    }
    return (double)depth;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        double (*run)(size_t, size_t);
        size_t size, repetitions;
    } patterns[] = {
        {"columns", columns, 1024, 12},        {"transpose", transpose, 1000, 6}, {"product", product, 192, 192},
        {"blocked-product", product, 192, 32}, {"fft", butterflies, 65536, 2},    {"stencil", stencil, 500, 12},
        {"hash", hash_table, 400000, 8},       {"zipf", zipf, 400000, 15},        {"list", list, 100000, 50},
        {"heap-sort", heap_sort, 200000, 1},   {"tree", tree, 60000, 4},
    };
    const size_t num_patterns = sizeof patterns / sizeof *patterns;
    check_usage(argc, argv, 3, "patterns NAME [SIZE [REPETITIONS]]");
    for (size_t i = 0; i < num_patterns; i++)
        if (argc > 1 && !strcmp(argv[1], patterns[i].name)) {
            size_t size = number_argument(argc, argv, 2, patterns[i].size, 2, 100000000);
            size_t repetitions = number_argument(argc, argv, 3, patterns[i].repetitions, 1, 1000000);
            printf("checksum %g\n", patterns[i].run(size, repetitions));
            return 0;
        }
    fprintf(stderr, "NAME must be one of:");
    for (size_t i = 0; i < num_patterns; i++)
        fprintf(stderr, " %s", patterns[i].name);
    fprintf(stderr, "\n");
    return 2;
}
