/* usage: molecules [ATOMS_PER_SIDE [STEPS]]
 *
 * Molecular dynamics: atoms in a periodic box that attract and repel their neighbours (Lennard-Jones), lists of
 * neighbours renewed by way of cells, time steps by velocity Verlet. Checked by the total energy.
 */
#include "program.h"

#include <algorithm>
#include <vector>

struct Vector {
    double x = 0, y = 0, z = 0;
};

static const double CUTOFF = 2.5, SKIN = 0.3, STEP = 0.004, SPACING = 1.12;
enum { RENEW_AFTER = 11 };

struct System {
    double side; /* of the box */
    std::vector<Vector> position, velocity, force;
    std::vector<uint32_t> start, neighbour; /* neighbour[start[i] .. start[i + 1]): those of i, each pair once */
};

static double wrapped(double distance, double side)
{
    return distance > 0.5 * side ? distance - side : distance < -0.5 * side ? distance + side : distance;
}

static Vector between(const System &s, size_t i, size_t j)
{
    const Vector &a = s.position[i], &b = s.position[j];
    return {wrapped(a.x - b.x, s.side), wrapped(a.y - b.y, s.side), wrapped(a.z - b.z, s.side)};
}

static double square(const Vector &v)
{
    return v.x * v.x + v.y * v.y + v.z * v.z;
}

static size_t cell_along(double x, double side, size_t cells)
{
    double part = x / side - std::floor(x / side);
    return (size_t)(part * (double)cells) % cells;
}

KERNEL static void renew_neighbours(System &s)
{
    size_t atoms = s.position.size(), cells = std::max<size_t>(1, (size_t)(s.side / (CUTOFF + SKIN)));
    std::vector<uint32_t> first(cells * cells * cells, UINT32_MAX), next(atoms);
    auto cell_of = [&](const Vector &p, int dx, int dy, int dz) {
        size_t x = (cell_along(p.x, s.side, cells) + cells + (size_t)dx) % cells;
        size_t y = (cell_along(p.y, s.side, cells) + cells + (size_t)dy) % cells;
        size_t z = (cell_along(p.z, s.side, cells) + cells + (size_t)dz) % cells;
        return (z * cells + y) * cells + x;
    };
    for (uint32_t i = 0; i < atoms; i++) {
        size_t cell = cell_of(s.position[i], 0, 0, 0);
        next[i] = first[cell];
        first[cell] = i;
    }
    s.neighbour.clear();
    s.start.assign(1, 0);
    int reach = cells < 3 ? 0 : 1; /* in a box of less than three cells, any atom may be near */
    for (uint32_t i = 0; i < atoms; i++) {
        if (!reach) {
            for (uint32_t j = 0; j < i; j++)
                s.neighbour.push_back(j);
        }
        for (int d = 0; reach && d < 27; d++)
            for (uint32_t j = first[cell_of(s.position[i], d % 3 - 1, d / 3 % 3 - 1, d / 9 - 1)]; j != UINT32_MAX; j = next[j])
                if (j < i && square(between(s, i, j)) < (CUTOFF + SKIN) * (CUTOFF + SKIN))
                    s.neighbour.push_back(j);
        s.start.push_back((uint32_t)s.neighbour.size());
    }
}

/* Forces on all atoms; returns the potential energy. */
KERNEL static double find_forces(System &s)
{
    const double shift = 4 * (std::pow(CUTOFF, -12) - std::pow(CUTOFF, -6));
    double potential = 0;
    std::fill(s.force.begin(), s.force.end(), Vector{});
    for (size_t i = 0; i < s.position.size(); i++) {
        Vector sum;
        for (uint32_t k = s.start[i]; k < s.start[i + 1]; k++) {
            Vector d = between(s, i, s.neighbour[k]);
            double r2 = square(d);
            if (r2 >= CUTOFF * CUTOFF)
                continue;
            double inverse = 1 / r2, sixth = inverse * inverse * inverse;
            double strength = 24 * inverse * sixth * (2 * sixth - 1);
            potential += 4 * sixth * (sixth - 1) - shift;
            Vector &other = s.force[s.neighbour[k]];
            sum = {sum.x + strength * d.x, sum.y + strength * d.y, sum.z + strength * d.z};
            other = {other.x - strength * d.x, other.y - strength * d.y, other.z - strength * d.z};
        }
        s.force[i] = {s.force[i].x + sum.x, s.force[i].y + sum.y, s.force[i].z + sum.z};
    }
    return potential;
}

KERNEL static void kick(System &s, double time)
{
    for (size_t i = 0; i < s.velocity.size(); i++) {
        s.velocity[i].x += time * s.force[i].x;
        s.velocity[i].y += time * s.force[i].y;
        s.velocity[i].z += time * s.force[i].z;
    }
}

KERNEL static void drift(System &s, double time)
{
    for (size_t i = 0; i < s.position.size(); i++) {
        Vector &p = s.position[i];
        p = {p.x + time * s.velocity[i].x, p.y + time * s.velocity[i].y, p.z + time * s.velocity[i].z};
        p = {p.x - s.side * std::floor(p.x / s.side), p.y - s.side * std::floor(p.y / s.side),
             p.z - s.side * std::floor(p.z / s.side)};
    }
}

static System make_system(size_t per_side)
{
    System s{(double)per_side * SPACING, {}, {}, {}, {}, {}};
    uint64_t state = 34;
    for (size_t i = 0; i < per_side * per_side * per_side; i++) {
        s.position.push_back({(double)(i % per_side) * SPACING, (double)(i / per_side % per_side) * SPACING,
                              (double)(i / per_side / per_side) * SPACING});
        s.velocity.push_back({random_unit(&state) - 0.5, random_unit(&state) - 0.5, random_unit(&state) - 0.5});
    }
    s.force.resize(s.position.size());
    return s;
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "molecules [ATOMS_PER_SIDE [STEPS]]");
    System s = make_system(number_argument(argc, argv, 1, 19, 3, 200));
    size_t steps = number_argument(argc, argv, 2, 37, 1, 1000000);
    double first = 0, last = 0;
    renew_neighbours(s);
    double potential = find_forces(s);
    for (size_t step = 0; step <= steps; step++) {
        double kinetic = 0;
        for (const Vector &v : s.velocity)
            kinetic += 0.5 * square(v);
        last = potential + kinetic;
        first = step ? first : last;
        kick(s, STEP / 2);
        drift(s, STEP);
        if (step % RENEW_AFTER == 0)
            renew_neighbours(s);
        potential = find_forces(s);
        kick(s, STEP / 2);
    }
    double change = std::fabs(last - first) / (double)s.position.size();
    printf("atoms %zu  steps %zu  change of energy %.1e  checksum %.6f\n", s.position.size(), steps, change, last);
    return change > 0.05;
}
