/* Krylov solvers for sparse systems A x = b, which tell what they do as software-defined events.
 *
 * Each solver is a library of its own, "CG" or "CG+ILU", with the seven events of table 2 of Jagode, Danalis, Anzt and
 * Dongarra, "PAPI software-defined events for in-depth performance analysis".
 */
#ifndef KRYLOV_H
#define KRYLOV_H

#include <stdbool.h>

/* A sparse matrix by rows: row i is elements first[i] to first[i + 1], columns ascending. */
struct matrix {
    int rows;
    int *first, *column;
    double *value;
};

enum method { METHOD_CG, METHOD_BICGSTAB, METHOD_GMRES };

struct options {
    enum method method;
    bool with_ilu;      /* precondition by an incomplete factorisation without fill-in */
    int most_iterations;
    int restart;        /* GMRES: vectors until it starts over */
    double tolerance;   /* of the residual, relative to the first one */
};

/* Solves A x = b from x. Returns whether the tolerance was met; false also where there is no memory. */
bool krylov_solve(const struct matrix *a, const double *b, double *x, const struct options *options);

/* -u'' + wind u' on a square of `side` by `side` points, by central differences. The wind makes it unsymmetric. */
bool matrix_of_grid(struct matrix *a, int side, double wind);

/* A Matrix Market file: real or integer, in coordinates, general or symmetric. False: it is none, and why is printed. */
bool matrix_of_file(struct matrix *a, const char *path);

void matrix_free(struct matrix *a);

#endif
