/* Jacobi iterations on a square, in blocks on a grid of ranks: non-blocking halos on a Cartesian communicator, the
 * residual summed every ten iterations. The tally is a closed form of ITERATIONS and SIDE. */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#include "tally.h"

enum { ITERATIONS = 40, SIDE = 48, EVERY = 10 };
static double now[SIDE + 2][SIDE + 2], next[SIDE + 2][SIDE + 2], out[4][SIDE], in[4][SIDE];

static void pack(int side, double *line)
{
    for (int i = 0; i < SIDE; i++)
        line[i] = side == 0   ? now[1][i + 1]
                  : side == 1 ? now[SIDE][i + 1]
                  : side == 2 ? now[i + 1][1]
                              : now[i + 1][SIDE];
}

static void unpack(int side, const double *line)
{
    for (int i = 0; i < SIDE; i++)
        *(side == 0   ? &now[0][i + 1]
          : side == 1 ? &now[SIDE + 1][i + 1]
          : side == 2 ? &now[i + 1][0]
                      : &now[i + 1][SIDE + 1]) = line[i];
}

int main(int argc, char **argv)
{
    int rank, ranks, sizes[2] = {0, 0}, around[2] = {0, 0}, neighbours[4];
    MPI_Comm grid;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 2, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, around, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_shift(grid, 0, 1, &neighbours[0], &neighbours[1]);
    MPI_Cart_shift(grid, 1, 1, &neighbours[2], &neighbours[3]);
    now[1][1] = rank + 1;
    double sum = 0;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        MPI_Request requests[8];
        for (int side = 0; side < 4; side++)
            MPI_Irecv(in[side], SIDE, MPI_DOUBLE, neighbours[side], side ^ 1, grid, &requests[side]);
        for (int side = 0; side < 4; side++) {
            pack(side, out[side]);
            MPI_Isend(out[side], SIDE, MPI_DOUBLE, neighbours[side], side, grid, &requests[4 + side]);
        }
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE);
        double change = 0;
        for (int side = 0; side < 4; side++)
            if (neighbours[side] != MPI_PROC_NULL)
                unpack(side, in[side]);
        for (int i = 1; i <= SIDE; i++)
            for (int j = 1; j <= SIDE; j++) {
                next[i][j] = 0.25 * (now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1]);
                change += fabs(next[i][j] - now[i][j]);
            }
        memcpy(now, next, sizeof now);
        if (iteration % EVERY == EVERY - 1)
            MPI_Allreduce(&change, &sum, 1, MPI_DOUBLE, MPI_SUM, grid);
    }
    for (int side = 0; side < 4; side++)
        if (neighbours[side] != MPI_PROC_NULL) {
            tally("isend", neighbours[side], SIDE * 8, ITERATIONS);
            tally("ireceive", neighbours[side], SIDE * 8, ITERATIONS);
        }
    tally("allreduce", 0, 8, ITERATIONS / EVERY);
    if (rank == 0)
        printf("change %.12g\n", sum);
    print_tallies(rank);
    MPI_Finalize();
    return 0;
}
