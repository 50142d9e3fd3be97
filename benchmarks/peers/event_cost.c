/* What a call that counts or records takes: each of 16,384 calls of each of some threads is timed alone.
 *
 * usage: event_cost inc|record|none THREADS: prints the ticks of the clock a microsecond, then those of each call, or
 * of no call at all: what reading the clock takes, and what the system takes meanwhile.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sde_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLS 16384 /* as many doubles as in the article on software-defined events */
#define MOST_THREADS 64

static void *counter, *recorder;
static enum { INCREMENT, RECORD, NOTHING } operation;
static unsigned ticks[MOST_THREADS][CALLS];
static pthread_barrier_t all_ready;

static unsigned long long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

#ifdef __x86_64__
#include <x86intrin.h>
static unsigned long long clock_ticks(void)
{
    unsigned of_core;
    return __rdtscp(&of_core);
}
#else
static unsigned long long clock_ticks(void)
{
    return now_ns();
}
#endif

static void *count(void *thread)
{
    unsigned *own = ticks[(long)thread];
    memset(own, 1, sizeof ticks[0]);
    pthread_barrier_wait(&all_ready);
    for (int i = 0; i < CALLS; i++) {
        const double value = i;
        const unsigned long long begun = clock_ticks();
        if (operation == RECORD)
            papi_sde_record(recorder, sizeof value, &value);
        else if (operation == INCREMENT)
            papi_sde_inc_counter(counter, 1);
        own[i] = (unsigned)(clock_ticks() - begun);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    operation = strcmp(argv[1], "record") == 0 ? RECORD : strcmp(argv[1], "inc") == 0 ? INCREMENT : NOTHING;
    const long num_threads = atol(argv[2]);
    if (num_threads < 1 || num_threads > MOST_THREADS)
        return 2;
    papi_handle_t library = papi_sde_init("cost");
    papi_sde_create_counter(library, "counter", PAPI_SDE_RO | PAPI_SDE_DELTA, &counter);
    papi_sde_create_recorder(library, "recorder", sizeof(double), papi_sde_compare_double, &recorder);
    pthread_t threads[MOST_THREADS];
    pthread_barrier_init(&all_ready, NULL, (unsigned)num_threads);
    const unsigned long long begun_ns = now_ns(), begun = clock_ticks();
    for (long i = 1; i < num_threads; i++)
        pthread_create(&threads[i], NULL, count, (void *)i);
    count((void *)0);
    for (long i = 1; i < num_threads; i++)
        pthread_join(threads[i], NULL);
    while (now_ns() - begun_ns < 20000000)
        ;
    printf("%f\n", (clock_ticks() - begun) * 1e3 / (double)(now_ns() - begun_ns));
    for (long i = 0; i < num_threads; i++)
        for (int j = 0; j < CALLS; j++)
            printf("%u\n", ticks[i][j]);
    return 0;
}
