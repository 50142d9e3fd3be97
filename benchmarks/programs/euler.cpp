/* usage: euler [CELLS_PER_SIDE [STEPS]]
 *
 * Compressible flow (Euler's equations) on an unstructured mesh of triangles, periodic: finite volumes, fluxes along the
 * edges (Rusanov), cells and edges numbered without order. A pressure pulse spreads; mass and energy are conserved.
 */
#include "program.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

using State = std::array<double, 4>; /* density, momentum x and y, energy, each by volume */

static const double GAMMA = 1.4;

struct Edge {
    uint32_t left, right;
    double nx, ny; /* normal from left to right, times the edge's length */
};

struct Mesh {
    std::vector<Edge> edges;
    std::vector<double> area;
};

/* A square of side 1, cut into squares and each of these into two triangles. */
static Mesh make_mesh(size_t side)
{
    uint64_t state = 33;
    size_t cells = 2 * side * side;
    std::vector<uint32_t> number(cells);
    std::iota(number.begin(), number.end(), 0);
    for (size_t i = cells; i-- > 1;)
        std::swap(number[i], number[i - random_below(&state, std::min<size_t>(i, 20000) + 1)]);
    double h = 1 / (double)side;
    Mesh mesh{{}, std::vector<double>(cells, h * h / 2)};
    auto cell = [&](size_t i, size_t j, size_t half) { return number[2 * (i % side * side + j % side) + half]; };
    for (size_t i = 0; i < side; i++)
        for (size_t j = 0; j < side; j++) {
            mesh.edges.push_back({cell(i, j, 0), cell(i, j, 1), h, h});          /* the diagonal */
            mesh.edges.push_back({cell(i, j, 1), cell(i, j + 1, 0), h, 0});      /* to the right */
            mesh.edges.push_back({cell(i, j, 1), cell(i + 1, j, 0), 0, h});      /* upwards */
        }
    for (size_t i = mesh.edges.size(); i-- > 1;)
        std::swap(mesh.edges[i], mesh.edges[i - random_below(&state, std::min<size_t>(i, 5000) + 1)]);
    return mesh;
}

static double pressure(const State &u)
{
    return (GAMMA - 1) * (u[3] - 0.5 * (u[1] * u[1] + u[2] * u[2]) / u[0]);
}

/* Flux through a face with normal (nx, ny) of length `length`, and the fastest wave across it. */
static State flux(const State &u, double nx, double ny, double length, double &speed)
{
    double p = pressure(u), through = (u[1] * nx + u[2] * ny) / u[0];
    speed = std::fabs(through) + std::sqrt(GAMMA * p / u[0]) * length;
    return {u[0] * through, u[1] * through + p * nx, u[2] * through + p * ny, (u[3] + p) * through};
}

KERNEL static void add_fluxes(const Mesh &mesh, const std::vector<State> &u, std::vector<State> &change)
{
    for (const Edge &edge : mesh.edges) {
        const State &left = u[edge.left], &right = u[edge.right];
        double length = std::sqrt(edge.nx * edge.nx + edge.ny * edge.ny), fast, faster;
        State f = flux(left, edge.nx, edge.ny, length, fast), g = flux(right, edge.nx, edge.ny, length, faster);
        double speed = std::max(fast, faster);
        for (size_t k = 0; k < 4; k++) {
            double across = 0.5 * (f[k] + g[k] - speed * (right[k] - left[k]));
            change[edge.left][k] -= across;
            change[edge.right][k] += across;
        }
    }
}

KERNEL static void advance(const Mesh &mesh, double step, std::vector<State> &u, std::vector<State> &change)
{
    for (size_t c = 0; c < u.size(); c++)
        for (size_t k = 0; k < 4; k++) {
            u[c][k] += step / mesh.area[c] * change[c][k];
            change[c][k] = 0;
        }
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "euler [CELLS_PER_SIDE [STEPS]]");
    size_t side = number_argument(argc, argv, 1, 211, 2, 3000), steps = number_argument(argc, argv, 2, 59, 1, 1000000);
    Mesh mesh = make_mesh(side);
    std::vector<State> u(mesh.area.size()), change(mesh.area.size());
    for (size_t c = 0; c < u.size(); c++) {
        double high = c % 97 == 0 ? 2 : 1;
        u[c] = {high, 0.1 * high, 0, high / (GAMMA - 1) + 0.005 * high};
    }
    auto total = [&](size_t k) {
        double sum = 0;
        for (size_t c = 0; c < u.size(); c++)
            sum += u[c][k] * mesh.area[c];
        return sum;
    };
    double mass = total(0), energy = total(3);
    for (size_t s = 0; s < steps; s++) {
        add_fluxes(mesh, u, change);
        advance(mesh, 0.1 / (double)side, u, change);
    }
    double lost = std::max(std::fabs(total(0) / mass - 1), std::fabs(total(3) / energy - 1)), checksum = 0;
    for (const State &cell : u)
        checksum += pressure(cell) * pressure(cell);
    printf("cells %zu  steps %zu  conserved within %.0e  checksum %.8f\n", u.size(), steps, lost, checksum);
    return lost > 1e-9;
}
