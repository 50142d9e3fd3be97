/* usage: multigrid [COARSE_INTERVALS [LEVELS [CYCLES]]]
 *
 * Poisson's equation on the unit square by multigrid V-cycles: red-black Gauss-Seidel sweeps, full weighting to the next
 * coarser grid, bilinear interpolation back. Each level has twice the intervals of the next coarser one.
 */
#include "program.h"

enum { MAX_LEVELS = 12 };

struct grid {
    size_t n; /* intervals each way; points are (n + 1) x (n + 1), the outermost fixed at 0 */
    double *u, *f, *residual;
};

KERNEL static void smooth(const struct grid *g, int sweeps)
{
    size_t width = g->n + 1;
    double h2 = 1.0 / (double)(g->n * g->n);
    for (int half_sweep = 0; half_sweep < 2 * sweeps; half_sweep++)
        for (size_t i = 1; i < g->n; i++)
            for (size_t j = 1 + (i + (size_t)half_sweep) % 2; j < g->n; j += 2) {
                size_t k = i * width + j;
                g->u[k] = 0.25 * (g->u[k - 1] + g->u[k + 1] + g->u[k - width] + g->u[k + width] + h2 * g->f[k]);
            }
}

KERNEL static void find_residual(const struct grid *g)
{
    size_t width = g->n + 1;
    double per_h2 = (double)(g->n * g->n);
    for (size_t i = 1; i < g->n; i++)
        for (size_t j = 1; j < g->n; j++) {
            size_t k = i * width + j;
            double laplacian = g->u[k - 1] + g->u[k + 1] + g->u[k - width] + g->u[k + width] - 4 * g->u[k];
            g->residual[k] = g->f[k] + per_h2 * laplacian;
        }
}

/* Full weighting of the fine residual makes the coarse right-hand side; the coarse guess is 0. */
KERNEL static void restrict_residual(const struct grid *fine, const struct grid *coarse)
{
    size_t wide = fine->n + 1, width = coarse->n + 1;
    for (size_t i = 1; i < coarse->n; i++)
        for (size_t j = 1; j < coarse->n; j++) {
            const double *r = fine->residual + 2 * i * wide + 2 * j;
            double sides = r[-1] + r[1] + *(r - wide) + r[wide];
            double corners = *(r - wide - 1) + *(r - wide + 1) + r[wide - 1] + r[wide + 1];
            coarse->f[i * width + j] = 0.25 * r[0] + 0.125 * sides + 0.0625 * corners;
        }
    memset(coarse->u, 0, width * width * sizeof *coarse->u);
}

KERNEL static void add_correction(const struct grid *fine, const struct grid *coarse)
{
    size_t wide = fine->n + 1, width = coarse->n + 1;
    for (size_t i = 0; i < coarse->n; i++)
        for (size_t j = 0; j < coarse->n; j++) {
            const double *c = coarse->u + i * width + j;
            double *u = fine->u + 2 * i * wide + 2 * j;
            u[0] += c[0];
            u[1] += 0.5 * (c[0] + c[1]);
            u[wide] += 0.5 * (c[0] + c[width]);
            u[wide + 1] += 0.25 * (c[0] + c[1] + c[width] + c[width + 1]);
        }
}

static void cycle(const struct grid *grids, int level, int levels)
{
    const struct grid *g = grids + level;
    if (level == levels - 1) {
        smooth(g, 60);
        return;
    }
    smooth(g, 2);
    find_residual(g);
    restrict_residual(g, g + 1);
    cycle(grids, level + 1, levels);
    add_correction(g, g + 1);
    smooth(g, 1);
}

static double norm(const struct grid *g)
{
    double sum = 0;
    find_residual(g);
    for (size_t k = 0; k < (g->n + 1) * (g->n + 1); k++)
        sum += g->residual[k] * g->residual[k];
    return sqrt(sum);
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 3, "multigrid [COARSE_INTERVALS [LEVELS [CYCLES]]]");
    size_t n = number_argument(argc, argv, 1, 17, 2, 1000);
    int levels = (int)number_argument(argc, argv, 2, 7, 1, MAX_LEVELS);
    size_t cycles = number_argument(argc, argv, 3, 29, 1, 100000);
    struct grid grids[MAX_LEVELS];
    for (int level = levels - 1; level >= 0; level--, n *= 2) {
        struct grid *g = grids + level;
        size_t points = (n + 1) * (n + 1);
        g->n = n;
        g->u = allocate_array(points, sizeof *g->u);
        g->f = allocate_array(points, sizeof *g->f);
        g->residual = allocate_array(points, sizeof *g->residual);
    }
    n = grids->n;
    uint64_t state = 12;
    for (size_t i = 1; i < n; i++)
        for (size_t j = 1; j < n; j++)
            grids->f[i * (n + 1) + j] = random_unit(&state) - 0.5;
    double first = norm(grids);
    for (size_t c = 0; c < cycles; c++)
        cycle(grids, 0, levels);
    double last = norm(grids), sum = 0;
    for (size_t k = 0; k < (n + 1) * (n + 1); k++)
        sum += fabs(grids->u[k]);
    printf("intervals %zu  cycles %zu  relative residual %.1e  checksum %.10f\n", n, cycles, last / first, sum);
    return 0;
}
