// Counts of random keys, a table for each thread, merged in a critical section, OpenMP in C++: latency of caches.
#include "threaded.h"

#include <cstdio>
#include <omp.h>
#include <vector>

constexpr int KEYS = 1 << 16;

static std::vector<unsigned> count(long draws)
{
    std::vector<unsigned> total(KEYS, 0);
#pragma omp parallel
    {
        std::vector<unsigned> own(KEYS, 0);
#pragma omp for schedule(static)
        for (long i = 0; i < draws; i++) {
            uint64_t value = next_number(static_cast<uint64_t>(i) * 2654435761u);
            own[(value ^ (value >> 33)) >> 3 & (KEYS - 1)]++;
        }
#pragma omp critical
        for (int key = 0; key < KEYS; key++)
            total[key] += own[key];
    }
    return total;
}

int main(int argc, char **argv)
{
    omp_set_num_threads(threads_argument(argc, argv));
    uint64_t checksum = 0;
    for (unsigned number : count(60000000))
        checksum = checksum * 31 + number;
    std::printf("%016llx\n", static_cast<unsigned long long>(checksum));
    return 0;
}
