/* See memory_feed.h. */
#include "memory_feed.h"

#include "cache_sim/simulation/workers.h"

#include <stdlib.h>

struct ft_memory_feed {
    struct ft_workers *workers; /* one for each system */
    size_t num_systems;
    void *systems[]; /* struct ft_memory_system */
};

static int simulate(void *simulator, const struct ft_job *job)
{
    if (job->length == 0) /* there is no core for a thread that made no access */
        return 0;
    return ft_memory_system_feed(simulator, job->thread, job->accesses, job->length);
}

struct ft_memory_feed *ft_memory_feed_new(const struct ft_system_plan *plans, size_t num_systems)
{
    struct ft_memory_feed *feed = calloc(1, sizeof *feed + num_systems * sizeof *feed->systems);
    bool good = feed;
    for (; good && feed->num_systems < num_systems; feed->num_systems++) {
        struct ft_memory_system *system = ft_memory_system_new(&plans[feed->num_systems]);
        feed->systems[feed->num_systems] = system;
        good = system;
    }
    if (good && (feed->workers = ft_workers_new(simulate, feed->systems, num_systems)))
        return feed;
    ft_memory_feed_free(feed);
    return NULL;
}

void ft_memory_feed_free(struct ft_memory_feed *feed)
{
    if (!feed)
        return;
    ft_workers_free(feed->workers);
    for (size_t i = 0; i < feed->num_systems; i++)
        ft_memory_system_free(feed->systems[i]);
    free(feed);
}

void ft_memory_feed_batch(struct ft_memory_feed *feed, const struct ft_access *batch, size_t length)
{
    ft_workers_feed(feed->workers, batch, length, 0);
}

void ft_memory_feed_run(struct ft_memory_feed *feed, const struct ft_run *run)
{
    const struct ft_iteration *iteration = run->iteration;
    const uint64_t *words = run->words;
    for (size_t i = 0; i < run->iterations; i++, words += iteration->num_words) {
        struct ft_job *job = ft_workers_job(feed->workers, iteration->num_accesses);
        for (size_t j = 0; j < iteration->num_accesses; j++)
            job->accesses[job->length++] = ft_run_access_at(iteration, words, j);
    }
}

void ft_memory_feed_set_thread(struct ft_memory_feed *feed, uint32_t thread)
{
    struct ft_job *job = ft_workers_job(feed->workers, 0);
    if (job->length && job->thread != thread) {
        ft_workers_hand_over(feed->workers);
        job = ft_workers_job(feed->workers, 0);
    }
    job->thread = thread;
}

int ft_memory_feed_drain(struct ft_memory_feed *feed)
{
    return ft_workers_drain(feed->workers);
}

const struct ft_memory_system *ft_memory_feed_system(const struct ft_memory_feed *feed, size_t index)
{
    return feed->systems[index];
}
