/* Threads that update one table, POSIX threads: most of the work is done with a lock held. Prints a checksum. */
#include "threaded.h"

#include <pthread.h>

#define SLOTS 4096
#define UPDATES 160000
#define WORK 600

static uint64_t table[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int threads;

static uint64_t mix(uint64_t value, int rounds)
{
    for (int round = 0; round < rounds; round++)
        value = next_number(value) ^ (value >> 31);
    return value;
}

static void update(uint64_t key)
{
    table[key % SLOTS] += mix(key, 2 * WORK / 3);
}

static void *worker(void *argument)
{
    int number = (int)(intptr_t)argument;
    for (int i = number; i < UPDATES; i += threads) {
        uint64_t key = mix((uint64_t)i, WORK / 3);
        pthread_mutex_lock(&lock);
        update(key);
        pthread_mutex_unlock(&lock);
    }
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
    uint64_t checksum = 0;
    for (int slot = 0; slot < SLOTS; slot++)
        checksum ^= table[slot];
    printf("%016llx\n", (unsigned long long)checksum);
    return 0;
}
