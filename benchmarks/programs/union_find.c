/* usage: union_find [VERTICES [EDGES]]
 *
 * The connected components of a random graph, by disjoint sets whose paths are halved (Tarjan and van Leeuwen, JACM 31,
 * 1984).
 */
#include "program.h"

KERNEL static uint32_t find(uint32_t *parent, uint32_t vertex)
{
    while (parent[vertex] != vertex) {
        parent[vertex] = parent[parent[vertex]];
        vertex = parent[vertex];
    }
    return vertex;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "union_find [VERTICES [EDGES]]");
    size_t vertices = number_argument(argc, argv, 1, 5000011, 1, 200000000);
    size_t edges = number_argument(argc, argv, 2, 4300007, 1, SIZE_MAX / 2), components = vertices;
    uint32_t *parent = allocate_array(vertices, sizeof *parent);
    for (size_t i = 0; i < vertices; i++)
        parent[i] = (uint32_t)i;
    uint64_t state = 36, checksum = 0;
    for (size_t i = 0; i < edges; i++) {
        uint32_t one = find(parent, (uint32_t)random_below(&state, vertices));
        uint32_t other = find(parent, (uint32_t)random_below(&state, vertices));
        if (one == other)
            continue;
        parent[one > other ? one : other] = one > other ? other : one;
        components--;
    }
    for (size_t i = 0; i < vertices; i++)
        checksum = checksum * 31 + find(parent, (uint32_t)i);
    printf("components %zu  checksum %016" PRIx64 "\n", components, checksum);
    return 0;
}
