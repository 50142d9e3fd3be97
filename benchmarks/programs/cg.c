/* usage: cg [POINTS [NONZEROS_PER_ROW]]
 *
 * One implicit time step of heat diffusion on an unstructured mesh, solved by conjugate gradients. The mesh is the graph
 * of random points in the unit square that are closer than a radius; its matrix I + L (L: graph Laplacian) is symmetric
 * and positive definite, kept in compressed sparse rows. NONZEROS_PER_ROW is the mean; points are numbered at random, as
 * a mesh generator without renumbering leaves them.
 */
#include "program.h"

struct mesh {
    size_t points, cells_per_side;
    double radius;
    double *x, *y;
    uint32_t *cell_start, *by_cell; /* by_cell[cell_start[c] .. cell_start[c + 1]) are the points in cell c */
};

struct matrix {
    size_t rows, nonzeros;
    uint32_t *row_start, *column;
    double *value;
};

static size_t cell_along(double position, size_t cells_per_side)
{
    size_t cell = (size_t)(position * (double)cells_per_side);
    return cell < cells_per_side ? cell : cells_per_side - 1;
}

static size_t cell_of(const struct mesh *mesh, size_t point)
{
    return cell_along(mesh->y[point], mesh->cells_per_side) * mesh->cells_per_side +
           cell_along(mesh->x[point], mesh->cells_per_side);
}

KERNEL static void sort_into_cells(struct mesh *mesh)
{
    size_t cells = mesh->cells_per_side * mesh->cells_per_side;
    mesh->cell_start = allocate_array(cells + 2, sizeof *mesh->cell_start);
    mesh->by_cell = allocate_array(mesh->points, sizeof *mesh->by_cell);
    uint32_t *next = mesh->cell_start + 1; /* counts, then insert positions; ends as the starts */
    for (size_t i = 0; i < mesh->points; i++)
        next[cell_of(mesh, i) + 1]++;
    for (size_t c = 0; c < cells; c++)
        next[c + 1] += next[c];
    for (size_t i = 0; i < mesh->points; i++)
        mesh->by_cell[next[cell_of(mesh, i)]++] = (uint32_t)i;
}

/* Writes the neighbours of a point to `column` unless that is NULL; returns how many there are. */
KERNEL static size_t find_neighbours(const struct mesh *mesh, size_t point, uint32_t *column)
{
    size_t found = 0, side = mesh->cells_per_side;
    double x = mesh->x[point], y = mesh->y[point], limit = mesh->radius * mesh->radius;
    size_t cx = cell_along(x, side), cy = cell_along(y, side);
    for (size_t row = cy ? cy - 1 : 0; row <= cy + 1 && row < side; row++) {
        size_t first = row * side + (cx ? cx - 1 : 0), last = row * side + (cx + 1 < side ? cx + 1 : cx);
        for (uint32_t k = mesh->cell_start[first]; k < mesh->cell_start[last + 1]; k++) {
            uint32_t other = mesh->by_cell[k];
            double dx = mesh->x[other] - x, dy = mesh->y[other] - y;
            if (dx * dx + dy * dy >= limit || other == point)
                continue;
            if (column)
                column[found] = other;
            found++;
        }
    }
    return found;
}

KERNEL static struct matrix build_matrix(size_t points, size_t nonzeros_per_row)
{
    struct mesh mesh = {.points = points};
    uint64_t state = 1;
    mesh.radius = sqrt((double)(nonzeros_per_row - 1) / (3.14159265358979323846 * (double)points));
    mesh.cells_per_side = mesh.radius < 1 ? (size_t)(1 / mesh.radius) : 1;
    mesh.x = allocate_array(points, sizeof *mesh.x);
    mesh.y = allocate_array(points, sizeof *mesh.y);
    for (size_t i = 0; i < points; i++) {
        mesh.x[i] = random_unit(&state);
        mesh.y[i] = random_unit(&state);
    }
    sort_into_cells(&mesh);

    struct matrix a = {.rows = points};
    a.row_start = allocate_array(points + 1, sizeof *a.row_start);
    for (size_t i = 0; i < points; i++)
        a.row_start[i + 1] = (uint32_t)(a.row_start[i] + find_neighbours(&mesh, i, NULL) + 1);
    a.nonzeros = a.row_start[points];
    a.column = allocate_array(a.nonzeros, sizeof *a.column);
    a.value = allocate_array(a.nonzeros, sizeof *a.value);
    for (size_t i = 0; i < points; i++) {
        uint32_t start = a.row_start[i], end = a.row_start[i + 1];
        find_neighbours(&mesh, i, a.column + start);
        for (uint32_t k = start; k + 1 < end; k++)
            a.value[k] = -1;
        a.column[end - 1] = (uint32_t)i;
        a.value[end - 1] = (double)(end - start); /* 1 + number of neighbours */
    }
    return a;
}

KERNEL static void multiply(const struct matrix *a, const double *x, double *y)
{
    for (size_t i = 0; i < a->rows; i++) {
        double sum = 0;
        for (uint32_t k = a->row_start[i]; k < a->row_start[i + 1]; k++)
            sum += a->value[k] * x[a->column[k]];
        y[i] = sum;
    }
}

KERNEL static double dot(size_t n, const double *x, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y += alpha x */
KERNEL static void add_scaled(size_t n, double alpha, const double *x, double *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += alpha * x[i];
}

/* p = r + beta p */
KERNEL static void new_direction(size_t n, double beta, const double *r, double *p)
{
    for (size_t i = 0; i < n; i++)
        p[i] = r[i] + beta * p[i];
}

int main(int argc, char **argv)
{
    check_usage(argc, argv, 2, "cg [POINTS [NONZEROS_PER_ROW]]");
    size_t n = number_argument(argc, argv, 1, 20000, 2, 4000000);
    struct matrix a = build_matrix(n, number_argument(argc, argv, 2, 15, 2, 1000));
    double *x = allocate_array(n, sizeof *x), *r = allocate_array(n, sizeof *r);
    double *p = allocate_array(n, sizeof *p), *ap = allocate_array(n, sizeof *ap);
    uint64_t state = 2;
    for (size_t i = 0; i < n; i++)
        p[i] = r[i] = random_unit(&state);

    double rr = dot(n, r, r), target = rr * 1e-20;
    int iterations = 0;
    for (; rr > target && iterations < 1000; iterations++) {
        multiply(&a, p, ap);
        double alpha = rr / dot(n, p, ap);
        add_scaled(n, alpha, p, x);
        add_scaled(n, -alpha, ap, r);
        double previous = rr;
        rr = dot(n, r, r);
        new_direction(n, rr / previous, r, p);
    }
    printf("points %zu  nonzeros %zu  iterations %d  relative residual %.1e  checksum %.10f\n", n, a.nonzeros, iterations,
           sqrt(rr / (target * 1e20)), sqrt(dot(n, x, x)));
    return rr > target;
}
