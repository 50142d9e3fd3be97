/* A thread waits, spinning, for the others: those that slept would begin late. Where threads share a core they yield.
 */
#define _GNU_SOURCE

#include "together.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WAITING, GO, CANCELLED };

struct shared {
    atomic_size_t ready;
    atomic_int command;
};

struct part {
    const struct ft_kernel *kernel;
    struct ft_work *work;
    struct shared *shared;
    int cpu;
    uint64_t operations;
    double end;
    pthread_t thread;
};

static void *run_part(void *argument)
{
    struct part *part = argument;
#ifdef __linux__
    if (part->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(part->cpu, &set);
        (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* not allowed to: then anywhere */
    }
#endif
    atomic_fetch_add(&part->shared->ready, 1);
    int command;
    while ((command = atomic_load(&part->shared->command)) == WAITING)
        sched_yield();
    if (command == GO) {
        part->operations = part->kernel->run(part->work);
        part->end = ft_now();
    }
    return NULL;
}

int ft_run_together(const struct ft_kernel *kernel, struct ft_work *works, const int *cpus, size_t count,
                    uint64_t *operations, double *seconds)
{
    struct shared shared = {0};
    struct part *parts = calloc(count ? count : 1, sizeof *parts);
    if (!parts)
        return ENOMEM;
    size_t started = 0;
    int error = 0;
    for (; started < count; started++) {
        struct part *part = &parts[started];
        *part = (struct part){kernel, &works[started], &shared, cpus[started], 0, 0.0, 0};
        if ((error = pthread_create(&part->thread, NULL, run_part, part)))
            break;
    }
    while (!error && atomic_load(&shared.ready) < count)
        sched_yield();
    const double begin = ft_now();
    double end = begin;
    atomic_store(&shared.command, error ? CANCELLED : GO);
    for (size_t i = 0; i < started; i++) {
        pthread_join(parts[i].thread, NULL);
        operations[i] = parts[i].operations;
        end = parts[i].end > end ? parts[i].end : end;
    }
    *seconds = end - begin;
    free(parts);
    return error;
}
