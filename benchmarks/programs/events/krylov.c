#define _POSIX_C_SOURCE 200809L
#include "krylov.h"

#include <foretrace_events.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- events ------------------------------------------------------------------------------------------------------- */

struct events {
    long long iterations, products;
    double first_residual, last_residual, residual, run_time_s;
    void *residuals;
};

static const char *const NAMES[] = {"CG", "BiCGSTAB", "GMRES"};
static struct events of_solver[3][2];

static struct events *events_of(const struct options *options)
{
    struct events *e = &of_solver[options->method][options->with_ilu];
    if (!e->residuals) {
        const int mode = PAPI_SDE_RO | PAPI_SDE_INSTANT;
        char name[32];
        snprintf(name, sizeof name, "%s%s", NAMES[options->method], options->with_ilu ? "+ILU" : "");
        papi_handle_t library = papi_sde_init(name);
        papi_sde_register_counter(library, "numiter_I", mode, PAPI_SDE_long_long, &e->iterations);
        papi_sde_register_counter(library, "SpmvCount_I", mode, PAPI_SDE_long_long, &e->products);
        papi_sde_register_counter(library, "InitialResidual_D", mode, PAPI_SDE_double, &e->first_residual);
        papi_sde_register_counter(library, "FinalResidual_D", mode, PAPI_SDE_double, &e->last_residual);
        papi_sde_register_counter(library, "IterativeResidual_D", mode, PAPI_SDE_double, &e->residual);
        papi_sde_register_counter(library, "SolverRuntime_D", mode, PAPI_SDE_double, &e->run_time_s);
        papi_sde_create_recorder(
            library, "IterativeResidual_RCRD_D", sizeof(double), papi_sde_compare_double, &e->residuals);
        papi_sde_describe_counter(library, "numiter_I", "iterations until convergence");
        papi_sde_describe_counter(library, "SpmvCount_I", "sparse matrix-vector products");
        papi_sde_describe_counter(library, "InitialResidual_D", "norm of the first residual");
        papi_sde_describe_counter(library, "FinalResidual_D", "norm of the last residual");
        papi_sde_describe_counter(library, "IterativeResidual_D", "norm of the residual");
        papi_sde_describe_counter(library, "SolverRuntime_D", "time of the solver [s]");
        papi_sde_describe_counter(library, "IterativeResidual_RCRD_D", "norm of the residual of each iteration");
    }
    papi_sde_reset_recorder(e->residuals);
    e->iterations = e->products = 0;
    return e;
}

/* An iteration has ended with that residual. */
static void note(struct events *e, double residual)
{
    e->iterations++;
    e->residual = e->last_residual = residual;
    papi_sde_record(e->residuals, sizeof residual, &residual);
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* ---- vectors and matrices ----------------------------------------------------------------------------------------- */

static double dot(int n, const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y = y + alpha x */
static void add(int n, double *y, double alpha, const double *x)
{
    for (int i = 0; i < n; i++)
        y[i] += alpha * x[i];
}

static void multiply(struct events *e, const struct matrix *a, const double *x, double *y)
{
    e->products++;
    for (int i = 0; i < a->rows; i++) {
        double sum = 0;
        for (int k = a->first[i]; k < a->first[i + 1]; k++)
            sum += a->value[k] * x[a->column[k]];
        y[i] = sum;
    }
}

/* r = b - A x; gives its norm. */
static double residual_of(struct events *e, const struct matrix *a, const double *b, const double *x, double *r)
{
    multiply(e, a, x, r);
    for (int i = 0; i < a->rows; i++)
        r[i] = b[i] - r[i];
    return sqrt(dot(a->rows, r, r));
}

void matrix_free(struct matrix *a)
{
    free(a->first);
    free(a->column);
    free(a->value);
    *a = (struct matrix){0};
}

static bool matrix_allocate(struct matrix *a, int rows, size_t elements)
{
    *a = (struct matrix){rows, calloc((size_t)rows + 1, sizeof(int)), malloc(elements * sizeof(int) + 1),
                         malloc(elements * sizeof(double) + 1)};
    if (a->first && a->column && a->value)
        return true;
    matrix_free(a);
    return false;
}

/* ---- incomplete factorisation ------------------------------------------------------------------------------------- */

struct factors {
    struct matrix lu;
    int *diagonal;
};

static void factors_free(struct factors *f)
{
    matrix_free(&f->lu);
    free(f->diagonal);
}

static int element_of(const struct matrix *a, int row, int column)
{
    int first = a->first[row], end = a->first[row + 1];
    while (first < end) {
        const int middle = (first + end) / 2;
        if (a->column[middle] < column)
            first = middle + 1;
        else
            end = middle;
    }
    return first < a->first[row + 1] && a->column[first] == column ? first : -1;
}

/* ILU(0): L and U where A has elements (Saad, "Iterative methods for sparse linear systems", section 10.3). */
static bool factorise(struct factors *f, const struct matrix *a)
{
    f->diagonal = malloc((size_t)a->rows * sizeof(int) + 1);
    if (!f->diagonal || !matrix_allocate(&f->lu, a->rows, (size_t)a->first[a->rows]))
        return false;
    struct matrix *lu = &f->lu;
    memcpy(lu->first, a->first, ((size_t)a->rows + 1) * sizeof(int));
    memcpy(lu->column, a->column, (size_t)a->first[a->rows] * sizeof(int));
    memcpy(lu->value, a->value, (size_t)a->first[a->rows] * sizeof(double));
    for (int i = 0; i < a->rows; i++) {
        for (int k = lu->first[i]; k < lu->first[i + 1] && lu->column[k] < i; k++) {
            const int row = lu->column[k];
            lu->value[k] /= lu->value[f->diagonal[row]];
            for (int j = f->diagonal[row] + 1; j < lu->first[row + 1]; j++) {
                const int at = element_of(lu, i, lu->column[j]);
                if (at >= 0)
                    lu->value[at] -= lu->value[k] * lu->value[j];
            }
        }
        f->diagonal[i] = element_of(lu, i, i);
        if (f->diagonal[i] < 0 || lu->value[f->diagonal[i]] == 0)
            return false;
    }
    return true;
}

/* z = (L U)^-1 r; a copy without factors. */
static void precondition(const struct factors *f, int n, const double *r, double *z)
{
    if (!f->diagonal) {
        memcpy(z, r, (size_t)n * sizeof *z);
        return;
    }
    const struct matrix *lu = &f->lu;
    for (int i = 0; i < n; i++) {
        double sum = r[i];
        for (int k = lu->first[i]; k < f->diagonal[i]; k++)
            sum -= lu->value[k] * z[lu->column[k]];
        z[i] = sum;
    }
    for (int i = n - 1; i >= 0; i--) {
        double sum = z[i];
        for (int k = f->diagonal[i] + 1; k < lu->first[i + 1]; k++)
            sum -= lu->value[k] * z[lu->column[k]];
        z[i] = sum / lu->value[f->diagonal[i]];
    }
}

/* ---- solvers ------------------------------------------------------------------------------------------------------ */

struct problem {
    const struct matrix *a;
    const double *b;
    double *x;
    const struct options *options;
    const struct factors *factors;
    struct events *events;
    double *work; /* [num_vectors, rows] */
};

static bool goes_on(const struct problem *p)
{
    const struct events *e = p->events;
    return e->iterations < p->options->most_iterations && e->last_residual > p->options->tolerance * e->first_residual;
}

/* Hestenes and Stiefel, 1952; for symmetric positive definite matrices. */
static void conjugate_gradient(const struct problem *p)
{
    const int n = p->a->rows;
    double *r = p->work, *z = r + n, *direction = z + n, *product = direction + n;
    p->events->first_residual = p->events->last_residual = residual_of(p->events, p->a, p->b, p->x, r);
    precondition(p->factors, n, r, z);
    memcpy(direction, z, (size_t)n * sizeof *z);
    double rho = dot(n, r, z);
    while (goes_on(p)) {
        multiply(p->events, p->a, direction, product);
        const double alpha = rho / dot(n, direction, product);
        add(n, p->x, alpha, direction);
        add(n, r, -alpha, product);
        precondition(p->factors, n, r, z);
        const double next = dot(n, r, z);
        for (int i = 0; i < n; i++)
            direction[i] = z[i] + next / rho * direction[i];
        rho = next;
        note(p->events, sqrt(dot(n, r, r)));
    }
}

/* van der Vorst, SIAM J. Sci. Stat. Comput. 13, 1992. */
static void bicgstab(const struct problem *p)
{
    const int n = p->a->rows;
    double *r = p->work, *shadow = r + n, *direction = shadow + n, *product = direction + n, *z = product + n, *t = z + n;
    p->events->first_residual = p->events->last_residual = residual_of(p->events, p->a, p->b, p->x, r);
    memcpy(shadow, r, (size_t)n * sizeof *r);
    memset(direction, 0, 2 * (size_t)n * sizeof *r);
    double rho = 1, alpha = 1, omega = 1;
    while (goes_on(p)) {
        const double next = dot(n, shadow, r), beta = next / rho * (alpha / omega);
        rho = next;
        for (int i = 0; i < n; i++)
            direction[i] = r[i] + beta * (direction[i] - omega * product[i]);
        precondition(p->factors, n, direction, z);
        multiply(p->events, p->a, z, product);
        alpha = rho / dot(n, shadow, product);
        add(n, r, -alpha, product);
        add(n, p->x, alpha, z);
        precondition(p->factors, n, r, z);
        multiply(p->events, p->a, z, t);
        const double square = dot(n, t, t);
        omega = square > 0 ? dot(n, t, r) / square : 0;
        add(n, p->x, omega, z);
        add(n, r, -omega, t);
        note(p->events, sqrt(dot(n, r, r)));
        if (rho == 0 || omega == 0)
            break; /* it broke down */
    }
}

/* Saad and Schultz, SIAM J. Sci. Stat. Comput. 7, 1986, with restarts, preconditioned from the right. */
static void gmres(const struct problem *p)
{
    const int n = p->a->rows, m = p->options->restart;
    double *z = p->work, *basis = z + n;
    double *h = basis + (size_t)(m + 1) * n, *cosine = h + (size_t)(m + 1) * m, *sine = cosine + m, *g = sine + m;
    double norm = residual_of(p->events, p->a, p->b, p->x, basis);
    p->events->first_residual = p->events->last_residual = norm;
    while (goes_on(p) && norm > 0) {
        for (int i = 0; i < n; i++)
            basis[i] /= norm;
        memset(g, 0, ((size_t)m + 1) * sizeof *g);
        g[0] = norm;
        int k = 0;
        for (; k < m && goes_on(p); k++) {
            double *next = basis + (size_t)(k + 1) * n, *column = h + (size_t)k * (m + 1);
            precondition(p->factors, n, basis + (size_t)k * n, z);
            multiply(p->events, p->a, z, next);
            for (int i = 0; i <= k; i++) {
                column[i] = dot(n, next, basis + (size_t)i * n);
                add(n, next, -column[i], basis + (size_t)i * n);
            }
            const double length = sqrt(dot(n, next, next));
            for (int i = 0; i < n && length > 0; i++)
                next[i] /= length;
            for (int i = 0; i < k; i++) {
                const double above = column[i];
                column[i] = cosine[i] * above + sine[i] * column[i + 1];
                column[i + 1] = cosine[i] * column[i + 1] - sine[i] * above;
            }
            const double size = hypot(column[k], length);
            cosine[k] = size > 0 ? column[k] / size : 1;
            sine[k] = size > 0 ? length / size : 0;
            column[k] = size;
            g[k + 1] = -sine[k] * g[k];
            g[k] *= cosine[k];
            note(p->events, fabs(g[k + 1]));
        }
        for (int i = k - 1; i >= 0; i--) {
            for (int j = i + 1; j < k; j++)
                g[i] -= h[(size_t)j * (m + 1) + i] * g[j];
            g[i] /= h[(size_t)i * (m + 1) + i];
        }
        memset(basis + (size_t)m * n, 0, (size_t)n * sizeof *basis);
        for (int i = 0; i < k; i++) {
            precondition(p->factors, n, basis + (size_t)i * n, z);
            add(n, p->x, g[i], z);
        }
        norm = residual_of(p->events, p->a, p->b, p->x, basis);
        p->events->residual = p->events->last_residual = norm;
    }
}

bool krylov_solve(const struct matrix *a, const double *b, double *x, const struct options *options)
{
    const size_t n = (size_t)a->rows, m = (size_t)options->restart;
    const size_t size = options->method == METHOD_GMRES ? (m + 2) * n + (m + 1) * m + 3 * m + 1 : 6 * n;
    struct factors factors = {0};
    struct events *events = events_of(options);
    const double begun_s = now_s();
    struct problem problem = {a, b, x, options, &factors, events, malloc(size * sizeof(double) + 1)};
    bool is_solved = problem.work && (!options->with_ilu || factorise(&factors, a));
    if (is_solved) {
        switch (options->method) {
        case METHOD_CG:
            conjugate_gradient(&problem);
            break;
        case METHOD_BICGSTAB:
            bicgstab(&problem);
            break;
        case METHOD_GMRES:
            gmres(&problem);
        }
        is_solved = events->last_residual <= options->tolerance * events->first_residual;
    }
    events->run_time_s = now_s() - begun_s;
    factors_free(&factors);
    free(problem.work);
    return is_solved;
}

/* ---- matrices ----------------------------------------------------------------------------------------------------- */

bool matrix_of_grid(struct matrix *a, int side, double wind)
{
    const double step = 1.0 / (side + 1), drift = wind * step / 2;
    if (side < 1 || side > 10000 || !matrix_allocate(a, side * side, 5 * (size_t)side * (size_t)side))
        return false;
    int at = 0;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            const struct {
                int x, y;
                double value;
            } neighbours[] = {{x, y - 1, -1}, {x - 1, y, -1 - drift}, {x, y, 4}, {x + 1, y, -1 + drift}, {x, y + 1, -1}};
            for (int i = 0; i < 5; i++) {
                if (neighbours[i].x < 0 || neighbours[i].x >= side || neighbours[i].y < 0 || neighbours[i].y >= side)
                    continue;
                a->column[at] = neighbours[i].y * side + neighbours[i].x;
                a->value[at++] = neighbours[i].value;
            }
            a->first[y * side + x + 1] = at;
        }
    return true;
}

struct element {
    int row, column;
    double value;
};

static int by_place(const void *left, const void *right)
{
    const struct element *l = left, *r = right;
    return l->row != r->row ? (l->row > r->row) - (l->row < r->row) : (l->column > r->column) - (l->column < r->column);
}

static struct element *elements_of(FILE *file, bool is_symmetric, long long *elements, long long rows)
{
    struct element *list = malloc(2 * (size_t)*elements * sizeof *list + 1);
    long long used = 0;
    for (long long i = 0; list && i < *elements; i++) {
        struct element one;
        if (fscanf(file, "%d %d %lf", &one.row, &one.column, &one.value) != 3 || one.row < 1 || one.row > rows ||
            one.column < 1 || one.column > rows) {
            free(list);
            return NULL;
        }
        one.row--;
        one.column--;
        list[used++] = one;
        if (is_symmetric && one.row != one.column)
            list[used++] = (struct element){one.column, one.row, one.value};
    }
    *elements = used;
    if (list)
        qsort(list, (size_t)used, sizeof *list, by_place);
    return list;
}

bool matrix_of_file(struct matrix *a, const char *path)
{
    char line[1024], field[32] = "", symmetry[32] = "";
    long long rows = 0, columns = 0, elements = 0;
    FILE *file = fopen(path, "r");
    const char *wrong = file ? NULL : "cannot be opened";
    if (!wrong && (!fgets(line, sizeof line, file) ||
                   sscanf(line, "%%%%MatrixMarket matrix coordinate %31s %31s", field, symmetry) != 2 ||
                   (strcmp(field, "real") != 0 && strcmp(field, "integer") != 0)))
        wrong = "is no matrix of real numbers in coordinates";
    while (!wrong && fgets(line, sizeof line, file) && line[0] == '%')
        ;
    if (!wrong && (sscanf(line, "%lld %lld %lld", &rows, &columns, &elements) != 3 || rows != columns || rows < 1 ||
                   rows > 100000000 || elements < 1 || elements > 1000000000))
        wrong = "is not square, or too large";
    struct element *list =
        wrong ? NULL : elements_of(file, strcmp(symmetry, "symmetric") == 0, &elements, rows);
    if (!wrong && (!list || !matrix_allocate(a, (int)rows, (size_t)elements)))
        wrong = "is damaged, or there is no memory for it";
    for (long long i = 0; !wrong && i < elements; i++) {
        a->first[list[i].row + 1]++;
        a->column[i] = list[i].column;
        a->value[i] = list[i].value;
    }
    for (int i = 0; !wrong && i < a->rows; i++)
        a->first[i + 1] += a->first[i];
    if (wrong)
        fprintf(stderr, "%s: %s\n", path, wrong);
    free(list);
    if (file)
        fclose(file);
    return !wrong;
}
