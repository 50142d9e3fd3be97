/* See simulation.h.
 *
 * The producer counts each access and leaves out those that change nothing (recent_lines.h), but in bursts of reuse.c,
 * which are of all accesses. When one begins and ends is known when the burst before the last is over, so that results
 * do not depend on how far the workers are behind.
 */
#include "foretrace/base/tables.h"
#include "simulation.h"

#include "recent_lines.h"
#include "repeats.h"
#include "workers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define PART_ACCESSES 1024u /* small enough to stay in the first-level cache from one simulator to the next */
#define MOST_LEFT (UINT64_C(1) << 62)

#define MIN_REPEATING 16u /* iterations from which on a run may be one that mostly repeats itself */
#define ITERATIONS_TO_SEE 4u

/* What one worker simulates. */
struct part {
    struct ft_repeats *repeats; /* feeds the caches, or `reuse` */
    struct ft_reuse *reuse;     /* or NULL */
};

enum { CACHES, REUSE, NUM_PARTS };

struct ft_simulation {
    struct ft_statistics *statistics;
    struct ft_cache *cache;
    struct ft_reuse *reuse;
    struct part parts[NUM_PARTS];
    struct ft_workers *workers; /* one for each part that there is */
    struct ft_pending *pending; /* of `statistics`, with room for `capacity` */
    size_t capacity;
    struct ft_recent_lines recent;
    bool has_usual_sets;
    unsigned cache_line_shift;
    size_t repeatable_lines; /* so many stay in every cache, whatever their sets */
    struct ft_job *job;      /* being filled */
    bool takes_all;          /* nothing is left out of it */
    uint64_t position;       /* accesses fed before this job's */
    uint64_t given, left;    /* accesses that the job may be about, and those still to come */
    struct ft_reuse_period period;
    unsigned period_number;
    bool is_adrift;           /* there were array operations, which may have been more than the period */
    unsigned handed;          /* jobs */
    unsigned burst_handed[2]; /* when the burst of the period before was over, and of this one */
};

/* ---- the workers -------------------------------------------------------------------------------------------------- */

/* Returns 0, or -1 when memory ran out. */
static int sample(struct ft_reuse *reuse, const struct ft_job *job)
{
    ft_reuse_sample(reuse, job->accesses, job->length, job->repeats, job->num_repeats);
    return ft_reuse_end_sample(reuse, job->filtered_from);
}

static int simulate_accesses(const struct part *simulated, const struct ft_access *accesses, size_t length)
{
    for (size_t begin = 0; begin < length; begin += PART_ACCESSES) {
        const size_t part = length - begin < PART_ACCESSES ? length - begin : PART_ACCESSES;
        if (ft_repeats_feed(simulated->repeats, accesses + begin, part))
            return -1;
    }
    return 0;
}

static int simulate(void *simulator, const struct ft_job *job)
{
    const struct part *part = simulator;
    size_t done = 0;
    if (ft_repeats_reserve(part->repeats, job->num_operations))
        return -1;
    if (job->filtered_from) {
        ft_repeats_feed_cache(part->repeats, job->accesses, job->length);
        return part->reuse ? sample(part->reuse, job) : 0;
    }
    for (size_t i = 0; i < job->num_arrays; i++) {
        const struct ft_job_array *array = &job->arrays[i];
        if (simulate_accesses(part, job->accesses + done, array->position - done) ||
            ft_repeats_feed_array(part->repeats, &array->run))
            return -1;
        done = array->position;
    }
    return simulate_accesses(part, job->accesses + done, job->length - done);
}

/* ---- sets that the producer tells apart --------------------------------------------------------------------------- */

struct sets {
    unsigned line_shift, set_shift;
    uint64_t set_mask;
};

static const struct sets usual_sets = {FT_LINE_SHIFT, FT_BLOCK_SHIFT, 15};

static struct sets sets_of(const struct ft_recent_lines *recent)
{
    return (struct sets){recent->line_shift, recent->set_shift, recent->set_mask};
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
        simulation->handed = ft_workers_hand_over(simulation->workers);
        if (simulation->takes_all)
            simulation->burst_handed[1] = simulation->handed;
    }
    simulation->position += accesses;
    simulation->given = simulation->left;
    simulation->job = ft_workers_job(simulation->workers, 0);
}

/* Goes on to the next period, which is known when the burst of the one before the last is simulated. */
static void begin_period(struct ft_simulation *simulation)
{
    if (simulation->is_adrift) {
        ft_workers_wait(simulation->workers, simulation->handed);
        simulation->period_number = ft_reuse_period_at_hand(simulation->reuse);
    } else {
        ft_workers_wait(simulation->workers, simulation->burst_handed[simulation->period_number == 0]);
        simulation->period_number++;
    }
    simulation->is_adrift = false;
    simulation->burst_handed[0] = simulation->burst_handed[1];
    simulation->period = ft_reuse_period_of(simulation->reuse, simulation->period_number);
}

/* How many accesses from here on are to be treated alike, `accesses` at least; and how. */
static uint64_t plan(struct ft_simulation *simulation, uint64_t accesses)
{
    const uint64_t position = simulation->position;
    for (;;) {
        const struct ft_reuse_period *period = &simulation->period;
        const uint64_t to_change = FT_REUSE_INTERVAL - position % FT_REUSE_INTERVAL;
        simulation->takes_all = false;
        if (!simulation->reuse)
            return MOST_LEFT;
        uint64_t left = 0; /* outside bursts */
        if (position + accesses <= period->burst_begin)
            left = period->burst_begin - position;
        else if (position + accesses <= period->end && position >= period->burst_end)
            left = period->end - position;
        if (left && to_change == FT_REUSE_INTERVAL) /* what is followed from here on may not have been until here */
            ft_recent_clear(&simulation->recent);
        if (left && accesses <= to_change)
            return left < to_change ? left : to_change;
        simulation->takes_all = true;
        if (left)
            return accesses;
        if (position < period->burst_end)
            return period->burst_end - position > accesses ? period->burst_end - position : accesses;
        if (position < period->end)
            return accesses;
        begin_period(simulation);
        if (simulation->period.end <= position) /* it has run out of memory */
            return MOST_LEFT;
    }
}

/* Makes room for `accesses` more, at most as many as a job has room for, of operations below `capacity`. Returns 0, or
 * -1 when memory ran out. */
static int reserve(struct ft_simulation *simulation, size_t capacity, uint64_t accesses)
{
    if (FT_JOB_ACCESSES - simulation->job->length < accesses)
        end_job(simulation);
    if (simulation->left < accesses) {
        end_job(simulation);
        simulation->given = simulation->left = plan(simulation, accesses);
    }
    if (capacity > simulation->capacity) {
        simulation->pending = ft_statistics_prepare(simulation->statistics, capacity);
        simulation->capacity = simulation->pending ? capacity : 0;
    }
    return simulation->pending || !capacity ? 0 : -1;
}

/* Writes an access to a list if it changes anything, or if all are wanted. Returns the list's new end. `sets` are
 * those of the recent lines. */
static inline __attribute__((always_inline)) struct ft_access *filter(struct ft_recent_lines *recent,
                                                                      struct ft_access *list, uint64_t address,
                                                                      uint64_t size, unsigned takes_all,
                                                                      const struct sets sets)
{
    const uint64_t line = address >> sets.line_shift, last = address + size - 1;
    if (UNLIKELY((address ^ last) >> sets.line_shift))
        return list + (ft_recent_use_several(recent, address, last) | takes_all);
    uint64_t *used = &recent->lines[address >> sets.set_shift & sets.set_mask];
    list += (*used != line) | takes_all; /* no branch: it could not be foreseen */
    *used = line;
    return list;
}

/* Counts accesses and writes those to the job that must be there. There is room for all. */
static inline __attribute__((always_inline)) void
feed_part_of(struct ft_simulation *simulation, const struct ft_access *batch, size_t length, const struct sets sets)
{
    struct ft_pending *const pending = simulation->pending;
    struct ft_access *list = simulation->job->accesses + simulation->job->length;
    const unsigned takes_all = simulation->takes_all;
    for (size_t i = 0; i < length; i++) {
        const uint64_t address = batch[i].address, size = batch[i].size_bytes;
        ft_statistics_count(simulation->statistics, &pending[batch[i].op], batch[i].op, address, batch[i].size_bytes);
        *list = batch[i];
        list = filter(&simulation->recent, list, address, size, takes_all, sets);
    }
    simulation->job->length = (size_t)(list - simulation->job->accesses);
    simulation->left -= length;
}

/* The usual sets are known to the compiler. */
#define WITH_SETS(simulation, call, ...)                                                                               \
    ((simulation)->has_usual_sets ? call(simulation, __VA_ARGS__, usual_sets)                                          \
                                  : call(simulation, __VA_ARGS__, sets_of(&(simulation)->recent)))

static void feed_part(struct ft_simulation *simulation, const struct ft_access *batch, size_t length)
{
    WITH_SETS(simulation, feed_part_of, batch, length);
}

/* A failure of a worker is told at the next drain. */
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
static uint64_t bits_changed(const struct ft_iteration *iteration, const uint64_t *words)
{
    const uint64_t *before = words - iteration->num_words;
    const struct ft_run_access *access = iteration->accesses;
    uint64_t changed = 0;
    for (uint32_t j = iteration->num_accesses; j > 0; j--, access++) {
        const uint64_t now = words[access->word], then = before[access->word], last = access->size_bytes - UINT64_C(1);
        changed |= (now ^ then) | ((now + last) ^ (then + last));
    }
    return changed & iteration->address_mask;
}

/* Whether an iteration mostly touches the lines of the one before, by the looks of a run's first ones. */
static bool mostly_repeats(const struct ft_simulation *simulation, const struct ft_run *run)
{
    const struct ft_iteration *iteration = run->iteration;
    unsigned repeats = 0;
    for (size_t i = 1; i <= ITERATIONS_TO_SEE; i++)
        repeats += bits_changed(iteration, run->words + i * iteration->num_words) >> simulation->recent.line_shift == 0;
    return 2 * repeats >= ITERATIONS_TO_SEE;
}

/* Writes those accesses of an iteration to the job that must be there, with `flags` added. Returns whether some share a
 * set of the recent lines: then these would change again if all happened once more. */
static inline __attribute__((always_inline)) bool filter_iteration(struct ft_simulation *simulation,
                                                                   const struct ft_iteration *iteration,
                                                                   const uint64_t *words, uint16_t flags,
                                                                   bool *is_single_line, const struct sets sets)
{
    struct ft_access *const first = simulation->job->accesses, *list = first + simulation->job->length;
    const unsigned takes_all = simulation->takes_all;
    uint64_t used = 0, shared = 0, straddles = 0;
    static_assert(FT_RECENT_SETS <= 64, "a bit for each set");
    for (uint32_t j = 0; j < iteration->num_accesses; j++) {
        const struct ft_access access = ft_run_access_at(iteration, words, j);
        const uint64_t set = UINT64_C(1) << (access.address >> sets.set_shift & sets.set_mask);
        struct ft_access *const before = list;
        *list = access;
        list->flags |= flags;
        straddles |= access.address ^ (access.address + access.size_bytes - 1);
        list = filter(&simulation->recent, list, access.address, access.size_bytes, takes_all, sets);
        shared |= list > before ? used & set : 0;
        used |= set;
    }
    simulation->job->length = (size_t)(list - first);
    simulation->left -= iteration->num_accesses;
    *is_single_line = straddles >> sets.line_shift == 0 && iteration->num_accesses <= simulation->repeatable_lines;
    return shared;
}

/* How many iterations, of `most` at most, touch the lines of the one before, of the smallest size. */
static size_t count_repeating(const struct ft_simulation *simulation, const struct ft_iteration *iteration,
                              const uint64_t *words, size_t most)
{
    size_t number = 0;
    while (number < most && bits_changed(iteration, words) >> simulation->recent.line_shift == 0) {
        words += iteration->num_words;
        number++;
    }
    return number;
}

/* Makes room for an iteration, and as much once more. Returns 0, or -1 when memory ran out. */
static inline int reserve_two(struct ft_simulation *simulation, const struct ft_iteration *iteration)
{
    if (UNLIKELY(simulation->left < iteration->num_accesses || simulation->job->num_repeats == FT_JOB_REPEATS ||
                 FT_JOB_ACCESSES - simulation->job->length < 2 * iteration->num_accesses)) {
        end_job(simulation);
        return reserve(simulation, 0, iteration->num_accesses);
    }
    return 0;
}

/* How many of `most` iterations are before the end of what is treated alike. */
static inline size_t within_left(const struct ft_simulation *simulation, const struct ft_iteration *iteration,
                                 size_t most)
{
    return simulation->left < most * iteration->num_accesses ? simulation->left / iteration->num_accesses : most;
}

/* Adds to the job that the accesses from `begin` on happened so many times. */
static inline void add_repeat(struct ft_simulation *simulation, size_t begin, size_t times)
{
    simulation->job->repeats[simulation->job->num_repeats++] =
        (struct ft_repeat){(uint32_t)begin, (uint32_t)simulation->job->length, (uint32_t)times - 1};
}

#define MOST_STRIDES 16u
#define MOST_STEP_BITS 16u
#define MOST_STEP (UINT64_C(1) << MOST_STEP_BITS)

/* One access of a run in which each goes on by the same step from iteration to iteration. The bytes that are left for
 * it in its line are the lowest bits of (address ^ turn) + offset, the steps in them that times `reciprocal` / 2^32;
 * `stays` is all bits for an access that has no step. */
struct stride {
    struct ft_access access;
    uint64_t step, turn, offset, reciprocal, stays;
};

static struct stride stride_of(struct ft_access access, uint64_t step)
{
    const bool is_down = step >> 63;
    const uint64_t size = is_down ? -step : step;
    return (struct stride){
        .access = access,
        .step = step,
        .turn = is_down ? 0 : UINT64_MAX,
        .offset = is_down ? 0 : UINT64_C(1) - access.size_bytes,
        .reciprocal =
            size > 0 && size < MOST_STEP ? (UINT64_C(1) << 32) / size + 1 : 0, /* exact for bytes below MOST_STEP */
        .stays = size == 0 ? UINT64_MAX : 0,
    };
}

/* What is known of the iteration at hand of such a run. */
struct at_hand {
    bool is_single_line,
        is_known;   /* each access has one line, of the smallest size; and that of the iteration before, in caches */
    bool is_shared; /* some share a set of the recent lines */
    uint64_t stays; /* so many more iterations touch the same lines, of the smallest size */
};

/* Writes those accesses of an iteration to a list that must be there. Returns the list's new end. */
static inline __attribute__((always_inline)) struct ft_access *
filter_strides(struct ft_recent_lines *recent, struct ft_access *list, const struct stride *strides,
               uint32_t num_strides, unsigned cache_line_shift, struct at_hand *at_hand, const struct sets sets)
{
    const uint64_t in_line = (UINT64_C(1) << sets.line_shift) - 1;
    uint64_t used = 0, shared = 0, straddles = 0, changed = 0, most = UINT64_MAX;
    for (uint32_t j = 0; j < num_strides; j++) {
        const struct stride *stride = &strides[j];
        const uint64_t address = stride->access.address, size = stride->access.size_bytes;
        const uint64_t set = UINT64_C(1) << (address >> sets.set_shift & sets.set_mask);
        const uint64_t left = ((address ^ stride->turn) + stride->offset) & in_line;
        const uint64_t steps = (left * stride->reciprocal >> 32) | stride->stays;
        struct ft_access *const before = list;
        *list = stride->access;
        straddles |= address ^ (address + size - 1);
        changed |= address ^ (address - stride->step);
        most = steps < most ? steps : most;
        list = filter(recent, list, address, size, 0, sets);
        shared |= list > before ? used & set : 0;
        used |= set;
    }
    *at_hand = (struct at_hand){straddles >> sets.line_shift == 0, (changed | straddles) >> cache_line_shift == 0,
                                shared, most};
    return list;
}

/* The same for an iteration that touches the lines of the one before. */
static inline __attribute__((always_inline)) struct ft_access *
filter_known_strides(struct ft_recent_lines *recent, struct ft_access *list, const struct stride *strides,
                     uint32_t num_strides, const struct sets sets)
{
    for (uint32_t j = 0; j < num_strides; j++) {
        *list = strides[j].access;
        list->flags |= FT_CACHE_KNOWN;
        list->address += strides[j].step;
        list = filter(recent, list, list->address, 1, 0, sets);
    }
    return list;
}

/* Whether the lines at hand stay in every cache together; those that are few enough for any set always do. */
static bool stay_together(const struct ft_simulation *simulation, const struct stride *strides, uint32_t number)
{
    uint64_t addresses[MOST_STRIDES];
    for (uint32_t j = 0; j < number; j++)
        addresses[j] = strides[j].access.address;
    return ft_cache_holds_together(simulation->cache, addresses, number);
}

/* The iterations of a run of `number` strides, as long as nothing is in the way. Returns how many it came over. The
 * job's state is kept in registers: a store to its accesses might change it, for all that the compiler knows. */
static inline __attribute__((always_inline)) size_t feed_strides_of(struct ft_simulation *simulation,
                                                                    struct stride *strides, uint32_t number,
                                                                    size_t iterations, bool *is_single_line,
                                                                    const struct sets sets)
{
    struct ft_job *const job = simulation->job;
    struct ft_access *list = job->accesses + job->length, *const last = job->accesses + FT_JOB_ACCESSES - 2 * number;
    struct ft_repeat *repeat = job->repeats + job->num_repeats, *const end = job->repeats + FT_JOB_REPEATS;
    const unsigned cache_line_shift = simulation->cache_line_shift;
    const bool always_stay = number <= simulation->repeatable_lines;
    bool was_single_line = *is_single_line;
    uint64_t left = simulation->left;
    size_t done = 0;
    while (done < iterations && left >= number && repeat < end && list <= last) {
        struct ft_access *const begin = list;
        struct at_hand at_hand;
        list = filter_strides(&simulation->recent, list, strides, number, cache_line_shift, &at_hand, sets);
        if (was_single_line && at_hand.is_known)
            for (struct ft_access *access = begin; access < list; access++)
                access->flags |= FT_CACHE_KNOWN;
        was_single_line = at_hand.is_single_line && (always_stay || stay_together(simulation, strides, number));
        left -= number;
        done++;
        uint64_t times = was_single_line && sets.line_shift <= MOST_STEP_BITS ? at_hand.stays : 0;
        times = times < iterations - done ? times : iterations - done;
        times = left < times * number ? left / number : times;
        if (at_hand.is_shared && times > 0) {
            const uint32_t first = (uint32_t)(list - job->accesses);
            list = filter_known_strides(&simulation->recent, list, strides, number, sets);
            *repeat++ = (struct ft_repeat){first, (uint32_t)(list - job->accesses), (uint32_t)times - 1};
        }
        for (uint32_t j = 0; j < number; j++)
            strides[j].access.address += (times + 1) * strides[j].step;
        left -= times * number;
        done += times;
    }
    job->length = (size_t)(list - job->accesses);
    job->num_repeats = (size_t)(repeat - job->repeats);
    simulation->left = left;
    *is_single_line = was_single_line;
    return done;
}

/* The iterations at `words`, two at least. The compiler knows the usual numbers. */
static inline __attribute__((always_inline)) size_t feed_strides(struct ft_simulation *simulation,
                                                                 const struct ft_iteration *iteration,
                                                                 const uint64_t *words, size_t iterations,
                                                                 bool *is_single_line, const struct sets sets)
{
    const uint32_t number = iteration->num_accesses;
    struct stride strides[MOST_STRIDES];
    for (uint32_t j = 0; j < number; j++) {
        const struct ft_access access = ft_run_access_at(iteration, words, j);
        strides[j] =
            stride_of(access, ft_run_access_at(iteration, words + iteration->num_words, j).address - access.address);
    }
    switch (number) {
    case 1: return feed_strides_of(simulation, strides, 1, iterations, is_single_line, sets);
    case 2: return feed_strides_of(simulation, strides, 2, iterations, is_single_line, sets);
    case 3: return feed_strides_of(simulation, strides, 3, iterations, is_single_line, sets);
    default: return feed_strides_of(simulation, strides, number, iterations, is_single_line, sets);
    }
}

/* No cache need see an iteration that touches the lines of the one before. The first of several that do, and of the
 * smallest size of line, does exactly what those do that follow: nothing, mostly. */
static inline __attribute__((always_inline)) int feed_repeating_run(struct ft_simulation *simulation,
                                                                    const struct ft_run *run, const struct sets sets)
{
    const struct ft_iteration *iteration = run->iteration;
    const uint64_t *words = run->words, *const end = words + run->iterations * iteration->num_words;
    const int is_steady = ft_statistics_feed_run(simulation->statistics, run);
    bool is_single_line =
        false; /* each access of the iteration before has one line, and they stay in the caches together */
    if (is_steady < 0)
        return -1;
    simulation->pending = ft_statistics_prepare(simulation->statistics, 0); /* it may have moved */
    while (words < end) {
        size_t most = (size_t)(end - words) / iteration->num_words;
        if (reserve_two(simulation, iteration))
            return -1;
        if (is_steady && most > 1 && !simulation->takes_all && iteration->num_accesses <= MOST_STRIDES) {
            words += feed_strides(simulation, iteration, words, most, &is_single_line, sets) * iteration->num_words;
            continue;
        }
        const uint64_t changed = is_single_line && !simulation->takes_all ? bits_changed(iteration, words) : UINT64_MAX;
        const uint16_t flags = changed >> simulation->cache_line_shift ? 0 : FT_CACHE_KNOWN;
        const bool is_shared = filter_iteration(simulation, iteration, words, flags, &is_single_line, sets);
        words += iteration->num_words;
        if (simulation->takes_all || !is_single_line)
            continue;
        const size_t times =
            count_repeating(simulation, iteration, words, within_left(simulation, iteration, most - 1));
        if (is_shared && times > 0) {
            const size_t begin = simulation->job->length;
            filter_iteration(simulation, iteration, words, FT_CACHE_KNOWN, &is_single_line, sets);
            simulation->left += iteration->num_accesses;
            add_repeat(simulation, begin, times);
        }
        simulation->left -= times * iteration->num_accesses;
        words += times * iteration->num_words;
    }
    return 0;
}

static __attribute__((noinline)) int feed_repeating(struct ft_simulation *simulation, const struct ft_run *run)
{
    return WITH_SETS(simulation, feed_repeating_run, run);
}

/* How many of some iterations there is room for in the job at hand, one at least. 0 when memory ran out. */
static __attribute__((noinline)) size_t make_room(struct ft_simulation *simulation,
                                                  const struct ft_iteration *iteration, size_t iterations)
{
    if (reserve(simulation, (size_t)iteration->max_op + 1, iteration->num_accesses))
        return 0;
    const uint64_t room = FT_JOB_ACCESSES - simulation->job->length, left = simulation->left;
    const uint64_t most = (room < left ? room : left) / iteration->num_accesses;
    return most < iterations ? (size_t)most : iterations;
}

/* Counts accesses and writes those that change anything to the job that must be there, with room for all. */
static inline __attribute__((always_inline)) void feed_iterations(struct ft_simulation *simulation,
                                                                  const struct ft_iteration *iteration,
                                                                  const uint64_t *words, size_t iterations,
                                                                  unsigned takes_all, const struct sets sets)
{
    struct ft_statistics *const statistics = simulation->statistics;
    struct ft_pending *const pending = simulation->pending;
    struct ft_access *const first = simulation->job->accesses, *list = first + simulation->job->length;
    const uint64_t mask = iteration->address_mask;
    simulation->left -= iterations * iteration->num_accesses;
    for (size_t i = iterations; i > 0; i--, words += iteration->num_words) {
        const struct ft_run_access *access = iteration->accesses;
        for (uint32_t j = iteration->num_accesses; j > 0; j--, access++) {
            const uint64_t address = words[access->word] & mask;
            list->address = address;
            memcpy(&list->op, &access->op, sizeof *list - offsetof(struct ft_access, op));
            ft_statistics_count(statistics, &pending[access->op], access->op, address, access->size_bytes);
            list = filter(&simulation->recent, list, address, access->size_bytes, takes_all, sets);
        }
    }
    simulation->job->length = (size_t)(list - first);
}

static inline __attribute__((always_inline)) int
feed_runs_of(struct ft_simulation *simulation, const struct ft_run *runs, size_t number, const struct sets sets)
{
    for (const struct ft_run *next = runs; next < runs + number; next++) {
        const struct ft_iteration *const iteration = next->iteration;
        if (UNLIKELY(next->iterations >= MIN_REPEATING) && mostly_repeats(simulation, next)) {
            if (feed_repeating(simulation, next))
                return -1;
            continue;
        }
        const uint64_t *words = next->words;
        for (size_t left = next->iterations, part; left > 0; left -= part, words += part * iteration->num_words) {
            const uint64_t accesses = left * iteration->num_accesses;
            part = left;
            if (UNLIKELY(simulation->left < accesses || FT_JOB_ACCESSES - simulation->job->length < accesses ||
                         iteration->max_op >= simulation->capacity) &&
                (part = make_room(simulation, iteration, left)) == 0)
                return -1;
            if (simulation->takes_all)
                feed_iterations(simulation, iteration, words, part, 1, sets);
            else
                feed_iterations(simulation, iteration, words, part, 0, sets);
        }
    }
    return 0;
}

int ft_simulation_feed_runs(struct ft_simulation *simulation, const struct ft_run *runs, size_t number)
{
    return WITH_SETS(simulation, feed_runs_of, runs, number);
}

/* Array operations are looked at as a whole, and make others' accesses in their job be looked at, too. */
int ft_simulation_feed_array(struct ft_simulation *simulation, const struct ft_array_run *run)
{
    const uint64_t points = ft_array_run_points(run), accesses = points * run->num_accesses;
    if (ft_statistics_feed_array(simulation->statistics, run))
        return -1;
    simulation->pending = ft_statistics_prepare(simulation->statistics, 0); /* they may have moved */
    if ((!simulation->takes_all && simulation->given > simulation->left) ||
        !ft_workers_take_array(simulation->job, run))
        end_job(simulation);
    const uint64_t fed = simulation->given - simulation->left;
    simulation->takes_all = simulation->is_adrift = true;
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
    for (size_t i = 0; i < NUM_PARTS; i++)
        if (simulation->parts[i].repeats)
            ft_repeats_settle(simulation->parts[i].repeats);
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
        end = end < FT_REUSE_SET_END ? end : FT_REUSE_SET_END;
        simulation->period = ft_reuse_period_of(simulation->reuse, 0);
    }
    ft_recent_init(&simulation->recent, line_shift, set_shift, end);
    const struct sets sets = sets_of(&simulation->recent);
    simulation->has_usual_sets = sets.line_shift == usual_sets.line_shift && sets.set_shift == usual_sets.set_shift &&
                                 sets.set_mask == usual_sets.set_mask;
}

/* False when memory ran out. */
static bool begin_part(struct part *part, const struct ft_cache *shape, struct ft_cache *cache, struct ft_reuse *reuse)
{
    part->repeats = ft_repeats_new(shape, cache, reuse);
    part->reuse = reuse;
    return part->repeats;
}

/* The same. */
static bool begin_parts(struct ft_simulation *simulation)
{
    struct part *const parts = simulation->parts;
    struct ft_cache *const cache = simulation->cache;
    struct ft_reuse *const reuse = simulation->reuse;
    void *simulators[NUM_PARTS] = {&parts[CACHES], &parts[REUSE]};
    simulation->workers = ft_workers_new(simulate, simulators, reuse ? NUM_PARTS : 1);
    return simulation->workers && (!cache || begin_part(&parts[CACHES], cache, cache, NULL)) &&
           (!cache || !reuse || begin_part(&parts[REUSE], cache, NULL, reuse));
}

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
    if (!begin_parts(simulation)) {
        ft_simulation_free(simulation);
        return NULL;
    }
    simulation->job = ft_workers_job(simulation->workers, 0);
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
    for (size_t i = 0; i < NUM_PARTS; i++)
        ft_repeats_free(simulation->parts[i].repeats);
    ft_cache_free(simulation->cache);
    ft_reuse_free(simulation->reuse);
    free(simulation);
}
