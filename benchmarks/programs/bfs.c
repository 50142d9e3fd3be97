/* usage: bfs [VERTICES [EDGES_PER_VERTEX [SEARCHES]]]
 *
 * Breadth-first searches of a graph in which few vertices have most of the edges (power law), numbered at random. The
 * graph is made, sorted into adjacency lists, and searched from several vertices.
 */
#include "program.h"

struct graph {
    size_t vertices, edges;
    uint32_t *start, *neighbour; /* neighbour[start[v] .. start[v + 1]) are those of v */
};

static const uint32_t UNSEEN = UINT32_MAX;

/* A vertex number drawn so that the k-th most popular has about 1/sqrt(k) of the popularity of the first. */
static uint32_t draw(uint64_t *state, const uint32_t *numbering, size_t vertices)
{
    double u = random_unit(state);
    return numbering[(size_t)(u * u * (double)vertices)];
}

KERNEL static void generate(size_t vertices, size_t edges, uint32_t (*ends)[2])
{
    uint32_t *numbering = allocate_array(vertices, sizeof *numbering);
    uint64_t state = 15;
    for (size_t v = 0; v < vertices; v++) {
        size_t other = random_below(&state, v + 1);
        numbering[v] = numbering[other];
        numbering[other] = (uint32_t)v;
    }
    for (size_t e = 0; e < edges; e++) {
        ends[e][0] = draw(&state, numbering, vertices);
        ends[e][1] = draw(&state, numbering, vertices);
    }
}

/* Both directions of each edge, by counting sort. */
KERNEL static struct graph adjacency(size_t vertices, size_t edges, uint32_t (*ends)[2])
{
    struct graph g = {.vertices = vertices, .edges = 2 * edges};
    g.start = allocate_array(vertices + 2, sizeof *g.start);
    g.neighbour = allocate_array(2 * edges, sizeof *g.neighbour);
    uint32_t *next = g.start + 1; /* counts, then insert positions; ends as the starts */
    for (size_t e = 0; e < edges; e++) {
        next[ends[e][0] + 1]++;
        next[ends[e][1] + 1]++;
    }
    for (size_t v = 0; v < vertices; v++)
        next[v + 1] += next[v];
    for (size_t e = 0; e < edges; e++)
        for (int side = 0; side < 2; side++)
            g.neighbour[next[ends[e][side]]++] = ends[e][!side];
    return g;
}

/* Depths of all vertices that can be reached; returns how many those are. */
KERNEL static size_t search(const struct graph *g, uint32_t root, uint32_t *depth, uint32_t *queue)
{
    for (size_t v = 0; v < g->vertices; v++)
        depth[v] = UNSEEN;
    size_t first = 0, end = 1;
    queue[0] = root;
    depth[root] = 0;
    while (first < end) {
        uint32_t v = queue[first++];
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            uint32_t other = g->neighbour[k];
            if (depth[other] == UNSEEN) {
                depth[other] = depth[v] + 1;
                queue[end++] = other;
            }
        }
    }
    return end;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "bfs [VERTICES [EDGES_PER_VERTEX [SEARCHES]]]");
    size_t vertices = number_argument(argc, argv, 1, 230000, 2, 20000000);
    size_t edges = vertices * number_argument(argc, argv, 2, 7, 1, 100);
    size_t searches = number_argument(argc, argv, 3, 9, 1, 1000000);
    uint32_t(*ends)[2] = allocate_array(edges, sizeof *ends);
    generate(vertices, edges, ends);
    struct graph g = adjacency(vertices, edges, ends);
    uint32_t *depth = allocate_array(vertices, sizeof *depth), *queue = allocate_array(vertices, sizeof *queue);
    uint64_t checksum = 0, reached = 0;
    for (size_t s = 0; s < searches; s++) {
        size_t found = search(&g, ends[s * 977 % edges][0], depth, queue);
        reached += found;
        for (size_t i = 0; i < found; i++)
            checksum += (uint64_t)depth[queue[i]] * (queue[i] % 1009);
    }
    printf("vertices %zu  edges %zu  reached %" PRIu64 "  checksum %" PRIu64 "\n", vertices, edges, reached, checksum);
    return 0;
}
