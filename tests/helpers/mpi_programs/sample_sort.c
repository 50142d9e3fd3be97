/* Sample sort: splitters from gathered samples, then every rank sends each other its part by alltoallv. The tally of
 * alltoallv counts what goes to each rank as it is sent. */
#include <mpi.h>
#include <stdlib.h>

#include "tally.h"

enum { KEYS = 4000, SAMPLES = 16, SORTS = 5 };
static int keys[KEYS], received[64 * KEYS];

static int compare(const void *a, const void *b)
{
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int own[SAMPLES], *samples = malloc(sizeof own * (size_t)ranks),
                      *numbers = calloc(5 * (size_t)ranks, sizeof *numbers);
    int *counts = numbers, *places = numbers + ranks, *room = numbers + 2 * ranks, *room_places = numbers + 3 * ranks;
    srand((unsigned)rank + 1);
    long sorted = 0, total = 0;
    for (int sort = 0; sort < SORTS; sort++) {
        for (int i = 0; i < KEYS; i++)
            keys[i] = rand() % 100000;
        qsort(keys, KEYS, sizeof *keys, compare);
        for (int i = 0; i < SAMPLES; i++)
            own[i] = keys[i * (KEYS / SAMPLES)];
        MPI_Allgather(own, SAMPLES, MPI_INT, samples, SAMPLES, MPI_INT, MPI_COMM_WORLD);
        qsort(samples, (size_t)(SAMPLES * ranks), sizeof *samples, compare);
        memset(counts, 0, sizeof *counts * (size_t)ranks);
        for (int i = 0, to = 0; i < KEYS; i++) {
            while (to < ranks - 1 && keys[i] >= samples[(to + 1) * SAMPLES])
                to++;
            counts[to]++;
        }
        MPI_Alltoall(counts, 1, MPI_INT, room, 1, MPI_INT, MPI_COMM_WORLD);
        for (int i = 1; i < ranks; i++) {
            places[i] = places[i - 1] + counts[i - 1];
            room_places[i] = room_places[i - 1] + room[i - 1];
        }
        MPI_Alltoallv(keys, counts, places, MPI_INT, received, room, room_places, MPI_INT, MPI_COMM_WORLD);
        for (int i = 0; i < ranks; i++)
            tally("alltoallv", i, counts[i] * 4L, 1);
        sorted = room_places[ranks - 1] + room[ranks - 1];
        qsort(received, (size_t)sorted, sizeof *received, compare);
    }
    MPI_Reduce(&sorted, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    tally("allgather", 0, SAMPLES * 4, SORTS);
    tally("alltoall", 0, 4, SORTS);
    tally("reduce", 0, 8, 1);
    if (rank == 0)
        printf("sorted %ld\n", total);
    print_tallies(rank);
    MPI_Finalize();
    return 0;
}
