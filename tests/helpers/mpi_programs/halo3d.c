/* A seven-point stencil in slabs along three dimensions, periodic: persistent requests, and sums along rows of the grid
 * of ranks in sub-communicators. The tally is a closed form of ITERATIONS and SIDE. */
#include <mpi.h>
#include <stdlib.h>

#include "tally.h"

enum { ITERATIONS = 25, SIDE = 12, FACE = SIDE * SIDE };
static double cube[SIDE][SIDE][SIDE], out[6][FACE], in[6][FACE];

int main(int argc, char **argv)
{
    int rank, ranks, sizes[3] = {0, 0, 0}, around[3] = {1, 1, 1}, neighbours[6], row_rank, along[3] = {1, 0, 0};
    MPI_Comm grid, row, halves;
    MPI_Request requests[12];
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Dims_create(ranks, 3, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, 3, sizes, around, 0, &grid);
    MPI_Comm_rank(grid, &rank);
    MPI_Cart_sub(grid, along, &row);
    MPI_Comm_rank(row, &row_rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves);
    for (int dimension = 0; dimension < 3; dimension++)
        MPI_Cart_shift(grid, dimension, 1, &neighbours[2 * dimension], &neighbours[2 * dimension + 1]);
    for (int face = 0; face < 6; face++) {
        MPI_Recv_init(in[face], FACE, MPI_DOUBLE, neighbours[face], face ^ 1, grid, &requests[face]);
        MPI_Send_init(out[face], FACE, MPI_DOUBLE, neighbours[face], face, grid, &requests[6 + face]);
    }
    double total = 0, sum = 0;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        for (int face = 0; face < 6; face++)
            for (int i = 0; i < FACE; i++)
                out[face][i] = cube[i % SIDE][i / SIDE][face] + rank;
        MPI_Startall(12, requests);
        MPI_Waitall(12, requests, MPI_STATUSES_IGNORE);
        for (int face = 0; face < 6; face++)
            for (int i = 0; i < FACE; i++)
                cube[i % SIDE][i / SIDE][face] += in[face][i] / 6;
        total = cube[0][0][0];
        MPI_Allreduce(&total, &sum, 1, MPI_DOUBLE, MPI_SUM, row);
        MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_MAX, 0, halves);
    }
    for (int face = 0; face < 6; face++) {
        tally("isend", neighbours[face], FACE * 8, ITERATIONS);
        tally("ireceive", neighbours[face], FACE * 8, ITERATIONS);
    }
    for (int i = 0; i < 12; i++)
        MPI_Request_free(&requests[i]);
    tally("allreduce", 0, 8, ITERATIONS);
    tally("reduce", 0, 8, ITERATIONS);
    MPI_Comm_free(&halves);
    print_tallies(rank);
    MPI_Finalize();
    return 0;
}
