/* usage: knapsack [THINGS [CAPACITY]]
 *
 * The most valuable things that fit a knapsack, by dynamic programming over its capacity.
 */
#include "program.h"

KERNEL static void consider(size_t capacity, size_t weight, uint64_t value, uint64_t *best)
{
    for (size_t room = capacity; room >= weight; room--) {
        uint64_t with_it = best[room - weight] + value;
        if (with_it > best[room])
            best[room] = with_it;
    }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "knapsack [THINGS [CAPACITY]]");
    size_t things = number_argument(argc, argv, 1, 3011, 1, 1000000);
    size_t capacity = number_argument(argc, argv, 2, 200003, 1, 100000000);
    uint64_t *best = allocate_array(capacity + 1, sizeof *best), state = 35;
    for (size_t i = 0; i < things; i++) {
        size_t weight = 1 + random_below(&state, 3000);
        consider(capacity, weight, 1 + random_below(&state, 10000), best);
    }
    printf("things %zu  capacity %zu  checksum %016" PRIx64 "\n", things, capacity, best[capacity]);
    return 0;
}
