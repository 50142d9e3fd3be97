/* Steps of a smoothing that all threads must have done before the next one, POSIX threads and a barrier. */
#define _XOPEN_SOURCE 600
#include "threaded.h"

#include <pthread.h>

#define LENGTH 96000
#define STEPS 3000

static double cells[2][LENGTH + 2];
static pthread_barrier_t barrier;
static int threads;

static void smooth(const double *from, double *to, int first, int last)
{
    for (int i = first; i < last; i++)
        to[i] = 0.25 * from[i - 1] + 0.5 * from[i] + 0.25 * from[i + 1];
}

static void *worker(void *argument)
{
    long number = (long)(intptr_t)argument;
    int first = 1 + (int)(number * LENGTH / threads), last = 1 + (int)((number + 1) * LENGTH / threads);
    for (int step = 0; step < STEPS; step++) {
        smooth(cells[step % 2], cells[(step + 1) % 2], first, last);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t workers[MOST_THREADS];
    threads = threads_argument(argc, argv);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 1; i <= LENGTH; i++)
        cells[0][i] = (double)(i % 101);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, worker, (void *)(intptr_t)i))
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);
    double sum = 0;
    for (int i = 1; i <= LENGTH; i++)
        sum += cells[STEPS % 2][i] * (i % 3);
    printf("%.6f\n", sum);
    return 0;
}
