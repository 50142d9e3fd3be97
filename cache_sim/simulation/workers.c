/* See workers.h.
 *
 * Accesses go into the job being filled, jobs[handed % JOBS]; a full one is handed to all workers. Jobs done ..
 * handed-1 are a worker's to simulate; no running worker is ever JOBS behind when the producer goes on, so the job
 * being filled is the producer's alone. `handed`, `draining`, `stop` and each `done` and `failed` are under `lock`.
 * Workers are started with the first job that is handed over; a simulator without one (the machine has no thread left)
 * is run by the producer.
 */
#include "workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define JOBS 128u /* more than the scheduler lets a thread wait for its turn, or the producer would stop for that */
#define JOBS_TO_WAKE_FOR 16u   /* a worker that waits goes on with so many jobs to do, */
#define PLACES_TO_WAKE_FOR 32u /* and a producer with room for so many: not with each */

struct worker {
    struct ft_workers *workers;
    void *simulator;
    pthread_t thread;
    unsigned done;
    bool is_running, failed;
};

struct ft_workers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ft_simulate *simulate;
    unsigned handed;
    bool draining; /* workers are to take every job */
    bool stop, is_started;
    size_t num_workers;
    struct worker *worker;
    struct ft_job jobs[JOBS];
};

struct ft_workers *ft_workers_new(ft_simulate *simulate, void *const *simulators, size_t num_simulators)
{
    struct ft_workers *workers = calloc(1, sizeof *workers);
    struct worker *worker = calloc(num_simulators, sizeof *worker);
    if (!workers || !worker) {
        free(workers);
        free(worker);
        return NULL;
    }
    for (size_t i = 0; i < num_simulators; i++)
        worker[i] = (struct worker){.workers = workers, .simulator = simulators[i]};
    workers->simulate = simulate;
    workers->worker = worker;
    workers->num_workers = num_simulators;
    pthread_mutex_init(&workers->lock, NULL); /* neither can fail with default attributes on Linux */
    pthread_cond_init(&workers->changed, NULL);
    return workers;
}

void ft_workers_free(struct ft_workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->lock);
    workers->stop = true;
    pthread_cond_broadcast(&workers->changed);
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < workers->num_workers; i++)
        if (workers->worker[i].is_running)
            pthread_join(workers->worker[i].thread, NULL);
    pthread_cond_destroy(&workers->changed);
    pthread_mutex_destroy(&workers->lock);
    free(workers->worker);
    free(workers);
}

/* With the lock held: lets a worker that has done all rest until there is enough to do. False when it is to stop. */
static bool has_work(const struct worker *worker)
{
    struct ft_workers *workers = worker->workers;
    if (worker->done == workers->handed)
        while (!workers->stop && workers->handed - worker->done < (workers->draining ? 1 : JOBS_TO_WAKE_FOR))
            pthread_cond_wait(&workers->changed, &workers->lock);
    return !workers->stop;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct ft_workers *workers = worker->workers;
    pthread_mutex_lock(&workers->lock);
    while (has_work(worker)) {
        const struct ft_job *job = &workers->jobs[worker->done % JOBS];
        const bool skip = worker->failed;
        pthread_mutex_unlock(&workers->lock);
        const bool good = !skip && workers->simulate(worker->simulator, job) == 0;
        pthread_mutex_lock(&workers->lock);
        worker->failed |= !good;
        worker->done++;
        if (workers->handed - worker->done <= JOBS - PLACES_TO_WAKE_FOR)
            pthread_cond_broadcast(&workers->changed);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

/* Workers take no signals: they are for the threads that were there before. */
static void start(struct ft_workers *workers)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < workers->num_workers; i++) {
        struct worker *worker = &workers->worker[i];
        worker->is_running = pthread_create(&worker->thread, NULL, work, worker) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    workers->is_started = true;
}

static struct ft_job *filling(struct ft_workers *workers)
{
    return &workers->jobs[workers->handed % JOBS];
}

static void empty(struct ft_job *job)
{
    job->length = job->num_repeats = job->num_arrays = job->num_index = 0;
    job->filtered_from = 0;
}

/* With the lock held: how far the running worker that has most to do is behind. */
static unsigned most_behind(const struct ft_workers *workers)
{
    unsigned most = 0;
    for (size_t i = 0; i < workers->num_workers; i++) {
        const struct worker *worker = &workers->worker[i];
        if (worker->is_running && workers->handed - worker->done > most)
            most = workers->handed - worker->done;
    }
    return most;
}

/* Gets the job being filled simulated by the simulators that have no thread, or by all, with every thread at rest. */
static void simulate_here(struct ft_workers *workers, bool all)
{
    for (size_t i = 0; i < workers->num_workers; i++) {
        struct worker *worker = &workers->worker[i];
        if ((all || !worker->is_running) && !worker->failed)
            worker->failed = workers->simulate(worker->simulator, filling(workers)) != 0;
    }
}

unsigned ft_workers_hand_over(struct ft_workers *workers)
{
    const uint32_t thread = filling(workers)->thread;
    if (!workers->is_started)
        start(workers);
    simulate_here(workers, false);
    pthread_mutex_lock(&workers->lock);
    workers->handed++;
    const unsigned behind = most_behind(workers);
    if (behind >= JOBS_TO_WAKE_FOR)
        pthread_cond_broadcast(&workers->changed);
    if (behind == JOBS)
        while (most_behind(workers) > JOBS - PLACES_TO_WAKE_FOR)
            pthread_cond_wait(&workers->changed, &workers->lock);
    const unsigned handed = workers->handed;
    pthread_mutex_unlock(&workers->lock);
    empty(filling(workers));
    filling(workers)->thread = thread;
    return handed;
}

/* With the lock held: waits until no running worker has more than `behind` jobs to do. */
static void wait_until(struct ft_workers *workers, unsigned behind)
{
    workers->draining = true;
    pthread_cond_broadcast(&workers->changed);
    while (most_behind(workers) > behind)
        pthread_cond_wait(&workers->changed, &workers->lock);
    workers->draining = false;
}

void ft_workers_wait(struct ft_workers *workers, unsigned handed)
{
    pthread_mutex_lock(&workers->lock);
    wait_until(workers, workers->handed - handed);
    pthread_mutex_unlock(&workers->lock);
}

int ft_workers_drain(struct ft_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    wait_until(workers, 0);
    pthread_mutex_unlock(&workers->lock);
    simulate_here(workers, true);
    empty(filling(workers));
    bool failed = false;
    for (size_t i = 0; i < workers->num_workers; i++)
        failed |= workers->worker[i].failed;
    return failed ? -1 : 0;
}

struct ft_job *ft_workers_job(struct ft_workers *workers, size_t length)
{
    if (FT_JOB_ACCESSES - filling(workers)->length < length)
        ft_workers_hand_over(workers);
    return filling(workers);
}

void ft_workers_feed(struct ft_workers *workers, const struct ft_access *batch, size_t length, size_t num_operations)
{
    while (length) {
        struct ft_job *job = ft_workers_job(workers, 1);
        const size_t room = FT_JOB_ACCESSES - job->length, part = length < room ? length : room;
        for (size_t i = 0; i < part; i++)
            job->accesses[job->length + i] = batch[i];
        job->num_operations = num_operations;
        job->length += part;
        batch += part;
        length -= part;
    }
}

static uint64_t indices_of(const struct ft_array_run *run)
{
    return run->index ? ft_array_run_points(run) : 0;
}

bool ft_workers_take_array(const struct ft_job *job, const struct ft_array_run *run)
{
    return job->num_arrays < FT_JOB_ARRAYS && job->num_index + indices_of(run) <= FT_JOB_INDEX;
}

void ft_workers_feed_array(struct ft_workers *workers, const struct ft_array_run *run, size_t num_operations)
{
    const uint64_t num_index = indices_of(run);
    if (!ft_workers_take_array(filling(workers), run))
        ft_workers_hand_over(workers);
    struct ft_job *job = filling(workers);
    struct ft_job_array *array = &job->arrays[job->num_arrays++];
    *array = (struct ft_job_array){job->length, *run};
    job->num_operations = num_operations;
    if (!num_index)
        return;
    array->run.index = memcpy(job->index + job->num_index, run->index, num_index * sizeof *run->index);
    job->num_index += num_index;
}
