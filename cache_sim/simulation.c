/* See simulation.h. */
#include "simulation.h"

#include "repeats.h"
#include "workers.h"

#include <stdlib.h>

#define PART_ACCESSES 1024u /* small enough to stay in the first-level cache from one simulator to the next */

struct ft_simulation {
    struct ft_statistics *statistics;
    struct ft_cache *cache;
    struct ft_repeats *repeats; /* feeds the cache */
    struct ft_reuse *reuse;
    size_t repeatable_lines; /* see FT_CACHE_REPEATED */
    unsigned line_shift;
    struct ft_workers *workers; /* one, for caches and reuse distances */
};

static int simulate_accesses(struct ft_simulation *simulation, const struct ft_access *accesses, size_t length)
{
    for (size_t begin = 0; begin < length; begin += PART_ACCESSES) {
        size_t part = length - begin < PART_ACCESSES ? length - begin : PART_ACCESSES;
        ft_repeats_feed(simulation->repeats, accesses + begin, part);
        if (simulation->reuse && ft_reuse_feed(simulation->reuse, accesses + begin, part))
            return -1;
    }
    return 0;
}

static int simulate(void *simulator, const struct ft_job *job)
{
    struct ft_simulation *simulation = simulator;
    size_t done = 0;
    if (ft_cache_reserve(simulation->cache, job->num_operations))
        return -1;
    for (size_t i = 0; i < job->num_arrays; i++) {
        const struct ft_job_array *array = &job->arrays[i];
        if (simulate_accesses(simulation, job->accesses + done, array->position - done))
            return -1;
        ft_repeats_feed_array(simulation->repeats, &array->run);
        if (simulation->reuse) {
            ft_reuse_set_repeating(simulation->reuse, ft_repeats_repeats(simulation->repeats));
            if (ft_reuse_feed_array(simulation->reuse, &array->run))
                return -1;
        }
        done = array->position;
    }
    return simulate_accesses(simulation, job->accesses + done, job->length - done);
}

struct ft_simulation *ft_simulation_new(struct ft_statistics *statistics, struct ft_cache *cache,
                                        struct ft_reuse *reuse)
{
    struct ft_simulation *simulation = calloc(1, sizeof *simulation);
    void *simulator = simulation;
    struct ft_workers *workers = simulation ? ft_workers_new(simulate, &simulator, 1) : NULL;
    struct ft_repeats *repeats = workers && cache ? ft_repeats_new(cache) : NULL;
    if (!workers || (cache && !repeats)) {
        if (workers)
            ft_workers_free(workers);
        free(simulation);
        ft_statistics_free(statistics);
        ft_cache_free(cache);
        ft_reuse_free(reuse);
        return NULL;
    }
    *simulation = (struct ft_simulation){.statistics = statistics, .cache = cache, .repeats = repeats, .reuse = reuse,
                                          .workers = workers};
    if (cache) { /* the caller checks what it hands over after this */
        simulation->repeatable_lines = ft_cache_repeatable_lines(cache);
        simulation->line_shift = ft_cache_line_shift(cache);
    }
    return simulation;
}

void ft_simulation_free(struct ft_simulation *simulation)
{
    if (!simulation)
        return;
    ft_workers_free(simulation->workers);
    ft_statistics_free(simulation->statistics);
    ft_repeats_free(simulation->repeats);
    ft_cache_free(simulation->cache);
    ft_reuse_free(simulation->reuse);
    free(simulation);
}

int ft_simulation_drain(struct ft_simulation *simulation)
{
    ft_workers_job(simulation->workers, 0)->num_operations = ft_statistics_operations(simulation->statistics);
    if (ft_workers_drain(simulation->workers))
        return -1;
    ft_repeats_settle(simulation->repeats);
    return 0;
}

/* A failure of the worker is told at the next drain. */
int ft_simulation_feed(struct ft_simulation *simulation, const struct ft_access *batch, size_t length)
{
    if (ft_statistics_feed(simulation->statistics, batch, length))
        return -1;
    ft_workers_feed(simulation->workers, batch, length, ft_statistics_operations(simulation->statistics));
    return 0;
}

/* Writes one iteration of a run out. Returns whether it touches the lines of the one before it, which is at `before`, and
 * of lines too few to drive each other out. */
static bool write_iteration(const struct ft_simulation *simulation, const struct ft_run *run, const uint64_t *words,
                            const struct ft_access *before, struct ft_access *out)
{
    uint64_t differs = 0, straddles = 0;
    for (size_t j = 0; j < run->num_accesses; j++) {
        out[j] = ft_run_access_at(run, words, j);
        const uint64_t address = out[j].address, last = address + out[j].size_bytes - 1;
        differs |= (address ^ before[j].address) | (last ^ (before[j].address + out[j].size_bytes - 1));
        straddles |= address ^ last;
    }
    return (differs | straddles) >> simulation->line_shift == 0 && run->num_accesses <= simulation->repeatable_lines;
}

int ft_simulation_feed_run(struct ft_simulation *simulation, const struct ft_run *run)
{
    const struct ft_access *before = NULL;
    const uint64_t *words = run->words;
    if (run->iterations == 0 || run->num_accesses == 0)
        return 0;
    if (ft_statistics_feed_run(simulation->statistics, run))
        return -1;
    const size_t num_operations = ft_statistics_operations(simulation->statistics);
    for (size_t i = 0; i < run->iterations; i++, words += run->period) {
        struct ft_job *job = ft_workers_job(simulation->workers, run->num_accesses);
        struct ft_access *out = job->accesses + job->length;
        if (job->length == 0)
            before = NULL; /* it is in a job that is not ours any more */
        bool repeats = write_iteration(simulation, run, words, before ? before : out, out);
        if (repeats && before)
            for (size_t j = 0; j < run->num_accesses; j++)
                out[j].flags |= FT_CACHE_REPEATED;
        before = out;
        job->num_operations = num_operations;
        job->length += run->num_accesses;
    }
    return 0;
}

int ft_simulation_feed_array(struct ft_simulation *simulation, const struct ft_array_run *run)
{
    if (ft_statistics_feed_array(simulation->statistics, run))
        return -1;
    ft_workers_feed_array(simulation->workers, run, ft_statistics_operations(simulation->statistics));
    return 0;
}
