/* A recurrence that nobody can divide, then a sum that a team does, OpenMP: bound by its serial part. */
#include "threaded.h"

#include <omp.h>

static uint64_t recurrence(long steps)
{
    uint64_t state = 42;
    for (long i = 0; i < steps; i++)
        state = next_number(state) ^ (state >> 29);
    return state;
}

static uint64_t hashes(long steps)
{
    uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) schedule(static)
    for (long i = 0; i < steps; i++) {
        uint64_t value = next_number((uint64_t)i);
        value ^= value >> 31;
        value = next_number(value);
        sum += value ^ (value >> 29);
    }
    return sum;
}

int main(int argc, char **argv)
{
    omp_set_num_threads(threads_argument(argc, argv));
    uint64_t checksum = recurrence(40000000) ^ hashes(60000000);
    printf("%016llx\n", (unsigned long long)checksum);
    return 0;
}
