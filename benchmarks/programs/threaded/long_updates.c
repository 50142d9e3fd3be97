/* Threads that fill a shared table block by block, POSIX threads: a lock is held long, and changes hands seldom. */
#include "threaded.h"

#include <pthread.h>

#define BLOCKS 480
#define BLOCK 4096
#define ROUNDS 100

static uint64_t table[BLOCK];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int threads;

static uint64_t prepared(uint64_t seed)
{
    for (int i = 0; i < BLOCK * ROUNDS / 8; i++)
        seed = next_number(seed) ^ (seed >> 31);
    return seed;
}

static void add(uint64_t seed)
{
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < BLOCK; i++)
            table[i] += next_number(seed + (uint64_t)(round * BLOCK + i)) >> 7;
}

static void *worker(void *argument)
{
    int number = (int)(intptr_t)argument;
    for (int block = number; block < BLOCKS; block += threads) {
        uint64_t seed = prepared((uint64_t)block);
        pthread_mutex_lock(&lock);
        add(seed);
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
    for (int i = 0; i < BLOCK; i++)
        checksum = checksum * 31 + table[i];
    printf("%016llx\n", (unsigned long long)checksum);
    return 0;
}
