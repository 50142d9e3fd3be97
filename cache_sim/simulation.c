/* See simulation.h.
 *
 * The producer counts each access and leaves out those that change nothing (recent_lines.h), but in bursts of reuse.c, which
 * are of all accesses. When one begins and ends is known at the end of the burst before it, so that results do not depend
 * on how far the worker is behind.
 */
#include "simulation.h"

#include "recent_lines.h"
#include "repeats.h"
#include "workers.h"

#include <stdlib.h>

#define PART_ACCESSES 1024u /* small enough to stay in the first-level cache from one simulator to the next */
#define MOST_LEFT (UINT64_C(1) << 30)

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

struct ft_simulation {
    struct ft_statistics *statistics;
    struct ft_cache *cache;
    struct ft_repeats *repeats; /* feeds the cache and `reuse` */
    struct ft_reuse *reuse;
    struct ft_workers *workers; /* one, for caches and reuse distances */
    struct ft_running *operations; /* of `statistics`, with room for `capacity` */
    size_t capacity;
    struct ft_recent_lines recent;
    unsigned cache_line_shift;
    size_t repeatable_lines; /* so many stay in every cache, whatever their sets */
    struct ft_job *job; /* being filled */
    bool takes_all;     /* nothing is left out of it */
    uint64_t position;  /* accesses fed before this job's */
    uint64_t given, left; /* accesses that the job may be about, and those still to come */
    struct ft_reuse_period period;
    unsigned burst_handed; /* jobs handed over when the last burst was over */
};

/* ---- the worker --------------------------------------------------------------------------------------------------- */

/* Returns 0, or -1 when memory ran out. */
static int sample(struct ft_reuse *reuse, const struct ft_job *job)
{
    size_t begin = 0;
    for (size_t i = 0; i < job->num_repeats; i++) {
        const struct ft_repeat *repeat = &job->repeats[i];
        if (repeat->times == 0)
            continue;
        ft_reuse_sample(reuse, job->accesses + begin, repeat->begin - begin, 1);
        ft_reuse_sample(reuse, job->accesses + repeat->begin, repeat->end - repeat->begin, 1 + repeat->times);
        begin = repeat->end;
    }
    ft_reuse_sample(reuse, job->accesses + begin, job->length - begin, 1);
    return ft_reuse_end_sample(reuse, job->filtered_from);
}

static int simulate_accesses(struct ft_simulation *simulation, const struct ft_access *accesses, size_t length)
{
    for (size_t begin = 0; begin < length; begin += PART_ACCESSES) {
        const size_t part = length - begin < PART_ACCESSES ? length - begin : PART_ACCESSES;
        if (ft_repeats_feed(simulation->repeats, accesses + begin, part))
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
    if (job->filtered_from) {
        ft_repeats_feed_cache(simulation->repeats, job->accesses, job->length);
        return simulation->reuse ? sample(simulation->reuse, job) : 0;
    }
    for (size_t i = 0; i < job->num_arrays; i++) {
        const struct ft_job_array *array = &job->arrays[i];
        if (simulate_accesses(simulation, job->accesses + done, array->position - done) ||
            ft_repeats_feed_array(simulation->repeats, &array->run))
            return -1;
        done = array->position;
    }
    return simulate_accesses(simulation, job->accesses + done, job->length - done);
}

/* ---- the producer ------------------------------------------------------------------------------------------------- */

static void end_job(struct ft_simulation *simulation)
{
    const uint64_t accesses = simulation->given - simulation->left;
    if (simulation->job->num_arrays)
        simulation->left = 0; /* what follows may be filtered again */
    if (accesses > 0 || simulation->job->num_arrays) {
        simulation->job->filtered_from = simulation->takes_all ? 0 : accesses;
        simulation->job->num_operations = ft_statistics_operations(simulation->statistics);
        const unsigned handed = ft_workers_hand_over(simulation->workers);
        if (simulation->takes_all)
            simulation->burst_handed = handed;
    }
    simulation->position += accesses;
    simulation->given = simulation->left;
    simulation->job = ft_workers_job(simulation->workers, 0);
}

/* How many accesses from here on are to be treated alike, `accesses` at least; and how. */
static uint64_t plan(struct ft_simulation *simulation, uint64_t accesses)
{
    const uint64_t position = simulation->position;
    for (;;) {
        const struct ft_reuse_period *period = &simulation->period;
        simulation->takes_all = false;
        if (!simulation->reuse)
            return MOST_LEFT;
        if (position + accesses <= period->burst_begin)
            return period->burst_begin - position;
        if (position + accesses <= period->end && position >= period->burst_end)
            return period->end - position;
        simulation->takes_all = true;
        if (position < period->burst_end)
            return period->burst_end - position > accesses ? period->burst_end - position : accesses;
        if (position < period->end)
            return accesses;
        ft_workers_wait(simulation->workers, simulation->burst_handed);
        simulation->period = ft_reuse_next_period(simulation->reuse);
        if (simulation->period.end <= position) /* it has run out of memory */
            return MOST_LEFT;
    }
}

/* Makes room for `accesses` more, at most as many as a job has room for, of operations below `capacity`. Returns 0, or -1
 * when memory ran out. */
static int reserve(struct ft_simulation *simulation, size_t capacity, uint64_t accesses)
{
    if (FT_JOB_ACCESSES - simulation->job->length < accesses)
        end_job(simulation);
    uint64_t to_prepare = 0;
    if (simulation->left < accesses) {
        end_job(simulation);
        const uint64_t left = plan(simulation, accesses);
        simulation->given = simulation->left = to_prepare = left < MOST_LEFT ? left : MOST_LEFT;
    }
    if (capacity > simulation->capacity || to_prepare) {
        simulation->operations = ft_statistics_prepare(simulation->statistics, capacity, to_prepare);
        simulation->capacity = capacity > simulation->capacity ? capacity : simulation->capacity;
    }
    return simulation->operations || !capacity ? 0 : -1;
}

/* Counts accesses and writes those to the job that must be there. There is room for all. `line_shift` and those behind are
 * of the recent lines. */
static inline __attribute__((always_inline)) void feed_part_of(struct ft_simulation *simulation,
                                                               const struct ft_access *batch, size_t length,
                                                               unsigned line_shift, unsigned set_shift,
                                                               uint64_t set_mask)
{
    struct ft_running *const operations = simulation->operations;
    struct ft_recent_lines *const recent = &simulation->recent;
    struct ft_access *list = simulation->job->accesses + simulation->job->length;
    const unsigned takes_all = simulation->takes_all;
    for (size_t i = 0; i < length; i++) {
        const uint64_t address = batch[i].address, size = batch[i].size_bytes, line = address >> line_shift;
        struct ft_running *op = &operations[batch[i].op];
        if (UNLIKELY(op->last_bytes != size))
            ft_statistics_count_other(simulation->statistics, &batch[i]);
        else
            ft_statistics_move(op, address, size, size);
        *list = batch[i];
        if (UNLIKELY((address ^ (address + size - 1)) >> line_shift)) {
            list += ft_recent_use_several(recent, address, address + size - 1) | takes_all;
            continue;
        }
        uint64_t *used = &recent->lines[address >> set_shift & set_mask];
        list += (*used != line) | takes_all; /* no branch: it could not be foreseen */
        *used = line;
    }
    simulation->job->length = (size_t)(list - simulation->job->accesses);
    simulation->left -= length;
}

/* The usual sets are known to the compiler. */
static void feed_part(struct ft_simulation *simulation, const struct ft_access *batch, size_t length)
{
    const struct ft_recent_lines *recent = &simulation->recent;
    if (recent->line_shift == FT_LINE_SHIFT && recent->set_shift == FT_BLOCK_SHIFT && recent->set_mask == 15)
        feed_part_of(simulation, batch, length, FT_LINE_SHIFT, FT_BLOCK_SHIFT, 15);
    else
        feed_part_of(simulation, batch, length, recent->line_shift, recent->set_shift, recent->set_mask);
}

/* A failure of the worker is told at the next drain. */
int ft_simulation_feed(struct ft_simulation *simulation, const struct ft_access *batch, size_t length)
{
    for (size_t part; length; batch += part, length -= part) {
        uint32_t last = 0;
        if (reserve(simulation, 0, 1))
            return -1;
        const size_t room = FT_JOB_ACCESSES - simulation->job->length;
        part = length < PART_ACCESSES ? length : PART_ACCESSES;
        part = part < room ? part : room;
        part = part < simulation->left ? part : (size_t)simulation->left;
        for (size_t i = 0; i < part; i++)
            last = batch[i].op > last ? batch[i].op : last;
        if (reserve(simulation, (size_t)last + 1, part))
            return -1;
        feed_part(simulation, batch, part);
    }
    return 0;
}

/* In which bits the accesses of an iteration, their first bytes and their last, differ from those of the one before. */
static uint64_t bits_changed(const struct ft_run *run, const uint64_t *words)
{
    uint64_t changed = 0;
    for (size_t j = 0; j < run->num_accesses; j++) {
        const struct ft_run_access *access = &run->accesses[j];
        const uint64_t first = words[access->word] & run->address_mask, size = access->size_bytes;
        const uint64_t before = (words - run->period)[access->word] & run->address_mask;
        changed |= (first ^ before) | ((first + size - 1) ^ (before + size - 1));
    }
    return changed;
}

/* Writes those accesses of an iteration to the job that must be there, with `flags` added. Returns whether all hit if they
 * were made again, and would leave everything as it was. */
static bool filter_iteration(struct ft_simulation *simulation, const struct ft_run *run, const uint64_t *words,
                             uint16_t flags)
{
    struct ft_access *const first = simulation->job->accesses + simulation->job->length, *list = first;
    uint64_t straddles = 0;
    for (size_t j = 0; j < run->num_accesses; j++) {
        *list = ft_run_access_at(run, words, j);
        list->flags |= flags;
        straddles |= list->address ^ (list->address + list->size_bytes - 1);
        list += ft_recent_use(&simulation->recent, list->address, list->size_bytes) | simulation->takes_all;
    }
    simulation->job->length += (size_t)(list - first);
    return run->num_accesses <= simulation->repeatable_lines && straddles >> simulation->recent.line_shift == 0;
}

/* Makes room for an iteration. Returns 0, or -1 when memory ran out. */
static int reserve_iteration(struct ft_simulation *simulation, const struct ft_run *run)
{
    if (simulation->job->num_repeats == FT_JOB_REPEATS)
        end_job(simulation);
    return reserve(simulation, 0, run->num_accesses);
}

/* No cache need see an iteration that touches the lines of the one before. The second one of several that touch the same
 * lines of the smallest size does exactly what those do that follow: `repeat` is where they are counted. */
int ft_simulation_feed_run(struct ft_simulation *simulation, const struct ft_run *run)
{
    if (run->iterations == 0 || run->num_accesses == 0)
        return 0;
    if (ft_statistics_feed_run(simulation->statistics, run))
        return -1;
    simulation->operations = ft_statistics_prepare(simulation->statistics, 0, 0); /* they may have moved */
    const uint64_t *words = run->words;
    struct ft_repeat *repeat = NULL;
    bool is_repeatable = false;
    for (size_t i = 0; i < run->iterations; i++, words += run->period) {
        const struct ft_job *job = simulation->job;
        if (UNLIKELY(simulation->left < run->num_accesses || FT_JOB_ACCESSES - job->length < run->num_accesses ||
                     job->num_repeats == FT_JOB_REPEATS)) {
            if (reserve_iteration(simulation, run))
                return -1;
            repeat = NULL;
        }
        simulation->left -= run->num_accesses;
        const uint64_t changed = is_repeatable && !simulation->takes_all ? bits_changed(run, words) : UINT64_MAX;
        const bool is_known = changed >> simulation->cache_line_shift == 0;
        const bool repeats = changed >> simulation->recent.line_shift == 0;
        if (repeats && repeat) {
            repeat->times++;
            continue;
        }
        const uint32_t begin = (uint32_t)simulation->job->length;
        is_repeatable = filter_iteration(simulation, run, words, is_known ? FT_CACHE_KNOWN : 0);
        repeat = NULL;
        if (repeats) {
            repeat = &simulation->job->repeats[simulation->job->num_repeats++];
            *repeat = (struct ft_repeat){begin, (uint32_t)simulation->job->length, 0};
        }
    }
    return 0;
}

/* Array operations are looked at as a whole, and make others' accesses in their job be looked at, too. */
int ft_simulation_feed_array(struct ft_simulation *simulation, const struct ft_array_run *run)
{
    const uint64_t points = ft_array_run_points(run), accesses = points * run->num_accesses;
    if (ft_statistics_feed_array(simulation->statistics, run))
        return -1;
    simulation->operations = ft_statistics_prepare(simulation->statistics, 0, 0); /* they may have moved */
    if ((!simulation->takes_all && simulation->given > simulation->left) ||
        !ft_workers_take_array(simulation->job, run))
        end_job(simulation);
    const uint64_t fed = simulation->given - simulation->left;
    simulation->takes_all = true;
    simulation->position += accesses;
    simulation->left = simulation->left > accesses ? simulation->left - accesses : 0;
    simulation->given = simulation->left + fed;
    ft_workers_feed_array(simulation->workers, run, ft_statistics_operations(simulation->statistics));
    ft_recent_clear(&simulation->recent);
    return 0;
}

int ft_simulation_drain(struct ft_simulation *simulation)
{
    end_job(simulation);
    simulation->job->num_operations = ft_statistics_operations(simulation->statistics);
    if (ft_workers_drain(simulation->workers))
        return -1;
    simulation->job = ft_workers_job(simulation->workers, 0);
    ft_repeats_settle(simulation->repeats);
    return 0;
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static void set_up(struct ft_simulation *simulation)
{
    unsigned line_shift = ft_cache_line_shift(simulation->cache), set_shift, end;
    ft_cache_set_bits(simulation->cache, &set_shift, &end);
    simulation->cache_line_shift = line_shift;
    simulation->repeatable_lines = ft_cache_repeatable_lines(simulation->cache);
    if (simulation->reuse) {
        line_shift = line_shift < FT_LINE_SHIFT ? line_shift : FT_LINE_SHIFT;
        set_shift = set_shift > FT_BLOCK_SHIFT ? set_shift : FT_BLOCK_SHIFT;
        simulation->period = ft_reuse_next_period(simulation->reuse);
    }
    ft_recent_init(&simulation->recent, line_shift, set_shift, end);
}

struct ft_simulation *ft_simulation_new(struct ft_statistics *statistics, struct ft_cache *cache,
                                        struct ft_reuse *reuse)
{
    struct ft_simulation *simulation = calloc(1, sizeof *simulation);
    void *simulator = simulation;
    struct ft_workers *workers = simulation ? ft_workers_new(simulate, &simulator, 1) : NULL;
    struct ft_repeats *repeats = workers && cache ? ft_repeats_new(cache, reuse) : NULL;
    if (!workers || (cache && !repeats)) {
        if (workers)
            ft_workers_free(workers);
        free(simulation);
        ft_statistics_free(statistics);
        ft_cache_free(cache);
        ft_reuse_free(reuse);
        return NULL;
    }
    simulation->statistics = statistics;
    simulation->cache = cache;
    simulation->repeats = repeats;
    simulation->reuse = reuse;
    simulation->workers = workers;
    simulation->job = ft_workers_job(workers, 0);
    if (cache) /* the caller checks what it hands over after this */
        set_up(simulation);
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
