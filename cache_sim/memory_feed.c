/* See memory_feed.h.
 *
 * Accesses go into the job being filled, jobs[handed % JOBS]; a full one is handed to all workers. Worker w has simulated
 * the jobs before its `done`; the producer waits while the slowest is JOBS - 1 behind. `handed`, `stop` and each `done` and
 * `failed` are under `lock`. Workers are started with the first job that is handed over; a system without one (the
 * machine has no thread left) is simulated by the producer.
 */
#include "memory_feed.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#define JOBS 8u
#define JOB_ACCESSES 8192u

struct job {
    uint32_t thread;
    size_t length;
    struct ft_access accesses[JOB_ACCESSES];
};

struct worker {
    struct ft_memory_feed *feed;
    struct ft_memory_system *system;
    pthread_t thread;
    unsigned done;
    bool is_running, failed;
};

struct ft_memory_feed {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned handed;
    bool stop, is_started;
    size_t num_workers;
    struct worker *workers;
    struct job jobs[JOBS];
};

struct ft_memory_feed *ft_memory_feed_new(const struct ft_system_plan *plans, size_t num_systems)
{
    struct ft_memory_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    pthread_mutex_init(&feed->lock, NULL); /* neither can fail with default attributes on Linux */
    pthread_cond_init(&feed->changed, NULL);
    feed->workers = calloc(num_systems, sizeof *feed->workers);
    bool good = feed->workers;
    for (; good && feed->num_workers < num_systems; feed->num_workers++) {
        struct ft_memory_system *system = ft_memory_system_new(&plans[feed->num_workers]);
        feed->workers[feed->num_workers] = (struct worker){.feed = feed, .system = system};
        good = system;
    }
    if (good)
        return feed;
    ft_memory_feed_free(feed);
    return NULL;
}

void ft_memory_feed_free(struct ft_memory_feed *feed)
{
    if (!feed)
        return;
    pthread_mutex_lock(&feed->lock);
    feed->stop = true;
    pthread_cond_broadcast(&feed->changed);
    pthread_mutex_unlock(&feed->lock);
    for (size_t i = 0; i < feed->num_workers; i++) {
        if (feed->workers[i].is_running)
            pthread_join(feed->workers[i].thread, NULL);
        ft_memory_system_free(feed->workers[i].system);
    }
    pthread_cond_destroy(&feed->changed);
    pthread_mutex_destroy(&feed->lock);
    free(feed->workers);
    free(feed);
}

static bool simulate(struct worker *worker, const struct job *job)
{
    return ft_memory_system_feed(worker->system, job->thread, job->accesses, job->length) == 0;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct ft_memory_feed *feed = worker->feed;
    pthread_mutex_lock(&feed->lock);
    while (!feed->stop) {
        if (worker->done == feed->handed) {
            pthread_cond_wait(&feed->changed, &feed->lock);
            continue;
        }
        const struct job *job = &feed->jobs[worker->done % JOBS];
        const bool skip = worker->failed;
        pthread_mutex_unlock(&feed->lock);
        const bool good = !skip && simulate(worker, job);
        pthread_mutex_lock(&feed->lock);
        worker->failed |= !good;
        worker->done++;
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

/* Workers take no signals: they are for the threads that were there before. */
static void start_workers(struct ft_memory_feed *feed)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < feed->num_workers; i++) {
        struct worker *worker = &feed->workers[i];
        worker->is_running = pthread_create(&worker->thread, NULL, work, worker) == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    feed->is_started = true;
}

static struct job *filling(struct ft_memory_feed *feed)
{
    return &feed->jobs[feed->handed % JOBS];
}

/* Waits, with the lock held, until no worker is more than so many jobs behind. */
static void wait_for_workers(struct ft_memory_feed *feed, unsigned behind)
{
    for (size_t i = 0; i < feed->num_workers; i++)
        while (feed->workers[i].is_running && feed->handed - feed->workers[i].done > behind)
            pthread_cond_wait(&feed->changed, &feed->lock);
}

/* Gets the job being filled simulated, now or later, and begins an empty one of the same thread. */
static void hand_over(struct ft_memory_feed *feed)
{
    const struct job *job = filling(feed);
    const uint32_t thread = job->thread;
    if (!feed->is_started)
        start_workers(feed);
    for (size_t i = 0; i < feed->num_workers; i++) {
        struct worker *worker = &feed->workers[i];
        if (!worker->is_running && !worker->failed)
            worker->failed = !simulate(worker, job);
    }
    pthread_mutex_lock(&feed->lock);
    feed->handed++;
    pthread_cond_broadcast(&feed->changed);
    wait_for_workers(feed, JOBS - 1);
    pthread_mutex_unlock(&feed->lock);
    filling(feed)->length = 0;
    filling(feed)->thread = thread;
}

void ft_memory_feed_batch(struct ft_memory_feed *feed, const struct ft_access *batch, size_t length)
{
    while (length) {
        struct job *job = filling(feed);
        const size_t room = JOB_ACCESSES - job->length, part = length < room ? length : room;
        for (size_t i = 0; i < part; i++)
            job->accesses[job->length + i] = batch[i];
        job->length += part;
        batch += part;
        length -= part;
        if (job->length == JOB_ACCESSES)
            hand_over(feed);
    }
}

void ft_memory_feed_run(struct ft_memory_feed *feed, const struct ft_run *run)
{
    const uint64_t *words = run->words;
    for (size_t i = 0; i < run->iterations; i++, words += run->period) {
        struct job *job = filling(feed);
        if (JOB_ACCESSES - job->length < run->num_accesses) {
            hand_over(feed);
            job = filling(feed);
        }
        struct ft_access *out = job->accesses + job->length;
        for (size_t j = 0; j < run->num_accesses; j++) {
            const struct ft_run_access *access = &run->accesses[j];
            out[j] = (struct ft_access){words[access->word] & run->address_mask, access->op, access->size_bytes,
                                        access->flags};
        }
        job->length += run->num_accesses;
    }
}

void ft_memory_feed_set_thread(struct ft_memory_feed *feed, uint32_t thread)
{
    if (filling(feed)->length && filling(feed)->thread != thread)
        hand_over(feed);
    filling(feed)->thread = thread;
}

int ft_memory_feed_drain(struct ft_memory_feed *feed)
{
    if (filling(feed)->length)
        hand_over(feed);
    pthread_mutex_lock(&feed->lock);
    wait_for_workers(feed, 0);
    bool failed = false;
    for (size_t i = 0; i < feed->num_workers; i++)
        failed |= feed->workers[i].failed;
    pthread_mutex_unlock(&feed->lock);
    return failed ? -1 : 0;
}

const struct ft_memory_system *ft_memory_feed_system(const struct ft_memory_feed *feed, size_t index)
{
    return feed->workers[index].system;
}
