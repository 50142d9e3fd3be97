/* Per operation, one record in `running` of 64 bytes (a cache line) that every access updates, and one in `spilled`.
 *
 * Pattern counters in `running` are 32 bits wide, to fit. They are added to `spilled` before they can overflow: at the
 * latest when SPILL_AFTER accesses have been fed since the last time.
 */
#include "statistics.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define SPILL_AFTER ((UINT64_C(3) << 30) - 1) /* and as many as one call may prepare for do not overflow */
#define MIN_CAPACITY 1024u

struct spilled {
    uint64_t patterns[FT_NUM_PATTERNS];
};

struct ft_statistics {
    struct ft_running *running;
    struct spilled *spilled;
    size_t num_operations, capacity;
    uint64_t until_spill;
};

struct ft_statistics *ft_statistics_new(void)
{
    struct ft_statistics *statistics = calloc(1, sizeof *statistics);
    if (statistics)
        statistics->until_spill = SPILL_AFTER;
    return statistics;
}

void ft_statistics_free(struct ft_statistics *statistics)
{
    if (!statistics)
        return;
    free(statistics->running);
    free(statistics->spilled);
    free(statistics);
}

/* Replaces *array by a larger one whose added part is zero. */
static int grow(void **array, size_t old_count, size_t new_count, size_t bytes)
{
    void *grown = new_count > SIZE_MAX / bytes ? NULL : aligned_alloc(64, (new_count * bytes + 63) / 64 * 64);
    if (!grown)
        return -1;
    if (*array)
        memcpy(grown, *array, old_count * bytes);
    memset((char *)grown + old_count * bytes, 0, (new_count - old_count) * bytes);
    free(*array);
    *array = grown;
    return 0;
}

static int make_room(struct ft_statistics *statistics, size_t num_operations)
{
    size_t old = statistics->capacity, capacity = old * 2 > MIN_CAPACITY ? old * 2 : MIN_CAPACITY;
    if (capacity < num_operations)
        capacity = num_operations;
    void *running = statistics->running, *spilled = statistics->spilled;
    int failed = grow(&running, old, capacity, sizeof(struct ft_running));
    statistics->running = running;
    failed = failed || grow(&spilled, old, capacity, sizeof(struct spilled));
    statistics->spilled = spilled;
    if (failed)
        return -1;
    statistics->capacity = capacity;
    return 0;
}

static void spill(struct ft_statistics *statistics)
{
    for (size_t op = 0; op < statistics->num_operations; op++)
        for (unsigned pattern = 0; pattern < FT_NUM_PATTERNS; pattern++) {
            statistics->spilled[op].patterns[pattern] += statistics->running[op].patterns[pattern];
            statistics->running[op].patterns[pattern] = 0;
        }
    statistics->until_spill = SPILL_AFTER;
}

static uint64_t executions_of(const struct ft_statistics *statistics, size_t op)
{
    uint64_t executions = statistics->running[op].largest_bytes > 0;
    for (unsigned pattern = 0; pattern < FT_NUM_PATTERNS; pattern++)
        executions += statistics->running[op].patterns[pattern] + statistics->spilled[op].patterns[pattern];
    return executions;
}

static void change_size(struct ft_statistics *statistics, struct ft_running *op, const struct ft_access *access)
{
    op->other_bytes += executions_of(statistics, access->op) * ((uint64_t)op->last_bytes - access->size_bytes);
    op->last_bytes = access->size_bytes;
    if (access->size_bytes > op->largest_bytes)
        op->largest_bytes = access->size_bytes;
}

void ft_statistics_count_other(struct ft_statistics *statistics, const struct ft_access *access)
{
    struct ft_running *op = &statistics->running[access->op];
    if (access->op >= statistics->num_operations)
        statistics->num_operations = access->op + 1;
    if (op->largest_bytes) {
        const uint32_t last_bytes = op->last_bytes;
        change_size(statistics, op, access);
        ft_statistics_move(op, access->address, access->size_bytes, last_bytes);
        return;
    }
    op->first = op->last_address = access->address;
    op->last_exclusive = access->address + access->size_bytes;
    op->largest_bytes = op->last_bytes = access->size_bytes;
}

struct ft_running *ft_statistics_prepare(struct ft_statistics *statistics, size_t capacity, uint64_t accesses)
{
    if (capacity > statistics->capacity && make_room(statistics, capacity))
        return NULL;
    if (accesses > statistics->until_spill)
        spill(statistics);
    statistics->until_spill -= accesses;
    return statistics->running;
}

int ft_statistics_reserve(struct ft_statistics *statistics, size_t num_operations)
{
    if (num_operations > statistics->capacity && make_room(statistics, num_operations))
        return -1;
    if (num_operations > statistics->num_operations)
        statistics->num_operations = num_operations;
    return 0;
}

static inline void count(struct ft_statistics *statistics, struct ft_running *op, const struct ft_access *access)
{
    if (op->last_bytes == access->size_bytes)
        ft_statistics_move(op, access->address, access->size_bytes, access->size_bytes);
    else
        ft_statistics_count_other(statistics, access);
}

/* Whether words[0], words[period], ... go on by the operation's last step. */
static bool keeps_step(const struct ft_running *op, const uint64_t *words, const struct ft_run *run, size_t length)
{
    const uint64_t mask = run->address_mask, step = op->last_delta;
    uint64_t differs = (words[0] & mask) ^ (op->last_address + step);
    for (size_t i = 1; i < length; i++)
        differs |= ((words[i * run->period] & mask) - (words[(i - 1) * run->period] & mask)) ^ step;
    return differs == 0;
}

/* `length` accesses of the size of the one before, each one step further on. */
static void count_steps(struct ft_running *op, size_t length)
{
    const uint64_t size = op->last_bytes, delta = op->last_delta;
    const unsigned pattern = delta == 0                          ? FT_REPEATED
                             : delta == size || delta == -size ? FT_UNIT_STRIDE
                                                                 : FT_STRIDED;
    op->patterns[pattern] += (uint32_t)length;
    op->last_address += delta * length;
    if (op->last_address < op->first)
        op->first = op->last_address;
    if (op->last_address + size > op->last_exclusive)
        op->last_exclusive = op->last_address + size;
}

/* What accesses of one size by one operation, seen one by one, change: kept out of memory meanwhile. */
struct column {
    uint64_t size, last, last_delta, lowest, highest;
    uint32_t repeated, unit, strided;
};

static inline struct column begin_column(const struct ft_running *op)
{
    return (struct column){.size = op->last_bytes, .last = op->last_address, .last_delta = op->last_delta,
                           .lowest = op->first, .highest = op->last_exclusive};
}

static inline void count_in(struct column *column, uint64_t address)
{
    const uint64_t delta = address - column->last, end = address + column->size;
    const bool is_next = (delta == column->size) | (delta == -column->size), moves = delta != 0;
    column->repeated += !moves;
    column->unit += is_next;
    column->strided += moves & !is_next & (delta == column->last_delta);
    column->last = address;
    column->last_delta = delta;
    column->lowest = address < column->lowest ? address : column->lowest;
    column->highest = end > column->highest ? end : column->highest;
}

static inline void end_column(struct ft_running *op, const struct column *column, size_t length)
{
    op->last_address = column->last;
    op->last_delta = column->last_delta;
    op->first = column->lowest;
    op->last_exclusive = column->highest;
    op->patterns[FT_REPEATED] += column->repeated;
    op->patterns[FT_UNIT_STRIDE] += column->unit;
    op->patterns[FT_STRIDED] += column->strided;
    op->patterns[FT_IRREGULAR] += (uint32_t)length - column->repeated - column->unit - column->strided;
}

/* `count` for `length` accesses of the size of the one before, at words[0], words[period], ... */
static void count_words(struct ft_running *op, const uint64_t *words, const struct ft_run *run, size_t length)
{
    if (length && keeps_step(op, words, run, length)) {
        count_steps(op, length);
        return;
    }
    struct column column = begin_column(op);
    for (size_t i = 0; i < length; i++)
        count_in(&column, words[i * run->period] & run->address_mask);
    end_column(op, &column, length);
}

int ft_statistics_feed_run(struct ft_statistics *statistics, const struct ft_run *run)
{
    uint32_t capacity = 0;
    for (size_t j = 0; j < run->num_accesses; j++)
        capacity = run->accesses[j].op >= capacity ? run->accesses[j].op + 1 : capacity;
    struct ft_running *running =
        ft_statistics_prepare(statistics, capacity, (uint64_t)run->iterations * run->num_accesses);
    for (size_t j = 0; running && j < run->num_accesses; j++) {
        const struct ft_run_access *column = &run->accesses[j];
        for (size_t i = 0; i < 2 && i < run->iterations; i++) {
            const struct ft_access one = ft_run_access_at(run, run->words + i * run->period, j);
            count(statistics, &running[one.op], &one);
        }
        if (run->iterations > 2)
            count_words(&running[column->op], run->words + column->word + 2 * run->period, run, run->iterations - 2);
    }
    return running ? 0 : -1;
}

/* `length` accesses, each `stride` bytes further on than the one before. */
static void count_row(struct ft_statistics *statistics, struct ft_running *op, struct ft_access access, int64_t stride,
                      uint64_t length)
{
    count(statistics, op, &access);
    if (length == 1)
        return;
    access.address += (uint64_t)stride;
    count(statistics, op, &access);
    if (length > 2)
        count_steps(op, length - 2);
}

#define EXPLICIT_BLOCKS 3u /* from the third on, each begins where and as the one before has ended */

/* The accesses of dimensions `dim` and up. Of many blocks along a dimension, those behind the third change the patterns as
 * the third does. The range is left to the caller. */
static void count_block(struct ft_statistics *statistics, struct ft_running *op, const struct ft_array_run *run,
                        const struct ft_array_access *access, uint32_t dim, struct ft_access first)
{
    const uint64_t extent = run->extent[dim];
    uint32_t before[FT_NUM_PATTERNS];
    if (dim == run->num_dims - 1) {
        count_row(statistics, op, first, access->stride[dim], extent);
        return;
    }
    for (uint64_t i = 0; i < extent && i < EXPLICIT_BLOCKS; i++) {
        memcpy(before, op->patterns, sizeof before);
        count_block(statistics, op, run, access, dim + 1, first);
        first.address += (uint64_t)access->stride[dim];
    }
    if (extent <= EXPLICIT_BLOCKS)
        return;
    for (unsigned pattern = 0; pattern < FT_NUM_PATTERNS; pattern++)
        op->patterns[pattern] += (op->patterns[pattern] - before[pattern]) * (uint32_t)(extent - EXPLICIT_BLOCKS);
    op->last_address += (extent - EXPLICIT_BLOCKS) * (uint64_t)access->stride[dim];
}

static void count_rows(struct ft_statistics *statistics, struct ft_running *op, const struct ft_array_run *run,
                       const struct ft_array_access *access)
{
    uint64_t lowest = access->address, highest = access->address;
    for (uint32_t d = 0; d < run->num_dims; d++) {
        const uint64_t way = (run->extent[d] - 1) * (uint64_t)access->stride[d];
        *(access->stride[d] < 0 ? &lowest : &highest) += way;
    }
    count_block(statistics, op, run, access, 0,
                (struct ft_access){access->address, access->op, access->size_bytes, access->flags});
    op->first = lowest < op->first ? lowest : op->first;
    op->last_exclusive = highest + access->size_bytes > op->last_exclusive ? highest + access->size_bytes
                                                                           : op->last_exclusive;
}

/* `count` for the accesses of an indexed operand but the first two. */
static void count_indexed(struct ft_running *op, const struct ft_array_access *access, const uint64_t *index, size_t length)
{
    struct column column = begin_column(op);
    for (size_t i = 0; i < length; i++)
        count_in(&column, access->address + index[i] * (uint64_t)access->stride[0]);
    end_column(op, &column, length);
}

int ft_statistics_feed_array(struct ft_statistics *statistics, const struct ft_array_run *run)
{
    const uint64_t points = ft_array_run_points(run);
    uint32_t capacity = 0;
    for (uint32_t j = 0; j < run->num_accesses; j++)
        capacity = run->access[j].op >= capacity ? run->access[j].op + 1 : capacity;
    struct ft_running *running = ft_statistics_prepare(statistics, capacity, points * run->num_accesses);
    for (uint32_t j = 0; running && j < run->num_accesses; j++) {
        const struct ft_array_access *access = &run->access[j];
        struct ft_running *op = &running[access->op];
        if (!access->is_indexed) {
            count_rows(statistics, op, run, access);
            continue;
        }
        for (uint64_t i = 0; i < 2 && i < points; i++) {
            struct ft_access one = {access->address + run->index[i] * (uint64_t)access->stride[0], access->op,
                                    access->size_bytes, access->flags};
            count(statistics, op, &one);
        }
        if (points > 2)
            count_indexed(op, access, run->index + 2, points - 2);
    }
    return running ? 0 : -1;
}

size_t ft_statistics_operations(const struct ft_statistics *statistics)
{
    return statistics->num_operations;
}

struct ft_operation ft_statistics_of(const struct ft_statistics *statistics, size_t op)
{
    const struct ft_running *running = &statistics->running[op];
    struct ft_operation total = {.executions = executions_of(statistics, op),
                                 .size_bytes = running->largest_bytes,
                                 .first = running->first,
                                 .last_exclusive = running->last_exclusive};
    total.total_bytes = total.executions * running->last_bytes + running->other_bytes;
    for (unsigned pattern = 0; pattern < FT_NUM_PATTERNS; pattern++)
        total.patterns[pattern] = running->patterns[pattern] + statistics->spilled[op].patterns[pattern];
    return total;
}
