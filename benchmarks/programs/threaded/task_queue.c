/* A queue of tasks of different lengths, from which POSIX threads take one after the other under a lock. */
#include "threaded.h"

#include <pthread.h>

#define TASKS 2000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int next_task;
static uint64_t results[TASKS];

static int take(void)
{
    pthread_mutex_lock(&lock);
    int task = next_task < TASKS ? next_task++ : -1;
    pthread_mutex_unlock(&lock);
    return task;
}

static uint64_t collatz(uint64_t first, int count)
{
    uint64_t steps = 0;
    for (uint64_t start = first; start < first + (uint64_t)count; start++)
        for (uint64_t value = start; value > 1; steps++)
            value = value & 1 ? 3 * value + 1 : value / 2;
    return steps;
}

static void *worker(void *argument)
{
    (void)argument;
    for (int task; (task = take()) >= 0;)
        results[task] = collatz(1 + (uint64_t)task * 1000, 100 + (task * 37) % 500);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t workers[MOST_THREADS];
    int threads = threads_argument(argc, argv);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&workers[i], NULL, worker, NULL))
            return 1;
    for (int i = 0; i < threads; i++)
        pthread_join(workers[i], NULL);
    uint64_t sum = 0;
    for (int task = 0; task < TASKS; task++)
        sum += results[task];
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
