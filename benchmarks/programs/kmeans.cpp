/* usage: kmeans [POINTS [CLUSTERS [ITERATIONS]]]
 *
 * Groups points in seven dimensions around their nearest centre, and moves the centres to the middle of their groups
 * (Lloyd's algorithm).
 */
#include "program.h"

#include <array>
#include <vector>

enum { DIMENSIONS = 7 };

using Point = std::array<float, DIMENSIONS>;

static float distance(const Point &a, const Point &b)
{
    float sum = 0;
    for (size_t d = 0; d < DIMENSIONS; d++)
        sum += (a[d] - b[d]) * (a[d] - b[d]);
    return sum;
}

/* The nearest centre of each point; returns how many points have another one than before. */
KERNEL static size_t assign(const std::vector<Point> &points, const std::vector<Point> &centres, std::vector<int> &nearest)
{
    size_t changed = 0;
    for (size_t i = 0; i < points.size(); i++) {
        int best = 0;
        float least = distance(points[i], centres[0]);
        for (size_t c = 1; c < centres.size(); c++) {
            float found = distance(points[i], centres[c]);
            if (found < least) {
                least = found;
                best = (int)c;
            }
        }
        changed += nearest[i] != best;
        nearest[i] = best;
    }
    return changed;
}

KERNEL static void move_centres(const std::vector<Point> &points, const std::vector<int> &nearest, std::vector<Point> &centres)
{
    std::vector<std::array<double, DIMENSIONS>> sums(centres.size());
    std::vector<size_t> members(centres.size());
    for (size_t i = 0; i < points.size(); i++) {
        auto group = (size_t)nearest[i];
        members[group]++;
        for (size_t d = 0; d < DIMENSIONS; d++)
            sums[group][d] += (double)points[i][d];
    }
    for (size_t c = 0; c < centres.size(); c++)
        for (size_t d = 0; d < DIMENSIONS && members[c]; d++)
            centres[c][d] = (float)(sums[c][d] / (double)members[c]);
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "kmeans [POINTS [CLUSTERS [ITERATIONS]]]");
    size_t n = number_argument(argc, argv, 1, 71000, 1, 10000000);
    size_t clusters = number_argument(argc, argv, 2, 29, 1, 10000);
    size_t iterations = number_argument(argc, argv, 3, 41, 1, 1000000), changed = 0;
    uint64_t state = 37;
    std::vector<Point> points(n), centres(clusters);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < DIMENSIONS; d++)
            points[i][d] = (float)(random_unit(&state) + random_unit(&state) + (double)(i % clusters * (d + 3) % 11));
    for (Point &centre : centres)
        centre = points[random_below(&state, n)];
    std::vector<int> nearest(n, -1);
    for (size_t iteration = 0; iteration < iterations; iteration++) {
        changed = assign(points, centres, nearest);
        move_centres(points, nearest, centres);
    }
    double spread = 0;
    for (size_t i = 0; i < n; i++)
        spread += (double)distance(points[i], centres[(size_t)nearest[i]]);
    printf("points %zu  clusters %zu  changed last %zu  checksum %.4f\n", n, clusters, changed, spread);
    return 0;
}
