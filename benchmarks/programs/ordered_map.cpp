/* usage: ordered_map [ENTRIES [LOOKUPS]]
 *
 * A balanced tree (std::map) as an index: entries inserted in no order, looked up, ranges summed, a part of them removed.
 */
#include "program.h"

#include <map>

using Index = std::map<uint64_t, uint64_t>;

KERNEL static void insert(Index &index, size_t entries, uint64_t &state)
{
    for (size_t i = 0; i < entries; i++)
        index.emplace(random_below(&state, 4 * entries), i);
}

KERNEL static size_t look_up(const Index &index, size_t lookups, uint64_t limit, uint64_t &state, uint64_t &sum)
{
    size_t found = 0;
    for (size_t i = 0; i < lookups; i++) {
        auto entry = index.find(random_below(&state, limit));
        if (entry != index.end()) {
            found++;
            sum += entry->second;
        }
    }
    return found;
}

KERNEL static void sum_ranges(const Index &index, size_t ranges, uint64_t limit, uint64_t &state, uint64_t &sum)
{
    for (size_t i = 0; i < ranges; i++) {
        auto entry = index.lower_bound(random_below(&state, limit));
        for (int k = 0; k < 40 && entry != index.end(); k++, ++entry)
            sum += entry->first ^ entry->second;
    }
}

KERNEL static void remove(Index &index, size_t tries, uint64_t limit, uint64_t &state)
{
    for (size_t i = 0; i < tries; i++)
        index.erase(random_below(&state, limit));
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "ordered_map [ENTRIES [LOOKUPS]]");
    size_t entries = number_argument(argc, argv, 1, 190000, 1, 10000000);
    size_t lookups = number_argument(argc, argv, 2, 270000, 1, 100000000);
    uint64_t state = 36, sum = 0, limit = 4 * entries;
    Index index;
    insert(index, entries, state);
    size_t found = look_up(index, lookups, limit, state, sum);
    sum_ranges(index, lookups / 30, limit, state, sum);
    remove(index, entries, limit, state);
    for (auto [key, value] : index)
        sum = sum * 31 + key + value;
    printf("entries %zu  found %zu  left %zu  checksum %016" PRIx64 "\n", entries, found, index.size(), sum);
    return 0;
}
