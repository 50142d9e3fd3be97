/* usage: quicksort [ELEMENTS]
 *
 * Quicksort of records with a 64-bit key and a 64-bit value: median of three, short parts by insertion.
 */
#include "program.h"

struct record {
    uint64_t key, value;
};

enum { SHORT = 16 };

static void swap(struct record *a, struct record *b)
{
    struct record keep = *a;
    *a = *b;
    *b = keep;
}

/* Splits [first, end) in two, returns where the second part begins: no key before it is greater than one from it on. */
KERNEL static struct record *partition(struct record *first, struct record *end)
{
    struct record *middle = first + (end - first) / 2, *last = end - 1;
    if (middle->key < first->key)
        swap(middle, first);
    if (last->key < first->key)
        swap(last, first);
    if (last->key < middle->key)
        swap(last, middle);
    uint64_t pivot = middle->key;
    for (;;) {
        while (first->key < pivot)
            first++;
        while (last->key > pivot)
            last--;
        if (first >= last)
            return last + 1;
        swap(first++, last--);
    }
}

static void sort_parts(struct record *first, struct record *end)
{
    while (end - first > SHORT) {
        struct record *middle = partition(first, end);
        if (middle - first < end - middle) {
            sort_parts(first, middle);
            first = middle;
        } else {
            sort_parts(middle, end);
            end = middle;
        }
    }
}

KERNEL static void insert_all(size_t n, struct record *records)
{
    for (size_t i = 1; i < n; i++) {
        struct record moved = records[i];
        size_t k = i;
        for (; k > 0 && records[k - 1].key > moved.key; k--)
            records[k] = records[k - 1];
        records[k] = moved;
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 1, "quicksort [ELEMENTS]");
    size_t n = number_argument(argc, argv, 1, 3100000, 1, ARENA_BYTES / sizeof(struct record));
    struct record *records = allocate_array(n, sizeof *records);
    uint64_t state = 16, checksum = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        records[i] = (struct record){random_u64(&state), i};
        sum += records[i].key ^ i;
    }
    sort_parts(records, records + n);
    insert_all(n, records);
    for (size_t i = 0; i < n; i++) {
        if (i && records[i - 1].key > records[i].key) {
            fprintf(stderr, "records %zu and %zu are out of order\n", i - 1, i);
            return 1;
        }
        sum -= records[i].key ^ records[i].value;
        checksum = checksum * 31 + records[i].value;
    }
    printf("elements %zu  checksum %016" PRIx64 "\n", n, checksum);
    return sum != 0;
}
