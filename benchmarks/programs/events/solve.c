/* Solves a system by Krylov methods.
 *
 * usage: solve SIDE|FILE.mtx [cg|bicgstab|gmres|all] [ilu|none|both] [ITERATIONS] [WIND]
 */
#include "krylov.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const METHODS[] = {"cg", "bicgstab", "gmres"};

int main(int argc, char **argv)
{
    struct matrix a;
    const char *method = argc > 2 ? argv[2] : "all", *preconditioner = argc > 3 ? argv[3] : "both";
    const int iterations = argc > 4 ? atoi(argv[4]) : 1000;
    if (argc < 2 || iterations < 1) {
        fprintf(stderr, "usage: solve SIDE|FILE.mtx [cg|bicgstab|gmres|all] [ilu|none|both] [ITERATIONS] [WIND]\n");
        return 2;
    }
    const bool is_file = strchr(argv[1], '.') != NULL;
    if (is_file ? !matrix_of_file(&a, argv[1]) : !matrix_of_grid(&a, atoi(argv[1]), argc > 5 ? atof(argv[5]) : 0))
        return 1;
    double *b = malloc((size_t)a.rows * sizeof *b), *x = malloc((size_t)a.rows * sizeof *x);
    for (int i = 0; b && i < a.rows; i++)
        b[i] = 1;
    for (int m = 0; b && x && m < 3; m++)
        for (int with_ilu = 0; with_ilu < 2; with_ilu++) {
            if (strcmp(method, "all") != 0 && strcmp(method, METHODS[m]) != 0)
                continue;
            if (strcmp(preconditioner, "both") != 0 && (strcmp(preconditioner, "ilu") == 0) != with_ilu)
                continue;
            memset(x, 0, (size_t)a.rows * sizeof *x);
            const struct options options = {(enum method)m, with_ilu, iterations, 30, 1e-10};
            const bool is_solved = krylov_solve(&a, b, x, &options);
            printf("%s%s %s\n", METHODS[m], with_ilu ? " with ilu" : "", is_solved ? "converged" : "did not converge");
        }
    free(b);
    free(x);
    matrix_free(&a);
    return 0;
}
