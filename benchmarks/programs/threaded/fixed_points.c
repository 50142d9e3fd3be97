/* Iterations to a fixed point from many starts, POSIX threads: compute-bound, the second half takes thrice as long. */
#include "threaded.h"

#include <math.h>
#include <pthread.h>

#define STARTS 12000

static double results[STARTS];
static int threads;

static double iterate(double value, int times)
{
    for (int i = 0; i < times; i++)
        value = 1 / (0.7 + value * value);
    return value;
}

static void *worker(void *argument)
{
    long number = (long)(intptr_t)argument;
    int first = (int)(number * STARTS / threads), last = (int)((number + 1) * STARTS / threads);
    for (int i = first; i < last; i++)
        results[i] = iterate((double)i / STARTS, i < STARTS / 2 ? 1000 : 3000);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t workers[MOST_THREADS];
    threads = threads_argument(argc, argv);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, worker, (void *)(intptr_t)i))
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);
    double sum = 0;
    for (int i = 0; i < STARTS; i++)
        sum += results[i];
    printf("%.9f\n", sum);
    return 0;
}
