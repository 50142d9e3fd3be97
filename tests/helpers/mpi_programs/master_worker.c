/* A master hands out tasks to whoever is free: receives from any sender, probes, sends of different sizes. Which worker
 * gets which task is chance; each rank counts what it does. */
#include <mpi.h>
#include <stdlib.h>

#include "tally.h"

enum { TASKS = 60, MOST = 512, RESULT = 1, TASK = 2, STOP = 3 };

static void work(int rank)
{
    double task[MOST], result = rank;
    MPI_Status status;
    for (;;) {
        int length;
        MPI_Send(&result, 1, MPI_DOUBLE, 0, RESULT, MPI_COMM_WORLD);
        tally("send", 0, 8, 1);
        MPI_Probe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        MPI_Get_count(&status, MPI_DOUBLE, &length);
        MPI_Recv(task, length, MPI_DOUBLE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        tally("receive", 0, length * 8L, 1);
        if (status.MPI_TAG == STOP)
            return;
        for (int i = 0; i < length; i++)
            result += task[i] * 1e-3;
    }
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank) {
        work(rank);
    } else {
        double task[MOST] = {1}, result;
        MPI_Status status;
        for (int handed = 0, stopped = 0; stopped < ranks - 1;) {
            MPI_Request request;
            int done = 0;
            MPI_Irecv(&result, 1, MPI_DOUBLE, MPI_ANY_SOURCE, RESULT, MPI_COMM_WORLD, &request);
            tally("ireceive", -1, 8, 1);
            while (!done)
                MPI_Test(&request, &done, &status);
            tally("test", 0, 0, 1);
            const int length = handed < TASKS ? 8 << handed % 4 : 0;
            MPI_Send(task, length, MPI_DOUBLE, status.MPI_SOURCE, length ? TASK : STOP, MPI_COMM_WORLD);
            tally("send", status.MPI_SOURCE, length * 8L, 1);
            handed += length != 0;
            stopped += length == 0;
        }
    }
    print_tallies(rank);
    MPI_Finalize();
    return 0;
}
