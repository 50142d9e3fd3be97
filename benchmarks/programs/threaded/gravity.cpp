// Bodies that attract each other, OpenMP in C++: compute-bound, a parallel region for each of many steps.
#include "threaded.h"

#include <cmath>
#include <cstdio>
#include <omp.h>
#include <vector>

struct Body {
    double x, y, z, vx, vy, vz, mass;
};

static void accelerate(std::vector<Body> &bodies, double step)
{
    const int count = static_cast<int>(bodies.size());
#pragma omp parallel for schedule(static)
    for (int i = 0; i < count; i++) {
        double ax = 0, ay = 0, az = 0;
        for (int j = 0; j < count; j++) {
            double dx = bodies[j].x - bodies[i].x, dy = bodies[j].y - bodies[i].y, dz = bodies[j].z - bodies[i].z;
            double square = dx * dx + dy * dy + dz * dz + 0.01;
            double pull = bodies[j].mass / (square * std::sqrt(square));
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
        bodies[i].vx += step * ax;
        bodies[i].vy += step * ay;
        bodies[i].vz += step * az;
    }
}

static void move(std::vector<Body> &bodies, double step)
{
    for (Body &body : bodies) {
        body.x += step * body.vx;
        body.y += step * body.vy;
        body.z += step * body.vz;
    }
}

int main(int argc, char **argv)
{
    omp_set_num_threads(threads_argument(argc, argv));
    std::vector<Body> bodies(800);
    uint64_t state = 7;
    for (Body &body : bodies) {
        for (double *value : {&body.x, &body.y, &body.z, &body.mass}) {
            state = next_number(state);
            *value = static_cast<double>(state >> 40) / 16777216.0;
        }
        body.vx = body.vy = body.vz = 0;
    }
    for (int step = 0; step < 40; step++) {
        accelerate(bodies, 1e-4);
        move(bodies, 1e-4);
    }
    double sum = 0;
    for (const Body &body : bodies)
        sum += body.x + body.y + body.z;
    std::printf("%.9f\n", sum);
    return 0;
}
