/* See simulation.h.
 *
 * Accesses go into the job being filled, jobs[handed % JOBS]; a full one is handed to the worker. Jobs done .. handed-1
 * are the worker's, the others the producer's. `handed`, `done`, `stop` and `failed` are under `lock` while the worker
 * runs. The worker is started with the first full job; where that fails, jobs are simulated as they fill up.
 */
#include "simulation.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#define JOBS 8u
#define JOBS_TO_WAKE_FOR 4u /* a thread that waits for the other one goes on with so many jobs to do, not with each */
#define JOB_ACCESSES 4096u
#define PART_ACCESSES 1024u /* small enough to stay in the first-level cache from one simulator to the next */

struct job {
    size_t length;
    size_t num_operations;
    struct ft_access accesses[JOB_ACCESSES];
};

struct ft_simulation {
    struct ft_statistics *statistics;
    struct ft_cache *cache;
    struct ft_reuse *reuse;
    size_t repeatable_lines; /* see FT_CACHE_REPEATED */
    unsigned line_shift;
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned handed, done;
    bool has_worker, stop, failed;
    bool draining; /* the worker is to take every job */
    struct job jobs[JOBS];
};

struct ft_simulation *ft_simulation_new(struct ft_statistics *statistics, struct ft_cache *cache,
                                        struct ft_reuse *reuse)
{
    struct ft_simulation *simulation = calloc(1, sizeof *simulation);
    if (!simulation) {
        ft_statistics_free(statistics);
        ft_cache_free(cache);
        ft_reuse_free(reuse);
        return NULL;
    }
    simulation->statistics = statistics;
    simulation->cache = cache;
    simulation->reuse = reuse;
    if (cache) { /* the caller checks what it hands over after this */
        simulation->repeatable_lines = ft_cache_repeatable_lines(cache);
        simulation->line_shift = ft_cache_line_shift(cache);
    }
    pthread_mutex_init(&simulation->lock, NULL); /* neither can fail with default attributes on Linux */
    pthread_cond_init(&simulation->changed, NULL);
    return simulation;
}

void ft_simulation_free(struct ft_simulation *simulation)
{
    if (!simulation)
        return;
    if (simulation->has_worker) {
        pthread_mutex_lock(&simulation->lock);
        simulation->stop = true;
        pthread_cond_broadcast(&simulation->changed);
        pthread_mutex_unlock(&simulation->lock);
        pthread_join(simulation->worker, NULL);
    }
    pthread_cond_destroy(&simulation->changed);
    pthread_mutex_destroy(&simulation->lock);
    ft_statistics_free(simulation->statistics);
    ft_cache_free(simulation->cache);
    ft_reuse_free(simulation->reuse);
    free(simulation);
}

static bool simulate(struct ft_simulation *simulation, struct job *job)
{
    if (ft_cache_reserve(simulation->cache, job->num_operations))
        return false;
    for (size_t begin = 0; begin < job->length; begin += PART_ACCESSES) {
        size_t part = job->length - begin < PART_ACCESSES ? job->length - begin : PART_ACCESSES;
        ft_cache_feed(simulation->cache, job->accesses + begin, part);
        if (simulation->reuse && ft_reuse_feed(simulation->reuse, job->accesses + begin, part))
            return false;
    }
    return true;
}

static void *work(void *context)
{
    struct ft_simulation *simulation = context;
    pthread_mutex_lock(&simulation->lock);
    while (!simulation->stop) {
        if (simulation->done == simulation->handed) {
            while (simulation->handed - simulation->done < JOBS_TO_WAKE_FOR && !simulation->stop &&
                   !(simulation->draining && simulation->done != simulation->handed))
                pthread_cond_wait(&simulation->changed, &simulation->lock);
            continue;
        }
        struct job *job = &simulation->jobs[simulation->done % JOBS];
        bool skip = simulation->failed;
        pthread_mutex_unlock(&simulation->lock);
        bool good = !skip && simulate(simulation, job);
        pthread_mutex_lock(&simulation->lock);
        simulation->failed |= !good;
        simulation->done++;
        if (simulation->handed - simulation->done <= JOBS - JOBS_TO_WAKE_FOR)
            pthread_cond_broadcast(&simulation->changed);
    }
    pthread_mutex_unlock(&simulation->lock);
    return NULL;
}

/* The worker takes no signals: they are for the threads that were there before. */
static void start_worker(struct ft_simulation *simulation)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    simulation->has_worker = pthread_create(&simulation->worker, NULL, work, simulation) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static struct job *filling(struct ft_simulation *simulation)
{
    return &simulation->jobs[simulation->handed % JOBS];
}

/* Gets the job being filled simulated, now or later, and begins an empty one. */
static void hand_over(struct ft_simulation *simulation)
{
    filling(simulation)->num_operations = ft_statistics_operations(simulation->statistics);
    if (!simulation->has_worker)
        start_worker(simulation);
    if (simulation->has_worker) {
        pthread_mutex_lock(&simulation->lock);
        simulation->handed++;
        if (simulation->handed - simulation->done >= JOBS_TO_WAKE_FOR)
            pthread_cond_broadcast(&simulation->changed);
        if (simulation->handed - simulation->done == JOBS)
            while (simulation->handed - simulation->done > JOBS - JOBS_TO_WAKE_FOR)
                pthread_cond_wait(&simulation->changed, &simulation->lock);
        pthread_mutex_unlock(&simulation->lock);
    } else if (!simulate(simulation, filling(simulation))) {
        simulation->failed = true;
    }
    filling(simulation)->length = 0;
}

int ft_simulation_drain(struct ft_simulation *simulation)
{
    if (simulation->has_worker) {
        pthread_mutex_lock(&simulation->lock);
        simulation->draining = true;
        pthread_cond_broadcast(&simulation->changed);
        while (simulation->done != simulation->handed)
            pthread_cond_wait(&simulation->changed, &simulation->lock);
        simulation->draining = false;
        pthread_mutex_unlock(&simulation->lock);
    }
    struct job *rest = filling(simulation);
    rest->num_operations = ft_statistics_operations(simulation->statistics);
    if (!simulation->failed && !simulate(simulation, rest))
        simulation->failed = true;
    rest->length = 0;
    return simulation->failed ? -1 : 0;
}

/* A failure of the worker is told at the next drain, or when this thread fails too. */
int ft_simulation_feed(struct ft_simulation *simulation, const struct ft_access *batch, size_t length)
{
    if (ft_statistics_feed(simulation->statistics, batch, length))
        return -1;
    while (length) {
        struct job *job = filling(simulation);
        size_t room = JOB_ACCESSES - job->length, part = length < room ? length : room;
        for (size_t i = 0; i < part; i++)
            job->accesses[job->length + i] = batch[i];
        job->length += part;
        batch += part;
        length -= part;
        if (job->length == JOB_ACCESSES)
            hand_over(simulation);
    }
    return 0;
}

/* Writes one iteration of a run out. Returns whether it touches the lines of the one before it, which is at `before`, and
 * of lines too few to drive each other out. */
static bool write_iteration(const struct ft_simulation *simulation, const struct ft_run *run, const uint64_t *words,
                            const struct ft_access *before, struct ft_access *out)
{
    uint64_t differs = 0, straddles = 0;
    for (size_t j = 0; j < run->num_accesses; j++) {
        const struct ft_run_access *access = &run->accesses[j];
        const uint64_t address = words[access->word] & run->address_mask, last = address + access->size_bytes - 1;
        const uint64_t address_before = before[j].address;
        out[j] = (struct ft_access){address, access->op, access->size_bytes, access->flags};
        differs |= (address ^ address_before) | (last ^ (address_before + access->size_bytes - 1));
        straddles |= address ^ last;
    }
    const size_t lines = straddles >> simulation->line_shift ? 2 * run->num_accesses : run->num_accesses;
    return differs >> simulation->line_shift == 0 && lines <= simulation->repeatable_lines;
}

int ft_simulation_feed_run(struct ft_simulation *simulation, const struct ft_run *run)
{
    const struct ft_access *before = NULL;
    const uint64_t *words = run->words;
    if (run->iterations == 0 || run->num_accesses == 0)
        return 0;
    if (ft_statistics_feed_run(simulation->statistics, run))
        return -1;
    for (size_t i = 0; i < run->iterations; i++, words += run->period) {
        struct job *job = filling(simulation);
        if (JOB_ACCESSES - job->length < run->num_accesses) {
            hand_over(simulation);
            job = filling(simulation);
            before = NULL; /* it is not ours any more */
        }
        struct ft_access *out = job->accesses + job->length;
        bool repeats = write_iteration(simulation, run, words, before ? before : out, out);
        if (repeats && before)
            for (size_t j = 0; j < run->num_accesses; j++)
                out[j].flags |= FT_CACHE_REPEATED;
        before = out;
        job->length += run->num_accesses;
    }
    return 0;
}
