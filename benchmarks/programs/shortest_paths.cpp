/* usage: shortest_paths [WIDTH [HEIGHT [SOURCES]]]
 *
 * Shortest paths from a few crossings of a town's streets to all others (Dijkstra's algorithm with a binary heap). The
 * streets are a grid with uneven lengths and gaps, and a few fast roads across it.
 */
#include "program.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

struct Road {
    uint32_t to, length;
};

struct Town {
    std::vector<uint32_t> start;
    std::vector<Road> roads; /* roads[start[v] .. start[v + 1]) leave crossing v */
};

static const uint64_t FAR = UINT64_MAX;

static Town make_town(size_t width, size_t height)
{
    uint64_t state = 35;
    std::vector<std::vector<Road>> leaving(width * height);
    auto connect = [&](size_t a, size_t b, size_t length) {
        leaving[a].push_back({(uint32_t)b, (uint32_t)length});
        leaving[b].push_back({(uint32_t)a, (uint32_t)length});
    };
    for (size_t v = 0; v < width * height; v++) {
        if (v % width + 1 < width && random_below(&state, 8))
            connect(v, v + 1, 50 + random_below(&state, 100));
        if (v / width + 1 < height && random_below(&state, 8))
            connect(v, v + width, 50 + random_below(&state, 100));
        if (random_below(&state, 300) == 0)
            connect(v, random_below(&state, width * height), 1500 + random_below(&state, 3000));
    }
    Town town{{0}, {}};
    for (const std::vector<Road> &roads : leaving) {
        town.roads.insert(town.roads.end(), roads.begin(), roads.end());
        town.start.push_back((uint32_t)town.roads.size());
    }
    return town;
}

KERNEL static std::vector<uint64_t> distances(const Town &town, uint32_t source)
{
    using Entry = std::pair<uint64_t, uint32_t>; /* distance, crossing */
    std::vector<uint64_t> distance(town.start.size() - 1, FAR);
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue;
    distance[source] = 0;
    queue.emplace(0, source);
    while (!queue.empty()) {
        auto [reached, v] = queue.top();
        queue.pop();
        if (reached > distance[v])
            continue;
        for (uint32_t k = town.start[v]; k < town.start[v + 1]; k++) {
            const Road &road = town.roads[k];
            uint64_t through = reached + road.length;
            if (through < distance[road.to]) {
                distance[road.to] = through;
                queue.emplace(through, road.to);
            }
        }
    }
    return distance;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "shortest_paths [WIDTH [HEIGHT [SOURCES]]]");
    size_t width = number_argument(argc, argv, 1, 397, 2, 10000), height = number_argument(argc, argv, 2, 293, 2, 10000);
    size_t sources = number_argument(argc, argv, 3, 17, 1, 1000000);
    Town town = make_town(width, height);
    uint64_t sum = 0, farthest = 0;
    for (size_t s = 0; s < sources; s++)
        for (uint64_t distance : distances(town, (uint32_t)(s * 7919 % (width * height))))
            if (distance != FAR) {
                sum += distance;
                farthest = std::max(farthest, distance);
            }
    printf("crossings %zu  roads %zu  farthest %" PRIu64 "  checksum %" PRIu64 "\n", width * height, town.roads.size(),
           farthest, sum);
    return 0;
}
